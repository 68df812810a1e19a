package crcache

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/fetch"
)

// New returns a function for the field NewCache of a manager or a cluster. The cache that the function creates sends no
// request before its Start, except those of the RESTMapper. The function returns an error if a field of options or of
// the cache.Options that it receives is wrong or not supported.
//
// All methods of the cache are safe for concurrent use.
func New(options Options) cache.NewCacheFunc {
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		return newObjectCache(config, opts, options)
	}
}

// objectCache is the [cache.Cache] that [New] creates.
type objectCache struct {
	config   *rest.Config
	opts     cache.Options // scheme, mapper and HTTP client are set
	plans    *plans
	storages *storages
	observed *observed   // nil for no metrics
	custom   cache.Cache // has the kinds of cache.Options.NewInformer; nil if there are none
	log      logr.Logger

	readTimeout time.Duration

	known     atomic.Pointer[known] // replaced under mu
	startedCh chan struct{}         // closed by Start

	mu      sync.Mutex // protects the fields below
	ctx     context.Context
	stopped bool           // Start is about to return, or has returned
	running sync.WaitGroup // the informers; not added to after stopped is set
}

// known are the kinds that have informers. It never changes, so reads need no lock.
type known struct {
	byID map[kindID]*kind
	// byType has the typed kinds whose Go type has no other kind.
	byType map[reflect.Type]*kind
}

// kindID identifies the informers of one kind.
type kindID struct {
	gvk  schema.GroupVersionKind
	form form
}

// form is the form in which objects are held. Each form of a kind has informers of its own.
type form uint8

const (
	typed form = iota
	unstructuredForm
	metadataForm
)

func (f form) String() string { return [...]string{"typed", "unstructured", "metadata"}[f] }

// formOf returns the form of an object or a list.
func formOf(obj runtime.Object) form {
	switch obj.(type) {
	case runtime.Unstructured:
		return unstructuredForm
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataForm
	}
	return typed
}

func newObjectCache(config *rest.Config, opts cache.Options, options Options) (*objectCache, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	var err error
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("HTTP client of the cache: %w", err)
		}
	}
	if opts.Scheme == nil {
		opts.Scheme = kscheme.Scheme
	}
	if opts.Mapper == nil {
		if opts.Mapper, err = apiutil.NewDynamicRESTMapper(config, opts.HTTPClient); err != nil {
			return nil, fmt.Errorf("RESTMapper of the cache: %w", err)
		}
	}
	c := &objectCache{
		config:    config,
		opts:      opts,
		log:       log.Log.WithName("controller-runtime").WithName("cache"),
		startedCh: make(chan struct{}),
	}
	if c.readTimeout, err = options.readTimeout(); err != nil {
		return nil, err
	}
	c.known.Store(&known{})
	if c.plans, err = newPlans(&opts); err != nil {
		return nil, err
	}
	if c.storages, err = options.storages(kindOfScheme(&opts), opts.NewInformer != nil); err != nil {
		return nil, err
	}
	if c.storages.some(func(s storage) bool { return !s.custom }) {
		if err := checkSupported(&opts); err != nil {
			return nil, err
		}
	}
	if c.custom, err = c.newCustom(); err != nil {
		return nil, err
	}
	c.observed = c.observe(options)
	return c, nil
}

// observe registers the metrics, unless options leave them out. It skips metrics that cannot be registered, because a
// name that another part of the program uses must not prevent the cache.
func (c *objectCache) observe(options Options) *observed {
	if options.NoMetrics {
		return nil
	}
	registry := options.MetricsRegistry
	if registry == nil {
		registry = crmetrics.Registry
	}
	observed, left := observe(registry)
	if left != nil {
		c.log.Info("the cache leaves out metrics that it cannot register; see crcache.Options.MetricsRegistry and NoMetrics",
			"reason", left.Error())
	}
	return observed
}

// NeedLeaderElection returns false: a manager starts its cache before it is the leader.
func (c *objectCache) NeedLeaderElection() bool { return false }

