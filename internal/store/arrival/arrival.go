// Package arrival calls a function when a store has reached a resource version, or when an object is gone from it.
// Nothing polls, and no goroutine waits.
package arrival

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

// State is a state of a store.
type State interface {
	// Version returns the resource version up to which the store has every change of a namespace.
	Version(namespace string) string
	// Object returns the UID and the resource version of the object with that key, or nothing if there is none.
	Object(key object.Key) (uid types.UID, version string)
}

// Want says what to wait for: the write of an object, which returned Version, or its deletion.
type Want struct {
	Key object.Key
	// Version is reached when the store has every change of the key's namespace until then. Empty is always reached.
	Version string
	UID     types.UID
	// Gone means that the object with that UID has to be gone, and Version reached if the store did not have the object
	// when the wait began. Otherwise, this version of the object, or a later one, suffices.
	Gone bool
	// Leaves means that it also suffices if the object with that UID is gone: the store has it no more after the write.
	Leaves bool
}

// In reports whether s has w.
func (w Want) In(s State) bool {
	reached := w.Version == "" || object.Reached(s.Version(w.Key.Namespace), w.Version)
	if reached && !w.Gone {
		return true
	}
	uid, version := s.Object(w.Key)
	gone := uid != w.UID
	if w.Gone {
		return gone && reached
	}
	return gone && w.Leaves || object.Reached(version, w.Version)
}

// Board has what others wait for in one store. The zero value is ready to use. All methods are safe for concurrent use.
//
// Invariant: a Wait is called once, by the Board that has it, unless Cancel comes first. A caller of Add publishes what
// it waits for before it looks at the state of the store, and the store publishes its state before it looks at the
// board, so one of them sees the other's.
type Board struct {
	waiting atomic.Int64 // the number of waits: the store looks at it for each state
	mu      sync.Mutex   // protects the fields below
	// keys has all waits, by key. versions has those that wait for a resource version, by namespace, the lowest version
	// first.
	keys     map[object.Key][]*Wait
	versions map[string][]*Wait
}

// Wait is a function that waits in a Board.
type Wait struct {
	want   Want
	notify func()
}

// Add makes the board call notify once, when the store has want. If the store has it already, Add returns nil, and the
// board never calls notify. state returns the present state of the store. notify must not block, and must not call
// methods of the board.
func (b *Board) Add(want Want, state func() State, notify func()) *Wait {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Add(1) // before the look at the state
	now := state()
	if want.In(now) {
		b.waiting.Add(-1)
		return nil
	}
	if uid, _ := now.Object(want.Key); want.Gone && uid == want.UID {
		want.Version = "" // once it is gone, no earlier version of it can come
	}
	w := &Wait{want, notify}
	if b.keys == nil {
		b.keys, b.versions = map[object.Key][]*Wait{}, map[string][]*Wait{}
	}
	b.keys[want.Key] = append(b.keys[want.Key], w)
	if want.Version != "" {
		waits := b.versions[want.Key.Namespace]
		b.versions[want.Key.Namespace] = slices.Insert(waits, after(waits, want.Version), w)
	}
	return w
}

// after returns the index in waits behind those for version.
func after(waits []*Wait, version string) int {
	return sort.Search(len(waits), func(i int) bool { return object.Older(version, waits[i].want.Version) })
}

// Cancel removes w, which may be nil. Its function is not called any more, or has been called.
func (b *Board) Cancel(w *Wait) {
	if w == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(w)
}

// removeLocked removes w, and reports whether the board had it.
func (b *Board) removeLocked(w *Wait) bool {
	index := slices.Index(b.keys[w.want.Key], w)
	if index < 0 {
		return false
	}
	b.waiting.Add(-1)
	cut(b.keys, w.want.Key, index, index+1)
	waits := b.versions[w.want.Key.Namespace]
	for i := after(waits, w.want.Version) - 1; i >= 0; i-- { // few have the same version
		if waits[i] == w {
			cut(b.versions, w.want.Key.Namespace, i, i+1)
			break
		}
		if object.Older(waits[i].want.Version, w.want.Version) {
			break
		}
	}
	return true
}

// cut removes the waits from i to j from those of key.
func cut[K comparable](waits map[K][]*Wait, key K, i, j int) {
	if waits[key] = slices.Delete(waits[key], i, j); len(waits[key]) == 0 {
		delete(waits, key)
	}
}

// Waits reports whether anything waits. The store asks after it has published a state. That costs the load of one word.
func (b *Board) Waits() bool { return b.waiting.Load() > 0 }

// Reached calls the functions that have waited for s, a published state. changed has the keys of the objects that were
// added, replaced or removed since the state before. All waits that were added before s was published are checked.
func (b *Board) Reached(s State, changed []object.Key) {
	for _, w := range b.take(s, changed) {
		w.notify()
	}
}

// take removes and returns the waits that s ends.
func (b *Board) take(s State, changed []object.Key) (ended []*Wait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := func(waits []*Wait) {
		for _, w := range waits {
			if w.want.In(s) && b.removeLocked(w) {
				ended = append(ended, w)
			}
		}
	}
	for _, key := range changed {
		end(slices.Clone(b.keys[key]))
	}
	for namespace, waits := range b.versions {
		version, n := s.Version(namespace), 0
		for n < len(waits) && object.Reached(version, waits[n].want.Version) {
			n++
		}
		if n > 0 {
			reached := slices.Clone(waits[:n])
			cut(b.versions, namespace, 0, n) // some may have to wait for a deletion
			end(reached)
		}
	}
	return ended
}
