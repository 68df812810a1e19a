package crcache

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	clientcache "github.com/typedinformer/informer/clientgo/cache"
)

// Get returns the object with a key, and creates its informer and waits for it as the method Get of c does. T is a Go
// type that the scheme of c has, such as *corev1.Pod. c is a cache that the function from [New] created, such as the
// result of a manager's GetCache.
//
// Get does not copy. All readers share the object, so the caller must not write to it. Its kind and apiVersion are
// empty. If the object does not exist, the error meets apierrors.IsNotFound. If it exists but could not be decoded, the
// error is an [*informer.DecodeError]. If a transform has changed its type, the error names both types.
func Get[T client.Object](ctx context.Context, c cache.Cache, key client.ObjectKey) (T, error) {
	var none T
	if custom, _, out := customFor[T](c); custom != nil {
		return getCustom(ctx, custom, key, out)
	}
	own, k, err := kindFor[T](ctx, c)
	if err != nil {
		return none, err
	}
	p, key, err := k.partOf(key)
	if err != nil {
		return none, err
	}
	if err := own.ready(ctx, k, p); err != nil {
		return none, err
	}
	read, err := k.object(ctx, p, key, false)
	if err != nil {
		return none, err
	}
	obj, ok := read.(T)
	if !ok {
		return none, k.anotherType(key, read, reflect.TypeFor[T]().String())
	}
	return obj, nil
}

// List returns the objects that opts select, as the method List of c does. See [Get] for T, c, and the rules for the
// objects. The slice is the caller's own. If objects may be missing because they could not be decoded, List returns the
// others and an error, which wraps an [*informer.DecodeError].
func List[T client.Object](ctx context.Context, c cache.Cache, opts ...client.ListOption) ([]T, error) {
	if custom, gvk, _ := customFor[T](c); custom != nil {
		return listCustom[T](ctx, custom, c.(*objectCache).opts.Scheme, gvk, opts)
	}
	own, k, err := kindFor[T](ctx, c)
	if err != nil {
		return nil, err
	}
	var options client.ListOptions
	options.ApplyOptions(opts)
	var list []T
	missing, err := own.list(ctx, k, &options, false, func(key client.ObjectKey, read any, _ bool) error {
		obj, ok := read.(T)
		if !ok {
			return k.anotherType(key, read, reflect.TypeFor[T]().String())
		}
		list = append(list, obj)
		return nil
	})
	return list, cmp.Or(err, missing)
}

// Index finds objects by keys that a function computes from them, like informer.Index. [NewIndex] creates one. All
// methods are safe for concurrent use.
type Index[T client.Object, K comparable] struct {
	parts atomic.Pointer[[]*informer.Index[clientcache.Object, K]] // nil before the informer has started
}

// NewIndex adds an index of the objects of type T to c, before or after its start. It creates the informer of T if
// there is none, and does not wait for it. keys returns the keys of an object: none, one or several. It is called once
// for each version of an object, must be fast, and must not write to the object or call c. If a
// transform turns an object into another type, that object has no keys. See [Get] for T and c.
//
// An index belongs to the informer that T had at the call. After RemoveInformer, its lookups find the last objects of
// that informer. NewIndex returns an error if cache.Options.NewInformer makes that informer; IndexField does not.
func NewIndex[T client.Object, K comparable](ctx context.Context, c cache.Cache, keys func(T) []K) (*Index[T, K],
	error) {
	if custom, gvk, _ := customFor[T](c); custom != nil {
		return nil, errCustom("an Index", gvk)
	}
	own, prototype, err := ownCache[T](c)
	if err != nil {
		return nil, err
	}
	i, err := own.GetInformer(ctx, prototype, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	x := &Index[T, K]{}
	k := i.(*kind)
	if d := k.parts[0].onDemand; d != nil {
		return nil, d.errNoIndex("an Index")
	}
	k.whenStarted(func() {
		var parts []*informer.Index[clientcache.Object, K]
		for _, p := range k.parts {
			parts = append(parts, informer.NewIndex(p.informer, func(held clientcache.Object) []K {
				if obj, ok := clientcache.Result(held).(T); ok {
					return keys(obj)
				}
				return nil // a transform has changed its type
			}))
		}
		x.parts.Store(&parts)
	})
	return x, nil
}

func (x *Index[T, K]) started() []*informer.Index[clientcache.Object, K] {
	if parts := x.parts.Load(); parts != nil {
		return *parts
	}
	return nil
}

// Lookup yields the objects that have key, ordered by namespace, then name; if the cache has a configuration for each
// of several namespaces, one namespace after the other. All readers share the objects: callers must not write to them.
// Lookup does not wait: before c has synced, it finds the objects that c has. It cannot find an object that could not
// be decoded; [List] returns an error for that.
func (x *Index[T, K]) Lookup(key K) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, part := range x.started() {
			for obj := range part.Lookup(key) {
				if !yield(clientcache.Result(obj).(T)) {
					return
				}
			}
		}
	}
}

