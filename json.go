package informer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

const (
	// maxObjectBytes limits one object, and one watch frame, as it comes over the wire. etcd takes 1.5 MB by default;
	// an object is larger as JSON, and some run etcd with a higher limit.
	maxObjectBytes = 32 << 20
	// maxListBytes limits all of a list but its items. That is kind, metadata with a continue token, and little else.
	maxListBytes = 1 << 20
	// maxNesting limits how deep objects and arrays are in each other. The JSON library has the same limit.
	maxNesting = 10_000
)

// ErrTooLarge indicates that the server sent more than is taken of one thing: of an object or a watch frame 32 MiB, or what
// becomes 256 MiB in memory; of what a list has beside its items 1 MiB; of a Status 64 KiB.
var ErrTooLarge = errors.New("too large")

var (
	errObjectTooLarge = fmt.Errorf("an object or frame of more than %d MiB is %w", maxObjectBytes>>20, ErrTooLarge)
	errListTooLarge   = fmt.Errorf("a list with more than %d MiB beside its items is %w", maxListBytes>>20, ErrTooLarge)
)

// jsonStream cuts JSON values out of a stream without decoding them. It only looks for where strings, objects and
// arrays end: whoever decodes a value finds out whether it is valid.
type jsonStream struct {
	r   io.Reader
	buf []byte // buf[mark:] is read and still needed
	// mark is where the piece begins that is being read; spans count from it, so that they stay true when the buffer
	// moves. pos is how far it is read.
	mark, pos int
}

// span is a part of the piece that begins at mark.
type span struct{ from, to int }

func newJSONStream(r io.Reader) *jsonStream {
	return &jsonStream{r: r, buf: make([]byte, 0, 64<<10)}
}

// begin forgets what was read before: spans and slices of it are no longer valid.
func (s *jsonStream) begin() { s.mark = s.pos }

func (s *jsonStream) bytes(sp span) []byte { return s.buf[s.mark+sp.from : s.mark+sp.to] }

