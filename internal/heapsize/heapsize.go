// Package heapsize estimates how much memory objects take.
package heapsize

import "reflect"

// Set adds up the sizes of objects. Memory that several of them share counts once. The zero value is empty.
type Set struct {
	seen  map[any]struct{} // pointers, so none of the memory is used again while the set is
	bytes int
}

// Bytes returns the sum of the sizes.
func (s *Set) Bytes() int { return s.bytes }

// AddBytes adds memory of a known size.
func (s *Set) AddBytes(n int) { s.bytes += n }

// Add adds obj, usually a pointer, and everything that it refers to by exported fields. Unexported fields may refer to
// memory that is written to, or that belongs to other objects. A substring counts with its own length. Channels and
// functions do not count.
func (s *Set) Add(obj any) {
	if s.seen == nil {
		s.seen = map[any]struct{}{}
	}
	if v := reflect.ValueOf(obj); v.IsValid() {
		s.walk(v)
	}
}

// first reports whether v refers to memory that the set does not have yet.
func (s *Set) first(v reflect.Value) bool {
	p := v.UnsafePointer()
	if p == nil {
		return false
	}
	_, seen := s.seen[p]
	s.seen[p] = struct{}{}
	return !seen
}

// walk adds what v refers to, without v itself.
func (s *Set) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if s.first(v) {
			s.bytes += rounded(int(v.Type().Elem().Size()))
			s.walk(v.Elem())
		}
	case reflect.String:
		if s.first(v) {
			s.bytes += rounded(v.Len())
		}
	case reflect.Slice:
		if v.Cap() == 0 || !s.first(v) {
			return
		}
		s.bytes += rounded(v.Cap() * int(v.Type().Elem().Size()))
		s.elements(v)
	case reflect.Array:
		s.elements(v)
	case reflect.Map:
		if !s.first(v) {
			return
		}
		s.bytes += mapSize(v.Len(), int(v.Type().Key().Size()+v.Type().Elem().Size()))
		for it := v.MapRange(); it.Next(); {
			s.walk(it.Key())
			s.walk(it.Value())
		}
	case reflect.Struct:
		if refers(v.Type()) {
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					s.walk(v.Field(i))
				}
			}
		}
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		if e := v.Elem(); e.Kind() != reflect.Pointer && e.Kind() != reflect.Map { // both are in the interface itself
			s.bytes += rounded(int(e.Type().Size()))
			s.walk(e)
		} else {
			s.walk(e)
		}
	}
}

func (s *Set) elements(v reflect.Value) {
	if !refers(v.Type().Elem()) {
		return
	}
	for i := range v.Len() {
		s.walk(v.Index(i))
	}
}

// refers reports whether values of t can refer to memory. It looks only at t itself.
func refers(t reflect.Type) bool {
	return t.Kind() > reflect.Complex128
}

// mapSize returns the size of a map with n entries of the given size: tables of groups of eight slots, an eighth of
// which stay empty.
func mapSize(n, entry int) int {
	const header, slots = 48, 8
	groups := 1
	for groups*slots*7/8 < n && n > slots {
		groups *= 2
	}
	if n == 0 {
		groups = 0
	}
	return header + groups*rounded(8+slots*entry)
}

// rounded returns the memory that an allocation of n bytes takes: about the size classes of the Go runtime.
func rounded(n int) int {
	switch {
	case n <= 16:
		return (n + 7) &^ 7
	case n <= 128:
		return (n + 15) &^ 15
	case n <= 512:
		return (n + 31) &^ 31
	case n <= 2048:
		return (n + 255) &^ 255
	}
	return n + n/16
}
