package decode

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plans caches the plan of each type that a decoder met. It is not safe for concurrent use.
type plans map[reflect.Type]*plan

// plan describes how to decode one Go type from JSON and from protobuf, and how to compare two values of it in order to
// share them. The parts that depend on the fields of the type are computed at first use, since most types are never
// used.
type plan struct {
	typ    reflect.Type
	size   uintptr
	elem   *plan      // of a pointer, a slice, an array or a map
	slices sliceMaker // of this type, if it is a slice
	// retains means that a method which decodes into a value of the type may keep its receiver; see receiver.
	retains bool

	json jsonKind
	// members are the fields of a struct in JSON, including those of embedded structs. names finds a member. embedded is
	// the total size of the structs that are embedded by pointers.
	members     []member
	embedded    uintptr
	names       nameTable
	jsonLearned bool
	// scratch is a slice to collect elements in, or a value for an element of the pointer or map. It is invalid while in
	// use.
	scratch reflect.Value
	unused  reflect.Value // points to a value to decode into that nobody wants

	wire wireKind
	// numbers are the fields of a message by number. The plan of an unused number is nil.
	numbers     []number
	wireLearned bool

	same        sameKind
	floats      bool   // with sameOther and sameTree: it can contain floats
	parts       []part // the fields of a struct
	sameLearned bool
}

// member is one field of a struct in JSON.
type member struct {
	field
	plan *plan // of its type
	hits hits
}

// number is one field of a protobuf message.
type number struct {
	plan   *plan
	offset uintptr // in the struct, in bytes
	index  int     // in the struct
	hits   hits
}

// part is one field of a struct, to compare and share.
type part struct {
	plan   *plan
	offset uintptr
}

// jsonKind is how a type is decoded from JSON.
type jsonKind uint8

const (
	// jsonWhole is a type whose methods apply only in some places. The library decodes the whole of an object that has
	// one.
	jsonWhole  jsonKind = iota
	jsonOther           // the library decodes it
	jsonText            // it has UnmarshalText, which the library calls
	jsonMethod          // it has UnmarshalJSON
	jsonBytes           // base64
	jsonAny             // decoded as in an unstructured object
	jsonTime            // metav1.Time
	jsonString
	jsonBool
	jsonInt
	jsonUint
	jsonStruct
	jsonPointer
	jsonSlice
	jsonMap
	jsonStringMap // map[string]string
)

// wireKind is how a type is decoded from protobuf.
type wireKind uint8

const (
	wireOther  wireKind = iota // unknown: a message with such a field is decoded by its own method
	wireMethod                 // a message that decodes itself
	wireTime                   // metav1.Time, which decodes itself too
	wireMessage
	wireString
	wireByteSlice
	wireBool // from here to wireInt64: numbers
	wireInt32
	wireInt64
	wirePointer
	wireSlice
	wireMap
)

// sameKind is how two values of a type are compared.
type sameKind uint8

const (
	sameOther  sameKind = iota // as a whole, by reflection
	sameBytes                  // numbers and bools
	sameString                 // by value; equal strings mostly share memory already
	sameTime
	sameQuantity
	sameStruct
	samePointer
	sameSlice
	sameStringMap
	sameTree // any, map[string]any
)

const (
	maxFields      = 128  // of a struct that jsonDecoder decodes
	maxFieldNumber = 1000 // of a message that protobufDecoder decodes
)

var (
	timeType      = reflect.TypeFor[metav1.Time]()
	stringMapType = reflect.TypeFor[map[string]string]()
	anyType       = reflect.TypeFor[any]()
	anyMapType    = reflect.TypeFor[map[string]any]()
)

// of returns the plan of t.
func (ps plans) of(t reflect.Type) *plan {
	if known := ps[t]; known != nil {
		return known
	}
	p := &plan{typ: t, size: t.Size(), retains: mayRetain(t)}
	ps[t] = p
	switch t.Kind() {
	case reflect.Slice:
		p.slices = newSliceMaker(t)
		p.elem = ps.of(t.Elem())
	case reflect.Pointer, reflect.Array, reflect.Map:
		p.elem = ps.of(t.Elem())
	}
	p.json, p.wire, p.same = jsonKindOf(t), wireKindOf(t), sameKindOf(t)
	p.floats = (p.same == sameOther || p.same == sameTree) && holdsFloats(t, map[reflect.Type]bool{})
	return p
}

