package fetch

import (
	"bytes"
	"io"
	"strings"

	"github.com/typedinformer/informer/internal/source/decode"
)

// eventsOnly is the body of a watch. Read returns ErrNoWatch if the body begins like a list instead of an event: some
// servers ignore the parameter watch.
type eventsOnly struct {
	body   io.Reader
	format decode.Format
	begin  []byte // the first bytes, until they decide
	sure   bool   // the body does not begin like a list
}

// mostBegin is the number of bytes that decide.
const mostBegin = 512

// Read implements io.Reader.
func (e *eventsOnly) Read(p []byte) (int, error) {
	n, err := e.body.Read(p)
	if e.sure {
		return n, err
	}
	e.begin = append(e.begin, p[:min(n, mostBegin-len(e.begin))]...)
	isList, decided := beginsList(e.format, e.begin)
	if isList {
		return 0, ErrNoWatch
	}
	if decided || len(e.begin) == mostBegin {
		e.begin, e.sure = nil, true
	}
	return n, err
}

// beginsList reports whether b is the beginning of a list, and whether more bytes can no longer change the answer.
func beginsList(f decode.Format, b []byte) (isList, decided bool) {
	if f == decode.Protobuf { // the length of a frame is below the first four bytes of a list
		envelope := []byte("k8s\x00")
		return bytes.HasPrefix(b, envelope), len(b) >= len(envelope)
	}
	for open := byte('{'); ; open = ',' {
		key, rest, ok := member(b, open)
		if !ok || key != "kind" && key != "apiVersion" {
			return key == "items", ok
		}
		value, rest, ok := member(rest, ':')
		if !ok || key == "kind" {
			return strings.HasSuffix(value, "List"), ok
		}
		b = rest
	}
}

// member returns the string after the byte c at the beginning of b, and the rest of b. It returns false if b ends
// before the string does. If b does not begin with c and a string, the string is empty.
func member(b []byte, c byte) (s string, rest []byte, ok bool) {
	for _, next := range []byte{c, '"'} {
		b = bytes.TrimLeft(b, " \t\r\n")
		if len(b) == 0 {
			return "", nil, false
		}
		if b[0] != next {
			return "", nil, true
		}
		b = b[1:]
	}
	text, rest, ok := bytes.Cut(b, []byte{'"'})
	if !ok {
		return "", nil, false
	}
	return string(text), rest, true
}
