package informer

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jsonDecoder decodes what API servers write, several times faster than a library that has to take everything that is
// JSON. What it was not made for it refuses, and the library decodes that object from its beginning: then the
// library also says what is wrong with it. So it must never accept what the library refuses or understands otherwise,
// except in parts of which nothing is kept: those it only passes over.
//
// It learns the types that it meets, and keeps memory to work with: it is for one goroutine.
type jsonDecoder struct {
	types             map[reflect.Type]*jsonType
	strings           *interner
	keepManagedFields bool

	b       []byte       // what is being decoded
	i       int          // how far
	shared  *sharer      // nil when the object is to have memory of its own
	left    budget       // of what b may take
	limited json.Options // those of left
	pairs   []string
	// inMetadata says that the member of the object itself that is being decoded is its metadata.
	inMetadata bool
}

// jsonType is how one Go type is decoded.
type jsonType struct {
	kind jsonKind
	typ  reflect.Type
	size uintptr
	elem *jsonType // of a pointer, a slice or a map
	// fields of a struct, those of embedded structs among them, are found by name.
	fields []jsonField
	names  nameTable
	known  bool       // fields are worked out: at the first use, since most types are never used
	slices sliceMaker // of this type, if it is a slice
	// scratch is a slice that elements are collected in, or a map's element; not valid while it is in use.
	scratch reflect.Value
}

type jsonField struct {
	name    string
	offset  uintptr // in the struct
	typ     *jsonType
	index   []int // the same as offset
	managed bool  // it is called managedFields
	hits    hits
}

type jsonKind uint8

const (
	jsonOther  jsonKind = iota // the library decodes it
	jsonMethod                 // it has UnmarshalJSON
	jsonTime                   // metav1.Time
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

// shareable says whether a value of the type can be that of several objects.
func (t *jsonType) shareable() bool {
	return t.kind == jsonPointer || t.kind == jsonSlice || t.kind == jsonMap || t.kind == jsonStringMap
}

// maxJSONDepth is how deep types that contain themselves are followed here.
const maxJSONDepth = 200

// maxFields is how many fields a struct has here.
const maxFields = 128

func newJSONDecoder(keepManagedFields bool, strings *interner) *jsonDecoder {
	d := &jsonDecoder{types: map[reflect.Type]*jsonType{}, strings: strings, keepManagedFields: keepManagedFields}
	d.limited = d.left.options()
	return d
}

// decode decodes raw into v, which is zero. It returns false, with parts of v written to, when the library has to do it.
func (d *jsonDecoder) decode(raw []byte, v reflect.Value, shared *sharer) (ok bool, err error) {
	t := d.typeOf(v.Type())
	if t.kind <= jsonMethod {
		return false, nil
	}
	d.b, d.i, d.shared, d.left = raw, 0, shared, maxDecoded
	ok = d.value(v.Addr().UnsafePointer(), t, 0) && d.space() == 0 && d.i == len(raw)
	d.b, d.shared = nil, nil
	if d.left < 0 {
		return false, errDecodedTooLarge
	}
	return ok, nil
}

// byLibrary decodes raw into target, which is zero, by the library.
func (d *jsonDecoder) byLibrary(raw []byte, target any) error {
	d.left = maxDecoded
	err := json.Unmarshal(raw, target, d.limited)
	if d.left < 0 {
		return errDecodedTooLarge
	}
	return err
}

var (
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	otherUnmarshalers   = []reflect.Type{
		reflect.TypeFor[json.UnmarshalerFrom](),
		reflect.TypeFor[interface{ UnmarshalText([]byte) error }](),
	}
)

// typeOf returns how t is decoded.
func (d *jsonDecoder) typeOf(t reflect.Type) *jsonType {
	if known := d.types[t]; known != nil {
		return known
	}
	j := &jsonType{typ: t, size: t.Size()}
	d.types[t] = j
	if t == reflect.TypeFor[metav1.Time]() {
		j.kind = jsonTime
		return j
	}
	if t.Kind() != reflect.Pointer { // which has the methods of what it points to
		pointer := reflect.PointerTo(t)
		if slices.ContainsFunc(otherUnmarshalers, pointer.Implements) {
			return j
		}
		if pointer.Implements(jsonUnmarshalerType) {
			j.kind = jsonMethod
			return j
		}
	}
	switch t.Kind() {
	case reflect.String:
		j.kind = jsonString
	case reflect.Bool:
		j.kind = jsonBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		j.kind = jsonInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		j.kind = jsonUint
	case reflect.Pointer:
		if t.Elem().Kind() != reflect.Pointer {
			j.kind, j.elem = jsonPointer, d.typeOf(t.Elem())
		}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // base64
			j.kind, j.elem, j.slices = jsonSlice, d.typeOf(t.Elem()), newSliceMaker(t)
		}
	case reflect.Map:
		switch key := d.typeOf(t.Key()); {
		case t == reflect.TypeFor[map[string]string]():
			j.kind = jsonStringMap
		case key.kind == jsonString:
			j.kind, j.elem = jsonMap, d.typeOf(t.Elem())
		}
	case reflect.Struct:
		if fields, ok := jsonFields(t, nil, 0); ok {
			j.kind, j.fields = jsonStruct, fields
		}
	}
	return j
}

