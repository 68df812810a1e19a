package debugpage

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// secrets and configMaps are masked in any case, as are resources and kinds of other groups with these names.
var secrets, configMaps = schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Resource: "configmaps"}

// shown are the fields of a masked object, and of its metadata, that keep their values. All others are masked.
var (
	shown         = []string{"apiVersion", "immutable", "kind", "type"}
	shownMetadata = []string{
		"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation", "labels",
		"name", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid",
	}
)

// maskedType returns secrets or configMaps for the Go type of a Secret or a ConfigMap, for one of the same fields, and
// for one that embeds such a type. It returns the zero resource for others.
func maskedType(typ reflect.Type) schema.GroupResource {
	if typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		return schema.GroupResource{}
	}
	types := []reflect.Type{typ.Elem()}
	for _, f := range reflect.VisibleFields(typ.Elem()) {
		if f.Anonymous && f.Type.Kind() == reflect.Pointer {
			types = append(types, f.Type.Elem())
		} else if f.Anonymous {
			types = append(types, f.Type)
		}
	}
	for _, t := range types {
		switch {
		case t.ConvertibleTo(reflect.TypeFor[corev1.Secret]()):
			return secrets
		case t.ConvertibleTo(reflect.TypeFor[corev1.ConfigMap]()):
			return configMaps
		}
	}
	return schema.GroupResource{}
}

// maskedKind returns secrets or configMaps if the kind of obj is Secret or ConfigMap, in any group. It returns the zero
// resource for other objects.
func maskedKind(obj any) schema.GroupResource {
	var head struct{ Kind kindName }
	if o, ok := obj.(kinded); ok {
		head.Kind.see(o.GetObjectKind().GroupVersionKind().Kind)
		if head.Kind.found && !writesItself(reflect.TypeOf(obj)) {
			return head.Kind.masked // JSON has the same kind
		}
	}
	if content, err := json.Marshal(obj); err == nil { // with an error, nobody sees the object
		_ = json.Unmarshal(content, &head) // other JSON is of no kind
	}
	return head.Kind.masked
}

// kindName finds a masked kind among the kinds of an object. JSON can have several: the names of its fields may differ
// in case.
type kindName struct {
	found  bool // there is a kind
	masked schema.GroupResource
}

func (k *kindName) see(kind string) {
	k.found = k.found || kind != ""
	switch kind {
	case "Secret":
		k.masked = secrets
	case "ConfigMap":
		k.masked = configMaps
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *kindName) UnmarshalJSON(text []byte) error {
	var kind string
	if json.Unmarshal(text, &kind) == nil {
		k.see(kind)
	}
	return nil
}

// writesItself reports whether the JSON of a type can have another kind than its GetObjectKind: a method writes it.
func writesItself(typ reflect.Type) bool {
	return typ != reflect.TypeFor[*unstructured.Unstructured]() && typ.Implements(reflect.TypeFor[json.Marshaler]())
}

// kinded is the method of objects that embed metav1.TypeMeta.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// kindless reports whether objects of a type never have a kind, so that there is no need to look.
func kindless(typ reflect.Type) bool {
	switch {
	case typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct:
		return false
	case typ.Implements(reflect.TypeFor[kinded]()), typ.Implements(reflect.TypeFor[json.Marshaler]()):
		return false
	}
	return !slices.ContainsFunc(reflect.VisibleFields(typ.Elem()), func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return strings.EqualFold(cmp.Or(name, f.Name), "kind")
	})
}

// encodedField returns the field of an object whose values are bytes in base64. Empty means none.
func encodedField(resource, kind schema.GroupResource) string {
	switch {
	case resource.Resource == secrets.Resource || kind == secrets:
		return "data"
	case resource.Resource == configMaps.Resource || kind == configMaps:
		return "binaryData"
	}
	return ""
}

