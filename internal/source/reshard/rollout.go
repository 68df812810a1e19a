// Package reshard distributes a shard to the parts of its owner, which adopt it at different times.
package reshard

import (
	"sync"

	"github.com/typedinformer/informer/internal/shardset"
)

// Rollout is the latest shard of an owner whose parts take it on: the owner sets the shard, and each part notes which
// change of it has arrived. All methods are safe for concurrent use, but Add must come before the first Want.
type Rollout struct {
	parts map[string]func(shardset.Shard) uint64 // by name
	begun chan struct{}                          // closed when every part has begun

	mu      sync.Mutex // protects the fields below
	latest  shardset.Shard
	wanted  map[string]uint64 // by name of a part: the number of the latest change
	has     map[string]uint64 // by name of a part: the number of the change that has arrived
	began   map[string]bool   // by name of a part
	changed chan struct{}     // closed when has changes
}

// New returns a rollout without parts that has the shard latest.
func New(latest shardset.Shard) *Rollout {
	return &Rollout{parts: map[string]func(shardset.Shard) uint64{}, begun: make(chan struct{}), latest: latest,
		wanted: map[string]uint64{}, has: map[string]uint64{}, began: map[string]bool{}, changed: make(chan struct{})}
}

// Add adds a part. want makes it take on a shard, and returns the number of that change, which grows.
func (r *Rollout) Add(name string, want func(shardset.Shard) uint64) { r.parts[name] = want }

// Begin notes that a part has begun: it has some shard, which may be the first one. all reports whether it was the last
// part to begin.
func (r *Rollout) Begin(name string) (all bool) {
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
func (r *Rollout) Began(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.began[name]
}

// Begun returns a channel that is closed when every part has begun.
func (r *Rollout) Begun() <-chan struct{} { return r.begun }

// Latest returns the latest shard.
func (r *Rollout) Latest() shardset.Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

// Want changes the shard. If the change to an equal one is under way, it asks for no other.
func (r *Rollout) Want(shard shardset.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.arrivedLocked() && r.latest.Equal(shard) {
		return
	}
	r.latest = shard
	for name, want := range r.parts {
		r.wanted[name] = want(shard)
	}
}

// Arrived reports whether the latest shard has arrived in every part. It also returns a channel that is closed when the
// answer may have changed.
func (r *Rollout) Arrived() (ok bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrivedLocked(), r.changed
}

func (r *Rollout) arrivedLocked() bool {
	for name, n := range r.wanted {
		if r.has[name] < n {
			return false
		}
	}
	return true
}

// Has returns the number of the change that has arrived in a part.
func (r *Rollout) Has(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has[name]
}

// Note notes that a change has arrived in a part. It ignores one before that which the part has.
func (r *Rollout) Note(name string, change uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change > r.has[name] {
		r.has[name] = change
		r.wakeLocked()
	}
}

// Wake closes the channels that Arrived has returned.
func (r *Rollout) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeLocked()
}

func (r *Rollout) wakeLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}