// jsonFields returns the fields of t, which is a struct or one embedded in one, and whether all of them are as simple as
// those of the API's types. Their types are not set.
func jsonFields(t reflect.Type, above []int, offset uintptr) ([]jsonField, bool) {
	var fields []jsonField
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		for option := range strings.SplitSeq(options, ",") {
			if option != "" && option != "omitempty" && option != "omitzero" && !(option == "inline" && f.Anonymous) {
				return nil, false
			}
		}
		switch {
		case tag == "-":
			continue
		case f.Anonymous && name == "":
			pointer := reflect.PointerTo(f.Type)
			if f.Type.Kind() != reflect.Struct || !f.IsExported() || len(above) > 4 ||
				pointer.Implements(jsonUnmarshalerType) || slices.ContainsFunc(otherUnmarshalers, pointer.Implements) {
				return nil, false
			}
			embedded, ok := jsonFields(f.Type, append(slices.Clone(above), i), offset+f.Offset)
			if !ok {
				return nil, false
			}
			fields = append(fields, embedded...)
			continue
		case f.Anonymous && !f.IsExported():
			return nil, false
		case !f.IsExported() && tag == "":
			continue
		case !f.IsExported():
			return nil, false
		}
		if name == "" {
			name = f.Name
		}
		if name == "-" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r >= utf8.RuneSelf || strings.ContainsRune(`'"\,`, r) }) {
			return nil, false
		}
		fields = append(fields, jsonField{
			name:    name,
			offset:  offset + f.Offset,
			index:   append(slices.Clone(above), i),
			managed: name == "managedFields",
		})
	}
	if above == nil {
		if len(fields) > maxFields || len(fields) == 0 && t.NumField() > 0 {
			return nil, false
		}
		seen := map[string]bool{}
		for _, f := range fields {
			if seen[f.name] { // rules say which of them counts
				return nil, false
			}
			seen[f.name] = true
		}
	}
	return fields, true
}

// learn works out the types of the fields.
func (d *jsonDecoder) learn(t *jsonType) {
	t.known = true
	names := make([]string, len(t.fields))
	for i := range t.fields {
		f := &t.fields[i]
		f.typ = d.typeOf(t.typ.FieldByIndex(f.index).Type)
		names[i] = f.name
	}
	t.names = newNameTable(names)
}

// value decodes the value at i into the t at p, which is zero.
func (d *jsonDecoder) value(p unsafe.Pointer, t *jsonType, depth int) bool {
	c := d.space()
	if c == 'n' && t.kind > jsonMethod {
		return d.literal("null")
	}
	var ok bool
	switch t.kind {
	case jsonString:
		*(*string)(p), ok = d.string()
		return ok
	case jsonStruct:
		return depth < maxJSONDepth && d.object(p, t, depth+1)
	case jsonSlice:
		return depth < maxJSONDepth && d.slice(p, t, depth+1)
	case jsonPointer:
		if !d.left.take(int(t.elem.size)) {
			return false
		}
		to := reflect.New(t.elem.typ).UnsafePointer()
		*(*unsafe.Pointer)(p) = to
		return d.value(to, t.elem, depth)
	case jsonBool:
		if *(*bool)(p) = c == 't'; c == 't' {
			return d.literal("true")
		}
		return d.literal("false")
	case jsonInt:
		n, err := strconv.ParseInt(string(d.number()), 10, t.typ.Bits())
		reflect.NewAt(t.typ, p).Elem().SetInt(n)
		return err == nil
	case jsonUint:
		n, err := strconv.ParseUint(string(d.number()), 10, t.typ.Bits())
		reflect.NewAt(t.typ, p).Elem().SetUint(n)
		return err == nil
	case jsonTime:
		return d.time((*metav1.Time)(p))
	case jsonStringMap:
		*(*map[string]string)(p), ok = d.stringMap()
		return ok
	case jsonMap:
		return depth < maxJSONDepth && d.mapping(p, t, depth+1)
	case jsonMethod:
		raw := d.validated(c, depth)
		return raw != nil && reflect.NewAt(t.typ, p).Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil
	}
	raw := d.skip(depth)
	return raw != nil && json.Unmarshal(raw, reflect.NewAt(t.typ, p).Interface(), d.limited) == nil
}

