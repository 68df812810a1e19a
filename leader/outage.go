package leader

import (
	"context"
	"errors"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
)

// With Config.Recover, a lease that has reached RenewDeadline does not end the work. The gate tells whether anything is
// under way that needs the lease, so the term ends without the end of the work:
//
//	term      gate
//	Held      open                      the work goes on
//	          |  RenewDeadline
//	Draining  closed, with passes       they have ended, and must be left by StopBy. Nothing is sent
//	          |  all have been left
//	Vacant    closed, without passes    renewals are sent, at the version that this replica wrote or read last
//	          |  one succeeds, and this replica was still the holder of that version
//	Held      open                      the work goes on
//
// A renewal that was sent before all passes had been left does not count, because it belongs to the term before.

// pausedError is the cause with which the gate closes in an outage.
type pausedError struct{ stopBy time.Time }

func (e *pausedError) Error() string {
	return "the API server is away, and the lease was not renewed in time"
}

// StopBy returns the time by which all passes must be left.
func (e *pausedError) StopBy() time.Time { return e.stopBy }

// errReturned is the cause with which the gate closes, and the context of the work ends, when the work has returned.
var errReturned = errors.New("the work of the leader has returned")

// tenure is one call of the work.
type tenure struct {
	*Elector
	working context.Context // of the work
	end     context.CancelCauseFunc
}

// look ends the term if it has passed its deadline. The gate calls it before each pass.
func (t *tenure) look() {
	t.mu.Lock()
	log := t.lookLocked()
	t.mu.Unlock()
	log()
}

// lookLocked returns what logs the result. It must be called without the lock: a log may be slow, or use the gate.
func (t *tenure) lookLocked() (log func()) {
	switch {
	case !t.term.Overdue():
	case t.config.Recover == nil:
		t.loseLocked()
	default:
		return t.pauseLocked()
	}
	return func() {}
}

// pauseLocked closes the gate, because the lease was not renewed in time. The work goes on. It returns what logs that.
func (t *tenure) pauseLocked() (log func()) {
	t.term.Lose()
	t.paused = true
	t.status.StopBy = time.Now().Add(max(min(t.term.Left(), t.status.Grace), 0))
	if t.working.Err() == nil {
		t.enterLocked(Paused)
	} else {
		t.enterLocked(Stopping)
	}
	t.config.Recover.Close(&pausedError{t.status.StopBy})
	stopBy, err := t.status.StopBy, t.status.LastError
	return func() {
		t.config.Logger.Warn("the gate is closed: the lease was not renewed in time", "stopBy", stopBy, "err", err)
	}
}

// drainLocked ends the term before if the gate has closed and all passes have been left.
func (t *tenure) drainLocked() {
	if t.paused && t.term.State() == lease.Draining && t.config.Recover.Status().Passes == 0 {
		t.term.Drained()
		t.status.StopBy = time.Time{}
	}
}

// renewed records a successful renewal. The first one of a pause opens the gate, unless the context of the work has
// ended.
func (t *tenure) renewed(sent lease.Stamp) {
	if paused, again := t.renewedIn(sent); again {
		t.config.Logger.Info("leading again: nobody took the lease", "paused", paused)
	}
}

// renewedIn is renewed without a log. It returns how long the pause was if that has ended.
func (t *tenure) renewedIn(sent lease.Stamp) (paused time.Duration, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.renewLocked(sent) || !t.paused {
		return 0, false
	}
	t.paused = false
	if t.working.Err() != nil {
		return 0, false
	}
	paused = time.Since(t.status.Since)
	t.openLocked()
	return paused, true
}

// openLocked enters Leading.
func (t *tenure) openLocked() {
	t.enterLocked(Leading)
	if g := t.config.Recover; g != nil {
		g.Open(t.look)
	}
}

// loseLocked ends the context of the work because the lease is lost.
func (t *tenure) loseLocked() {
	left := t.status.Grace
	switch {
	case t.term.Lose():
		left = min(t.term.Left(), left) // less if another replica took the lease early
	case !t.paused:
		return
	}
	t.paused = false
	if t.status.StopBy.IsZero() { // passes that the gate has ended keep their time
		t.status.StopBy = time.Now().Add(max(left, 0))
	}
	t.status.Lost++
	t.enterLocked(Stopping)
	cause := &lostError{t.status.StopBy}
	if g := t.config.Recover; g != nil {
		g.Close(cause)
	}
	t.end(cause)
}

// returned ends the work's context when the work has returned, and waits until all passes of the gate have been left.
// It returns the cause with which the context had ended before, or nil.
func (t *tenure) returned() error {
	g := t.config.Recover
	t.mu.Lock() // so that a renewal does not open the gate afterwards
	cause := context.Cause(t.working)
	t.end(errReturned)
	if g != nil {
		g.Close(errReturned)
	}
	t.mu.Unlock()
	if g != nil {
		_ = g.WaitLeft(context.Background())
	}
	return cause
}

// ungated returns a client that sends writes while the gate is closed, as renewals must be.
func ungated(client *informer.Client) *informer.Client { return client.WithGate(nil) }
