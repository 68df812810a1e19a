package decode

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// This file compares values with those of another version, and shares the equal ones.
//
// It writes only to memory that this package has made: to the fields of an object, and to trees that decodeTree
// returned. The memory behind a pointer, a slice or a map may come from a method of the type, such as UnmarshalJSON,
// or from Config.Transform. Such a function may return the same memory for many objects, which others read. So that
// memory is compared as a whole, and never written to.

// versionBefore returns before as a pointer of type t, or nil if it has another type or is nil. It is the only way in
// which another version enters this package: Config.Transform can return objects of different types.
func versionBefore(before any, t reflect.Type) unsafe.Pointer {
	if before == nil || reflect.TypeOf(before) != t || t.Kind() != reflect.Pointer {
		return nil
	}
	return reflect.ValueOf(before).UnsafePointer()
}

// adopt makes the fields of *new share the equal values of *old, if both are pointers of one type. It modifies nothing
// in *old, and nothing behind a field of *new.
func (ps plans) adopt(old, new any) {
	from := versionBefore(old, reflect.TypeOf(new))
	switch n := new.(type) {
	case *unstructured.Unstructured: // its UnmarshalJSON did not make it
		if from != nil && n != nil && from != unsafe.Pointer(n) {
			v, _ := adoptTree((*unstructured.Unstructured)(from).Object, n.Object, false)
			n.Object, _ = v.(map[string]any)
		}
	default:
		if to := versionBefore(new, reflect.TypeOf(new)); from != nil && to != nil && to != from {
			ps.adoptAt(ps.of(reflect.TypeOf(new).Elem()), from, to, false)
		}
	}
}

// keep replaces the t at p by the one at old if both are equal, and otherwise its equal fields. The decoders have just
// decoded it.
func (ps plans) keep(t *plan, p, old unsafe.Pointer) {
	if old != nil {
		ps.adoptAt(t, old, p, t.json == jsonAny || t.json == jsonMap)
	}
}

// adoptAt makes the p.typ at new share the equal values of the one at old, and reports whether both are equal. ours
// means that decodeTree has made the trees at new.
func (ps plans) adoptAt(p *plan, old, new unsafe.Pointer, ours bool) bool {
	method := p.json == jsonMethod || p.json == jsonText // it may have made fields that refer to each other
	switch {
	case p.same == sameBytes:
		return ps.equal(p, old, new, 0)
	case p.same == sameTree:
		v, equal := adoptTree(reflect.NewAt(p.typ, old).Elem().Interface(), reflect.NewAt(p.typ, new).Elem().Interface(),
			ours)
		if v != nil {
			reflect.NewAt(p.typ, new).Elem().Set(reflect.ValueOf(v))
		}
		return equal
	case p.same == sameStruct && !method:
		ps.learnSame(p)
		equal := true
		for i := range p.parts {
			f := &p.parts[i]
			equal = ps.adoptAt(f.plan, unsafe.Add(old, f.offset), unsafe.Add(new, f.offset), ours) && equal
		}
		return equal
	case !ps.equal(p, old, new, 0):
		return false
	}
	p.assign(new, old)
	return true
}

// equal reports whether the values of type p.typ at a and b are equal. Floats are equal if their bits are, since 0 and
// -0 are two values in JSON.
func (ps plans) equal(p *plan, a, b unsafe.Pointer, depth int) bool {
	if depth++; depth > maxNesting {
		return false
	}
	switch p.same {
	case sameBytes:
		switch p.size {
		case 1:
			return *(*uint8)(a) == *(*uint8)(b)
		case 2:
			return *(*uint16)(a) == *(*uint16)(b)
		case 4:
			return *(*uint32)(a) == *(*uint32)(b)
		}
		return *(*uint64)(a) == *(*uint64)(b)
	case sameString:
		return *(*string)(a) == *(*string)(b)
	case sameTime:
		return *(*metav1.Time)(a) == *(*metav1.Time)(b)
	case sameQuantity:
		return *(*resource.Quantity)(a) == *(*resource.Quantity)(b)
	case sameStruct:
		ps.learnSame(p)
		for i := range p.parts {
			if f := &p.parts[i]; !ps.equal(f.plan, unsafe.Add(a, f.offset), unsafe.Add(b, f.offset), depth) {
				return false
			}
		}
		return true
	case samePointer:
		x, y := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return x == y || x != nil && y != nil && ps.equal(p.elem, x, y, depth)
	case sameSlice:
		x, y := (*words)(a), (*words)(b)
		if x.len != y.len || (x.data == nil) != (y.data == nil) {
			return false
		}
		if p.elem.same == sameBytes {
			return identical(x.data, y.data, uintptr(x.len)*p.elem.size)
		}
		for i := range uintptr(x.len) {
			if !ps.equal(p.elem, unsafe.Add(x.data, i*p.elem.size), unsafe.Add(y.data, i*p.elem.size), depth) {
				return false
			}
		}
		return true
	case sameStringMap:
		x, y := *(*map[string]string)(a), *(*map[string]string)(b)
		return (x == nil) == (y == nil) && maps.Equal(x, y)
	}
	x, y := reflect.NewAt(p.typ, a).Elem(), reflect.NewAt(p.typ, b).Elem()
	return reflect.DeepEqual(x.Interface(), y.Interface()) && (!p.floats || sameFloats(x, y, depth))
}

