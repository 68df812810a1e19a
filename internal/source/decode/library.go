package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	kjson "sigs.k8s.io/json"
)

// budget is the memory, in bytes, that one object may still take, not counting its strings. It has 64 bits on every
// platform, so that the total size of many elements does not overflow.
type budget int64

// maxDecoded is the budget of an object. The share that an object takes of it depends only on the type and on the
// encoded object, not on the previous version or on objects that share parts: so an object that was accepted can be
// decoded again.
// Without it, two bytes of an encoded object can become a slice element of a kilobyte.
const maxDecoded = 256 << 20

var errDecodedTooLarge = fmt.Errorf("an object that takes more than %d MiB of memory is %w", maxDecoded>>20,
	ErrTooLarge)

// take subtracts n bytes. It returns false if the budget is exceeded.
func (b *budget) take(n int) bool {
	*b -= budget(n)
	return *b >= 0
}

// takeEach subtracts size bytes n times. It returns false if the budget is exceeded.
func (b *budget) takeEach(n, size int) bool {
	*b -= budget(n) * budget(size)
	return *b >= 0
}

// unmarshalJSON decodes raw into target with the library that client-go uses. Its error quotes nothing of raw, which
// may be secret.
func unmarshalJSON(raw []byte, target any) error {
	return withoutContent(kjson.UnmarshalCaseSensitivePreserveInts(raw, target), reflect.TypeOf(target).Elem())
}

// byLibrary decodes raw into target, which must be zero, with the library. It returns an error if the result would
// exceed the limit for an object. The library rejects input that is not JSON.
func (d *jsonDecoder) byLibrary(raw []byte, target any) error {
	d.b, d.i, d.left = raw, 0, d.limit
	d.measure(d.plans.of(reflect.TypeOf(target).Elem()), 0)
	d.b = nil
	if d.left < 0 {
		return errDecodedTooLarge
	}
	return unmarshalJSON(raw, target)
}

// measure skips the value at i, and subtracts from the budget the memory that the library needs to decode it into a t.
// t is nil for a value that the library drops. measure returns false if there is no value, or if the budget is
// exceeded.
func (d *jsonDecoder) measure(t *plan, depth int) bool {
	c := d.space()
	for t != nil && t.typ.Kind() == reflect.Pointer && c != 'n' {
		if t = t.elem; !d.left.take(int(t.size)) {
			return false
		}
	}
	switch {
	case t == nil || t.json == jsonMethod || t.json == jsonText || depth == maxNesting:
	case t.json == jsonAny && c != 'n':
		return d.measureTree(depth)
	case c == '[' && t.typ.Kind() == reflect.Slice:
		return d.elements(func() bool { return d.left.take(int(t.elem.size)) && d.measure(t.elem, depth+1) })
	case c == '[' && t.typ.Kind() == reflect.Array:
		return d.elements(func() bool { return d.measure(t.elem, depth+1) })
	case c == '{' && t.typ.Kind() == reflect.Map:
		return d.members(func([]byte, int) bool { return d.left.take(int(t.elem.size)+16) && d.measure(t.elem, depth+1) })
	case c == '{' && t.typ.Kind() == reflect.Struct:
		d.plans.learnJSON(t)
		return d.left.take(int(t.embedded)) &&
			d.members(func(key []byte, _ int) bool { return d.measure(t.member(memberName(key)), depth+1) })
	}
	return d.cursor.value(depth) != nil
}

// measureTree is measure for a value that the library decodes as decodeAny does.
func (d *jsonDecoder) measureTree(depth int) bool {
	if !d.left.take(valueBytes) {
		return false
	}
	switch c := d.space(); {
	case c == '[' && depth < maxNesting:
		return d.elements(func() bool { return d.measureTree(depth + 1) })
	case c == '{' && depth < maxNesting:
		return d.left.take(mapBytes) &&
			d.members(func([]byte, int) bool { return d.left.take(memberBytes) && d.measureTree(depth+1) })
	}
	return d.cursor.value(depth) != nil
}

// decodeMap decodes an object into the content of an unstructured.Unstructured.
func decodeMap(raw []byte, left *budget) (map[string]any, error) {
	v, err := decodeTree(newTokens(), raw, left, true)
	if err != nil {
		return nil, withoutContent(err, reflect.TypeFor[map[string]any]())
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the server sent %T instead of an object", v)
	}
	return m, nil
}

// noInput is an empty input.
type noInput struct{}

func (noInput) Read([]byte) (int, error) { return 0, io.EOF }

func newTokens() *jsontext.Decoder { return jsontext.NewDecoder(noInput{}) }

// decodeTree decodes a value as client-go decodes into the type any: an integer that fits is an int64, other numbers
// are float64. If wanted is false, it returns no value.
func decodeTree(d *jsontext.Decoder, raw []byte, left *budget, wanted bool) (any, error) {
	d.Reset(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := decodeAny(d, left, wanted)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.New("more follows the object")
	}
	return v, nil
}

// Approximate bytes that decodeAny takes from a budget for a map, for each of its members, and for every value.
const (
	mapBytes    = 320
	memberBytes = 64
	valueBytes  = 32
)

// decodeAny decodes the next value of d. If wanted is false, it returns no value.
func decodeAny(d *jsontext.Decoder, left *budget, wanted bool) (any, error) {
	if !left.take(valueBytes) {
		return nil, errDecodedTooLarge
	}
	switch d.PeekKind() {
	case '{':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		var m map[string]any
		if wanted {
			m = map[string]any{}
		}
		if !left.take(mapBytes) {
			return nil, errDecodedTooLarge
		}
		for d.PeekKind() != '}' {
			if !left.take(memberBytes) {
				return nil, errDecodedTooLarge
			}
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			var key string
			if wanted {
				key = name.String()
			}
			v, err := decodeAny(d, left, wanted)
			if err != nil {
				return nil, err
			}
			if wanted {
				m[key] = v
			}
		}
		_, err := d.ReadToken()
		return m, err
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		var list []any
		if wanted {
			list = []any{}
		}
		for d.PeekKind() != ']' {
			v, err := decodeAny(d, left, wanted)
			if err != nil {
				return nil, err
			}
			if wanted {
				list = append(list, v)
			}
		}
		_, err := d.ReadToken()
		return list, err
	}
	if !wanted {
		raw, err := d.ReadValue()
		if err == nil && raw.Kind() == '0' {
			_, err = anyNumber(string(raw))
		}
		return nil, err
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return token.String(), nil
	case 't', 'f':
		return token.Bool(), nil
	case '0':
		return anyNumber(token.String())
	}
	return nil, nil
}

// anyNumber returns a JSON number as an int64, or as a float64 if it is no integer that fits.
func anyNumber(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return strconv.ParseFloat(text, 64)
}
