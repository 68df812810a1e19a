package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/set"
)

// Removal says what handlers receive when a cluster is removed: [Deliver] or [Silent].
type Removal = set.Removal

const (
	// Deliver gives handlers a deletion with final=false for each object of the cluster.
	Deliver = set.Deliver
	// Silent gives handlers nothing.
	Silent = set.Silent
)

// Config describes a [Fleet].
type Config[T informer.Object] struct {
	// Clusters reports the clusters. It must not be nil.
	Clusters Source
	// Resource is the collection in each cluster.
	Resource informer.Resource
	// Informer returns the configuration of the informer of a cluster. A nil Parts in it means that of the fleet. The fleet
	// calls it when it adds the cluster. It must not call methods of the fleet. Nil means the zero configuration.
	Informer func(cluster string) informer.Config[T]
	// Client may change the configuration of the client of a cluster, such as QPS, Timeout or UserAgent, before it is used
	// for the first time or again. Zero QPS means no limit, as each cluster has a client of its own. Nil means no change.
	Client func(cluster string, config *rest.Config)
	// Parts makes objects share equal parts with those of other fleets; see [informer.Parts]. Nil means that the objects of
	// this fleet share parts only with each other.
	Parts *informer.Parts
	// Removed is what handlers receive when a cluster is removed. The zero value is Deliver.
	Removed Removal
	// Starts is how many clusters may be in their first list at once; a cluster that hangs stops counting after some
	// seconds. Zero means 8.
	Starts int
	// Logger receives a line when a cluster or the source becomes unusable, or usable again. Nil means slog.Default().
	Logger *slog.Logger
}

// Fleet follows a collection in many clusters. Create one with [New]. All methods are safe for concurrent use.
type Fleet[T informer.Object] struct {
	config Config[T]
	set    *set.Set[string, T]
	known  chan struct{} // closed when the source has reported the clusters
	over   chan struct{} // closed when Run has returned, after ended is set
	ended  error         // what Run has returned
	begun  atomic.Bool   // Run was called

	changing sync.Mutex // held while a report is applied; before mu

	mu       sync.Mutex // protects the fields below, which only a report changes
	clusters map[string]*cluster
	failed   error // why the source does not know the clusters; nil if it does
}

// cluster is a cluster that the source has reported.
type cluster struct {
	client *informer.Client // nil if there was no usable configuration
	config *rest.Config     // what the source reported for client
	err    error            // why the present configuration is unusable
}

// New returns a fleet. It starts nothing; Run does. It returns an error if c is wrong.
func New[T informer.Object](c Config[T]) (*Fleet[T], error) {
	if c.Clusters == nil {
		return nil, errors.New("fleet: Config.Clusters is nil: use NewMap, Folder, Secrets or Profiles")
	}
	if c.Resource.Resource == "" {
		return nil, errors.New("fleet: Config.Resource has no resource")
	}
	if c.Removed > Silent {
		return nil, fmt.Errorf("fleet: Config.Removed is %v: it must be Deliver or Silent", c.Removed)
	}
	if c.Parts == nil {
		c.Parts = new(informer.Parts)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	known := make(chan struct{})
	return &Fleet[T]{
		config:   c,
		set:      set.New[string, T](set.Config[string, T]{Known: known, Starts: c.Starts, Logger: c.Logger}),
		known:    known,
		over:     make(chan struct{}),
		clusters: map[string]*cluster{},
	}, nil
}

// Run follows the clusters until ctx ends, and returns the cause of ctx. If the source ends by itself, Run returns its
// error. Every goroutine that Run started has ended when it returns, and no handler is called any more. A fleet runs
// once.
func (f *Fleet[T]) Run(ctx context.Context) error {
	if f.begun.Swap(true) { // a second source would change the clusters
		return fmt.Errorf("fleet: %w", informer.ErrRunning)
	}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	running.Go(func() {
		err := f.config.Clusters.Run(own, f.apply)
		if err == nil {
			err = errEnded
		}
		if own.Err() == nil {
			cancel(fmt.Errorf("the source of the clusters: %w", err))
		}
	})
	err := f.set.Run(own)
	cancel(err)
	running.Wait()
	f.ended = err
	close(f.over)
	return err
}

var errEnded = errors.New("it has ended")

// apply makes the fleet have the reported clusters.
func (f *Fleet[T]) apply(reported map[string]Cluster, err error) {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.note(err)
	if err != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.clusters)) { // only changing writes to it
		if _, ok := reported[name]; !ok {
			f.change(func() { delete(f.clusters, name) })
			f.set.Remove(name, f.config.Removed)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		f.update(name, reported[name])
	}
	select {
	case <-f.known:
	default:
		close(f.known)
	}
}

func (f *Fleet[T]) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// note notes whether the source knows the clusters. It logs changes only.
func (f *Fleet[T]) note(err error) {
	before := f.failed
	f.change(func() { f.failed = err })
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		f.config.Logger.Warn("the clusters of the fleet are not known: the fleet keeps those that it has", "err", err)
	case err == nil && before != nil:
		f.config.Logger.Info("the clusters of the fleet are known again")
	}
}

