package decode

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jsonDecoder decodes the JSON that API servers write, several times faster than a library that accepts all JSON. It
// rejects unusual input; the library then decodes the object from its beginning, and reports what is wrong with it. So
// jsonDecoder must never accept input that the library rejects or decodes differently. The exception is values that it
// skips: it does not validate them.
//
// It reuses working memory, and is not safe for concurrent use.
type jsonDecoder struct {
	plans             plans
	strings           *interner
	keepManagedFields bool

	cursor         // in the encoded object
	shared *sharer // nil if the object shares with no others
	reuse  reuse
	limit  budget // maxDecoded, or less in tests
	left   budget // of the object's memory
	tokens *jsontext.Decoder
	pairs  []string
	// inMetadata is true while the object's own metadata is decoded.
	inMetadata bool
	managed    span     // the member managedFields of the object's own metadata, if it is dropped
	end        int      // of the object, without white space behind it
	found      *Checked // what check finds; nil for decode
	unused     []byte   // memory for bytes that nobody wants
	accepted   accepted
}

// maxJSONDepth limits the depth to which a jsonDecoder decodes types that contain themselves.
const maxJSONDepth = 200

func newJSONDecoder(plans plans, keepManagedFields bool, strings *interner) *jsonDecoder {
	return &jsonDecoder{
		plans:             plans,
		strings:           strings,
		keepManagedFields: keepManagedFields,
		limit:             maxDecoded,
		tokens:            newTokens(),
	}
}

// decode decodes raw into v, which must be zero. old is the previous version, or nil if there is none. If decode
// returns false, the library must decode raw; parts of v may then be set.
func (d *jsonDecoder) decode(raw []byte, v reflect.Value, old unsafe.Pointer, reuse reuse,
	shared *sharer) (ok bool, err error) {
	t := d.plans.of(v.Type())
	if t.json <= jsonMethod {
		return false, nil
	}
	ok = d.whole(raw, v.Addr().UnsafePointer(), old, t, reuse, shared)
	if d.left < 0 {
		return false, errDecodedTooLarge
	}
	return ok, nil
}

// whole decodes raw into the t at p.
func (d *jsonDecoder) whole(raw []byte, p, old unsafe.Pointer, t *plan, reuse reuse, shared *sharer) bool {
	d.b, d.i, d.shared, d.reuse, d.left, d.managed = raw, 0, shared, reuse, d.limit, span{}
	ok := d.value(p, old, t, 0)
	d.end = d.i
	ok = ok && d.space() == 0 && d.i == len(raw)
	d.b, d.shared, d.reuse, d.found = nil, nil, d.reuse.ended(), nil
	return ok
}

// value decodes the value at i into the t at p, which must be zero. It shares the equal parts of the t at old; old may
// be nil. A nil p means to decode into nothing, here and in all that value calls: see check.
func (d *jsonDecoder) value(p, old unsafe.Pointer, t *plan, depth int) bool {
	c := d.space()
	if c == 'n' && t.json > jsonMethod {
		return d.literal("null")
	}
	var ok bool
	switch t.json {
	case jsonString:
		if p == nil {
			return d.skipString()
		}
		*(*string)(p), ok = d.string(stringAt(old))
		return ok
	case jsonStruct:
		return depth < maxJSONDepth && d.object(p, old, t, depth+1)
	case jsonSlice:
		return depth < maxJSONDepth && d.slice(p, old, t, depth+1)
	case jsonPointer:
		return d.pointer(p, old, t, depth)
	case jsonBool:
		if p != nil {
			*(*bool)(p) = c == 't'
		}
		if c == 't' {
			return d.literal("true")
		}
		return d.literal("false")
	case jsonInt:
		n, err := strconv.ParseInt(string(d.number()), 10, t.typ.Bits())
		if p != nil {
			reflect.NewAt(t.typ, p).Elem().SetInt(n)
		}
		return err == nil
	case jsonUint:
		n, err := strconv.ParseUint(string(d.number()), 10, t.typ.Bits())
		if p != nil {
			reflect.NewAt(t.typ, p).Elem().SetUint(n)
		}
		return err == nil
	case jsonTime:
		return d.time((*metav1.Time)(p))
	case jsonStringMap:
		if p == nil {
			return d.entries(t, depth)
		}
		*(*map[string]string)(p), ok = d.stringMap(stringMapAt(old))
		return ok
	}
	ok = d.other(p, t, c, depth)
	if ok {
		d.plans.keep(t, p, old)
	}
	return ok
}

