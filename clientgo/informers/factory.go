package informers

import (
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	*factory.Factory[kubernetes.Interface, internalinterfaces.NewInformerFunc]
	config    factory.Config
	namespace string
	tweak     internalinterfaces.TweakListOptionsFunc
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
		}
		return f
	}
}

// WithTweakListOptions sets a function that changes the options of the informers' lists and watches. It is called once
// for each informer, when that is made. The selectors that it sets, and the limit, apply.
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
	f := &sharedInformerFactory{config: factory.Config{
		DefaultResync: defaultResync,
		CustomResync:  map[reflect.Type]time.Duration{},
	}}
	for _, option := range options {
		f = option(f)
	}
	var err error
	f.Factory, err = factory.New[kubernetes.Interface, internalinterfaces.NewInformerFunc](client,
		kubernetes.NewForConfigAndClient, f.config)
	if err != nil {
		panic(fmt.Sprintf("a *kubernetes.Clientset is no kubernetes.Interface: %v", err)) // cannot happen
	}
	return f
}
