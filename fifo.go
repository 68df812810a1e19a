package informer

import (
	"context"
	"errors"
	"sync"
)

// Sink is where a [Reflector] puts what it reads. [FIFO] is one.
type Sink[T Object] interface {
	// Put takes d, or waits until it can. It returns an error when ctx ends first or the sink takes no more.
	Put(ctx context.Context, d Delta[T]) error
}

// Holder is a [Sink] that says what it holds of an object. A [Reflector] asks it, and then does not decode versions that the sink
// holds already; with Config.Share, new versions share with the ones that are held.
type Holder[T Object] interface {
	Sink[T]
	// Get returns the object as it was put, or false if there is none. It is called by several goroutines at once.
	Get(Key) (T, bool)
}

// batcher is a [Sink] that takes changes that came together in one step.
type batcher[T Object] interface {
	// queue is Put, but the sink need not do anything with d before flush.
	queue(ctx context.Context, d Delta[T]) error
	// flush says that nothing more came together with what was queued.
	flush() error
}

// ErrClosed indicates that a FIFO takes no more deltas, or has none left and gets no more; or that a Subscription was
// closed.
var ErrClosed = errors.New("closed")

// fifoCapacity is the capacity of a FIFO whose owner names none: about a second of a busy cluster's changes, and
// with 10 kB an object some 10 MB.
const fifoCapacity = 1024

// FIFO is a bounded queue of deltas between the readers of the network and the one writer of a store. It is like a
// buffered channel whose receiver takes all that is there at once, and that never puts a Replaced in one batch
// with anything else.
//
// Deltas come out in the order in which they went in, from any number of producers. A full FIFO makes producers
// wait, which is how back-pressure reaches the server's socket. All methods are safe for concurrent use, but
// batches make sense for one consumer only. Create one with [NewFIFO].
type FIFO[T Object] struct {
	capacity int
	readable chan struct{} // holds a token while there may be something to take
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

// Put appends d. It waits while the FIFO is full, and returns ctx's error when that ends first, or [ErrClosed].
func (f *FIFO[T]) Put(ctx context.Context, d Delta[T]) error {
	err := f.queue(ctx, d)
	if err == nil {
		signal(f.readable)
	}
	return err
}

// queue is Put, but does not wake the consumer, unless it has to wait for room.
func (f *FIFO[T]) queue(ctx context.Context, d Delta[T]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.closed && len(f.items) >= f.capacity {
		f.blocked++
		signal(f.readable)
		f.mu.Unlock()
		select {
		case <-f.writable:
		case <-ctx.Done():
		}
		f.mu.Lock()
		f.blocked--
		if ctx.Err() != nil {
			signal(f.writable) // it may have been the token of another producer
			return ctx.Err()
		}
	}
	if f.closed {
		signal(f.writable)
		return ErrClosed
	}
	f.items = append(f.items, d)
	if len(f.items) < f.capacity {
		signal(f.writable)
	}
	return nil
}

// Take waits until there is something, and returns it all in order, using batch's memory; but a Replaced comes
// alone. It returns ctx's error when that ends first, and [ErrClosed] when nothing is left in a closed FIFO.
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

// wait waits until there may be something to take, or the FIFO is closed.
func (f *FIFO[T]) wait(ctx context.Context) error {
	select {
	case <-f.readable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeNow is Take, but does not wait: it returns an empty batch when there is nothing.
func (f *FIFO[T]) takeNow(batch []Delta[T]) ([]Delta[T], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.batchLocked()
	if n == 0 && f.closed {
		signal(f.readable)
		return nil, ErrClosed
	}
	return f.takeLocked(batch, n), nil
}

// takeFew takes all there is, if that is no more than most, without a Replaced. Otherwise it takes nothing and wakes the consumer.
func (f *FIFO[T]) takeFew(batch []Delta[T], most int) []Delta[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.items)
	if n > most || n > 0 && (f.batchLocked() < n || f.items[0].Type == Replaced) {
		signal(f.readable)
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
		signal(f.readable)
	}
	signal(f.writable)
	return batch
}

// batchLocked returns how many of the first items make the next batch.
func (f *FIFO[T]) batchLocked() int {
	for i := range f.items {
		if f.items[i].Type == Replaced {
			return max(i, 1)
		}
	}
	return len(f.items)
}

// Close lets no more in: producers, also those that wait, get [ErrClosed]. With drain the consumer still gets what
// is there; without, it is dropped. Closing again can only drop.
func (f *FIFO[T]) Close(drain bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if !drain {
		f.items = nil
	}
	signal(f.readable)
	signal(f.writable)
}

// Len returns how many deltas wait, and how many producers wait for room.
func (f *FIFO[T]) Len() (deltas, blocked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.items), f.blocked
}

func signal(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// isClosed reports whether a channel that nothing is sent on is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
