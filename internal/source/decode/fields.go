package decode

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// This file implements the rules by which sigs.k8s.io/json, and so client-go, reads Go types: which fields a struct
// has, and which types cannot hold JSON.

var (
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonNumberType      = reflect.TypeFor[json.Number]()
)

// knownFields caches the structFields of types, since many decoders have types in common.
var knownFields sync.Map

// field is one field of a struct, or of a struct embedded in it.
type field struct {
	name     string
	index    []int // as of reflect.Type.FieldByIndex
	typ      reflect.Type
	offset   uintptr // in the struct, unless it is behind a pointer
	tagged   bool    // the name is from the tag
	declared bool    // it has a tag that is not empty
	quoted   bool    // the tag has the option ",string", and the type supports it
	pointer  bool    // it is behind an embedded pointer
	locked   bool    // it cannot be set: it is, or is behind, an embedded pointer to an unexported struct
	opaque   bool    // it is an embedded field of an unexported type: the methods of the type are ignored
	managed  bool    // it is called managedFields
}

// structFields holds the fields of a struct, and the total size of the structs behind its embedded pointers.
type structFields struct {
	fields   []field
	embedded uintptr
}

// fieldsOf returns the fields of t, a struct. The caller must not modify them.
func fieldsOf(t reflect.Type) structFields {
	if known, ok := knownFields.Load(t); ok {
		return known.(structFields)
	}
	s := newStructFields(t)
	knownFields.Store(t, s)
	return s
}

// newStructFields computes the fields of t by the rules of encoding/json. It ignores an invalid name in a tag. Of the
// fields with the same name, the least nested one wins, then the tagged one. If several remain, it drops them all.
func newStructFields(t reflect.Type) (s structFields) {
	var fields []field
	type level struct {
		field
		count int // how often this type occurs at the level
	}
	visited := map[reflect.Type]bool{}
	for next := []level{{field{typ: t}, 1}}; len(next) > 0; {
		current := next
		next = nil
		for _, in := range current {
			if visited[in.typ] {
				continue
			}
			visited[in.typ] = true
			for i := range in.typ.NumField() {
				sf := in.typ.Field(i)
				to := sf.Type // without its pointer
				pointer := to.Kind() == reflect.Pointer && to.Name() == ""
				if pointer {
					to = to.Elem()
				}
				tag, ok := sf.Tag.Lookup("json")
				if tag == "-" || !sf.IsExported() && !(sf.Anonymous && to.Kind() == reflect.Struct) {
					continue
				}
				name, options, _ := strings.Cut(tag, ",")
				if !validJSONName(name) {
					name = ""
				}
				f := field{
					name:     cmp.Or(name, sf.Name),
					index:    append(slices.Clone(in.index), i),
					typ:      sf.Type,
					offset:   in.offset + sf.Offset,
					tagged:   name != "",
					declared: ok && tag != "",
					quoted:   quotable(to.Kind()) && slices.Contains(strings.Split(options, ","), "string"),
					pointer:  in.pointer,
					locked:   in.locked || pointer && !sf.IsExported(),
					opaque:   !sf.IsExported(),
					managed:  name == "managedFields",
				}
				if name != "" || !sf.Anonymous || to.Kind() != reflect.Struct {
					fields = append(fields, f)
					if in.count > 1 {
						fields = append(fields, f) // they hide each other
					}
					continue
				}
				f.typ = to
				f.pointer = f.pointer || pointer
				if pointer {
					s.embedded += to.Size()
				}
				if known := slices.IndexFunc(next, func(l level) bool { return l.typ == to }); known >= 0 {
					next[known].count++
				} else {
					next = append(next, level{f, 1})
				}
			}
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(len(a.index), len(b.index)),
			cmp.Compare(a.rank(), b.rank()))
	})
	for from, to := 0, 0; from < len(fields); from = to {
		for to = from; to < len(fields) && fields[to].name == fields[from].name; to++ {
		}
		if f := fields[from]; to == from+1 || len(f.index) < len(fields[from+1].index) || f.rank() < fields[from+1].rank() {
			s.fields = append(s.fields, f)
		}
	}
	slices.SortFunc(s.fields, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return s
}

// rank is 0 for a field with a name in its tag, 1 for others. At equal depth, rank 0 hides rank 1.
func (f *field) rank() int {
	if f.tagged {
		return 0
	}
	return 1
}

// validJSONName reports whether name is valid in a tag.
func validJSONName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// quotable reports whether types of kind k support the option ",string".
func quotable(k reflect.Kind) bool {
	return k == reflect.String || k >= reflect.Bool && k <= reflect.Float64
}

// jsonObstacle looks for a field below t that has a tag for JSON, but can only hold null. It returns the path to the
// field and the reason, or an empty path if there is no such field. A field without a tag may have any type: no API
// uses its name. jsonObstacle trusts types that decode themselves.
func jsonObstacle(t reflect.Type, seen map[reflect.Type]bool) (path, reason string) {
	if seen[t] {
		return "", ""
	}
	seen[t] = true
	if t.Kind() != reflect.Struct { // it may be an obstacle at another place
		defer delete(seen, t)
	}
	if pointer := reflect.PointerTo(t); pointer.Implements(jsonUnmarshalerType) ||
		pointer.Implements(textUnmarshalerType) {
		return "", ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		if seen[t.Elem()] && t.Elem().Kind() == reflect.Pointer { // a pointer type that points to itself
			break
		}
		return jsonObstacle(t.Elem(), seen)
	case reflect.Slice, reflect.Array:
		return jsonObstacle(t.Elem(), seen)
	case reflect.Map:
		if !jsonMapKey(t.Key()) {
			break
		}
		return jsonObstacle(t.Elem(), seen)
	case reflect.Struct:
		for _, f := range fieldsOf(t).fields {
			if path, reason = jsonObstacle(f.typ, seen); f.locked {
				reason = "is behind an embedded pointer to an unexported struct, which cannot be set: embed the struct itself, or export it"
			}
			if reason != "" && (f.declared || path != "") {
				return strings.TrimSuffix(t.FieldByIndex(f.index).Name+"."+path, "."), reason
			}
		}
		return "", ""
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return "", ""
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
	default:
		return "", ""
	}
	return "", fmt.Sprintf("is of type %v, which holds no JSON: change the type, or leave the field out with the tag `json:\"-\"`", t)
}

// jsonMapKey reports whether maps with keys of type t can hold JSON.
func jsonMapKey(t reflect.Type) bool {
	k := t.Kind()
	return k == reflect.String || k >= reflect.Int && k <= reflect.Uintptr ||
		reflect.PointerTo(t).Implements(textUnmarshalerType)
}
