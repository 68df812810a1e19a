package controller

import (
	"context"
	"sync"
	"time"
)

// Pass is what a call of Reconcile has while it may run: the pass of a gate. When the gate closes, the call may go on
// for its grace, and then its context ends.
type Pass struct {
	// Context is the context of the call.
	Context context.Context
	leave   func()
	cancel  context.CancelCauseFunc

	mu    sync.Mutex  // protects the fields below
	timer *time.Timer // calls cancel; nil until the gate closes
	left  bool
}

// Enter takes a pass with enter, which calls its argument when the gate closes. The context of the pass ends with ctx.
// grace returns how long the call may go on after the cause of the closing.
func Enter(ctx context.Context, enter func(end func(cause error)) (leave func(), err error),
	grace func(cause error) time.Duration) (p *Pass, err error) {
	p = &Pass{}
	p.Context, p.cancel = context.WithCancelCause(ctx)
	p.leave, err = enter(func(cause error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.left {
			p.timer = time.AfterFunc(grace(cause), func() { p.cancel(cause) })
		}
	})
	if err != nil {
		p.cancel(err)
		return nil, err
	}
	return p, nil
}

// Closed reports whether the gate has closed since Enter. A nil pass is that of a controller without a gate.
func (p *Pass) Closed() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timer != nil
}

// Leave leaves the gate. Call it once, when the call has returned.
func (p *Pass) Leave() {
	p.mu.Lock()
	p.left = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.cancel(nil)
	p.leave()
}
