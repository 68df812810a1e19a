package factory

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientcache "k8s.io/client-go/tools/cache"
)

// Collection is the part of a generated client that an informer uses. L is the type of its lists.
type Collection[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// ListWatch returns a ListerWatcher over a collection of a clientset, for an informer of client-go that [Factory]
// receives. Generated code uses it. tweak changes the options of each request; nil means no change.
func ListWatch[L runtime.Object](clientset any, collection Collection[L],
	tweak func(*metav1.ListOptions)) clientcache.ListerWatcher {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if tweak != nil {
			tweak(&options)
		}
		return collection.List(ctx, options)
	}
	watching := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		if tweak != nil {
			tweak(&options)
		}
		return collection.Watch(ctx, options)
	}
	return clientcache.ToListWatcherWithWatchListSemantics(&clientcache.ListWatch{
		ListWithContextFunc:  list,
		WatchFuncWithContext: watching,
	}, clientset)
}
