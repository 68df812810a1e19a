package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// Frame is one event of a watch. Its bytes are valid until the next call of Next or Fill.
type Frame struct {
	Event string // the watch.EventType
	// Raw is the object: a protobuf message without its envelope, or JSON. Other members of the frame may follow the JSON.
	Raw []byte
}

// Frames reads the frames of a watch from a body, as [List] reads the items of a list. It is not safe for concurrent
// use.
type Frames struct {
	framesReader
	kinds kindCheck
}

type framesReader interface {
	// Fill reads from the body once. After the last byte, it returns nil.
	Fill() error
	// next returns the next frame. It passes the object, unless it is an error, to kinds.
	next(kinds *kindCheck) (Frame, error)
}

// NewFrames returns Frames that reads from body. It reads nothing yet. An object of another kind is an error. A nil
// kind means any kind. ask may be nil; otherwise, Next may call it.
func NewFrames(body io.Reader, f Format, kind *Kind, ask Ask) *Frames {
	kinds := kindCheck{kind: kind, ask: ask}
	if f == JSON {
		return &Frames{&jsonFrames{jsonStream{stream: newStream(body)}}, kinds}
	}
	return &Frames{&protobufFrames{stream: newStream(body)}, kinds}
}

// Next returns the next frame. It returns ErrMore if the caller must call Fill first, and io.EOF if the body ends
// between two frames. With a [LargeError], it returns the event, and the next call goes on behind the object.
func (s *Frames) Next() (Frame, error) { return s.next(&s.kinds) }

// errorEvent is the event that reports a failure. Its object is a Status.
const errorEvent = "ERROR"

var errNoFrame = errors.New("the server sent a watch frame without type or object")

type jsonFrames struct{ jsonStream }

func (s *jsonFrames) next(kinds *kindCheck) (Frame, error) {
	if err := s.skipRest(); err != nil {
		return Frame{}, err
	}
	f, err := s.frame()
	if err == ErrMore {
		if frame := s.jsonStream.large(); frame != nil {
			return s.largeFrame(frame, kinds)
		}
	}
	if err == nil && f.Event != errorEvent {
		err = kinds.object(f.Raw)
	}
	return f, err
}

// largeFrame returns the event of a frame over the size limit, which begins with frame, with a LargeError.
func (s *jsonFrames) largeFrame(frame []byte, kinds *kindCheck) (Frame, error) {
	event, object := headJSON(frame)
	if !isChange(event) {
		return Frame{}, errObjectTooLarge
	}
	if err := kinds.object(object); err != nil {
		return Frame{}, err
	}
	large := &LargeError{peekJSON(object, true).clone()}
	s.beginSkip()
	return Frame{Event: event}, large
}

func (s *jsonFrames) frame() (Frame, error) {
	_, start, err := s.peek(0)
	if err != nil {
		return Frame{}, err
	}
	if s.scan == (scan{}) {
		if f, to := line(s.unused()[start:]); to > 0 {
			s.use(start + to)
			return f, nil
		}
	}
	if _, err := s.expect('{', start); err != nil {
		return Frame{}, err
	}
	from, to, err := s.value(start)
	if err != nil {
		return Frame{}, err
	}
	if f, ok := usual(s.unused()[from:to]); ok {
		s.use(to)
		return f, nil
	}
	c := cursor{b: s.unused()[from:to]}
	var event, object []byte
	whole := c.members(func(key []byte, _ int) bool {
		value := c.value(-MaxObjectBytes) // the object's decoder limits the depth
		switch name := memberName(key); { // the first of each counts, as in line
		case string(name) == "type" && event == nil:
			event = unquoted(value)
		case string(name) == "object" && object == nil:
			object = value
		}
		return value != nil
	})
	if !whole {
		return Frame{}, errors.New("the server sent a watch frame that is not JSON")
	}
	s.use(to)
	if len(event) == 0 || len(object) == 0 {
		return Frame{}, errNoFrame
	}
	return Frame{eventType(event), object}, nil
}

