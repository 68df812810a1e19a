package informer

import (
	"encoding/binary"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// protobufDecoder decodes what API servers write: it knows messages from the protobuf tags of their fields, as the code that
// is generated for them does, but gives each slice and map the size that it needs at once, and makes strings that repeat one.
// What it was not made for it refuses, and the generated code decodes that object from its beginning. So it must never
// accept what the generated code refuses or understands otherwise.
//
// It learns the types that it meets: it is for one goroutine.
type protobufDecoder struct {
	types             map[reflect.Type]*wireType
	strings           *interner
	keepManagedFields bool

	shared *sharer // nil when the object is to have memory of its own
	left   budget  // of what the object may take
	// inMetadata says that the field of the object itself that is being decoded is its metadata.
	inMetadata bool
}

// wireType is how one Go type is decoded.
type wireType struct {
	kind wireKind
	typ  reflect.Type
	size uintptr
	elem *wireType // of a pointer, a slice or a map
	// fields of a message are found by number; typ is nil where there is none.
	fields []wireFieldType
	slices sliceMaker // of this type, if it is a slice
	known  bool       // the types of fields are worked out: at the first use, since most types are never used
}

type wireFieldType struct {
	typ    *wireType
	offset uintptr // in the struct
	index  int     // the same
	hits   hits
}

type wireKind uint8

const (
	wireOther  wireKind = iota // nothing that is known: the message that has it is decoded by its own method
	wireMethod                 // a message that decodes itself
	wireTime                   // metav1.Time, which does so too
	wireMessage
	wireString
	wireByteSlice
	wireBool // this and the next are numbers
	wireInt32
	wireInt64
	wirePointer
	wireSlice
	wireMap
)

// maxFieldNumber is the highest field number of a message that is known here.
const maxFieldNumber = 1000

func newProtobufDecoder(keepManagedFields bool, strings *interner) *protobufDecoder {
	return &protobufDecoder{types: map[reflect.Type]*wireType{}, strings: strings, keepManagedFields: keepManagedFields}
}

// decode decodes raw into v, which is zero. It returns false, with parts of v written to, when the generated code has to
// do it.
func (d *protobufDecoder) decode(raw []byte, v reflect.Value, shared *sharer) (ok bool, err error) {
	t := d.typeOf(v.Type())
	if t.kind != wireMessage {
		return false, nil
	}
	d.shared, d.left = shared, maxDecoded
	defer func() { d.shared = nil }()
	ok = d.message(raw, v.Addr().UnsafePointer(), t, 1)
	if d.left < 0 {
		return false, errDecodedTooLarge
	}
	return ok, nil
}

// unknownBytes is what a byte of a message may become in memory, of whose type nothing is known.
const unknownBytes = 32

// fits says whether what the generated code makes of msg, a t, takes no more than an object may. What is no message as it
// should be does: to refuse it is for the generated code.
func (d *protobufDecoder) fits(msg []byte, t reflect.Type) bool {
	d.left = maxDecoded
	d.measure(msg, d.typeOf(t))
	return d.left >= 0
}

// measure takes from the budget what the generated code makes of msg, a t.
func (d *protobufDecoder) measure(msg []byte, t *wireType) {
	if t.kind != wireMessage || !t.known && !d.learn(t) {
		d.left.take(unknownBytes * len(msg))
		return
	}
	_ = wireFields(msg, func(f wireField) bool {
		if f.number >= len(t.fields) || t.fields[f.number].typ == nil {
			return true
		}
		field := t.fields[f.number].typ
		one := field // of what there is one more
		switch field.kind {
		case wireSlice:
			one = field.elem
			n := 1
			if f.wire == wireBytes && one.kind >= wireBool {
				n = len(f.bytes) // of packed numbers, at most
			}
			d.left.take(2 * n * int(one.size)) // slices grow by doubling
		case wireMap:
			one = field.elem
			d.left.take(2 * (int(one.size) + 16))
		case wirePointer:
			one = field.elem
			d.left.take(int(one.size))
		}
		switch {
		case one.kind != wireMessage && one.kind != wireMethod || f.wire != wireBytes:
		case field.kind != wireMap:
			d.measure(f.bytes, one)
		default:
			_ = wireFields(f.bytes, func(entry wireField) bool {
				if entry.number == mapValue>>3 {
					d.measure(entry.bytes, one)
				}
				return d.left >= 0
			})
		}
		return d.left >= 0
	})
}

var wireUnmarshalerType = reflect.TypeFor[unmarshaler]()

// typeOf returns how t is decoded.
func (d *protobufDecoder) typeOf(t reflect.Type) *wireType {
	if known := d.types[t]; known != nil {
		return known
	}
	w := &wireType{typ: t, size: t.Size()}
	d.types[t] = w
	method := t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(wireUnmarshalerType)
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		w.kind = wireTime
	case t.Kind() == reflect.Struct && method:
		w.kind = wireMethod
		if w.fields = wireFieldsOf(t); w.fields != nil {
			w.kind = wireMessage
		}
	case method:
		w.kind = wireMethod
	case t.Kind() == reflect.String:
		w.kind = wireString
	case t.Kind() == reflect.Bool:
		w.kind = wireBool
	case t.Kind() == reflect.Int32 || t.Kind() == reflect.Uint32:
		w.kind = wireInt32
	case t.Kind() == reflect.Int64 || t.Kind() == reflect.Uint64:
		w.kind = wireInt64
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		w.kind = wireByteSlice
	case t.Kind() == reflect.Slice:
		w.kind, w.elem, w.slices = wireSlice, d.typeOf(t.Elem()), newSliceMaker(t)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		w.kind, w.elem = wireMap, d.typeOf(t.Elem())
	case t.Kind() == reflect.Pointer && t.Elem().Kind() != reflect.Pointer:
		w.kind, w.elem = wirePointer, d.typeOf(t.Elem())
	}
	return w
}

