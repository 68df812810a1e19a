package audit

import (
	"iter"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/table"
	"github.com/typedinformer/informer/internal/undecoded"
)

// TableView is a [View] of a table's objects in one namespace, or of all if Namespace is empty.
type TableView[T object.Object, S any] struct {
	Objects   table.Version[T]
	Namespace string
	At        string // the resource version
	Failed    *undecoded.Set
	Shard     S // the part of the collection that the table has
}

// Version implements View.
func (v TableView[T, S]) Version() string { return v.At }

// Get implements View.
func (v TableView[T, S]) Get(key object.Key) (ID, bool) {
	_, obj, ok := v.Objects.Find(key)
	if !ok {
		return ID{}, false
	}
	return idOf(obj), true
}

func idOf[T object.Object](obj T) ID {
	return ID{UID: string(obj.GetUID()), Version: obj.GetResourceVersion()}
}

// All implements View.
func (v TableView[T, S]) All() iter.Seq2[object.Key, ID] {
	return func(yield func(object.Key, ID) bool) {
		v.Objects.Walk(table.KeysOf(v.Namespace), func(obj T) bool { return yield(object.KeyOf(obj), idOf(obj)) })
	}
}

// Any reports whether the view has an object.
func (v TableView[T, S]) Any() bool {
	for range v.All() {
		return true
	}
	return false
}

// Len implements View. Of a namespace, it returns an upper bound.
func (v TableView[T, S]) Len() int { return v.Objects.Len() }

// Undecoded implements View.
func (v TableView[T, S]) Undecoded() *undecoded.Set { return v.Failed }