// validated returns the value at i, which begins with c, after a look at whether it is JSON; nil when it is not.
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
	raw := jsontext.Value(d.skip(depth))
	if !raw.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return nil
	}
	return raw
}

func (d *jsonDecoder) object(p unsafe.Pointer, t *jsonType, depth int) bool {
	if !t.known {
		d.learn(t)
	}
	var seen [maxFields / 64]uint64
	for more, first := d.begin('{', '}'), true; more; first = false {
		if !first && !d.comma('}', &more) {
			return false
		}
		if !more {
			break
		}
		key, plain := d.text()
		if !plain || !d.colon() {
			return false
		}
		at := t.names.find(key)
		if at < 0 || string(key) != t.fields[at].name {
			if d.skip(depth) == nil {
				return false
			}
			continue
		}
		if seen[at/64]&(1<<(at%64)) != 0 { // the last one counts, on top of the first
			return false
		}
		seen[at/64] |= 1 << (at % 64)
		f := &t.fields[at]
		if depth == 1 {
			d.inMetadata = f.name == "metadata"
		}
		if depth == 2 && f.managed && d.inMetadata && !d.keepManagedFields {
			if d.skip(depth) == nil {
				return false
			}
			continue
		}
		to := unsafe.Add(p, f.offset)
		if d.shared == nil || !f.typ.shareable() || !f.hits.worth() {
			if !d.value(to, f.typ, depth) {
				return false
			}
			continue
		}
		d.space()
		from := d.i
		raw := d.skip(depth)
		if raw == nil {
			return false
		}
		found := d.shared.find(raw, f.typ.typ, to)
		if f.hits.note(found); found {
			continue
		}
		d.i = from
		if !d.value(to, f.typ, depth) {
			return false
		}
		d.shared.put(raw, f.typ.typ, to)
	}
	return d.i > 0
}

