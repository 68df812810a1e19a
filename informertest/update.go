package informertest

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
)

// conditional are the kinds of Kubernetes whose updates need a resourceVersion. kube-apiserver's strategies for these
// allow no unconditional updates.
var conditional = map[schema.GroupKind]bool{
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}:          true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:                 true,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             true,
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:                        true,
	{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}:                     true,
	{Group: "coordination.k8s.io", Kind: "Lease"}:                                     true,
	{Group: "coordination.k8s.io", Kind: "LeaseCandidate"}:                            true,
	{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:                      true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                      true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                                    true,
	{Group: "resource.k8s.io", Kind: "ResourcePoolStatusRequest"}:                     true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                      true,
	{Group: "storage.k8s.io", Kind: "CSINode"}:                                        true,
	{Group: "storage.k8s.io", Kind: "CSIStorageCapacity"}:                             true,
	{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:                               true,
	{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}:               true,
}

// needsVersion reports whether an update needs a resourceVersion.
func (c *collection) needsVersion() bool { return c.custom || conditional[c.groupKind()] }

// creatable are the kinds of Kubernetes of which an update creates the object if there is none.
var creatable = map[schema.GroupKind]bool{
	{Kind: "Endpoints"}:  true,
	{Kind: "Event"}:      true,
	{Kind: "LimitRange"}: true,
	{Kind: "Service"}:    true,
	{Group: "coordination.k8s.io", Kind: "Lease"}:                    true,
	{Group: "coordination.k8s.io", Kind: "LeaseCandidate"}:           true,
	{Group: "events.k8s.io", Kind: "Event"}:                          true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                     true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
}

// updateOrCreate updates an object. It creates one that does not exist, if kube-apiserver does so for the kind.
func (c *collection) updateOrCreate(obj object, opts writeOptions) (_ object, code int, err error) {
	key := informer.KeyOf(obj)
	for range createTries {
		updated, err := c.update(obj, opts)
		_, exists := c.cache.Get(key)
		if exists || opts.subresource != "" || opts.status || !creatable[c.groupKind()] || !apierrors.IsNotFound(err) {
			return updated, http.StatusOK, err
		}
		if uid := obj.GetUID(); uid != "" {
			return nil, 0, c.conflict(key.Name, fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: ", uid))
		}
		obj.SetResourceVersion("") // as in kube-apiserver
		created, err := c.create(obj, opts)
		if !apierrors.IsAlreadyExists(err) { // otherwise somebody else was first
			return created, http.StatusCreated, err
		}
	}
	return nil, 0, c.conflict(key.Name, "it was created and deleted again during the update")
}

// versionOf returns the resourceVersion that a client expects, or nothing if it expects none. Like kube-apiserver, it
// takes 0 for none.
func versionOf(obj object) string {
	if version := obj.GetResourceVersion(); version != "0" {
		return version
	}
	return ""
}
