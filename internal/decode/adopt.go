package decode

import (
	"maps"
	"math"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// adopt makes *new share the equal parts of *old. Both are pointers of one type. adopt may modify anything in *new, and
// modifies nothing in *old.
func (ps plans) adopt(old, new any) {
	o, n := reflect.ValueOf(old), reflect.ValueOf(new)
	ps.adoptAt(ps.of(n.Type().Elem()), o.UnsafePointer(), n.UnsafePointer(), 0)
}

// adoptAt does the same for the values of type p.typ at old and new, and reports whether they are equal.
func (ps plans) adoptAt(p *plan, old, new unsafe.Pointer, depth int) bool {
	if depth++; depth > maxNesting {
		return false
	}
	equal := true
	switch p.same {
	case sameBytes:
		switch p.size {
		case 1:
			return *(*uint8)(old) == *(*uint8)(new)
		case 2:
			return *(*uint16)(old) == *(*uint16)(new)
		case 4:
			return *(*uint32)(old) == *(*uint32)(new)
		}
		return *(*uint64)(old) == *(*uint64)(new)
	case sameString:
		return *(*string)(old) == *(*string)(new)
	case sameTime:
		return *(*metav1.Time)(old) == *(*metav1.Time)(new)
	case sameQuantity:
		return *(*resource.Quantity)(old) == *(*resource.Quantity)(new)
	case sameStruct:
		ps.learnSame(p)
		for i := range p.parts {
			f := &p.parts[i]
			equal = ps.adoptAt(f.plan, unsafe.Add(old, f.offset), unsafe.Add(new, f.offset), depth) && equal
		}
		return equal
	case samePointer:
		o, n := *(*unsafe.Pointer)(old), *(*unsafe.Pointer)(new)
		if o == n || o == nil || n == nil {
			return o == n
		}
		if equal = ps.adoptAt(p.elem, o, n, depth); equal {
			*(*unsafe.Pointer)(new) = o
		}
		return equal
	case sameSlice:
		o, n := (*words)(old), (*words)(new)
		if p.elem.same == sameBytes {
			equal = o.len == n.len && identical(o.data, n.data, uintptr(n.len)*p.elem.size)
		} else {
			for i := range uintptr(min(o.len, n.len)) {
				equal = ps.adoptAt(p.elem, unsafe.Add(o.data, i*p.elem.size), unsafe.Add(n.data, i*p.elem.size), depth) && equal
			}
		}
		if equal = equal && o.len == n.len && (o.data == nil) == (n.data == nil); equal {
			*n = *o
		}
		return equal
	case sameStringMap:
		o, n := *(*map[string]string)(old), *(*map[string]string)(new)
		if equal = (o == nil) == (n == nil) && maps.Equal(o, n); equal {
			*(*map[string]string)(new) = o
		}
		return equal
	}
	o, n := reflect.NewAt(p.typ, old).Elem(), reflect.NewAt(p.typ, new).Elem()
	switch is := n.Interface().(type) {
	case map[string]any, []any: // of an unstructured object, or of a field of type any
		v, equal := adoptTree(o.Interface(), is)
		if equal {
			n.Set(reflect.ValueOf(v))
		}
		return equal
	}
	if equal = reflect.DeepEqual(o.Interface(), n.Interface()); equal {
		n.Set(o)
	}
	return equal
}

// adoptTree makes new share the equal parts of old. Both are trees of maps, slices and scalars, as in unstructured objects.
// It returns old and true if the trees are equal, otherwise new and false.
func adoptTree(old, new any) (any, bool) {
	equal := false
	switch n := new.(type) {
	case map[string]any:
		o, ok := old.(map[string]any)
		if !ok || (o == nil) != (n == nil) {
			return new, false
		}
		equal = len(o) == len(n)
		for name, value := range n {
			was, ok := o[name]
			if !ok {
				equal = false
				continue
			}
			kept, same := adoptTree(was, value)
			if same {
				n[name] = kept
			}
			equal = equal && same
		}
	case []any:
		o, ok := old.([]any)
		if !ok || (o == nil) != (n == nil) {
			return new, false
		}
		equal = len(o) == len(n)
		for i := range min(len(o), len(n)) {
			kept, same := adoptTree(o[i], n[i])
			if same {
				n[i] = kept
			}
			equal = equal && same
		}
	case float64:
		o, ok := old.(float64)
		equal = ok && math.Float64bits(o) == math.Float64bits(n)
	case string:
		o, ok := old.(string)
		equal = ok && o == n
	case int64:
		o, ok := old.(int64)
		equal = ok && o == n
	case bool:
		o, ok := old.(bool)
		equal = ok && o == n
	case nil:
		equal = old == nil
	}
	if equal {
		return old, true
	}
	return new, false
}
