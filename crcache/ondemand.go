package crcache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	clientcache "github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/internal/ondemand"
)

// This file is about the kinds of ByObject.OnDemand. Their informers hold the metadata of all objects, in otherwise
// empty objects of the kind's Go type, so that handlers, predicates and sources of that type work. Reads get whole
// objects from an ondemand.Reader.

const (
	onDemandBytes = 16 << 20
	onDemandIdle  = 5 * time.Minute
)

// onDemand reads the whole objects of a part.
type onDemand struct {
	gvk       schema.GroupVersionKind
	reader    *ondemand.Reader[*whole]
	client    *informer.TypedClient[clientcache.Object]
	resource  informer.Resource
	transform toolscache.TransformFunc // nil for none
	drop      bool                     // managedFields
}

// whole is a whole object.
type whole struct {
	Key    client.ObjectKey
	Result any // of the transform
}

// newOnDemand returns a reader of the whole objects of p. It changes follow so that the informer of p follows metadata.
func newOnDemand(k *kind, p *part, follow *clientcache.Part, prototype client.Object, drop bool) *onDemand {
	gvr := follow.Resource.GroupVersionResource
	d := &onDemand{
		gvk:       k.id.gvk,
		client:    informer.NewTypedClientOf[clientcache.Object](follow.Client, gvr, prototype),
		resource:  follow.Resource,
		transform: follow.Transform,
		drop:      drop,
	}
	d.reader = ondemand.New(ondemand.Config[*whole]{
		Metadata: func(key client.ObjectKey) (ondemand.ID, error) {
			snap := p.informer.Store().Snapshot()
			if held, ok := snap.Get(key); ok {
				return ondemand.ID{UID: held.GetUID(), Version: held.GetResourceVersion()}, nil
			}
			return ondemand.ID{}, k.notFound(snap, key)
		},
		Fetch: func(ctx context.Context, key client.ObjectKey, version string) (ondemand.Object[*whole], error) {
			obj, err := d.client.Get(ctx, key, metav1.GetOptions{ResourceVersion: version})
			if err != nil {
				return ondemand.Object[*whole]{}, err
			}
			return d.finished(key, obj)
		},
		Undecodable: func(err error) bool {
			var failed *informer.DecodeError
			return errors.As(err, &failed)
		},
		MaxBytes: onDemandBytes,
		MaxIdle:  onDemandIdle,
		Stopped:  k.errStopped(),
	})
	follow.Transform = d.partial(prototype, k.id.form == unstructuredForm)
	return d
}

// partial returns the transform of the informer. It makes an object of the type of prototype that has only metadata,
// and then calls the user's transform.
func (d *onDemand) partial(prototype client.Object, named bool) toolscache.TransformFunc {
	t := reflect.TypeOf(prototype).Elem()
	return func(in any) (any, error) {
		metadata, ok := in.(*metav1.PartialObjectMetadata)
		if !ok {
			return nil, fmt.Errorf("it received a %T", in)
		}
		obj := reflect.New(t).Interface().(client.Object)
		if named {
			obj.GetObjectKind().SetGroupVersionKind(d.gvk)
		}
		copyMetadata(obj, metadata)
		if d.transform == nil {
			return obj, nil
		}
		return d.transform(obj)
	}
}

// copyMetadata sets the metadata of an object, without managedFields.
func copyMetadata(to client.Object, from *metav1.PartialObjectMetadata) {
	to.SetNamespace(from.Namespace)
	to.SetName(from.Name)
	to.SetGenerateName(from.GenerateName)
	to.SetUID(from.UID)
	to.SetResourceVersion(from.ResourceVersion)
	to.SetGeneration(from.Generation)
	to.SetCreationTimestamp(from.CreationTimestamp)
	to.SetDeletionTimestamp(from.DeletionTimestamp)
	to.SetDeletionGracePeriodSeconds(from.DeletionGracePeriodSeconds)
	to.SetLabels(from.Labels)
	to.SetAnnotations(from.Annotations)
	to.SetFinalizers(from.Finalizers)
	to.SetOwnerReferences(from.OwnerReferences)
}

// follow makes the reader follow the changes of an informer.
func (d *onDemand) follow(i *informer.Informer[clientcache.Object]) {
	i.Subscribe(informer.HandlerFuncs[clientcache.Object]{
		UpdateFunc: func(old, new clientcache.Object) {
			d.reader.Updated(informer.KeyOf(new), old.GetResourceVersion(), new.GetResourceVersion())
		},
		DeleteFunc: func(last clientcache.Object, _ bool) { d.reader.Changed(informer.KeyOf(last)) },
	}, informer.SubscriptionConfig[clientcache.Object]{Name: "on demand", Delivery: informer.DeliverEvery(math.MaxInt)})
}

