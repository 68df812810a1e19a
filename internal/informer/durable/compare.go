package durable

import (
	"cmp"
	"slices"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
)

// doubtTime is how long a resource must be absent before its objects count as deleted. An informer without objects
// believes discovery at once, although its documents can lack a resource while custom resource definitions change.
// Until then, the informer has tried again. It is also how long a store without a version is in doubt: its selections
// may not agree yet on an object that moves between them, or it has no versions at all.
const doubtTime = time.Minute

// doubt is what a store may lack although it is synced.
type doubt struct {
	lacks func(namespace string) bool // see Store.Lacks
	// absent is when the store was first compared. silent is since when it has been found without a version, and zero if
	// it has one.
	absent, silent time.Time
}

// look notes whether the store has no version, although it had one.
func (d *doubt) look(isSilent bool) {
	now := time.Now()
	if d.absent.IsZero() {
		d.absent = now
	}
	if !isSilent {
		d.silent = time.Time{}
	} else if d.silent.IsZero() {
		d.silent = now
	}
}

// of reports whether the store may lack an object of namespace. absent says that it has none there because the server
// does not serve the resource.
func (d *doubt) of(namespace string, absent bool) bool {
	return d.lacks(namespace) || absent && time.Since(d.absent) < doubtTime ||
		!d.silent.IsZero() && time.Since(d.silent) < doubtTime
}

// load notes an object of the storage. If the store has the same version, it keeps that one, and none of r's memory.
// changed is true if the base does not have r.
func (b *book[T]) load(view View[T], r *snapshotfile.Record, changed bool) (differs bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, same := b.codec.compare(r, view.Get)
	if changed && r.Format&recordAhead == 0 {
		b.changed[key] = struct{}{}
	}
	if r.Format&recordGone != 0 {
		return false, nil
	}
	if obj, ok := view.Get(key); ok && same && r.Format&recordAhead == 0 {
		b.has[object.KeyOf(obj)] = entry[T]{obj: obj} // the strings of the store
		return false, nil
	}
	kept := *r
	kept.Raw = slices.Clone(r.Raw)
	obj, err := b.codec.decode(&kept)
	if err != nil {
		return false, err
	}
	e := entry[T]{obj: obj, stored: &kept}
	if key = object.KeyOf(obj); r.Format&recordAhead != 0 {
		b.owed[key] = append(b.owed[key], e)
		b.noted[idOf(obj)] = struct{}{}
	} else {
		b.has[key] = e
	}
	return true, nil
}

