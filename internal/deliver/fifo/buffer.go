// Package fifo is the engine of a FIFO, a bounded queue whose consumer takes all waiting items at once, and of its
// consumer: a [Buffer] and a [Drain].
package fifo

import (
	"context"
	"errors"
	"sync"

	"github.com/typedinformer/informer/internal/run"
)

// ErrClosed indicates that a buffer is closed and, for a consumer, empty.
var ErrClosed = errors.New("closed")

// Buffer is a bounded queue of items between producers and one consumer. It is like a buffered channel whose receiver
// takes all waiting items at once, except that some items are always a batch of their own.
//
// Items leave in the order in which they entered, from any number of producers. Producers wait while the buffer is
// full. All methods are safe for concurrent use. [New] returns a buffer.
type Buffer[T any] struct {
	capacity int
	alone    func(*T) bool
	readable chan struct{} // holds a token while there may be items to take
	writable chan struct{} // holds a token while there may be room

	mu      sync.Mutex // protects the fields below
	items   []T
	own     int // items that are a batch of their own
	blocked int // producers that wait for room
	closed  bool
}

// New returns an empty buffer that holds up to capacity items, at least one. An item for which alone returns true is a
// batch of its own. The buffer calls alone with its lock held, so alone must be fast.
func New[T any](capacity int, alone func(*T) bool) *Buffer[T] {
	return &Buffer[T]{capacity: capacity, alone: alone, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// Put appends a copy of item, and wakes the consumer. It waits while the buffer is full. It returns ctx's error if ctx
// ends first, and [ErrClosed] if the buffer is closed.
func (b *Buffer[T]) Put(ctx context.Context, item *T) error {
	err := b.Queue(ctx, item)
	if err == nil {
		b.wake()
	}
	return err
}

// Queue is like Put, but does not wake the consumer, unless it has to wait for room.
func (b *Buffer[T]) Queue(ctx context.Context, item *T) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && len(b.items) >= b.capacity {
		b.blocked++
		b.wake()
		b.mu.Unlock()
		select {
		case <-b.writable:
		case <-ctx.Done():
		}
		b.mu.Lock()
		b.blocked--
		if ctx.Err() != nil {
			run.Signal(b.writable) // this call may have taken the token of another producer
			return ctx.Err()
		}
	}
	if b.closed {
		run.Signal(b.writable)
		return ErrClosed
	}
	b.items = append(b.items, *item)
	if b.alone(&b.items[len(b.items)-1]) { // alone(item) would move item to the heap
		b.own++
	}
	if len(b.items) < b.capacity {
		run.Signal(b.writable)
	}
	return nil
}

// wake makes the consumer look for items.
func (b *Buffer[T]) wake() { run.Signal(b.readable) }

// Take waits until there are items, and returns the next batch, using batch's memory. It returns ctx's error if ctx
// ends first, and [ErrClosed] if the buffer is closed and empty.
func (b *Buffer[T]) Take(ctx context.Context, batch []T) ([]T, error) {
	for {
		var err error
		if batch, err = b.takeNow(batch); err != nil || len(batch) > 0 {
			return batch, err
		}
		if err := b.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// wait waits until there may be items to take, or the buffer is closed. It returns ctx's error if ctx ends first.
func (b *Buffer[T]) wait(ctx context.Context) error {
	select {
	case <-b.readable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeNow is like Take, but does not wait: it returns an empty batch if there are no items.
func (b *Buffer[T]) takeNow(batch []T) ([]T, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.batchLocked()
	if n == 0 && b.closed {
		b.wake()
		return nil, ErrClosed
	}
	return b.takeLocked(batch, n), nil
}

// takeFew takes all items, if there are at most most and none is a batch of its own. Otherwise it takes none and wakes
// the consumer.
func (b *Buffer[T]) takeFew(batch []T, most int) []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.items)
	if n > most || b.own > 0 {
		b.wake()
		n = 0
	}
	return b.takeLocked(batch, n)
}

// takeLocked takes the first n items, using batch's memory.
func (b *Buffer[T]) takeLocked(batch []T, n int) []T {
	batch = append(batch[:0], b.items[:n]...)
	if n == 0 {
		return batch
	}
	if b.own > 0 && b.alone(&batch[0]) {
		b.own--
	}
	rest := copy(b.items, b.items[n:])
	clear(b.items[rest:])
	b.items = b.items[:rest]
	if rest > 0 {
		b.wake()
	}
	run.Signal(b.writable)
	return batch
}

// batchLocked returns the number of items in the next batch.
func (b *Buffer[T]) batchLocked() int {
	if b.own == 0 { // the common case
		return len(b.items)
	}
	n := 0
	for !b.alone(&b.items[n]) {
		n++
	}
	return max(n, 1)
}

// Close closes the buffer. Put then returns [ErrClosed], also in producers that wait. If drain is true, the consumer
// still receives the items in the buffer; otherwise Close drops them. Closing again can only drop items.
func (b *Buffer[T]) Close(drain bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if !drain {
		b.items, b.own = nil, 0
	}
	b.wake()
	run.Signal(b.writable)
}

// Len returns the number of items in the buffer, and the number of producers that wait for room.
func (b *Buffer[T]) Len() (items, blocked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items), b.blocked
}
