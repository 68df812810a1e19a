// Package rollout distributes a value to several parts, which adopt it at different times.
package rollout

import "sync"

// Rollout is the latest value of an owner whose parts take it on: the owner sets the value, and each part notes which
// change of it has arrived. All methods are safe for concurrent use, but Add must come before the first Want.
type Rollout[V any] struct {
	equal func(a, b V) bool
	parts map[string]func(V) uint64 // by name
	begun chan struct{}             // closed when every part has begun

	mu      sync.Mutex // protects the fields below
	latest  V
	wanted  map[string]uint64 // by name of a part: the number of the latest change
	has     map[string]uint64 // by name of a part: the number of the change that has arrived
	began   map[string]bool   // by name of a part
	changed chan struct{}     // closed when has changes
}

// New returns a rollout without parts that has the value latest.
func New[V any](latest V, equal func(a, b V) bool) *Rollout[V] {
	return &Rollout[V]{equal: equal, parts: map[string]func(V) uint64{}, begun: make(chan struct{}), latest: latest,
		wanted: map[string]uint64{}, has: map[string]uint64{}, began: map[string]bool{}, changed: make(chan struct{})}
}

// Add adds a part. want makes it take on a value, and returns the number of that change, which grows.
func (r *Rollout[V]) Add(name string, want func(V) uint64) { r.parts[name] = want }

// Begin notes that a part has begun: it has some value, which may be the first one. all reports whether it was the last
// part to begin.
func (r *Rollout[V]) Begin(name string) (all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began[name] {
		return false
	}
	r.began[name] = true
	if all = len(r.began) == len(r.parts); all {
		close(r.begun)
	}
	return all
}

// Began reports whether a part has begun.
func (r *Rollout[V]) Began(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.began[name]
}

// Begun returns a channel that is closed when every part has begun.
func (r *Rollout[V]) Begun() <-chan struct{} { return r.begun }

// Latest returns the latest value.
func (r *Rollout[V]) Latest() V {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

// Want changes the value. If the change to an equal one is under way, it asks for no other.
func (r *Rollout[V]) Want(v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.arrivedLocked() && r.equal(r.latest, v) {
		return
	}
	r.latest = v
	for name, want := range r.parts {
		r.wanted[name] = want(v)
	}
}

// Arrived reports whether the latest value has arrived in every part. If not, it returns a channel that is closed when
// to ask again.
func (r *Rollout[V]) Arrived() (ok bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrivedLocked(), r.changed
}

func (r *Rollout[V]) arrivedLocked() bool {
	for name, n := range r.wanted {
		if r.has[name] < n {
			return false
		}
	}
	return true
}

// Has returns the number of the change that has arrived in a part.
func (r *Rollout[V]) Has(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has[name]
}

// Note notes that a change has arrived in a part. It ignores one before that which the part has.
func (r *Rollout[V]) Note(name string, change uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change > r.has[name] {
		r.has[name] = change
		r.wakeLocked()
	}
}

// Wake makes those ask again who wait for the latest value to arrive.
func (r *Rollout[V]) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeLocked()
}

func (r *Rollout[V]) wakeLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}
