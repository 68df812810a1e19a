package crcache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	clientcache "github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/internal/run"
)

// IndexField makes List find objects by a field selector on field. extract returns the values of the field; an object
// matches if one of them is equal. IndexField does not wait for the informer of obj's kind, which it creates if there
// is none. It returns an error if the field already has an index.
func (c *objectCache) IndexField(ctx context.Context, obj client.Object, field string,
	extract client.IndexerFunc) error {
	i, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if k, ok := i.(*kind); ok {
		return k.indexField(field, extract)
	}
	return c.custom.IndexField(ctx, obj, field, extract)
}

// fieldIndex finds the objects of a kind by the values of a field.
type fieldIndex struct {
	extract client.IndexerFunc
	parts   map[*part]*informer.Index[clientcache.Object, fieldKey]
}

// fieldKey is a value of a field, with the namespace of the object, or with no namespace for a lookup in all
// namespaces.
type fieldKey struct{ namespace, value string }

func (k *kind) indexField(field string, extract client.IndexerFunc) error {
	if d := k.parts[0].onDemand; d != nil {
		return d.errNoIndex("IndexField")
	}
	if k.IsStopped() {
		return k.errStopped()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, exists := k.fields[field]; exists {
		return fmt.Errorf("field %q of %s already has an index", field, k.id.gvk.Kind)
	}
	x := &fieldIndex{extract: extract, parts: map[*part]*informer.Index[clientcache.Object, fieldKey]{}}
	if run.IsClosed(k.started) {
		x.start(k.parts)
	}
	k.fields[field] = x
	return nil
}

// start adds the index to the informers of parts.
func (x *fieldIndex) start(parts []*part) {
	for _, p := range parts {
		x.parts[p] = informer.NewIndex(p.informer, func(obj clientcache.Object) []fieldKey {
			return fieldKeys(obj, x.values(obj), p.single)
		})
	}
}

// values returns the values of the field of an object. An object that is no longer a client.Object after a transform
// has none.
func (x *fieldIndex) values(held clientcache.Object) []string {
	if obj, ok := clientcache.Result(held).(client.Object); ok {
		return x.extract(obj)
	}
	return nil
}

// fieldKeys returns the keys of an object with the given values. If single is true, the index has the objects of one
// namespace only, and lookups need no keys with namespaces.
func fieldKeys(obj clientcache.Object, values []string, single bool) []fieldKey {
	keys := make([]fieldKey, 0, 2*len(values))
	namespace := obj.GetNamespace()
	for _, value := range values {
		keys = append(keys, fieldKey{value: value})
		if !single && namespace != "" {
			keys = append(keys, fieldKey{namespace, value})
		}
	}
	return keys
}

// lookup yields the objects of snap, a snapshot of p, that have value and are in namespace, or in any if that is empty.
func (x *fieldIndex) lookup(p *part, snap *informer.Snapshot[clientcache.Object], namespace,
	value string) iter.Seq[clientcache.Object] {
	if !p.single {
		return x.parts[p].LookupIn(snap, fieldKey{namespace, value})
	}
	return func(yield func(clientcache.Object) bool) {
		for obj := range x.parts[p].LookupIn(snap, fieldKey{value: value}) {
			if (namespace == "" || namespace == obj.GetNamespace()) && !yield(obj) {
				return
			}
		}
	}
}

// condition is one requirement of a field selector.
type condition struct {
	index *fieldIndex
	value string
}

// conditions returns the requirements of a selector, at least one.
func (k *kind) conditions(selector fields.Selector) ([]condition, error) {
	requirements := selector.Requirements()
	if len(requirements) == 0 {
		return nil, errInexact
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var conditions []condition
	for _, r := range requirements {
		if r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return nil, errInexact
		}
		x := k.fields[r.Field]
		if x == nil {
			return nil, fmt.Errorf("field %q of %s has no index: add one with IndexField", r.Field, k.id.gvk.Kind)
		}
		conditions = append(conditions, condition{x, r.Value})
	}
	return conditions, nil
}

var errInexact = errors.New("the cache supports only field selectors with = or ==, and at least one of them")

func meetsAll(obj clientcache.Object, conditions []condition) bool {
	for _, c := range conditions {
		if !slices.Contains(c.index.values(obj), c.value) {
			return false
		}
	}
	return true
}
