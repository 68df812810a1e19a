package informertest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// defaultGracePeriod is the grace period in seconds of a pod without one. In kube-apiserver, it is the field's default.
const defaultGracePeriod = 30

// isGraceful reports whether the objects go gracefully.
func (c *collection) isGraceful() bool {
	return c.server.options.Controllers.GracefulPods && c.resource.GroupVersionResource == pods
}

// isDue reports whether a pod has been marked for deletion without time to stop.
func isDue(obj object) bool {
	left := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && (left == nil || *left == 0)
}

// deleteGracefullyLocked marks a pod for deletion. If its grace period is over and it has no finalizers, it removes the
// pod in a second write.
func (c *collection) deleteGracefullyLocked(old object, options metav1.DeleteOptions,
	opts writeOptions) (obj object, gone bool, err error) {
	seconds, from, changed := c.gracePeriod(old, options)
	if !changed {
		return old, false, nil
	}
	obj = watchcache.ShallowCopy(old)
	c.setPropagation(obj, options, opts)
	c.markDeleted(obj, from, seconds)
	c.storeLocked(informer.Upserted, obj, opts.dryRun)
	if seconds > 0 || len(obj.GetFinalizers()) > 0 {
		return obj, false, nil
	}
	obj = watchcache.ShallowCopy(obj)
	c.storeLocked(informer.Removed, obj, opts.dryRun)
	return obj, true, nil
}

// gracePeriod returns how many seconds a pod has that a client deletes and that is not due, and from when on. It returns
// false if that changes nothing: a pod that is being deleted can only get less time.
func (c *collection) gracePeriod(old object,
	options metav1.DeleteOptions) (seconds int64, from time.Time, changed bool) {
	asked := options.GracePeriodSeconds
	if asked != nil && *asked < 0 {
		asked = new(int64(1))
	}
	if deleted := old.GetDeletionTimestamp(); deleted != nil {
		left := *old.GetDeletionGracePeriodSeconds()
		if asked == nil || *asked >= left {
			return 0, time.Time{}, false
		}
		began := deleted.Add(-time.Duration(left) * time.Second)
		if now := time.Now(); began.Add(time.Duration(*asked) * time.Second).Before(now) {
			return min(*asked, 1), now.Add(-time.Duration(min(*asked, 1)) * time.Second), true
		}
		return *asked, began, true
	}
	var pod corev1.Pod
	if err := c.into(old, &pod); err != nil || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodFailed {
		return 0, time.Now(), true // nothing runs
	}
	switch {
	case asked != nil:
		return *asked, time.Now(), true
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return max(0, *pod.Spec.TerminationGracePeriodSeconds), time.Now(), true
	}
	return defaultGracePeriod, time.Now(), true
}

// stopPods deletes the pods whose grace period is over, and returns when the next one's is, or zero. It knows the pods
// from the changes that it gets.
func (k *controllers) stopPods(batch []change) (next time.Time) {
	if !k.server.options.Controllers.StopPods {
		return next
	}
	for _, change := range batch {
		if !change.c.isGraceful() {
			continue
		}
		if change.old != nil {
			delete(k.stops, change.old.GetUID())
		}
		if obj := change.obj; obj != nil && obj.GetDeletionTimestamp() != nil {
			k.stops[obj.GetUID()] = stop{change.c, informer.KeyOf(obj), obj.GetDeletionTimestamp().Time}
		}
	}
	for uid, stop := range k.stops {
		if now := time.Now(); stop.end.After(now) {
			if next.IsZero() || stop.end.Before(next) {
				next = stop.end
			}
			continue
		}
		delete(k.stops, uid)
		options := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &uid}}
		stop.c.delete(stop.key, options, writeOptions{}) // an error means that it is gone
	}
	return next
}

// stop is the end of the grace period of a pod.
type stop struct {
	c   *collection
	key informer.Key
	end time.Time
}
