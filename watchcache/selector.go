package watchcache

import (
	"cmp"
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

	index   *informer.Index[*element[T], string] // finds the objects that fields selects; nil if it cannot
	indexed string                               // the key in index
}

// group returns the key of the group of watchers with this selector.
func (s *selector[T]) group() groupKey {
	if s.fields != nil {
		if name, ok := s.fields.RequiresExactMatch(namedField); ok && s.namespace != "" {
			return groupKey{namespace: s.namespace, field: namedField, value: name}
		}
		for _, r := range s.fields.Requirements() {
			if r.Field == namedField || r.Field == "metadata.namespace" {
				continue
			}
			if value, ok := s.fields.RequiresExactMatch(r.Field); ok {
				return groupKey{field: r.Field, value: value}
			}
		}
	}
	return groupKey{namespace: s.namespace}
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

// from yields the elements from key on that match, and perhaps others.
func (s *selector[T]) from(snapshot *informer.Snapshot[*element[T]], key informer.Key) iter.Seq[*element[T]] {
	if key.Namespace < s.namespace {
		key = informer.Key{Namespace: s.namespace}
	}
	if s.index != nil {
		return func(yield func(*element[T]) bool) {
			for el := range s.index.LookupIn(snapshot, s.indexed) {
				outside := s.namespace != "" && el.GetNamespace() != s.namespace || compareKeys(informer.KeyOf(el), key) < 0
				if !outside && !yield(el) {
					return
				}
			}
		}
	}
	return func(yield func(*element[T]) bool) {
		for el := range snapshot.From(key) {
			if s.namespace != "" && el.GetNamespace() != s.namespace || !yield(el) {
				return
			}
		}
	}
}

// compareKeys orders keys as a list does.
func compareKeys(a, b informer.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
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
