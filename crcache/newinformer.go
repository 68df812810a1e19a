package crcache

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file is about custom kinds, whose informers cache.Options.NewInformer makes. controller-runtime's own cache has
// them: it calls the function with the usual arguments, starts the informers and reads from their indexers.

// newCustom returns the cache that has the kinds of cache.Options.NewInformer, or nil if there are none.
func (c *objectCache) newCustom() (cache.Cache, error) {
	if c.opts.NewInformer == nil || !c.storages.some(func(s storage) bool { return s.custom }) {
		return nil, nil
	}
	custom, err := cache.New(c.config, c.opts)
	if err != nil {
		return nil, fmt.Errorf("the cache of controller-runtime for the informers of cache.Options.NewInformer: %w", err)
	}
	return custom, nil
}

// customOf returns the cache that has a kind in an informer of cache.Options.NewInformer, or nil if c has it itself.
func (c *objectCache) customOf(gvk schema.GroupVersionKind) cache.Cache {
	if c.custom == nil || !c.storages.of(gvk).custom {
		return nil
	}
	return c.custom
}

// errCustom returns the error of a call that informers of cache.Options.NewInformer do not support. what names the call.
func errCustom(what string, gvk schema.GroupVersionKind) error {
	return fmt.Errorf("%s of %s: cache.Options.NewInformer makes its informer, unless "+
		"crcache.Options.IgnoreNewInformer or that of its kind in ByObject is set", what, gvk.Kind)
}

// customFor returns customOf for the kind of T, and an object of T. For an invalid T it returns nil, so that the lookup
// of informers of c returns the error.
func customFor[T client.Object](c cache.Cache) (custom cache.Cache, gvk schema.GroupVersionKind, prototype T) {
	if own, ok := c.(*objectCache); !ok || own.custom == nil {
		return nil, gvk, prototype
	}
	own, prototype, err := ownCache[T](c)
	if err != nil {
		return nil, gvk, prototype
	}
	id, _, err := own.idOf(prototype)
	if err != nil {
		return nil, gvk, prototype
	}
	return own.customOf(id.gvk), id.gvk, prototype
}

// getCustom reads an object from custom.
func getCustom[T client.Object](ctx context.Context, custom cache.Cache, key client.ObjectKey, out T) (T, error) {
	if err := custom.Get(ctx, key, out, client.UnsafeDisableDeepCopy); err != nil {
		var none T
		return none, err
	}
	return out, nil
}

// listCustom reads the objects of a kind that opts select from custom.
func listCustom[T client.Object](ctx context.Context, custom cache.Cache, scheme *runtime.Scheme,
	gvk schema.GroupVersionKind, opts []client.ListOption) (all []T, err error) {
	list, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	out, ok := list.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T, the type of a list of %s, is not a client.ObjectList", list, gvk)
	}
	if err := custom.List(ctx, out, append(slices.Clone(opts), client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	err = meta.EachListItem(out, func(item runtime.Object) error {
		obj, ok := item.(T)
		if !ok {
			return fmt.Errorf("a %T has a %T, not a %v", out, item, reflect.TypeFor[T]())
		}
		all = append(all, obj)
		return nil
	})
	return all, err
}
