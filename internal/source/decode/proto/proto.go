// Package proto walks over protobuf messages in memory. It accepts and rejects the same input as the code that
// gogo/protobuf generates for the Kubernetes API: a field may be a group, field numbers count modulo 2^32, and other
// numbers modulo 2^64. Reading a message allocates no memory and never reads beyond its end, whatever its content.
package proto

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed indicates that a message is not valid protobuf, or not of the expected type.
var ErrMalformed = errors.New("malformed protobuf")

// Wire is the wire type of a field: how its value is encoded.
type Wire uint8

// The wire types of protobuf.
const (
	Varint     Wire = 0
	Fixed64    Wire = 1
	Bytes      Wire = 2
	BeginGroup Wire = 3
	EndGroup   Wire = 4
	Fixed32    Wire = 5
)

// Field is one field of a message.
type Field struct {
	Number   int
	Wire     Wire
	From, To int    // message[From:To] is the field with its tag
	Bits     uint64 // the value, if Wire is Varint, Fixed64 or Fixed32
	Bytes    []byte // the value, if Wire is Bytes; it refers to the message's memory
}

// Tag returns the tag of a field.
func Tag(number int, wire Wire) uint64 { return uint64(number)<<3 | uint64(wire) }

// Split returns the field number and the wire type of a tag. No field has a number below 1.
func Split(tag uint64) (number int, wire Wire) { return int(int32(tag >> 3)), Wire(tag & 7) }

// Uvarint returns the number at message[i] modulo 2^64, and the offset of the next item. end is 0 if there is no
// number: the message ends within it, or it is longer than ten bytes.
func Uvarint(message []byte, i int) (v uint64, end int) {
	if i < len(message) && message[i] < 0x80 {
		return uint64(message[i]), i + 1
	}
	return longUvarint(message, i)
}

// MaxUvarint is the maximum length of a number in bytes.
const MaxUvarint = 10

func longUvarint(message []byte, i int) (v uint64, end int) {
	for shift := 0; shift < 7*MaxUvarint && i < len(message); shift += 7 {
		b := message[i]
		i++
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			return v, i
		}
	}
	return 0, 0
}

// Body returns the bytes after the length at message[i], and the offset of the next item. end is 0 if the length is
// malformed, or if the message ends before.
func Body(message []byte, i int) (body []byte, end int) {
	size, i := Uvarint(message, i)
	if i == 0 || size > uint64(len(message)-i) {
		return nil, 0
	}
	end = i + int(size)
	return message[i:end:end], end
}

// Skip returns the end of the value at message[i], or 0 if it is malformed. The value of a group ends after its end
// tag.
func Skip(message []byte, i int, wire Wire) (end int) {
	for depth := 0; ; {
		switch wire {
		case Varint:
			_, i = Uvarint(message, i)
		case Fixed64:
			i += 8
		case Fixed32:
			i += 4
		case Bytes:
			_, i = Body(message, i)
		case BeginGroup:
			depth++
		case EndGroup:
			if depth--; depth < 0 {
				return 0
			}
		default:
			return 0
		}
		if i == 0 || i > len(message) {
			return 0
		}
		if depth == 0 {
			return i
		}
		var tag uint64
		if tag, i = Uvarint(message, i); i == 0 {
			return 0
		}
		wire = Wire(tag & 7)
	}
}

// Next reads the field that begins at message[i]. It returns false if the field is malformed.
func Next(message []byte, i int) (f Field, ok bool) {
	tag, offset := Uvarint(message, i)
	number, wire := Split(tag)
	if offset == 0 || number <= 0 {
		return Field{}, false
	}
	f = Field{Number: number, Wire: wire, From: i}
	switch wire {
	case Varint:
		f.Bits, f.To = Uvarint(message, offset)
	case Bytes:
		f.Bytes, f.To = Body(message, offset)
	case Fixed64:
		if f.To = Skip(message, offset, wire); f.To > 0 {
			f.Bits = binary.LittleEndian.Uint64(message[offset:])
		}
	case Fixed32:
		if f.To = Skip(message, offset, wire); f.To > 0 {
			f.Bits = uint64(binary.LittleEndian.Uint32(message[offset:]))
		}
	default:
		f.To = Skip(message, offset, wire)
	}
	return f, f.To > 0
}

// First returns the value of the first field of message that has that number and the wire type Bytes, or nil if there
// is none before a malformed field. If the message ends within the value, it returns that part of the value.
func First(message []byte, number int) []byte {
	for i := 0; i < len(message); {
		f, ok := Next(message, i)
		switch {
		case ok && f.Number == number && f.Wire == Bytes:
			return f.Bytes
		case !ok:
			return firstPart(message[i:], number)
		}
		i = f.To
	}
	return nil
}

// firstPart returns what message has of the value of its only field, which is longer than message.
func firstPart(message []byte, number int) []byte {
	tag, offset := Uvarint(message, 0)
	if n, wire := Split(tag); offset == 0 || n != number || wire != Bytes {
		return nil
	}
	if _, offset = Uvarint(message, offset); offset == 0 {
		return nil
	}
	return message[offset:]
}

// Fields calls field for each field of message, in order, until field returns false. At a malformed field, it returns
// [ErrMalformed].
func Fields(message []byte, field func(Field) bool) error {
	for i := 0; i < len(message); {
		f, ok := Next(message, i)
		if !ok {
			return ErrMalformed
		}
		if !field(f) {
			return nil
		}
		i = f.To
	}
	return nil
}

// AppendBytes appends a field of bytes to a message.
func AppendBytes(message []byte, number int, value []byte) []byte {
	return append(AppendHeader(message, number, len(value)), value...)
}

// AppendHeader appends the beginning of a field of size bytes to a message. The bytes must follow.
func AppendHeader(message []byte, number, size int) []byte {
	message = binary.AppendUvarint(message, Tag(number, Bytes))
	return binary.AppendUvarint(message, uint64(size))
}
