package crcache

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	clientcache "github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/internal/run"
)

// defaultSyncPeriod is that of controller-runtime.
const defaultSyncPeriod = 10 * time.Hour

// kind has the objects of one kind in one form: in an informer for each configured namespace, or in one for all. To the
// users of the cache, it is one informer: a [cache.Informer] and a [toolscache.SharedIndexInformer].
type kind struct {
	toolscache.SharedIndexInformer

	id         kindID
	goType     reflect.Type // nil if it is not the only type of the kind
	namespaced bool
	parts      []*part // sorted by namespace
	observed   *observed
	removed    context.Context // ends with the removal of the kind
	cancel     context.CancelFunc
	started    chan struct{} // closed when the parts have informers
	done       chan struct{} // closed when the informers have stopped
	synced     atomic.Bool

	mu      sync.Mutex // protects the fields below
	fields  map[string]*fieldIndex
	pending []func() // to be called when the parts have informers
}

// part is the part of a kind for one namespace, or for all namespaces without a part of their own.
type part struct {
	namespace string // of the configuration; empty for all others
	single    bool   // all objects are of one namespace, or cluster-scoped
	series    series // of its metrics
	config    cache.Config
	informer  *informer.Informer[clientcache.Object] // nil before kind.started is closed
	onDemand  *onDemand                              // nil if the informer has whole objects
}

// newKind creates the informers of a kind.
func (c *objectCache) newKind(id kindID) (*kind, error) {
	mapping, err := c.opts.Mapper.RESTMapping(id.gvk.GroupKind(), id.gvk.Version)
	if err != nil {
		return nil, err
	}
	prototype, alone, err := c.prototype(id)
	if err != nil {
		return nil, err
	}
	k := &kind{
		id:         id,
		namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
		observed:   c.observed,
		started:    make(chan struct{}),
		done:       make(chan struct{}),
		fields:     map[string]*fieldIndex{},
	}
	k.removed, k.cancel = context.WithCancel(context.Background())
	if alone {
		k.goType = reflect.TypeOf(prototype)
	}
	plan := c.plans.of(id.gvk)
	namespaces := plan.namespaces
	if !k.namespaced || len(namespaces) == 0 {
		namespaces = map[string]cache.Config{cache.AllNamespaces: plan.whole}
	}
	var parts []clientcache.Part
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		part, err := c.addPart(k, mapping, namespace, namespaces[namespace])
		if err != nil {
			return nil, err
		}
		if s := c.storages.of(id.gvk); s.onDemand && id.form != metadataForm {
			p := k.parts[len(k.parts)-1]
			p.onDemand = newOnDemand(k, p, &part, prototype, s.DropManagedFields)
		}
		parts = append(parts, part)
	}
	k.SharedIndexInformer, err = clientcache.NewOfParts(c.configOf(k, prototype), parts)
	if err != nil {
		return nil, err
	}
	if handler := c.opts.DefaultWatchErrorHandler; handler != nil {
		if err := k.SetWatchErrorHandlerWithContext(handler); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// addPart adds a part to k, and returns what its informer follows.
func (c *objectCache) addPart(k *kind, mapping *meta.RESTMapping, namespace string,
	config cache.Config) (clientcache.Part, error) {
	resource := informer.Resource{GroupVersionResource: mapping.Resource}
	if config.LabelSelector != nil {
		resource.LabelSelector = config.LabelSelector.String()
	}
	if config.FieldSelector != nil {
		resource.FieldSelector = config.FieldSelector.String()
		if only, ok := config.FieldSelector.RequiresExactMatch("metadata.namespace"); ok && only != "" && k.namespaced {
			resource.Namespaces = []string{only} // then permission for that namespace is enough
		}
	}
	if namespace != "" {
		resource.Namespaces = []string{namespace}
	}
	apiClient, err := newClient(c.config, c.opts.HTTPClient, k.id.form)
	if err != nil {
		return clientcache.Part{}, err
	}
	p := &part{
		namespace: namespace,
		single:    len(resource.Namespaces) == 1 || !k.namespaced,
		series:    series{name: k.id.form.String(), resource: mapping.Resource},
		config:    config,
	}
	if namespace != "" {
		p.series.name += "/" + namespace
	}
	k.parts = append(k.parts, p)
	resync := defaultSyncPeriod
	if config.SyncPeriod != nil {
		resync = *config.SyncPeriod
	}
	return clientcache.Part{
		Client:       apiClient,
		Resource:     resource,
		Transform:    config.Transform,
		ResyncPeriod: resync,
	}, nil
}

// configOf returns the common configuration of the informers of the parts.
func (c *objectCache) configOf(k *kind, prototype client.Object) clientcache.Config {
	config := clientcache.Config{
		Object:            prototype,
		ObjectDescription: k.id.gvk.String(),
		Indexers:          toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc},
		Options:           c.storages.of(k.id.gvk).Options,
		Logger:            slog.New(logr.ToSlogHandler(c.log.V(1))), // states at V(1), failures always
		OnStart:           k.start,
	}
	if k.parts[0].onDemand != nil {
		config.Object, config.Options.DropManagedFields = &metav1.PartialObjectMetadata{}, true
	}
	if k.id.form == metadataForm { // the server sends the kind PartialObjectMetadata
		config.Kind = k.id.gvk
	}
	return config
}

