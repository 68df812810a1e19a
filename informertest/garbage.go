package informertest

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// garbage are the changes that the garbage collector works on. It decides as that of kube-controller-manager does, but
// looks for dependents in the collections, and remembers nothing.
type garbage struct {
	*controllers
	gone map[types.UID]bool // the objects that are gone
}

// collectGarbage works on the objects that have changed, their owners, and what depends on those that are gone.
func (k *controllers) collectGarbage(batch []change) {
	if !k.server.options.Controllers.GarbageCollection || len(batch) == 0 {
		return
	}
	g := garbage{k, map[types.UID]bool{}}
	for _, change := range batch {
		if change.obj == nil {
			g.gone[change.old.GetUID()] = true
		}
	}
	for _, change := range batch {
		if change.obj != nil {
			g.examine(change.c, informer.KeyOf(change.obj))
			continue
		}
		for _, ref := range change.old.GetOwnerReferences() { // they may have waited for it
			if c, owner, _ := g.owner(ref, change.old.GetNamespace()); owner != nil && isDeletingDependents(owner) {
				g.examine(c, informer.KeyOf(owner))
			}
		}
	}
	if len(g.gone) > 0 {
		for _, d := range g.dependents(g.gone) {
			g.examine(d.c, informer.KeyOf(d.obj))
		}
	}
}

// examine does what is to be done about an object at present, if anything.
func (g garbage) examine(c *collection, key informer.Key) {
	if c = g.member(c); c == nil {
		return
	}
	obj, ok := c.cache.Get(key)
	switch {
	case !ok:
	case obj.GetDeletionTimestamp() == nil:
		g.collect(c, obj)
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
		for _, d := range g.dependents(map[types.UID]bool{obj.GetUID(): true}) {
			g.disown(d.c, d.obj, func(ref metav1.OwnerReference) bool { return ref.UID == obj.GetUID() })
		}
		g.finish(c, obj, metav1.FinalizerOrphanDependents)
	case isDeletingDependents(obj):
		g.deleteDependents(c, obj)
	}
}

// deleteDependents deletes the dependents that block the deletion of an object. If there are none, it lets the object go.
func (g garbage) deleteDependents(c *collection, obj object) {
	blocked := false
	for _, d := range g.dependents(map[types.UID]bool{obj.GetUID(): true}) {
		if !slices.ContainsFunc(d.obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.UID == obj.GetUID() && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
		}) {
			continue
		}
		blocked = true
		if d.obj.GetDeletionTimestamp() == nil {
			g.collect(d.c, d.obj)
		}
	}
	if !blocked {
		g.finish(c, obj, metav1.FinalizerDeleteDependents)
	}
}

// collect deletes an object that has owners if none of them is left, and else removes its references to those that are
// gone.
func (g garbage) collect(c *collection, obj object) {
	refs := obj.GetOwnerReferences()
	solid, waiting := 0, 0
	leaving := map[types.UID]bool{}
	for _, ref := range refs {
		_, owner, known := g.owner(ref, obj.GetNamespace())
		switch {
		case !known:
			return // nobody can say whether it is gone
		case owner == nil:
			leaving[ref.UID] = true
		case isDeletingDependents(owner):
			leaving[ref.UID] = true
			waiting++
		default:
			solid++
		}
	}
	switch {
	case len(leaving) == 0:
		return
	case solid > 0:
		g.disown(c, obj, func(ref metav1.OwnerReference) bool { return leaving[ref.UID] })
		return
	}
	uid, policy := obj.GetUID(), metav1.DeletePropagationBackground
	switch {
	case waiting > 0 && len(g.dependents(map[types.UID]bool{uid: true})) > 0:
		policy = metav1.DeletePropagationForeground
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy}
	c.delete(informer.KeyOf(obj), options, writeOptions{}) // an error means that it is gone
}

func isDeletingDependents(obj object) bool {
	return obj.GetDeletionTimestamp() != nil && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// owner returns the object that a reference means, or none if it is gone. known is false if the server cannot say whether
// it is, because it does not have the kind.
func (g garbage) owner(ref metav1.OwnerReference, namespace string) (c *collection, obj object, known bool) {
	if g.gone[ref.UID] {
		return nil, nil, true
	}
	g.server.mu.Lock()
	for _, candidate := range g.server.collections {
		if candidate.resource.Kind == ref.Kind && candidate.resource.GroupVersion().String() == ref.APIVersion {
			c = candidate
		}
	}
	g.server.mu.Unlock()
	switch {
	case c == nil, !c.resource.ClusterScoped && namespace == "":
		return nil, nil, false
	case c.resource.ClusterScoped:
		namespace = ""
	}
	obj, ok := c.cache.Get(informer.Key{Namespace: namespace, Name: ref.Name})
	if !ok || obj.GetUID() != ref.UID {
		return nil, nil, true
	}
	return c, obj, true
}

// dependent is an object with an owner.
type dependent struct {
	c   *collection
	obj object
}

// dependents returns the objects that one of these owns.
func (g garbage) dependents(owners map[types.UID]bool) (all []dependent) {
	for _, c := range g.collections() {
		for obj := range c.cache.All() {
			if slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return owners[ref.UID] }) {
				all = append(all, dependent{c, obj})
			}
		}
	}
	return all
}

// disown removes owner references of an object.
func (g garbage) disown(c *collection, obj object, drop func(ref metav1.OwnerReference) bool) {
	g.edit(c, obj, func(changed object) {
		changed.SetOwnerReferences(slices.DeleteFunc(slices.Clone(changed.GetOwnerReferences()), drop))
	})
}

// finish removes a finalizer of an object.
func (g garbage) finish(c *collection, obj object, finalizer string) {
	g.edit(c, obj, func(changed object) {
		changed.SetFinalizers(slices.DeleteFunc(slices.Clone(changed.GetFinalizers()),
			func(name string) bool { return name == finalizer }))
	})
}

// edit changes the metadata of an object. It does nothing if the object is gone.
func (g garbage) edit(c *collection, obj object, change func(changed object)) {
	c.modify(informer.KeyOf(obj), writeOptions{}, func(old object) (object, error) {
		if old.GetUID() != obj.GetUID() {
			return nil, apierrors.NewNotFound(c.resource.GroupResource(), obj.GetName())
		}
		changed := watchcache.ShallowCopy(old)
		change(changed)
		return changed, nil
	})
}
