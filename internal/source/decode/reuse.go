package decode

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An update of an object repeats most of the previous version. This file lets the new version take from the previous
// one:
//
//   - A part, which is a field of the object like spec or status, if its encoded bytes are unchanged. Each object has
//     the hash and the length of these bytes in its marks. An unchanged part is not decoded at all. The marks also have
//     the memory that the part took of the budget, which it takes again: an object is within the limit for an object or
//     not, whatever the version before was.
//   - A decoded string, slice, map or pointer, if it is equal to the one at the same place in the previous version. It
//     then takes no memory.
//
// Two different parts have the same hash by chance once in 2^64: the seed is random, so nobody can search for such
// parts. If it happens, the object keeps the old part until that part changes again. At 10,000 changes a second, it
// happens once in 58 million years.

// maxParts limits the parts of an object that have marks, which take 16 bytes each.
const maxParts = 4

// layout describes where objects of a type have their parts and their marks.
type layout struct {
	memory     reflect.Type // an object, followed by its marks
	marks      uintptr      // the offset of the marks
	parts      []uintptr    // the offset of each part
	behind     []*ahead     // what each part refers to; nil for an unstructured object
	metadata   *ahead       // what the metadata refers to; nil if the object has no field for it
	metadataAt uintptr      // the offset of the metadata
}

// newLayout returns the layout of elem, a struct. The parts are its first fields that can be large, without the
// metadata, which changes with every version.
func newLayout(elem reflect.Type) layout {
	l := layout{memory: elem}
	fields := fieldsOf(elem).fields
	if elem == reflect.TypeFor[unstructured.Unstructured]() {
		fields, l.parts = nil, make([]uintptr, 3) // members of the object, in their order
	}
	for _, f := range fields {
		switch {
		case f.pointer || !large(f.typ):
		case f.name == "metadata":
			l.metadata, l.metadataAt = newAhead(f.typ, aheadDepth), f.offset
		case len(l.parts) < maxParts:
			l.parts = append(l.parts, f.offset)
			l.behind = append(l.behind, newAhead(f.typ, aheadDepth))
		}
	}
	if n := len(l.parts); n > 0 {
		l.memory = reflect.StructOf([]reflect.StructField{
			{Name: "Object", Type: elem},
			{Name: "Hashes", Type: reflect.ArrayOf(n, reflect.TypeFor[uint64]())},
			{Name: "Sizes", Type: reflect.ArrayOf(n, reflect.TypeFor[uint32]())},
			{Name: "Costs", Type: reflect.ArrayOf(n, reflect.TypeFor[uint32]())},
		})
		l.marks = l.memory.Field(1).Offset
	}
	return l
}

func large(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map:
		return true
	case reflect.Pointer:
		return t.Elem().Kind() == reflect.Struct
	}
	return false
}

// part returns the index of the part at offset, or -1.
func (l *layout) part(offset uintptr) int {
	for i, start := range l.parts {
		if start == offset {
			return i
		}
	}
	return -1
}

// marks holds the hashes, the sizes and the costs of the encoded parts of one object. They follow the object in its
// memory, so they are freed with it.
type marks struct {
	hashes []uint64 // by part; the size of an absent or unknown part is 0
	sizes  []uint32
	costs  []uint32 // what the part took of the budget
}

// marksOf returns the marks of an object whose memory has layout l.
func (l *layout) marksOf(object unsafe.Pointer) marks {
	n := len(l.parts)
	if n == 0 {
		return marks{}
	}
	begin := unsafe.Add(object, l.marks)
	words := unsafe.Slice((*uint32)(unsafe.Add(begin, 8*n)), 2*n)
	return marks{unsafe.Slice((*uint64)(begin), n), words[:n], words[n:]}
}

func (m marks) clear() {
	clear(m.hashes)
	clear(m.sizes)
	clear(m.costs)
}

// reuse holds the marks to find out which parts of one object are unchanged.
type reuse struct {
	*layout // of the object
	hash    func([]byte) uint64
	// was has the marks of the previous version, and is empty unless a Decoder made that version. now has the marks of
	// the object.
	was, now marks
	cold     unsafe.Pointer // the previous version, unless it is likely to be in the cache
	sum      byte           // of what was read ahead
}

// ended returns r without its references to the two versions, so that an idle decoder keeps neither in memory.
func (r reuse) ended() reuse {
	r.was, r.now, r.cold = marks{}, marks{}, nil
	return r
}

var partSeed = maphash.MakeSeed()

func hashOfPart(b []byte) uint64 { return maphash.Bytes(partSeed, b) }

