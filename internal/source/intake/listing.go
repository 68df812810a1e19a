package intake

import (
	"errors"
	"iter"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
)

var errNamelessFiltered = errors.New("Config.Filter rejects it, but its name could not be decoded")

// Collector collects the objects of a list. [Decoder.Collector] returns one.
type Collector[T object.Object] struct {
	decoder  *Decoder[T]
	asked    Asked
	events   bool
	progress *Progress[T]
	listing  listing[T]
}

// Collector returns a collector of what was asked. If events is true, the objects come as the initial events of a
// watch.
func (d *Decoder[T]) Collector(asked Asked, events bool, progress *Progress[T]) *Collector[T] {
	return &Collector[T]{decoder: d, asked: asked, events: events, progress: progress}
}

// Intake implements fetch.Collector.
func (c *Collector[T]) Intake(f decode.Format, cancel func(error)) fetch.Intake {
	return c.decoder.intake(f, c.asked, cancel, c.take)
}

// Whole implements fetch.Collector.
func (c *Collector[T]) Whole() bool { return len(c.listing.failed)+len(c.listing.nameless) == 0 }

// Reset implements fetch.Collector.
func (c *Collector[T]) Reset() {
	c.listing = listing[T]{}
	c.progress.List.Reset()
}

// EndPage implements fetch.Collector.
func (c *Collector[T]) EndPage(remaining *int64) error {
	c.progress.List.Remain(remaining)
	return c.progress.check(&c.listing)
}

// Complete notes that the list has ended. It returns an error if the list must not enter the sink.
func (c *Collector[T]) Complete() error {
	c.progress.List.Remain(new(int64))
	return c.progress.check(&c.listing)
}

// take adds an object. Initial events may include changes.
func (c *Collector[T]) take(o Result[T]) error {
	switch {
	case o.Outside: // if it replaces one in the shard, the deletion of that one came before
	case c.events && (o.Deleted || o.Filtered) && o.Key.Name != "":
		c.listing.remove(o.Key)
	case c.events && o.Filtered:
		c.listing.fail(Failure{Err: errNamelessFiltered, Collection: c.decoder.Collection})
	case o.Filtered:
	case o.Err != nil:
		c.listing.fail(c.decoder.Failed(&o))
	default:
		c.listing.add(o.Object)
	}
	if c.progress.List.Read() {
		return c.progress.check(&c.listing)
	}
	return nil
}

// Items returns the objects. If several versions of an object are there, the last one counts. If several objects have
// one key, only one of them is there. It must be called once. Progress no longer shows them, because the sink can have
// them from now on. Do not modify the slice: a reader of Progress may still be reading its array.
func (c *Collector[T]) Items() []T {
	c.progress.Arriving.show(&listing[T]{})
	return c.decoder.listed(c.listing.present())
}

// Failure is an object that could not be decoded.
type Failure struct {
	Key          object.Key // empty if unknown
	UID, Version string
	Err          error // why
	Collection   Collection
}

// Collection is the collection of an object. The root implements it: the type of these errors names a Resource, which
// is above all rooms.
type Collection interface {
	// DecodeError returns the error that the object with that key could not be decoded because of cause.
	DecodeError(key object.Key, cause error) error
}

// Failed returns the failure of o, which could not be decoded.
func (d *Decoder[T]) Failed(o *Result[T]) Failure {
	return Failure{Key: o.Key, UID: o.UID, Version: o.Version, Err: o.Err, Collection: d.Collection}
}

// Undecoded yields the objects that could not be decoded.
func (c *Collector[T]) Undecoded() iter.Seq[Failure] { return c.listing.undecoded }

// listing has the objects of a list.
type listing[T object.Object] struct {
	items    []T                    // if several have one key, the last one counts
	failed   map[object.Key]Failure // objects that could not be decoded
	nameless []Failure              // those whose key could not be decoded, either; at most maxNameless
	gone     map[object.Key]int     // for each deleted key, the number of items at the deletion
}

// maxNameless limits the memory that objects without a name take.
const maxNameless = 1000

func (l *listing[T]) add(obj T) {
	if len(l.failed) > 0 {
		delete(l.failed, object.KeyOf(obj))
	}
	l.items = append(l.items, obj)
}

// fail notes that the newest version of an object could not be decoded. An earlier version among the items stays.
func (l *listing[T]) fail(f Failure) {
	switch {
	case f.Key.Name != "":
		if l.failed == nil {
			l.failed = map[object.Key]Failure{}
		}
		l.failed[f.Key] = f
	case len(l.nameless) < maxNameless:
		l.nameless = append(l.nameless, f)
	}
}

// undecoded yields the objects that could not be decoded.
func (l *listing[T]) undecoded(yield func(Failure) bool) {
	for _, f := range l.nameless {
		if !yield(f) {
			return
		}
	}
	for _, f := range l.failed {
		if !yield(f) {
			return
		}
	}
}

func (l *listing[T]) remove(key object.Key) {
	delete(l.failed, key)
	if l.gone == nil {
		l.gone = map[object.Key]int{}
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
		if i >= l.gone[object.KeyOf(obj)] {
			items = append(items, obj)
		}
	}
	return items
}
