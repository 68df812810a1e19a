package informer

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math/bits"
	"reflect"
	"unsafe"
	"weak"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// interner makes equal strings one string: most strings of a collection repeat, like the names of images, nodes and
// ports. It remembers a limited number of them, and keeps what repeats rather than what is new.
type interner struct {
	sets [][2]string // by hash; in each the one that was asked for again comes first
	new  int         // strings that were new since the last growth
}

const (
	minInterned = 1 << 6
	maxInterned = 1 << 12
	// maxInternedString is the length of the longest string that is remembered.
	maxInternedString = 256
)

func newInterner() *interner {
	return &interner{sets: make([][2]string, minInterned)}
}

// get returns text as a string.
func (n *interner) get(text []byte) string {
	if len(text) == 0 || len(text) > maxInternedString {
		return string(text)
	}
	set := &n.sets[hashOf(text)&uint64(len(n.sets)-1)]
	if set[0] == string(text) {
		return set[0]
	}
	if set[1] == string(text) {
		set[0], set[1] = set[1], set[0]
		return set[0]
	}
	s := string(text)
	set[1] = s
	if n.new++; n.new > 4*len(n.sets) && len(n.sets) < maxInterned {
		n.grow()
	}
	return s
}

// grow makes the table four times as large.
func (n *interner) grow() {
	old := n.sets
	n.sets, n.new = make([][2]string, 4*len(old)), 0
	for _, set := range old {
		for _, s := range []string{set[1], set[0]} {
			if s != "" {
				to := &n.sets[hashOf([]byte(s))&uint64(len(n.sets)-1)]
				to[0], to[1] = s, to[0]
			}
		}
	}
}

// hashOf is quick rather than good: it looks at the ends of text only. Strings that share a place push each other out, and
// nothing worse.
func hashOf(text []byte) uint64 {
	const odd = 0x9e3779b97f4a7c15
	var a, b uint64
	switch n := len(text); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(text)), uint64(binary.LittleEndian.Uint32(text[n-4:]))
	default:
		a, b = uint64(text[0]), uint64(text[n/2])<<8|uint64(text[n-1])
	}
	high, low := bits.Mul64(a^uint64(len(text))*odd, b^odd)
	return high ^ low
}

// words are what a slice consists of. A pointer or a map is just the first of them.
type words struct {
	data     unsafe.Pointer
	len, cap int
}

// sliceMaker makes slices of one type.
type sliceMaker struct {
	slice reflect.Value // nil, except while one is made
	words *words        // the same
}

func newSliceMaker(t reflect.Type) sliceMaker {
	p := reflect.New(t)
	return sliceMaker{p.Elem(), (*words)(p.UnsafePointer())}
}

// make puts a slice of n elements, without room for more, at p, and returns where its elements are.
func (m *sliceMaker) make(n int, p unsafe.Pointer) unsafe.Pointer {
	m.slice.Grow(n)
	m.slice.SetLen(n)
	m.slice.SetCap(n)
	*(*words)(p) = *m.words
	*m.words = words{}
	return (*words)(p).data
}

// sharer makes equal pointers, slices and maps one value: what was decoded from the same bytes. It remembers a limited
// number of them. The garbage collector may take all of it between two objects, so that it keeps nothing alive for long.
type sharer struct {
	seed maphash.Seed
	sets [1 << 11][2]sharedValue // as those of interner
}

// sharedValue is a pointer, a map or a slice that was decoded.
type sharedValue struct {
	typ   reflect.Type
	raw   string // what it was decoded from
	value words
}

// maxShared is the length of the longest that is remembered of what something was decoded from.
const maxShared = 4 << 10

// weakSharer is a sharer that the garbage collector may take. The zero value is ready for use.
type weakSharer struct{ weak.Pointer[sharer] }

func (w *weakSharer) get() *sharer {
	s := w.Value()
	if s == nil {
		s = &sharer{seed: maphash.MakeSeed()}
		w.Pointer = weak.Make(s)
	}
	return s
}

func (s *sharer) set(raw []byte) *[2]sharedValue {
	return &s.sets[maphash.Bytes(s.seed, raw)&uint64(len(s.sets)-1)]
}

// find puts the t that was decoded from raw at p. It returns false when that is not remembered.
func (s *sharer) find(raw []byte, t reflect.Type, p unsafe.Pointer) bool {
	set := s.set(raw)
	for i := range set {
		known := &set[i]
		if known.typ != t || known.raw != string(raw) {
			continue
		}
		if t.Kind() == reflect.Slice {
			*(*words)(p) = known.value
		} else {
			*(*unsafe.Pointer)(p) = known.value.data
		}
		if i == 1 {
			set[0], set[1] = set[1], set[0]
		}
		return true
	}
	return false
}

// put remembers the t at p, which was decoded from raw.
func (s *sharer) put(raw []byte, t reflect.Type, p unsafe.Pointer) {
	if len(raw) > maxShared {
		return
	}
	value := words{data: *(*unsafe.Pointer)(p)}
	if t.Kind() == reflect.Slice {
		value = *(*words)(p)
	}
	s.set(raw)[1] = sharedValue{t, string(raw), value}
}

// hits tells of one field of a type whether it is worth the time to look for a value to share.
type hits struct{ turns, tries, hits uint8 }

// worth returns true where one try in four is a hit, and otherwise now and then.
func (h *hits) worth() bool {
	h.turns++
	return 4*int(h.hits) >= int(h.tries) || h.turns%32 == 0
}

