package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
	"github.com/typedinformer/informer/internal/run"
)

// ErrLost indicates that the lease was not renewed in time, or that another replica took it. The cause of the work's
// context then wraps it. The cause also has a method StopBy() time.Time, which returns the time by which the work must
// have returned. An informer.Controller shortens its Grace so that it returns by then.
var ErrLost = errors.New("the lease is lost")

// lostError is the cause of the work's context after a loss.
type lostError struct{ stopBy time.Time }

func (e *lostError) Error() string { return ErrLost.Error() }

func (e *lostError) Unwrap() error { return ErrLost }

// StopBy returns the time by which the work must have returned.
func (e *lostError) StopBy() time.Time { return e.stopBy }

// State is the state of an [Elector].
//
//	Idle -- Run --> Candidate -- acquired --> Leading -- lost, the work returned, or ctx ended --> Stopping
//	 ^                |    ^                   |   ^                                              ^ |    |
//	 |                |    |     not renewed,  |   | renewed    lost, the work returned,          | |    |
//	 |                |    |     with Recover  v   |            or ctx ended                      | |    |
//	 |                |    |                  Paused ---------------------------------------------+ |    |
//	 |                |    |                                                                        |    |
//	 +-- ctx ended ---+    +------------------------ released after a loss -------------------------+    |
//	 +------------------------------------------------------- released otherwise ------------------------+
type State uint8

const (
	// Idle means that Run is not under way.
	Idle State = iota
	// Candidate tries to take the lease.
	Candidate
	// Leading runs the work.
	Leading
	// Stopping waits until the work has returned, and then releases the lease. The context of the work has ended.
	Stopping
	// Paused runs the work with the gate of Config.Recover closed, because the lease was not renewed in time. Renewals go
	// on. The elector is Leading again if one succeeds, and the lease is lost if another replica has taken it.
	Paused
)

// String returns the name of the state, such as "Leading".
func (s State) String() string {
	switch s {
	case Idle:
		return "Idle"
	case Candidate:
		return "Candidate"
	case Leading:
		return "Leading"
	case Stopping:
		return "Stopping"
	case Paused:
		return "Paused"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Status is the status of an [Elector].
type Status struct {
	// Lease is the namespace and the name of the Lease, such as "shop/shop-controller".
	Lease string
	// RenewDeadline is the age of the lease at which the context of the work ends, or the gate of Config.Recover closes.
	// Grace is how long the work, or the passes of the gate, may then take to end.
	RenewDeadline, Grace time.Duration
	// Identity is the name of this replica; see Config.Identity.
	Identity string
	// State is Leading only while the lease is younger than RenewDeadline by the clocks at the time of the call. So it is
	// right in a process that was suspended, too.
	State State
	// Since is the time at which the elector entered State.
	Since time.Time
	// Holder is the identity in the Lease as this replica last saw it. Empty means none.
	Holder string
	// Renewed is the time at which this replica sent its last successful renewal. Zero means that it has never led.
	Renewed time.Time
	// Terms counts how often this replica has taken the lease, and Lost how often it has lost it.
	Terms, Lost uint64
	// StopBy is the time by which the work must have returned, because the lease is lost, or by which the passes of the
	// gate must be left. Zero means that the lease is not lost, or that this has happened.
	StopBy time.Time
	// LastError is the last failure of a request. Nil means that there was none. A success does not clear it.
	LastError error
	// LastErrorTime is the time of LastError.
	LastErrorTime time.Time
}

// Elector contends for a Lease, and runs work while it holds it. Create one with [New]. All methods are safe for
// concurrent use.
type Elector struct {
	config Config
	client *informer.TypedClient[*coordinationv1.Lease]
	wall   func() time.Time // the wall clock

	mu      sync.Mutex // protects the fields below
	status  Status
	term    *lease.Term // of the call of Run; nil before the first
	failing bool        // the last request failed
	paused  bool        // the gate of Config.Recover is closed, and the lease may come back
}

// New returns an elector. It sends no request; Run does. It returns an error that names the field of config that is
// wrong.
//
// Give the elector a client of its own. Renewals that wait behind the requests of the work, for the rate limit of a
// shared client, may come too late.
func New(client *informer.Client, config Config) (*Elector, error) {
	if client == nil {
		return nil, errors.New("leader: the client is nil: create one with informer.NewClient")
	}
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("leader: %w", err)
	}
	config.Logger = config.Logger.With("lease", config.Namespace+"/"+config.Name, "identity", config.Identity)
	return &Elector{
		config: config,
		client: informer.NewTypedClient[*coordinationv1.Lease](ungated(client),
			coordinationv1.SchemeGroupVersion.WithResource("leases")),
		wall: func() time.Time { return time.Now().Round(0) },
		status: Status{
			Lease:         config.Namespace + "/" + config.Name,
			RenewDeadline: config.RenewDeadline,
			Grace:         config.timing().Grace(),
			Identity:      config.Identity,
			Since:         time.Now(),
		},
	}, nil
}

// Run calls work whenever this replica holds the lease. It ends the context of work when ctx ends, or with a cause that
// wraps [ErrLost] when the lease is lost; see Config.Recover for work that survives an outage. After a loss it contends
// for the lease again. Run returns the cause of ctx, or the result of work if work returns before its context ends. By
// then, work has returned, the lease is released, and every goroutine that Run started has ended. If the release fails,
// the lease expires by itself. Failing requests do not end Run; see Status.
//
// Run may be called again later. If it is already under way, it returns an error that wraps [informer.ErrRunning].
func (e *Elector) Run(ctx context.Context, work func(ctx context.Context) error) error {
	e.mu.Lock()
	if e.status.State != Idle {
		e.mu.Unlock()
		return fmt.Errorf("leader: %w", informer.ErrRunning)
	}
	e.enterLocked(Candidate)
	e.term = lease.NewTerm(e.config.timing(), e.wall)
	e.mu.Unlock()
	defer e.enter(Idle)
	for {
		c := e.newClaim()
		if err := e.contend(ctx, c); err != nil {
			return err
		}
		if ended, err := e.lead(ctx, c, work); ended {
			return err
		}
		e.enter(Candidate)
	}
}

// Status returns the present status of the elector.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	if s.State == Leading && !e.term.Alive() { // it is held, since its loss ends Leading
		s.State, s.Since = Stopping, e.term.Deadline()
		if e.config.Recover != nil {
			s.State = Paused
		}
	}
	return s
}

