package fifo

import (
	"context"
	"sync"

	"github.com/typedinformer/informer/internal/run"
)

// Drain applies the items of a buffer, batch by batch, in order. Two goroutines apply: one that Run starts when there
// are items, and that of a producer in Flush, which saves waking Run when there are few items, or in Settle.
//
//	producer -> Queue -- Flush: few items, nobody applies, room --> Apply
//	                       |
//	                       +-- otherwise: wakes Run --> Wait --> Apply
//
// The exported fields must be set before the first use. Apply, Wait and Full are called by one goroutine at a time.
type Drain[T any] struct {
	Buffer *Buffer[T]
	Few    int                   // the largest number of items that Flush applies
	Apply  func(batch []T) error // applies a batch, which is not empty and which it must not keep
	Wait   func(context.Context) // waits for room for a batch
	Full   func() bool           // reports whether Wait would wait
	// Exited is called if Apply panics or ends its goroutine in Flush or Settle, whose callers cannot know that.
	Exited func()

	// held while items move from the buffer to Apply, so that they stay in order; protects the fields below
	applying sync.Mutex
	full     bool // there is no room; Run waits for it
	batch    []T  // scratch memory
}

// Run applies batches until ctx ends, and then returns its cause. It returns the error of Apply, [ErrClosed] if the
// buffer is closed and empty, and [run.ErrGoroutineEnded] if Apply ends its goroutine, which is not that of the caller.
func (d *Drain[T]) Run(ctx context.Context) error {
	for {
		if err := d.Buffer.wait(ctx); err != nil {
			return context.Cause(ctx)
		}
		if err := run.Apart(func() error { return d.Next(ctx) }); err != nil {
			return err
		}
	}
}

// Next applies the next batch, if there is any, once there is room for it. It returns errors as Run does.
func (d *Drain[T]) Next(ctx context.Context) (err error) {
	d.applying.Lock()
	defer d.applying.Unlock()
	if d.Wait(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.full = false
	if d.batch, err = d.Buffer.takeNow(d.batch); err != nil {
		return err
	}
	return d.applyLocked()
}

// Flush applies the items in the buffer, if they are few, none is a batch of its own, no other goroutine is applying,
// and there is room. Otherwise it wakes Run.
func (d *Drain[T]) Flush() error {
	if !d.applying.TryLock() {
		d.Buffer.wake()
		return nil
	}
	defer d.applying.Unlock()
	if d.full {
		d.Buffer.wake()
		return nil
	}
	d.batch = d.Buffer.takeFew(d.batch, d.Few)
	return d.watched(d.applyLocked)
}

// Settle applies all items that the buffer has now, once there is room for them, and waits for another goroutine that
// applies some of them. It returns errors as Run does.
func (d *Drain[T]) Settle(ctx context.Context) error {
	for more := true; more; {
		n, _ := d.Buffer.Len() // another goroutine that took the last items holds applying
		more = n > 0
		if err := d.watched(func() error { return d.Next(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// watched calls apply, and calls Exited if that panics or ends the goroutine.
func (d *Drain[T]) watched(apply func() error) error {
	exited := true
	defer func() {
		if exited {
			d.Exited()
		}
	}()
	err := apply()
	exited = false
	return err
}

// applyLocked applies the batch, unless it is empty.
func (d *Drain[T]) applyLocked() error {
	if len(d.batch) == 0 {
		return nil
	}
	if err := d.Apply(d.batch); err != nil {
		return err
	}
	if d.full = d.Full(); d.full {
		d.Buffer.wake() // for Run to wait
	}
	clear(d.batch)
	return nil
}
