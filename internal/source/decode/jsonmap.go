package decode

import (
	"bytes"
	"reflect"
	"unsafe"
)

func (d *jsonDecoder) mapping(p unsafe.Pointer, t *plan, depth int) bool {
	elem := t.borrow()
	m, k := reflect.MakeMap(t.typ), reflect.New(t.typ.Key()).Elem()
	n := 0
	for more, first := d.open('{', '}'), true; more; first = false {
		if !first && !d.comma('}', &more) {
			return false
		}
		if !more {
			break
		}
		key, ok := d.string("")
		if !ok || !d.take(':') || !d.left.take(int(t.elem.size)+16) {
			return false
		}
		elem.SetZero()
		if !d.value(elem.Addr().UnsafePointer(), nil, t.elem, depth) {
			return false
		}
		k.SetString(key)
		m.SetMapIndex(k, elem)
		n++
	}
	if d.i == 0 || m.Len() != n {
		return false
	}
	t.giveBack(elem)
	reflect.NewAt(t.typ, p).Elem().Set(m)
	return true
}

// equals skips the object at i if it is equal to m and its names are sorted. Otherwise it skips nothing.
func (d *jsonDecoder) equals(m map[string]string) bool {
	from, n := d.i, 0
	var last string
	for more := d.open('{', '}'); more; n++ {
		key, plain := d.text()
		if !plain || !d.take(':') {
			break
		}
		was, ok := m[string(key)]
		if !ok || n > 0 && string(key) <= last {
			break
		}
		last = unsafe.String(unsafe.SliceData(key), len(key))
		if value, plain := d.text(); !plain || string(value) != was || !d.comma('}', &more) {
			break
		}
		if !more && n+1 == len(m) {
			return true
		}
	}
	d.i = from
	return false
}

// stringPairBytes are taken from the budget for each entry of a map[string]string: its value, and 16 bytes as for every
// map.
const stringPairBytes = int(unsafe.Sizeof("")) + 16

func (d *jsonDecoder) stringMap(old map[string]string) (map[string]string, bool) {
	if len(old) > 0 && d.equals(old) {
		return old, d.left.takeEach(len(old), stringPairBytes)
	}
	d.pairs = d.pairs[:0]
	for more, first := d.open('{', '}'), true; more; first = false {
		if !first && !d.comma('}', &more) {
			return nil, false
		}
		if !more {
			break
		}
		key, ok := d.string("")
		if !ok || !d.take(':') || !d.left.take(stringPairBytes) {
			return nil, false
		}
		var value string
		if d.space() == 'n' {
			ok = d.literal("null")
		} else {
			value, ok = d.string("")
		}
		if !ok {
			return nil, false
		}
		d.pairs = append(d.pairs, key, value)
	}
	if d.i == 0 {
		return nil, false
	}
	m := make(map[string]string, len(d.pairs)/2)
	for i := 0; i < len(d.pairs); i += 2 {
		m[d.pairs[i]] = d.pairs[i+1]
	}
	ok := len(m) == len(d.pairs)/2
	clear(d.pairs)
	if cap(d.pairs) > maxScratch/16 {
		d.pairs = nil
	}
	return m, ok
}

// entries is mapping or stringMap for nobody. It accepts only names in their order, as servers write them: so it sees
// that none occurs twice.
func (d *jsonDecoder) entries(t *plan, depth int) bool {
	var last []byte
	for more, first := d.open('{', '}'), true; more; first = false {
		if !first && !d.comma('}', &more) {
			return false
		}
		if !more {
			break
		}
		key, plain := d.text()
		if !plain || !first && bytes.Compare(key, last) <= 0 || !d.take(':') || !d.left.take(int(t.elem.size)+16) ||
			!d.value(nil, nil, t.elem, depth) {
			return false
		}
		last = key
	}
	return d.i > 0
}
