package decode

import (
	"bytes"
	"reflect"
	"unsafe"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// Tags of the key and the value in an entry of a map.
const (
	mapKey   = 1<<3 | uint64(proto.Bytes)
	mapValue = 2<<3 | uint64(proto.Bytes)
)

// entryAt reads the entry of a map at elements[i]. end is the offset of the next entry, or 0 unless key and value have
// wire type Bytes.
func entryAt(elements []byte, i int) (key, value []byte, end int) {
	_, i = proto.Uvarint(elements, i)
	entry, end := proto.Body(elements, i)
	tag, offset := proto.Uvarint(entry, 0)
	if tag != mapKey {
		return nil, nil, 0
	}
	if key, offset = proto.Body(entry, offset); offset == 0 {
		return nil, nil, 0
	}
	if offset < len(entry) { // an empty value may be absent
		tag, offset = proto.Uvarint(entry, offset)
		if value, offset = proto.Body(entry, offset); tag != mapValue || offset != len(entry) {
			return nil, nil, 0
		}
	}
	return key, value, end
}

// equals reports whether the n entries of elements are those of m, sorted by key.
func (d *protobufDecoder) equals(elements []byte, n int, m map[string]string) bool {
	if len(m) != n {
		return false
	}
	var last []byte
	for i := 0; i < len(elements); {
		var key, value []byte
		if key, value, i = entryAt(elements, i); i == 0 {
			return false
		}
		was, ok := m[string(key)]
		if !ok || was != string(value) || last != nil && bytes.Compare(key, last) <= 0 {
			return false
		}
		last = key
	}
	return true
}

func (d *protobufDecoder) mapping(elements []byte, n int, p, old unsafe.Pointer, t *plan, depth int) bool {
	if p == nil {
		return d.entries(elements, t, depth)
	}
	if t.typ == stringMapType {
		if was := stringMapAt(old); was != nil && d.equals(elements, n, was) {
			*(*map[string]string)(p) = was
			return true
		}
		m := make(map[string]string, n)
		for i := 0; i < len(elements); {
			var key, value []byte
			if key, value, i = entryAt(elements, i); i == 0 {
				return false
			}
			m[d.strings.get(key)] = d.strings.get(value)
		}
		*(*map[string]string)(p) = m
		return len(m) == n
	}
	m := reflect.MakeMapWithSize(t.typ, n)
	k, e := reflect.New(t.typ.Key()).Elem(), reflect.New(t.elem.typ).Elem()
	for i := 0; i < len(elements); {
		var key, value []byte
		if key, value, i = entryAt(elements, i); i == 0 {
			return false
		}
		if e.SetZero(); t.elem.wire == wireMethod && e.Kind() == reflect.Slice {
			e.Set(reflect.MakeSlice(t.elem.typ, 0, 0)) // like the generated code
		}
		if !d.single(value, e.Addr().UnsafePointer(), nil, t.elem, depth) {
			return false
		}
		k.SetString(d.strings.get(key))
		m.SetMapIndex(k, e)
	}
	reflect.NewAt(t.typ, p).Elem().Set(m)
	d.plans.keep(t, p, old)
	return m.Len() == n
}

// entries is mapping for nobody. It accepts only keys in their order, as servers write them: so it sees that none
// occurs twice.
func (d *protobufDecoder) entries(elements []byte, t *plan, depth int) bool {
	if t.elem.wire == wireMethod && t.elem.typ.Kind() == reflect.Slice {
		return false // mapping gives its method a receiver that is not zero
	}
	var last []byte
	for i := 0; i < len(elements); {
		var key, value []byte
		if key, value, i = entryAt(elements, i); i == 0 {
			return false
		}
		if last != nil && bytes.Compare(key, last) <= 0 || !d.single(value, nil, nil, t.elem, depth) {
			return false
		}
		last = key
	}
	return true
}
