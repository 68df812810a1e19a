package informers

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
)

// ForResource returns the informer and the lister of a resource. It returns an error if client-go has no type for it.
func (f *sharedInformerFactory) ForResource(resource schema.GroupVersionResource) (GenericInformer, error) {
	t, err := typeOf(resource)
	if err != nil {
		return nil, err
	}
	if ofNewerGroup(t) {
		return f.SharedInformerFactory.ForResource(resource)
	}
	obj := reflect.New(t.Elem()).Interface().(runtime.Object)
	i := f.InformerFor(obj, func(client kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
		return f.ofClientGo(client, resync, resource).Informer()
	})
	return &genericInformer{i, resource.GroupResource()}, nil
}

// ofClientGo returns client-go's informer of a resource that client-go knows.
func (f *sharedInformerFactory) ofClientGo(client kubernetes.Interface, resync time.Duration,
	resource schema.GroupVersionResource) GenericInformer {
	generic, err := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(f.namespace),
		informers.WithTweakListOptions(f.tweak), informers.WithInformerName(f.InformerName())).ForResource(resource)
	if err != nil {
		panic(err) // cannot happen: typeOf has found the resource
	}
	return generic
}

// genericInformer is a [GenericInformer].
type genericInformer struct {
	informer clientcache.SharedIndexInformer
	resource schema.GroupResource
}

// Informer implements GenericInformer.
func (g *genericInformer) Informer() clientcache.SharedIndexInformer { return g.informer }

// Lister implements GenericInformer.
func (g *genericInformer) Lister() clientcache.GenericLister {
	return clientcache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}

// typeOf returns the Go type of the objects of a resource. Only a factory of client-go knows it, and reports only the
// types of started informers. So typeOf starts one, which has no server and stops at once.
func typeOf(resource schema.GroupVersionResource) (reflect.Type, error) {
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://nowhere.invalid", QPS: -1},
		&http.Client{Transport: nowhere{}})
	if err != nil {
		return nil, err
	}
	f := informers.NewSharedInformerFactory(client, 0)
	generic, err := f.ForResource(resource)
	if err != nil {
		return nil, err
	}
	_ = generic.Informer()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.StartWithContext(ctx)
	defer f.Shutdown()
	for t := range f.WaitForCacheSyncWithContext(ctx).Synced {
		return t, nil
	}
	panic("a factory of client-go has lost the informer of " + resource.String())
}

// nowhere is the transport of a client without a server.
type nowhere struct{}

func (nowhere) RoundTrip(req *http.Request) (*http.Response, error) { return nil, context.Canceled }