// fill reads more, at the end of buf. Its error is io.EOF at the end of the stream.
func (s *jsonStream) fill() error {
	kept := s.buf[s.mark:]
	if len(kept) > maxObjectBytes {
		return errObjectTooLarge
	}
	if len(s.buf) == cap(s.buf) {
		to := s.buf[:0]
		if len(kept) > cap(s.buf)/2 {
			to = make([]byte, 0, min(2*cap(s.buf), maxObjectBytes+64<<10))
		}
		s.buf = append(to, kept...)
		s.pos -= s.mark
		s.mark = 0
	}
	for range 100 {
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// peek returns the next byte that is not white space, without reading it.
func (s *jsonStream) peek() (byte, error) {
	for {
		for ; s.pos < len(s.buf); s.pos++ {
			if c := s.buf[s.pos]; !isSpace(c) {
				return c, nil
			}
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// expect reads the next byte that is not white space, which must be c.
func (s *jsonStream) expect(c byte) error {
	got, err := s.peek()
	if err != nil {
		return unexpectedEOF(err)
	}
	if got != c {
		return fmt.Errorf("JSON: %q where %q is expected", got, c)
	}
	s.pos++
	return nil
}

// more reads the comma before another element of an object or array, or its end.
func (s *jsonStream) more(first *bool, end byte) (bool, error) {
	c, err := s.peek()
	if err != nil {
		return false, unexpectedEOF(err)
	}
	wasFirst := *first
	*first = false
	switch {
	case c == end:
		s.pos++
		return false, nil
	case wasFirst:
		return true, nil
	}
	return true, s.expect(',')
}

// value reads one value.
func (s *jsonStream) value() (span, error) {
	c, err := s.peek()
	if err != nil {
		return span{}, unexpectedEOF(err)
	}
	from := s.pos - s.mark
	depth := 0
	i := s.pos
	switch c {
	case '{', '[', '"':
	default: // a number, true, false or null ends where something else begins
		for {
			for ; i < len(s.buf); i++ {
				if c := s.buf[i]; c == ',' || c == '}' || c == ']' || isSpace(c) {
					s.pos = i
					return span{from, i - s.mark}, nil
				}
			}
			s.pos = i
			if err := s.fill(); err == io.EOF && s.mark+from < s.pos {
				return span{from, s.pos - s.mark}, nil
			} else if err != nil {
				return span{}, unexpectedEOF(err)
			}
			i = s.pos
		}
	}
	for {
		for i < len(s.buf) {
			switch s.buf[i] {
			case '"':
				end := stringEnd(s.buf, i+1, i+1)
				for end < 0 { // not all there yet
					searched := len(s.buf) - i
					s.pos = i
					if err := s.fill(); err != nil {
						return span{}, unexpectedEOF(err)
					}
					i = s.pos
					end = stringEnd(s.buf, i+1, i+searched)
				}
				i = end
				if depth > 0 {
					continue
				}
				s.pos = i
				return span{from, i - s.mark}, nil
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					s.pos = i + 1
					return span{from, s.pos - s.mark}, nil
				}
			}
			i++
		}
		s.pos = i
		if err := s.fill(); err != nil {
			return span{}, unexpectedEOF(err)
		}
		i = s.pos
	}
}

// stringEnd returns the place behind the quote that ends the string whose first byte is b[from], or -1. There is no
// such quote before b[i].
func stringEnd(b []byte, from, i int) int {
	for {
		for {
			if i+8 > len(b) {
				n := bytes.IndexByte(b[i:], '"')
				if n < 0 {
					return -1
				}
				i += n
				break
			}
			quotes := binary.LittleEndian.Uint64(b[i:]) ^ '"'*eachByte // most strings are short
			if found := (quotes - eachByte) &^ quotes & highBits; found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		escapes := 0
		for i-1-escapes >= from && b[i-1-escapes] == '\\' {
			escapes++
		}
		i++
		if escapes%2 == 0 {
			return i
		}
	}
}

// Eight bytes at a time: eachByte times a byte is that byte in each, and highBits marks the ones that are found.
const (
	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// jsonCursor walks over a value that is all in memory. What it cannot make sense of ends the walk early.
type jsonCursor struct {
	b     []byte
	i     int
	above int // how many objects and arrays b is in
}

func (c *jsonCursor) space() byte {
	for ; c.i < len(c.b); c.i++ {
		if !isSpace(c.b[c.i]) {
			return c.b[c.i]
		}
	}
	return 0
}

func (c *jsonCursor) take(want byte) bool {
	if c.space() != want {
		return false
	}
	c.i++
	return true
}

// members calls member for each member of the object at the cursor. member must consume the value, or return false
// to end the walk. key is as it is written, without quotes; at is where its first quote stands.
func (c *jsonCursor) members(member func(key []byte, at int) bool) bool {
	if !c.take('{') {
		return false
	}
	for c.space() == '"' {
		at := c.i
		key := c.value()
		if key == nil || !c.take(':') || !member(key[1:len(key)-1], at) {
			return false
		}
		if !c.take(',') {
			break
		}
	}
	return c.take('}')
}

// value returns the value at the cursor and moves behind it; nil when there is none.
func (c *jsonCursor) value() []byte {
	c.space()
	from, depth := c.i, 0
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case '"':
			end := stringEnd(c.b, c.i+1, c.i+1)
			if end < 0 {
				return nil
			}
			if c.i = end; depth == 0 {
				return c.b[from:c.i]
			}
			continue
		case '{', '[':
			if depth++; c.above+depth > maxNesting {
				return nil
			}
		case '}', ']':
			if depth == 0 {
				return scalar(c.b[from:c.i])
			}
			if depth--; depth == 0 {
				c.i++
				return c.b[from:c.i]
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return scalar(c.b[from:c.i])
			}
		}
		c.i++
	}
	return scalar(c.b[from:c.i])
}

func scalar(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// identity is what tells an object and its version apart, as it stands in an encoded object. All of it is empty when
// the object is not valid as far as was read.
type identity struct{ namespace, name, uid, resourceVersion []byte }

func (id identity) key() Key { return Key{Namespace: string(id.namespace), Name: string(id.name)} }

// complete says whether there is nothing left to look for.
func (id identity) complete() bool {
	return id.namespace != nil && id.name != nil && id.uid != nil && id.resourceVersion != nil
}

// jsonMetadata calls member for each member of the metadata of an encoded object until it returns false. The member is
// raw[from:to].
func jsonMetadata(raw []byte, member func(key, value []byte, from, to int) bool) {
	c := jsonCursor{b: raw}
	c.members(func(key []byte, _ int) bool {
		if string(key) != "metadata" {
			return c.value() != nil
		}
		c.members(func(key []byte, at int) bool {
			value := c.value()
			return value != nil && member(key, value, at, c.i)
		})
		return false
	})
}

// peekJSON reads an object's identity without decoding the object. It reads no further than it has to.
func peekJSON(raw []byte) (id identity) {
	jsonMetadata(raw, func(key, value []byte, _, _ int) bool {
		switch string(key) {
		case "namespace":
			id.namespace = unquoted(value)
		case "name":
			id.name = unquoted(value)
		case "uid":
			id.uid = unquoted(value)
		case "resourceVersion":
			id.resourceVersion = unquoted(value)
		}
		return !id.complete()
	})
	return id
}

// cutJSON returns an encoded object without metadata.managedFields.
func cutJSON(raw []byte) []byte {
	var cut span
	jsonMetadata(raw, func(key, _ []byte, from, to int) bool {
		if string(key) == "managedFields" {
			cut = memberSpan(raw, from, to)
		}
		return cut == span{}
	})
	if cut == (span{}) {
		return raw
	}
	return append(raw[:cut.from:cut.from], raw[cut.to:]...)
}

// unquoted returns what is between the quotes, nil when there is an escape. Names, UIDs and versions have none in them.
func unquoted(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil
	}
	return value[1 : len(value)-1]
}

// memberSpan returns what to cut so that the member raw[from:to] goes, with one of the commas around it.
func memberSpan(raw []byte, from, to int) span {
	before := from
	for before > 0 && isSpace(raw[before-1]) {
		before--
	}
	if before > 0 && raw[before-1] == ',' {
		return span{before - 1, to}
	}
	c := jsonCursor{b: raw, i: to}
	c.take(',')
	return span{from, c.i}
}