// line returns the first frame of b and its end, if the frame is complete, on a line of its own and in the form that
// kube-apiserver writes. That is several times faster than parsing the frame. A closing brace, a newline and an opening
// brace always separate two frames: JSON has no newline in a string, and no value directly after another.
func line(b []byte) (f Frame, to int) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 || end+1 == len(b) || b[end+1] != '{' {
		return Frame{}, 0
	}
	f, ok := usual(b[:end])
	if !ok {
		return Frame{}, 0
	}
	raw := f.Raw
	for i := 0; i < len(raw); i++ { // an object directly after another one is the next frame, on the same line
		open := bytes.IndexByte(raw[i:], '{')
		if open < 0 {
			break
		}
		i += open
		before := i - 1
		for before >= 0 && isSpace(raw[before]) {
			before--
		}
		if before >= 0 && raw[before] == '}' {
			return Frame{}, 0
		}
	}
	return f, end + 1
}

// usual returns the frame that b encodes, if its members begin like those that kube-apiserver writes.
func usual(b []byte) (f Frame, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte(`{"type":"`))
	if !ok || len(rest) == 0 || rest[len(rest)-1] != '}' {
		return Frame{}, false
	}
	event, raw, ok := bytes.Cut(rest[:len(rest)-1], []byte(`","object":`))
	if !ok || len(event) == 0 || len(raw) == 0 || bytes.ContainsAny(event, `"\`) {
		return Frame{}, false
	}
	return Frame{eventType(event), raw}, true
}

// eventType returns name as a string. It does not allocate for the usual event types.
func eventType(name []byte) string {
	switch string(name) {
	case "ADDED":
		return "ADDED"
	case "MODIFIED":
		return "MODIFIED"
	case "DELETED":
		return "DELETED"
	case "BOOKMARK":
		return "BOOKMARK"
	}
	return string(name)
}

// frameHeader is the size in bytes of the length before each frame.
const frameHeader = 4

type protobufFrames struct {
	stream
	left int // bytes to skip
}

func (s *protobufFrames) next(kinds *kindCheck) (Frame, error) {
	if err := s.skipRest(&s.left); err != nil {
		return Frame{}, err
	}
	b := s.unused()
	if len(b) == 0 {
		return Frame{}, s.more()
	}
	if len(b) < frameHeader {
		return Frame{}, unexpectedEOF(s.more())
	}
	size := binary.BigEndian.Uint32(b)
	if size > maxSkipped {
		return Frame{}, fmt.Errorf("frame of %d bytes: %w", size, errObjectTooLarge)
	}
	needed := int(size)
	if int(size) > s.limit {
		needed = headBytes
	}
	if len(b) < frameHeader+needed {
		if err := s.more(); err != io.EOF {
			return Frame{}, err
		}
		return Frame{}, fmt.Errorf("frame of %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	if int(size) > s.limit {
		return s.largeFrame(b[frameHeader:frameHeader+headBytes], int(size), kinds)
	}
	s.use(frameHeader + int(size))
	var f Frame
	var enveloped []byte
	var objectErr error
	err := proto.Fields(b[frameHeader:frameHeader+int(size)], func(field proto.Field) bool {
		switch field.Number {
		case watchEventType:
			f.Event = eventType(field.Bytes)
		case watchEventObject:
			objectErr = proto.Fields(field.Bytes, func(field proto.Field) bool {
				if field.Number == rawExtensionRaw {
					enveloped = field.Bytes
				}
				return true
			})
		}
		return objectErr == nil
	})
	if err == nil {
		err = objectErr
	}
	if err != nil {
		return Frame{}, fmt.Errorf("watch frame: %w", err)
	}
	if f.Event == "" || len(enveloped) == 0 {
		return Frame{}, errNoFrame
	}
	var meta []byte
	if f.Raw, meta, err = unwrap(enveloped); err != nil {
		return Frame{}, fmt.Errorf("object of a watch frame: %w", err)
	}
	if f.Event != errorEvent {
		err = kinds.message(meta)
	}
	return f, err
}

// largeFrame returns the event of a frame of size bytes, over the size limit, with a LargeError. The frame begins with
// head.
func (s *protobufFrames) largeFrame(head []byte, size int, kinds *kindCheck) (Frame, error) {
	event, meta, object := headProtobuf(head)
	if !isChange(event) {
		return Frame{}, fmt.Errorf("frame of %d bytes: %w", size, errObjectTooLarge)
	}
	if err := kinds.message(meta); err != nil {
		return Frame{}, err
	}
	large := &LargeError{headIdentity(object).clone()}
	s.use(frameHeader)
	s.left = size
	return Frame{Event: event}, large
}
