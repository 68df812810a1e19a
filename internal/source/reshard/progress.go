// Package reshard distributes a shard to the parts of its owner, which adopt it at different times.
package reshard

import (
	"slices"
	"sync"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
)

// Progress is how far the parts of an owner have taken on its latest shard: the owner sets the shard, and each part
// notes which change of it has arrived. All methods are safe for concurrent use, but Add must come before the first
// Want.
type Progress struct {
	parts []adopter     // those of Add
	begun chan struct{} // closed when every part has begun

	mu      sync.Mutex // protects the fields below
	latest  shardset.Shard
	changed run.Broadcast // sent when has changes
}

// adopter is a part of an owner. Progress.mu protects the fields below want.
type adopter struct {
	name string
	want func(shardset.Shard) uint64

	wanted uint64 // the number of the latest change
	has    uint64 // the number of the change that has arrived
	began  bool
}

// New returns the progress of an owner without parts, whose shard is latest.
func New(latest shardset.Shard) *Progress {
	return &Progress{begun: make(chan struct{}), latest: latest}
}

// Add adds a part. want makes it take on a shard, and returns the number of that change, which grows.
func (p *Progress) Add(name string, want func(shardset.Shard) uint64) {
	p.parts = append(p.parts, adopter{name: name, want: want})
}

// part returns the part with that name.
func (p *Progress) part(name string) *adopter {
	return &p.parts[slices.IndexFunc(p.parts, func(part adopter) bool { return part.name == name })]
}

// Begin notes that a part has begun: it has some shard, which may be the first one. all reports whether it was the last
// part to begin.
func (p *Progress) Begin(name string) (all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begins := p.part(name)
	if begins.began {
		return false
	}
	begins.began = true
	if all = !slices.ContainsFunc(p.parts, func(part adopter) bool { return !part.began }); all {
		close(p.begun)
	}
	return all
}

// Began reports whether a part has begun.
func (p *Progress) Began(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.part(name).began
}

// Begun returns a channel that is closed when every part has begun.
func (p *Progress) Begun() <-chan struct{} { return p.begun }

// Latest returns the latest shard.
func (p *Progress) Latest() shardset.Shard {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

// Want changes the shard. If the change to an equal one is under way, it asks for no other.
func (p *Progress) Want(shard shardset.Shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.arrivedLocked() && p.latest.Equal(shard) {
		return
	}
	p.latest = shard
	for i := range p.parts {
		p.parts[i].wanted = p.parts[i].want(shard)
	}
}

// Arrived reports whether the latest shard has arrived in every part. It also returns a channel that is closed when the
// answer may have changed.
func (p *Progress) Arrived() (ok bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.arrivedLocked(), p.changed.Next()
}

func (p *Progress) arrivedLocked() bool {
	return !slices.ContainsFunc(p.parts, func(part adopter) bool { return part.has < part.wanted })
}

// Has returns the number of the change that has arrived in a part.
func (p *Progress) Has(name string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.part(name).has
}

// Note notes that a change has arrived in a part. It ignores one before that which the part has.
func (p *Progress) Note(name string, change uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if arrives := p.part(name); change > arrives.has {
		arrives.has = change
		p.changed.Send()
	}
}

// Wake closes the channels that Arrived has returned.
func (p *Progress) Wake() { p.changed.Send() }
