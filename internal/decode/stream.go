package decode

import (
	"errors"
	"fmt"
	"io"
)

// ErrMore indicates that Next needs bytes of the body that have not been read: call Fill, then Next again.
var ErrMore = errors.New("more of the body has to be read")

// stream holds what has been read of a body and not been used. A reader inspects what is there by its offset from the first
// unused byte, and uses it up when an item is complete. If an item is not complete, the reader returns ErrMore, and inspects it
// again once there is more.
type stream struct {
	body  io.Reader
	buf   []byte // buf[used:] is not used
	used  int
	ended bool // there is no more to read
}

func newStream(body io.Reader) stream {
	return stream{body: body, buf: make([]byte, 0, 64<<10)}
}

// unused returns what is there.
func (s *stream) unused() []byte { return s.buf[s.used:] }

// use marks the first n bytes as used. They stay valid until the next Fill.
func (s *stream) use(n int) { s.used += n }

// Fill reads from the body once. It waits for the network. Memory grows with what really comes, not with what a length
// promises. At the end of the body, Fill returns nil; Next then returns io.EOF, or io.ErrUnexpectedEOF.
func (s *stream) Fill() error {
	kept := s.unused()
	if len(kept) > MaxObjectBytes {
		return errObjectTooLarge
	}
	if len(s.buf) == cap(s.buf) {
		to := s.buf[:0]
		if len(kept) > cap(s.buf)/2 {
			to = make([]byte, 0, min(2*cap(s.buf), MaxObjectBytes+64<<10))
		}
		s.buf, s.used = append(to, kept...), 0
	}
	for range 100 {
		n, err := s.body.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		switch {
		case n > 0:
			return nil
		case err == io.EOF:
			s.ended = true
			return nil
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// more returns ErrMore, or io.EOF if there is no more.
func (s *stream) more() error {
	if s.ended {
		return io.EOF
	}
	return ErrMore
}

// jsonStream reads JSON values from a stream without decoding them. It only looks for where strings, objects and arrays end;
// the decoder of a value finds out whether it is valid.
type jsonStream struct {
	stream
	// How far the scan came when it needed more. It continues there, so that a large value is not scanned again and again.
	scan  scan // in a value
	blank scan // in white space
}

// scan is how far what begins at an offset was inspected.
type scan struct{ from, at, searched, depth int }

// use is stream.use.
func (s *jsonStream) use(n int) {
	s.stream.use(n)
	s.scan, s.blank = scan{}, scan{}
}

// peek returns the first byte at offset i or behind it that is not white space, and its offset.
func (s *jsonStream) peek(i int) (byte, int, error) {
	from := i
	if s.blank.from == from {
		i = max(i, s.blank.at)
	}
	for b := s.unused(); i < len(b); i++ {
		if c := b[i]; !isSpace(c) {
			return c, i, nil
		}
	}
	s.blank = scan{from: from, at: i}
	return 0, i, s.more()
}

// expect returns the offset behind c, which has to be the next byte that is not white space.
func (s *jsonStream) expect(c byte, i int) (int, error) {
	got, at, err := s.peek(i)
	if err != nil {
		return 0, unexpectedEOF(err)
	}
	if got != c {
		return 0, fmt.Errorf("JSON: %q where %q is expected", got, c)
	}
	return at + 1, nil
}

// value returns the offsets of the value at offset i or behind white space.
func (s *jsonStream) value(i int) (from, to int, err error) {
	c, from, err := s.peek(i)
	if err != nil {
		return 0, 0, unexpectedEOF(err)
	}
	b := s.unused()
	now := scan{from: from, at: from}
	if s.scan.from == from && s.scan.at >= from {
		now = s.scan
	}
	if c != '{' && c != '[' && c != '"' { // a number, true, false or null ends where something else begins
		for i := now.at; i < len(b); i++ {
			if c := b[i]; c == ',' || c == '}' || c == ']' || isSpace(c) {
				return from, i, nil
			}
		}
		if s.ended {
			return from, len(b), nil
		}
		now.at = len(b)
		s.scan = now
		return 0, 0, ErrMore
	}
	for i = now.at; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := stringEnd(b, i+1, max(i+1, now.searched))
			if end < 0 {
				now.at, now.searched = i, len(b)
				s.scan = now
				return 0, 0, unexpectedEOF(s.more())
			}
			if now.depth == 0 {
				return from, end, nil
			}
			i = end - 1
		case '{', '[':
			now.depth++
		case '}', ']':
			if now.depth--; now.depth == 0 {
				return from, i + 1, nil
			}
		}
	}
	now.at = len(b)
	s.scan = now
	return 0, 0, unexpectedEOF(s.more())
}
