package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// Source is one collection that a store follows, or one namespace of it.
type Source interface {
	// View returns what the store has now. It returns false if the server does not serve the resource.
	View() (View, bool)
	// List lists the shard of v at exactly its resource version, and calls yield for one object after the other. It
	// returns the number of bytes of the responses.
	List(ctx context.Context, v View, yield func(object.Key, object.ID)) (bytes int64, err error)
	// Behind returns an error if the server has not reached the resource version of v.
	Behind(ctx context.Context, v View) error
	// Relist makes the store equal to the server, because of why.
	Relist(why error)
}

// Config describes an [Auditor].
type Config struct {
	Resource   schema.GroupVersionResource // of the results
	Collection string                      // of the results

	Every     time.Duration                                       // zero for no periodic audits
	Sources   func() []Source                                     // of the store, at the beginning of an audit
	Published func() <-chan struct{}                              // returns a channel that is closed when a view changes
	Alone     func(ctx context.Context) (leave func(), err error) // waits until no other audit of the client lists
	// Union compares the store with the union of the sources, and repairs it. Nil if no object is in several sources.
	Union func(context.Context) (Found, error)
	// Identity names the server, and asks it again if again is set. Nil if the server is not to be asked.
	Identity func(ctx context.Context, again bool) (string, error)
	// Different reports a difference, and returns the reason for the list that follows.
	Different func(status.AuditResult) error
	Stopped   <-chan struct{} // closed when the store changes no more
}

// Auditor audits one store. Its methods are safe for concurrent use, except that Stop follows Start, each once.
type Auditor struct {
	config   Config
	schedule schedule
	resumed  chan struct{}  // holds a token when a watch has resumed after a failure
	asking   sync.WaitGroup // watchIdentity

	mu     sync.Mutex    // protects the fields below
	status *status.Audit // nil before the first audit
}

// New returns an auditor without sources.
func New(c Config) *Auditor {
	return &Auditor{config: c, schedule: schedule{every: c.Every}, resumed: make(chan struct{}, 1)}
}

// Due makes an audit due. It begins at a random time within half a minute.
func (a *Auditor) Due() { a.schedule.makeDue() }

const (
	// maxAway is the time without a watch after which an audit is due.
	maxAway = time.Minute
	// maxAudit is the time after which an audit fails that nobody asked for.
	maxAudit = 15 * time.Minute
)

// Resumed notes that a watch has resumed. No watch was open for the time away. An audit is due if that was long, or if
// unsure is set: changes may be missing, or another server may answer.
func (a *Auditor) Resumed(away time.Duration, unsure bool) {
	if unsure || away > maxAway {
		a.Due()
	}
	run.Signal(a.resumed)
}

// Start makes the auditor audit whenever an audit is due, until ctx ends.
func (a *Auditor) Start(ctx context.Context) {
	if a.config.Identity != nil {
		a.asking.Go(func() { a.watchIdentity(ctx) })
	}
	a.schedule.start(ctx, func(ctx context.Context) outcome {
		ctx, cancel := context.WithTimeoutCause(ctx, maxAudit, fmt.Errorf("it took longer than %v", maxAudit))
		defer cancel()
		r, err := a.Audit(ctx)
		switch {
		case err != nil:
			return failed
		case r.Differ > 0:
			return different
		}
		return equal
	})
}

// Stop waits for an audit under way. The context of Start must have ended. Without Start, it does nothing.
func (a *Auditor) Stop() {
	a.schedule.stop()
	a.asking.Wait()
}

// watchIdentity makes an audit due if another server answers after a failure.
func (a *Auditor) watchIdentity(ctx context.Context) {
	before, _ := a.config.Identity(ctx, false)
	for {
		select {
		case <-a.resumed:
		case <-ctx.Done():
			return
		}
		now, err := a.config.Identity(ctx, true)
		if err != nil || now == "" {
			continue
		}
		if before != "" && now != before {
			a.Due()
		}
		before = now
	}
}

// Status returns the present status.
func (a *Auditor) Status() status.Audit {
	a.mu.Lock()
	defer a.mu.Unlock()
	var s status.Audit
	if a.status != nil {
		s = *a.status
	}
	s.Next = a.schedule.nextAt()
	return s
}

func (a *Auditor) statusLocked() *status.Audit {
	if a.status == nil {
		a.status = &status.Audit{}
	}
	return a.status
}