// compare returns the changes from what the handler has to the store; see [deliver.Keeper].
func (b *book[T]) compare(given map[object.Key]T) (changes []deliver.Change[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	view := b.store.View()
	b.doubt.look(view.ResourceVersion() == "" && object.Ordered(b.highest))
	if b.compared {
		return b.clearedLocked(view)
	}
	b.compared = true
	if len(b.has) == 0 {
		changes = make([]deliver.Change[T], 0, view.Len())
	}
	for obj := range view.All() {
		key := object.KeyOf(obj)
		if b.isPastLocked(view, key, obj) {
			if b.hasAnyLocked(key) {
				b.unknown[key] = struct{}{}
			}
			continue
		}
		if c, differs := b.changeLocked(key, obj); differs || given != nil {
			changes = append(changes, c)
		}
	}
	var none T
	for key := range b.keysLocked() {
		if _, ok := view.Get(key); ok {
			continue
		}
		if b.mayExist(view, key) {
			b.unknown[key] = struct{}{}
			continue
		}
		c, _ := b.changeLocked(key, none)
		changes = append(changes, c)
	}
	slices.SortFunc(changes, byKey[T])
	if given != nil {
		for key := range b.keysLocked() {
			given[key] = b.lastLocked(view, key)
		}
	}
	return changes
}

// isPastLocked reports whether obj, which the store has of key, may precede what the handler has or had. The server
// then has a newer version, which cannot be decoded, and obj comes from a warm start that is older than the state. So
// what the handler has may exist, and need not have changed.
func (b *book[T]) isPastLocked(view View[T], key object.Key, obj T) bool {
	if b.highest == "" || view.Undecodable(key) == nil {
		return false
	}
	if !b.hasAnyLocked(key) { // it may have had the deletion of obj
		return !object.Older(b.highest, obj.GetResourceVersion())
	}
	isLater := func(e entry[T]) bool {
		older := object.Older(e.obj.GetResourceVersion(), obj.GetResourceVersion())
		return !older && !object.SameVersion(e.obj, obj)
	}
	have, ok := b.has[key]
	return ok && isLater(have) || slices.ContainsFunc(b.owed[key], isLater)
}

// isPast is isPastLocked for an object that the store has now.
func (b *book[T]) isPast(obj T) bool {
	view := b.store.View()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isPastLocked(view, object.KeyOf(obj), obj)
}

// hasAnyLocked reports whether the handler has or may have an object of key.
func (b *book[T]) hasAnyLocked(key object.Key) bool {
	_, ok := b.has[key]
	return ok || len(b.owed[key]) > 0
}

// keysLocked yields the keys of all objects that the handler has or may have.
func (b *book[T]) keysLocked() func(yield func(object.Key) bool) {
	return func(yield func(object.Key) bool) {
		for key := range b.has {
			if !yield(key) {
				return
			}
		}
		for key := range b.owed {
			if _, ok := b.has[key]; !ok && !yield(key) {
				return
			}
		}
	}
}

// lastLocked returns the object of key that the handler has or may have: if there are several, the one that exists.
func (b *book[T]) lastLocked(view View[T], key object.Key) (last T) {
	now, lives := view.Get(key)
	all := b.owed[key]
	if have, ok := b.has[key]; ok {
		all = append([]entry[T]{have}, all...)
	}
	for _, e := range all {
		if lives && e.obj.GetUID() == now.GetUID() {
			return e.obj
		}
	}
	return all[0].obj
}

// changeLocked returns the change from what the handler has or may have of key to obj, or to nothing if obj is nil.
// If more than one object is deleted, the change has the last one; see handler. If obj is the version that the handler
// has, changeLocked returns a change from obj to itself, and false.
func (b *book[T]) changeLocked(key object.Key, obj T) (c deliver.Change[T], differs bool) {
	gone := func(e entry[T]) bool { return object.IsNil(obj) || e.obj.GetUID() != obj.GetUID() }
	have, ok := b.has[key]
	c = deliver.Change[T]{Key: key, Old: have.obj, New: obj}
	if ok && gone(have) {
		c.Deleted, c.Last = true, have.obj
	}
	for _, e := range b.owed[key] {
		if gone(e) {
			c.Deleted, c.Last = true, e.obj
		}
	}
	switch {
	case object.IsNil(obj):
	case !ok && !c.Deleted && len(b.owed[key]) > 0:
		c.Old = obj // the handler may have it, so a deletion that follows must not cancel this change; see handler.OnUpdate
	case !ok || gone(have):
		c.Added = true
	case b.codec.same(have, obj):
		b.has[key] = entry[T]{obj: obj}
		c.Old = obj
		return c, c.Deleted
	}
	return c, true
}

// clearedLocked returns the deletions of unknown keys that do not exist, as is known now.
func (b *book[T]) clearedLocked(view View[T]) (changes []deliver.Change[T]) {
	var none T
	for key := range b.unknown {
		if _, ok := view.Get(key); ok || b.mayExist(view, key) {
			continue
		}
		delete(b.unknown, key)
		if c, _ := b.changeLocked(key, none); c.Deleted {
			b.cleared[key] = struct{}{}
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, byKey[T])
	return changes
}

// mayExist reports whether the server may have an object that view lacks.
func (b *book[T]) mayExist(view View[T], key object.Key) bool {
	return !b.store.Retired() &&
		(view.Undecodable(key) != nil || b.doubt.of(key.Namespace, view.Absent(key.Namespace)))
}

func byKey[T object.Object](a, b deliver.Change[T]) int {
	return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
}
