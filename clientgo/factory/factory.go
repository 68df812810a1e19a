package factory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/members"
	"github.com/typedinformer/informer/clientgo/internal/shards"
)

// Config configures a [Factory]. The zero value is right for most.
type Config struct {
	// DefaultResync is the resync period of the informers. Zero means no resyncs.
	DefaultResync time.Duration
	// CustomResync overrides DefaultResync for the informers of some types, such as reflect.TypeFor[*corev1.Pod]().
	CustomResync map[reflect.Type]time.Duration
	// Transform is set on each informer. Nil means none.
	Transform clientcache.TransformFunc
	// ShardSelector restricts the informers to a shard; see informer.Shard. Nil means all objects.
	ShardSelector sharding.Selector
	// InformerName is the result of the method InformerName. Nil means none.
	InformerName *clientcache.InformerName
	// Options choose how the informers hold their objects.
	Options cache.Options
	// Client sends the requests of the informers. Nil means a client that sends them as the clientset does; see
	// cache.ClientFor.
	Client *informer.Client
}

// Factory makes and shares informers for a generated clientset of type C, an interface. F is the type NewInformerFunc
// of the package internalinterfaces that was generated with the informers. A Factory then implements the interface
// SharedInformerFactory of that package. [New] returns one. All methods are safe for concurrent use.
type Factory[C any, F ~func(C, time.Duration) clientcache.SharedIndexInformer] struct {
	client   C
	config   Config
	recorder recorder
	fake     func(*rest.Config, *http.Client) (any, error) // makes a clientset whose requests reach the recorder

	members members.Set[reflect.Type]

	// Only the set's calls of make use these, one at a time.
	own       *informer.Client // nil before the first informer, and with Config.Client
	recording *C               // nil before the first informer

	unnamed atomic.Bool // true while make calls functions: their informers must not register under the name
}

// New returns a factory of informers for client. newClient makes clientsets of its kind: it is the function
// NewForConfigAndClient that was generated with the clientset. New sends no request. It returns an error if newClient
// makes clientsets that are not a C.
//
//	f, err := factory.New[versioned.Interface, internalinterfaces.NewInformerFunc](client,
//		versioned.NewForConfigAndClient, factory.Config{})
//	foos := samplecontroller.New(f, metav1.NamespaceAll, nil).V1alpha1().Foos()
//
// A client that has no REST client, like a fake clientset, gets the informers of client-go.
func New[C any, F ~func(C, time.Duration) clientcache.SharedIndexInformer, S any](client C,
	newClient func(*rest.Config, *http.Client) (S, error), config Config) (*Factory[C, F], error) {
	if s, c := reflect.TypeFor[S](), reflect.TypeFor[C](); !s.AssignableTo(c) {
		return nil, fmt.Errorf("newClient returns a %v: it must return a %v", s, c)
	}
	return &Factory[C, F]{
		client: client,
		config: config,
		fake: func(config *rest.Config, client *http.Client) (any, error) {
			return newClient(config, client)
		},
	}, nil
}

// InformerName returns Config.InformerName. It returns nil while InformerFor calls a function only to inspect its
// informer, which needs no metrics.
func (f *Factory[C, F]) InformerName() *clientcache.InformerName {
	if f.unnamed.Load() {
		return nil
	}
	return f.config.InformerName
}

// InformerFor returns the informer of the type of obj. The first call makes it, with the collection and the indexers of
// the informer that newFunc returns.
func (f *Factory[C, F]) InformerFor(obj runtime.Object, newFunc F) clientcache.SharedIndexInformer {
	t := reflect.TypeOf(obj)
	return f.members.Get(t, func() clientcache.SharedIndexInformer {
		resync, ok := f.config.CustomResync[t]
		if !ok {
			resync = f.config.DefaultResync
		}
		i, err := f.make(obj, newFunc, resync)
		if err != nil {
			klog.Background().Info("Warning: using client-go's own informer", "type", t.String(), "reason", err)
		}
		if err != nil || i == nil {
			i = newFunc(f.client, resync)
		}
		if f.config.Transform != nil {
			_ = i.SetTransform(f.config.Transform) // as client-go does: it fails only for an informer that runs
		}
		if err := shards.Set(i, f.config.ShardSelector); err != nil {
			utilruntime.HandleError(fmt.Errorf("the informer of %v follows all shards: %w", t, err))
		}
		return i
	})
}

