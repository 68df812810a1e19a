package informertest

import (
	"cmp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// garbage is the work of the garbage collector on some changes. It decides as that of kube-controller-manager does.
type garbage struct {
	*controllers
	gone     map[types.UID]bool // the objects that are gone
	examined map[objectRef]bool // the objects that have had their turn
}

// objectRef refers to an object, in whatever version of its kind it is served.
type objectRef struct {
	kin *kin
	key informer.Key
}

// owned are the objects that have owners, by the UID of each owner.
type owned map[types.UID]map[objectRef]bool

// note notes a change.
func (o owned) note(change change) {
	if old := change.old; old != nil {
		for _, ref := range old.GetOwnerReferences() {
			delete(o[ref.UID], objectRef{change.c.kin, informer.KeyOf(old)})
			if len(o[ref.UID]) == 0 {
				delete(o, ref.UID)
			}
		}
	}
	if obj := change.obj; obj != nil {
		for _, ref := range obj.GetOwnerReferences() {
			if o[ref.UID] == nil {
				o[ref.UID] = map[objectRef]bool{}
			}
			o[ref.UID][objectRef{change.c.kin, informer.KeyOf(obj)}] = true
		}
	}
}

// collectGarbage works on the objects that have changed, the owners that may have waited for them, and what depends on
// those that are gone.
func (k *controllers) collectGarbage(batch []change) {
	if !k.server.options.Controllers.GarbageCollection || len(batch) == 0 {
		return
	}
	g := garbage{k, map[types.UID]bool{}, map[objectRef]bool{}}
	for _, change := range batch {
		k.owned.note(change)
		if change.old != nil {
			g.gone[change.old.GetUID()] = true
		}
		if change.obj != nil {
			delete(g.gone, change.obj.GetUID())
		}
	}
	for _, change := range batch {
		if change.obj != nil {
			g.examine(objectRef{change.c.kin, informer.KeyOf(change.obj)})
		}
		if change.old != nil {
			g.examineUnblocked(change)
		}
		if change.old != nil && g.gone[change.old.GetUID()] {
			for _, d := range g.dependents(change.old.GetUID()) {
				g.examine(d.ref)
			}
		}
	}
}

// examineUnblocked examines the owners whose deletion an object blocked before a change and does not block any more.
func (g garbage) examineUnblocked(change change) {
	for _, ref := range change.old.GetOwnerReferences() {
		if !isBlocking(ref) || change.obj != nil && blocks(change.obj, ref.UID) {
			continue
		}
		if c, owner, _ := g.owner(ref, change.old.GetNamespace()); owner != nil && isDeletingDependents(owner) {
			g.examine(objectRef{c.kin, informer.KeyOf(owner)})
		}
	}
}

// examine does what is to be done about an object at present, if anything.
func (g garbage) examine(ref objectRef) {
	if g.examined[ref] {
		return
	}
	g.examined[ref] = true
	c, obj := g.get(ref)
	switch {
	case obj == nil:
	case obj.GetDeletionTimestamp() == nil:
		g.collect(c, obj)
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
		g.orphan(c, obj)
	case isDeletingDependents(obj):
		g.deleteDependents(c, obj)
	}
}

// orphan removes the references to an object, and then lets the object go. If a reference stays, so does the object,
// until its next change.
func (g garbage) orphan(c *collection, obj object) {
	for _, d := range g.dependents(obj.GetUID()) {
		err := g.disown(d.c, d.obj, func(ref metav1.OwnerReference) bool { return ref.UID == obj.GetUID() })
		if err != nil && !apierrors.IsNotFound(err) {
			return
		}
	}
	g.finish(c, obj, metav1.FinalizerOrphanDependents)
}

// deleteDependents deletes the dependents of an object. If none of them blocks its deletion, it lets the object go.
func (g garbage) deleteDependents(c *collection, obj object) {
	blocked := false
	for _, d := range g.dependents(obj.GetUID()) {
		blocked = blocked || blocks(d.obj, obj.GetUID())
		if d.obj.GetDeletionTimestamp() == nil {
			g.examine(d.ref)
		}
	}
	if !blocked {
		g.finish(c, obj, metav1.FinalizerDeleteDependents)
	}
}

// collect deletes an object that has owners if none of them is left, and else removes its references to those that are
// gone.
func (g garbage) collect(c *collection, obj object) {
	solid, waiting := 0, 0
	leaving := map[types.UID]bool{}
	for _, ref := range obj.GetOwnerReferences() {
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
		g.disown(c, obj, func(ref metav1.OwnerReference) bool { return leaving[ref.UID] }) // an error means that it is gone
		return
	}
	uid, policy := obj.GetUID(), g.policy(c, obj, waiting > 0)
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy}
	c.delete(informer.KeyOf(obj), options, writeOptions{}) // an error means that it is gone
}