// masked reports whether the content of all objects of a resource is masked.
func (h *handler) masked(resource schema.GroupResource) bool {
	return resource.Resource == secrets.Resource || resource.Resource == configMaps.Resource ||
		slices.Contains(h.config.Mask, resource)
}

// hidesDifferences reports whether the keys that audits of a resource have found are hidden from the sender of a
// request, whom Config.Authorize has admitted: those of masked objects are, like the keys of their indexes.
func (h *handler) hidesDifferences(r *request, resource schema.GroupResource) bool {
	for _, s := range h.stores {
		if s.resource().GroupResource() == resource && h.veilOf(r, s).hidesAll() {
			return true
		}
	}
	return h.masked(resource) && !h.unmask(r, resource)
}

// veil decides which objects of a store are hidden from the sender of a request, who may see them masked.
type veil struct {
	resource schema.GroupResource            // of the store
	all      bool                            // the objects of the resource are masked
	typ      reflect.Type                    // of the objects
	ofType   schema.GroupResource            // maskedType(typ)
	kindless bool                            // the objects have no other kind
	unmask   func(schema.GroupResource) bool // handler.unmask
}

func (h *handler) veilOf(r *request, s store) veil {
	resource := s.resource().GroupResource()
	unmask := func(resource schema.GroupResource) bool { return h.unmask(r, resource) }
	return veil{
		resource: resource,
		all:      h.masked(resource),
		typ:      s.typeOf(),
		ofType:   maskedType(s.typeOf()),
		kindless: kindless(s.typeOf()),
		unmask:   unmask,
	}
}

// kindOf returns secrets or configMaps for a Secret or a ConfigMap, and the zero resource for other objects.
func (v veil) kindOf(obj any) schema.GroupResource {
	kind := v.ofType
	if v.typ.Kind() == reflect.Interface {
		kind = maskedType(reflect.TypeOf(obj))
	}
	if kind == (schema.GroupResource{}) && !v.kindless {
		kind = maskedKind(obj)
	}
	return kind
}

// hides reports whether an object is hidden.
func (v veil) hides(obj any) bool { return v.hidesKind(v.kindOf(obj)) }

// hidesAll reports whether each object is hidden, by the resource or by the Go type.
func (v veil) hidesAll() bool { return v.hidesKind(v.ofType) }

// hidesKind is hides for an object of which kindOf is kind.
func (v veil) hidesKind(kind schema.GroupResource) bool {
	ofKind := kind != schema.GroupResource{}
	return (v.all || ofKind) && !v.unmask(v.resource) || ofKind && !v.unmask(kind)
}

// mask replaces the values in the JSON of an object by their lengths. Annotations are masked, too: some tools write
// whole objects into them. The values in the field encoded are measured as bytes in base64.
func mask(object []byte, encoded string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	for name, value := range fields {
		switch metadata, isObject := value.(map[string]any); {
		case name == "metadata" && isObject:
			for name, value := range metadata {
				if !slices.Contains(shownMetadata, name) {
					metadata[name] = masked(value, false)
				}
			}
		case !slices.Contains(shown, name):
			fields[name] = masked(value, name == encoded)
		}
	}
	return json.Marshal(fields)
}

// masked returns value with a text of the length of each value in it. Names of fields stay. With encoded, each text is
// measured as the bytes that it encodes in base64.
func masked(value any, encoded bool) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = masked(v[name], encoded)
		}
		return v
	case []any:
		for i := range v {
			v[i] = masked(v[i], encoded)
		}
		return v
	case string:
		if bytes, err := base64.StdEncoding.DecodeString(v); encoded && err == nil {
			return maskedText(len(bytes))
		}
		return maskedText(len(v))
	case nil:
		return nil
	}
	return "<masked>" // a number or a boolean
}

func maskedText(bytes int) string {
	if bytes == 1 {
		return "<masked: 1 byte>"
	}
	return fmt.Sprintf("<masked: %d bytes>", bytes)
}