// mayRetain reports whether a method of t, or of a type in it, may keep its receiver when it decodes.
func mayRetain(t reflect.Type) bool {
	if from := t.PkgPath(); strings.HasPrefix(from, "k8s.io/") || from == "time" {
		return false
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array, reflect.Interface:
		return true
	}
	pointer := reflect.PointerTo(t)
	return pointer.Implements(jsonUnmarshalerType) || pointer.Implements(textUnmarshalerType) ||
		pointer.Implements(messageType)
}

// jsonKindOf returns how t is decoded from JSON. It ignores the types of its fields.
func jsonKindOf(t reflect.Type) jsonKind {
	whole := false
	if t.Kind() != reflect.Pointer { // a pointer has the methods of its element
		pointer := reflect.PointerTo(t)
		method, text := pointer.Implements(jsonUnmarshalerType), pointer.Implements(textUnmarshalerType)
		switch {
		case t == timeType:
			return jsonTime
		case method && t.Name() != "":
			return jsonMethod
		case text && t.Name() != "":
			return jsonText
		case method || text: // the library calls them only behind a pointer
			whole = true
		}
	}
	kind := jsonOther
	switch t.Kind() {
	case reflect.String:
		if t != jsonNumberType {
			kind = jsonString
		}
	case reflect.Bool:
		kind = jsonBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		kind = jsonInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		kind = jsonUint
	case reflect.Interface:
		if t.NumMethod() == 0 {
			kind = jsonAny
		}
	case reflect.Pointer:
		switch {
		case t.Name() != "": // the library ignores the methods of the element
			kind = jsonWhole
		case t.Elem().Kind() != reflect.Pointer:
			kind = jsonPointer
		}
	case reflect.Slice:
		kind = jsonSlice
		if t.Elem().Kind() == reflect.Uint8 {
			kind = jsonBytes
		}
	case reflect.Map:
		switch {
		case t == stringMapType:
			kind = jsonStringMap
		case t.Key().Kind() == reflect.String && !reflect.PointerTo(t.Key()).Implements(textUnmarshalerType):
			kind = jsonMap
		}
	case reflect.Struct:
		known := fieldsOf(t).fields
		if len(known) <= maxFields && !slices.ContainsFunc(known,
			func(f field) bool { return f.quoted || f.pointer || f.locked || f.opaque }) {
			kind = jsonStruct
		}
	}
	if whole {
		return jsonWhole
	}
	return kind
}

// shareable reports whether several objects can share a value of the type.
func (p *plan) shareable() bool {
	return p.json == jsonPointer || p.json == jsonSlice || p.json == jsonMap || p.json == jsonStringMap
}

// learnJSON computes the members of a struct.
func (ps plans) learnJSON(p *plan) {
	if p.jsonLearned {
		return
	}
	p.jsonLearned = true
	known := fieldsOf(p.typ)
	p.embedded = known.embedded
	p.members = make([]member, len(known.fields))
	names := make([]string, len(known.fields))
	for i, f := range known.fields {
		p.members[i] = member{field: f, plan: ps.of(f.typ)}
		names[i] = f.name
	}
	p.names = newNameTable(names)
}

// member returns the plan of the member called name, or nil if there is no such member.
func (p *plan) member(name []byte) *plan {
	if index := p.names.find(name); index >= 0 && p.members[index].name == string(name) {
		return p.members[index].plan
	}
	return nil
}

// wireKindOf returns how t is decoded from protobuf. It ignores its fields.
func wireKindOf(t reflect.Type) wireKind {
	method := t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(messageType)
	switch {
	case t == timeType:
		return wireTime
	case t.Kind() == reflect.Struct && method:
		return wireMessage // learnWire may change it to wireMethod
	case method:
		return wireMethod
	}
	switch t.Kind() {
	case reflect.String:
		return wireString
	case reflect.Bool:
		return wireBool
	case reflect.Int32, reflect.Uint32:
		return wireInt32
	case reflect.Int64, reflect.Uint64:
		return wireInt64
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return wireByteSlice
		}
		return wireSlice
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return wireMap
		}
	case reflect.Pointer:
		if t.Elem().Kind() != reflect.Pointer {
			return wirePointer
		}
	}
	return wireOther
}

// learnWire computes the fields of a message. It returns false if a field is unlike those of the API's types: the
// message's own method then decodes it.
func (ps plans) learnWire(p *plan) bool {
	if p.wireLearned {
		return p.wire == wireMessage
	}
	p.wireLearned = true
	p.numbers = numbersOf(p.typ)
	known := p.numbers != nil
	for i := range p.numbers {
		f := &p.numbers[i]
		if f.index < 0 {
			continue
		}
		f.plan = ps.of(p.typ.Field(f.index).Type)
		kind := f.plan.wire
		if kind >= wirePointer {
			kind = f.plan.elem.wire
		}
		known = known && kind != wireOther && kind < wirePointer
	}
	if !known {
		p.wire = wireMethod
	}
	return known
}

