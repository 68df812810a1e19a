package informer

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fetch"
)

var errNamelessFiltered = errors.New("Config.Filter rejects it, but its name could not be decoded")

// collector decodes the objects of a list into a listing.
type collector[T Object] struct {
	listing[T]
	decoder *decoder[T]
	batches *batches[T]
	asked   asked
	events  bool          // they come as the initial events of a watch
	read    *atomic.Int64 // the number of objects so far
}

// Intake implements fetch.Collector.
func (c *collector[T]) Intake(f decode.Format, cancel func(error)) fetch.Intake {
	return newIntake(c.decoder, c.batches, f, c.asked, cancel, c.take)
}

// Whole implements fetch.Collector.
func (c *collector[T]) Whole() bool { return len(c.failed)+len(c.nameless) == 0 }

// Reset implements fetch.Collector.
func (c *collector[T]) Reset() {
	c.listing = listing[T]{}
	c.read.Store(0)
}

// take adds an object. Initial events may include changes.
func (c *collector[T]) take(o decoded[T]) error {
	c.read.Add(1)
	switch {
	case o.outside: // if it replaces one in the shard, the deletion of that one came before
	case c.events && (o.deleted || o.filtered) && o.key.Name != "":
		c.remove(o.key)
	case c.events && o.filtered:
		c.fail(&DecodeError{Resource: c.decoder.resource, Err: errNamelessFiltered})
	case o.filtered:
	case o.failed != nil:
		c.fail(o.failed)
	default:
		c.add(o.obj)
	}
	return nil
}

// listing collects the objects of a list.
type listing[T Object] struct {
	items    []T                  // if several have one key, the last one counts
	failed   map[Key]*DecodeError // objects that could not be decoded
	nameless []*DecodeError       // those whose key could not be decoded, either; at most maxNameless
	gone     map[Key]int          // for each deleted key, the number of items at the deletion
}

// maxNameless limits the memory that objects without a name take.
const maxNameless = 1000

func (l *listing[T]) add(obj T) {
	if len(l.failed) > 0 {
		delete(l.failed, KeyOf(obj))
	}
	l.items = append(l.items, obj)
}

// fail notes that the newest version of an object could not be decoded. An earlier version among the items stays.
func (l *listing[T]) fail(failed *DecodeError) {
	switch {
	case failed.Key.Name != "":
		if l.failed == nil {
			l.failed = map[Key]*DecodeError{}
		}
		l.failed[failed.Key] = failed
	case len(l.nameless) < maxNameless:
		l.nameless = append(l.nameless, failed)
	}
}

// undecoded returns the objects that could not be decoded.
func (l *listing[T]) undecoded() []*DecodeError {
	return slices.AppendSeq(l.nameless, maps.Values(l.failed))
}

func (l *listing[T]) remove(key Key) {
	delete(l.failed, key)
	if l.gone == nil {
		l.gone = map[Key]int{}
	}
	l.gone[key] = len(l.items)
}

// present returns the items without those that were deleted later.
func (l *listing[T]) present() []T {
	if len(l.gone) == 0 {
		return l.items
	}
	var items []T
	for i, obj := range l.items {
		if i >= l.gone[KeyOf(obj)] {
			items = append(items, obj)
		}
	}
	return items
}
