// Package metadatainformer is a replacement for k8s.io/client-go/metadata/metadatainformer. Its functions take a
// *rest.Config instead of a metadata.Interface, which hides its REST client, and return an error:
//
//	factory, err := metadatainformer.NewSharedInformerFactory(config, 10*time.Hour)
//
// Package clientgo lists the differences.
package metadatainformer

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/byresource"
)

// SharedInformerFactory is that of client-go.
type SharedInformerFactory = metadatainformer.SharedInformerFactory

// TweakListOptionsFunc is that of client-go. Only the selectors and the limit that it sets apply. It is called when an
// informer is made, not for each request.
type TweakListOptionsFunc = metadatainformer.TweakListOptionsFunc

// SharedInformerOption is an option of a factory.
type SharedInformerOption func(*options)

type options struct {
	namespace string
	tweak     TweakListOptionsFunc
	transform clientcache.TransformFunc
	shard     sharding.Selector
	storage   cache.Options
}

// WithTransform sets a transform on all informers.
func WithTransform(transform clientcache.TransformFunc) SharedInformerOption {
	return func(o *options) { o.transform = transform }
}

// WithShardSelector restricts all informers to a shard; see informer.Shard. client-go has the option since 0.38.
func WithShardSelector(shardSelector sharding.Selector) SharedInformerOption {
	return func(o *options) { o.shard = shardSelector }
}

// WithStorage chooses how the informers hold their objects. client-go has no such option.
func WithStorage(storage cache.Options) SharedInformerOption {
	return func(o *options) { o.storage = storage }
}

// NewSharedInformerFactory returns a factory of informers for all namespaces. It sends no request. It returns an error
// if config is wrong.
func NewSharedInformerFactory(config *rest.Config, defaultResync time.Duration) (SharedInformerFactory, error) {
	return newFactory(config, defaultResync, options{})
}

// NewFilteredSharedInformerFactory is NewSharedInformerFactory for one namespace, with selectors.
func NewFilteredSharedInformerFactory(config *rest.Config, defaultResync time.Duration, namespace string,
	tweakListOptions TweakListOptionsFunc) (SharedInformerFactory, error) {
	return newFactory(config, defaultResync, options{namespace: namespace, tweak: tweakListOptions})
}

// NewSharedInformerFactoryWithOptions is NewSharedInformerFactory with options.
func NewSharedInformerFactoryWithOptions(config *rest.Config, defaultResync time.Duration,
	opts ...SharedInformerOption) (SharedInformerFactory, error) {
	var o options
	for _, option := range opts {
		option(&o)
	}
	return newFactory(config, defaultResync, o)
}

func newFactory(config *rest.Config, defaultResync time.Duration, o options) (SharedInformerFactory, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("metadata informers: %w", err)
	}
	fallback, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("metadata informers: %w", err)
	}
	return byresource.New(byresource.Config{
		Client:    client,
		Object:    &metav1.PartialObjectMetadata{},
		Namespace: o.namespace,
		Resync:    defaultResync,
		Tweak:     o.tweak,
		Transform: o.transform,
		Shard:     o.shard,
		Options:   o.storage,
		Lister: func(indexer clientcache.Indexer, resource schema.GroupVersionResource) clientcache.GenericLister {
			return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, resource))
		},
		ClientGo: func(resource schema.GroupVersionResource) clientcache.SharedIndexInformer {
			return metadatainformer.NewFilteredMetadataInformer(fallback, resource, o.namespace, defaultResync,
				clientcache.Indexers{clientcache.NamespaceIndex: clientcache.MetaNamespaceIndexFunc}, o.tweak).Informer()
		},
	}, complete.WaitForCacheSyncWithContext), nil
}

// complete has the methods of client-go's interface, and those that it has since 0.38; see byresource.Before038.
type complete struct {
	SharedInformerFactory
	older
}

type older struct{ byresource.Before038 }
