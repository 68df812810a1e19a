// Package wire is what slim types, which codegen writes with -fields, decode protobuf with: those fields of a message that
// they have. What else is in it is stepped over.
package wire

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrMalformed indicates that a message is no valid protobuf, or not of the type that it should be of.
var ErrMalformed = errors.New("malformed protobuf")

// Value is the value of a field. It lies in the memory of its message.
type Value struct {
	wire  int
	bits  uint64 // of a number
	bytes []byte // of anything else
}

// Wire types of protobuf.
const (
	varint  = 0
	fixed64 = 1
	length  = 2
	fixed32 = 5
)

// Fields calls field for each field of a message, in their order. An error of field ends it.
func Fields(message []byte, field func(number int, v Value) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 || tag>>3 == 0 || tag>>3 > math.MaxInt32 {
			return ErrMalformed
		}
		message = message[n:]
		v := Value{wire: int(tag & 7)}
		size := 0
		switch v.wire {
		case varint:
			if v.bits, size = binary.Uvarint(message); size <= 0 {
				return ErrMalformed
			}
		case fixed64:
			if size = 8; len(message) >= size {
				v.bits = binary.LittleEndian.Uint64(message)
			}
		case fixed32:
			if size = 4; len(message) >= size {
				v.bits = uint64(binary.LittleEndian.Uint32(message))
			}
		case length:
			long, n := binary.Uvarint(message)
			if n <= 0 || long > uint64(len(message)-n) {
				return ErrMalformed
			}
			message, size = message[n:], int(long)
			v.bytes = message[:size:size]
		default:
			return ErrMalformed
		}
		if size > len(message) {
			return ErrMalformed
		}
		message = message[size:]
		if err := field(int(tag>>3), v); err != nil {
			return err
		}
	}
	return nil
}

// String decodes a string.
func String[S ~string](to *S, v Value) error {
	if v.wire != length {
		return ErrMalformed
	}
	*to = S(v.bytes)
	return nil
}

// Bytes decodes bytes.
func Bytes[B ~[]byte](to *B, v Value) error {
	if v.wire != length {
		return ErrMalformed
	}
	*to = append(B{}, v.bytes...)
	return nil
}

// Bool decodes a bool.
func Bool[B ~bool](to *B, v Value) error {
	if v.wire != varint {
		return ErrMalformed
	}
	*to = v.bits != 0
	return nil
}

// Int decodes an integer.
func Int[I ~int | ~int32 | ~int64 | ~uint32 | ~uint64](to *I, v Value) error {
	if v.wire != varint {
		return ErrMalformed
	}
	*to = I(v.bits)
	return nil
}

// Double decodes a floating point number.
func Double[F ~float64](to *F, v Value) error {
	if v.wire != fixed64 {
		return ErrMalformed
	}
	*to = F(math.Float64frombits(v.bits))
	return nil
}

// Message decodes a message into one that may have something in it already.
func Message(to interface{ Unmarshal([]byte) error }, v Value) error {
	if v.wire != length {
		return ErrMalformed
	}
	return to.Unmarshal(v.bytes)
}

// Nested returns the value of a field that has a message.
func Nested(message []byte) Value { return Value{wire: length, bytes: message} }

// Entry calls key and value for those of a map's entry, as far as they are there.
func Entry(entry Value, key, value func(v Value) error) error {
	if entry.wire != length {
		return ErrMalformed
	}
	return Fields(entry.bytes, func(number int, v Value) error {
		switch number {
		case 1:
			return key(v)
		case 2:
			return value(v)
		}
		return nil
	})
}

// Ints decodes one element of a list of integers, or several that are packed.
func Ints[I ~int | ~int32 | ~int64 | ~uint32 | ~uint64](to *[]I, v Value) error {
	switch v.wire {
	case varint:
		*to = append(*to, I(v.bits))
		return nil
	case length:
		for b := v.bytes; len(b) > 0; {
			bits, n := binary.Uvarint(b)
			if n <= 0 {
				return ErrMalformed
			}
			*to, b = append(*to, I(bits)), b[n:]
		}
		return nil
	}
	return ErrMalformed
}
