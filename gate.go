package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/typedinformer/informer/status"
)

// ErrGateClosed indicates that a [Gate] is closed, so that this process may not write now. The errors of refused and of
// cancelled writes wrap it, and so do the causes of the contexts that the gate has ended.
var ErrGateClosed = errors.New("the gate is closed")

// Gate is open while this process may do some work, such as that of a leader. It is for work that pauses and goes on:
// see Config.Recover of package leader, whose elector opens and closes it.
//
//	closed -- Open --> open: Enter hands out passes -- Close: the contexts of the passes end --> closed
//
// These stop at a gate:
//
//   - A [Controller] whose Run has a context of [WithGate], as the work of an elector has. While the gate is closed,
//     it hands out no key. Each call of Reconcile has a pass. When the gate closes, the calls under way have Grace, or
//     less if the cause has a method StopBy; then their contexts end. An error that such a call returns is no failure
//     of its key, which is reconciled again when the gate opens.
//   - The writes of a client of [Client.WithGate].
//   - Work of your own between Enter and leave.
//
// The zero value is a closed gate. A nil *Gate is always open; it has no Open and Close. All methods are safe for
// concurrent use.
type Gate struct {
	mu     sync.Mutex // protects the fields below
	status status.Gate
	look   func() // see Open; nil for none
	cause  error  // of the last Close; nil before
	passes map[*pass]struct{}
	opens  chan struct{} // closed when the gate opens; nil if nobody waits for that
	empty  chan struct{} // closed when the last pass has been left; nil if nobody waits for that
}

// pass is a pass that has not been left. The gate calls end with its lock held when it closes, and then forgets end.
type pass struct{ end func(cause error) }

// closedError is the cause of the contexts that a gate has ended.
type closedError struct{ cause error }

func (e *closedError) Error() string { return fmt.Sprintf("%v: %v", ErrGateClosed, e.cause) }

func (e *closedError) Unwrap() []error { return []error{ErrGateClosed, e.cause} }

// errNeverOpened is the cause of a gate that was not opened yet.
var errNeverOpened = errors.New("it was not opened yet")

// Open opens the gate. look is called before each pass, without a lock of the gate: it may find by the clocks that the
// gate must close, and close it. Nil means nothing. Open does nothing if the gate is open.
//
// Only who decides about the work calls Open and Close: the elector of Config.Recover of package leader, or a program
// with an election of its own.
func (g *Gate) Open(look func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.status.Open {
		return
	}
	g.status.Open, g.status.Since, g.look = true, time.Now(), look
	if g.opens != nil {
		close(g.opens)
		g.opens = nil
	}
}

// Close closes the gate: no pass is handed out any more. When Close returns, the contexts of Enter and those of writes
// have ended; calls of Reconcile have their grace. The cause of these contexts wraps [ErrGateClosed] and cause, which
// must not be nil. If cause has a method StopBy() time.Time, all passes should be left by then. Call WaitLeft before
// another process may do the work, or this one opens the gate again. If the gate is closed already, Close only replaces
// the cause in the errors of Enter.
func (g *Gate) Close(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause = cause
	if !g.status.Open {
		return
	}
	g.status.Open, g.status.Since, g.look = false, time.Now(), nil
	g.status.Closed++
	for p := range g.passes {
		if p.end != nil {
			p.end(&closedError{cause})
			p.end = nil
		}
	}
}

// Enter returns the context of a pass, and a function that leaves it, which must be called once. The context ends with
// ctx, and when the gate closes. If the gate is closed, Enter returns ctx, a function that does nothing, and an error
// that wraps [ErrGateClosed]; it does not wait. A nil gate returns ctx.
func (g *Gate) Enter(ctx context.Context) (context.Context, func(), error) {
	if g == nil {
		return ctx, func() {}, nil
	}
	pass, cancel := context.WithCancelCause(ctx)
	leave, err := g.enter(cancel)
	if err != nil {
		cancel(err)
		return ctx, func() {}, err
	}
	return pass, func() { cancel(nil); leave() }, nil
}

// enter hands out a pass. end is called when the gate closes before leave is called. It must return at once, and not
// call the gate.
func (g *Gate) enter(end func(cause error)) (leave func(), err error) {
	g.mu.Lock()
	look := g.look
	g.mu.Unlock()
	if look != nil {
		look()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.status.Open {
		g.status.Refused++
		if g.cause == nil {
			return nil, &closedError{errNeverOpened}
		}
		return nil, &closedError{g.cause}
	}
	if g.passes == nil {
		g.passes = map[*pass]struct{}{}
	}
	p := &pass{end}
	g.passes[p] = struct{}{}
	return func() { g.leave(p) }, nil
}

func (g *Gate) leave(p *pass) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.passes, p)
	if len(g.passes) == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Wait waits until the gate is open, and then returns nil. It returns the cause of ctx if ctx ends first. The gate may
// close again before the caller enters.
func (g *Gate) Wait(ctx context.Context) error {
	for {
		opens := g.opened()
		if opens == nil {
			return nil
		}
		select {
		case <-opens:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// opened returns a channel that is closed when the gate opens, or nil if it is open.
func (g *Gate) opened() <-chan struct{} {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.status.Open {
		return nil
	}
	if g.opens == nil {
		g.opens = make(chan struct{})
	}
	return g.opens
}

// WaitLeft waits until all passes have been left, and then returns nil. It returns the cause of ctx if ctx ends first.
// Close the gate before, or new passes may be handed out.
func (g *Gate) WaitLeft(ctx context.Context) error {
	for g != nil {
		g.mu.Lock()
		if len(g.passes) == 0 {
			g.mu.Unlock()
			return nil
		}
		if g.empty == nil {
			g.empty = make(chan struct{})
		}
		empty := g.empty
		g.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Status returns the present status of the gate.
func (g *Gate) Status() status.Gate {
	if g == nil {
		return status.Gate{Open: true}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Passes = len(g.passes)
	return s
}

type gateKey struct{}

// WithGate returns a context in which a [Controller] stops at g; see [Gate]. A nil g leaves the gate of ctx.
func WithGate(ctx context.Context, g *Gate) context.Context {
	if g == nil {
		return ctx
	}
	return context.WithValue(ctx, gateKey{}, g)
}

// GateOf returns the gate of a context of [WithGate]. Nil means that it has none.
func GateOf(ctx context.Context) *Gate {
	g, _ := ctx.Value(gateKey{}).(*Gate)
	return g
}
