package durable

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
)

// book has the objects that a handler has acknowledged. It is safe for concurrent use.
//
// The storage must also know an addition before the handler receives it. Otherwise the process could end between the
// call and the next save, and the object could be deleted meanwhile: nothing would then show that the handler has it.
// So an addition waits until a save has noted it. A save notes all additions of the backlog.
type book[T object.Object] struct {
	store Store[T]
	codec *codec[T]
	wake  chan struct{} // holds a token if there may be something to save
	saves run.Broadcast // sent after a save

	mu       sync.Mutex // protects the fields below
	has      map[object.Key]entry[T]
	owed     map[object.Key][]entry[T] // additions that an earlier process had noted, and that are not settled
	changed  map[object.Key]struct{}   // keys that the base in the storage has otherwise
	unknown  map[object.Key]struct{}   // keys of has or owed that the store lacks although they may exist
	cleared  map[object.Key]struct{}   // keys that were unknown and do not exist, whose deletions wait for the handler
	noted    map[id]struct{}           // additions that the storage has
	underWay T                         // the addition that the handler is receiving, or nil
	waits    bool                      // underWay is not noted
	waiting  map[id]T                  // additions that waited behind an addition that was not noted
	tried    map[id]struct{}           // deletions of this process that the handler has not acknowledged
	unsaved  bool                      // something was acknowledged since the last save began
	highest  string                    // the highest resource version that was acknowledged
	compared bool
	doubt    doubt
	initial  bool // the handler has not yet had all objects of the first start
}

// entry is an acknowledged object. obj is nearly always the one of the store, so that an entry takes little memory.
type entry[T object.Object] struct {
	obj    T
	stored *snapshotfile.Record // what obj was decoded from, if the storage has it; nil for an object of the store
}

// id identifies an object.
type id struct {
	key object.Key
	uid types.UID
}

func idOf[T object.Object](obj T) id { return id{object.KeyOf(obj), obj.GetUID()} }

func newBook[T object.Object](store Store[T], codec *codec[T]) *book[T] {
	return &book[T]{
		store:   store,
		codec:   codec,
		wake:    make(chan struct{}, 1),
		has:     map[object.Key]entry[T]{},
		owed:    map[object.Key][]entry[T]{},
		changed: map[object.Key]struct{}{},
		unknown: map[object.Key]struct{}{},
		cleared: map[object.Key]struct{}{},
		noted:   map[id]struct{}{},
		tried:   map[id]struct{}{},
		initial: true,
	}
}

// announce is called before the addition of obj. It returns nil if the storage knows of it. Otherwise it returns a
// channel that is closed after the next save. That save also notes what behind returns: the objects that wait behind
// obj.
func (b *book[T]) announce(obj T, behind func() []T) (wait <-chan struct{}) {
	if b.begins(obj) {
		return nil
	}
	waiting := map[id]T{}
	for _, next := range behind() {
		waiting[idOf(next)] = next
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits = !b.isNotedLocked(obj); !b.waits {
		return nil
	}
	b.waiting = waiting
	run.Signal(b.wake)
	return b.saves.Next()
}

// begins notes that the addition of obj begins, and reports whether the storage knows of it.
func (b *book[T]) begins(obj T) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.underWay = obj
	return b.isNotedLocked(obj)
}

// owe notes that the handler may have obj: its addition has not returned, but has begun.
func (b *book[T]) owe(obj T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.oweLocked(entry[T]{obj: obj})
	b.underWay, b.waits = *new(T), false
}

func (b *book[T]) oweLocked(e entry[T]) {
	key := object.KeyOf(e.obj)
	b.owed[key] = append(without(b.owed[key], e.obj.GetUID()), e)
	b.noted[idOf(e.obj)] = struct{}{} // it was before the addition
}

// try notes that the deletion of obj begins. It returns false if the handler has not acknowledged an earlier one, for
// example because of a panic: the next process repeats that.
func (b *book[T]) try(obj T) bool {
	i := idOf(obj)
	b.mu.Lock()
	defer b.mu.Unlock()
	_, again := b.tried[i]
	b.tried[i] = struct{}{}
	delete(b.cleared, i.key)
	return !again
}

// isNotedLocked reports whether the storage knows that the handler may have obj.
func (b *book[T]) isNotedLocked(obj T) bool {
	i := idOf(obj)
	if _, ok := b.noted[i]; ok {
		return true
	}
	have, ok := b.has[i.key]
	return ok && have.obj.GetUID() == i.uid
}