// sameFloats reports whether the floats of a and b have the same bits. reflect.DeepEqual must have found a and b equal.
func sameFloats(a, b reflect.Value, depth int) bool {
	if depth++; depth > maxNesting {
		return false
	}
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Pointer, reflect.Interface:
		return a.IsNil() || sameFloats(a.Elem(), b.Elem(), depth)
	case reflect.Struct:
		for i := range a.NumField() {
			if !sameFloats(a.Field(i), b.Field(i), depth) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range a.Len() {
			if !sameFloats(a.Index(i), b.Index(i), depth) {
				return false
			}
		}
	case reflect.Map:
		for iter := a.MapRange(); iter.Next(); {
			if !sameFloats(iter.Value(), b.MapIndex(iter.Key()), depth) {
				return false
			}
		}
	}
	return true
}

// holdsFloats reports whether a t can contain a float.
func holdsFloats(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsFloats(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsFloats(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// adoptTree returns new, with the equal parts of old in place of its own. Both are trees of maps, slices and scalars,
// as in unstructured objects. It returns old and true if the trees are equal. ours means that decodeTree has made new:
// adoptTree then writes to it. Otherwise it writes to copies of the maps and slices that are not equal.
func adoptTree(old, new any, ours bool) (any, bool) {
	if !ours && equalTrees(old, new) {
		return old, true
	}
	equal := false
	switch n := new.(type) {
	case map[string]any:
		o, ok := old.(map[string]any)
		if !ok || (o == nil) != (n == nil) {
			return new, false
		}
		if !ours {
			n = maps.Clone(n)
		}
		equal = len(o) == len(n)
		for name, value := range n {
			was, ok := o[name]
			if !ok {
				equal = false
				continue
			}
			kept, same := adoptTree(was, value, ours)
			if same || !ours {
				n[name] = kept
			}
			equal = equal && same
		}
		new = n
	case []any:
		o, ok := old.([]any)
		if !ok || (o == nil) != (n == nil) {
			return new, false
		}
		if !ours {
			n = slices.Clone(n)
		}
		equal = len(o) == len(n)
		for i := range min(len(o), len(n)) {
			kept, same := adoptTree(o[i], n[i], ours)
			if same || !ours {
				n[i] = kept
			}
			equal = equal && same
		}
		new = n
	default:
		equal = equalTrees(old, new)
	}
	if equal {
		return old, true
	}
	return new, false
}

// equalTrees reports whether two such trees are equal. It returns false for a scalar that no tree has.
func equalTrees(a, b any) bool {
	switch y := b.(type) {
	case map[string]any:
		x, ok := a.(map[string]any)
		if !ok || (x == nil) != (y == nil) || len(x) != len(y) {
			return false
		}
		for name, value := range y {
			if was, ok := x[name]; !ok || !equalTrees(was, value) {
				return false
			}
		}
		return true
	case []any:
		x, ok := a.([]any)
		if !ok || (x == nil) != (y == nil) || len(x) != len(y) {
			return false
		}
		for i := range y {
			if !equalTrees(x[i], y[i]) {
				return false
			}
		}
		return true
	case float64:
		x, ok := a.(float64)
		return ok && math.Float64bits(x) == math.Float64bits(y)
	case string:
		x, ok := a.(string)
		return ok && x == y
	case int64:
		x, ok := a.(int64)
		return ok && x == y
	case bool:
		x, ok := a.(bool)
		return ok && x == y
	}
	return a == nil && b == nil
}
