package decode

import (
	"bytes"
	"fmt"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// LargeError reports an object that exceeds MaxObjectBytes. [List.Next] and [Frames.Next] return it as soon as they
// have read the beginning of the object. The calls after it skip the rest, and go on behind it.
type LargeError struct {
	ID Identity // as far as the beginning of the object has it; a copy
}

// Error says what the limit is.
func (*LargeError) Error() string { return errObjectTooLarge.Error() }

// Unwrap returns ErrTooLarge.
func (*LargeError) Unwrap() error { return ErrTooLarge }

// Large returns the LargeError that err is, or nil if it is none.
func Large(err error) *LargeError {
	large, _ := err.(*LargeError)
	return large
}

var errSkippedTooLarge = fmt.Errorf("an object or frame of more than %d MiB is %w: it cannot be skipped",
	maxSkipped>>20, ErrTooLarge)

// clone returns a copy of the identity.
func (id Identity) clone() Identity {
	return Identity{
		Namespace:       bytes.Clone(id.Namespace),
		Name:            bytes.Clone(id.Name),
		UID:             bytes.Clone(id.UID),
		ResourceVersion: bytes.Clone(id.ResourceVersion),
	}
}

// isChange reports whether the object of such an event belongs to the collection.
func isChange(event string) bool {
	return event == "ADDED" || event == "MODIFIED" || event == "DELETED"
}

// skip is the progress of skipping an object in JSON. The zero skip skips nothing.
type skip struct {
	depth   int  // of objects and arrays that are open
	quoted  bool // in a string
	escaped bool // after a backslash
	size    int  // bytes so far
}

// over returns the offset in b of what follows the object, or len(b) if that has more bytes.
func (k *skip) over(b []byte) int {
	for i, c := range b {
		switch {
		case k.escaped:
			k.escaped = false
		case k.quoted:
			k.escaped, k.quoted = c == '\\', c != '"'
		case c == '"':
			k.quoted = true
		case c == '{' || c == '[':
			k.depth++
		case c == '}' || c == ']':
			if k.depth--; k.depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// large returns the beginning of the object that value has not found the end of, if it exceeds the limit.
func (s *jsonStream) large() []byte {
	b := s.unused()
	if len(b) <= s.limit || s.scan.from >= len(b) || b[s.scan.from] != '{' || s.scan.depth == 0 {
		return nil
	}
	return b[s.scan.from:]
}

// beginSkip uses up the beginning of the object. skipRest uses up the rest.
func (s *jsonStream) beginSkip() {
	b, now := s.unused(), s.scan
	s.skip = skip{depth: now.depth, size: len(b) - now.from, quoted: now.offset < len(b)}
	for i := len(b) - 1; s.skip.quoted && i > now.offset && b[i] == '\\'; i-- {
		s.skip.escaped = !s.skip.escaped
	}
	s.use(len(b))
	s.buf, s.used = make([]byte, 0, bufferBytes), 0
}

// skipRest skips the rest of an object, if there is one to skip. It returns ErrMore if the caller must call Fill first.
func (s *jsonStream) skipRest() error {
	if s.skip.depth == 0 {
		return nil
	}
	end := s.skip.over(s.unused())
	s.skip.size += end
	s.use(end)
	switch {
	case s.skip.depth == 0:
		return nil
	case s.skip.size > maxSkipped:
		return errSkippedTooLarge
	}
	return unexpectedEOF(s.more())
}

// skipRest uses up left bytes. It returns ErrMore if the caller must call Fill first.
func (s *stream) skipRest(left *int) error {
	n := min(*left, len(s.unused()))
	s.use(n)
	if *left -= n; *left > 0 {
		return unexpectedEOF(s.more())
	}
	return nil
}

// headJSON returns the event of a frame, and the beginning of its object, from the beginning of the frame.
func headJSON(frame []byte) (event string, object []byte) {
	c := cursor{b: frame}
	c.members(func(key []byte, _ int) bool {
		c.space()
		name := string(memberName(key))
		if name == "object" {
			object = c.b[c.i:]
			return false
		}
		value := c.value(-MaxObjectBytes)
		if name == "type" {
			event = eventType(unquoted(value))
		}
		return value != nil
	})
	return event, object
}

// headProtobuf returns the event of a frame, the encoded runtime.TypeMeta of its object, and the beginning of the
// object, from the beginning of the frame.
func headProtobuf(frame []byte) (event string, meta, object []byte) {
	event = eventType(proto.First(frame, watchEventType))
	enveloped, ok := bytes.CutPrefix(proto.First(proto.First(frame, watchEventObject), rawExtensionRaw),
		[]byte(protobufMagic))
	if !ok {
		return "", nil, nil
	}
	return event, proto.First(enveloped, unknownTypeMeta), proto.First(enveloped, unknownRaw)
}

// headIdentity returns the identity of an object in protobuf, from its beginning.
func headIdentity(object []byte) (id Identity) {
	_ = proto.Fields(proto.First(object, objectMetadata), func(f proto.Field) bool {
		id.take(f)
		return true
	})
	return id
}
