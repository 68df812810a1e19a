// Package byresource makes and shares informers by resource, for the dynamic and the metadata factory.
package byresource

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/members"
	"github.com/typedinformer/informer/clientgo/internal/shards"
)

// Config configures a [Factory].
type Config struct {
	Client    *informer.Client
	Object    cache.Object // an example of the objects
	Namespace string       // empty means all
	Resync    time.Duration
	Tweak     func(*metav1.ListOptions) // nil means none
	Transform clientcache.TransformFunc // nil means none
	Shard     sharding.Selector         // nil means all objects
	Options   cache.Options
	// Lister returns the lister of a resource for an indexer.
	Lister func(clientcache.Indexer, schema.GroupVersionResource) clientcache.GenericLister
	// ClientGo returns the informer of client-go for a resource that cache.New rejects, such as one without a name.
	ClientGo func(schema.GroupVersionResource) clientcache.SharedIndexInformer
}

// Factory makes and shares informers by resource. Create one with [New]. R is the result of its method
// WaitForCacheSyncWithContext; see [Before038].
type Factory[R syncResult] struct {
	config  Config
	members members.Set[schema.GroupVersionResource]
}

// New returns a factory without informers. wait only chooses the type R: see [Before038].
func New[F any, R syncResult](config Config, _ func(F, context.Context) R) *Factory[R] {
	return &Factory[R]{config: config}
}

// ForResource returns the informer and the lister of a resource.
func (f *Factory[R]) ForResource(resource schema.GroupVersionResource) informers.GenericInformer {
	i := f.members.Get(resource, func() clientcache.SharedIndexInformer {
		made, err := f.make(resource)
		if err != nil {
			klog.Background().Info("Warning: using client-go's own informer", "resource", resource.String(), "reason", err)
			made = f.config.ClientGo(resource)
		}
		if f.config.Transform != nil {
			_ = made.SetTransform(f.config.Transform) // as client-go does: it fails only for an informer that runs
		}
		if err := shards.Set(made, f.config.Shard); err != nil {
			utilruntime.HandleError(fmt.Errorf("the informer of %s follows all shards: %w", resource, err))
		}
		return made
	})
	return generic{i, f.config.Lister(i.GetIndexer(), resource)}
}

func (f *Factory[R]) make(resource schema.GroupVersionResource) (clientcache.SharedIndexInformer, error) {
	var options metav1.ListOptions
	if f.config.Tweak != nil {
		f.config.Tweak(&options)
	}
	collection := informer.Resource{
		GroupVersionResource: resource,
		LabelSelector:        options.LabelSelector,
		FieldSelector:        options.FieldSelector,
	}
	if f.config.Namespace != "" {
		collection.Namespaces = []string{f.config.Namespace}
	}
	var err error
	if collection.Shard, err = shards.Parse(options.ShardSelector); err != nil {
		return nil, fmt.Errorf("informer of %s: %w", resource, err)
	}
	i, err := cache.New(cache.Config{
		Client:            f.config.Client,
		Resource:          collection,
		Object:            f.config.Object,
		ObjectDescription: resource.String(),
		ResyncPeriod:      f.config.Resync,
		Indexers:          clientcache.Indexers{clientcache.NamespaceIndex: clientcache.MetaNamespaceIndexFunc},
		PageSize:          int(options.Limit),
		Options:           f.config.Options,
	})
	if err != nil {
		return nil, fmt.Errorf("informer of %s: %w", resource, err)
	}
	return i, nil
}

// generic is an informers.GenericInformer.
type generic struct {
	informer clientcache.SharedIndexInformer
	lister   clientcache.GenericLister
}

func (g generic) Informer() clientcache.SharedIndexInformer { return g.informer }
func (g generic) Lister() clientcache.GenericLister         { return g.lister }

// Start runs the informers that do not run yet, until stop is closed. It does not block.
func (f *Factory[R]) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext runs the informers that do not run yet, until ctx ends. It does not block.
func (f *Factory[R]) StartWithContext(ctx context.Context) { f.members.Start(ctx) }

// WaitForCacheSync waits until all informers that run have synced, or stop is closed. It reports which have synced.
func (f *Factory[R]) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	return f.members.WaitSynced(wait.ContextForChannel(stop))
}

// WaitForCacheSyncWithContext waits until all informers that run have synced, or ctx ends. It reports which have
// synced, and the cause of ctx if one has not.
func (f *Factory[R]) WaitForCacheSyncWithContext(ctx context.Context) R {
	result := SyncResult{Synced: f.members.WaitSynced(ctx)}
	for _, synced := range result.Synced {
		if !synced {
			result.Err = context.Cause(ctx)
		}
	}
	return R(result)
}

// Shutdown waits until all informers have stopped. From then on, Start does nothing.
func (f *Factory[R]) Shutdown() { f.members.Shutdown() }
