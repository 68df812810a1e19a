package decode

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// cursor walks over JSON that is all in memory. It does not check that what it skips is JSON. Its methods return false, or
// nothing, where they do not find what they look for, and leave the cursor somewhere behind.
type cursor struct {
	b []byte
	i int
}

// space skips white space, and returns the byte behind, 0 at the end.
func (c *cursor) space() byte {
	for ; c.i < len(c.b); c.i++ {
		if !isSpace(c.b[c.i]) {
			return c.b[c.i]
		}
	}
	return 0
}

// take skips want.
func (c *cursor) take(want byte) bool {
	if c.space() != want {
		return false
	}
	c.i++
	return true
}

// open enters an object or array, and reports whether there is an element in it. Where there is none of them, i is 0.
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

// comma skips what stands behind an element: a comma, or the end, which sets more to false.
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

// elements calls element for each element of the array at the cursor. element skips it, or returns false to end the walk.
func (c *cursor) elements(element func() bool) bool {
	for more := c.open('[', ']'); more; {
		if !element() || !c.comma(']', &more) {
			return false
		}
	}
	return c.i > 0
}

// members calls member for each member of the object at the cursor. member skips the value, or returns false to end the walk.
// key is the name without quotes, and still escaped; at is the offset of its first quote.
func (c *cursor) members(member func(key []byte, at int) bool) bool {
	for more := c.open('{', '}'); more; {
		if c.space() != '"' {
			return false
		}
		at := c.i
		end := stringEnd(c.b, at+1, at+1)
		if end < 0 {
			return false
		}
		if c.i = end; !c.take(':') || !member(c.b[at+1:end-1], at) || !c.comma('}', &more) {
			return false
		}
	}
	return c.i > 0
}

// value returns the value at the cursor, which is in that many objects and arrays, and skips it; nil when there is none.
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

// managedFields skips metadata.managedFields as API servers write them: an array of objects, no array in any of them, followed by
// the end of the metadata or by another member. Otherwise it skips nothing. It looks at the brackets only, so it takes a tenth of
// the time of value.
//
// A bracket in a string is not taken for the end: a string ends with a quote, and no letter follows that. If an array in one of the
// objects is taken for the end, the braces and brackets behind it do not match, so the decoder rejects the object.
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
		if c.b[end-2] == '}' && len(behind) > 2 && behind[0] == ',' && behind[1] == '"' && 'a' <= behind[2] && behind[2] <= 'z' {
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

// number returns a whole number and skips it; nothing when there is none.
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

// text returns the string at the cursor and skips it, if it is plain: if it means what is written, which is ASCII without
// escapes. Otherwise it skips nothing but white space.
func (c *cursor) text() (text []byte, plain bool) {
	if c.space() != '"' {
		return nil, false
	}
	b, i := c.b, c.i+1
	from := i
	for ; i+8 <= len(b); i += 8 { // eight bytes at a time, until one that is a quote, an escape, a control character, or not ASCII
		w := binary.LittleEndian.Uint64(b[i:])
		quotes, escapes := w^('"'*eachByte), w^('\\'*eachByte)
		if found := ((quotes-eachByte)&^quotes | (escapes-eachByte)&^escapes | (w-' '*eachByte)&^w | w) & highBits; found != 0 {
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

// unquoted returns the string that value is, as the decoders would, and nil if it is none. Names, UIDs and versions mostly
// mean what is written, and cost no memory.
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

// memberName returns the name of a member that is written as key.
func memberName(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	return unquoted(slices.Concat([]byte{'"'}, key, []byte{'"'}))
}
