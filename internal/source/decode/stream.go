package decode

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrMore indicates that Next needs more bytes of the body: call Fill, then Next again.
var ErrMore = errors.New("more of the body must be read: call Fill")

// stream holds the bytes that have been read from a body but not used. A reader inspects them by their offset from the
// first unused byte, and uses them up when an item is complete. Until then, it returns ErrMore, and inspects the item
// again after the next Fill.
type stream struct {
	body  io.Reader
	limit int    // MaxObjectBytes, or less in tests
	buf   []byte // buf[used:] is unused
	used  int
	burst int  // the bytes that were read since nearly all before them were used
	quiet int  // how many bursts in a row were small
	ended bool // the body has been read to its end
}

const (
	// bufferBytes is the size of the buffer for values that are not large.
	bufferBytes = 64 << 10
	// smallBytes is the size of the buffer for small values that come one by one.
	smallBytes = 4 << 10
	// idleBytes is the size of the buffer of a stream that waits, such as a watch of a collection that seldom changes.
	// Most programs have more of these than of others. A bookmark fits in it.
	idleBytes = 512
	// maxQuiet is after how many small bursts the buffer becomes small again.
	maxQuiet = 4
	// fewBytes are as good as none, such as the line break between two frames.
	fewBytes = 16
)

func newStream(body io.Reader) stream {
	return stream{body: body, limit: MaxObjectBytes}
}

// unused returns the unused bytes.
func (s *stream) unused() []byte { return s.buf[s.used:] }

// use marks the first n bytes as used. They stay valid until the next Fill.
func (s *stream) use(n int) { s.used += n }

// Fill reads from the body once. It waits for the network. Memory grows with the bytes that arrive, not with a length
// that the server sends. At the end of the body, Fill returns nil; Next then returns io.EOF or io.ErrUnexpectedEOF.
func (s *stream) Fill() error {
	kept := s.unused()
	if len(kept) > s.limit {
		return errObjectTooLarge
	}
	s.makeRoom(kept)
	for range 100 {
		n, err := s.body.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		s.burst += n
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

// makeRoom makes room for a read behind the unused bytes. It takes a larger buffer if a read has filled the present
// one, and the smallest one if little came several times, such as bookmarks.
func (s *stream) makeRoom(kept []byte) {
	filled, little := len(s.buf) == cap(s.buf), s.burst <= idleBytes/2
	to := s.buf[:0]
	switch {
	case len(kept) <= fewBytes && (little || !filled):
		if s.quiet++; !little {
			s.quiet = 0
		}
		if cap(to) == 0 || cap(to) > idleBytes && s.quiet >= maxQuiet {
			to = newBuffer(idleBytes)
		}
		s.burst = 0
	case !filled:
		return
	case cap(to) < smallBytes:
		to = newBuffer(smallBytes)
	case cap(to) < bufferBytes:
		to = newBuffer(bufferBytes)
	case len(kept) > cap(to)/2:
		to = make([]byte, 0, min(2*cap(to), s.limit+bufferBytes))
	}
	before := s.buf
	if s.buf, s.used = append(to, kept...), 0; cap(s.buf) != cap(before) {
		release(before)
	}
}

// Buffers that streams have released, since a watch that waits has none of these sizes, and wakes up soon.
var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBytes]byte) }}
	buffers      = sync.Pool{New: func() any { return new([bufferBytes]byte) }}
)

// newBuffer returns an empty buffer of that size.
func newBuffer(size int) []byte {
	switch size {
	case smallBytes:
		return smallBuffers.Get().(*[smallBytes]byte)[:0]
	case bufferBytes:
		return buffers.Get().(*[bufferBytes]byte)[:0]
	}
	return make([]byte, 0, size)
}

// release takes back a buffer that nobody uses any more.
func release(buf []byte) {
	switch cap(buf) {
	case smallBytes:
		smallBuffers.Put((*[smallBytes]byte)(buf[:smallBytes]))
	case bufferBytes:
		buffers.Put((*[bufferBytes]byte)(buf[:bufferBytes]))
	}
}

// more returns ErrMore, or io.EOF at the end of the body.
func (s *stream) more() error {
	if s.ended {
		return io.EOF
	}
	return ErrMore
}

// jsonStream reads JSON values from a stream without decoding them. It only finds the ends of strings, objects and
// arrays; the decoder of a value validates it.
type jsonStream struct {
	stream
	// The scans that stopped because they needed more bytes. They continue there, so that a large value is scanned only
	// once.
	scan  scan // in a value
	blank scan // in white space
	named bool // the last value is an object with a member "kind"
	skip  skip // of an object over the size limit
}

// scan is the progress of inspecting the value or white space that begins at offset from.
type scan struct {
	from, offset, searched, depth int
	named                         bool // a member "kind" precedes offset
}

// use is like stream.use, and resets the scans.
func (s *jsonStream) use(n int) {
	s.stream.use(n)
	s.scan, s.blank = scan{}, scan{}
}

// peek returns the first byte at or after offset i that is not white space, and its offset.
func (s *jsonStream) peek(i int) (byte, int, error) {
	from := i
	if s.blank.from == from {
		i = max(i, s.blank.offset)
	}
	for b := s.unused(); i < len(b); i++ {
		if c := b[i]; !isSpace(c) {
			return c, i, nil
		}
	}
	s.blank = scan{from: from, offset: i}
	return 0, i, s.more()
}

// expect returns the offset after c, which must be the next byte that is not white space.
func (s *jsonStream) expect(c byte, i int) (int, error) {
	got, offset, err := s.peek(i)
	if err != nil {
		return 0, unexpectedEOF(err)
	}
	if got != c {
		return 0, fmt.Errorf("JSON: %q where %q is expected", got, c)
	}
	return offset + 1, nil
}

// value returns the bounds of the value at offset i, after any white space. If that is an object, it sets s.named.
func (s *jsonStream) value(i int) (from, to int, err error) {
	c, from, err := s.peek(i)
	if err != nil {
		return 0, 0, unexpectedEOF(err)
	}
	b := s.unused()
	now := scan{from: from, offset: from}
	if s.scan.from == from && s.scan.offset >= from {
		now = s.scan
	}
	if c != '{' && c != '[' && c != '"' { // a number, true, false or null ends before a comma, a bracket or white space
		for i := now.offset; i < len(b); i++ {
			if c := b[i]; c == ',' || c == '}' || c == ']' || isSpace(c) {
				return from, i, nil
			}
		}
		if s.ended {
			return from, len(b), nil
		}
		now.offset = len(b)
		s.scan = now
		return 0, 0, ErrMore
	}
	for i = now.offset; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := stringEnd(b, i+1, max(i+1, now.searched))
			if end < 0 {
				now.offset, now.searched = i, len(b)
				s.scan = now
				return 0, 0, unexpectedEOF(s.more())
			}
			if now.depth == 0 {
				return from, end, nil
			}
			if now.depth == 1 && string(b[i:end]) == `"kind"` {
				now.named = true // or it is the value of a member, which does no harm
			}
			i = end - 1
		case '{', '[':
			now.depth++
		case '}', ']':
			if now.depth--; now.depth == 0 {
				s.named = now.named
				return from, i + 1, nil
			}
		}
	}
	now.offset = len(b)
	s.scan = now
	return 0, 0, unexpectedEOF(s.more())
}