// start gives each part its informer, which is about to run.
func (k *kind) start(informers []*informer.Informer[clientcache.Object]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n, p := range k.parts {
		p.informer = informers[n]
		k.observed.add(p, p.series)
		if p.onDemand != nil {
			p.onDemand.follow(p.informer)
		}
	}
	for _, x := range k.fields {
		x.start(k.parts)
	}
	for _, do := range k.pending {
		do()
	}
	k.pending = nil
	close(k.started)
}

// whenStarted calls do when the parts have informers, which may be at once.
func (k *kind) whenStarted(do func()) {
	k.mu.Lock()
	early := !run.IsClosed(k.started)
	if early {
		k.pending = append(k.pending, do)
	}
	k.mu.Unlock()
	if !early {
		do()
	}
}

// run runs the informers until ctx ends or the kind is removed.
func (k *kind) run(ctx context.Context) {
	defer close(k.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.removed, cancel)()
	k.RunWithContext(ctx)
	for _, p := range k.parts {
		if p.onDemand != nil {
			p.onDemand.reader.Close()
		}
		k.observed.remove(p)
	}
}

// abandon stops informers that do not run and never will.
func (k *kind) abandon() {
	k.cancel()
	k.run(k.removed)
}

func (k *kind) errStopped() error {
	return fmt.Errorf("the informer of %s: %w", k.id.gvk.Kind, informer.ErrStopped)
}

func (k *kind) hasSynced() bool {
	if k.synced.Load() {
		return true
	}
	if !k.HasSynced() {
		return false
	}
	k.synced.Store(true)
	return true
}

func (k *kind) waitSynced(ctx context.Context) error {
	if k.hasSynced() {
		return nil
	}
	select {
	case <-k.started:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", informer.ErrNotStarted, context.Cause(ctx))
	}
	for _, p := range k.parts {
		if err := p.informer.WaitSynced(ctx); err != nil {
			return err
		}
	}
	select {
	case <-k.HasSyncedChecker().Done(): // a moment later: fast handlers come first
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitReadable waits until parts have synced, or a read should not wait longer.
func (k *kind) waitReadable(ctx context.Context, timeout time.Duration, parts []*part) error {
	if ctx.Err() != nil { // as in controller-runtime, although the parts may have synced a moment ago
		return context.Cause(ctx)
	}
	until := time.Now().Add(timeout)
	select {
	case <-k.started:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", informer.ErrNotStarted, context.Cause(ctx))
	}
	for _, p := range parts {
		if err := p.informer.WaitReadable(ctx, time.Until(until)); err != nil {
			return err
		}
	}
	return nil
}

// errTimeout returns the error of a wait that ended because of why. As in controller-runtime, it meets
// apierrors.IsTimeout.
func (k *kind) errTimeout(why error) error {
	return apierrors.NewTimeoutError(fmt.Sprintf("wait for the informer of %s: %v", k.id.gvk, why), 0)
}

// part returns the part that has the objects of a namespace, or nil if the cache does not follow that namespace.
func (k *kind) part(namespace string) *part {
	var others *part
	for _, p := range k.parts {
		switch p.namespace {
		case namespace:
			return p
		case "":
			others = p
		}
	}
	return others
}

// in returns the parts that have the objects of a namespace, or all parts if namespace is empty or the kind is
// cluster-scoped.
func (k *kind) in(namespace string) ([]*part, error) {
	if namespace == "" || !k.namespaced {
		return k.parts, nil
	}
	p := k.part(namespace)
	if p == nil {
		return nil, k.unknownNamespace(namespace)
	}
	return []*part{p}, nil
}

func (k *kind) unknownNamespace(namespace string) error {
	return fmt.Errorf("the cache of %s does not follow namespace %q: add it to the namespaces of cache.Options",
		k.id.gvk.Kind, namespace)
}

// copies reports whether a read returns copies. disabled is the option of the read.
func (p *part) copies(disabled *bool) bool {
	off := func(b *bool) bool { return b != nil && *b }
	return !off(disabled) && !off(p.config.UnsafeDisableDeepCopy)
}
