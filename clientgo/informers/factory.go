package informers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/factory"
)

// SharedInformerFactory is that of client-go.
type SharedInformerFactory = informers.SharedInformerFactory

// GenericInformer is that of client-go.
type GenericInformer = informers.GenericInformer

// Options choose how informers hold their objects; see cache.Options.
type Options = cache.Options

// SharedInformerOption is an option of a factory.
type SharedInformerOption func(*sharedInformerFactory) *sharedInformerFactory

// sharedInformerFactory is a [SharedInformerFactory].
type sharedInformerFactory struct {
	// It only provides the groups of newer versions of client-go. The methods below hide all others.
	informers.SharedInformerFactory
	ours         *factory.Factory[kubernetes.Interface, internalinterfaces.NewInformerFunc]
	config       factory.Config
	customResync map[metav1.Object]time.Duration
	namespace    string
	tweak        internalinterfaces.TweakListOptionsFunc
}

// WithStorage chooses how the informers hold their objects. client-go has no such option.
func WithStorage(options Options) SharedInformerOption {
	return func(f *sharedInformerFactory) *sharedInformerFactory {
		f.config.Options = options
		return f
	}
}

// WithClient sets the client of the informers. By default, they send requests as the clientset does. client-go has no
// such option.
func WithClient(client *informer.Client) SharedInformerOption {
	return func(f *sharedInformerFactory) *sharedInformerFactory {
		f.config.Client = client
		return f
	}
}

// WithCustomResyncConfig sets the resync periods of the informers of some types.
func WithCustomResyncConfig(resyncConfig map[metav1.Object]time.Duration) SharedInformerOption {
	return func(f *sharedInformerFactory) *sharedInformerFactory {
		for obj, period := range resyncConfig {
			f.config.CustomResync[reflect.TypeOf(obj)] = period
			f.customResync[obj] = period
		}
		return f
	}
}

// WithTweakListOptions sets a function that changes the options of the informers' lists and watches. It is called when
// an informer is made, not for each request. Only the selectors and the limit that it sets apply.
func WithTweakListOptions(tweakListOptions internalinterfaces.TweakListOptionsFunc) SharedInformerOption {
	return func(f *sharedInformerFactory) *sharedInformerFactory {
		f.tweak = tweakListOptions
		return f
	}
}

// WithNamespace restricts the informers to a namespace.
func WithNamespace(namespace string) SharedInformerOption {
	return func(f *sharedInformerFactory) *sharedInformerFactory {
		f.namespace = namespace
		return f
	}
}

// WithTransform sets a transform on all informers.
func WithTransform(transform clientcache.TransformFunc) SharedInformerOption {
	return func(f *sharedInformerFactory) *sharedInformerFactory {
		f.config.Transform = transform
		return f
	}
}

// WithShardSelector restricts all informers to a shard; see informer.Shard. The informers of groups that this package
// lacks only ask the server for the shard: if it does not know shards, they follow all objects. client-go has the
// option since 0.38.
func WithShardSelector(shardSelector sharding.Selector) SharedInformerOption {
	return func(f *sharedInformerFactory) *sharedInformerFactory {
		f.config.ShardSelector = shardSelector
		return f
	}
}

// WithInformerName sets the name of the informers. Shutdown releases it.
func WithInformerName(informerName *clientcache.InformerName) SharedInformerOption {
	return func(f *sharedInformerFactory) *sharedInformerFactory {
		f.config.InformerName = informerName
		return f
	}
}

// NewSharedInformerFactory returns a factory of informers for all namespaces.
func NewSharedInformerFactory(client kubernetes.Interface, defaultResync time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync)
}

// NewFilteredSharedInformerFactory is NewSharedInformerFactoryWithOptions with WithNamespace and WithTweakListOptions.
//
// Deprecated: client-go deprecates it. Use NewSharedInformerFactoryWithOptions.
func NewFilteredSharedInformerFactory(client kubernetes.Interface, defaultResync time.Duration, namespace string,
	tweakListOptions internalinterfaces.TweakListOptionsFunc) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, defaultResync, WithNamespace(namespace),
		WithTweakListOptions(tweakListOptions))
}

// NewSharedInformerFactoryWithOptions returns a factory of informers with options.
func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, defaultResync time.Duration,
	options ...SharedInformerOption) SharedInformerFactory {
	f := &sharedInformerFactory{
		config:       factory.Config{DefaultResync: defaultResync, CustomResync: map[reflect.Type]time.Duration{}},
		customResync: map[metav1.Object]time.Duration{},
	}
	for _, option := range options {
		f = option(f)
	}
	f.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(client, defaultResync,
		informers.WithCustomResyncConfig(f.customResync), informers.WithTweakListOptions(f.tweakOfNewer()),
		informers.WithNamespace(f.namespace), informers.WithTransform(f.config.Transform),
		informers.WithInformerName(f.config.InformerName))
	var err error
	f.ours, err = factory.New[kubernetes.Interface, internalinterfaces.NewInformerFunc](client,
		kubernetes.NewForConfigAndClient, f.config)
	if err != nil {
		panic(fmt.Sprintf("a *kubernetes.Clientset is no kubernetes.Interface: %v", err)) // cannot happen
	}
	return f
}

// tweakOfNewer returns the function that changes the options of lists and watches of the groups that this package lacks.
func (f *sharedInformerFactory) tweakOfNewer() internalinterfaces.TweakListOptionsFunc {
	if f.config.ShardSelector == nil {
		return f.tweak
	}
	return func(options *metav1.ListOptions) {
		if f.tweak != nil {
			f.tweak(options)
		}
		options.ShardSelector = f.config.ShardSelector.String()
	}
}

// InformerName returns the name of [WithInformerName].
func (f *sharedInformerFactory) InformerName() *clientcache.InformerName {
	return f.ours.InformerName()
}

// InformerFor returns the informer of the type of obj. The first call makes it, with the collection and the indexers of
// the informer that newFunc returns. A type of a group that this package lacks gets client-go's own informer.
func (f *sharedInformerFactory) InformerFor(obj runtime.Object,
	newFunc internalinterfaces.NewInformerFunc) clientcache.SharedIndexInformer {
	if ofNewerGroup(reflect.TypeOf(obj)) {
		return f.SharedInformerFactory.InformerFor(obj, newFunc)
	}
	return f.ours.InformerFor(obj, newFunc)
}

// Start is StartWithContext until stop is closed.
func (f *sharedInformerFactory) Start(stop <-chan struct{}) {
	f.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext runs the informers that do not run yet, until ctx ends. It does not block. Call it again after new
// informers were made.
func (f *sharedInformerFactory) StartWithContext(ctx context.Context) {
	f.ours.StartWithContext(ctx)
	f.SharedInformerFactory.StartWithContext(ctx)
}

// Shutdown waits until all informers have stopped. It does not end their contexts. From then on, Start does nothing.
func (f *sharedInformerFactory) Shutdown() {
	f.ours.Shutdown()
	f.SharedInformerFactory.Shutdown()
}

// WaitForCacheSync waits until all informers that run have synced, or stop is closed. It reports which have synced.
func (f *sharedInformerFactory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext waits until all informers that run have synced, or ctx ends. It reports which have
// synced, and the cause of ctx if one has not.
func (f *sharedInformerFactory) WaitForCacheSyncWithContext(ctx context.Context) clientcache.SyncResult {
	result := f.ours.WaitForCacheSyncWithContext(ctx)
	newer := f.SharedInformerFactory.WaitForCacheSyncWithContext(ctx)
	maps.Copy(result.Synced, newer.Synced)
	result.Err = cmp.Or(result.Err, newer.Err)
	return result
}
