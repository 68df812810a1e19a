package cache

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/internal/apipath"
	"github.com/typedinformer/informer/clientgo/internal/shards"
)

// ListWatch is a [cache.ListerWatcher] of a collection of an API server. Unlike client-go's, it knows its collection,
// so an informer over it sends its own requests. [NewListWatchFromClient] and [NewFilteredListWatchFromClient] return
// one.
type ListWatch struct {
	*cache.ListWatch
	client              cache.Getter
	resource, namespace string
	options             func(*metav1.ListOptions)
}

// NewListWatchFromClient is client-go's function for a [ListWatch] of this package.
func NewListWatchFromClient(c cache.Getter, resource, namespace string, fieldSelector fields.Selector) *ListWatch {
	return NewFilteredListWatchFromClient(c, resource, namespace, func(options *metav1.ListOptions) {
		options.FieldSelector = fieldSelector.String()
	})
}

// NewFilteredListWatchFromClient is client-go's function for a [ListWatch] of this package. An informer calls
// optionsModifier once. Only the selectors and the limit that it sets apply.
func NewFilteredListWatchFromClient(c cache.Getter, resource, namespace string,
	optionsModifier func(options *metav1.ListOptions)) *ListWatch {
	return &ListWatch{
		ListWatch: cache.NewFilteredListWatchFromClient(c, resource, namespace, optionsModifier),
		client:    c, resource: resource, namespace: namespace, options: optionsModifier,
	}
}

// collection returns the client and the collection of an informer over l.
func (l *ListWatch) collection() (*informer.Client, informer.Resource, int, error) {
	c, ok := l.client.(*rest.RESTClient)
	if !ok || c == nil {
		return nil, informer.Resource{}, 0, fmt.Errorf("a ListWatch of a %T: %w", l.client, ErrNoRESTClient)
	}
	client, err := ClientFor(c)
	if err != nil {
		return nil, informer.Resource{}, 0, err
	}
	base := strings.TrimSuffix(c.Get().AbsPath("/").URL().Path, "/")
	where := c.Get().Namespace(l.namespace).Resource(l.resource).URL().Path
	resource, err := apipath.Collection(strings.TrimPrefix(where, base))
	if err != nil {
		return nil, informer.Resource{}, 0, err
	}
	var options metav1.ListOptions
	l.options(&options)
	resource.LabelSelector, resource.FieldSelector = options.LabelSelector, options.FieldSelector
	resource.Shard, err = shards.Parse(options.ShardSelector)
	return client, resource, int(options.Limit), err
}

// NewSharedInformer is NewSharedIndexInformer without indexers.
func NewSharedInformer(lw cache.ListerWatcher, exampleObject runtime.Object,
	defaultEventHandlerResyncPeriod time.Duration) cache.SharedInformer {
	return NewSharedIndexInformer(lw, exampleObject, defaultEventHandlerResyncPeriod, cache.Indexers{})
}

// NewSharedIndexInformer is client-go's function for an informer of this package. If lw is a [ListWatch] of this
// package, the informer requests its collection by itself. From any other lw it takes the objects as they are.
func NewSharedIndexInformer(lw cache.ListerWatcher, exampleObject runtime.Object,
	defaultEventHandlerResyncPeriod time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithOptions(lw, exampleObject, cache.SharedIndexInformerOptions{
		ResyncPeriod: defaultEventHandlerResyncPeriod,
		Indexers:     indexers,
	})
}

// NewSharedIndexInformerWithOptions is [NewSharedIndexInformer] with options. The Identifier and the
// InformerMetricsProvider of the options are not used: the informer has no metrics of client-go. If exampleObject is of
// a type that no informer of this package can hold, it logs why and returns an informer of client-go.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, exampleObject runtime.Object,
	options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	i, err := Over(lw, exampleObject, options, Options{})
	if err != nil {
		klog.Background().Info("Warning: using client-go's own informer", "type", fmt.Sprintf("%T", exampleObject),
			"reason", err)
		return cache.NewSharedIndexInformerWithOptions(lw, exampleObject, options)
	}
	return i
}

// Over is [NewSharedIndexInformerWithOptions] with options of storage. It returns an error instead of an informer of
// client-go. client-go has no such function.
func Over(lw cache.ListerWatcher, exampleObject runtime.Object, options cache.SharedIndexInformerOptions,
	storage Options) (cache.SharedIndexInformer, error) {
	config := Config{
		Object:            exampleObject,
		ObjectDescription: options.ObjectDescription,
		ResyncPeriod:      options.ResyncPeriod,
		Indexers:          options.Indexers,
		Options:           storage,
	}
	var err error
	switch l, ours := lw.(*ListWatch); {
	case lw == nil:
		return nil, errors.New("the ListerWatcher is nil")
	case ours:
		if config.Client, config.Resource, config.PageSize, err = l.collection(); err == nil {
			break
		} else if !errors.Is(err, ErrNoRESTClient) {
			return nil, err
		}
		fallthrough
	default:
		config.Resource.GroupVersionResource = guessed(exampleObject)
		config.PagedList = !streams(lw)
		config.Client, err = informer.NewClient(&rest.Config{
			Host:      "http://lister-watcher",
			QPS:       -1,
			Transport: bridge{cache.ToListerWatcherWithContext(lw)},
		})
		if err != nil {
			return nil, err
		}
	}
	if config.Resource.Shard, err = shardOf(options, config.Resource.Shard); err != nil {
		return nil, err
	}
	return New(config)
}

// shardOf returns the shard of the field ShardSelector, which the options have since client-go 0.38, or without one the
// shard of the ListerWatcher.
func shardOf(options cache.SharedIndexInformerOptions, fallback informer.Shard) (informer.Shard, error) {
	field := reflect.ValueOf(options).FieldByName("ShardSelector")
	if !field.IsValid() || field.IsNil() {
		return fallback, nil
	}
	selector, ok := field.Interface().(sharding.Selector)
	if !ok {
		return fallback, fmt.Errorf("ShardSelector is a %v, not a sharding.Selector", field.Type())
	}
	return shards.Of(selector)
}

// guessed returns the probable name of the collection of obj, for messages.
func guessed(obj runtime.Object) schema.GroupVersionResource {
	kind := schema.GroupVersionKind{}
	if obj != nil {
		kind = obj.GetObjectKind().GroupVersionKind()
	}
	if kind.Kind == "" {
		kind = schema.GroupVersionKind{Version: "v1", Kind: "Object"}
		if t := reflect.TypeOf(obj); t != nil && t.Kind() == reflect.Pointer && t.Elem().Name() != "" {
			kind.Kind = t.Elem().Name()
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural
}