// List returns the objects that Lookup yields, as a new slice.
func (x *Index[T, K]) List(key K) []T { return slices.Collect(x.Lookup(key)) }

// Count returns the number of objects that have key. It takes time proportional to that number.
func (x *Index[T, K]) Count(key K) int {
	n := 0
	for _, part := range x.started() {
		n += part.Count(key)
	}
	return n
}

// WaitForObject waits until c has obj, which a write returned, or a newer version of it, or knows that it no longer
// exists. If the write removed the last finalizer of an object to be deleted, it waits for the deletion. A later read
// sees the write. It returns nil at once for an object that c does not follow: one of another namespace, or one that
// does not match the selectors for labels, name or namespace. It returns an error if ctx ends or the informer stops
// first. obj may be of any form; each has an informer of its own, which WaitForObject creates if there is none. It
// returns an error if cache.Options.NewInformer makes that informer.
func WaitForObject(ctx context.Context, c cache.Cache, obj client.Object) error {
	own, ok := c.(*objectCache)
	if !ok {
		return foreign(c)
	}
	id, k, err := own.idOf(obj)
	if err != nil {
		return err
	}
	if own.customOf(id.gvk) != nil {
		return errCustom("WaitForObject", id.gvk)
	}
	if k == nil {
		if k, err = own.reading(ctx, id); err != nil {
			return err
		}
	}
	p := k.part(obj.GetNamespace())
	if p == nil {
		return nil
	}
	if err := own.ready(ctx, k, p); err != nil {
		return err
	}
	return p.informer.WaitForObject(ctx, obj)
}

// kindFor returns c as the type that [New] creates, and the informers of T for a read.
func kindFor[T client.Object](ctx context.Context, c cache.Cache) (*objectCache, *kind, error) {
	if own, ok := c.(*objectCache); ok {
		if k := own.known.Load().byType[reflect.TypeFor[T]()]; k != nil {
			return own, k, nil
		}
	}
	own, prototype, err := ownCache[T](c)
	if err != nil {
		return nil, nil, err
	}
	id, _, err := own.idOf(prototype)
	if err != nil {
		return nil, nil, err
	}
	k, err := own.reading(ctx, id)
	return own, k, err
}

// ownCache returns c as the type that [New] creates, and an object of type T.
func ownCache[T client.Object](c cache.Cache) (*objectCache, T, error) {
	var none T
	own, ok := c.(*objectCache)
	if !ok {
		return nil, none, foreign(c)
	}
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return nil, none, fmt.Errorf("%v is not a pointer to a Go type of the scheme", t)
	}
	prototype := reflect.New(t.Elem()).Interface().(T)
	if formOf(prototype) != typed {
		return nil, none, fmt.Errorf("%v stands for every kind: only the methods of the cache can read it", t)
	}
	return own, prototype, nil
}

func foreign(c cache.Cache) error {
	return fmt.Errorf("the cache is a %T: crcache.New has not created it", c)
}