// policy returns how to delete an object without owners. waiting means that owners wait for its deletion.
func (g garbage) policy(c *collection, obj object, waiting bool) metav1.DeletionPropagation {
	dependents := g.dependents(obj.GetUID())
	switch {
	case waiting && len(dependents) > 0:
		// In a cycle of owners, each would wait for the next one. So this one does not block its owners.
		if slices.ContainsFunc(dependents, func(d dependent) bool { return isDeletingDependents(d.obj) }) {
			g.unblock(c, obj)
		}
		return metav1.DeletePropagationForeground
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

func isDeletingDependents(obj object) bool {
	return obj.GetDeletionTimestamp() != nil && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

func isBlocking(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// blocks reports whether an object blocks the deletion of an owner in the foreground.
func blocks(obj object, owner types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(),
		func(ref metav1.OwnerReference) bool { return ref.UID == owner && isBlocking(ref) })
}

// owner returns the object that a reference means, or none if it is gone. known is false if the server cannot say
// whether it is, because it does not have the kind.
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

// get returns an object at present, or nil if it is gone.
func (g garbage) get(ref objectRef) (*collection, object) {
	c := g.member(ref.kin)
	if c == nil {
		return nil, nil
	}
	obj, ok := c.cache.Get(ref.key)
	if !ok {
		return c, nil
	}
	return c, obj
}

// dependent is an object with an owner.
type dependent struct {
	ref objectRef
	c   *collection
	obj object
}

// dependents returns the objects of an owner, by their resources and keys.
func (g garbage) dependents(owner types.UID) (all []dependent) {
	for ref := range g.owned[owner] {
		c, obj := g.get(ref)
		if obj != nil && slices.ContainsFunc(obj.GetOwnerReferences(),
			func(ref metav1.OwnerReference) bool { return ref.UID == owner }) {
			all = append(all, dependent{ref, c, obj})
		}
	}
	slices.SortFunc(all, func(a, b dependent) int {
		return cmp.Or(cmp.Compare(a.c.resource.String(), b.c.resource.String()),
			cmp.Compare(a.ref.key.Namespace, b.ref.key.Namespace), cmp.Compare(a.ref.key.Name, b.ref.key.Name))
	})
	return all
}

// disown removes owner references of an object.
func (g garbage) disown(c *collection, obj object, drop func(ref metav1.OwnerReference) bool) error {
	return g.edit(c, obj, func(changed object) {
		changed.SetOwnerReferences(slices.DeleteFunc(slices.Clone(changed.GetOwnerReferences()), drop))
	})
}

// unblock makes an object block the deletion of no owner.
func (g garbage) unblock(c *collection, obj object) {
	g.edit(c, obj, func(changed object) {
		refs := slices.Clone(changed.GetOwnerReferences())
		for i := range refs {
			if isBlocking(refs[i]) {
				refs[i].BlockOwnerDeletion = new(false)
			}
		}
		changed.SetOwnerReferences(refs)
	})
}

// finish removes a finalizer of an object.
func (g garbage) finish(c *collection, obj object, finalizer string) {
	g.edit(c, obj, func(changed object) {
		changed.SetFinalizers(slices.DeleteFunc(slices.Clone(changed.GetFinalizers()),
			func(name string) bool { return name == finalizer }))
	})
}

// edit changes the metadata of an object. A Collection may have stored the object, so it need not be valid. The error
// is NotFound if the object is gone.
func (g garbage) edit(c *collection, obj object, change func(changed object)) error {
	options := writeOptions{unchecked: true}
	_, err := c.modify(informer.KeyOf(obj), options, func(old object) (object, error) {
		if old.GetUID() != obj.GetUID() {
			return nil, apierrors.NewNotFound(c.resource.GroupResource(), obj.GetName())
		}
		changed := watchcache.ShallowCopy(old)
		change(changed)
		return changed, nil
	})
	return err
}