// unchanged reports whether raw begins with the bytes of the part in the previous version, and returns their length and
// what the part takes of the budget.
func (r *reuse) unchanged(part int, raw []byte) (size, cost int, ok bool) {
	if r.was.sizes == nil {
		return 0, 0, false
	}
	size = int(r.was.sizes[part])
	if size == 0 || size > len(raw) || r.hash(raw[:size]) != r.was.hashes[part] {
		r.changed(part)
		return 0, 0, false
	}
	r.now.hashes[part], r.now.sizes[part], r.now.costs[part] = r.was.hashes[part], r.was.sizes[part], r.was.costs[part]
	return size, int(r.was.costs[part]), true
}

// note marks a decoded part with the hash and the length of raw, its bytes, and with its cost.
func (r *reuse) note(part int, raw []byte, cost budget) {
	if uint64(len(raw)) < 1<<32 && 0 <= cost && cost < 1<<32 {
		r.now.hashes[part], r.now.sizes[part], r.now.costs[part] = r.hash(raw), uint32(len(raw)), uint32(cost)
	}
}

// at returns the address of a field or element of the value at p, or nil if p is nil.
func at(p unsafe.Pointer, offset uintptr) unsafe.Pointer {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, offset)
}

// elementsAt returns the slice at old, or an empty one if old is nil.
func elementsAt(old unsafe.Pointer) words {
	if old == nil {
		return words{}
	}
	return *(*words)(old)
}

// at returns the address of element i of the slice, or nil if there is none.
func (w *words) at(i int, size uintptr) unsafe.Pointer {
	if i >= w.len {
		return nil
	}
	return unsafe.Add(w.data, uintptr(i)*size)
}

// stringAt returns the string at old, or an empty one if old is nil.
func stringAt(old unsafe.Pointer) string {
	if old == nil {
		return ""
	}
	return *(*string)(old)
}

// stringMapAt returns the map at old, or nil if old is nil.
func stringMapAt(old unsafe.Pointer) map[string]string {
	if old == nil {
		return nil
	}
	return *(*map[string]string)(old)
}

// identical reports whether the size bytes at a and b are equal. The values there are then equal too, since their
// strings, slices, maps and pointers refer to the same memory.
func identical(a, b unsafe.Pointer, size uintptr) bool {
	return bytes.Equal(unsafe.Slice((*byte)(a), size), unsafe.Slice((*byte)(b), size))
}

// assign sets the t at p to the t at from. If p is nil, nobody wants that value, which receiver has made.
func (t *plan) assign(p, from unsafe.Pointer) {
	switch {
	case p == from:
		return
	case p == nil:
		if t.unused.IsValid() {
			t.unused.Elem().SetZero()
		}
		return
	}
	reflect.NewAt(t.typ, p).Elem().Set(reflect.NewAt(t.typ, from).Elem())
}

// receiver returns a pointer to memory that holds what the t at p holds, for a method of t that decodes into its
// receiver. The method may keep its receiver, but p may be scratch memory, which is used again. So the receiver is p
// itself only if the types of Kubernetes declare the method: those do not keep it. Otherwise the caller assigns the
// result to p. If p is nil, the receiver is zero, and nobody wants the result.
func (t *plan) receiver(p unsafe.Pointer) reflect.Value {
	if p == nil {
		if t.retains {
			return reflect.New(t.typ)
		}
		if !t.unused.IsValid() {
			t.unused = reflect.New(t.typ)
		}
		return t.unused
	}
	value := reflect.NewAt(t.typ, p)
	if !t.retains {
		return value
	}
	own := reflect.New(t.typ)
	own.Elem().Set(value.Elem())
	return own
}

// borrow returns a zero value of the element type of t, a pointer or a map, to decode into. giveBack ends its use.
func (t *plan) borrow() reflect.Value {
	v := t.scratch
	t.scratch = reflect.Value{}
	if !v.IsValid() {
		v = reflect.New(t.elem.typ).Elem()
	}
	return v
}

func (t *plan) giveBack(v reflect.Value) {
	v.SetZero()
	t.scratch = v
}

// pointTo sets the pointer at p, a t. It points to old if the value there is identical to v, otherwise to a copy of v.
func (t *plan) pointTo(p, old unsafe.Pointer, v reflect.Value) {
	if old == nil || !identical(v.Addr().UnsafePointer(), old, t.elem.size) {
		made := reflect.New(t.elem.typ)
		made.Elem().Set(v)
		old = made.UnsafePointer()
	}
	*(*unsafe.Pointer)(p) = old
}

// sliceOf sets the slice at p, a t, to old if its elements are identical to those of used, otherwise to a copy of used.
func (t *plan) sliceOf(p unsafe.Pointer, old *words, used reflect.Value) {
	n := used.Len()
	if old.len == n && identical(used.UnsafePointer(), old.data, uintptr(n)*t.elem.size) {
		*(*words)(p) = *old
		return
	}
	t.slices.make(n, p)
	reflect.Copy(reflect.NewAt(t.typ, p).Elem(), used)
}
