package informer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jsonOptions make the json package decode what client-go decodes, and as client-go does: names in their case,
// repeated names and broken UTF-8 taken, whole numbers kept whole where the field is an any, the rest by the rules of
// encoding/json.
var jsonOptions = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsonv1.ReportErrorsWithLegacySemantics(false),
	json.MatchCaseInsensitiveNames(false),
	jsontext.AllowDuplicateNames(true),
	jsontext.AllowInvalidUTF8(true),
	json.WithUnmarshalers(json.UnmarshalFromFunc(decodeTime)),
)

// budget is how much memory one object may still take, other than its strings.
type budget int

// maxDecoded is how much that is at first. Two bytes of an encoded object can be an element of a slice, which takes a
// kilobyte.
const maxDecoded = 256 << 20

var errDecodedTooLarge = fmt.Errorf("an object that takes more than %d MiB of memory is %w", maxDecoded>>20, ErrTooLarge)

// take takes n bytes. It returns false when there are not as many left.
func (b *budget) take(n int) bool {
	*b -= budget(n)
	return *b >= 0
}

// options are jsonOptions that take what is decoded from b.
func (b *budget) options() json.Options {
	return json.JoinOptions(jsonOptions, json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(_ *jsontext.Decoder, v any) error { // v points to where the value will be
			if !b.take(int(reflect.TypeOf(v).Elem().Size())) {
				return errDecodedTooLarge
			}
			return errors.ErrUnsupported // go on as if there were no such function
		}),
		json.UnmarshalFromFunc(decodeTime),
		json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) (err error) {
			*v, err = decodeAny(d, b) // what an unstructured object would have there
			return err
		}),
	)))
}

// decodeTime does what metav1.Time does by itself, without the detour over encoding/json.
func decodeTime(d *jsontext.Decoder, t *metav1.Time) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	if text := unquoted(v); text != nil {
		parsed, err := time.Parse(time.RFC3339, string(text))
		if err != nil {
			return err
		}
		t.Time = parsed.Local()
		return nil
	}
	return t.UnmarshalJSON(v)
}

// decodeMap decodes an object as unstructured.Unstructured has it: numbers are int64 where they are whole and fit,
// otherwise float64.
func decodeMap(raw []byte, left *budget) (map[string]any, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsonOptions)
	v, err := decodeAny(d, left)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the server sent %T instead of an object", v)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.New("more follows the object")
	}
	return m, nil
}

// What decodeAny takes from a budget, about: for a map, a member of one, and any other value.
const (
	mapBytes    = 320
	memberBytes = 64
	valueBytes  = 32
)

func decodeAny(d *jsontext.Decoder, left *budget) (any, error) {
	if !left.take(valueBytes) {
		return nil, errDecodedTooLarge
	}
	switch d.PeekKind() {
	case '{':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		m := map[string]any{}
		left.take(mapBytes)
		for d.PeekKind() != '}' {
			left.take(memberBytes)
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if m[key], err = decodeAny(d, left); err != nil {
				return nil, err
			}
		}
		_, err := d.ReadToken()
		return m, err
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		list := []any{}
		for d.PeekKind() != ']' {
			v, err := decodeAny(d, left)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.ReadToken()
		return list, err
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
		text := token.String()
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		return strconv.ParseFloat(text, 64)
	}
	return nil, nil
}