// acknowledge notes that the handler has obj.
func (b *book[T]) acknowledge(obj T) {
	key := object.KeyOf(obj)
	b.mu.Lock()
	defer b.mu.Unlock()
	if have, ok := b.has[key]; ok && object.Same(have.obj, obj) { // a resync
		return
	}
	if have, ok := b.has[key]; ok && have.obj.GetUID() != obj.GetUID() { // its deletion is not acknowledged
		b.oweLocked(have)
	}
	b.has[key] = entry[T]{obj: obj}
	b.noteLocked(obj)
}

// forget notes that the handler knows of the deletion of last.
func (b *book[T]) forget(last T) {
	key := object.KeyOf(last)
	b.mu.Lock()
	defer b.mu.Unlock()
	if have, ok := b.has[key]; ok && have.obj.GetUID() == last.GetUID() {
		delete(b.has, key)
	}
	b.noteLocked(last)
}

// noteLocked notes that the handler has received obj or its deletion.
func (b *book[T]) noteLocked(obj T) {
	key, none := object.KeyOf(obj), *new(T)
	b.underWay, b.waits = none, false
	delete(b.unknown, key)
	delete(b.cleared, key)
	delete(b.waiting, idOf(obj))
	delete(b.tried, idOf(obj))
	b.changed[key] = struct{}{}
	if owed, ok := b.owed[key]; ok {
		b.owed[key] = without(owed, obj.GetUID())
		if len(b.owed[key]) == 0 {
			delete(b.owed, key)
		}
	}
	if version := obj.GetResourceVersion(); object.Older(b.highest, version) {
		b.highest = version
	}
	if !b.unsaved {
		b.unsaved = true
		run.Signal(b.wake)
	}
}

// without returns a copy of entries without the object with that UID.
func without[T object.Object](entries []entry[T], uid types.UID) (others []entry[T]) {
	for _, e := range entries {
		if e.obj.GetUID() != uid {
			others = append(others, e)
		}
	}
	return others
}

// take returns the acknowledged object of key if the store lacked it, although it could exist, until the handler's
// present change.
func (b *book[T]) take(key object.Key) (e entry[T], ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, unknown := b.unknown[key]
	if _, cleared := b.cleared[key]; !unknown && !cleared {
		return e, false
	}
	delete(b.unknown, key)
	delete(b.cleared, key)
	e, ok = b.has[key]
	return e, ok
}

// acknowledged reports whether the handler has a version of obj.
func (b *book[T]) acknowledged(obj T) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	have, ok := b.has[object.KeyOf(obj)]
	return ok && have.obj.GetUID() == obj.GetUID()
}

// later returns a later version of last that the handler has: the store can have an older one; see isPastLocked.
func (b *book[T]) later(last T) (obj T, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := object.KeyOf(last)
	have, ok := b.has[key]
	_, unknown := b.unknown[key]
	return have.obj, ok && unknown && have.obj.GetUID() == last.GetUID() &&
		object.Older(last.GetResourceVersion(), have.obj.GetResourceVersion())
}

// mayHave reports whether the handler has obj or may have it.
func (b *book[T]) mayHave(obj T) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mayHaveLocked(idOf(obj))
}

func (b *book[T]) mayHaveLocked(i id) bool {
	same := func(e entry[T]) bool { return e.obj.GetUID() == i.uid }
	have, ok := b.has[i.key]
	return ok && same(have) || slices.ContainsFunc(b.owed[i.key], same)
}

// others returns the objects with the key of last that the handler has, or may have, that are gone, and whose deletions
// come before last.
func (b *book[T]) others(last T) (all []T) {
	key := object.KeyOf(last)
	b.mu.Lock()
	defer b.mu.Unlock()
	have, ok := b.has[key]
	if !ok && len(b.owed[key]) == 0 {
		return nil
	}
	now, lives := b.store.View().Get(key)
	gone := func(obj T) bool {
		return obj.GetUID() != last.GetUID() && (!lives || obj.GetUID() != now.GetUID())
	}
	if ok && gone(have.obj) {
		all = append(all, have.obj)
	}
	for _, e := range b.owed[key] {
		if gone(e.obj) {
			all = append(all, e.obj)
		}
	}
	return all
}

// first reports whether additions are initial ones.
func (b *book[T]) first() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.initial
}

// len returns the number of acknowledged objects, and of keys that are unknown. ok is false after drop.
func (b *book[T]) len() (all, unknown int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.has), len(b.unknown), b.has != nil
}

// ask asks what the store lacks, before a comparison.
func (b *book[T]) ask() {
	lacks := b.store.Lacks()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubt.lacks = lacks
}

// drop drops all objects.
func (b *book[T]) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.has, b.owed, b.changed, b.unknown, b.cleared = nil, nil, nil, nil, nil
	b.noted, b.waiting, b.tried = nil, nil, nil
	b.store, b.doubt, b.underWay = Store[T]{}, doubt{}, *new(T)
}