// Audit compares the store with every source. It makes those list that differ.
func (a *Auditor) Audit(ctx context.Context) (status.AuditResult, error) {
	var found Found
	a.describe(&found, time.Now())
	err := a.compareAll(ctx, &found)
	r := found.AuditResult
	r.Took = time.Since(r.Time)
	canceled := errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled)
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.statusLocked()
	switch {
	case run.IsClosed(a.config.Stopped), err != nil && canceled: // says nothing about the server
	case err != nil:
		s.Failed++
		s.LastError = err
	case r.Differ > 0:
		s.Different++
		s.Differ += r.Differ
		s.Last = r
	default:
		s.Equal++
		s.Last, s.LastEqual = r, r.Time
	}
	return r, err
}

// describe notes what was audited, and when that began.
func (a *Auditor) describe(r *Found, began time.Time) {
	r.Resource, r.Collection, r.Time = a.config.Resource, a.config.Collection, began
}

// compareAll adds to r what differs.
func (a *Auditor) compareAll(ctx context.Context, r *Found) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, s := range a.config.Sources() {
		err := run.Apart(func() error { return a.compareSource(ctx, s, r) }) // List may call functions of the user
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		if err != nil {
			return err
		}
	}
	if a.config.Union == nil {
		return nil
	}
	part, err := a.config.Union(ctx)
	if err != nil {
		return err
	}
	a.describe(&part, r.Time)
	part.ResourceVersion = r.ResourceVersion
	a.add(r, &part)
	r.Objects = part.Objects // each once
	if part.Differ > 0 {
		a.different(part.AuditResult)
	}
	return nil
}

// different reports a difference, and returns the reason for the list that follows.
func (a *Auditor) different(part status.AuditResult) error {
	why := a.config.Different(part)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statusLocked().LastError = why
	return why
}

// compareSource adds to r what differs in one source, and makes the source list if anything does.
func (a *Auditor) compareSource(ctx context.Context, s Source, r *Found) error {
	before := r.Bytes
	for {
		published := a.config.Published()
		v, c, err := a.list(ctx, s, r)
		switch {
		case v == nil:
			return err
		case err == nil:
			part := c.End()
			a.describe(&part, r.Time)
			part.ResourceVersion, part.Bytes = v.Version(), r.Bytes-before
			if part.Differ > 0 {
				s.Relist(a.different(part.AuditResult))
			}
			a.add(r, &part)
			return nil
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			if err := a.later(ctx, s, v.Version(), published, err); err != nil {
				return err
			}
		default:
			if behind := s.Behind(ctx, v); behind != nil {
				s.Relist(behind)
				return behind
			}
			return err
		}
	}
}

// list lists the present view of s, while no other audit of the client lists, and returns its comparison with that. It
// returns nil if there is none.
func (a *Auditor) list(ctx context.Context, s Source, r *Found) (View, *Comparison, error) {
	leave, err := a.config.Alone(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	v, ok := s.View()
	if !ok {
		return nil, nil, nil
	}
	c := NewComparison(v)
	bytes, err := s.List(ctx, v, c.Served)
	r.Bytes += bytes
	return v, c, err
}

// later waits until the store has a later version of s than one that the server no longer has, because of gone. Other
// audits go on.
func (a *Auditor) later(ctx context.Context, s Source, version string, published <-chan struct{}, gone error) error {
	for {
		select {
		case <-published:
		case <-a.config.Stopped:
			return gone
		case <-ctx.Done():
			return fmt.Errorf("the store has had no later resource version than %s: %w", version, gone)
		}
		published = a.config.Published()
		if v, ok := s.View(); !ok || v.Version() != version {
			return nil
		}
	}
}

// add adds the result for one part. It counts an object once that differs in several.
func (a *Auditor) add(r, part *Found) {
	if r.ResourceVersion == "" || object.Older(part.ResourceVersion, r.ResourceVersion) {
		r.ResourceVersion = part.ResourceVersion
	}
	r.Objects += part.Objects
	r.Unclear += part.Unclear
	counted := make(map[object.Key]bool, len(r.keys))
	for _, key := range r.keys {
		counted[key] = true
	}
	for i, key := range part.keys {
		if counted[key] {
			continue
		}
		r.Differ++
		r.keys = append(r.keys, key)
		if i < len(part.Differences) && len(r.Differences) < MaxNamed {
			r.Differences = append(r.Differences, part.Differences[i])
		}
	}
}
