package crcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	clientcache "github.com/typedinformer/informer/clientgo/cache"
)

// Get reads one object into out.
func (c *objectCache) Get(ctx context.Context, key client.ObjectKey, out client.Object,
	opts ...client.GetOption) error {
	id, k, err := c.idOf(out)
	if err != nil {
		return err
	}
	if k == nil {
		if custom := c.customOf(id.gvk); custom != nil {
			return custom.Get(ctx, key, out, opts...)
		}
		if k, err = c.reading(ctx, id); err != nil {
			return err
		}
	}
	p, key, err := k.partOf(key)
	if err != nil {
		return err
	}
	if err := c.ready(ctx, k, p); err != nil {
		return err
	}
	var options client.GetOptions
	options.ApplyOptions(opts)
	copies := p.copies(options.UnsafeDisableDeepCopy)
	obj, err := k.object(ctx, p, key, copies)
	if err != nil {
		return err
	}
	to, from := reflect.ValueOf(out), reflect.ValueOf(obj)
	if to.Type() != from.Type() {
		return k.anotherType(key, obj, to.Type().String())
	}
	to.Elem().Set(from.Elem())
	if copies {
		out.GetObjectKind().SetGroupVersionKind(k.id.gvk)
	}
	return nil
}

// object returns the object of a part with a key, or a copy.
func (k *kind) object(ctx context.Context, p *part, key client.ObjectKey, copies bool) (any, error) {
	if p.onDemand != nil {
		return p.onDemand.get(ctx, key, copies)
	}
	snap := p.informer.Store().Snapshot()
	if copies {
		snap = informer.Copies(snap)
	}
	held, ok := snap.Get(key)
	if !ok {
		return nil, k.notFound(snap, key)
	}
	return clientcache.Result(held), nil
}

// anotherType returns the error of a reader that wants another type than the cache has.
func (k *kind) anotherType(key client.ObjectKey, has any, want string) error {
	return fmt.Errorf("read %s %s: the cache has a %T, not a %s", k.id.gvk.Kind, key, has, want)
}

// partOf returns the part that has the object with a key, and the key in that part.
func (k *kind) partOf(key client.ObjectKey) (*part, client.ObjectKey, error) {
	if !k.namespaced {
		key.Namespace = ""
	}
	p := k.part(key.Namespace)
	if p == nil {
		return nil, key, k.unknownNamespace(key.Namespace)
	}
	return p, key, nil
}

// notFound returns why snap has no object with a key. The object may exist, if it could not be decoded. Otherwise the
// error names the kind where the API server names the resource, as controller-runtime's cache does.
func (k *kind) notFound(snap *informer.Snapshot[clientcache.Object], key client.ObjectKey) error {
	if err := snap.Undecodable(key); err != nil {
		return err
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: k.id.gvk.Group, Resource: k.id.gvk.Kind}, key.Name)
}

// List reads the objects that opts select into out. If objects may be missing because they could not be decoded, it
// also returns an error, which wraps an [*informer.DecodeError].
func (c *objectCache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	id, err := c.idOfList(out)
	if err != nil {
		return err
	}
	if custom := c.customOf(id.gvk); custom != nil {
		return custom.List(ctx, out, opts...)
	}
	k, err := c.reading(ctx, id)
	if err != nil {
		return err
	}
	var options client.ListOptions
	options.ApplyOptions(opts)
	items := []runtime.Object{}
	missing, err := c.list(ctx, k, &options, true, func(key client.ObjectKey, read any, copied bool) error {
		obj, ok := read.(runtime.Object)
		if !ok {
			return k.anotherType(key, read, "runtime.Object")
		}
		if copied {
			obj.GetObjectKind().SetGroupVersionKind(id.gvk)
		}
		items = append(items, obj)
		return nil
	})
	if err != nil {
		return err
	}
	if err := meta.SetList(out, items); err != nil {
		return err
	}
	out.SetContinue("continue-not-supported")
	return missing
}

var errContinue = errors.New("continue list option is not supported by the cache")

// list calls take with each object of k that options select, up to the limit, once it can be read. If copy is true, it
// copies the objects, unless the configuration or options disable that. An error of take ends it. The error missing
// says that more objects may match, which could not be decoded: their labels and fields are unknown.
func (c *objectCache) list(ctx context.Context, k *kind, options *client.ListOptions, copy bool,
	take func(key client.ObjectKey, obj any, copied bool) error) (missing, err error) {
	if options.Continue != "" {
		return nil, errContinue
	}
	left := options.Limit
	if left <= 0 {
		left = -1
	}
	namespace := options.Namespace
	parts, err := k.in(namespace)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx, k, parts...); err != nil {
		return nil, err
	}
	if !k.namespaced && namespace != "" {
		return nil, nil // no object is in it
	}
	for _, p := range parts {
		snap := p.informer.Store().Snapshot()
		copies := copy && p.copies(options.UnsafeDisableDeepCopy)
		objects, failed, err := k.read(ctx, p, snap, namespace, options, copies, left)
		if err != nil {
			return nil, err
		}
		for key, obj := range objects {
			if err := take(key, obj, copies); err != nil {
				return nil, err
			}
			if left--; left == 0 {
				return nil, nil
			}
		}
		missing = cmp.Or(missing, failed, snap.Missing(namespace))
	}
	if missing != nil {
		missing = fmt.Errorf("list %s: %w", k.id.gvk.Kind, missing)
	}
	return missing, nil
}

// read yields the objects of a part that a list selects. It reads them from snap. If the part is on demand, it reads
// whole objects for the metadata in snap, at most limit if limit is not negative. The error missing says that more
// objects could not be decoded.
func (k *kind) read(ctx context.Context, p *part, snap *informer.Snapshot[clientcache.Object], namespace string,
	options *client.ListOptions, copies bool, limit int64) (_ iter.Seq2[client.ObjectKey, any], missing, err error) {
	if p.onDemand != nil {
		all, missing, err := p.onDemand.list(ctx, snap, namespace, options, limit)
		return func(yield func(client.ObjectKey, any) bool) {
			for _, w := range all {
				if !yield(w.Key, w.result(copies)) {
					return
				}
			}
		}, missing, err
	}
	objects, err := k.selected(p, snap, namespace, options, copies)
	return func(yield func(client.ObjectKey, any) bool) {
		for held := range objects {
			if !yield(client.ObjectKeyFromObject(held), clientcache.Result(held)) {
				return
			}
		}
	}, nil, err
}

// selected yields the objects of snap, a snapshot of a part, that match a namespace and the selectors of options.
func (k *kind) selected(p *part, snap *informer.Snapshot[clientcache.Object], namespace string,
	options *client.ListOptions, copies bool) (iter.Seq[clientcache.Object], error) {
	view := snap
	if copies {
		view = informer.Copies(snap)
	}
	if options.FieldSelector == nil {
		return informer.Select(view, namespace, options.LabelSelector), nil
	}
	conditions, err := k.conditions(options.FieldSelector)
	if err != nil {
		return nil, err
	}
	first, others, selector := conditions[0], conditions[1:], options.LabelSelector
	if len(others) == 0 && (selector == nil || selector.Empty()) {
		return first.index.lookup(p, view, namespace, first.value), nil
	}
	return func(yield func(clientcache.Object) bool) {
		for obj := range first.index.lookup(p, snap, namespace, first.value) {
			if selector != nil && !selector.Matches(labels.Set(obj.GetLabels())) || !meetsAll(obj, others) {
				continue
			}
			if copies {
				obj = obj.DeepCopyObject().(clientcache.Object)
			}
			if !yield(obj) {
				return
			}
		}
	}, nil
}
