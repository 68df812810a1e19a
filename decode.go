package informer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DecodeError says that one object that the server sent could not be decoded, or that Config.Transform refused it.
// The others are not affected, and the last good version of the object stays in the store.
type DecodeError struct {
	// Resource says which collection it is from.
	Resource Resource
	// Key is the object's, as far as it could be read.
	Key Key
	// Raw is the object as it was sent: JSON, or the protobuf message without envelope.
	Raw []byte
	// Err is the reason.
	Err error
}

// Error implements error. It does not show Raw, which may hold secrets.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s %.600s: %.1000v", e.Resource.Resource, e.Key, e.Err) // a server can write them long
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// format is an encoding of the API.
type format uint8

const (
	formatJSON format = iota
	formatProtobuf
)

const (
	mediaJSON     = "application/json"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
)

// formatOf returns the format that a Content-Type names.
func formatOf(contentType string) (format, error) {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && media == mediaJSON:
		return formatJSON, nil
	case err == nil && media == mediaProtobuf:
		return formatProtobuf, nil
	}
	return formatJSON, fmt.Errorf("the server sent content type %.100q; it was asked for JSON or protobuf", contentType)
}

// maxMessage limits the message of a Status, which is logged.
const maxMessage = 8 << 10

// status decodes a metav1.Status; one in protobuf without its envelope.
func (f format) status(body []byte) (*metav1.Status, error) {
	status := &metav1.Status{}
	if len(body) > maxStatusBytes {
		return status, fmt.Errorf("a Status of more than %d KiB is %w", maxStatusBytes>>10, ErrTooLarge)
	}
	var err error
	if f == formatJSON {
		err = json.Unmarshal(body, status, jsonOptions)
	} else {
		err = status.Unmarshal(body)
	}
	if len(status.Message) > maxMessage {
		status.Message = status.Message[:maxMessage] + " ..."
	}
	return status, err
}

// peek reads an encoded object's identity.
func (f format) peek(raw []byte) identity {
	if f == formatJSON {
		return peekJSON(raw)
	}
	return peekProtobuf(raw)
}

// cut returns an encoded object without managedFields.
func (f format) cut(raw []byte) []byte {
	if f == formatJSON {
		return cutJSON(raw)
	}
	return cutProtobuf(raw)
}

// codec decodes objects into T. It is for one goroutine.
type codec[T Object] struct {
	element           reflect.Type // T points to it
	protobuf          bool         // T can be decoded from protobuf
	accept            string       // for a watch
	acceptList        string
	keepManagedFields bool
	json              *jsonDecoder     // nil before the first object
	wire              *protobufDecoder // the same
	shared            weakSharer
}

// unmarshaler is a message of generated protobuf code.
type unmarshaler interface{ Unmarshal([]byte) error }

// newCodec returns a codec for T that asks for what configured says, as far as T can decode it; empty means for the
// best that T can decode.
func newCodec[T Object](configured string, keepManagedFields bool) (*codec[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is not a pointer to a struct", t)
	}
	c := &codec[T]{element: t.Elem(), keepManagedFields: keepManagedFields}
	var none T
	_, generated := any(none).(unmarshaler)
	c.protobuf = generated && !recursive(c.element, map[reflect.Type]bool{})
	if configured == "" {
		configured = mediaProtobuf + "," + mediaJSON
	}
	var media []string
	for m := range strings.SplitSeq(configured, ",") {
		if f, err := formatOf(m); err == nil && (f == formatJSON || c.protobuf) {
			media = append(media, strings.TrimSpace(m))
		}
	}
	if len(media) == 0 {
		media = []string{mediaJSON}
	}
	as := func(kind string) string {
		if _, metadataOnly := any(none).(*metav1.PartialObjectMetadata); !metadataOnly {
			return strings.Join(media, ",")
		}
		suffix := ";as=" + kind + ";g=" + metav1.GroupName + ";v=v1"
		return strings.Join(media, suffix+",") + suffix
	}
	c.accept, c.acceptList = as("PartialObjectMetadata"), as("PartialObjectMetadataList")
	return c, nil
}

