// Package wire decodes protobuf for the slim types that codegen generates with -fields. These types decode their own
// fields and skip all others.
package wire

import (
	"math"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// ErrMalformed indicates that a message is not valid protobuf, or not of the expected type.
var ErrMalformed = proto.ErrMalformed

// Value is the value of a field. It refers to the memory of its message.
type Value struct{ field proto.Field }

// Fields calls field for each field of a message, in order. It stops at the first error and returns it.
func Fields(message []byte, field func(number int, v Value) error) error {
	for i := 0; i < len(message); {
		f, ok := proto.Next(message, i)
		if !ok {
			return ErrMalformed
		}
		if err := field(f.Number, Value{f}); err != nil {
			return err
		}
		i = f.To
	}
	return nil
}

// String decodes a string.
func String[S ~string](to *S, v Value) error {
	if v.field.Wire != proto.Bytes {
		return ErrMalformed
	}
	*to = S(v.field.Bytes)
	return nil
}

// Bytes decodes bytes into a copy.
func Bytes[B ~[]byte](to *B, v Value) error {
	if v.field.Wire != proto.Bytes {
		return ErrMalformed
	}
	*to = append(B{}, v.field.Bytes...)
	return nil
}

// Bool decodes a bool.
func Bool[B ~bool](to *B, v Value) error {
	if v.field.Wire != proto.Varint {
		return ErrMalformed
	}
	*to = v.field.Bits != 0
	return nil
}

// Int decodes an integer.
func Int[I ~int | ~int32 | ~int64 | ~uint32 | ~uint64](to *I, v Value) error {
	if v.field.Wire != proto.Varint {
		return ErrMalformed
	}
	*to = I(v.field.Bits)
	return nil
}

// Double decodes a floating point number.
func Double[F ~float64](to *F, v Value) error {
	if v.field.Wire != proto.Fixed64 {
		return ErrMalformed
	}
	*to = F(math.Float64frombits(v.field.Bits))
	return nil
}

// Message decodes a message into to, which may already have content.
func Message(to interface{ Unmarshal([]byte) error }, v Value) error {
	if v.field.Wire != proto.Bytes {
		return ErrMalformed
	}
	return to.Unmarshal(v.field.Bytes)
}

// Nested returns a Value that holds a message.
func Nested(message []byte) Value { return Value{proto.Field{Wire: proto.Bytes, Bytes: message}} }

// Entry decodes an entry of a map. It calls key and value only for the parts that are present.
func Entry(entry Value, key, value func(v Value) error) error {
	if entry.field.Wire != proto.Bytes {
		return ErrMalformed
	}
	return Fields(entry.field.Bytes, func(number int, v Value) error {
		switch number {
		case 1:
			return key(v)
		case 2:
			return value(v)
		}
		return nil
	})
}

// Ints decodes one element of a list of integers, or several packed ones.
func Ints[I ~int | ~int32 | ~int64 | ~uint32 | ~uint64](to *[]I, v Value) error {
	switch v.field.Wire {
	case proto.Varint:
		*to = append(*to, I(v.field.Bits))
		return nil
	case proto.Bytes:
		for b, i := v.field.Bytes, 0; i < len(b); {
			var bits uint64
			if bits, i = proto.Uvarint(b, i); i == 0 {
				return ErrMalformed
			}
			*to = append(*to, I(bits))
		}
		return nil
	}
	return ErrMalformed
}
