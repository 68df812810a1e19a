package crcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
)

// kind has the informers of one kind in one form: one for each configured namespace, or one for all. It implements
// [cache.Informer].
type kind struct {
	id         kindID
	prototype  client.Object
	goType     reflect.Type // nil if it is not the only type of the kind
	namespaced bool
	parts      []*part // sorted by namespace
	synced     atomic.Bool

	mu      sync.Mutex // protects the fields below
	fields  map[string]*fieldIndex
	indexes map[string]*userIndex
}

// part is the informer of a kind for one namespace, or for all that have none of their own.
type part struct {
	namespace string // of the configuration; empty for all others
	single    bool   // all objects are of one namespace, or cluster-scoped
	series    series // of its metrics
	observed  *observed
	config    cache.Config
	informer  *informer.Informer[client.Object]
	removed   context.Context // ends with the removal of the kind
	cancel    context.CancelFunc
	done      chan struct{} // closed when the informer has stopped
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
		prototype:  prototype,
		namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
		fields:     map[string]*fieldIndex{},
		indexes:    map[string]*userIndex{},
	}
	if alone {
		k.goType = reflect.TypeOf(prototype)
	}
	plan := c.plans.of(id.gvk)
	namespaces := plan.namespaces
	if !k.namespaced || len(namespaces) == 0 {
		namespaces = map[string]cache.Config{cache.AllNamespaces: plan.whole}
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		p, err := c.newPart(k, mapping, namespace, namespaces[namespace])
		if err != nil {
			return nil, err
		}
		k.parts = append(k.parts, p)
	}
	return k, nil
}

func (c *objectCache) newPart(k *kind, mapping *meta.RESTMapping, namespace string,
	config cache.Config) (*part, error) {
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
		return nil, err
	}
	how := c.storages.of(k.id.gvk)
	p := &part{
		namespace: namespace,
		single:    len(resource.Namespaces) == 1 || !k.namespaced,
		series:    series{name: k.id.form.String(), resource: mapping.Resource},
		observed:  c.observed,
		config:    config,
		done:      make(chan struct{}),
	}
	if namespace != "" {
		p.series.name += "/" + namespace
	}
	p.removed, p.cancel = context.WithCancel(context.Background())
	p.informer = informer.New(apiClient, resource, informer.Config[client.Object]{
		Prototype:         k.prototype,
		Transform:         k.transform(config),
		KeepManagedFields: !how.dropManagedFields,
		Share:             how.share,
		Compact:           how.compact,
		AuditEvery:        how.auditEvery,
		OnFailure:         c.onFailure(k, resource),
		Logger:            slog.New(logr.ToSlogHandler(c.log)),
	})
	if err := p.invalid(); err != nil {
		return nil, err
	}
	return p, nil
}

// onFailure returns the function that calls DefaultWatchErrorHandler of cache.Options, or nil. A handler such as that
// of client-go logs the name of its reflector, so it gets one that only has a name.
func (c *objectCache) onFailure(k *kind, resource informer.Resource) func(error) {
	handler := c.opts.DefaultWatchErrorHandler
	if handler == nil {
		return nil
	}
	r := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{}, k.prototype, nil, toolscache.ReflectorOptions{
		Name:            resource.String(),
		TypeDescription: k.id.gvk.String(),
	})
	return func(err error) { handler(c.ctx, r, err) } // c.ctx is set before an informer runs
}

// invalid returns the error with which informer.New rejected its arguments, or nil.
func (p *part) invalid() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.informer.WaitSynced(ended); !errors.Is(err, informer.ErrNotStarted) {
		return err
	}
	return nil
}

// run runs the informer until ctx ends or the kind is removed.
func (p *part) run(ctx context.Context) {
	defer close(p.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.removed, cancel)()
	p.observed.add(p, p.series)
	defer p.observed.remove(p)
	if err := p.informer.Run(ctx); ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Error(err, "an informer of the cache has ended")
	}
}

// abandon stops informers that do not run and never will.
func (k *kind) abandon() {
	k.cancel()
	for _, p := range k.parts {
		p.run(p.removed)
	}
}

// cancel ends the informers, and does not wait for them.
func (k *kind) cancel() {
	for _, p := range k.parts {
		p.cancel()
	}
}

func (k *kind) hasSynced() bool {
	if k.synced.Load() {
		return true
	}
	for _, p := range k.parts {
		if !p.informer.HasSynced() {
			return false
		}
	}
	k.synced.Store(true)
	return true
}

func (k *kind) waitSynced(ctx context.Context) error {
	if k.hasSynced() {
		return nil
	}
	for _, p := range k.parts {
		if err := p.informer.WaitSynced(ctx); err != nil {
			return err
		}
	}
	return nil
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

// in returns the parts that have the objects of a namespace, or all parts if namespace is empty.
func (k *kind) in(namespace string) ([]*part, error) {
	if namespace == "" {
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
