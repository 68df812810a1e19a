package kinds

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
)

const (
	// gatherTime is how long a discovery waits after a change, for others that follow it, such as those of the status of a
	// new definition.
	gatherTime = time.Second
	// minInterval is the time between two discoveries that changes cause.
	minInterval = 3 * time.Second
	// lagTime is the time after which a discovery is repeated that lacks what a change should have brought. kube-apiserver waits five seconds
	// before it serves a new definition, if there are several of it.
	lagTime = 5 * time.Second
	// firstTime is how long the first discovery waits for the lists of definitions and APIServices, so that no change
	// between them and the discovery is missed.
	firstTime = 5 * time.Second
	// discoveryTimeout is the time limit for one discovery. A server without aggregated discovery needs a request for each
	// version, at the rate of the client.
	discoveryTimeout = 5 * time.Minute
	// maxBackoff is the longest time between two discoveries that fail.
	maxBackoff = time.Minute
)

// watched are the resources whose changes change what discovery says.
var watched = []schema.GroupVersionResource{
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
}

// changes follows the metadata of definitions and APIServices. It is a handler of both.
type changes struct {
	informers []*informer.Informer[metadata]
	handlers  []*informer.Subscription // of the informers, to itself
	changed   chan struct{}            // has a token if there was a change since the last discovery began

	mu      sync.Mutex           // protects the fields below
	deleted map[string]time.Time // the names of what was deleted in the last minute, and when
	added   map[string]time.Time // the names of the definitions that were added in the last minute, and when
}

// definitions is a handler of definitions, whose names are those of the kinds that they add.
type definitions struct{ *changes }

// OnAdd implements informer.Handler.
func (d definitions) OnAdd(obj metadata, initial bool) {
	if !initial {
		d.mu.Lock()
		d.added[obj.Name] = time.Now()
		d.mu.Unlock()
	}
	d.changes.OnAdd(obj, initial)
}

func newChanges(client *informer.Client, logger *slog.Logger) *changes {
	c := &changes{changed: make(chan struct{}, 1), deleted: map[string]time.Time{}, added: map[string]time.Time{}}
	if client == nil {
		return c
	}
	for n, resource := range watched {
		i := informer.New(client, informer.Resource{GroupVersionResource: resource},
			informer.Config[metadata]{AbsentIsSynced: true, Logger: quiet(logger)})
		c.informers = append(c.informers, i)
		var handler informer.Handler[metadata] = c
		if n == 0 {
			handler = definitions{c}
		}
		c.handlers = append(c.handlers, i.Subscribe(handler, informer.SubscriptionConfig[metadata]{Name: "kinds"}))
	}
	return c
}

// run follows the changes until ctx ends.
func (c *changes) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, i := range c.informers {
		all.Go(func() { _ = i.Run(ctx) })
	}
	all.Wait()
}

// OnAdd implements informer.Handler.
func (c *changes) OnAdd(obj metadata, _ bool) {
	c.mu.Lock()
	delete(c.deleted, obj.Name) // it is back
	c.mu.Unlock()
	run.Signal(c.changed)
}

// OnUpdate implements informer.Handler.
func (c *changes) OnUpdate(_, _ metadata) { run.Signal(c.changed) }

// OnDelete implements informer.Handler.
func (c *changes) OnDelete(last metadata, _ bool) {
	c.mu.Lock()
	c.deleted[last.Name] = time.Now()
	delete(c.added, last.Name)
	c.mu.Unlock()
	run.Signal(c.changed)
}

// begin forgets the changes so far, since a discovery begins. It returns the names of what was deleted lately, and those
// of definitions that were added lately.
func (c *changes) begin() (deleted, added map[string]bool) {
	select {
	case <-c.changed:
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return lately(c.deleted), lately(c.added)
}

// lately returns the names of the last minute, and removes the others from times.
func lately(times map[string]time.Time) map[string]bool {
	names := map[string]bool{}
	for name, since := range times {
		if time.Since(since) > time.Minute {
			delete(times, name)
			continue
		}
		names[name] = true
	}
	return names
}

// waitFirst waits until both informers have delivered what is there, for a short time.
func (c *changes) waitFirst(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, firstTime)
	defer end()
	for _, handler := range c.handlers {
		_ = handler.WaitSynced(ctx)
	}
}

