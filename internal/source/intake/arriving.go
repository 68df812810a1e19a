package intake

import (
	"iter"
	"maps"
	"sync"

	"github.com/typedinformer/informer/internal/object"
)

// Arriving has the objects that a first list under way has read so far, for readers who do not wait for its end. The
// zero value has none. It is safe for concurrent use.
//
// It shares the memory of the collector, which only appends: so it costs a list nothing but a lock, seldom.
type Arriving[T object.Object] struct {
	mu      sync.Mutex // protects the field below
	listing listing[T] // only items and gone
}

// show makes readers see what the listing has now.
func (a *Arriving[T]) show(l *listing[T]) {
	n := len(l.items)
	now := listing[T]{items: l.items[:n:n]} // the collector appends behind it
	if len(l.gone) > 0 {
		now.gone = maps.Clone(l.gone)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listing = now
}

// All yields the objects, the latest version of each, in the order of their arrival.
func (a *Arriving[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		a.mu.Lock()
		shown := a.listing
		a.mu.Unlock()
		items := shown.present()
		if len(items) == 0 {
			return
		}
		last := make(map[object.Key]int, len(items))
		for i, obj := range items {
			last[object.KeyOf(obj)] = i
		}
		for i, obj := range items {
			if last[object.KeyOf(obj)] == i && !yield(obj) {
				return
			}
		}
	}
}
