package crcache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
)

// userIndex is an index of AddIndexers.
type userIndex struct {
	function toolscache.IndexFunc
	parts    []*informer.Index[client.Object, string]
}

// AddIndexers adds indexes, before or after the start. Code that needs them reads them as from an informer of
// client-go, which controller-runtime's cache returns:
//
//	i.(interface{ GetIndexer() toolscache.Indexer }).GetIndexer().ByIndex(name, value)
//
// It adds none and returns an error if one of the names is taken, or if the informer has stopped. An error of an index
// function is a panic, as in client-go.
func (k *kind) AddIndexers(indexers toolscache.Indexers) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range indexers {
		if _, exists := k.indexes[name]; exists {
			return fmt.Errorf("the informer of %s has an index %q already", k.id.gvk.Kind, name)
		}
	}
	for _, p := range k.parts {
		if p.stopped() {
			return k.errStopped()
		}
	}
	for name, function := range indexers {
		x := &userIndex{function: function}
		for _, p := range k.parts {
			x.parts = append(x.parts, informer.NewIndex(p.informer, func(obj client.Object) []string {
				values, err := function(shown(obj))
				if err != nil {
					panic(fmt.Errorf("index %q of %s: %s: %w", name, k.id.gvk.Kind, client.ObjectKeyFromObject(obj), err))
				}
				return values
			}))
		}
		k.indexes[name] = x
	}
	return nil
}

// GetIndexer returns the objects and the indexes of AddIndexers in the form of client-go. Its methods that write return
// an error.
func (k *kind) GetIndexer() toolscache.Indexer { return indexer{k} }

// indexer shows a kind as a [toolscache.Indexer].
type indexer struct{ kind *kind }

var errReadOnly = errors.New("only the informer writes to its store")

func (indexer) Add(any) error               { return errReadOnly }
func (indexer) Update(any) error            { return errReadOnly }
func (indexer) Delete(any) error            { return errReadOnly }
func (indexer) Replace([]any, string) error { return errReadOnly }
func (indexer) Resync() error               { return nil }
func (indexer) Bookmark(string)             {}

// LastStoreSyncResourceVersion returns the version that all configured namespaces have reached. It is empty before each
// of them has its objects.
func (x indexer) LastStoreSyncResourceVersion() (oldest string) {
	for i, p := range x.kind.parts {
		rv := p.informer.Store().ResourceVersion()
		if c, err := resourceversion.CompareResourceVersion(rv, oldest); i == 0 || rv == "" || err == nil && c < 0 {
			oldest = rv
		}
	}
	return oldest
}

func (x indexer) each(take func(client.Object)) {
	for _, p := range x.kind.parts {
		for obj := range p.informer.Store().All() {
			take(obj)
		}
	}
}

func (x indexer) List() (list []any) {
	x.each(func(obj client.Object) { list = append(list, shown(obj)) })
	return list
}

func (x indexer) ListKeys() (keys []string) {
	x.each(func(obj client.Object) { keys = append(keys, keyOf(obj)) })
	return keys
}

func keyOf(obj client.Object) string {
	return toolscache.NewObjectName(obj.GetNamespace(), obj.GetName()).String()
}

func (x indexer) Get(obj any) (item any, exists bool, err error) {
	key, err := toolscache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, err
	}
	return x.GetByKey(key)
}

func (x indexer) GetByKey(key string) (item any, exists bool, err error) {
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, false, err
	}
	p := x.kind.part(namespace)
	if p == nil {
		return nil, false, nil
	}
	snap, objectKey := p.informer.Store().Snapshot(), client.ObjectKey{Namespace: namespace, Name: name}
	if obj, ok := snap.Get(objectKey); ok {
		return shown(obj), true, nil
	}
	return nil, false, snap.Undecodable(objectKey)
}

func (x indexer) index(name string) (*userIndex, error) {
	x.kind.mu.Lock()
	defer x.kind.mu.Unlock()
	if index := x.kind.indexes[name]; index != nil {
		return index, nil
	}
	return nil, fmt.Errorf("the informer of %s has no index %q", x.kind.id.gvk.Kind, name)
}

func (x indexer) Index(name string, obj any) ([]any, error) {
	index, err := x.index(name)
	if err != nil {
		return nil, err
	}
	values, err := index.function(obj)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	var list []any
	var missing error
	for _, value := range values {
		var objects []client.Object
		objects, missing = x.byValue(index, value)
		for _, obj := range objects {
			if key := keyOf(obj); !found[key] {
				found[key] = true
				list = append(list, shown(obj))
			}
		}
	}
	return list, missing
}

// byValue returns the objects with a value, and an error if there may be more, which could not be decoded.
func (x indexer) byValue(index *userIndex, value string) (list []client.Object, missing error) {
	for i, part := range index.parts {
		snap := x.kind.parts[i].informer.Store().Snapshot()
		list = slices.AppendSeq(list, part.LookupIn(snap, value))
		missing = cmp.Or(missing, snap.Missing(""))
	}
	return list, missing
}

func (x indexer) ByIndex(name, value string) (list []any, err error) {
	index, err := x.index(name)
	if err != nil {
		return nil, err
	}
	objects, missing := x.byValue(index, value)
	for _, obj := range objects {
		list = append(list, shown(obj))
	}
	return list, missing
}

func (x indexer) IndexKeys(name, value string) (keys []string, err error) {
	index, err := x.index(name)
	if err != nil {
		return nil, err
	}
	objects, missing := x.byValue(index, value)
	for _, obj := range objects {
		keys = append(keys, keyOf(obj))
	}
	return keys, missing
}

func (x indexer) ListIndexFuncValues(name string) (values []string) {
	index, err := x.index(name)
	if err != nil {
		return nil
	}
	for _, part := range index.parts {
		values = slices.AppendSeq(values, part.Keys())
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func (x indexer) GetIndexers() toolscache.Indexers {
	x.kind.mu.Lock()
	defer x.kind.mu.Unlock()
	all := toolscache.Indexers{}
	for name, index := range x.kind.indexes {
		all[name] = index.function
	}
	return all
}

func (x indexer) AddIndexers(indexers toolscache.Indexers) error { return x.kind.AddIndexers(indexers) }