// recursive says whether a t can contain another one, to any depth. Generated code that decodes protobuf calls itself
// for each level, however many there are, and the end of the stack is the end of the process. JSON is not taken any
// deeper than 10,000 levels: by no version of encoding/json, and not by kube-apiserver either.
func recursive(t reflect.Type, in map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return recursive(t.Elem(), in)
	case reflect.Map:
		return recursive(t.Key(), in) || recursive(t.Elem(), in)
	case reflect.Interface:
		return true // for all that can be seen
	case reflect.Struct:
		if t == reflect.TypeFor[runtime.RawExtension]() {
			return false // its interface is none of what is decoded
		}
		known, seen := in[t]
		if seen {
			return known
		}
		in[t] = true // until it turns out that it is not
		for i := range t.NumField() {
			if recursive(t.Field(i).Type, in) {
				return true
			}
		}
		in[t] = false
	}
	return false
}

// format returns the format of a body with that Content-Type, which is one that was asked for.
func (c *codec[T]) format(contentType string) (format, error) {
	f, err := formatOf(contentType)
	if err == nil && f == formatProtobuf && !c.protobuf {
		return f, fmt.Errorf("the server sent protobuf; for %v it was asked for JSON", c.element)
	}
	return f, err
}

// decode makes a T of one encoded object. list is the list that it is an item of, nil in a watch. With share, parts of it may
// be those of other objects.
func (c *codec[T]) decode(f format, raw []byte, list *listInfo, share bool) (T, error) {
	var none T
	obj := reflect.New(c.element).Interface().(T)
	if err := c.into(obj, f, raw, list, share); err != nil {
		return none, err
	}
	if obj.GetName() == "" {
		return none, errors.New("it has no metadata.name")
	}
	return obj, nil
}

func (c *codec[T]) into(obj T, f format, raw []byte, list *listInfo, share bool) error {
	target := any(obj)
	if u, ok := target.(*unstructured.Unstructured); ok {
		left := budget(maxDecoded)
		content, err := decodeMap(c.alone(f, raw), &left)
		if err != nil {
			return err
		}
		u.Object = content
		if list != nil && u.GetKind() == "" { // lists of built-in types name the kind once
			u.SetKind(strings.TrimSuffix(list.kind, "List"))
			u.SetAPIVersion(list.apiVersion)
		}
	} else {
		if err := c.typed(target, f, raw, share); err != nil {
			return err
		}
		if typed, ok := target.(interface{ GetObjectKind() schema.ObjectKind }); ok {
			typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // T says it; so does client-go
		}
	}
	if !c.keepManagedFields {
		// Nothing is left of them, unless the server writes metadata twice or out of the ordinary.
		if meta, ok := target.(interface {
			SetManagedFields([]metav1.ManagedFieldsEntry)
		}); ok {
			meta.SetManagedFields(nil)
		}
	}
	return nil
}

// typed decodes raw into target: by our own decoder what is as usual, by the library of the format all else.
func (c *codec[T]) typed(target any, f format, raw []byte, share bool) error {
	if c.json == nil {
		strings := newInterner()
		c.json = newJSONDecoder(c.keepManagedFields, strings)
		c.wire = newProtobufDecoder(c.keepManagedFields, strings)
	}
	v := reflect.ValueOf(target).Elem()
	own := c.json.decode
	if f == formatProtobuf {
		own = c.wire.decode
	}
	var shared *sharer
	if share {
		shared = c.shared.get()
	}
	if ok, err := own(raw, v, shared); ok || err != nil {
		return err
	}
	v.SetZero()
	raw = c.alone(f, raw)
	if f == formatJSON {
		return c.json.byLibrary(raw, target)
	}
	if !c.wire.fits(raw, v.Type()) {
		return errDecodedTooLarge
	}
	return target.(unmarshaler).Unmarshal(raw)
}

// alone returns raw without what may stand behind it in its frame, and without managedFields unless they are kept.
func (c *codec[T]) alone(f format, raw []byte) []byte {
	if f == formatJSON {
		cursor := jsonCursor{b: raw}
		if value := cursor.value(); value != nil && cursor.space() == ',' {
			raw = value
		}
	}
	if !c.keepManagedFields {
		raw = f.cut(raw)
	}
	return raw
}

// listInfo is what a list says of itself. Fields are set as far as it has been read: built-in types have kind and
// metadata before the items, custom resources have them behind.
type listInfo struct {
	kind, apiVersion string
	metav1.ListMeta
}

// readList reads a list, and calls item with each item's bytes while the body arrives. They are not item's to keep.
func readList(body io.Reader, f format, info *listInfo, item func(raw []byte)) error {
	var err error
	if f == formatJSON {
		err = readJSONList(newJSONStream(body), info, item)
	} else {
		err = readProtobufList(newProtobufStream(body), info, item)
	}
	if err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	return nil
}

