package audit

import (
	"iter"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/store/table"
	"github.com/typedinformer/informer/internal/store/undecoded"
)

// TableView is a [View] of a table's objects in one namespace, or of all if Namespace is empty.
type TableView[T object.Object] struct {
	Objects   table.Version[T]
	Namespace string
	At        string // the resource version
	Failed    *undecoded.Set
	Part      shardset.Shard // of the collection
}

// Shard implements View.
func (v TableView[T]) Shard() shardset.Shard { return v.Part }

// Version implements View.
func (v TableView[T]) Version() string { return v.At }

// Get implements View.
func (v TableView[T]) Get(key object.Key) (object.ID, bool) {
	_, obj, ok := v.Objects.Find(key)
	if !ok {
		return object.ID{}, false
	}
	return object.IDOf(obj), true
}

// All implements View.
func (v TableView[T]) All() iter.Seq2[object.Key, object.ID] {
	return func(yield func(object.Key, object.ID) bool) {
		v.Objects.Walk(table.KeysOf(v.Namespace), func(obj T) bool { return yield(object.KeyOf(obj), object.IDOf(obj)) })
	}
}

// Any reports whether the view has an object.
func (v TableView[T]) Any() bool {
	for range v.All() {
		return true
	}
	return false
}

// Len implements View. Of a namespace, it returns an upper bound.
func (v TableView[T]) Len() int { return v.Objects.Len() }

// Undecoded implements View.
func (v TableView[T]) Undecoded() *undecoded.Set { return v.Failed }
