package informer

import (
	"encoding/binary"
	"math"
	"reflect"
	"strconv"
	"strings"

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

	budget int // how much memory the values of the object may still take
	// inMetadata says that the field of the object itself that is being decoded is its metadata.
	inMetadata bool
}

// wireType is how one Go type is decoded.
type wireType struct {
	kind   wireKind
	typ    reflect.Type
	elem   *wireType // of a pointer, a slice or a map
	fields []wireFieldType
	// byNumber has for each field number 1 + the place in fields, 0 for none.
	byNumber []uint8
	known    bool // fields are worked out: at the first use, since most types are never used
}

type wireFieldType struct {
	number, index int
	typ           *wireType
}

type wireKind uint8

const (
	wireOther  wireKind = iota // nothing that is known: the message that has it is decoded by its own method
	wireMethod                 // a message that decodes itself
	wireMessage
	wireString
	wireByteSlice
	wireBool
	wireInt
	wireUint
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
func (d *protobufDecoder) decode(raw []byte, v reflect.Value) (ok bool, err error) {
	t := d.typeOf(v.Type())
	if t.kind != wireMessage {
		return false, nil
	}
	d.budget = maxDecoded
	ok = d.message(raw, v, t, 1)
	if d.budget < 0 {
		return false, errDecodedTooLarge
	}
	return ok, nil
}

var wireUnmarshalerType = reflect.TypeFor[unmarshaler]()

// typeOf returns how t is decoded.
func (d *protobufDecoder) typeOf(t reflect.Type) *wireType {
	if known := d.types[t]; known != nil {
		return known
	}
	w := &wireType{typ: t}
	d.types[t] = w
	method := t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(wireUnmarshalerType)
	switch {
	case t.Kind() == reflect.Struct && method:
		if w.fields = wireFieldsOf(t); w.fields != nil {
			w.kind = wireMessage
		} else {
			w.kind = wireMethod
		}
	case method:
		w.kind = wireMethod
	case t.Kind() == reflect.String:
		w.kind = wireString
	case t.Kind() == reflect.Bool:
		w.kind = wireBool
	case t.Kind() == reflect.Int32 || t.Kind() == reflect.Int64:
		w.kind = wireInt
	case t.Kind() == reflect.Uint32 || t.Kind() == reflect.Uint64:
		w.kind = wireUint
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		w.kind = wireByteSlice
	case t.Kind() == reflect.Slice:
		w.kind, w.elem = wireSlice, d.typeOf(t.Elem())
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
		if err != nil || number <= 0 || number > maxFieldNumber || len(fields) == math.MaxUint8 {
			return nil
		}
		if len(tag) > 2 && tag[2] == "req" {
			return nil // the generated code finds out whether it is there
		}
		fields = append(fields, wireFieldType{number: number, index: i})
	}
	return fields
}

// learn works out the types of the fields. It returns false when one of them is not known.
func (d *protobufDecoder) learn(t *wireType) bool {
	t.known = true
	for i := range t.fields {
		f := &t.fields[i]
		f.typ = d.typeOf(t.typ.Field(f.index).Type)
		kind := f.typ.kind
		if kind >= wirePointer {
			kind = f.typ.elem.kind
		}
		if kind == wireOther || kind >= wirePointer {
			t.kind = wireMethod
			return false
		}
		for len(t.byNumber) <= f.number {
			t.byNumber = append(t.byNumber, 0)
		}
		if t.byNumber[f.number] != 0 {
			t.kind = wireMethod
			return false
		}
		t.byNumber[f.number] = uint8(i + 1)
	}
	return true
}

// part is a field of a message in memory: body for wireBytes, value for wireVarint.
type part struct {
	tag   uint64
	value uint64
	body  []byte
	to    int // where the next one begins; 0 when this is none
}

// fieldAt reads the field that begins at msg[i].
func fieldAt(msg []byte, i int) (f part) {
	f.tag, i = uvarintAt(msg, i)
	if i == 0 || f.tag>>3 == 0 || f.tag>>3 > math.MaxInt32 {
		return part{}
	}
	switch f.tag & 7 {
	case wireVarint:
		f.value, f.to = uvarintAt(msg, i)
	case wireBytes:
		size, i := uvarintAt(msg, i)
		if i == 0 || size > uint64(len(msg)-i) {
			return part{}
		}
		f.to = i + int(size)
		f.body = msg[i:f.to]
	case wireFixed64:
		f.to = i + 8
	case wireFixed32:
		f.to = i + 4
	}
	if f.to > len(msg) {
		return part{}
	}
	return f
}

// uvarintAt returns the number at msg[i] and where the next thing begins, 0 when there is none.
func uvarintAt(msg []byte, i int) (uint64, int) {
	if i < len(msg) && msg[i] < 0x80 {
		return uint64(msg[i]), i + 1
	}
	v, n := binary.Uvarint(msg[min(i, len(msg)):])
	if n <= 0 {
		return 0, 0
	}
	return v, i + n
}

// message decodes a message into v. Servers write fields in the order of their numbers, each once, and the elements of a
// repeated one together; that is what is taken.
func (d *protobufDecoder) message(msg []byte, v reflect.Value, t *wireType, depth int) bool {
	if !t.known && !d.learn(t) || t.kind != wireMessage {
		return t.kind == wireMethod && depth > 1 && v.Addr().Interface().(unmarshaler).Unmarshal(msg) == nil
	}
	last := uint64(0)
	for i := 0; i < len(msg); {
		f := fieldAt(msg, i)
		if f.to == 0 {
			return false
		}
		from := i
		i = f.to
		number := f.tag >> 3
		if number >= uint64(len(t.byNumber)) || t.byNumber[number] == 0 {
			continue
		}
		if number <= last {
			return false
		}
		last = number
		if depth == 1 {
			d.inMetadata = number == objectMetadata
		}
		known := &t.fields[t.byNumber[number]-1]
		if known.typ.kind < wireSlice {
			if !d.single(f, v.Field(known.index), known.typ, depth) {
				return false
			}
			continue
		}
		n := 1
		for i < len(msg) { // the others of the same field
			next := fieldAt(msg, i)
			if next.to == 0 {
				return false
			}
			if next.tag != f.tag {
				break
			}
			i = next.to
			n++
		}
		if depth == 2 && d.inMetadata && number == metaManaged && !d.keepManagedFields {
			continue
		}
		if !d.repeated(msg[from:i], n, v.Field(known.index), known.typ, depth) {
			return false
		}
	}
	return true
}

// single decodes a field that is not repeated, or one element of one that is.
func (d *protobufDecoder) single(f part, v reflect.Value, t *wireType, depth int) bool {
	wantVarint := false
	switch t.kind {
	case wirePointer:
		if !d.take(int(t.elem.typ.Size())) {
			return false
		}
		p := reflect.New(t.elem.typ)
		v.Set(p)
		return d.single(f, p.Elem(), t.elem, depth)
	case wireBool, wireInt, wireUint:
		wantVarint = true
	}
	if wire := int(f.tag & 7); wantVarint && wire != wireVarint || !wantVarint && wire != wireBytes {
		return false
	}
	switch t.kind {
	case wireBool:
		v.SetBool(f.value != 0)
	case wireInt:
		if v.Kind() == reflect.Int32 {
			v.SetInt(int64(int32(f.value)))
		} else {
			v.SetInt(int64(f.value))
		}
	case wireUint:
		if v.Kind() == reflect.Uint32 {
			v.SetUint(uint64(uint32(f.value)))
		} else {
			v.SetUint(f.value)
		}
	case wireString:
		v.SetString(d.strings.get(f.body))
	case wireByteSlice:
		v.SetBytes(append([]byte{}, f.body...))
	case wireMethod:
		return v.Addr().Interface().(unmarshaler).Unmarshal(f.body) == nil
	case wireMessage:
		return d.message(f.body, v, t, depth+1)
	default:
		return false
	}
	return true
}

// take takes n bytes from the budget.
func (d *protobufDecoder) take(n int) bool {
	d.budget -= n
	return d.budget >= 0
}

// repeated decodes the n elements of a repeated field into v.
func (d *protobufDecoder) repeated(elements []byte, n int, v reflect.Value, t *wireType, depth int) bool {
	if !d.take(n * int(t.elem.typ.Size())) {
		return false
	}
	if t.kind == wireMap {
		return d.mapping(elements, n, v, t, depth)
	}
	v.Grow(n)
	v.SetLen(n)
	v.SetCap(n)
	for i, at := 0, 0; i < n; i++ {
		f := fieldAt(elements, at)
		at = f.to
		if !d.single(f, v.Index(i), t.elem, depth) {
			return false
		}
	}
	return true
}

// Field numbers of the entries of a map.
const (
	mapKey   = 1
	mapValue = 2
)

func (d *protobufDecoder) mapping(elements []byte, n int, v reflect.Value, t *wireType, depth int) bool {
	if !d.take(n * 16) {
		return false
	}
	entry := func(at int) (key, value part, to int) {
		f := fieldAt(elements, at)
		if f.tag&7 != wireBytes {
			return
		}
		key = fieldAt(f.body, 0)
		value = fieldAt(f.body, key.to)
		if key.to == len(f.body) { // it has no value, as an empty one may be written
			value = part{tag: mapValue<<3 | wireBytes, to: key.to}
		}
		if key.tag != mapKey<<3|wireBytes || value.tag>>3 != mapValue || value.to != len(f.body) {
			return part{}, part{}, 0
		}
		return key, value, f.to
	}
	if m, ok := v.Addr().Interface().(*map[string]string); ok {
		*m = make(map[string]string, n)
		for at := 0; at < len(elements); {
			key, value, to := entry(at)
			if to == 0 || value.tag&7 != wireBytes {
				return false
			}
			at = to
			(*m)[d.strings.get(key.body)] = d.strings.get(value.body)
		}
		return len(*m) == n
	}
	m := reflect.MakeMapWithSize(t.typ, n)
	k, e := reflect.New(t.typ.Key()).Elem(), reflect.New(t.elem.typ).Elem()
	for at := 0; at < len(elements); {
		key, value, to := entry(at)
		if to == 0 {
			return false
		}
		at = to
		if e.SetZero(); t.elem.kind == wireMethod && e.Kind() == reflect.Slice {
			e.Set(reflect.MakeSlice(t.elem.typ, 0, 0)) // as the generated code begins
		}
		if !d.single(value, e, t.elem, depth) {
			return false
		}
		k.SetString(d.strings.get(key.body))
		m.SetMapIndex(k, e)
	}
	v.Set(m)
	return m.Len() == n
}