// wireFieldsOf returns the fields of a message, nil when one of them is not like those of the API's types. Their types are
// not set.
func wireFieldsOf(t reflect.Type) []wireFieldType {
	fields := []wireFieldType{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() && f.Tag.Get("protobuf") == "" {
			continue // it is in the envelope
		}
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 || !f.IsExported() || tag[0] != "bytes" && tag[0] != "varint" {
			return nil
		}
		number, err := strconv.Atoi(tag[1])
		if err != nil || number <= 0 || number > maxFieldNumber || len(tag) > 2 && tag[2] == "req" { // who requires it, looks whether it is there
			return nil
		}
		for len(fields) <= number {
			fields = append(fields, wireFieldType{index: -1})
		}
		if fields[number].index >= 0 {
			return nil
		}
		fields[number] = wireFieldType{offset: f.Offset, index: i}
	}
	return fields
}

// learn works out the types of the fields. It returns false when one of them is not known.
func (d *protobufDecoder) learn(t *wireType) bool {
	t.known = true
	for i := range t.fields {
		f := &t.fields[i]
		if f.index < 0 {
			continue
		}
		f.typ = d.typeOf(t.typ.Field(f.index).Type)
		kind := f.typ.kind
		if kind >= wirePointer {
			kind = f.typ.elem.kind
		}
		if kind == wireOther || kind >= wirePointer {
			t.kind = wireMethod
			return false
		}
	}
	return true
}