// finished returns an object from the server in the form that readers receive.
func (d *onDemand) finished(key client.ObjectKey, obj clientcache.Object) (ondemand.Object[*whole], error) {
	if sent := informer.KeyOf(obj); sent != key {
		return ondemand.Object[*whole]{}, fmt.Errorf("get %s %s: the server sent %.600s", d.gvk.Kind, key, sent)
	}
	id := ondemand.ID{UID: obj.GetUID(), Version: obj.GetResourceVersion()}
	if d.drop {
		obj.SetManagedFields(nil)
	}
	var result any = obj
	if d.transform != nil {
		var err error
		if result, err = d.transform(obj); err == nil && result == nil {
			err = errors.New("it returned nil and no error")
		}
		if err != nil {
			return ondemand.Object[*whole]{}, &informer.DecodeError{Resource: d.resource, Key: key, UID: string(id.UID),
				ResourceVersion: id.Version, Err: fmt.Errorf("transform: %w", err)}
		}
	}
	return ondemand.Object[*whole]{Value: &whole{key, result}, ID: id}, nil
}

// get returns the object with a key, or a copy.
func (d *onDemand) get(ctx context.Context, key client.ObjectKey, copies bool) (any, error) {
	obj, err := d.reader.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return obj.result(copies), nil
}

// result returns the object, or a copy.
func (w *whole) result(copies bool) any {
	if obj, ok := w.Result.(runtime.Object); ok && copies {
		return obj.DeepCopyObject()
	}
	return w.Result
}

// list returns the objects of a namespace that options select, at most limit if that is not negative. The error missing
// says that there are more, which could not be decoded.
func (d *onDemand) list(ctx context.Context, snap *informer.Snapshot[clientcache.Object], namespace string,
	options *client.ListOptions, limit int64) (all []*whole, missing, err error) {
	if options.FieldSelector != nil {
		return nil, nil, d.errNoIndex("a list by fields")
	}
	var keys []client.ObjectKey
	for held := range informer.Select(snap, namespace, options.LabelSelector) {
		if keys = append(keys, informer.KeyOf(held)); int64(len(keys)) == limit {
			break
		}
	}
	all, _, missing, err = d.reader.List(ctx, keys, func(ctx context.Context, take ondemand.TakeFunc[*whole]) (int, error) {
		return d.pages(ctx, namespace, options.LabelSelector, take)
	})
	if err != nil || options.LabelSelector == nil {
		return all, missing, err
	}
	matching := all[:0]
	for _, w := range all { // an object that is newer than its metadata may have other labels
		if m, err := apimeta.Accessor(w.Result); err != nil || options.LabelSelector.Matches(labels.Set(m.GetLabels())) {
			matching = append(matching, w)
		}
	}
	return matching, missing, nil
}

// pages reads objects from the server by lists.
func (d *onDemand) pages(ctx context.Context, namespace string, selector labels.Selector,
	take ondemand.TakeFunc[*whole]) (int, error) {
	o := metav1.ListOptions{LabelSelector: d.resource.LabelSelector, FieldSelector: d.resource.FieldSelector}
	if selector != nil && !selector.Empty() {
		if o.LabelSelector != "" {
			o.LabelSelector += ","
		}
		o.LabelSelector += selector.String()
	}
	namespaces := d.resource.Namespaces
	if namespace != "" || len(namespaces) == 0 {
		namespaces = []string{namespace}
	}
	list := func(ctx context.Context, namespace string, o metav1.ListOptions) ([]clientcache.Object, metav1.ListMeta,
		error) {
		items, page, err := d.client.List(ctx, namespace, o)
		for _, failed := range ondemand.Failures[*informer.DecodeError](err) {
			err = nil // of a page without these objects
			take(failed.Key, ondemand.Object[*whole]{}, failed)
		}
		return items, page, err
	}
	return ondemand.Pages(ctx, list, namespaces, o, func(obj clientcache.Object) bool {
		key := informer.KeyOf(obj)
		read, err := d.finished(key, obj)
		return take(key, read, err)
	})
}

// errNoIndex returns the error of a call that needs an index of whole objects. what names the call.
func (d *onDemand) errNoIndex(what string) error {
	return fmt.Errorf("%s of %s: crcache.Options.ByObject has OnDemand for this kind, so the cache has only metadata: index "+
		"a metav1.PartialObjectMetadata of the kind by its metadata, or leave OnDemand out", what, d.gvk.Kind)
}
