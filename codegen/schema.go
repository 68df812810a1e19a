package main

import (
	"encoding/json"
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/tools/go/packages"
	kjson "sigs.k8s.io/json"
)

// schema is the relevant part of a JSONSchemaProps, the OpenAPI v3 schema of a value. The rest is validation, which is
// the API server's task.
type schema struct {
	Type        string             `json:"type"`
	Format      string             `json:"format"`
	Description string             `json:"description"`
	Pattern     string             `json:"pattern"`
	MinLength   int                `json:"minLength"`
	Nullable    bool               `json:"nullable"`
	Default     any                `json:"default"`
	Enum        []any              `json:"enum"`
	Required    []string           `json:"required"`
	Properties  map[string]*schema `json:"properties"`
	Additional  *schemaOrBool      `json:"additionalProperties"`
	Items       *schema            `json:"items"`
	Preserve    bool               `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded    bool               `json:"x-kubernetes-embedded-resource"`
	IntOrString bool               `json:"x-kubernetes-int-or-string"`
}

// schemaOrBool is additionalProperties. If schema is nil, allowed says whether values may be anything or must be
// absent.
type schemaOrBool struct {
	schema  *schema
	allowed bool
}

func (s *schemaOrBool) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &s.allowed) == nil {
		return nil
	}
	s.allowed = true
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, &s.schema)
}

// knownTypes are the Go types of the API machinery that schemas can describe.
type knownTypes struct {
	typeMeta, objectMeta, listMeta, condition, labelSelector, time types.Type
	raw, intOrString, quantity                                     types.Type
}

// loadKnownTypes loads the types from the module that codegen runs in, because that module compiles the output.
func loadKnownTypes() (*knownTypes, error) {
	k := &knownTypes{}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports},
		metav1Path, runtimePath, "k8s.io/apimachinery/pkg/util/intstr", "k8s.io/apimachinery/pkg/api/resource")
	if err != nil {
		return nil, err
	}
	found := map[string]types.Type{}
	for _, pkg := range pkgs {
		if err := loadError(pkg); err != nil {
			return nil, needLibrary(err)
		}
		for _, name := range pkg.Types.Scope().Names() {
			found[pkg.Name+"."+name] = pkg.Types.Scope().Lookup(name).Type()
		}
	}
	for name, t := range map[string]*types.Type{
		"v1.TypeMeta": &k.typeMeta, "v1.ObjectMeta": &k.objectMeta, "v1.ListMeta": &k.listMeta, "v1.Condition": &k.condition,
		"v1.LabelSelector": &k.labelSelector, "v1.Time": &k.time,
		"runtime.RawExtension": &k.raw, "intstr.IntOrString": &k.intOrString, "resource.Quantity": &k.quantity,
	} {
		if *t = found[name]; *t == nil {
			return nil, fmt.Errorf("k8s.io/apimachinery has no type %s", name)
		}
	}
	return k, nil
}

// schemaTypes declares the Go types of one kind's schema.
type schemaTypes struct {
	*knownTypes
	names *namer
	kind  string
	decls []*decl
	errs  []string
}

func (b *schemaTypes) errorf(path, format string, args ...any) {
	if path == "" {
		path = "the object"
	}
	b.errs = append(b.errs, path+": "+fmt.Sprintf(format, args...))
}

// object declares the struct for an object with properties.
func (b *schemaTypes) object(s *schema, name, path string) *types.Named {
	d := &decl{Type: newNamed(name, nil), Doc: s.Description}
	if path != "" { // the description is then the field's
		d.Doc = fmt.Sprintf("%s is the type of %s of a %s.", name, path, b.kind)
	}
	if s.Preserve {
		d.Doc += "\n\nThe API server also keeps fields that this type does not have. Decoding drops them, and an Update removes them: use a Patch."
	}
	b.decls = append(b.decls, d)
	var fields []*types.Var
	var tags []string
	add := func(name string, t types.Type, embedded bool, tag, doc string) {
		fields = append(fields, types.NewField(token.NoPos, generated, name, t, embedded))
		tags = append(tags, fmt.Sprintf(`json:"%s"`, tag))
		d.FieldDocs = append(d.FieldDocs, doc)
	}
	properties := maps.Clone(s.Properties)
	taken := newNamer("DeepCopy", "DeepCopyInto", "DeepCopyObject")
	if s.Embedded {
		add("TypeMeta", b.typeMeta, true, ",inline", "")
		add("ObjectMeta", b.objectMeta, true, "metadata,omitempty", "")
		for _, embedded := range fields {
			taken.take(embedded.Name())
			for _, promoted := range promotedNames(embedded.Type()) {
				taken.take(promoted)
			}
		}
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(properties, name)
		}
	}
	for _, json := range slices.Sorted(maps.Keys(properties)) {
		if !isTagName(json) {
			d.Doc += fmt.Sprintf("\n\nThe property %q is left out: no Go field can have this name.", json)
			delete(properties, json)
		}
	}
	goNames := fieldNames(slices.Sorted(maps.Keys(properties)), taken)
	for _, json := range slices.Sorted(maps.Keys(properties)) {
		property := properties[json]
		if property == nil {
			property = &schema{}
		}
		place := strings.TrimPrefix(path+"."+json, ".")
		t := b.typeOf(property, name+goNames[json], place)
		t, option := b.optional(property, t, slices.Contains(s.Required, json), place)
		add(goNames[json], t, false, json+option, property.Description)
	}
	d.Type.SetUnderlying(types.NewStruct(fields, tags))
	return d.Type
}

// typeOf returns the type of a value. name is for types that it declares.
func (b *schemaTypes) typeOf(s *schema, name, path string) types.Type {
	switch {
	case s.IntOrString && s.Pattern == quantityPattern:
		return b.quantity
	case s.IntOrString:
		return b.intOrString
	}
	switch s.Type {
	case "string":
		return b.stringType(s, name, path)
	case "boolean":
		return types.Typ[types.Bool]
	case "number":
		return types.Typ[types.Float64]
	case "integer":
		return b.integerType(s, name, path)
	case "array":
		if s.Items == nil {
			return types.NewSlice(b.raw)
		}
		return types.NewSlice(b.elementType(s.Items, name, path+"[*]"))
	case "object":
		return b.objectType(s, name, path)
	case "":
		if len(s.Properties) > 0 || s.Additional != nil {
			return b.objectType(s, name, path)
		}
		return b.raw
	}
	b.errorf(path, "the type %q is not array, boolean, integer, number, object or string", s.Type)
	return b.raw
}

// elementType returns the element type of a list or a map.
func (b *schemaTypes) elementType(s *schema, name, path string) types.Type {
	t := b.typeOf(s, name, path)
	if s.Nullable {
		t, _ = b.optional(s, t, true, path)
	}
	return t
}

func (b *schemaTypes) objectType(s *schema, name, path string) types.Type {
	switch {
	case b.isCondition(s):
		return b.condition
	case b.isLabelSelector(s):
		return b.labelSelector
	case len(s.Properties) > 0, s.Embedded && !s.Preserve:
		return b.object(s, b.names.unique(name), path)
	case s.Additional != nil && s.Additional.schema != nil:
		return types.NewMap(types.Typ[types.String], b.elementType(s.Additional.schema, name, path+"[*]"))
	case s.Additional != nil && s.Additional.allowed:
		return types.NewMap(types.Typ[types.String], b.raw)
	case s.Preserve:
		return b.raw
	}
	return types.NewStruct(nil, nil) // the API server prunes its fields
}

// stringType returns the type of a string, which may be an enumeration.
func (b *schemaTypes) stringType(s *schema, name, path string) types.Type {
	switch {
	case s.Format == "byte":
		return types.NewSlice(types.Universe.Lookup("byte").Type())
	case s.Format == "date-time":
		return b.time
	case len(s.Enum) == 0:
		return types.Typ[types.String]
	}
	return b.enum(types.Typ[types.String], s, name, path)
}

// integerType returns the type of an integer, which may be an enumeration.
func (b *schemaTypes) integerType(s *schema, name, path string) types.Type {
	t := types.Typ[types.Int64]
	if s.Format == "int32" {
		t = types.Typ[types.Int32]
	}
	if len(s.Enum) == 0 {
		return t
	}
	return b.enum(t, s, name, path)
}

// enum declares a type with a constant for each value of s.
func (b *schemaTypes) enum(t *types.Basic, s *schema, name, path string) types.Type {
	if !slices.ContainsFunc(s.Enum, func(value any) bool { return value != nil }) {
		return t
	}
	name = b.names.unique(name)
	d := &decl{Type: newNamed(name, t), Doc: fmt.Sprintf("%s is the type of %s of a %s.", name, path, b.kind)}
	b.decls = append(b.decls, d)
	for _, value := range s.Enum {
		text, isText := value.(string)
		number, isNumber := value.(int64)
		switch {
		case value == nil:
		case isText && t.Kind() == types.String:
			d.Values = append(d.Values, enumValue{b.names.unique(name + enumName(text)), strconv.Quote(text)})
		case isNumber && t.Kind() != types.String:
			d.Values = append(d.Values, enumValue{b.names.unique(name + numberName(number)), strconv.FormatInt(number, 10)})
		default:
			b.errorf(path, "the value %v of its enum is not %s %s", value, article(s.Type), s.Type)
		}
	}
	return d.Type
}

// article returns the indefinite article of a JSON type.
func article(typ string) string {
	if typ == "integer" {
		return "an"
	}
	return "a"
}

// optional returns the type of a field with values of type t, and the options of its JSON tag. They make encoding
// reverse decoding, if an absent field and a zero value differ: numbers, booleans and structs are behind pointers,
// lists and maps may be nil or empty.
func (b *schemaTypes) optional(s *schema, t types.Type, required bool, path string) (types.Type, string) {
	switch u := t.Underlying().(type) {
	case *types.Slice, *types.Map:
		if required {
			return t, ""
		}
		return t, ",omitzero"
	case *types.Basic:
		if !required && u.Kind() == types.String && (s.Default == nil || s.Default == "" || !s.canBeEmpty()) {
			return t, ",omitempty"
		}
	case *types.Struct:
		switch {
		case required && t == b.raw:
			return t, ""
		case !required && (path == "spec" || path == "status") && !s.Nullable && t != b.raw:
			return t, ",omitzero"
		}
	}
	switch {
	case !required:
		return types.NewPointer(t), ",omitempty"
	case s.Nullable:
		return types.NewPointer(t), ""
	}
	return t, ""
}

// canBeEmpty reports whether an empty string is valid.
func (s *schema) canBeEmpty() bool {
	pattern, err := regexp.Compile(s.Pattern)
	return s.MinLength == 0 && (err != nil || pattern.MatchString("")) &&
		(len(s.Enum) == 0 || slices.Contains(s.Enum, any("")))
}

// quantityPattern is controller-gen's pattern for resource.Quantity, and for no other type.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// isCondition reports whether s is the schema of a metav1.Condition.
func (b *schemaTypes) isCondition(s *schema) bool {
	for _, name := range []string{"lastTransitionTime", "message", "reason", "status", "type"} {
		if !slices.Contains(s.Required, name) {
			return false
		}
	}
	return s.has(map[string]string{
		"lastTransitionTime": "string", "message": "string", "observedGeneration": "integer", "reason": "string", "status": "string", "type": "string",
	}) && s.Properties["lastTransitionTime"].Format == "date-time"
}

// isLabelSelector reports whether s is the schema of a metav1.LabelSelector.
func (b *schemaTypes) isLabelSelector(s *schema) bool {
	if !s.has(map[string]string{"matchExpressions": "array", "matchLabels": "object"}) {
		return false
	}
	expressions, labels := s.Properties["matchExpressions"].Items, s.Properties["matchLabels"].Additional
	return expressions != nil && expressions.has(map[string]string{"key": "string", "operator": "string",
		"values": "array"}) &&
		labels != nil && labels.schema != nil && labels.schema.Type == "string"
}

// has reports whether s has exactly these properties, by name and type.
func (s *schema) has(properties map[string]string) bool {
	for name, typ := range properties {
		if p := s.Properties[name]; p == nil || p.Type != typ {
			return false
		}
	}
	return len(s.Properties) == len(properties) && !s.Preserve && !s.Embedded
}

// isTagName reports whether a JSON name can be in the tag of a Go field, for encoding/json and its second version.
func isTagName(name string) bool {
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) {
			return false
		}
	}
	return name != "" && name != "-"
}

// promotedNames returns the names that an embedded t promotes.
func promotedNames(t types.Type) (names []string) {
	methods := types.NewMethodSet(types.NewPointer(t))
	for i := range methods.Len() {
		names = append(names, methods.At(i).Obj().Name())
	}
	if u, ok := t.Underlying().(*types.Struct); ok {
		for i := range u.NumFields() {
			names = append(names, u.Field(i).Name())
		}
	}
	return names
}
