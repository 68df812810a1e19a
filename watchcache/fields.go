package watchcache

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// selectableFields are the fields that a field selector may name.
type selectableFields[T Object] struct {
	values  map[string]func(obj T) string // by the label in a selector
	refusal func(label string) string     // returns the error text for any other label
	index   string                        // the field that the cache indexes; empty means none
}

// newSelectableFields returns the fields of a cache. It panics if T lacks a field that config.SelectableFields names.
func newSelectableFields[T Object](config Config, custom bool) selectableFields[T] {
	gvk := config.GroupVersionResource.GroupVersion().WithKind(config.Kind)
	kind, builtin := builtinKinds[gvk.GroupKind()]
	typ := typeOf[T](config)
	if config.SelectableFields != nil {
		kind = builtinKind{}
		for _, path := range config.SelectableFields {
			kind.fields = append(kind.fields, builtinField{label: path, paths: []string{path}})
		}
	}
	s := selectableFields[T]{values: map[string]func(T) string{"metadata.name": T.GetName}}
	if !kind.nameOnly {
		s.values["metadata.namespace"] = T.GetNamespace
	}
	for _, f := range kind.fields {
		value, ok := valueOf[T](f, typ, custom)
		if !ok && config.SelectableFields != nil {
			panic(fmt.Sprintf("watchcache: %v has no field %q", typ, f.label))
		}
		if ok {
			s.values[f.label] = value
		}
	}
	s.index = kind.index
	s.refusal = func(label string) string {
		switch {
		case kind.refusal != nil:
			return kind.refusal(gvk, label)
		// the group of a custom resource contains a dot
		case builtin || len(kind.fields) > 0, custom && strings.Contains(gvk.Group, "."):
			return "field label not supported: " + label
		}
		return fmt.Sprintf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
	}
	return s
}

// check returns an error if selector names an unknown field, with the texts of kube-apiserver.
func (s *selectableFields[T]) check(selector fields.Selector) error {
	for _, r := range selector.Requirements() {
		if _, ok := s.values[r.Field]; !ok {
			return apierrors.NewBadRequest(s.refusal(r.Field))
		}
	}
	return nil
}

// fieldsOf implements fields.Fields for the selectable fields of obj.
type fieldsOf[T Object] struct {
	obj    T
	values map[string]func(obj T) string
}

func (o fieldsOf[T]) Has(field string) bool {
	_, ok := o.values[field]
	return ok
}

func (o fieldsOf[T]) Get(field string) string {
	value, ok := o.values[field]
	if !ok {
		return ""
	}
	return value(o.obj)
}

// builtinKind describes how kube-apiserver selects objects of a kind by their fields.
type builtinKind struct {
	fields   []builtinField
	nameOnly bool   // of the metadata, only the name is selectable
	index    string // the field that kube-apiserver indexes
	// refusal returns the error text for any other label. Nil means "field label not supported: LABEL".
	refusal func(kind schema.GroupVersionKind, label string) string
}

// builtinField is a field of a builtinKind.
type builtinField struct {
	label  string   // the name in a selector
	paths  []string // the paths of its value, as JSON names; the first non-empty value counts. None means always empty.
	absent string   // its value if JSON omits it
}

func builtinPaths(paths ...string) []builtinField {
	var all []builtinField
	for _, path := range paths {
		all = append(all, builtinField{label: path, paths: []string{path}})
	}
	return all
}