// message decodes a message into the t at p. Servers write fields in the order of their numbers, each once, and the
// elements of a repeated one together; that is what is taken.
func (d *protobufDecoder) message(msg []byte, p unsafe.Pointer, t *wireType, depth int) bool {
	if !t.known && !d.learn(t) {
		return depth > 1 && d.left.take(unknownBytes*len(msg)) && unmarshalerAt(p, t).Unmarshal(msg) == nil
	}
	last := uint64(0)
	for i := 0; i < len(msg); {
		from := i
		tag, i1 := uvarintAt(msg, i)
		if i = i1; i == 0 {
			return false
		}
		number := tag >> 3
		if number >= uint64(len(t.fields)) || t.fields[number].typ == nil {
			if i = skipAt(msg, i, tag); i == 0 {
				return false
			}
			continue
		}
		if number <= last {
			return false
		}
		last = number
		known := &t.fields[number]
		to := unsafe.Add(p, known.offset)
		if tag&7 == wireVarint {
			var value uint64
			if known.typ.kind == wireSlice {
				i = d.numbers(msg, i, tag, to, known.typ)
			} else if value, i = uvarintAt(msg, i); i > 0 && !d.number(value, to, known.typ) {
				return false
			}
			if i == 0 {
				return false
			}
			continue
		}
		if tag&7 != wireBytes {
			return false
		}
		body, end := bodyAt(msg, i)
		if i = end; i == 0 {
			return false
		}
		if depth == 1 {
			d.inMetadata = number == objectMetadata
		}
		n := 1
		if known.typ.kind >= wireSlice {
			for i < len(msg) { // the others of the same field
				next, at := uvarintAt(msg, i)
				if next != tag || at == 0 {
					break
				}
				if _, i = bodyAt(msg, at); i == 0 {
					return false
				}
				n++
			}
			if depth == 2 && d.inMetadata && number == metaManaged && !d.keepManagedFields {
				continue
			}
			body = msg[from:i]
		}
		share := d.shared != nil && known.typ.kind >= wirePointer && known.hits.worth()
		if share {
			found := d.shared.find(body, known.typ.typ, to)
			if known.hits.note(found); found {
				continue
			}
		}
		if known.typ.kind < wireSlice && !d.single(body, to, known.typ, depth) || known.typ.kind >= wireSlice && !d.repeated(body, n, to, known.typ, depth) {
			return false
		}
		if share {
			d.shared.put(body, known.typ.typ, to)
		}
	}
	return true
}

// uvarintAt returns the number at msg[i] and where the next thing begins, 0 when there is none.
func uvarintAt(msg []byte, i int) (uint64, int) {
	if i < len(msg) && msg[i] < 0x80 {
		return uint64(msg[i]), i + 1
	}
	return longUvarintAt(msg, i)
}

func longUvarintAt(msg []byte, i int) (uint64, int) {
	v, n := binary.Uvarint(msg[min(i, len(msg)):])
	if n <= 0 {
		return 0, 0
	}
	return v, i + n
}

// bodyAt returns what stands behind its length at msg[i], and where the next thing begins, 0 when it is not all there.
func bodyAt(msg []byte, i int) ([]byte, int) {
	size, i := uvarintAt(msg, i)
	if i == 0 || size > uint64(len(msg)-i) {
		return nil, 0
	}
	end := i + int(size)
	return msg[i:end:end], end
}

// skipAt returns where the field ends that has that tag and goes on at msg[i], 0 when it is none.
func skipAt(msg []byte, i int, tag uint64) int {
	if tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return 0
	}
	switch tag & 7 {
	case wireVarint:
		_, i = uvarintAt(msg, i)
	case wireBytes:
		_, i = bodyAt(msg, i)
	case wireFixed64:
		i += 8
	case wireFixed32:
		i += 4
	default:
		return 0
	}
	if i > len(msg) {
		return 0
	}
	return i
}

// number sets the t at p, or one that it points to from now on.
func (d *protobufDecoder) number(value uint64, p unsafe.Pointer, t *wireType) bool {
	if t.kind == wirePointer {
		p, t = d.pointTo(p, t.elem), t.elem
	}
	switch t.kind {
	case wireBool:
		*(*bool)(p) = value != 0
	case wireInt32:
		*(*uint32)(p) = uint32(value)
	case wireInt64:
		*(*uint64)(p) = value
	default:
		return false
	}
	return true
}

// numbers decodes the numbers of a repeated field with that tag, of which the first is at msg[i], into the t at p, and
// returns where the next field begins, 0 for a failure.
func (d *protobufDecoder) numbers(msg []byte, i int, tag uint64, p unsafe.Pointer, t *wireType) int {
	slice := reflect.NewAt(t.typ, p).Elem()
	for n := 0; ; n++ {
		value, next := uvarintAt(msg, i)
		if next == 0 || !d.left.take(int(t.elem.size)) {
			return 0
		}
		slice.Grow(1)
		slice.SetLen(n + 1)
		if !d.number(value, slice.Index(n).Addr().UnsafePointer(), t.elem) {
			return 0
		}
		if i = next; i == len(msg) {
			break
		}
		if again, next := uvarintAt(msg, i); again == tag && next > 0 {
			i = next
		} else {
			break
		}
	}
	slice.Set(slice.Slice3(0, slice.Len(), slice.Len()))
	return i
}

