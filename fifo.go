package informer

import (
	"context"
	"errors"
	"sync"

	"github.com/typedinformer/informer/internal/run"
)

// Sink receives the deltas of a [Reflector]. [FIFO] is one.
type Sink[T Object] interface {
	// Put takes d, and waits while the sink has no room. It returns an error if ctx ends first or the sink is closed.
	Put(ctx context.Context, d Delta[T]) error
}

// Holder is a [Sink] from which a [Reflector] can read the objects that it holds. The reflector does not decode
// versions that the sink holds already. With Config.Share, new versions share equal parts with those that the sink
// holds.
type Holder[T Object] interface {
	Sink[T]
	// Get returns the object that was put last for the key, or false if there is none. It must be safe for concurrent use.
	Get(Key) (T, bool)
}

// batcher is a [Sink] that can apply several deltas in one step.
type batcher[T Object] interface {
	// queue is like Put, but the sink may defer the processing of d until flush.
	queue(ctx context.Context, d Delta[T]) error
	// flush ends a batch of queued deltas.
	flush() error
}

// ErrClosed indicates that a FIFO or [Queue] is closed and, for a receiver, empty; or that a Subscription was closed.
var ErrClosed = errors.New("closed")

// fifoCapacity is the default capacity of a FIFO: about a second of a busy cluster's changes, and some 10 MB with
// objects of 10 kB.
const fifoCapacity = 1024

// FIFO is a bounded queue of deltas between reflectors and the one writer of a store. It is like a buffered channel
// whose receiver takes all waiting deltas at once, except that a Replaced is always a batch of its own.
//
// Deltas leave in the order in which they entered, from any number of producers. Producers wait while the FIFO is full,
// which causes back-pressure up to the server's socket. All methods are safe for concurrent use, but only one consumer
// should take batches, since their order matters. Create one with [NewFIFO].
type FIFO[T Object] struct {
	capacity int
	readable chan struct{} // holds a token while there may be deltas to take
	writable chan struct{} // holds a token while there may be room

	mu      sync.Mutex // protects the fields below
	items   []Delta[T]
	blocked int // producers that wait for room
	closed  bool
}

// NewFIFO returns an empty FIFO that holds up to capacity deltas. Zero means 1,024.
func NewFIFO[T Object](capacity int) *FIFO[T] {
	if capacity <= 0 {
		capacity = fifoCapacity
	}
	return &FIFO[T]{capacity: capacity, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// Put appends d. It waits while the FIFO is full. It returns ctx's error if ctx ends first, and [ErrClosed] if the FIFO
// is closed.
func (f *FIFO[T]) Put(ctx context.Context, d Delta[T]) error {
	err := f.queue(ctx, d)
	if err == nil {
		run.Signal(f.readable)
	}
	return err
}

// queue is like Put, but does not wake the consumer, unless it has to wait for room.
func (f *FIFO[T]) queue(ctx context.Context, d Delta[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.closed && len(f.items) >= f.capacity {
		f.blocked++
		run.Signal(f.readable)
		f.mu.Unlock()
		select {
		case <-f.writable:
		case <-ctx.Done():
		}
		f.mu.Lock()
		f.blocked--
		if ctx.Err() != nil {
			run.Signal(f.writable) // this call may have taken the token of another producer
			return ctx.Err()
		}
	}
	if f.closed {
		run.Signal(f.writable)
		return ErrClosed
	}
	f.items = append(f.items, d)
	if len(f.items) < f.capacity {
		run.Signal(f.writable)
	}
	return nil
}

// Take waits until there are deltas, and returns all of them in order, using batch's memory. A Replaced is always a
// batch of its own. Take returns ctx's error if ctx ends first, and [ErrClosed] if the FIFO is closed and empty.
func (f *FIFO[T]) Take(ctx context.Context, batch []Delta[T]) ([]Delta[T], error) {
	for {
		var err error
		if batch, err = f.takeNow(batch); err != nil || len(batch) > 0 {
			return batch, err
		}
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// wait waits until there may be deltas to take, or the FIFO is closed.
func (f *FIFO[T]) wait(ctx context.Context) error {
	select {
	case <-f.readable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeNow is like Take, but does not wait: it returns an empty batch if there are no deltas.
func (f *FIFO[T]) takeNow(batch []Delta[T]) ([]Delta[T], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.batchLocked()
	if n == 0 && f.closed {
		run.Signal(f.readable)
		return nil, ErrClosed
	}
	return f.takeLocked(batch, n), nil
}

// takeFew takes all deltas, if there are at most most and none is a Replaced. Otherwise it takes none and wakes the
// consumer.
func (f *FIFO[T]) takeFew(batch []Delta[T], most int) []Delta[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.items)
	if n > most || n > 0 && (f.batchLocked() < n || f.items[0].Type == Replaced) {
		run.Signal(f.readable)
		n = 0
	}
	return f.takeLocked(batch, n)
}

// takeLocked takes the first n items, using batch's memory.
func (f *FIFO[T]) takeLocked(batch []Delta[T], n int) []Delta[T] {
	batch = append(batch[:0], f.items[:n]...)
	if n == 0 {
		return batch
	}
	rest := copy(f.items, f.items[n:])
	clear(f.items[rest:])
	f.items = f.items[:rest]
	if rest > 0 {
		run.Signal(f.readable)
	}
	run.Signal(f.writable)
	return batch
}

// batchLocked returns the number of items in the next batch.
func (f *FIFO[T]) batchLocked() int {
	for i := range f.items {
		if f.items[i].Type == Replaced {
			return max(i, 1)
		}
	}
	return len(f.items)
}

// Close closes the FIFO. Put then returns [ErrClosed], also in producers that wait. If drain is true, the consumer
// still receives the deltas in the FIFO; otherwise Close drops them. Closing again can only drop deltas.
func (f *FIFO[T]) Close(drain bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if !drain {
		f.items = nil
	}
	run.Signal(f.readable)
	run.Signal(f.writable)
}

// Len returns the number of deltas in the FIFO, and the number of producers that wait for room.
func (f *FIFO[T]) Len() (deltas, blocked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.items), f.blocked
}