// make makes the informer of the type of obj. It returns nil if client-go's own is needed, with an error that says why,
// except for a fake clientset.
func (f *Factory[C, F]) make(obj runtime.Object, newFunc F, resync time.Duration) (
	clientcache.SharedIndexInformer, error) {
	client, err := f.clientOf()
	if client == nil {
		return nil, err
	}
	if f.recording == nil {
		made, err := f.fake(&rest.Config{Host: recordingHost, QPS: -1}, &http.Client{Transport: &f.recorder})
		if err != nil {
			return nil, fmt.Errorf("make a clientset that records: %w", err)
		}
		f.recording = new(made.(C))
	}
	f.unnamed.Store(true)
	defer f.unnamed.Store(false)
	r, err := f.recorder.record(newFunc(*f.recording, resync))
	if err == nil && r.transforms {
		err = f.checkTransform(newFunc(*f.recording, resync), obj)
	}
	if err != nil {
		return nil, err
	}
	return cache.New(cache.Config{
		Client:            client,
		Resource:          r.resource,
		Object:            obj,
		ObjectDescription: r.description,
		ResyncPeriod:      r.resync,
		Indexers:          r.indexers,
		PageSize:          r.pageSize,
		Options:           f.config.Options,
	})
}

// checkTransform returns an error unless the transform of an informer of client-go can be left out.
func (f *Factory[C, F]) checkTransform(i clientcache.SharedIndexInformer, obj runtime.Object) error {
	if !f.config.Options.DropManagedFields {
		return errors.New("its function sets a transform: set it on the informer that the factory returns, or with " +
			"WithTransform, or set Options.DropManagedFields if it does only that")
	}
	return f.recorder.probe(i, obj)
}

// clientOf returns the client of the informers. It returns nil for a fake clientset.
func (f *Factory[C, F]) clientOf() (*informer.Client, error) {
	if f.config.Client != nil {
		return f.config.Client, nil
	}
	if f.own != nil {
		return f.own, nil
	}
	restClient, err := restClientOf(f.client)
	if restClient == nil {
		return nil, err
	}
	f.own, err = cache.ClientFor(restClient)
	return f.own, err
}

// restClientOf returns the REST client of a clientset, or nil if it has none, like a fake one. The result type of its
// method Discovery depends on the version of client-go for which it was generated.
func restClientOf(clientset any) (*rest.RESTClient, error) {
	var method reflect.Value
	if clientset != nil {
		method = reflect.ValueOf(clientset).MethodByName("Discovery")
	}
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return nil, fmt.Errorf("a %T has no method Discovery: set Config.Client", clientset)
	}
	discovery, ok := method.Call(nil)[0].Interface().(interface{ RESTClient() rest.Interface })
	if !ok {
		return nil, nil
	}
	c, _ := discovery.RESTClient().(*rest.RESTClient)
	return c, nil
}

// Start is StartWithContext until stop is closed.
func (f *Factory[C, F]) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext runs the informers that do not run yet, until ctx ends. It does not block. Call it again after new
// informers were made.
func (f *Factory[C, F]) StartWithContext(ctx context.Context) { f.members.Start(ctx) }

// Shutdown waits until all informers have stopped. It does not end their contexts. From then on, Start does nothing.
func (f *Factory[C, F]) Shutdown() {
	f.members.Shutdown()
	f.config.InformerName.Release()
}

// WaitForCacheSync waits until all informers that run have synced, or stop is closed. It reports which have synced.
func (f *Factory[C, F]) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.members.WaitSynced(wait.ContextForChannel(stop))
}

// WaitForCacheSyncWithContext waits until all informers that run have synced, or ctx ends. It reports which have
// synced, and the cause of ctx if one has not.
func (f *Factory[C, F]) WaitForCacheSyncWithContext(ctx context.Context) clientcache.SyncResult {
	result := clientcache.SyncResult{Synced: f.members.WaitSynced(ctx)}
	for _, synced := range result.Synced {
		if !synced {
			result.Err = context.Cause(ctx)
		}
	}
	return result
}
