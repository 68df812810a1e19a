// Package dynamicinformer is a replacement for k8s.io/client-go/dynamic/dynamicinformer. Its functions take a
// *rest.Config instead of a dynamic.Interface, which hides its REST client, and return an error:
//
//	factory, err := dynamicinformer.NewDynamicSharedInformerFactory(config, 10*time.Hour)
//
// Package clientgo lists the differences.
package dynamicinformer

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/byresource"
)

// DynamicSharedInformerFactory is that of client-go.
type DynamicSharedInformerFactory = dynamicinformer.DynamicSharedInformerFactory

// TweakListOptionsFunc is that of client-go. Only the selectors and the limit that it sets apply. It is called when an
// informer is made, not for each request.
type TweakListOptionsFunc = dynamicinformer.TweakListOptionsFunc

// Options configure a factory of [NewWithOptions]. The zero value means all namespaces, and no resyncs.
type Options struct {
	// DefaultResync is the resync period of the informers. Zero means no resyncs.
	DefaultResync time.Duration
	// Namespace restricts the informers to a namespace. Empty means all namespaces.
	Namespace string
	// TweakListOptions sets selectors. Nil means none.
	TweakListOptions TweakListOptionsFunc
	// Transform is set on each informer. Nil means none.
	Transform clientcache.TransformFunc
	// ShardSelector restricts the informers to a shard; see informer.Shard. Nil means all objects.
	ShardSelector sharding.Selector
	// Storage chooses how the informers hold their objects.
	Storage cache.Options
}

// NewDynamicSharedInformerFactory returns a factory of informers for all namespaces. It sends no request. It returns an
// error if config is wrong.
func NewDynamicSharedInformerFactory(config *rest.Config, defaultResync time.Duration) (DynamicSharedInformerFactory,
	error) {
	return NewWithOptions(config, Options{DefaultResync: defaultResync})
}

// NewFilteredDynamicSharedInformerFactory is NewDynamicSharedInformerFactory for one namespace, with selectors.
func NewFilteredDynamicSharedInformerFactory(config *rest.Config, defaultResync time.Duration, namespace string,
	tweakListOptions TweakListOptionsFunc) (DynamicSharedInformerFactory, error) {
	return NewWithOptions(config, Options{
		DefaultResync:    defaultResync,
		Namespace:        namespace,
		TweakListOptions: tweakListOptions,
	})
}

// DynamicSharedInformerOption is an option of a factory.
type DynamicSharedInformerOption func(*Options)

// WithShardSelector restricts all informers to a shard; see informer.Shard.
func WithShardSelector(shardSelector sharding.Selector) DynamicSharedInformerOption {
	return func(o *Options) { o.ShardSelector = shardSelector }
}

// NewDynamicSharedInformerFactoryWithOptions is NewDynamicSharedInformerFactory with options. client-go has the function
// since 0.38.
func NewDynamicSharedInformerFactoryWithOptions(config *rest.Config, defaultResync time.Duration,
	opts ...DynamicSharedInformerOption) (DynamicSharedInformerFactory, error) {
	options := Options{DefaultResync: defaultResync}
	for _, option := range opts {
		option(&options)
	}
	return NewWithOptions(config, options)
}

// NewWithOptions is NewDynamicSharedInformerFactory with options. client-go has no such function.
func NewWithOptions(config *rest.Config, options Options) (DynamicSharedInformerFactory, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("dynamic informers: %w", err)
	}
	fallback, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("dynamic informers: %w", err)
	}
	return byresource.New(byresource.Config{
		Client:    client,
		Object:    &unstructured.Unstructured{},
		Namespace: options.Namespace,
		Resync:    options.DefaultResync,
		Tweak:     options.TweakListOptions,
		Transform: options.Transform,
		Shard:     options.ShardSelector,
		Options:   options.Storage,
		Lister: func(indexer clientcache.Indexer, resource schema.GroupVersionResource) clientcache.GenericLister {
			return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, resource))
		},
		ClientGo: func(resource schema.GroupVersionResource) clientcache.SharedIndexInformer {
			return dynamicinformer.NewFilteredDynamicInformer(fallback, resource, options.Namespace, options.DefaultResync,
				clientcache.Indexers{clientcache.NamespaceIndex: clientcache.MetaNamespaceIndexFunc},
				options.TweakListOptions).Informer()
		},
	}, complete.WaitForCacheSyncWithContext), nil
}

// complete has the methods of client-go's interface, and those that it has since 0.38; see byresource.Before038.
type complete struct {
	DynamicSharedInformerFactory
	older
}

type older struct{ byresource.Before038 }
