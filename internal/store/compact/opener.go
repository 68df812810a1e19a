package compact

import "github.com/typedinformer/informer/internal/object"

// Opener opens packed objects as objects of type T. It is an Opener of package table.
type Opener[T any] struct{}

// Open returns the object of p, or the zero T if p is nil or cannot be decoded.
func (Opener[T]) Open(p *Object) T {
	var none T
	if p == nil {
		return none
	}
	obj, _ := p.Decoded(nil).(T)
	return obj
}

// Copy returns a copy of the object of p, which copy makes. If nobody holds the decoded object, a freshly decoded one
// needs no copy.
func (o Opener[T]) Copy(p *Object, copy func(T) T) T {
	var none T
	if p.Alive() == nil {
		obj, _ := p.Fresh(nil).(T)
		return obj
	}
	obj := o.Open(p)
	if object.IsNil(obj) {
		return none
	}
	return copy(obj)
}