// other decodes the value at i, which begins with c, into the t at p. It handles the less frequent kinds of types.
func (d *jsonDecoder) other(p unsafe.Pointer, t *plan, c byte, depth int) (ok bool) {
	switch t.json {
	case jsonMap:
		if p == nil {
			return depth < maxJSONDepth && d.entries(t, depth+1)
		}
		return depth < maxJSONDepth && d.mapping(p, t, depth+1)
	case jsonMethod:
		raw := d.validated(c, depth)
		if p == nil && d.accepted.has(t, raw) {
			return true
		}
		to := t.receiver(p)
		ok = raw != nil && to.Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil
		t.assign(p, to.UnsafePointer())
		if ok && p == nil {
			d.accepted.add(t, raw)
		}
		return ok
	case jsonAny:
		v, ok := d.any(c, depth, p != nil)
		if p != nil {
			*(*any)(p) = v
		}
		return ok
	case jsonBytes:
		if text, plain := d.text(); plain {
			if p == nil {
				var err error
				d.unused, err = base64.StdEncoding.AppendDecode(d.unused[:0], text)
				return err == nil
			}
			to := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
			n, err := base64.StdEncoding.Decode(to, text)
			*(*[]byte)(p) = to[:n]
			return err == nil
		}
	case jsonWhole:
		return false
	}
	d.space()
	from := d.i
	to := t.receiver(p)
	ok = d.measure(t, depth) && unmarshalJSON(d.b[from:d.i], to.Interface()) == nil
	t.assign(p, to.UnsafePointer())
	return ok
}

// pointer decodes the value at i, and sets the pointer at p, a t, to the result.
func (d *jsonDecoder) pointer(p, old unsafe.Pointer, t *plan, depth int) bool {
	if !d.left.take(int(t.elem.size)) {
		return false
	}
	if p == nil {
		return d.value(nil, nil, t.elem, depth)
	}
	if old != nil {
		old = *(*unsafe.Pointer)(old)
	}
	if old == nil {
		to := reflect.New(t.elem.typ).UnsafePointer()
		*(*unsafe.Pointer)(p) = to
		return d.value(to, nil, t.elem, depth)
	}
	v := t.borrow()
	ok := d.value(v.Addr().UnsafePointer(), old, t.elem, depth)
	if ok {
		t.pointTo(p, old, v)
	}
	t.giveBack(v)
	return ok
}

// any decodes the value at i, which begins with c. If wanted is false, it returns no value.
func (d *jsonDecoder) any(c byte, depth int, wanted bool) (v any, ok bool) {
	if c == '"' && !wanted {
		return nil, d.skipString() && d.left.take(valueBytes)
	}
	if c == '"' {
		text, ok := d.string("")
		return text, ok && d.left.take(valueBytes)
	}
	raw := d.cursor.value(depth)
	if raw == nil {
		return nil, false
	}
	v, err := decodeTree(d.tokens, raw, &d.left, wanted)
	d.tokens.Reset(noInput{}) // release raw
	return v, err == nil
}

// validated returns the value at i, which begins with c, or nil if it is not valid JSON.
func (d *jsonDecoder) validated(c byte, depth int) []byte {
	d.space()
	from := d.i
	switch {
	case c == '"':
		if _, plain := d.text(); plain {
			return d.b[from:d.i]
		}
	case '0' <= c && c <= '9':
		if n := d.number(); n != nil {
			return n
		}
	}
	d.i = from
	raw := jsontext.Value(d.cursor.value(depth))
	if !raw.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return nil
	}
	return raw
}

func (d *jsonDecoder) object(p, old unsafe.Pointer, t *plan, depth int) bool {
	if !t.jsonLearned {
		d.plans.learnJSON(t)
	}
	var seen [maxFields / 64]uint64
	for more, first := d.open('{', '}'), true; more; first = false {
		if !first && !d.comma('}', &more) {
			return false
		}
		if !more {
			break
		}
		key, plain := d.text()
		quote := d.i - len(key) - len(`""`)
		if !plain || !d.take(':') {
			return false
		}
		index := t.names.find(key)
		if index < 0 || string(key) != t.members[index].name {
			if d.cursor.value(depth) == nil {
				return false
			}
			continue
		}
		if seen[index/64]&(1<<(index%64)) != 0 { // the library decodes the second value on top of the first
			return false
		}
		seen[index/64] |= 1 << (index % 64)
		f := &t.members[index]
		if depth == 1 {
			d.inMetadata = f.name == "metadata"
		}
		if depth == 2 && f.managed && d.inMetadata && !d.keepManagedFields {
			if !d.managedFields() && d.cursor.value(depth) == nil {
				return false
			}
			d.managed = span{quote, d.i}
			continue
		}
		if depth == 1 {
			if part := d.reuse.part(f.offset); part >= 0 {
				if !d.part(part, p, old, f) {
					return false
				}
				continue
			}
		}
		d.space()
		from := d.i
		if !d.member(p, old, f, depth) {
			return false
		}
		if p == nil && depth == 2 && d.inMetadata {
			d.found.member(f.name, d.b[from:d.i])
		}
	}
	return d.i > 0
}