// Start runs the informers, also those that are added later, until ctx ends. It returns when all have stopped.
func (c *objectCache) Start(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return err
	}
	if c.custom != nil {
		err = c.custom.Start(ctx)
		cancel()
	}
	<-ctx.Done()
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.running.Wait()
	return err
}

func (c *objectCache) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		return fmt.Errorf("cache: %w", informer.ErrRunning)
	}
	c.ctx = logr.NewContext(ctx, c.log)
	for _, k := range c.known.Load().byID {
		c.runLocked(k)
	}
	close(c.startedCh)
	return nil
}

// runLocked runs the informers of k, if the cache runs.
func (c *objectCache) runLocked(k *kind) {
	switch {
	case c.ctx == nil:
	case c.stopped:
		k.abandon()
	default:
		ctx := c.ctx
		c.running.Go(func() { k.run(ctx) })
	}
}

func (c *objectCache) started() bool { return run.IsClosed(c.startedCh) }

// WaitForCacheSync waits until the cache has started and all its informers have synced. It returns false if ctx ends
// first, or if the cache stops.
func (c *objectCache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.startedCh:
	case <-ctx.Done():
		return false
	}
	for id, k := range c.known.Load().byID {
		if err := k.waitSynced(ctx); err != nil && c.known.Load().byID[id] == k {
			c.log.Error(err, "the cache has not synced")
			return false
		}
	}
	return c.custom == nil || c.custom.WaitForCacheSync(ctx)
}

// GetInformer returns the informer of obj's kind, and creates it if there is none.
func (c *objectCache) GetInformer(ctx context.Context, obj client.Object,
	opts ...cache.InformerGetOption) (cache.Informer, error) {
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	if err != nil {
		return nil, err
	}
	if custom := c.customOf(gvk); custom != nil {
		return custom.GetInformer(ctx, obj, opts...)
	}
	return c.getInformer(ctx, kindID{gvk, formOf(obj)}, opts)
}

// GetInformerForKind returns the informer of typed objects of a kind, and creates it if there is none.
func (c *objectCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind,
	opts ...cache.InformerGetOption) (cache.Informer, error) {
	if custom := c.customOf(gvk); custom != nil {
		return custom.GetInformerForKind(ctx, gvk, opts...)
	}
	obj, err := c.opts.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return c.getInformer(ctx, kindID{gvk, formOf(obj)}, opts)
}

func (c *objectCache) getInformer(ctx context.Context, id kindID,
	opts []cache.InformerGetOption) (cache.Informer, error) {
	k, err := c.kind(id)
	if err != nil {
		return nil, err
	}
	var options cache.InformerGetOptions
	for _, opt := range opts {
		opt(&options)
	}
	if block := options.BlockUntilSynced == nil || *options.BlockUntilSynced; block && c.started() {
		if err := k.waitSynced(ctx); err != nil {
			return nil, k.errTimeout(err)
		}
	}
	return k, nil
}

// RemoveInformer stops and forgets the informer of obj's kind, with its indexes and handlers. It does not wait until
// the informer has stopped. It does nothing if there is no informer.
func (c *objectCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	if err != nil {
		return err
	}
	if custom := c.customOf(gvk); custom != nil {
		return custom.RemoveInformer(ctx, obj)
	}
	id := kindID{gvk, formOf(obj)}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known.Load().byID[id]
	if k == nil {
		return nil
	}
	c.changeLocked(func(next *known) {
		delete(next.byID, id)
		delete(next.byType, k.goType)
	})
	if c.ctx == nil {
		k.abandon()
	} else {
		k.cancel()
	}
	return nil
}

// changeLocked replaces the known kinds by a copy that change has modified.
func (c *objectCache) changeLocked(change func(next *known)) {
	now := c.known.Load()
	next := &known{byID: make(map[kindID]*kind, len(now.byID)+1), byType: make(map[reflect.Type]*kind, len(now.byType)+1)}
	for id, k := range now.byID {
		next.byID[id] = k
	}
	for t, k := range now.byType {
		next.byType[t] = k
	}
	change(next)
	c.known.Store(next)
}

