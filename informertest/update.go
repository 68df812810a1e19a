package informertest

import (
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// creatable are the kinds of Kubernetes whose updates create a missing object.
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

// updateOrCreate updates an object, or creates a missing one of a creatable kind.
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

// update replaces the object with the key of obj by a copy of obj.
func (c *collection) update(obj object, opts writeOptions) (object, error) {
	obj = c.own(obj)
	if err := c.validate(obj); err != nil {
		return nil, err
	}
	return c.modify(informer.KeyOf(obj), opts, func(object) (object, error) { return obj, nil })
}

// modify replaces the object with that key by the result of change, a new object with the same key. It holds no lock
// meanwhile, because webhooks may call the server. If another write comes first, it begins again.
func (c *collection) modify(key informer.Key, opts writeOptions,
	change func(old object) (object, error)) (_ object, err error) {
	removed := false
	defer func() { c.changed(key, opts, removed, err) }()
	for {
		old, exists := c.cache.Get(key)
		if !exists {
			return nil, apierrors.NewNotFound(c.resource.GroupResource(), key.Name)
		}
		obj, err := c.modified(old, key, opts, change)
		if err != nil {
			return nil, err
		}
		if unchanged(old, obj) {
			return old, nil // as in etcd, an update without changes is no write
		}
		var stored bool
		if stored, removed = c.replace(old, obj, opts); stored {
			return obj, nil
		}
	}
}

// modified returns what is to be stored in the place of old, or why it cannot be.
func (c *collection) modified(old object, key informer.Key, opts writeOptions,
	change func(old object) (object, error)) (object, error) {
	obj, err := change(old)
	if err != nil {
		return nil, err
	}
	if obj, err = c.track(old, c.own(obj), opts); err != nil {
		return nil, err
	}
	write := write{operation: admissionv1.Update, obj: c.own(obj), old: old, dryRun: opts.dryRun}
	if obj, err = mutated(write, opts); err != nil {
		return nil, err
	}
	version := versionOf(obj)
	if version == "" && c.needsVersion() && !opts.whole && opts.subresource != "scale" {
		resource := schema.GroupKind{Group: c.resource.Group, Kind: c.resource.Resource} // not the kind, as in kube-apiserver
		return nil, apierrors.NewInvalid(resource, key.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	if version != "" && version != old.GetResourceVersion() {
		return nil, c.conflict(key.Name,
			"the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, c.conflict(key.Name, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v",
			uid, old.GetUID()))
	}
	switch {
	case opts.part != nil:
		managers := obj.GetManagedFields()
		if obj, err = opts.part(old, obj); err != nil {
			return nil, err
		}
		if c.canApply() {
			obj.SetManagedFields(managers)
		}
	case opts.status:
		obj = c.statusWrite(old, obj)
	case !opts.whole:
		c.copyStatus(obj, old)
		if obj, err = c.retained(obj, old); err != nil {
			return nil, err
		}
	}
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	if !opts.whole && old.GetDeletionTimestamp() != nil { // otherwise, the validation rejects a new one
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if !opts.whole && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	obj.SetGeneration(old.GetGeneration())
	obj.SetResourceVersion(old.GetResourceVersion())
	if !opts.whole {
		c.labelName(obj)
	}
	if !opts.whole && !opts.unchecked {
		if err := c.invalid(key.Name, c.check(obj, old, opts)); err != nil {
			return nil, err
		}
	}
	obj = c.own(obj)
	write.obj = obj
	if err := opts.admission.validate(write); err != nil {
		return nil, err
	}
	if !opts.status && !opts.uncounted && c.counted() && !c.sameSpec(obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	return c.read(obj), nil
}

// versionOf returns the resourceVersion that a client expects, or nothing if it expects none. Like kube-apiserver, it
// takes 0 for none.
func versionOf(obj object) string {
	if version := obj.GetResourceVersion(); version != "0" {
		return version
	}
	return ""
}
