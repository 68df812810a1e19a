package decode

import (
	"reflect"
	"unsafe"
	"weak"
)

// Weak refers to an object without keeping it in memory. The zero value refers to nothing.
type Weak struct{ object weak.Pointer[byte] } // without the type: there is one Weak for each object that was read

// WeakOf returns a reference to obj, a pointer.
func WeakOf(obj any) Weak {
	return Weak{weak.Make((*byte)(reflect.ValueOf(obj).UnsafePointer()))}
}

// Object returns the object, which must be a pointer of type t, or nil if the garbage collector has freed it.
func (w Weak) Object(t *Type) any {
	p := w.object.Value()
	if p == nil {
		return nil
	}
	return reflect.NewAt(t.elem, unsafe.Pointer(p)).Interface()
}