func (h *hits) note(hit bool) {
	if h.tries == 64 {
		h.tries, h.hits = h.tries/2, h.hits/2
	}
	h.tries++
	if hit {
		h.hits++
	}
}

// adopter makes parts of an object that are equal to those of its version before the same ones. It learns the types that it
// meets: it is for one goroutine.
type adopter map[reflect.Type]*adoptType

// adoptType is how values of one type are compared.
type adoptType struct {
	typ    reflect.Type
	kind   adoptKind
	size   uintptr
	elem   *adoptType // of a pointer or a slice
	fields []adoptField
}

type adoptField struct {
	offset uintptr
	typ    *adoptType
}

type adoptKind uint8

const (
	adoptOther  adoptKind = iota // compared whole by reflection
	adoptBytes                   // numbers and bools
	adoptString                  // by value; equal ones are mostly one already
	adoptTime
	adoptQuantity
	adoptStruct
	adoptPointer
	adoptSlice
	adoptStringMap
)

func (a adopter) typeOf(t reflect.Type) *adoptType {
	if known := a[t]; known != nil {
		return known
	}
	at := &adoptType{typ: t, size: t.Size()}
	a[t] = at
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		at.kind = adoptBytes
	case reflect.String:
		at.kind = adoptString
	case reflect.Pointer:
		at.kind, at.elem = adoptPointer, a.typeOf(t.Elem())
	case reflect.Slice:
		at.kind, at.elem = adoptSlice, a.typeOf(t.Elem())
	case reflect.Map:
		if t == reflect.TypeFor[map[string]string]() {
			at.kind = adoptStringMap
		}
	case reflect.Struct:
		switch t {
		case reflect.TypeFor[metav1.Time]():
			at.kind = adoptTime
		case reflect.TypeFor[resource.Quantity]():
			at.kind = adoptQuantity
		default:
			at.kind = adoptStruct
			for i := range t.NumField() {
				f := t.Field(i)
				if !f.IsExported() {
					at.kind, at.fields = adoptOther, nil // whose parts are not ours to write to
					return at
				}
				at.fields = append(at.fields, adoptField{f.Offset, a.typeOf(f.Type)})
			}
		}
	}
	return at
}

// adopt makes the parts of *new that are equal to those of *old the same ones. It may write to anything in *new, and to
// nothing in *old, which are pointers of one type.
func (a adopter) adopt(old, new any) {
	o, n := reflect.ValueOf(old), reflect.ValueOf(new)
	a.typeOf(n.Type().Elem()).adopt(o.UnsafePointer(), n.UnsafePointer(), 0)
}

// adopt does so with the t at new and the one at old, and returns whether they are equal.
func (t *adoptType) adopt(old, new unsafe.Pointer, depth int) bool {
	if depth++; depth > maxNesting {
		return false
	}
	equal := true
	switch t.kind {
	case adoptBytes:
		switch t.size {
		case 1:
			return *(*uint8)(old) == *(*uint8)(new)
		case 2:
			return *(*uint16)(old) == *(*uint16)(new)
		case 4:
			return *(*uint32)(old) == *(*uint32)(new)
		}
		return *(*uint64)(old) == *(*uint64)(new)
	case adoptString:
		return *(*string)(old) == *(*string)(new)
	case adoptTime:
		return *(*metav1.Time)(old) == *(*metav1.Time)(new)
	case adoptQuantity:
		return *(*resource.Quantity)(old) == *(*resource.Quantity)(new)
	case adoptStruct:
		for i := range t.fields {
			f := &t.fields[i]
			equal = f.typ.adopt(unsafe.Add(old, f.offset), unsafe.Add(new, f.offset), depth) && equal
		}
		return equal
	case adoptPointer:
		o, n := *(*unsafe.Pointer)(old), *(*unsafe.Pointer)(new)
		if o == n || o == nil || n == nil {
			return o == n
		}
		if equal = t.elem.adopt(o, n, depth); equal {
			*(*unsafe.Pointer)(new) = o
		}
		return equal
	case adoptSlice:
		o, n := (*words)(old), (*words)(new)
		for i := range uintptr(min(o.len, n.len)) {
			equal = t.elem.adopt(unsafe.Add(o.data, i*t.elem.size), unsafe.Add(n.data, i*t.elem.size), depth) && equal
		}
		if equal = equal && o.len == n.len && (o.data == nil) == (n.data == nil); equal {
			*n = *o
		}
		return equal
	case adoptStringMap:
		o, n := *(*map[string]string)(old), *(*map[string]string)(new)
		if equal = (o == nil) == (n == nil) && maps.Equal(o, n); equal {
			*(*map[string]string)(new) = o
		}
		return equal
	}
	o, n := reflect.NewAt(t.typ, old).Elem(), reflect.NewAt(t.typ, new).Elem()
	if equal = reflect.DeepEqual(o.Interface(), n.Interface()); equal {
		n.Set(o)
	} else if n, ok := n.Interface().(map[string]any); ok { // an unstructured object
		adoptMap(o.Interface().(map[string]any), n)
	}
	return equal
}

// adoptMap makes the equal parts of two unstructured objects that differ the same ones.
func adoptMap(old, new map[string]any) {
	for key, value := range new {
		was, ok := old[key]
		if !ok {
			continue
		}
		if reflect.DeepEqual(was, value) {
			new[key] = was
			continue
		}
		o, isMap := was.(map[string]any)
		if n, alsoMap := value.(map[string]any); isMap && alsoMap {
			adoptMap(o, n)
		}
	}
}
