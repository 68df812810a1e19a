package decode

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// ListInfo is the kind and metadata of a list. Each field is set once the list has been read that far: built-in types
// have kind and metadata before the items, custom resources have them after the items.
type ListInfo struct {
	Kind, APIVersion string
	metav1.ListMeta
}

// List reads a list item by item from a body.
//
//	for {
//		raw, err := list.Next()
//		if err == decode.ErrMore {
//			err = list.Fill() // waits for the network: do other work first
//			…
//
// It is not safe for concurrent use.
type List struct {
	Info ListInfo
	listReader
}

type listReader interface {
	// Fill reads from the body once. After the last byte, it returns nil.
	Fill() error
	next(info *ListInfo) (raw []byte, err error)
}

// NewList returns a List that reads from body. It reads nothing yet. A list or an item of another kind is an error. A
// nil kind means any kind. ask may be nil; otherwise, Next may call it.
func NewList(body io.Reader, f Format, kind *Kind, ask Ask) *List {
	kinds := kindCheck{kind: kind, ask: ask}
	if f == JSON {
		return &List{listReader: &jsonList{jsonStream: jsonStream{stream: newStream(body)}, kinds: kinds}}
	}
	return &List{listReader: &protobufList{stream: newStream(body), kinds: kinds}}
}

// Next returns the next item, whose bytes are valid until the next call of Next or Fill. It returns ErrMore if the
// caller must call Fill first. It returns io.EOF after the whole list: the body has then been read to its end, so the
// connection can be reused. A list that ends too soon is an error, never a shorter list. After a [LargeError], the next
// call goes on behind the item.
func (l *List) Next() (raw []byte, err error) {
	raw, err = l.next(&l.Info)
	if err != nil && err != io.EOF && err != ErrMore && Large(err) == nil {
		err = fmt.Errorf("read list: %w", err)
	}
	return raw, err
}

// errTwoLists rejects a body in which two readers could find different lists.
var errTwoLists = errors.New("the server sent two lists in one")

// jsonList is the state of reading a list in JSON.
type jsonList struct {
	jsonStream
	state  jsonListState
	comma  bool // an element precedes the next one
	isList bool // items have been found
	beside int  // bytes read outside the items
	kinds  kindCheck
}

type jsonListState uint8

const (
	jsonListStart jsonListState = iota
	jsonListMembers
	jsonListItems
	jsonListEnd
)

func (s *jsonList) next(info *ListInfo) ([]byte, error) {
	if err := s.skipRest(); err != nil {
		return nil, err
	}
	for {
		switch s.state {
		case jsonListStart:
			to, err := s.expect('{', 0)
			if err != nil {
				return nil, err
			}
			s.use(to)
			s.state = jsonListMembers
		case jsonListMembers:
			if err := s.member(info); err == ErrMore && s.beside+len(s.unused()) > maxListBytes {
				return nil, errListTooLarge // whatever follows
			} else if err != nil {
				return nil, err
			}
		case jsonListItems:
			start, more, err := s.element(']')
			if err != nil {
				return nil, err
			}
			if !more {
				s.use(start)
				s.state, s.comma = jsonListMembers, true
				continue
			}
			from, to, err := s.value(start)
			if err == ErrMore {
				if item := s.large(); item != nil {
					return nil, s.largeItem(item)
				}
			}
			if err != nil {
				return nil, err
			}
			raw := s.unused()[from:to:to]
			if err := s.kinds.item(raw, s.named); err != nil {
				return nil, err
			}
			s.use(to)
			s.comma = true
			return raw, nil
		case jsonListEnd:
			c, _, err := s.peek(0)
			if err == nil {
				err = fmt.Errorf("JSON: %q where the end is expected", c)
			}
			return nil, err
		}
	}
}

// largeItem returns the error for an item over the size limit, which begins with item.
func (s *jsonList) largeItem(item []byte) error {
	if err := s.kinds.item(item, s.scan.named); err != nil {
		return err
	}
	large := &LargeError{peekJSON(item, true).clone()}
	s.beginSkip()
	s.comma = true
	return large
}

