package readthrough

import (
	"cmp"
	"context"
	"errors"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/ondemand"
)

// Cost says what a list needs.
type Cost struct {
	// Objects is the number of objects that the list has, by their metadata.
	Objects int
	// Held is the number of them that the informer has in memory, so that they need no request.
	Held int
	// Requests is the number of requests: one for each missing object if there are at most eight, and otherwise one for
	// each page of 500 objects that the server has, in addition to one for each object that changed meanwhile.
	Requests int
}

// List returns the whole objects of a namespace whose labels selector matches, ordered by namespace, then name, and
// what that cost. An empty namespace means all namespaces, and a nil selector matches all. [Informer.CostOf] returns
// the cost beforehand.
//
// All these objects are in memory at once, while the caller has them. The informer holds those for which MaxBytes has
// room, and drops no other object for them. If metadata are enough, list those: they cost nothing.
//
//	for m := range i.Metadata().Store().All() { … }
//
// Of each object, the list has what Get could have returned during the call: not older than its metadata. It is no
// state of the collection at one time. The errors are those of Get, of any object. If objects are missing because they
// or their metadata could not be decoded, List returns the others and an error, which wraps a [*informer.DecodeError].
func (i *Informer[T]) List(ctx context.Context, namespace string, selector labels.Selector) ([]T, Cost, error) {
	if err := i.ready(ctx, namespace); err != nil {
		return nil, Cost{}, err
	}
	snap := i.metadata.Store().Snapshot()
	keys := keysOf(informer.Select(snap, namespace, selector))
	all, cost, missing, err := i.reader.List(ctx, keys, func(ctx context.Context, take ondemand.TakeFunc[T]) (int, error) {
		return i.pages(ctx, namespace, selector, take)
	})
	if err != nil {
		return nil, Cost(cost), err
	}
	return matching(all, selector), Cost(cost), cmp.Or(missing, snap.Missing(namespace))
}

// CostOf returns what List would cost now.
func (i *Informer[T]) CostOf(namespace string, selector labels.Selector) Cost {
	if i.invalid != nil {
		return Cost{}
	}
	keys := keysOf(informer.Select(i.metadata.Store().Snapshot(), namespace, selector))
	return Cost(i.reader.CostOf(keys, len(keys)))
}

func keysOf(all iter.Seq[*metav1.PartialObjectMetadata]) []informer.Key {
	var keys []informer.Key
	for m := range all {
		keys = append(keys, informer.KeyOf(m))
	}
	return keys
}

// pages reads objects from the server by lists.
func (i *Informer[T]) pages(ctx context.Context, namespace string, selector labels.Selector,
	take ondemand.TakeFunc[T]) (requests int, err error) {
	o := metav1.ListOptions{LabelSelector: i.resource.LabelSelector, FieldSelector: i.resource.FieldSelector}
	if selector != nil {
		o.LabelSelector = and(o.LabelSelector, selector.String())
	}
	namespaces := i.resource.Namespaces
	if namespace != "" || len(namespaces) == 0 {
		namespaces = []string{namespace}
	}
	list := func(ctx context.Context, namespace string, o metav1.ListOptions) ([]T, metav1.ListMeta, error) {
		items, page, err := i.client.List(ctx, namespace, o)
		for _, failed := range ondemand.Failures[*informer.DecodeError](err) {
			err = nil // of a page without these objects
			take(failed.Key, ondemand.Object[T]{}, failed)
		}
		return items, page, err
	}
	return ondemand.Pages(ctx, list, namespaces, o, func(obj T) bool {
		read, err := i.finished(obj)
		return take(informer.KeyOf(obj), read, err)
	})
}

// isUndecodable reports whether an error is about the content of one object.
func isUndecodable(err error) bool {
	var failed *informer.DecodeError
	return errors.As(err, &failed)
}

// matching returns the objects whose labels selector matches: one that is newer than its metadata may have others.
func matching[T informer.Object](all []T, selector labels.Selector) []T {
	if selector == nil || selector.Empty() {
		return all
	}
	matching := all[:0]
	for _, obj := range all {
		labeled, ok := any(obj).(interface{ GetLabels() map[string]string })
		if !ok || selector.Matches(labels.Set(labeled.GetLabels())) {
			matching = append(matching, obj)
		}
	}
	return matching
}
