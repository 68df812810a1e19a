// Package leader has one replica of several do the work, by client-go's tools/leaderelection, safe by default: the work
// of one has returned before another can begin.
//
// leaderelection alone does not see to that. It gives up leading RenewDeadline after it began to try in vain, which is
// RetryPeriod after the last answer, which itself can have taken RenewDeadline to come: with the usual 15 s, 10 s and
// 2 s that is up to 22 s after the write that others count 15 s from. With ReleaseOnCancel it releases the lease while
// the work is still winding down. And nobody waits for the work at all.
//
// Here the end of the lease is counted from the moment at which the last good renewal was sent, which is before the
// server can have written it and others can have seen it:
//
//	0 s                             10 s            14 s     15 s
//	| renewal sent                  | the context   | the    | the others may
//	|                               | of the work   | work   | take the lease
//	|                               | ends          | ended  |
//	|<------- LeaseDuration - Margin - Grace ------>|
//	                                |<--- Grace --->|<------>| Margin, for clocks that do not go at the same speed
//
// Work that has not returned by then is not to be stopped but by the end of the process, and that is what happens.
// When the context of Run ends, the lease is renewed until the work has returned and is released then, so that the next
// replica need not wait for its end.
//
// What no lease can stop is a request that was sent in time and is slow to arrive. Writes that bear a resourceVersion
// fail then, once the next leader has written.
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
	// Lock is what the replicas contend for: a *resourcelock.LeaseLock of this replica's own. Its identity must be that of
	// no other replica, nor of this one before it was started again.
	Lock resourcelock.Interface
	// LeaseDuration is how long others wait after the last renewal that they have seen, in whole seconds. Zero means 15 s.
	LeaseDuration time.Duration
	// RetryPeriod is the time between two renewals, or two tries to become the leader. Zero means 2 s.
	RetryPeriod time.Duration
	// Grace is how long the work may take to return after its context has ended; it must be longer than the Grace of an
	// informer.Controller that is the work. Zero means DefaultGrace.
	Grace time.Duration
	// Fatal is called when work has not returned in time, and must not return. Nil means that the process exits.
	Fatal func()
	// Logger is told when this replica becomes the leader and when it no longer is. Nil means slog.Default().
	Logger *slog.Logger
}

const (
	// DefaultGrace is what a Config without Grace has.
	DefaultGrace = 4 * time.Second
	// Margin is what is left of a lease when the work has to have returned.
	Margin = time.Second
)

// ErrLost is why the context of the work has ended when the lease could not be renewed.
var ErrLost = errors.New("the lease is about to be lost")

// Run calls work whenever this replica is the leader, and ends its context when it is about to be no more. It returns
// the cause of ctx when that ends, or what work returns by itself, once work has returned and the lease is released.
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
		return fmt.Errorf("Config.LeaseDuration is %v, of which others see only the whole seconds", c.LeaseDuration)
	case c.RetryPeriod < 0 || c.Grace < 0:
		return errors.New("Config.RetryPeriod or Config.Grace is negative")
	case c.workFor() < 2*c.RetryPeriod: // two tries at least, before the work has to end
		return fmt.Errorf("Config.LeaseDuration %v is too short for a Grace of %v and a RetryPeriod of %v", c.LeaseDuration, c.Grace, c.RetryPeriod)
	}
	return nil
}

// workFor is for how long after a renewal the work may go on.
func (c *Config) workFor() time.Duration { return c.LeaseDuration - Margin - c.Grace }

// term is one time as a candidate and then, perhaps, as the leader.
type term struct {
	config Config
	lock   *lock
	began  atomic.Bool   // set when the work is about to begin
	ended  chan struct{} // closed when it has returned, or will not begin
	err    error         // of the work, if it has returned by itself; readable when ended is closed
}

func (t *term) run(ctx context.Context, work func(context.Context) error) error {
	// The election outlives ctx for as long as there is work.
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
	if t.lock.renewed.Load() == nil { // it never was the leader
		return nil
	}
	<-t.ended
	t.release(ctx)
	return t.err
}

// work calls work, ends its context in time, and ends the process if it does not return in time.
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
			log.Error("the work has not returned in time, and the lease is about to be another's: ending the process")
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
	log.Info("leading no more", "why", context.Cause(ctx), "err", err)
}

// until waits until the last good renewal is that old, and returns true, or false if the work has returned before.
func (t *term) until(returned <-chan struct{}, age time.Duration) bool {
	for {
		left := time.Until(t.lock.renewed.Load().Add(age))
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C: // it may have been renewed since
		case <-returned:
			timer.Stop()
			return false
		}
	}
}

// release lets the next leader begin at once. If it fails, the lease just ends by itself. That of client-go is not used:
// it does not look at whose the lease is now.
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

// lock notes when good renewals were sent, and gives up on requests that are not answered: leaderelection lets a
// candidate wait for ever.
type lock struct {
	resourcelock.Interface
	timeout time.Duration             // so that there is time for two
	renewed atomic.Pointer[time.Time] // nil before the first, which makes it the leader
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
