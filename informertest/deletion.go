package informertest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// delete removes an object, or marks it for deletion if it has finalizers or goes gracefully. gone reports whether it was
// removed.
func (c *collection) delete(key informer.Key, options metav1.DeleteOptions,
	opts writeOptions) (obj object, gone bool, err error) {
	if err := c.deletable(key, options, opts); err != nil {
		return nil, false, err
	}
	defer func() { c.changed(key, opts, gone, err) }()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	old, exists := c.cache.Get(key)
	if !exists {
		return old, false, apierrors.NewNotFound(c.resource.GroupResource(), key.Name)
	}
	if err := c.checkPreconditions(old, options.Preconditions); err != nil {
		return old, false, err
	}
	if c.hasLifecycle() {
		if obj, err := c.terminateLocked(old, options, opts); obj != nil || err != nil {
			return obj, false, err
		}
	}
	if c.isGraceful() && !opts.whole && !isDue(old) {
		return c.deleteGracefullyLocked(old, options, opts)
	}
	obj = watchcache.ShallowCopy(old)
	if old.GetDeletionTimestamp() == nil && c.resource.Hooks.Delete != nil && !opts.whole {
		obj = c.deepCopy(old)
		c.resource.Hooks.Delete(obj)
	}
	changed := c.setPropagation(obj, options, opts)
	if len(obj.GetFinalizers()) == 0 {
		c.storeLocked(informer.Removed, obj, opts.dryRun)
		return obj, true, nil
	}
	if old.GetDeletionTimestamp() != nil && !changed {
		return old, false, nil
	}
	c.markDeleted(obj, time.Now(), 0)
	c.storeLocked(informer.Upserted, obj, opts.dryRun)
	return obj, false, nil
}

// deletable returns why a client may not delete an object, by the rules of the namespaces and of webhooks.
func (c *collection) deletable(key informer.Key, options metav1.DeleteOptions, opts writeOptions) error {
	if c.hasLifecycle() && !opts.whole && slices.Contains(immortalNamespaces, key.Name) {
		return apierrors.NewForbidden(c.resource.GroupResource(), key.Name, errImmortal)
	}
	old, exists := c.cache.Get(key)
	if !exists || opts.admission == nil {
		return nil
	}
	write := write{operation: admissionv1.Delete, old: old, dryRun: opts.dryRun, deletion: options}
	if _, err := opts.admission.mutate(write); err != nil {
		return err
	}
	return opts.admission.validate(write)
}

// markDeleted sets the times of the deletion of an object that is to go after a period.
func (c *collection) markDeleted(obj object, now time.Time, seconds int64) {
	if obj.GetDeletionTimestamp() == nil && c.counted() {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	deletion := metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)).Rfc3339Copy()
	if before := obj.GetDeletionTimestamp(); before == nil || deletion.Before(before) {
		obj.SetDeletionTimestamp(&deletion)
	}
	obj.SetDeletionGracePeriodSeconds(&seconds)
}

// keeps reports whether an object that is being deleted stays, though it has no finalizers.
func (c *collection) keeps(obj object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return c.isGraceful() && grace != nil && *grace > 0 || c.hasLifecycle() && len(c.namespace(obj).Spec.Finalizers) > 0
}

// checkPreconditions returns the error of a deletion that expects another object or version. pre may be nil.
func (c *collection) checkPreconditions(old object, pre *metav1.Preconditions) error {
	if pre != nil && pre.UID != nil && *pre.UID != old.GetUID() {
		return c.conflict(old.GetName(),
			fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *pre.UID, old.GetUID()))
	}
	if pre != nil && pre.ResourceVersion != nil && *pre.ResourceVersion != old.GetResourceVersion() {
		return c.conflict(old.GetName(),
			fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *pre.ResourceVersion, old.GetResourceVersion()))
	}
	return nil
}

// returned are the resources whose deletion returns the object, as in kube-apiserver, and not only its name.
var returned = []schema.GroupResource{
	{Resource: "namespaces"},
	{Resource: "persistentvolumeclaims"},
	{Resource: "persistentvolumes"},
	{Resource: "pods"},
	{Resource: "podtemplates"},
	{Resource: "resourcequotas"},
	{Resource: "serviceaccounts"},
	{Resource: "services"},
	{Group: "resource.k8s.io", Resource: "deviceclasses"},
	{Group: "resource.k8s.io", Resource: "devicetaintrules"},
	{Group: "resource.k8s.io", Resource: "resourceclaims"},
	{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"},
	{Group: "resource.k8s.io", Resource: "resourceslices"},
	{Group: "storage.k8s.io", Resource: "csidrivers"},
	{Group: "storage.k8s.io", Resource: "csinodes"},
	{Group: "storage.k8s.io", Resource: "storageclasses"},
	{Group: "storage.k8s.io", Resource: "volumeattachments"},
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"},
}

// orphaned are the resources whose dependents stay if the client does not say what happens to them.
var orphaned = []schema.GroupVersionResource{{Version: "v1", Resource: "replicationcontrollers"}, jobs}

var jobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// warnOrphaned warns a client that deletes Jobs, and does not say what happens to their pods.
func (c *collection) warnOrphaned(w http.ResponseWriter, options metav1.DeleteOptions) {
	if c.resource.GroupVersionResource == jobs && options.PropagationPolicy == nil && orphans(options) == nil {
		warn(w, "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "+
			"or set propagationPolicy=Orphan to suppress this warning")
	}
}

// orphans returns whether dependents stay, in the form that old clients send. Nil means that the client does not say.
func orphans(options metav1.DeleteOptions) *bool {
	//lint:ignore SA1019 the server has to read it
	return options.OrphanDependents
}

// setPropagation gives an object the finalizer that makes the garbage collector treat its dependents as a deletion asks,
// and reports whether that changes anything. As in kube-apiserver, the finalizer stays if no garbage collector runs.
func (c *collection) setPropagation(obj object, options metav1.DeleteOptions, opts writeOptions) bool {
	if opts.whole {
		return false
	}
	before := obj.GetFinalizers()
	var policy metav1.DeletionPropagation
	switch orphan := orphans(options); {
	case orphan != nil && *orphan:
		policy = metav1.DeletePropagationOrphan
	case orphan != nil:
		policy = metav1.DeletePropagationBackground
	case options.PropagationPolicy != nil:
		policy = *options.PropagationPolicy
	case slices.Contains(before, metav1.FinalizerOrphanDependents),
		slices.Contains(before, metav1.FinalizerDeleteDependents):
		return false
	case slices.Contains(orphaned, c.resource.GroupVersionResource):
		policy = metav1.DeletePropagationOrphan
	}
	after := slices.DeleteFunc(slices.Clone(before), func(name string) bool {
		return name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents
	})
	switch policy {
	case metav1.DeletePropagationOrphan:
		after = append(after, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		after = append(after, metav1.FinalizerDeleteDependents)
	}
	if slices.Equal(before, after) {
		return false
	}
	obj.SetFinalizers(after)
	return true
}
