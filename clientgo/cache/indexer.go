package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
)

// errReadOnly is the error of a write to the store of an informer that runs.
var errReadOnly = errors.New("only the informer writes to its store while it runs")

// live is the [cache.Indexer] of informers that run.
type live struct {
	name    string // of the informer, for errors
	parts   []*informer.Informer[Object]
	mu      sync.Mutex // protects indexes
	indexes map[string]*index
}

// index is an index of AddIndexers.
type index struct {
	function cache.IndexFunc
	// byNamespace means that function is cache.MetaNamespaceIndexFunc, whose answers the stores know without an index.
	byNamespace bool
	parts       []*informer.Index[Object, string]
}

func newLive(name string, parts []*informer.Informer[Object]) *live {
	return &live{name: name, parts: parts, indexes: map[string]*index{}}
}

// waitSynced waits until each part has received its whole collection. It returns false if one stops first.
func (l *live) waitSynced() bool {
	for _, part := range l.parts {
		if part.WaitSynced(context.Background()) != nil {
			return false
		}
	}
	return true
}

// namespaceIndexFunc is the code of cache.MetaNamespaceIndexFunc.
var namespaceIndexFunc = reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()

// AddIndexers adds indexes. It adds none and returns an error if one of the names is taken. An index function that
// returns an error causes a panic, as in client-go.
func (l *live) AddIndexers(indexers cache.Indexers) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range indexers {
		if _, exists := l.indexes[name]; exists {
			return fmt.Errorf("%s already has an index %q", l.name, name)
		}
	}
	for name, function := range indexers {
		x := &index{function: function, byNamespace: reflect.ValueOf(function).Pointer() == namespaceIndexFunc}
		for _, part := range l.parts {
			if x.byNamespace {
				break
			}
			x.parts = append(x.parts, informer.NewIndex(part, func(obj Object) []string {
				values, err := function(Result(obj))
				if err != nil {
					panic(fmt.Errorf("%s: index %q: key %q: %w", l.name, name, keyOf(obj), err))
				}
				return values
			}))
		}
		l.indexes[name] = x
	}
	return nil
}

// GetIndexers returns the functions of the indexes.
func (l *live) GetIndexers() cache.Indexers {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := cache.Indexers{}
	for name, x := range l.indexes {
		all[name] = x.function
	}
	return all
}

func (*live) Add(any) error               { return errReadOnly }
func (*live) Update(any) error            { return errReadOnly }
func (*live) Delete(any) error            { return errReadOnly }
func (*live) Replace([]any, string) error { return errReadOnly }
func (*live) Resync() error               { return nil }
func (*live) Bookmark(string)             {}

// LastStoreSyncResourceVersion returns the version up to which all parts are complete.
func (l *live) LastStoreSyncResourceVersion() (oldest string) {
	for i, part := range l.parts {
		rv := part.Store().ResourceVersion()
		if c, err := resourceversion.CompareResourceVersion(rv, oldest); i == 0 || rv == "" || err == nil && c < 0 {
			oldest = rv
		}
	}
	return oldest
}

// List returns all objects, ordered by namespace, then name.
func (l *live) List() []any {
	list := []any{}
	for _, part := range l.parts {
		snap := part.Store().Snapshot()
		list = slices.Grow(list, snap.Len())
		for obj := range snap.All() {
			list = append(list, Result(obj))
		}
	}
	return list
}

// ListKeys returns the keys of all objects, ordered by namespace, then name.
func (l *live) ListKeys() []string {
	keys := []string{}
	for _, part := range l.parts {
		for obj := range part.Store().All() {
			keys = append(keys, keyOf(obj))
		}
	}
	return keys
}

// keyOf returns the key of obj in client-go's form.
func keyOf(obj Object) string { return cache.MetaObjectToName(obj).String() }

// Get returns the object with the key of obj, which may be a cache.DeletedFinalStateUnknown.
func (l *live) Get(obj any) (item any, exists bool, err error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, cache.KeyError{Obj: obj, Err: err}
	}
	return l.GetByKey(key)
}

