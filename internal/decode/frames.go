package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/typedinformer/informer/internal/decode/proto"
)

// Frame is one event of a watch. Its bytes are valid until the next call of Next or Fill.
type Frame struct {
	Event string // the watch.EventType
	// Raw is the object: the protobuf message without envelope, or JSON, behind which other members of the frame may stand.
	Raw []byte
}

// Frames reads the frames of a watch from a body, as [List] reads the items of a list. It is for one goroutine.
type Frames interface {
	// Next returns the next frame. It returns ErrMore if Fill has to be called first, and io.EOF when the body ends between
	// two frames.
	Next() (Frame, error)
	// Fill reads from the body once. After the last byte, it returns nil.
	Fill() error
}

// NewFrames returns Frames that reads from body. It reads nothing yet.
func NewFrames(body io.Reader, f Format) Frames {
	if f == JSON {
		return &jsonFrames{jsonStream{stream: newStream(body)}}
	}
	return &protobufFrames{newStream(body)}
}

var errNoFrame = errors.New("the server sent a watch frame without type or object")

type jsonFrames struct{ jsonStream }

func (s *jsonFrames) Next() (Frame, error) {
	_, at, err := s.peek(0)
	if err != nil {
		return Frame{}, err
	}
	if s.scan == (scan{}) {
		if f, to := line(s.unused()[at:]); to > 0 {
			s.use(at + to)
			return f, nil
		}
	}
	if _, err := s.expect('{', at); err != nil {
		return Frame{}, err
	}
	from, to, err := s.value(at)
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
		value := c.value(-MaxObjectBytes) // the decoder of the object limits its depth
		switch name := memberName(key); { // the first counts, as in line
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

// line returns the first frame of b and where it ends, if it is as kube-apiserver writes it, on a line of its own, and all there.
// That is several times faster than a look at what is in it. A closing brace, a new line and an opening brace are the end of one
// frame and the beginning of the next, since no JSON has them in a string, or has a value right behind another.
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
	for at := 0; at < len(raw); at++ { // an object behind another one is the next frame, on the same line
		open := bytes.IndexByte(raw[at:], '{')
		if open < 0 {
			break
		}
		at += open
		before := at - 1
		for before >= 0 && isSpace(raw[before]) {
			before--
		}
		if before >= 0 && raw[before] == '}' {
			return Frame{}, 0
		}
	}
	return f, end + 1
}

// usual returns the frame whose bytes are b, if its members begin as those that kube-apiserver writes do.
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

// eventType returns name as a string, which for the types that there are takes no memory.
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

type protobufFrames struct{ stream }

func (s *protobufFrames) Next() (Frame, error) {
	const header = 4 // bytes of the length before each frame
	b := s.unused()
	if len(b) == 0 {
		return Frame{}, s.more()
	}
	if len(b) < header {
		return Frame{}, unexpectedEOF(s.more())
	}
	size := binary.BigEndian.Uint32(b)
	if size > MaxObjectBytes {
		return Frame{}, fmt.Errorf("frame of %d bytes: %w", size, errObjectTooLarge)
	}
	if len(b) < header+int(size) {
		if err := s.more(); err != io.EOF {
			return Frame{}, err
		}
		return Frame{}, fmt.Errorf("frame of %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	s.use(header + int(size))
	var f Frame
	var enveloped []byte
	var objectErr error
	err := proto.Fields(b[header:header+int(size)], func(field proto.Field) bool {
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
	if f.Raw, err = Unwrap(enveloped); err != nil {
		return Frame{}, fmt.Errorf("object of a watch frame: %w", err)
	}
	return f, nil
}