// follow makes discoveries until ctx ends: at first, after changes, and now and then.
//
//	           +------- it lacks something new: once more after lagTime ----------+
//	           v                                                                  |
//	begin -> discover -> wait -- a change: gather, at most one each minInterval --+-> discover
//	                      |
//	                      +----- DiscoverEvery, a backoff, or settleTime -----------> discover
func (s *Set[T]) follow(ctx context.Context) {
	s.changes.waitFirst(ctx)
	began, wait := s.discover(ctx, true)
	for ctx.Err() == nil {
		timer := time.NewTimer(wait)
		byChange := false
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.changes.changed:
			byChange = true
			_ = run.Sleep(ctx, max(gatherTime, minInterval-time.Since(began)))
		}
		timer.Stop()
		if ctx.Err() == nil {
			began, wait = s.discover(ctx, !byChange)
		}
	}
}

// discover asks the server once. It returns when it began, and how long the next discovery can wait. complete is false
// if a change caused it.
func (s *Set[T]) discover(ctx context.Context, complete bool) (began time.Time, wait time.Duration) {
	deleted, added := s.changes.begin()
	began = time.Now()
	limited, end := context.WithTimeout(ctx, discoveryTimeout)
	defer end()
	d, err := s.client.Discover(limited)
	if ctx.Err() != nil {
		return began, 0
	}
	if err != nil {
		return began, s.failed(err)
	}
	changed, missing := s.take(d, deleted)
	partial := s.succeeded(d.Err() != nil)
	wait = s.config.discoverEvery()
	wait += time.Duration(rand.Int64N(int64(wait)/10 + 1))
	if !complete && !changed || s.lacks(added) {
		wait = min(wait, lagTime)
	}
	if partial > 0 { // no change will say that the rest can be read
		wait = min(wait, backoff(partial))
	}
	if missing {
		wait = min(wait, settleTime)
	}
	return began, wait
}

// lacks reports whether the latest discovery lacks the kind of one of these definitions.
func (s *Set[T]) lacks(definitions map[string]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range definitions {
		if _, ok := s.catalog.kinds[schema.ParseGroupResource(name)]; !ok {
			return true
		}
	}
	return false
}

// failed records a failure, and returns the backoff. A failure that lasts is logged once.
func (s *Set[T]) failed(err error) time.Duration {
	s.mu.Lock()
	s.record.Failures++
	s.record.LastError, s.record.LastErrorTime = err, time.Now()
	n := s.record.Failures
	s.mu.Unlock()
	if n == 1 {
		s.config.logger().Warn("discovery fails: the kinds stay as they are", "err", err)
	}
	s.news.Send()
	return backoff(n)
}

// backoff returns the wait after n discoveries in a row that failed in whole or in part.
func backoff(n int) time.Duration {
	d := min(time.Second<<min(n-1, 10), maxBackoff)
	return d/2 + rand.N(d/2)
}

// succeeded records a success, and logs it if it ends a failure, or if what is not known has changed. partial says that
// a part could not be read. It returns the number of such discoveries in a row.
func (s *Set[T]) succeeded(partial bool) (n int) {
	s.mu.Lock()
	if s.record.partial++; !partial {
		s.record.partial = 0
	}
	n = s.record.partial
	failures, logged, unknown := s.record.Failures, s.record.logged, s.catalog.unknown
	s.record.Count++
	s.record.Failures, s.record.LastSuccess = 0, time.Now()
	names := namesOf(unknown)
	s.record.logged = names
	s.mu.Unlock()
	if failures > 0 {
		s.config.logger().Info("discovery succeeds again", "failures", failures)
	}
	if names != logged {
		if names == "" {
			s.config.logger().Info("discovery knows all API groups again")
			return n
		}
		s.config.logger().Warn("discovery does not know some API groups: their kinds stay as they are", "groups", names,
			"err", unknown[0].Err)
	}
	return n
}