// kind returns the informers of a kind, and creates them if there are none.
func (c *objectCache) kind(id kindID) (*kind, error) {
	if k := c.known.Load().byID[id]; k != nil {
		return k, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known.Load().byID[id]; k != nil {
		return k, nil
	}
	k, err := c.newKind(id)
	if err != nil {
		return nil, err
	}
	c.changeLocked(func(next *known) {
		next.byID[id] = k
		if k.goType != nil {
			next.byType[k.goType] = k
		}
	})
	c.runLocked(k)
	return k, nil
}

// reading returns the informers of a kind for a read. If the read makes them and ctx has ended, its error meets
// apierrors.IsTimeout, as in controller-runtime, however fast they sync.
func (c *objectCache) reading(ctx context.Context, id kindID) (*kind, error) {
	if k := c.known.Load().byID[id]; k != nil {
		return k, nil
	}
	if c.opts.ReaderFailOnMissingInformer {
		return nil, &cache.ErrResourceNotCached{GVK: id.gvk}
	}
	k, err := c.kind(id)
	if err == nil && ctx.Err() != nil && c.started() {
		return nil, k.errTimeout(context.Cause(ctx))
	}
	return k, err
}

// ready waits until parts of k can be read. Its error tells why the server refuses the kind. Otherwise it meets
// apierrors.IsTimeout, as in controller-runtime.
func (c *objectCache) ready(ctx context.Context, k *kind, parts ...*part) error {
	switch {
	case k.hasSynced():
		return nil
	case !c.started():
		return &cache.ErrCacheNotStarted{}
	}
	switch err := k.waitReadable(ctx, c.readTimeout, parts); {
	case err == nil:
		return nil
	case ctx.Err() != nil || !fetch.IsLasting(err):
		return k.errTimeout(err)
	case errors.Is(err, informer.ErrNoList):
		return fmt.Errorf("the resource %s has no lists, so no cache can hold %s: use a client without a cache: %w",
			k.parts[0].series.resource.Resource, k.id.gvk.Kind, err)
	case errors.Is(err, informer.ErrAbsent):
		missing := &meta.NoKindMatchError{GroupKind: k.id.gvk.GroupKind(), SearchedVersions: []string{k.id.gvk.Version}}
		return fmt.Errorf("%w: %w", missing, err)
	default:
		return fmt.Errorf("wait for the informer of %s: %w", k.id.gvk, err)
	}
}

// idOf returns the kind and form of an object. known has its informers if the lookup found them, and is nil otherwise.
func (c *objectCache) idOf(obj client.Object) (id kindID, known *kind, err error) {
	form := formOf(obj)
	if form == typed {
		if k := c.known.Load().byType[reflect.TypeOf(obj)]; k != nil {
			return k.id, k, nil
		}
	}
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	return kindID{gvk, form}, nil, err
}

// idOfList returns the kind and form of the items of a list.
func (c *objectCache) idOfList(list client.ObjectList) (kindID, error) {
	gvk, err := apiutil.GVKForObject(list, c.opts.Scheme)
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	return kindID{gvk, formOf(list)}, err
}

// prototype returns an object of the Go type that holds objects of a kind. alone is true if that type has no other
// kind. As in controller-runtime, the error meets runtime.IsNotRegisteredError if the scheme lacks the kind or its
// list.
func (c *objectCache) prototype(id kindID) (prototype client.Object, alone bool, err error) {
	switch id.form {
	case unstructuredForm:
		return &unstructured.Unstructured{}, false, nil
	case metadataForm:
		return &metav1.PartialObjectMetadata{}, false, nil
	}
	obj, err := c.opts.Scheme.New(id.gvk)
	if err != nil {
		return nil, false, err
	}
	prototype, ok := obj.(client.Object)
	if !ok {
		return nil, false, fmt.Errorf("%T, the type of %s, is not a client.Object", obj, id.gvk)
	}
	// A kind without a list type, such as Binding or TokenReview, has no collection to follow.
	if _, err := c.opts.Scheme.New(id.gvk.GroupVersion().WithKind(id.gvk.Kind + "List")); err != nil {
		return nil, false, err
	}
	kinds, _, err := c.opts.Scheme.ObjectKinds(prototype)
	return prototype, len(kinds) == 1, err
}
