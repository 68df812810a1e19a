// Package fifo is the engine of a FIFO, a bounded queue whose consumer takes all waiting items at once, and of its
// consumer: a [Pipe] and a [Drain].
package fifo

import (
	"context"
	"errors"
	"sync"

	"github.com/typedinformer/informer/internal/run"
)

// ErrClosed indicates that a pipe is closed and, for a consumer, empty.
var ErrClosed = errors.New("closed")

// Pipe is a bounded queue of items between producers and one consumer. It is like a buffered channel whose receiver
// takes all waiting items at once, except that some items are always a batch of their own.
//
// Items leave in the order in which they entered, from any number of producers. Producers wait while the pipe is full.
// All methods are safe for concurrent use. [New] returns a pipe.
type Pipe[T any] struct {
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

// New returns an empty pipe that holds up to capacity items, at least one. An item for which alone returns true is a
// batch of its own. The pipe calls alone with its lock held, so alone must be fast.
func New[T any](capacity int, alone func(*T) bool) *Pipe[T] {
	return &Pipe[T]{capacity: capacity, alone: alone, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// Put appends a copy of item, and wakes the consumer. It waits while the pipe is full. It returns ctx's error if ctx
// ends first, and [ErrClosed] if the pipe is closed.
func (p *Pipe[T]) Put(ctx context.Context, item *T) error {
	err := p.Queue(ctx, item)
	if err == nil {
		p.wake()
	}
	return err
}

// Queue is like Put, but does not wake the consumer, unless it has to wait for room.
func (p *Pipe[T]) Queue(ctx context.Context, item *T) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && len(p.items) >= p.capacity {
		p.blocked++
		p.wake()
		p.mu.Unlock()
		select {
		case <-p.writable:
		case <-ctx.Done():
		}
		p.mu.Lock()
		p.blocked--
		if ctx.Err() != nil {
			run.Signal(p.writable) // this call may have taken the token of another producer
			return ctx.Err()
		}
	}
	if p.closed {
		run.Signal(p.writable)
		return ErrClosed
	}
	p.items = append(p.items, *item)
	if p.alone(&p.items[len(p.items)-1]) { // alone(item) would move item to the heap
		p.own++
	}
	if len(p.items) < p.capacity {
		run.Signal(p.writable)
	}
	return nil
}

// wake makes the consumer look for items.
func (p *Pipe[T]) wake() { run.Signal(p.readable) }

// Take waits until there are items, and returns the next batch, using batch's memory. It returns ctx's error if ctx
// ends first, and [ErrClosed] if the pipe is closed and empty.
func (p *Pipe[T]) Take(ctx context.Context, batch []T) ([]T, error) {
	for {
		var err error
		if batch, err = p.takeNow(batch); err != nil || len(batch) > 0 {
			return batch, err
		}
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// wait waits until there may be items to take, or the pipe is closed. It returns ctx's error if ctx ends first.
func (p *Pipe[T]) wait(ctx context.Context) error {
	select {
	case <-p.readable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeNow is like Take, but does not wait: it returns an empty batch if there are no items.
func (p *Pipe[T]) takeNow(batch []T) ([]T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.batchLocked()
	if n == 0 && p.closed {
		p.wake()
		return nil, ErrClosed
	}
	return p.takeLocked(batch, n), nil
}

// takeFew takes all items, if there are at most most and none is a batch of its own. Otherwise it takes none and wakes
// the consumer.
func (p *Pipe[T]) takeFew(batch []T, most int) []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.items)
	if n > most || p.own > 0 {
		p.wake()
		n = 0
	}
	return p.takeLocked(batch, n)
}

// takeLocked takes the first n items, using batch's memory.
func (p *Pipe[T]) takeLocked(batch []T, n int) []T {
	batch = append(batch[:0], p.items[:n]...)
	if n == 0 {
		return batch
	}
	if p.own > 0 && p.alone(&batch[0]) {
		p.own--
	}
	rest := copy(p.items, p.items[n:])
	clear(p.items[rest:])
	p.items = p.items[:rest]
	if rest > 0 {
		p.wake()
	}
	run.Signal(p.writable)
	return batch
}

// batchLocked returns the number of items in the next batch.
func (p *Pipe[T]) batchLocked() int {
	if p.own == 0 { // the common case
		return len(p.items)
	}
	n := 0
	for !p.alone(&p.items[n]) {
		n++
	}
	return max(n, 1)
}

// Close closes the pipe. Put then returns [ErrClosed], also in producers that wait. If drain is true, the consumer
// still receives the items in the pipe; otherwise Close drops them. Closing again can only drop items.
func (p *Pipe[T]) Close(drain bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if !drain {
		p.items, p.own = nil, 0
	}
	p.wake()
	run.Signal(p.writable)
}

// Len returns the number of items in the pipe, and the number of producers that wait for room.
func (p *Pipe[T]) Len() (items, blocked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items), p.blocked
}
