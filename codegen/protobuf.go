package main

import (
	"fmt"
	"go/types"
	"reflect"
	"strings"
)

// isMessage reports whether a type itself is a protobuf message, and does not only embed one.
func isMessage(t types.Type) bool { return hasOwnMethod(t, "Unmarshal") }

// readsProtobuf marks decls, the types of one slim type, as decodable from protobuf. It does nothing unless every field
// has a number and a supported type.
func readsProtobuf(decls []*decl) {
	for _, d := range decls {
		if _, ok := d.unmarshal(); !ok {
			return
		}
	}
	for _, d := range decls {
		d.Protobuf = true
	}
}

// Unmarshal returns the cases of a switch over the numbers of d's fields.
func (d *decl) Unmarshal() string {
	text, _ := d.unmarshal()
	return text
}

func (d *decl) unmarshal() (text string, ok bool) {
	u := d.Type.Underlying().(*types.Struct)
	if d.Entries != nil {
		return d.unmarshalEntries(u)
	}
	for i := range u.NumFields() {
		number := strings.Split(reflect.StructTag(u.Tag(i)).Get("protobuf"), ",")
		if len(number) < 2 {
			return "", false
		}
		statements, ok := unmarshalField("o."+u.Field(i).Name(), u.Field(i).Type())
		if !ok {
			return "", false
		}
		text += fmt.Sprintf("case %s:\n%s", number[1], statements)
	}
	return text, true
}

// unmarshalEntries returns statements that decode an entry of a map, for a struct with some of its entries.
func (d *decl) unmarshalEntries(u *types.Struct) (text string, ok bool) {
	key, value := unmarshalCall("&key", d.Entries.Key()), unmarshalCall("&value", d.Entries.Elem())
	text = unmarshalEntry(d.Entries, key, value) + "switch key {\n"
	for i := range u.NumFields() {
		if pointer := u.Field(i).Type().(*types.Pointer); !types.Identical(pointer.Elem(), d.Entries.Elem()) {
			return "", false
		}
		name, _ := jsonName(u.Field(i), u.Tag(i))
		text += fmt.Sprintf("case %q:\no.%s = &value\n", name, u.Field(i).Name())
	}
	return text + "}\nreturn err\n", key != "" && value != ""
}

// unmarshalField returns statements that decode a value v into to, and return the error.
func unmarshalField(to string, t types.Type) (text string, ok bool) {
	if call := unmarshalCall("&"+to, t); call != "" {
		return "return " + call + "\n", true
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		call := unmarshalCall(to, u.Elem())
		if isStruct(u.Elem()) { // repeated values are merged
			return fmt.Sprintf("if %s == nil {\n%[1]s = new(%s)\n}\nreturn %s\n", to, typeText(u.Elem()), call), call != ""
		}
		return fmt.Sprintf("%s = new(%s)\nreturn %s\n", to, typeText(u.Elem()), call), call != ""
	case *types.Slice:
		if basic, ok := u.Elem().Underlying().(*types.Basic); ok && basic.Info()&types.IsInteger != 0 {
			return fmt.Sprintf("return «%s».Ints(&%s, v)\n", wirePath, to), types.Identical(t, u)
		}
		call := unmarshalCall("&each", u.Elem())
		return fmt.Sprintf("var each %s\nerr := %s\n%s = append(%[3]s, each)\nreturn err\n", typeText(u.Elem()), call, to),
			call != ""
	case *types.Map:
		key, value := unmarshalCall("&key", u.Key()), unmarshalCall("&value", u.Elem())
		return fmt.Sprintf("if %s == nil {\n%[1]s = %s{}\n}\n%s%[1]s[key] = value\nreturn err\n", to, typeText(t),
			unmarshalEntry(u, key, value)), key != "" && value != ""
	}
	return "", false
}

// unmarshalEntry returns statements that decode the key and the value of a map entry.
func unmarshalEntry(m *types.Map, key, value string) string {
	return fmt.Sprintf("var key %[1]s\nvar value %[2]s\nerr := «%[3]s».Entry(v, func(v «%[3]s».Value) error { return %[4]s }, func(v «%[3]s».Value) error { return %[5]s })\n",
		typeText(m.Key()), typeText(m.Elem()), wirePath, key, value)
}

// unmarshalCall returns the call that decodes a value v into to, a pointer to a t. It returns "" if one call is not
// enough.
func unmarshalCall(to string, t types.Type) string {
	function := ""
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch u.Kind() {
		case types.String:
			function = "String"
		case types.Bool:
			function = "Bool"
		case types.Int, types.Int32, types.Int64, types.Uint32, types.Uint64:
			function = "Int"
		case types.Float64:
			function = "Double"
		}
	case *types.Slice:
		if basic, ok := u.Elem().(*types.Basic); ok && basic.Kind() == types.Byte {
			function = "Bytes"
		}
	case *types.Struct:
		if isLocal(t) || isMessage(t) {
			function = "Message"
		}
	}
	if function == "" {
		return ""
	}
	return fmt.Sprintf("«%s».%s(%s, v)", wirePath, function, to)
}

func isStruct(t types.Type) bool {
	_, ok := t.Underlying().(*types.Struct)
	return ok
}
