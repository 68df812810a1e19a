package watchcache

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
)

// selector is the part of the collection that a request is about.
type selector[T Object] struct {
	namespace string           // empty means all
	labels    labels.Selector  // nil means all
	fields    fields.Selector  // nil means all
	known     selectableFields // those that fields may name
}

// everything says whether there is nothing to tell objects of the namespace apart.
func (s *selector[T]) everything() bool { return s.labels == nil && s.fields == nil }

// one says whether the selector names the one object that it is about.
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
	return (s.namespace == "" || obj.GetNamespace() == s.namespace) &&
		(s.labels == nil || s.labels.Matches(labels.Set(obj.GetLabels()))) &&
		(s.fields == nil || s.fields.Matches(fieldsOf[T]{obj, s.known}))
}

// see returns what a watcher with this selector is told of e; an empty type means nothing. To enter the selection is
// ADDED, to leave it is DELETED, with the object as it was and the version of the event.
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

// selectableFields maps the fields that a field selector may name, beside metadata.name and metadata.namespace, to the
// indexes that lead to them in T; the indexes are nil for *unstructured.Unstructured.
type selectableFields map[string][]int

// newSelectableFields panics when T has no such field.
func newSelectableFields[T Object](paths []string) selectableFields {
	known := selectableFields{}
	var none T
	_, dynamic := any(none).(*unstructured.Unstructured)
	for _, path := range paths {
		if dynamic {
			known[path] = nil
			continue
		}
		t := reflect.TypeFor[T]()
		var index []int
		for name := range strings.SplitSeq(path, ".") {
			if t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			f, ok := fieldByJSONName(t, name)
			if !ok {
				panic(fmt.Sprintf("watchcache: %v has no field %q", reflect.TypeFor[T](), path))
			}
			index, t = append(index, f.Index[0]), f.Type
		}
		known[path] = index
	}
	return known
}

func fieldByJSONName(t reflect.Type, name string) (reflect.StructField, bool) {
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			f := t.Field(i)
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
				return f, true
			}
		}
	}
	return reflect.StructField{}, false
}

// check returns an error unless all fields that s names are known, with the texts of kube-apiserver.
func (known selectableFields) check(s fields.Selector) error {
	for _, r := range s.Requirements() {
		if _, ok := known[r.Field]; ok || r.Field == "metadata.name" || r.Field == "metadata.namespace" {
			continue
		}
		if len(known) == 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only %q, %q", r.Field, "metadata.name", "metadata.namespace"))
		}
		return apierrors.NewBadRequest("field label not supported: " + r.Field)
	}
	return nil
}

// fieldsOf are the selectable fields of obj. It is a fields.Fields.
type fieldsOf[T Object] struct {
	obj   T
	known selectableFields
}

func (o fieldsOf[T]) Has(field string) bool {
	_, ok := o.known[field]
	return ok || field == "metadata.name" || field == "metadata.namespace"
}

func (o fieldsOf[T]) Get(field string) string {
	switch field {
	case "metadata.name":
		return o.obj.GetName()
	case "metadata.namespace":
		return o.obj.GetNamespace()
	}
	index, ok := o.known[field]
	if !ok {
		return ""
	}
	if u, ok := any(o.obj).(*unstructured.Unstructured); ok {
		value, _, _ := unstructured.NestedFieldNoCopy(u.Object, slices.Collect(strings.SplitSeq(field, "."))...)
		return fieldValue(reflect.ValueOf(value))
	}
	v := reflect.ValueOf(o.obj)
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return ""
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return fieldValue(v)
}

func fieldValue(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		v = v.Elem() // of nil, it is the zero Value
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	}
	return ""
}