// builtinKinds are the kinds of Kubernetes that have more selectable fields than their name and namespace, in all
// versions that kube-apiserver serves.
var builtinKinds = map[schema.GroupKind]builtinKind{
	{Kind: "Pod"}: {index: "spec.nodeName", fields: append(builtinPaths("spec.nodeName", "spec.restartPolicy",
		"spec.schedulerName", "spec.serviceAccountName",
		"status.phase", "status.podIP", "status.nominatedNodeName"),
		builtinField{label: "spec.host", paths: []string{"spec.nodeName"}}, // its name before v1
		builtinField{label: "spec.hostNetwork", paths: []string{"spec.hostNetwork"}, absent: "false"},
		builtinField{label: "status.podIPs"}, // accepted, but never set
	)},
	{Kind: "Node"}: {nameOnly: true, fields: []builtinField{
		{label: "spec.unschedulable", paths: []string{"spec.unschedulable"}, absent: "false"},
	}},
	{Kind: "Namespace"}: {nameOnly: true, fields: builtinPaths("status.phase")},
	{Kind: "Secret"}:    {fields: builtinPaths("type")},
	{Kind: "Service"}:   {fields: builtinPaths("spec.clusterIP", "spec.type")},
	{Kind: "ReplicationController"}: {fields: []builtinField{
		{label: "status.replicas", paths: []string{"status.replicas"}, absent: "0"},
	}},
	{Kind: "Event"}: {fields: append(builtinPaths("involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
		"involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
		"reason", "reportingComponent", "type"),
		builtinField{label: "source", paths: []string{"source.component", "reportingComponent"}},
	)},
	{Group: "events.k8s.io", Kind: "Event"}: {fields: builtinPaths("regarding.kind", "regarding.namespace",
		"regarding.name",
		"regarding.uid", "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath",
		"reason", "reportingController", "type")},
	{Group: "batch", Kind: "Job"}: {
		fields: []builtinField{{label: "status.successful", paths: []string{"status.succeeded"}, absent: "0"}},
		refusal: func(kind schema.GroupVersionKind, label string) string {
			return fmt.Sprintf("field label %q not supported for %s", label, kind.Kind)
		},
	},
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: {nameOnly: true,
		fields: builtinPaths("spec.signerName")},
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}: {nameOnly: true,
		fields: builtinPaths("spec.signerName")},
	{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}: {nameOnly: true,
		fields: builtinPaths("spec.signerName", "spec.podName", "spec.nodeName")},
	{Group: "resource.k8s.io", Kind: "ResourceSlice"}: {nameOnly: true,
		fields: builtinPaths("spec.nodeName", "spec.driver"),
		refusal: func(kind schema.GroupVersionKind, label string) string {
			return fmt.Sprintf("field label not supported for %s: %s", kind, label)
		},
	},
}

// valueOf returns the function that reads f, and whether T has f.
func valueOf[T Object](f builtinField, typ reflect.Type, custom bool) (value func(T) string, ok bool) {
	var values []func(T) string
	for _, path := range f.paths {
		if value, ok := valueAt[T](path, typ, custom); ok {
			values = append(values, value)
		}
	}
	if len(values) == 1 && f.absent == "" {
		return values[0], true
	}
	return func(obj T) string {
		for _, value := range values {
			if v := value(obj); v != "" {
				return v
			}
		}
		return f.absent
	}, len(values) > 0 || len(f.paths) == 0
}

// valueAt returns the function that reads the field at a path of JSON names, and whether T has that field. For a custom
// resource, a field that JSON omits is empty.
func valueAt[T Object](path string, typ reflect.Type, custom bool) (value func(T) string, ok bool) {
	names := strings.Split(path, ".")
	if typ == reflect.TypeFor[*unstructured.Unstructured]() {
		return func(obj T) string {
			v, _, _ := unstructured.NestedFieldNoCopy(any(obj).(*unstructured.Unstructured).Object, names...)
			return fieldValue(reflect.ValueOf(v))
		}, true
	}
	index, omitted, ok := locate(typ, names)
	return func(obj T) string {
		v := reflect.ValueOf(obj)
		for _, i := range index {
			if v.Kind() == reflect.Pointer {
				if v.IsNil() {
					return ""
				}
				v = v.Elem()
			}
			v = v.Field(i)
		}
		if custom && omitted && v.IsZero() {
			return ""
		}
		return fieldValue(v)
	}, ok
}

// locate returns the index path to the field at a path of JSON names, whether JSON omits its zero value, and whether t
// has it.
func locate(t reflect.Type, names []string) (index []int, omitted, ok bool) {
	for _, name := range names {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		part, ok := indexByJSONName(t, name)
		if !ok {
			return nil, false, false
		}
		f := t.FieldByIndex(part)
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		omitted = strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		index, t = append(index, part...), f.Type
	}
	return index, omitted, true
}

// indexByJSONName returns the index of the field of that name, in t or in a struct that t inlines.
func indexByJSONName(t reflect.Type, name string) (index []int, ok bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	var embedded []int
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag != "" && tag == name, tag == "" && !f.Anonymous && f.Name == name:
			return f.Index, true
		case tag == "" && f.Anonymous:
			embedded = append(embedded, i)
		}
	}
	for _, i := range embedded {
		if index, ok := indexByJSONName(t.Field(i).Type, name); ok {
			return append([]int{i}, index...), true
		}
	}
	return nil, false
}

func fieldValue(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		v = v.Elem() // for nil, the zero Value
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
