package watchcache

import (
	"iter"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
)

// selector is the part of the collection that a request selects.
type selector[T Object] struct {
	namespace string                        // empty means all
	labels    labels.Selector               // nil means all
	fields    fields.Selector               // nil means all
	values    map[string]func(obj T) string // the selectable fields
	shard     informer.Shard                // the zero value means all
}

// everything reports whether the selector selects all objects of its namespace.
func (s *selector[T]) everything() bool {
	return s.labels == nil && s.fields == nil && s.shard.Ranges == nil
}

// one reports whether the selector names a single object.
func (s *selector[T]) one() bool {
	if s.namespace == "" || s.fields == nil {
		return false
	}
	_, named := s.fields.RequiresExactMatch("metadata.name")
	return named
}

// from yields the elements of the selector's namespace from key on. Not all of them need match.
func (s *selector[T]) from(snapshot *informer.Snapshot[*element[T]], key informer.Key) iter.Seq[*element[T]] {
	if key.Namespace < s.namespace {
		key = informer.Key{Namespace: s.namespace}
	}
	return func(yield func(*element[T]) bool) {
		for el := range snapshot.From(key) {
			if s.namespace != "" && el.GetNamespace() != s.namespace || !yield(el) {
				return
			}
		}
	}
}

func (s *selector[T]) matches(obj T) bool {
	return (s.namespace == "" || obj.GetNamespace() == s.namespace) && s.shard.Has(obj) &&
		(s.labels == nil || s.labels.Matches(labels.Set(obj.GetLabels()))) &&
		(s.fields == nil || s.fields.Matches(fieldsOf[T]{obj, s.values}))
}

// see returns the event for a watcher with this selector; an empty type means none. Entering the selection is ADDED.
// Leaving it is DELETED, with the previous object and the version of the event.
func (s *selector[T]) see(e *event[T]) (eventType string, el *element[T]) {
	before := e.old != nil && s.matches(e.old.obj)
	now := !e.removed && s.matches(e.new.obj)
	switch {
	case before && now:
		return "MODIFIED", e.new
	case now:
		return "ADDED", e.new
	case before && e.removed:
		return "DELETED", e.new
	case before:
		return "DELETED", e.leaving()
	}
	return "", nil
}