// contend returns nil when this replica has taken the lease, or the cause of ctx.
func (e *Elector) contend(ctx context.Context, c *claim) error {
	for ctx.Err() == nil {
		sent := e.stamp()
		acquired, err := c.acquire(ctx)
		if ctx.Err() != nil && !acquired {
			break
		}
		e.note(c, err)
		switch {
		case acquired && ctx.Err() != nil:
			e.release(ctx, c)
		case acquired && e.renew(sent):
			return nil
		}
		_ = run.Sleep(ctx, wait.Jitter(e.config.RetryPeriod, 1.2))
	}
	return context.Cause(ctx)
}

// release releases the lease if this replica holds it. If that fails, the lease expires by itself.
func (e *Elector) release(ctx context.Context, c *claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.config.requestTimeout())
	defer cancel()
	e.note(c, c.release(ctx))
}

// note records the result of a request, and who holds the lease.
func (e *Elector) note(c *claim, err error) {
	if e.noteIn(c, err) {
		e.config.Logger.Warn("requests for the lease fail", "err", err)
	}
}

// noteIn is note without a log. It reports whether requests begin to fail.
func (e *Elector) noteIn(c *claim, err error) (fails bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Holder = c.holder()
	if err != nil {
		e.status.LastError, e.status.LastErrorTime = err, time.Now()
		fails = !e.failing
	}
	e.failing = err != nil
	return fails
}

// stamp returns the stamp of a write that is sent now.
func (e *Elector) stamp() lease.Stamp {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term.Stamp()
}

// renew records that the server has accepted a write, and reports whether that counts.
func (e *Elector) renew(sent lease.Stamp) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.renewLocked(sent)
}

func (e *Elector) renewLocked(sent lease.Stamp) bool {
	if !e.term.Renew(sent) {
		return false
	}
	e.status.Renewed = e.term.Renewed()
	return true
}

func (e *Elector) enter(s State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.enterLocked(s)
}

func (e *Elector) enterLocked(s State) {
	if e.status.State != s {
		e.status.State, e.status.Since = s, time.Now()
	}
}
