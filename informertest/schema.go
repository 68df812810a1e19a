package informertest

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// schemas are the OpenAPI v3 schemas of Go types, by name.
type schemas map[string]any

// refPrefix begins a reference to a schema.
const refPrefix = "#/components/schemas/"

// add adds the schema of a kind of objects: of a Go type, a pointer to a struct, or, if that is unstructured, of
// resource.Schema.
func (all schemas) add(resource Resource, typ reflect.Type) error {
	kinds := []any{map[string]any{"group": resource.Group, "version": resource.Version, "kind": resource.Kind}}
	name := strings.ReplaceAll(strings.Trim(resource.root(), "/"), "/", ".") + "." + resource.Kind
	schema := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	switch {
	case resource.Schema != nil:
		var err error
		if schema, err = all.given(resource.Schema); err != nil {
			return err
		}
	case typ != reflect.TypeFor[*unstructured.Unstructured]():
		name = nameOf(typ.Elem())
		all.of(typ)
		schema = maps.Clone(all[name].(map[string]any))
	}
	schema["x-kubernetes-group-version-kind"] = kinds
	all[name] = schema
	return nil
}

// given returns a schema that somebody else made, with the fields that all objects have.
func (all schemas) given(given any) (schema map[string]any, err error) {
	encoded, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(encoded, &schema); err != nil {
		return nil, err
	}
	fields, _ := schema["properties"].(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	all.fields(reflect.TypeFor[metav1.TypeMeta](), fields)
	fields["metadata"] = all.described(reflect.TypeFor[metav1.ObjectMeta](),
		"Standard object's metadata. More info: "+
			"https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata")
	schema["properties"] = fields
	return schema, nil
}

// described returns the schema of a field of that type.
func (all schemas) described(t reflect.Type, description string) map[string]any {
	schema := all.of(t)
	if schema["$ref"] != nil {
		schema = map[string]any{"allOf": []any{schema}}
	}
	if description != "" {
		schema["description"] = description
	}
	return schema
}

// of returns the schema of a type as encoding/json encodes it: for structs, a reference to one of all.
func (all schemas) of(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return all.of(t.Elem())
	case reflect.Struct:
		name := nameOf(t)
		if all[name] == nil {
			schema := map[string]any{}
			all[name] = schema // before the fields, which may refer to it
			all.define(t, schema)
		}
		return map[string]any{"$ref": refPrefix + name}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": all.of(t.Elem())}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "format": "byte"}
		}
		return map[string]any{"type": "array", "items": all.of(t.Elem())}
	}
	return scalar(t.Kind())
}

// scalar returns the schema of a boolean, a number or a string, or one for everything else.
func scalar(kind reflect.Kind) map[string]any {
	switch kind {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int64, reflect.Int, reflect.Uint64, reflect.Uint:
		return map[string]any{"type": "integer", "format": "int64"}
	case reflect.Int32, reflect.Int16, reflect.Int8, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return map[string]any{"type": "integer", "format": "int32"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number", "format": "double"}
	}
	return map[string]any{}
}

// define completes the schema of a struct.
func (all schemas) define(t reflect.Type, schema map[string]any) {
	if description := docOf(t)[""]; description != "" {
		schema["description"] = description
	}
	// The types whose JSON is not that of their fields, such as metav1.Time.
	if special, ok := reflect.Zero(t).Interface().(interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}); ok {
		if types := special.OpenAPISchemaType(); len(types) > 0 { // JSON of any type has none
			schema["type"] = types[0]
		}
		if format := special.OpenAPISchemaFormat(); format != "" {
			schema["format"] = format
		}
		return
	}
	fields := map[string]any{}
	required := all.fields(t, fields)
	schema["type"], schema["properties"] = "object", fields
	if len(required) > 0 {
		schema["required"] = required
	}
}

// fields adds the schemas of the fields of a struct, and returns the names of those that are required: that are always
// encoded.
func (all schemas) fields(t reflect.Type, fields map[string]any) (required []string) {
	docs := docOf(t)
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
			required = append(required, all.fields(field.Type, fields)...)
		default:
			if name == "" {
				name = field.Name
			}
			fields[name] = all.described(field.Type, docs[name])
			if !strings.Contains(options, "omit") {
				required = append(required, name)
			}
		}
	}
	return required
}

// docOf returns the descriptions of the fields of a struct, and its own under the empty name. The generated types have
// them.
func docOf(t reflect.Type) map[string]string {
	if documented, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return documented.SwaggerDoc()
	}
	return nil
}

// nameOf returns the name of the schema of a struct.
func nameOf(t reflect.Type) string {
	if named, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()
}