// numbersOf returns the fields of a message without their plans, or nil if one of them is unlike those of the API's
// types.
func numbersOf(t reflect.Type) []number {
	numbers := []number{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() && f.Tag.Get("protobuf") == "" {
			continue // it is in the envelope
		}
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 || !f.IsExported() || tag[0] != "bytes" && tag[0] != "varint" {
			return nil
		}
		n, err := strconv.Atoi(tag[1])
		// The method of a message checks that required fields are present.
		if err != nil || n <= 0 || n > maxFieldNumber || len(tag) > 2 && tag[2] == "req" {
			return nil
		}
		for len(numbers) <= n {
			numbers = append(numbers, number{index: -1})
		}
		if numbers[n].index >= 0 {
			return nil
		}
		numbers[n] = number{offset: f.Offset, index: i}
	}
	return numbers
}

// sameKindOf returns how values of type t are compared.
func sameKindOf(t reflect.Type) sameKind {
	if t == anyType || t == anyMapType {
		return sameTree
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return sameBytes
	case reflect.String:
		return sameString
	case reflect.Pointer:
		return samePointer
	case reflect.Slice:
		return sameSlice
	case reflect.Map:
		if t == stringMapType {
			return sameStringMap
		}
	case reflect.Struct:
		switch t {
		case timeType:
			return sameTime
		case reflect.TypeFor[resource.Quantity]():
			return sameQuantity
		}
		for i := range t.NumField() {
			if !t.Field(i).IsExported() {
				return sameOther // adopt must not modify its unexported fields
			}
		}
		return sameStruct
	}
	return sameOther
}

// learnSame computes the parts of a struct.
func (ps plans) learnSame(p *plan) {
	if p.sameLearned {
		return
	}
	p.sameLearned = true
	for i := range p.typ.NumField() {
		f := p.typ.Field(i)
		p.parts = append(p.parts, part{ps.of(f.Type), f.Offset})
	}
}

// nameTable finds a name among a few. The caller must compare the name that it finds.
type nameTable struct {
	slots   []uint8 // 1 + the index of the name; 0 if empty
	a, b    uint32
	indexes map[string]int // used if no table without collisions was found
}

func newNameTable(names []string) nameTable {
	size := 4
	for size < 2*len(names) {
		size *= 2
	}
	for ; size <= 1024 && len(names) <= maxFields; size *= 2 {
	next:
		for seed := uint32(1); seed < 200; seed++ {
			t := nameTable{slots: make([]uint8, size), a: seed * 2654435761, b: seed*40503 + 1}
			for i, name := range names {
				slot := &t.slots[t.slot([]byte(name))]
				if *slot != 0 {
					continue next
				}
				*slot = uint8(i + 1)
			}
			return t
		}
	}
	t := nameTable{indexes: map[string]int{}}
	for i, name := range names {
		t.indexes[name] = i
	}
	return t
}

// slot returns the slot of a name: a hash of its length and four of its bytes.
func (t *nameTable) slot(name []byte) uint32 {
	n := uint32(len(name))
	if n == 0 {
		return 0
	}
	h := n*t.b + uint32(name[0]) + uint32(name[n/2])<<8 + uint32(name[n-1])<<16 + uint32(name[n/3])<<24
	h *= t.a
	return (h ^ h>>15) & uint32(len(t.slots)-1)
}

func (t *nameTable) find(name []byte) int {
	if t.indexes != nil {
		if i, ok := t.indexes[string(name)]; ok {
			return i
		}
		return -1
	}
	return int(t.slots[t.slot(name)]) - 1
}

// words is a slice header. A pointer or a map is its first word.
type words struct {
	data     unsafe.Pointer
	len, cap int
}

// sliceMaker makes slices of one type.
type sliceMaker struct {
	slice reflect.Value // a nil slice, except during make
	words *words        // the words of slice
}

func newSliceMaker(t reflect.Type) sliceMaker {
	p := reflect.New(t)
	return sliceMaker{p.Elem(), (*words)(p.UnsafePointer())}
}

// make stores a slice of length and capacity n at p, and returns the address of its elements.
func (m *sliceMaker) make(n int, p unsafe.Pointer) unsafe.Pointer {
	m.slice.Grow(n)
	m.slice.SetLen(n)
	m.slice.SetCap(n)
	*(*words)(p) = *m.words
	*m.words = words{}
	return (*words)(p).data
}
