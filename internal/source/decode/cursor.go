package decode

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// cursor walks over JSON in memory. It does not validate the values that it skips. A method that fails returns false or
// nil. The position of the cursor is then unspecified, unless the method documents it.
type cursor struct {
	b []byte
	i int
}

// space skips white space. It returns the next byte, or 0 at the end.
func (c *cursor) space() byte {
	for ; c.i < len(c.b); c.i++ {
		if !isSpace(c.b[c.i]) {
			return c.b[c.i]
		}
	}
	return 0
}

// take skips white space and want.
func (c *cursor) take(want byte) bool {
	if c.space() != want {
		return false
	}
	c.i++
	return true
}

// open enters an object or array, and reports whether it has an element. If there is no object or array, open sets i to
// 0.
func (c *cursor) open(begin, end byte) bool {
	if c.space() != begin {
		c.i = 0
		return false
	}
	c.i++
	if c.space() == end {
		c.i++
		return false
	}
	return true
}

// comma skips the comma or closing bracket after an element. At the closing bracket, it sets *more to false.
func (c *cursor) comma(end byte, more *bool) bool {
	switch c.space() {
	case ',':
		c.i++
		return true
	case end:
		c.i++
		*more = false
		return true
	}
	return false
}

// elements calls element for each element of the array at the cursor. element skips it, or returns false to end the
// walk.
func (c *cursor) elements(element func() bool) bool {
	for more := c.open('[', ']'); more; {
		if !element() || !c.comma(']', &more) {
			return false
		}
	}
	return c.i > 0
}

// members calls member for each member of the object at the cursor. member skips the value, or returns false to end the
// walk. key is the name without quotes, still escaped; quote is the offset of its opening quote.
func (c *cursor) members(member func(key []byte, quote int) bool) bool {
	for more := c.open('{', '}'); more; {
		if c.space() != '"' {
			return false
		}
		quote := c.i
		end := stringEnd(c.b, quote+1, quote+1)
		if end < 0 {
			return false
		}
		if c.i = end; !c.take(':') || !member(c.b[quote+1:end-1], quote) || !c.comma('}', &more) {
			return false
		}
	}
	return c.i > 0
}

// moreMembers reports whether members, each behind a comma, are all that is left.
func (c *cursor) moreMembers() bool {
	for c.take(',') {
		if c.space() != '"' {
			return false
		}
		if c.i = stringEnd(c.b, c.i+1, c.i+1); c.i < 0 || !c.take(':') || c.value(0) == nil {
			return false
		}
	}
	return c.space() == 0 && c.i == len(c.b)
}

// value skips the value at the cursor and returns it, or nil if there is none. above is the number of objects and
// arrays around the value.
func (c *cursor) value(above int) []byte {
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
			if depth++; above+depth > maxNesting {
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

// managedFields skips metadata.managedFields as API servers write them: an array of objects that contain no arrays. The
// end of the metadata or another member must follow. Otherwise it skips no value. It inspects only the brackets, so it
// takes a tenth of the time of value.
//
// A bracket in a string never counts as the end: a quote and a letter would have to follow it. That quote would end the
// string, and no letter can follow the end of a string. If managedFields takes the end of an inner array for its own,
// the brackets after it do not match, and the decoder rejects the object.
func (c *cursor) managedFields() bool {
	if c.space() != '[' {
		return false
	}
	for end, tries := c.i, 0; tries < 8; tries++ {
		n := bytes.IndexByte(c.b[end:], ']')
		if n < 0 {
			return false
		}
		end += n + 1
		behind := c.b[end:]
		if len(behind) > 0 && behind[0] == '}' {
			behind = behind[1:]
		}
		if c.b[end-2] == '}' && len(behind) > 2 && behind[0] == ',' && behind[1] == '"' && 'a' <= behind[2] &&
			behind[2] <= 'z' {
			c.i = end
			return true
		}
	}
	return false
}

func scalar(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// literal skips want.
func (c *cursor) literal(want string) bool {
	if len(c.b)-c.i < len(want) || string(c.b[c.i:c.i+len(want)]) != want {
		return false
	}
	c.i += len(want)
	return true
}

// number skips an integer and returns it. The result is empty if there is no integer.
func (c *cursor) number() []byte {
	from := c.i
	for ; c.i < len(c.b); c.i++ {
		if digit := c.b[c.i]; (digit < '0' || digit > '9') && (digit != '-' || c.i > from) {
			if digit == '.' || digit == 'e' || digit == 'E' {
				return nil
			}
			break
		}
	}
	digits := c.b[from:c.i]
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 1 && digits[0] == '0' {
		return nil
	}
	return c.b[from:c.i]
}

// text skips the string at the cursor and returns it without quotes, if it is plain: ASCII without escapes. Otherwise
// it skips only white space.
func (c *cursor) text() (text []byte, plain bool) {
	if c.space() != '"' {
		return nil, false
	}
	b, i := c.b, c.i+1
	from := i
	for ; i+8 <= len(b); i += 8 { // eight bytes at a time, up to a quote, escape, control character or non-ASCII byte
		w := binary.LittleEndian.Uint64(b[i:])
		quotes, escapes := w^('"'*eachByte), w^('\\'*eachByte)
		found := ((quotes-eachByte)&^quotes | (escapes-eachByte)&^escapes | (w-' '*eachByte)&^w | w) & highBits
		if found != 0 {
			i += bits.TrailingZeros64(found) / 8
			if b[i] != '"' {
				return nil, false
			}
			c.i = i + 1
			return b[from:i], true
		}
	}
	for ; i < len(b); i++ {
		switch char := b[i]; {
		case char == '"':
			c.i = i + 1
			return b[from:i], true
		case char == '\\' || char < ' ' || char >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// stringEnd returns the offset after the closing quote of the string whose first byte is b[from], or -1. It searches
// from b[i]: the caller knows that the string does not end before.
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

// Constants to inspect eight bytes at a time: eachByte times a byte repeats it eight times; highBits marks the bytes
// found.
const (
	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// unquoted decodes a string as the decoders do. It returns nil if value is not a string. It allocates only for strings
// that are not plain; names, UIDs and resource versions mostly are.
func unquoted(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	text := value[1 : len(value)-1]
	for _, c := range text {
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			decoded, err := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowInvalidUTF8(true)).ReadToken()
			if err != nil {
				return nil
			}
			return []byte(decoded.String())
		}
	}
	return text
}

// memberName decodes the name of a member. key is the name without quotes, still escaped.
func memberName(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	return unquoted(slices.Concat([]byte{'"'}, key, []byte{'"'}))
}
