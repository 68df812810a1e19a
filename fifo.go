package informer

import (
	"context"

	"github.com/typedinformer/informer/internal/deliver/fifo"
)

// Sink receives the deltas of a [Reflector]. [FIFO] is one.
type Sink[T Object] interface {
	// Put takes d, and waits while the sink has no room. It returns an error if ctx ends first or the sink is closed.
	Put(ctx context.Context, d Delta[T]) error
}

// Holder is a [Sink] from which a [Reflector] can read the objects that it holds. The reflector does not decode
// versions that the sink holds already. With LayoutShared, new versions share equal parts with those that the sink
// holds. An event can be older than the resource version before it, for example if the server sent a bookmark too
// early: only with a Holder can the reflector then tell a late event from a server that went back in time.
type Holder[T Object] interface {
	Sink[T]
	// Get returns the object last put for the key, or false if there is none. It must be safe for concurrent use.
	Get(Key) (T, bool)
}

// ErrClosed indicates that a FIFO or [Queue] is closed and, for a receiver, empty; or that a Subscription was closed.
var ErrClosed = fifo.ErrClosed

// fifoCapacity is the default capacity of a FIFO: about a second of a busy cluster's changes, and some 10 MB with
// objects of 10 kB.
const fifoCapacity = 1024

// FIFO is a bounded queue of deltas between reflectors and the one writer of a store. It is like a buffered channel
// whose receiver takes all waiting deltas at once, except that a Replaced is always a batch of its own.
//
// Deltas leave in the order in which they entered, from any number of producers. Producers wait while the FIFO is full,
// which causes back-pressure up to the server's socket. All methods are safe for concurrent use, but only one consumer
// should take batches, since their order matters. Create one with [NewFIFO].
type FIFO[T Object] struct{ buffer *fifo.Buffer[Delta[T]] }

// NewFIFO returns an empty FIFO that holds up to capacity deltas. Zero means 1,024.
func NewFIFO[T Object](capacity int) *FIFO[T] {
	if capacity <= 0 {
		capacity = fifoCapacity
	}
	return &FIFO[T]{fifo.New(capacity, func(d *Delta[T]) bool { return d.Type == Replaced })}
}

// Put appends d. It waits while the FIFO is full. It returns ctx's error if ctx ends first, and [ErrClosed] if the FIFO
// is closed.
func (f *FIFO[T]) Put(ctx context.Context, d Delta[T]) error { return f.buffer.Put(ctx, &d) }

// Take waits until there are deltas, and returns all of them in order, using batch's memory. A Replaced is always a
// batch of its own. Take returns ctx's error if ctx ends first, and [ErrClosed] if the FIFO is closed and empty.
func (f *FIFO[T]) Take(ctx context.Context, batch []Delta[T]) ([]Delta[T], error) {
	return f.buffer.Take(ctx, batch)
}

// Close closes the FIFO. Put then returns [ErrClosed], also in producers that wait. If drain is true, the consumer
// still receives the deltas in the FIFO; otherwise Close drops them. Closing again can only drop deltas.
func (f *FIFO[T]) Close(drain bool) { f.buffer.Close(drain) }

// Len returns the number of deltas in the FIFO, and the number of producers that wait for room.
func (f *FIFO[T]) Len() (deltas, blocked int) { return f.buffer.Len() }