// update adds a cluster, or changes its configuration. It logs changes of its error only.
func (f *Fleet[T]) update(name string, reported Cluster) {
	c := f.clusters[name]
	if c == nil {
		c = &cluster{}
	}
	now := *c
	if now.err = reported.Err; now.err == nil && reported.Config == nil {
		now.err = errors.New("the source has no configuration of its client")
	}
	if now.err == nil && (c.client == nil || c.config != reported.Config) {
		now.err = f.connect(name, &now, reported.Config)
	}
	if errors.Is(now.err, informer.ErrStopped) { // Run is about to return
		return
	}
	switch {
	case now.err != nil && (c.err == nil || c.err.Error() != now.err.Error()):
		f.config.Logger.Warn("a cluster of the fleet has no usable configuration", "cluster", name, "err", now.err,
			"lastGoodInUse", now.client != nil)
	case now.err == nil && c.err != nil:
		f.config.Logger.Info("a cluster of the fleet has a usable configuration again", "cluster", name)
	}
	f.change(func() { f.clusters[name] = &now })
}

// connect makes the client of a cluster use config: a new one, or the present one.
func (f *Fleet[T]) connect(name string, c *cluster, config *rest.Config) error {
	own := rest.CopyConfig(config)
	if own.QPS == 0 && own.RateLimiter == nil {
		own.QPS = -1
	}
	if len(own.CertData) > 0 && own.Proxy == nil {
		own.Proxy = http.ProxyFromEnvironment // the default. With it, client-go does not keep each certificate for ever
	}
	if f.config.Client != nil {
		f.config.Client(name, own)
	}
	if c.client != nil {
		if err := c.client.Update(own); err != nil {
			return err
		}
		c.config = config
		return nil
	}
	client, err := informer.NewClient(own)
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	err = f.set.Add(name, func() *informer.Informer[T] { return f.informer(name, client) })
	if err != nil {
		return err
	}
	c.client, c.config = client, config
	return nil
}

// informer returns the informer of a cluster.
func (f *Fleet[T]) informer(name string, client *informer.Client) *informer.Informer[T] {
	var config informer.Config[T]
	if f.config.Informer != nil {
		config = f.config.Informer(name)
	}
	if config.Parts == nil {
		config.Parts = f.config.Parts
	}
	logger := config.Logger
	if logger == nil {
		logger = f.config.Logger
	}
	config.Logger = logger.With("cluster", name)
	return informer.New(client, f.config.Resource, config)
}

// Client returns the client of a cluster, for example to write to it. It follows changes of the configuration.
func (f *Fleet[T]) Client(name string) (*informer.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.clusters[name]
	switch {
	case c == nil:
		return nil, fmt.Errorf("%s: %w", name, ErrNotMember)
	case c.client == nil:
		return nil, fmt.Errorf("%s: %w", name, c.err)
	}
	return c.client, nil
}

// ErrNotMember indicates that the fleet does not have a cluster.
var ErrNotMember = set.ErrNotMember

// Store returns the store of a cluster. The error names the cluster, and wraps [ErrNotMember] if the fleet does not have
// it.
func (f *Fleet[T]) Store(name string) (*informer.Store[T], error) {
	store, err := f.set.Store(name)
	if err != nil {
		if _, why := f.Client(name); why != nil {
			err = why
		}
		return nil, err
	}
	return store, nil
}

// Informer returns the informer of a cluster.
func (f *Fleet[T]) Informer(name string) (*informer.Informer[T], bool) { return f.set.Informer(name) }

// WaitSynced waits until the clusters are known, and the stores of these have their whole collections. Without names, it
// waits for all that the fleet has when the clusters are known. If ctx ends first, the error names each cluster that is
// not synced, and why. A cluster that has never had a usable configuration is an error at once, when the others are
// synced.
func (f *Fleet[T]) WaitSynced(ctx context.Context, names ...string) error {
	select {
	case <-f.known:
	case <-f.over:
		return fmt.Errorf("the clusters of the fleet are not known, and Run has returned: %w", f.ended)
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		return errors.Join(fmt.Errorf("the clusters of the fleet are not known: %w", context.Cause(ctx)), f.failed)
	}
	unusable, usable := f.unusable(names)
	if len(usable) == 0 && len(names) > 0 {
		return errors.Join(unusable...)
	}
	return errors.Join(append(unusable, f.set.WaitSynced(ctx, usable...))...)
}

// unusable returns an error for each of the clusters, or of all if there are no names, that never had a usable
// configuration, and the other names.
func (f *Fleet[T]) unusable(names []string) (errs []error, usable []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.clusters)) {
		if c := f.clusters[name]; c.client == nil && (len(names) == 0 || slices.Contains(names, name)) {
			errs = append(errs, fmt.Errorf("%s: %w", name, c.err))
		}
	}
	for _, name := range names {
		if c := f.clusters[name]; c == nil || c.client != nil {
			usable = append(usable, name)
		}
	}
	return errs, usable
}