func (d *jsonDecoder) slice(p unsafe.Pointer, t *jsonType, depth int) bool {
	elements := t.scratch
	t.scratch = reflect.Value{}
	if !elements.IsValid() {
		elements = reflect.New(t.typ).Elem()
	}
	n, room, base := 0, elements.Len(), elements.UnsafePointer()
	for more, first := d.begin('[', ']'), true; more; first = false {
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
		if !d.value(unsafe.Add(base, uintptr(n)*t.elem.size), t.elem, depth) {
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
		t.slices.make(n, p)
		used := elements.Slice(0, n)
		reflect.Copy(reflect.NewAt(t.typ, p).Elem(), used)
		used.Clear()
	}
	if uintptr(room)*t.elem.size <= maxScratch {
		t.scratch = elements
	}
	return true
}

// maxScratch is how much memory is kept to collect the elements of slices of one type.
const maxScratch = 64 << 10

func (d *jsonDecoder) mapping(p unsafe.Pointer, t *jsonType, depth int) bool {
	elem := t.scratch
	t.scratch = reflect.Value{}
	if !elem.IsValid() {
		elem = reflect.New(t.elem.typ).Elem()
	}
	m, k := reflect.MakeMap(t.typ), reflect.New(t.typ.Key()).Elem()
	n := 0
	for more, first := d.begin('{', '}'), true; more; first = false {
		if !first && !d.comma('}', &more) {
			return false
		}
		if !more {
			break
		}
		key, ok := d.string()
		if !ok || !d.colon() || !d.left.take(int(t.elem.size)+16) {
			return false
		}
		elem.SetZero()
		if !d.value(elem.Addr().UnsafePointer(), t.elem, depth) {
			return false
		}
		k.SetString(key)
		m.SetMapIndex(k, elem)
		n++
	}
	if d.i == 0 || m.Len() != n {
		return false
	}
	elem.SetZero()
	t.scratch = elem
	reflect.NewAt(t.typ, p).Elem().Set(m)
	return true
}

func (d *jsonDecoder) stringMap() (map[string]string, bool) {
	d.pairs = d.pairs[:0]
	for more, first := d.begin('{', '}'), true; more; first = false {
		if !first && !d.comma('}', &more) {
			return nil, false
		}
		if !more {
			break
		}
		key, ok := d.string()
		if !ok || !d.colon() || !d.left.take(32) {
			return nil, false
		}
		var value string
		if d.space() == 'n' {
			ok = d.literal("null")
		} else {
			value, ok = d.string()
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

func (d *jsonDecoder) time(t *metav1.Time) bool {
	text, plain := d.text()
	if !plain {
		return false
	}
	parsed, err := time.Parse(time.RFC3339, string(text))
	t.Time = parsed.Local()
	return err == nil
}

// space returns the next byte that is not white space, 0 at the end.
func (d *jsonDecoder) space() byte {
	for ; d.i < len(d.b); d.i++ {
		if c := d.b[d.i]; !isSpace(c) {
			return c
		}
	}
	return 0
}

// begin reads the beginning of an object or array, and says whether there is an element in it. After anything else, i
// is 0.
func (d *jsonDecoder) begin(open, end byte) bool {
	if d.space() != open {
		d.i = 0
		return false
	}
	d.i++
	if d.space() == end {
		d.i++
		return false
	}
	return true
}

// comma reads what stands behind an element: a comma, or the end, which sets more to false.
func (d *jsonDecoder) comma(end byte, more *bool) bool {
	switch d.space() {
	case ',':
		d.i++
		return true
	case end:
		d.i++
		*more = false
		return true
	}
	return false
}

func (d *jsonDecoder) colon() bool {
	if d.space() != ':' {
		return false
	}
	d.i++
	return true
}

func (d *jsonDecoder) literal(want string) bool {
	if len(d.b)-d.i < len(want) || string(d.b[d.i:d.i+len(want)]) != want {
		return false
	}
	d.i += len(want)
	return true
}

// number returns a whole number, nothing when there is none.
func (d *jsonDecoder) number() []byte {
	from := d.i
	for ; d.i < len(d.b); d.i++ {
		if c := d.b[d.i]; (c < '0' || c > '9') && (c != '-' || d.i > from) {
			if c == '.' || c == 'e' || c == 'E' {
				return nil
			}
			break
		}
	}
	digits := d.b[from:d.i]
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 1 && digits[0] == '0' {
		return nil
	}
	return d.b[from:d.i]
}

// skip passes over the value at i, which is in that many others, without a look at what is in it, and returns it; nil when
// there is none.
func (d *jsonDecoder) skip(depth int) []byte {
	c := jsonCursor{d.b, d.i, depth}
	c.space()
	value := c.value()
	d.i = c.i
	return value
}

// text returns the string at i, and whether it is plain: whether it means what is written, which is ASCII without escapes.
func (d *jsonDecoder) text() (text []byte, plain bool) {
	if d.space() != '"' {
		return nil, false
	}
	b, i := d.b, d.i+1
	from := i
	for ; i+8 <= len(b); i += 8 { // eight bytes at a time, until one that is a quote, an escape, a control character, or not ASCII
		w := binary.LittleEndian.Uint64(b[i:])
		quotes, escapes := w^('"'*eachByte), w^('\\'*eachByte)
		if found := ((quotes-eachByte)&^quotes | (escapes-eachByte)&^escapes | (w-' '*eachByte)&^w | w) & highBits; found != 0 {
			i += bits.TrailingZeros64(found) / 8
			if b[i] != '"' {
				return nil, false
			}
			d.i = i + 1
			return b[from:i], true
		}
	}
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			d.i = i + 1
			return b[from:i], true
		case c == '\\' || c < ' ' || c >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// string decodes the string at i.
func (d *jsonDecoder) string() (string, bool) {
	if text, plain := d.text(); plain {
		return d.strings.get(text), true
	}
	if d.space() != '"' {
		return "", false
	}
	end := stringEnd(d.b, d.i+1, d.i+1)
	if end < 0 {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, d.b[d.i:end])
	d.i = end
	return d.strings.get(text), err == nil
}

// nameTable finds a name among a few: what it finds still has to be compared.
type nameTable struct {
	slots []uint8 // 1 + the number of the name; 0 for none
	a, b  uint32
	many  map[string]int // when no table was found
}

func newNameTable(names []string) nameTable {
	size := 4
	for size < 2*len(names) {
		size *= 2
	}
	for ; size <= 1024; size *= 2 {
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
	t := nameTable{many: map[string]int{}}
	for i, name := range names {
		t.many[name] = i
	}
	return t
}

// slot mixes the length of a name, its first, middle and last bytes.
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
	if t.many != nil {
		if i, ok := t.many[string(name)]; ok {
			return i
		}
		return -1
	}
	return int(t.slots[t.slot(name)]) - 1
}
