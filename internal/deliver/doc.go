// Package deliver delivers the changes of a store to handlers. Each handler has a backlog of its own, and a goroutine
// while changes wait, so a slow handler does not delay others.
//
// # Locks
//
// The lock order is: the locks of the caller of [Hub.Apply], such as the one that keeps batches in order; the lock of
// the hub; then either that of the store, in the function passed to Apply, or that of a listener. A listener that
// joins, ends or resyncs takes Hub.turn before the hub's lock, so a write waits for one such listener at most. An index
// function is part of a write, so it runs under all locks of the write except a listener's. Handlers and filters run
// without locks, so they may subscribe, end listeners and read. A listener that ends by itself is logged under the lock
// of the hub.
package deliver

import (
	"time"

	"github.com/typedinformer/informer/internal/object"
)

// Change is the effect of an event on one key. If an object has the name of the previous one but another UID, both
// Added and Deleted are set.
type Change[T object.Object] struct {
	Key     object.Key
	Old     T    // the previous version; nil for an addition
	Last    T    // for a deletion: the state at the deletion if known, otherwise Old
	New     T    // the new version; nil for a deletion
	Added   bool // New is another object than Old
	Deleted bool // Old no longer exists
	Final   bool // Last is the state at the deletion
}

// Keys returns the keys of changes.
func Keys[T object.Object](changes []Change[T]) []object.Key {
	keys := make([]object.Key, len(changes))
	for i := range changes {
		keys[i] = changes[i].Key
	}
	return keys
}

// Handler receives changes, one call at a time.
type Handler[T object.Object] interface {
	OnAdd(obj T, initial bool)
	OnUpdate(old, new T)
	OnDelete(last T, final bool)
}

// Config says how a listener delivers.
type Config struct {
	Name string // of the handler
	// Limit is how many changes may wait besides one for each key. Zero folds the changes of a key instead.
	Limit  int
	Block  bool // with Limit: more changes make the caller wait, instead of ending the listener
	Resync time.Duration
	// NewOnly passes the zero T as the old object of an update.
	NewOnly bool
	OnPanic func(value any) // receives the panics of the handler and of the filter; nil lets them end the program
}