// check refuses what is no list.
func (l *listInfo) check() error {
	if l.kind != "" && !strings.HasSuffix(l.kind, "List") {
		return fmt.Errorf("the server sent a %.100s instead of a list", l.kind)
	}
	return nil
}

func readJSONList(s *jsonStream, info *listInfo, item func(raw []byte)) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	isList := false
	beside := s.pos // how much there was beside the items
	for first := true; ; {
		s.begin()
		more, err := s.more(&first, '}')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		key, err := s.value()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		c, err := s.peek()
		if err != nil {
			return unexpectedEOF(err)
		}
		name := string(s.bytes(key))
		if name == `"items"` {
			if isList {
				return errTwoLists
			}
			isList = c == '[' || c == 'n' // null: an empty list
		}
		if name == `"items"` && c == '[' {
			if err := readJSONItems(s, info, item); err != nil {
				return err
			}
			continue
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		if beside += s.pos - s.mark; beside > maxListBytes {
			return errListTooLarge
		}
		var into any
		switch name {
		case `"kind"`:
			into = &info.kind
		case `"apiVersion"`:
			into = &info.apiVersion
		case `"metadata"`:
			into = &info.ListMeta
		default:
			continue
		}
		if err := json.Unmarshal(s.bytes(value), into, jsonOptions); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := info.check(); err != nil {
		return err
	}
	if !isList {
		return errors.New("the server sent an object without items instead of a list")
	}
	s.begin()
	if c, err := s.peek(); err == nil { // read to the end, for the connection to be used again
		return fmt.Errorf("JSON: %q where the end is expected", c)
	} else if err != io.EOF {
		return err
	}
	return nil
}

// errTwoLists refuses what one reader takes as one list, and another reader as another.
var errTwoLists = errors.New("the server sent two lists in one")

func readJSONItems(s *jsonStream, info *listInfo, item func(raw []byte)) error {
	if err := info.check(); err != nil {
		return err
	}
	if err := s.expect('['); err != nil {
		return err
	}
	for first := true; ; {
		s.begin()
		more, err := s.more(&first, ']')
		if err != nil || !more {
			return err
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		item(s.bytes(value))
	}
}

func readProtobufList(s *protobufStream, info *listInfo, item func(raw []byte)) error {
	magic, err := s.bytes(uint64(len(protobufMagic)))
	if err != nil {
		return err
	}
	if string(magic) != protobufMagic {
		return fmt.Errorf("%w: it begins with %q instead of %q", errProtobuf, magic, protobufMagic)
	}
	isList := false
	beside := uint64(0) // how much there was beside the items
	for envelope := (&length{math.MaxUint64}); ; {
		field, size, err := s.field(envelope)
		if err == io.EOF {
			if !isList {
				return fmt.Errorf("%w: an envelope without a list", io.ErrUnexpectedEOF)
			}
			return info.check()
		}
		if err != nil {
			return err
		}
		if field == unknownRaw {
			if isList {
				return errTwoLists
			}
			isList = true
			if err := readProtobufItems(s, &length{size}, &beside, info, item); err != nil {
				return err
			}
			continue
		}
		if beside, err = addBeside(beside, size); err != nil {
			return err
		}
		switch field {
		case 0: // skipped
		case unknownTypeMeta:
			b, err := s.bytes(size)
			if err != nil {
				return err
			}
			if info.apiVersion, info.kind, err = typeMeta(b); err != nil {
				return err
			}
			if err := info.check(); err != nil {
				return err
			}
		default:
			if err := s.skip(size); err != nil {
				return err
			}
		}
	}
}

// addBeside adds a field of that size to what a list has beside its items.
func addBeside(beside, size uint64) (uint64, error) {
	if beside += 2; size > maxListBytes || beside+size > maxListBytes { // no field is shorter than 2 bytes
		return 0, errListTooLarge
	}
	return beside + size, nil
}

func readProtobufItems(s *protobufStream, of *length, beside *uint64, info *listInfo, item func(raw []byte)) error {
	for {
		field, size, err := s.field(of)
		if err == io.EOF && of.left == 0 {
			return nil
		}
		if err != nil {
			return unexpectedEOF(err)
		}
		if field == listItems {
			b, err := s.bytes(size)
			if err != nil {
				return err
			}
			item(b)
			continue
		}
		if *beside, err = addBeside(*beside, size); err != nil {
			return err
		}
		switch field {
		case 0: // skipped
		case listMetadata:
			b, err := s.bytes(size)
			if err != nil {
				return err
			}
			if err := info.ListMeta.Unmarshal(b); err != nil {
				return fmt.Errorf("metadata: %w", err)
			}
		default:
			if err := s.skip(size); err != nil {
				return err
			}
		}
	}
}

// frame is one event of a watch. Its bytes are valid until the next is read.
type frame struct {
	event string // the watch.EventType
	// raw is the object: the protobuf message without envelope, or JSON, behind which other members of the frame may stand.
	raw []byte
}

// frameReader reads the frames of a watch. next returns io.EOF when the stream ends between frames.
type frameReader interface{ next() (frame, error) }

func newFrameReader(body io.Reader, f format) frameReader {
	if f == formatJSON {
		return &jsonFrames{*newJSONStream(body)}
	}
	return &protobufFrames{*newProtobufStream(body)}
}

type jsonFrames struct{ jsonStream }

func (s *jsonFrames) next() (frame, error) {
	s.begin()
	if _, err := s.peek(); err != nil {
		return frame{}, err
	}
	s.begin()
	if f, ok := s.line(); ok {
		return f, nil
	}
	if err := s.expect('{'); err != nil {
		return frame{}, err
	}
	var event, object span
	for first := true; ; {
		more, err := s.more(&first, '}')
		if err != nil {
			return frame{}, err
		}
		if !more {
			break
		}
		key, err := s.value()
		if err != nil {
			return frame{}, err
		}
		if err := s.expect(':'); err != nil {
			return frame{}, err
		}
		value, err := s.value()
		if err != nil {
			return frame{}, err
		}
		switch string(s.bytes(key)) {
		case `"type"`:
			event = value
		case `"object"`:
			object = value
		}
	}
	f := frame{event: string(unquoted(s.bytes(event))), raw: s.bytes(object)}
	if f.event == "" || len(f.raw) == 0 {
		return frame{}, errors.New("the server sent a watch frame without type or object")
	}
	return f, nil
}

// line returns the next frame if it is as kube-apiserver writes it, on a line of its own, and all there. Its end is found
// several times faster than by a look at what is in it. A closing brace, a new line and an opening brace are the end of one
// frame and the beginning of the next, since no JSON has them in a string, or has a value right behind another.
func (s *jsonFrames) line() (frame, bool) {
	const (
		before  = `{"type":"`
		between = `","object":`
	)
	rest, ok := bytes.CutPrefix(s.buf[s.pos:], []byte(before))
	if !ok {
		return frame{}, false
	}
	end := bytes.IndexByte(rest, '\n')
	if end < 1 || end+1 == len(rest) || rest[end-1] != '}' || rest[end+1] != '{' {
		return frame{}, false
	}
	event, raw, ok := bytes.Cut(rest[:end-1], []byte(between))
	if !ok || len(event) == 0 || len(raw) == 0 || bytes.ContainsAny(event, `"\`) {
		return frame{}, false
	}
	s.pos += len(before) + end + 1
	return frame{string(event), raw}, true
}

type protobufFrames struct{ protobufStream }

func (s *protobufFrames) next() (frame, error) {
	if _, err := s.r.Peek(1); err != nil {
		return frame{}, err
	}
	size, err := s.bytes(4)
	if err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(size)
	event, err := s.bytes(uint64(n))
	if err != nil {
		return frame{}, fmt.Errorf("frame of %d bytes: %w", n, err)
	}
	var f frame
	var object []byte
	err = wireFields(event, func(field wireField) bool {
		switch field.number {
		case watchEventType:
			f.event = string(field.bytes)
		case watchEventObject:
			object = field.bytes
		}
		return true
	})
	if err != nil {
		return frame{}, fmt.Errorf("watch frame: %w", err)
	}
	var enveloped []byte
	err = wireFields(object, func(field wireField) bool {
		if field.number == rawExtensionRaw {
			enveloped = field.bytes
		}
		return true
	})
	if err != nil {
		return frame{}, fmt.Errorf("object of a watch frame: %w", err)
	}
	if f.event == "" || len(enveloped) == 0 {
		return frame{}, errors.New("the server sent a watch frame without type or object")
	}
	if f.raw, err = unwrapProtobuf(enveloped); err != nil {
		return frame{}, fmt.Errorf("object of a watch frame: %w", err)
	}
	return f, nil
}
