// Package pointer compares objects in generic code.
//
// The constraints of objects do not embed comparable. Go compiles a generic function once for all pointer types only if
// the constraint consists of methods alone. With comparable it compiles the function for each type of objects again.
package pointer

// IsNil reports whether obj is the zero T: nil, for a pointer.
func IsNil[T any](obj T) bool {
	var none T
	return any(obj) == any(none)
}

// Equal reports whether a and b are the same object. T must be a pointer or another comparable type.
func Equal[T any](a, b T) bool { return any(a) == any(b) }