// element returns the offset of the next element of an object or array. If there is none, more is false and offset is
// behind the closing bracket.
func (s *jsonList) element(end byte) (offset int, more bool, err error) {
	c, offset, err := s.peek(0)
	switch {
	case err != nil:
		return 0, false, unexpectedEOF(err)
	case c == end:
		return offset + 1, false, nil
	case !s.comma:
		return offset, true, nil
	}
	offset, err = s.expect(',', offset)
	return offset, true, err
}

// member reads the next member of the list. If that is the array of items, it reads only up to the first item.
func (s *jsonList) member(info *ListInfo) error {
	offset, more, err := s.element('}')
	if err != nil {
		return err
	}
	if !more {
		if info.Kind != s.kinds.list { // it follows the items, or there are none
			s.kinds.listOf(info)
		}
		if !s.isList {
			return cmp.Or(s.kinds.odd, errors.New("the server sent an object without items instead of a list"))
		}
		if err := s.kinds.end(); err != nil {
			return err
		}
		s.use(offset)
		s.state = jsonListEnd
		return nil
	}
	from, to, err := s.value(offset)
	if err != nil {
		return err
	}
	name := string(unquoted(s.unused()[from:to]))
	if offset, err = s.expect(':', to); err != nil {
		return err
	}
	if name == "items" {
		c, begin, err := s.peek(offset)
		if err != nil {
			return unexpectedEOF(err)
		}
		if s.isList {
			return errTwoLists
		}
		if c == '[' {
			s.kinds.listOf(info)
			s.use(begin + 1)
			s.state, s.comma, s.isList = jsonListItems, false, true
			return nil
		}
	}
	from, to, err = s.value(offset)
	if err != nil {
		return err
	}
	value := s.unused()[from:to]
	if s.beside += to; s.beside > maxListBytes {
		return errListTooLarge
	}
	var into any
	switch name {
	case "items":
		s.isList = string(value) == "null" // an empty list
	case "kind":
		into = &info.Kind
	case "apiVersion":
		into = &info.APIVersion
	case "metadata":
		into = &info.ListMeta
	}
	if into != nil {
		if err := unmarshalJSON(value, into); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	s.use(to)
	s.comma = true
	return nil
}

// protobufList is the state of reading a list in protobuf, which is a field of an envelope.
type protobufList struct {
	stream
	begun  bool  // the magic has been read
	within bool  // the next field is in the list, not in the envelope
	left   int64 // unread bytes of the list
	isList bool  // a list has been found
	beside int   // bytes read outside the items
	behind int   // bytes to skip of an item over the size limit
	kinds  kindCheck
}

func (s *protobufList) next(info *ListInfo) ([]byte, error) {
	if err := s.skipRest(&s.behind); err != nil {
		return nil, err
	}
	if !s.begun {
		b := s.unused()
		if len(b) < len(protobufMagic) {
			return nil, unexpectedEOF(s.more())
		}
		if magic := b[:len(protobufMagic)]; string(magic) != protobufMagic {
			return nil, fmt.Errorf("%w: it begins with %q instead of %q", proto.ErrMalformed, magic, protobufMagic)
		}
		s.use(len(protobufMagic))
		s.begun = true
	}
	for {
		if s.within && s.left == 0 {
			s.within = false
		}
		if !s.within && len(s.unused()) == 0 {
			err := s.more()
			if err == io.EOF {
				if !s.isList {
					return nil, fmt.Errorf("%w: an envelope without a list", io.ErrUnexpectedEOF)
				}
				if wrong := s.kinds.end(); wrong != nil {
					return nil, wrong
				}
			}
			return nil, err
		}
		number, body, err := s.field()
		if err != nil {
			return nil, err
		}
		if s.within && number == listItems {
			if err := s.kinds.unnamedItem(); err != nil {
				return nil, err
			}
			return body, nil
		}
		if s.within && number == listMetadata {
			if err := info.ListMeta.Unmarshal(body); err != nil {
				return nil, fmt.Errorf("metadata: %w", withoutContent(err, reflect.TypeFor[metav1.ListMeta]()))
			}
		}
		if !s.within && number == unknownTypeMeta {
			if err := info.typeMeta(body); err != nil {
				return nil, err
			}
			if s.kinds.listOf(info); s.kinds.odd != nil {
				return nil, s.kinds.odd
			}
		}
	}
}

// field uses up the next field. Of the field that holds the list, it uses up only the bytes before the list. number is
// 0 for that field, and for a field whose wire type is not Bytes.
func (s *protobufList) field() (number int, body []byte, err error) {
	b := s.unused()
	if s.within && s.left < int64(len(b)) {
		b = b[:s.left]
	}
	malformed := s.within && int64(len(b)) == s.left // if the field needs bytes after b
	more := func(offset int) error {
		if malformed || len(b)-offset >= proto.MaxUvarint {
			return proto.ErrMalformed
		}
		return unexpectedEOF(s.more())
	}
	// Readers disagree on numbers of more than 64 bits, so a list must not have them.
	uvarint := func(i int) (v uint64, end int, err error) {
		v, end = proto.Uvarint(b, i)
		switch {
		case end == 0:
			err = more(i)
		case end == i+proto.MaxUvarint && b[end-1] > 1:
			err = proto.ErrMalformed
		}
		return v, end, err
	}
	tag, offset, err := uvarint(0)
	if err != nil {
		return 0, nil, err
	}
	number, wire := proto.Split(tag)
	if number <= 0 || tag>>3 != uint64(number) {
		return 0, nil, proto.ErrMalformed
	}
	to := offset
	switch wire {
	case proto.Varint:
		if _, to, err = uvarint(offset); err != nil {
			return 0, nil, err
		}
	case proto.Fixed64:
		to += 8
	case proto.Fixed32:
		to += 4
	case proto.Bytes:
		var size uint64
		if size, offset, err = uvarint(offset); err != nil {
			return 0, nil, err
		}
		if !s.within && number == unknownRaw {
			return 0, nil, s.enter(size, offset)
		}
		switch {
		case s.within && size > uint64(s.left-int64(offset)):
			return 0, nil, fmt.Errorf("%w: a field is longer than its message", proto.ErrMalformed)
		case size > uint64(s.limit) && s.within && number == listItems:
			return 0, nil, s.largeItem(b, offset, size)
		case size > uint64(s.limit):
			return 0, nil, errObjectTooLarge
		}
		if to = offset + int(size); !s.within || number != listItems {
			if s.beside+to > maxListBytes {
				return 0, nil, errListTooLarge
			}
		}
	default:
		return 0, nil, proto.ErrMalformed
	}
	if to > len(b) {
		if malformed {
			return 0, nil, proto.ErrMalformed
		}
		return 0, nil, unexpectedEOF(s.more())
	}
	if wire == proto.Bytes {
		body = b[offset:to:to]
	} else {
		number = 0
	}
	if !s.within || number != listItems {
		if s.beside += to; s.beside > maxListBytes {
			return 0, nil, errListTooLarge
		}
	}
	s.use(to)
	if s.within {
		s.left -= int64(to)
	}
	return number, body, nil
}

// largeItem returns the error for an item of size bytes, over the size limit, whose first byte is b[offset].
func (s *protobufList) largeItem(b []byte, offset int, size uint64) error {
	switch {
	case size > maxSkipped:
		return errObjectTooLarge
	case len(b)-offset < headBytes:
		return unexpectedEOF(s.more())
	}
	if err := s.kinds.unnamedItem(); err != nil {
		return err
	}
	large := &LargeError{headIdentity(b[offset : offset+headBytes]).clone()}
	s.use(offset)
	s.behind = int(size)
	s.left -= int64(offset) + int64(size)
	return large
}

// enter begins a list of size bytes, whose first byte is at offset.
func (s *protobufList) enter(size uint64, offset int) error {
	if s.isList {
		return errTwoLists
	}
	s.isList, s.within, s.left = true, true, int64(min(size, math.MaxInt64))
	s.use(offset)
	return nil
}

// typeMeta decodes a runtime.TypeMeta. It keeps the values of absent fields.
func (l *ListInfo) typeMeta(b []byte) error {
	var name, version []byte
	err := typeMeta(b, &name, &version)
	if name != nil {
		l.Kind = string(name)
	}
	if version != nil {
		l.APIVersion = string(version)
	}
	return err
}
