package informertest

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/watchcache"
)

// statusMetadata lists the kinds of Kubernetes whose status subresource also writes metadata, with the fields that it
// leaves alone. For all other kinds, custom resources included, it writes only the status.
var statusMetadata = map[schema.GroupKind]struct{ labels, ownerReferences bool }{
	{Kind: "Namespace"}:                                               {},
	{Kind: "Node"}:                                                    {},
	{Kind: "PersistentVolume"}:                                        {},
	{Kind: "PersistentVolumeClaim"}:                                   {},
	{Kind: "Pod"}:                                                     {ownerReferences: true},
	{Kind: "ReplicationController"}:                                   {},
	{Kind: "ResourceQuota"}:                                           {},
	{Kind: "Service"}:                                                 {},
	{Group: "apps", Kind: "DaemonSet"}:                                {},
	{Group: "apps", Kind: "Deployment"}:                               {labels: true},
	{Group: "apps", Kind: "ReplicaSet"}:                               {},
	{Group: "apps", Kind: "StatefulSet"}:                              {},
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           {},
	{Group: "batch", Kind: "CronJob"}:                                 {},
	{Group: "batch", Kind: "Job"}:                                     {},
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: {},
	{Group: "networking.k8s.io", Kind: "Ingress"}:                     {},
	{Group: "policy", Kind: "PodDisruptionBudget"}:                    {},
}

// statusWrite returns old after a write of obj to the status subresource.
func (c *collection) statusWrite(old, obj object) object {
	merged := watchcache.ShallowCopy(old)
	c.copyStatus(merged, obj)
	if c.canApply() {
		merged.SetManagedFields(obj.GetManagedFields()) // otherwise nobody has set them
	}
	kept, written := statusMetadata[c.groupKind()]
	if !written {
		return merged
	}
	merged.SetGenerateName(obj.GetGenerateName())
	merged.SetAnnotations(obj.GetAnnotations())
	merged.SetFinalizers(obj.GetFinalizers())
	if !kept.labels {
		merged.SetLabels(obj.GetLabels())
	}
	if !kept.ownerReferences {
		merged.SetOwnerReferences(obj.GetOwnerReferences())
	}
	return merged
}

// owned returns which fields a write to a subresource, or to the object itself, can own.
func (c *collection) owned(subresource string) ownedFields {
	switch {
	case subresource == ephemeralContainersSubresource.name:
		return ownedFields{only: []string{"spec", "ephemeralContainers"}}
	case subresource == approvalSubresource.name:
		return ownedFields{except: [][]string{{"spec"}}}
	case !c.resource.StatusSubresource:
		return ownedFields{}
	case subresource == "status":
		return ownedFields{except: c.ignoredByStatus()}
	}
	return ownedFields{except: [][]string{{"status"}}}
}

// ignoredByStatus returns the paths of the fields that a writer of the status subresource does not own.
func (c *collection) ignoredByStatus() [][]string {
	ignored := [][]string{{"spec"}}
	kept, written := statusMetadata[c.groupKind()]
	switch {
	case !written:
		return append(ignored, []string{"metadata"})
	case kept.labels:
		return append(ignored, []string{"metadata", "labels"})
	case kept.ownerReferences:
		return append(ignored, []string{"metadata", "ownerReferences"})
	}
	return ignored
}
