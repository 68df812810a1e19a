package decode

import (
	"bytes"
	"math"
	"reflect"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Nobody may write to an object that others read. If a program does it all the same, the harm would stay: the next
// version of the object takes its unchanged parts from this one, and other objects share its parts. So one of many
// objects that took parts from others is decoded once more, without them. If the two differ, somebody has written to
// such a part. The second one then replaces the first, and the decoders of its pool verify each object for a while.

const (
	// verifyEvery is how many objects that took parts from others the decoders of a pool decode for each one that is
	// verified.
	verifyEvery = 1 << 10
	// verifyAfter is how many such objects the decoders of a pool verify after a part that somebody has written to.
	verifyAfter = 1 << 12
)

// doubt decides which objects are verified. The decoders of a pool share it, since a decoder may not live long: the
// garbage collector frees idle ones. The zero value is ready for use, and safe for concurrent use.
type doubt struct {
	taken   atomic.Uint32 // objects that took parts from others
	objects atomic.Int32  // that are still to be verified, whatever their turn is
	useless atomic.Bool   // equal bytes do not give equal objects: a method of the type does as it likes
}

// due reports whether to verify the next object that took parts from others.
func (d *doubt) due() bool {
	if d.objects.Load() > 0 {
		d.objects.Add(-1)
		return true
	}
	return d.taken.Add(1)%verifyEvery == 0
}

// Modified returns what the last call of Decode has found of a program that modifies decoded objects: the path of the
// first field that differs, such as spec.containers[0].image, or "" for nothing. The path has no keys of maps, and of an
// unstructured object two names at most: the others may be content.
func (d *Decoder) Modified() string { return d.modified }

// verified returns obj, which d has decoded from raw with parts of others, or an equal object without them if somebody
// has written to such a part.
func (d *Decoder) verified(obj any, f Format, raw []byte, from Origin) any {
	if d.doubt.useless.Load() {
		return obj
	}
	from.Before, from.Made, from.Share = nil, false, false
	anew, err := d.decode(f, raw, from)
	if err != nil {
		return obj
	}
	field, differ := difference(reflect.ValueOf(obj).Elem(), reflect.ValueOf(anew).Elem(), 0)
	if !differ {
		return obj
	}
	if again, err := d.decode(f, raw, from); err != nil || !same(anew, again) {
		d.doubt.useless.Store(true)
		return obj
	}
	d.modified = field
	d.shared = [2]weakSharer{Protobuf: {format: Protobuf}} // what it remembers may be what was written to
	d.doubt.objects.Store(verifyAfter)
	if d.parts != nil {
		d.parts.distrust()
	}
	return anew
}

func same(a, b any) bool {
	_, differ := difference(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), 0)
	return !differ
}

// difference returns the path of the first field by which a and b differ, both of one type. It compares what can be
// decoded: methods of a type may change its other fields when they are called, also those that only read.
func difference(a, b reflect.Value, depth int) (path string, differ bool) {
	if depth++; depth > maxNesting {
		return "", false
	}
	switch x := a.Interface().(type) {
	case unstructured.Unstructured:
		return treeDifference(x.Object, b.Interface().(unstructured.Unstructured).Object)
	case resource.Quantity: // Cmp may change its receiver
		y := b.Interface().(resource.Quantity)
		return "", x.Cmp(y) != 0
	case metav1.Time:
		y := b.Interface().(metav1.Time)
		return "", !x.Equal(&y)
	case metav1.MicroTime:
		y := b.Interface().(metav1.MicroTime)
		return "", !x.Equal(&y)
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return "", a.IsNil() != b.IsNil()
		}
		return difference(a.Elem(), b.Elem(), depth)
	case reflect.Interface:
		if a.IsNil() || b.IsNil() || a.Elem().Type() != b.Elem().Type() {
			return "", a.IsNil() != b.IsNil() || !a.IsNil()
		}
		return difference(a.Elem(), b.Elem(), depth)
	case reflect.Struct:
		return fieldDifference(a, b, depth)
	case reflect.Slice, reflect.Array:
		return elementDifference(a, b, depth)
	case reflect.Map:
		return "", !equalMaps(a, b, depth) // the key may be content
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return "", false
	case reflect.Float32, reflect.Float64:
		return "", math.Float64bits(a.Float()) != math.Float64bits(b.Float())
	}
	return "", !a.Equal(b)
}

// fieldDifference is difference for structs.
func fieldDifference(a, b reflect.Value, depth int) (path string, differ bool) {
	for _, f := range decodedFields(a.Type()) {
		x, err := a.FieldByIndexErr(f.index)
		y, err2 := b.FieldByIndexErr(f.index)
		switch {
		case (err == nil) != (err2 == nil): // one of the embedded pointers is nil
			return f.name, true
		case err != nil || !x.CanInterface():
			continue
		}
		if path, differ := difference(x, y, depth); differ {
			return join(f.name, path), true
		}
	}
	return "", false
}

// elementDifference is difference for slices and arrays.
func elementDifference(a, b reflect.Value, depth int) (path string, differ bool) {
	if a.Len() != b.Len() {
		return "", true
	}
	if a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Uint8 {
		return "", !bytes.Equal(a.Bytes(), b.Bytes())
	}
	for i := range a.Len() {
		if path, differ := difference(a.Index(i), b.Index(i), depth); differ {
			return join("["+strconv.Itoa(i)+"]", path), true
		}
	}
	return "", false
}

func equalMaps(a, b reflect.Value, depth int) bool {
	if a.Len() != b.Len() {
		return false
	}
	for entry := a.MapRange(); entry.Next(); {
		other := b.MapIndex(entry.Key())
		if !other.IsValid() {
			return false
		}
		if _, differ := difference(entry.Value(), other, depth); differ {
			return false
		}
	}
	return true
}

// decodedFields returns the fields of t, a struct, that a decoder sets. A method may set all that are exported.
func decodedFields(t reflect.Type) []field {
	if !reflect.PointerTo(t).Implements(jsonUnmarshalerType) {
		return fieldsOf(t).fields
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous {
			fields = append(fields, field{name: f.Name, index: f.Index})
		}
	}
	return fields
}

// treeDifference returns the path of the first two members by which two unstructured objects differ.
func treeDifference(a, b map[string]any) (path string, differ bool) {
	for name, value := range a {
		other, ok := b[name]
		if ok && equalTrees(value, other) {
			continue
		}
		members, ok := value.(map[string]any)
		others, ok2 := other.(map[string]any)
		if ok && ok2 {
			for inner, value := range members {
				if other, ok := others[inner]; !ok || !equalTrees(value, other) {
					return join(name, inner), true
				}
			}
		}
		return name, true
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			return name, true
		}
	}
	return "", false
}

// join returns the path of a field within another one.
func join(outer, inner string) string {
	if inner == "" || inner[0] == '[' {
		return outer + inner
	}
	return outer + "." + inner
}
