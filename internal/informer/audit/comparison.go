package audit

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/store/undecoded"
	"github.com/typedinformer/informer/status"
)

// View is what a store has of a collection at one resource version. It never changes.
type View interface {
	// Shard returns the part of the collection that the store has.
	Shard() shardset.Shard
	// Version returns the resource version.
	Version() string
	// Get returns the ID of the object with that key. It returns false if the store has none.
	Get(key object.Key) (object.ID, bool)
	// All yields every object.
	All() iter.Seq2[object.Key, object.ID]
	// Len returns the number of objects.
	Len() int
	// Undecoded returns the objects whose newest version could not be decoded. The store may have an older version of
	// them. If the names of some are unknown, the store may also lack objects of the server, and have objects that are
	// gone.
	Undecoded() *undecoded.Set
}

// MaxNamed is the largest number of differences in a result.
const MaxNamed = 100

// Found is a result while an audit finds it.
type Found struct {
	status.AuditResult
	keys []object.Key // all that differ
}

// Note notes that the store has an object, and should have another one of that key, or none.
func (f *Found) Note(key object.Key, have object.ID, ok bool, want object.ID, wanted bool) {
	switch {
	case !ok:
		f.differs(key, status.DifferenceMissing)
	case !wanted:
		f.differs(key, status.DifferenceSuperfluous)
	case !same(have.UID, want.UID):
		f.differs(key, status.DifferenceRecreated)
	default:
		f.differs(key, status.DifferenceOutdated)
	}
}

func (f *Found) differs(key object.Key, kind status.DifferenceKind) {
	f.Differ++
	f.keys = append(f.keys, key)
	if len(f.Differences) < MaxNamed {
		f.Differences = append(f.Differences, status.AuditDifference{Key: key, Kind: kind})
	}
}

// Text names the first of differ differences.
func Text(named []status.AuditDifference, differ int) string {
	const most = 5
	var texts []string
	for _, d := range named[:min(len(named), most)] {
		texts = append(texts, fmt.Sprintf("%.600s is %s", d.Key, d.Kind))
	}
	if differ > most {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// maxRecreated limits the memory of a comparison with a server whose objects all have other UIDs.
const maxRecreated = 10_000

// Comparison compares a view with the objects of the server. It holds eight bytes for each of them. It is for one
// goroutine.
type Comparison struct {
	view  View
	found Found
	// recreated has keys for which the server has an object with another UID. The view may have another object that the
	// server has under the same key.
	recreated []object.Key
	differ    map[object.Key]bool // has the keys that differ: the server may have several objects with one key
	seed      maphash.Seed
	seen      []uint64 // hashes of the keys that the server has, of those that the view has, too
}

// NewComparison returns a comparison with view.
func NewComparison(view View) *Comparison {
	return &Comparison{
		view:   view,
		differ: map[object.Key]bool{},
		seed:   maphash.MakeSeed(),
		seen:   make([]uint64, 0, view.Len()),
	}
}

// differs notes a difference, once for each key.
func (c *Comparison) differs(key object.Key, kind status.DifferenceKind) {
	if !c.differ[key] {
		c.differ[key] = true
		c.found.differs(key, kind)
	}
}

func (c *Comparison) hash(key object.Key) uint64 { return maphash.Comparable(c.seed, key) }

// Served compares an object of the server. The name of key is empty if it could not be decoded.
func (c *Comparison) Served(key object.Key, id object.ID) {
	c.found.Objects++
	if key.Name == "" {
		c.found.Unclear++
		return
	}
	have, ok := c.view.Get(key)
	if newer, failed := c.view.Undecoded().ID(key); failed { // the store has an older version, or none
		have, ok = object.ID(newer), true
	}
	switch {
	case !ok && c.view.Undecoded().Unnamed() > 0:
		c.found.Unclear++
		return
	case !ok:
		c.differs(key, status.DifferenceMissing)
		return
	case !same(have.UID, id.UID) && len(c.recreated) < maxRecreated:
		c.recreated = append(c.recreated, key)
		return
	case !same(have.UID, id.UID):
		c.differs(key, status.DifferenceRecreated)
	case !same(have.Version, id.Version):
		c.differs(key, status.DifferenceOutdated)
	}
	c.seen = append(c.seen, c.hash(key))
}

// same reports whether a and b are equal, as far as both are known.
func same(a, b string) bool { return a == b || a == "" || b == "" }

// End returns what the comparison has found. The server has no further objects.
func (c *Comparison) End() Found {
	slices.Sort(c.seen)
	for _, key := range c.recreated {
		if _, also := slices.BinarySearch(c.seen, c.hash(key)); !also {
			c.differs(key, status.DifferenceRecreated)
		}
	}
	for _, key := range c.recreated {
		c.seen = append(c.seen, c.hash(key))
	}
	if c.found.Unclear > 0 || c.view.Undecoded().Unnamed() > 0 {
		c.found.Unclear += c.absent(func(object.Key) {})
	} else {
		c.absent(func(key object.Key) { c.differs(key, status.DifferenceSuperfluous) })
	}
	return c.found
}

// absent calls yield for every object of the view that the server does not have, and returns their number.
func (c *Comparison) absent(yield func(object.Key)) (n int) {
	slices.Sort(c.seen)
	for key := range c.keys {
		if _, ok := slices.BinarySearch(c.seen, c.hash(key)); !ok {
			yield(key)
			n++
		}
	}
	return n
}

// keys yields every key of the view once.
func (c *Comparison) keys(yield func(object.Key) bool) {
	for key := range c.view.All() {
		if !yield(key) {
			return
		}
	}
	for key := range c.view.Undecoded().In("") {
		if _, again := c.view.Get(key); !again && !yield(key) {
			return
		}
	}
}
