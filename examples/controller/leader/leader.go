// Package leader makes one of several replicas do the work, with client-go's tools/leaderelection. It is safe by default:
// the work of one replica has returned before that of another begins.
//
// leaderelection alone does not ensure that. It stops leading RenewDeadline after its first failing renewal. That begins
// RetryPeriod after the last answer, which may itself have taken RenewDeadline. With the usual 15 s, 10 s and 2 s, this is
// up to 22 s after the write from which the others count 15 s. With ReleaseOnCancel, it releases the lease while the work is
// still winding down. And it never waits for the work.
//
// This package counts the end of the lease from the time at which the last successful renewal was sent. That is before the
// server wrote it, and before the others saw it:
//
//	0 s                             10 s            14 s     15 s
//	| renewal sent                  | the context   | the    | the others may
//	|                               | of the work   | work   | take the lease
//	|                               | ends          | ended  |
//	|<------- LeaseDuration - Margin - Grace ------>|
//	                                |<--- Grace --->|<------>| Margin, for clocks of different speeds
//
// Only the end of the process can stop work that has not returned by then, so the process exits. When the context of Run
// ends, the lease is renewed until the work has returned, and is then released, so that the next replica need not wait for
// it to expire.
//
// No lease can stop a request that was sent in time but arrives late. If the request has a resourceVersion, it fails once
// the next leader has written.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Config is the configuration of Run. Only Lock is required.
type Config struct {
	// Lock is the lock that the replicas contend for: a *resourcelock.LeaseLock of this replica. Its identity must be
	// unique: no other replica may have it, nor an earlier process of this one.
	Lock resourcelock.Interface
	// LeaseDuration is how long other replicas wait after the last renewal they saw, in whole seconds. Zero means 15 s.
	LeaseDuration time.Duration
	// RetryPeriod is the time between two renewals, or two attempts to become the leader. Zero means 2 s.
	RetryPeriod time.Duration
	// Grace is how long the work may take to return after its context ends. If the work is an informer.Controller, it
	// must exceed the controller's Grace. Zero means DefaultGrace.
	Grace time.Duration
	// Fatal is called when work has not returned in time, and must not return. Nil means os.Exit(1).
	Fatal func()
	// Logger gets a record when this replica becomes the leader, and when it stops. Nil means slog.Default().
	Logger *slog.Logger
}

const (
	// DefaultGrace is the default of Config.Grace.
	DefaultGrace = 4 * time.Second
	// Margin is the rest of the lease when the work must have returned.
	Margin = time.Second
)

// ErrLost is the cause of the work's context when the lease could not be renewed.
var ErrLost = errors.New("the lease is about to be lost")

// Run calls work whenever this replica is the leader, and ends work's context when the lease is about to end. It returns
// the cause of ctx when that ends, or the result of work if it returns by itself, after work has returned and the lease
// is released.
func Run(ctx context.Context, config Config, work func(ctx context.Context) error) error {
	if err := config.complete(); err != nil {
		return fmt.Errorf("leader: %w", err)
	}
	for ctx.Err() == nil {
		t := &term{config: config, lock: &lock{Interface: config.Lock, timeout: config.workFor() / 2}, ended: make(chan struct{})}
		if err := t.run(ctx, work); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (c *Config) complete() error {
	for _, d := range []struct {
		value *time.Duration
		zero  time.Duration
	}{{&c.LeaseDuration, 15 * time.Second}, {&c.RetryPeriod, 2 * time.Second}, {&c.Grace, DefaultGrace}} {
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if c.Fatal == nil {
		c.Fatal = func() { os.Exit(1) }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case c.Lock == nil:
		return errors.New("Config.Lock is nil")
	case c.Lock.Identity() == "":
		return errors.New("Config.Lock has no identity")
	case c.LeaseDuration%time.Second != 0:
		return fmt.Errorf("Config.LeaseDuration is %v: it must be in whole seconds", c.LeaseDuration)
	case c.RetryPeriod < 0 || c.Grace < 0:
		return errors.New("Config.RetryPeriod or Config.Grace is negative")
	case c.workFor() < 2*c.RetryPeriod: // at least two attempts before the work must end
		return fmt.Errorf("Config.LeaseDuration %v is too short for a Grace of %v and a RetryPeriod of %v", c.LeaseDuration, c.Grace, c.RetryPeriod)
	}
	return nil
}

// workFor is how long after a renewal the work may continue.
func (c *Config) workFor() time.Duration { return c.LeaseDuration - Margin - c.Grace }

// term is one period as a candidate, and then possibly as the leader.
type term struct {
	config Config
	lock   *lock
	began  atomic.Bool   // set when the work is about to begin
	ended  chan struct{} // closed when the work has returned, or will not begin
	err    error         // the result of work that returned by itself; readable once ended is closed
}

func (t *term) run(ctx context.Context, work func(context.Context) error) error {
	// The election outlives ctx while the work runs.
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if !t.began.Load() {
			stop()
		}
	})()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          t.lock,
		LeaseDuration: t.config.LeaseDuration,
		RenewDeadline: t.config.workFor(),
		RetryPeriod:   t.config.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer stop()
				defer close(t.ended)
				t.began.Store(true)
				if ctx.Err() == nil { // else stop may have been called already
					t.work(ctx, leading, work)
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader: %w", err)
	}
	elector.Run(electing)
	if t.lock.renewed.Load() == nil { // this replica was never the leader
		return nil
	}
	<-t.ended
	t.release(ctx)
	return t.err
}

// work calls work and ends its context in time. If work does not return in time, it ends the process.
func (t *term) work(ctx, leading context.Context, work func(context.Context) error) {
	log := t.config.Logger.With("lease", t.lock.Describe(), "identity", t.lock.Identity())
	log.Info("leading")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(leading, func() { cancel(ErrLost) })()
	returned := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		if !t.until(returned, t.config.workFor()) {
			return
		}
		cancel(ErrLost)
		if t.until(returned, t.config.LeaseDuration-Margin) {
			log.Error("the work has not returned in time, and the lease is about to end: ending the process")
			t.config.Fatal()
		}
	})
	err := work(ctx)
	close(returned)
	watch.Wait()
	if ctx.Err() == nil {
		if t.err = err; err == nil {
			t.err = errors.New("the leader's work has ended")
		}
	}
	log.Info("stopped leading", "why", context.Cause(ctx), "err", err)
}

// until waits until the last renewal has this age, and returns true. It returns false if the work returns first.
func (t *term) until(returned <-chan struct{}, age time.Duration) bool {
	for {
		left := time.Until(t.lock.renewed.Load().Add(age))
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C: // may have been renewed meanwhile
		case <-returned:
			timer.Stop()
			return false
		}
	}
}

// release lets the next leader begin at once. If it fails, the lease expires by itself. client-go's release is not used,
// since it does not check who holds the lease.
func (t *term) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.config.RetryPeriod)
	defer cancel()
	record, _, err := t.lock.Get(ctx)
	if err != nil || record.HolderIdentity != t.lock.Identity() {
		return
	}
	now := metav1.Now()
	_ = t.lock.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, LeaderTransitions: record.LeaderTransitions, AcquireTime: now, RenewTime: now,
	})
}

// lock records when successful renewals were sent, and times requests out: leaderelection would let a candidate wait
// forever.
type lock struct {
	resourcelock.Interface
	timeout time.Duration             // leaves time for two requests
	renewed atomic.Pointer[time.Time] // nil until this replica becomes the leader
}

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.Interface.Get(ctx)
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	err := write(ctx, record)
	if err == nil {
		l.renewed.Store(&sent)
	}
	return err
}