// GetByKey returns the object with a key. The error is an [*informer.DecodeError] if the object exists, but no version
// of it could be decoded.
func (l *live) GetByKey(key string) (item any, exists bool, err error) {
	namespace, name, namespaced := strings.Cut(key, "/")
	if !namespaced {
		namespace, name = "", key
	}
	if namespaced && namespace == "" {
		return nil, false, nil // no object has such a key
	}
	id := informer.Key{Namespace: namespace, Name: name}
	for _, part := range l.parts {
		snap := part.Store().Snapshot()
		if obj, ok := snap.Get(id); ok {
			return Result(obj), true, nil
		}
		if name != "" { // only an object of a ListerWatcher may lack a name, and such objects are known
			err = cmp.Or(err, snap.Undecodable(id))
		}
	}
	return nil, false, err
}

func (l *live) index(name string) (*index, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.indexes[name]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("%s: Index with name %s does not exist", l.name, name)
}

// Index returns the objects that share a value of the index with obj, which need not be in the store. Like ByIndex and
// IndexKeys, it also returns an error if objects may be missing because they could not be decoded.
func (l *live) Index(name string, obj any) ([]any, error) {
	x, err := l.index(name)
	if err != nil {
		return nil, err
	}
	values, err := x.function(obj)
	if err != nil {
		return nil, err
	}
	var list found
	for _, value := range values {
		list.skipKnown = len(values) > 1
		l.lookup(x, value, &list)
	}
	return list.objects(), list.missing
}

// ByIndex returns the objects with a value in the index.
func (l *live) ByIndex(name, value string) ([]any, error) {
	x, err := l.index(name)
	if err != nil {
		return nil, err
	}
	var list found
	l.lookup(x, value, &list)
	return list.objects(), list.missing
}

// IndexKeys returns the keys of the objects with a value in the index.
func (l *live) IndexKeys(name, value string) ([]string, error) {
	x, err := l.index(name)
	if err != nil {
		return nil, err
	}
	var list found
	l.lookup(x, value, &list)
	keys := []string{}
	for _, obj := range list.all {
		keys = append(keys, keyOf(obj))
	}
	slices.Sort(keys)
	return keys, list.missing
}

// found collects the objects of lookups.
type found struct {
	all       []Object
	known     map[string]bool // the keys of all, if skipKnown is set
	skipKnown bool
	missing   error // objects that could not be decoded may be missing
}

func (f *found) add(obj Object) {
	if f.skipKnown {
		key := keyOf(obj)
		if f.known[key] {
			return
		}
		if f.known == nil {
			f.known = map[string]bool{}
		}
		f.known[key] = true
	}
	f.all = append(f.all, obj)
}

func (f *found) objects() []any {
	list := make([]any, 0, len(f.all))
	for _, obj := range f.all {
		list = append(list, Result(obj))
	}
	return list
}

// lookup adds the objects with a value in x to list.
func (l *live) lookup(x *index, value string, list *found) {
	for i, part := range l.parts {
		snap, in := part.Store().Snapshot(), ""
		var objects iter.Seq[Object]
		if x.byNamespace {
			objects, in = snap.Namespace(value), value
		} else {
			objects = x.parts[i].LookupIn(snap, value)
		}
		for obj := range objects {
			list.add(obj)
		}
		list.missing = cmp.Or(list.missing, snap.Missing(in))
	}
}

// ListIndexFuncValues returns the values that at least one object has, sorted. It returns none for an unknown index.
func (l *live) ListIndexFuncValues(name string) []string {
	values := []string{}
	x, err := l.index(name)
	if err != nil {
		return values
	}
	for i, part := range l.parts {
		if !x.byNamespace {
			values = slices.AppendSeq(values, x.parts[i].Keys())
			continue
		}
		for obj := range part.Store().All() {
			if n := obj.GetNamespace(); len(values) == 0 || values[len(values)-1] != n {
				values = append(values, n)
			}
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}
