// Package arrival calls a function when a store has reached a resource version, or when an object is gone from it.
// Nothing polls, and no goroutine waits.
package arrival

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/sources"
)

// State is a state of a store.
type State interface {
	// Version returns the resource version up to which the store has every change of a namespace.
	Version(namespace string) string
	// UID returns that of the object with that key, or "" if there is none.
	UID(key types.NamespacedName) types.UID
}

// Want says what to wait for: a version of the objects of the key's namespace, unless Version is empty, and that the
// object with that key and UID is gone, unless UID is empty.
type Want struct {
	Key     types.NamespacedName
	Version string
	UID     types.UID
}

// in reports whether s has w.
func (w Want) in(s State) bool {
	return (w.Version == "" || sources.Reached(s.Version(w.Key.Namespace), w.Version)) &&
		(w.UID == "" || s.UID(w.Key) != w.UID)
}

// Board has what others wait for in one store. The zero value is ready to use. All methods are safe for concurrent use.
//
// Invariant: a Wait is called once, by the Board that has it, unless Cancel comes first. A caller of Add publishes what
// it waits for before it looks at the state of the store, and the store publishes its state before it calls Reached, so
// one of them sees the other's.
type Board struct {
	waiting atomic.Int64 // len(gone) and the lengths of versions: the store looks at it for each state
	mu      sync.Mutex   // protects the fields below
	// by namespace: those that wait for a version only, the lowest first
	versions map[string][]*Wait
	gone     []*Wait // those that wait until an object is gone
}

// Wait is a function that waits in a Board.
type Wait struct {
	want   Want
	called func()
}

// Add makes the board call called once when the store has want. It returns nil, and never calls it, if the store has it
// already. state returns the present state of the store. called must not block, and must not call methods of the board.
func (b *Board) Add(want Want, state func() State, called func()) *Wait {
	w := &Wait{want, called}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Add(1)
	if want.in(state()) {
		b.waiting.Add(-1)
		return nil
	}
	if want.UID != "" {
		b.gone = append(b.gone, w)
		return w
	}
	if b.versions == nil {
		b.versions = map[string][]*Wait{}
	}
	waits := b.versions[want.Key.Namespace]
	i, _ := slices.BinarySearchFunc(waits, want.Version, func(other *Wait, version string) int {
		if sources.Older(version, other.want.Version) {
			return 1 // behind those of the same version
		}
		return -1
	})
	b.versions[want.Key.Namespace] = slices.Insert(waits, i, w)
	return w
}

// Cancel removes w, which may be nil. Its function is not called any more, or has been called.
func (b *Board) Cancel(w *Wait) {
	if w == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	is := func(other *Wait) bool { return other == w }
	if w.want.UID != "" {
		left := slices.DeleteFunc(b.gone, is)
		b.waiting.Add(int64(len(left) - len(b.gone)))
		b.gone = left
		return
	}
	before := b.versions[w.want.Key.Namespace]
	n := len(before)
	b.setLocked(w.want.Key.Namespace, slices.DeleteFunc(before, is), n)
}

// setLocked replaces the waits of a namespace, which were n.
func (b *Board) setLocked(namespace string, waits []*Wait, n int) {
	b.waiting.Add(int64(len(waits) - n))
	if len(waits) == 0 {
		delete(b.versions, namespace)
		return
	}
	b.versions[namespace] = waits
}

// Reached calls the functions that have waited for s, which is a state that others can see. The store calls it for each
// state. If nothing waits, that costs the load of one word.
func (b *Board) Reached(s State) {
	if b.waiting.Load() == 0 {
		return
	}
	for _, w := range b.take(s) {
		w.called()
	}
}

// take removes and returns the waits that s ends.
func (b *Board) take(s State) (ended []*Wait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.gone)
	b.gone = slices.DeleteFunc(b.gone, func(w *Wait) bool {
		over := w.want.in(s)
		if over {
			ended = append(ended, w)
		}
		return over
	})
	b.waiting.Add(int64(len(b.gone) - n))
	for namespace, waits := range b.versions {
		over := 0
		for over < len(waits) && waits[over].want.in(s) {
			over++
		}
		if over > 0 {
			ended = append(ended, waits[:over]...)
			b.setLocked(namespace, slices.Delete(waits, 0, over), len(waits))
		}
	}
	return ended
}