// part decodes the value of f, a part of the object at p. If its bytes are unchanged, it takes the part of the previous
// version.
func (d *jsonDecoder) part(part int, p, old unsafe.Pointer, f *member) bool {
	d.space()
	from := d.i
	if size, cost, ok := d.reuse.unchanged(part, d.b[from:]); ok { // the value ends there: it is an object or array
		d.i += size
		f.plan.assign(unsafe.Add(p, f.offset), unsafe.Add(old, f.offset))
		return d.left.take(cost)
	}
	left := d.left
	if !d.member(p, old, f, 1) {
		return false
	}
	if c := d.b[from]; c == '{' || c == '[' {
		d.reuse.note(part, d.b[from:d.i], left-d.left)
	}
	return true
}

// member decodes the value of f, a field of the struct at p.
func (d *jsonDecoder) member(p, old unsafe.Pointer, f *member, depth int) bool {
	to := at(p, f.offset)
	metadata := depth == 1 && d.inMetadata // the only value without its managedFields
	if d.shared == nil || metadata || !f.plan.shareable() {
		return d.value(to, at(old, f.offset), f.plan, depth)
	}
	worth := f.hits.worth()
	if !worth && d.shared.parts == nil {
		return d.value(to, at(old, f.offset), f.plan, depth)
	}
	d.space()
	from := d.i
	raw := d.cursor.value(depth)
	if raw == nil {
		return false
	}
	if !worth && !f.hits.samples(raw) {
		d.i = from
		return d.value(to, at(old, f.offset), f.plan, depth)
	}
	cost, found := d.shared.find(raw, f.typ, to)
	if f.hits.note(found); found {
		return d.left.take(cost)
	}
	d.i = from
	left := d.left
	if !d.value(to, at(old, f.offset), f.plan, depth) {
		return false
	}
	d.shared.put(raw, f.typ, to, left-d.left)
	return true
}

func (d *jsonDecoder) slice(p, old unsafe.Pointer, t *plan, depth int) bool {
	if p == nil {
		return d.elements(func() bool { return d.left.take(int(t.elem.size)) && d.value(nil, nil, t.elem, depth) })
	}
	elements := t.scratch
	t.scratch = reflect.Value{}
	if !elements.IsValid() {
		elements = reflect.New(t.typ).Elem()
	}
	n, room, base := 0, elements.Len(), elements.UnsafePointer()
	before := elementsAt(old)
	for more, first := d.open('[', ']'), true; more; first = false {
		if !first && !d.comma(']', &more) {
			return false
		}
		if !more {
			break
		}
		if !d.left.take(int(t.elem.size)) {
			return false
		}
		if n == room {
			elements.Grow(1)
			elements.SetLen(elements.Cap())
			room, base = elements.Len(), elements.UnsafePointer()
		}
		if !d.value(unsafe.Add(base, uintptr(n)*t.elem.size), before.at(n, t.elem.size), t.elem, depth) {
			return false
		}
		n++
	}
	if d.i == 0 {
		return false
	}
	if n == 0 {
		*(*[]struct{})(p) = []struct{}{}
	} else {
		elements.SetLen(n)
		t.sliceOf(p, &before, elements)
		elements.Clear()
		elements.SetLen(room)
	}
	if uintptr(room)*t.elem.size <= maxScratch {
		t.scratch = elements
	}
	return true
}

// maxScratch limits the memory, in bytes, that is kept to collect the elements of slices of one type.
const maxScratch = 64 << 10

func (d *jsonDecoder) time(t *metav1.Time) bool {
	text, plain := d.text()
	if !plain {
		return false
	}
	parsed, err := time.Parse(time.RFC3339, string(text))
	if t != nil {
		t.Time = parsed.Local()
	}
	return err == nil
}

// string decodes the string at i. If it is equal to old, string returns old.
func (d *jsonDecoder) string(old string) (string, bool) {
	if text, plain := d.text(); plain {
		if string(text) == old {
			return old, true
		}
		return d.strings.get(text), true
	}
	text, ok := d.unquote(nil)
	return d.strings.get(text), ok
}

// unquote appends the string at i to buf.
func (d *jsonDecoder) unquote(buf []byte) (text []byte, ok bool) {
	if d.space() != '"' {
		return buf, false
	}
	end := stringEnd(d.b, d.i+1, d.i+1)
	if end < 0 {
		return buf, false
	}
	text, err := jsontext.AppendUnquote(buf, d.b[d.i:end])
	d.i = end
	return text, err == nil
}

// skipString is string for nobody.
func (d *jsonDecoder) skipString() (ok bool) {
	if _, ok = d.text(); !ok {
		d.unused, ok = d.unquote(d.unused[:0])
	}
	return ok
}