// pointTo has the pointer at p point to a new t.
func (d *protobufDecoder) pointTo(p unsafe.Pointer, t *wireType) unsafe.Pointer {
	d.left.take(int(t.size))
	to := reflect.New(t.typ).UnsafePointer()
	*(*unsafe.Pointer)(p) = to
	return to
}

// unmarshalerAt returns the t at p, whose pointer has the method.
func unmarshalerAt(p unsafe.Pointer, t *wireType) unmarshaler {
	return reflect.NewAt(t.typ, p).Interface().(unmarshaler)
}

// single decodes a field that is no number and not repeated, or one element of one that is, into the t at p.
func (d *protobufDecoder) single(body []byte, p unsafe.Pointer, t *wireType, depth int) bool {
	if t.kind == wirePointer {
		p, t = d.pointTo(p, t.elem), t.elem
	}
	switch t.kind {
	case wireString:
		*(*string)(p) = d.strings.get(body)
	case wireMessage:
		return d.left >= 0 && d.message(body, p, t, depth+1)
	case wireTime:
		return (*metav1.Time)(p).Unmarshal(body) == nil
	case wireMethod:
		return d.left.take(unknownBytes*len(body)) && unmarshalerAt(p, t).Unmarshal(body) == nil
	case wireByteSlice:
		*(*[]byte)(p) = append([]byte{}, body...)
	default:
		return false
	}
	return true
}

// repeated decodes the n elements of a repeated field into the t at p.
func (d *protobufDecoder) repeated(elements []byte, n int, p unsafe.Pointer, t *wireType, depth int) bool {
	if !d.left.take(n * (int(t.elem.size) + 16)) {
		return false
	}
	if t.kind == wireMap {
		return d.mapping(elements, n, p, t, depth)
	}
	if t.elem.kind >= wireBool {
		return false
	}
	first := t.slices.make(n, p)
	for i, at := 0, 0; i < n; i++ {
		_, at = uvarintAt(elements, at)
		var body []byte
		if body, at = bodyAt(elements, at); !d.single(body, unsafe.Add(first, uintptr(i)*t.elem.size), t.elem, depth) {
			return false
		}
	}
	return true
}

// Tags of the entries of a map.
const (
	mapKey   = 1<<3 | wireBytes
	mapValue = 2<<3 | wireBytes
)

// entryAt reads the entry of a map that begins at elements[i], and returns where the next one begins, 0 when it is none
// with a key and a value that is no number.
func entryAt(elements []byte, i int) (key, value []byte, end int) {
	_, i = uvarintAt(elements, i)
	entry, end := bodyAt(elements, i)
	tag, at := uvarintAt(entry, 0)
	if tag != mapKey {
		return nil, nil, 0
	}
	if key, at = bodyAt(entry, at); at == 0 {
		return nil, nil, 0
	}
	if at < len(entry) { // an empty value need not be there
		tag, at = uvarintAt(entry, at)
		if value, at = bodyAt(entry, at); tag != mapValue || at != len(entry) {
			return nil, nil, 0
		}
	}
	return key, value, end
}

func (d *protobufDecoder) mapping(elements []byte, n int, p unsafe.Pointer, t *wireType, depth int) bool {
	if t.typ == reflect.TypeFor[map[string]string]() {
		m := make(map[string]string, n)
		for at := 0; at < len(elements); {
			var key, value []byte
			if key, value, at = entryAt(elements, at); at == 0 {
				return false
			}
			m[d.strings.get(key)] = d.strings.get(value)
		}
		*(*map[string]string)(p) = m
		return len(m) == n
	}
	m := reflect.MakeMapWithSize(t.typ, n)
	k, e := reflect.New(t.typ.Key()).Elem(), reflect.New(t.elem.typ).Elem()
	for at := 0; at < len(elements); {
		var key, value []byte
		if key, value, at = entryAt(elements, at); at == 0 {
			return false
		}
		if e.SetZero(); t.elem.kind == wireMethod && e.Kind() == reflect.Slice {
			e.Set(reflect.MakeSlice(t.elem.typ, 0, 0)) // as the generated code begins
		}
		if !d.single(value, e.Addr().UnsafePointer(), t.elem, depth) {
			return false
		}
		k.SetString(d.strings.get(key))
		m.SetMapIndex(k, e)
	}
	reflect.NewAt(t.typ, p).Elem().Set(m)
	return m.Len() == n
}
