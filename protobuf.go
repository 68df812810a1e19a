package informer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// protobufMagic begins every protobuf body and every object in a watch frame; behind it stands a runtime.Unknown.
// See the API concepts documentation, "Kubernetes Protobuf encoding".
const protobufMagic = "k8s\x00"

// Field numbers of the messages that this file takes apart. Each kind of the Kubernetes API has its metadata in
// field 1, and each list has its items in field 2.
const (
	unknownTypeMeta    = 1 // runtime.Unknown
	unknownRaw         = 2
	typeMetaAPIVersion = 1 // runtime.TypeMeta
	typeMetaKind       = 2
	listMetadata       = 1
	listItems          = 2
	objectMetadata     = 1
	metaName           = 1 // metav1.ObjectMeta
	metaNamespace      = 3
	metaUID            = 5
	metaRV             = 6
	metaManaged        = 17
	watchEventType     = 1 // metav1.WatchEvent
	watchEventObject   = 2
	rawExtensionRaw    = 1 // runtime.RawExtension
)

// Wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

var errProtobuf = errors.New("malformed protobuf")

// wireField is one field of a message. bytes is set for wireBytes, and lies in the message's memory.
type wireField struct {
	number   int
	wire     int
	from, to int // the whole field, with its tag
	bytes    []byte
}

// nextField reads the field that begins at msg[i].
func nextField(msg []byte, i int) (wireField, error) {
	tag, n := binary.Uvarint(msg[i:])
	if n <= 0 || tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return wireField{}, errProtobuf
	}
	f := wireField{number: int(tag >> 3), wire: int(tag & 7), from: i, to: i + n}
	var size uint64
	switch f.wire {
	case wireVarint:
		_, n := binary.Uvarint(msg[f.to:])
		if n <= 0 {
			return wireField{}, errProtobuf
		}
		size = uint64(n)
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	case wireBytes:
		length, n := binary.Uvarint(msg[f.to:])
		if n <= 0 {
			return wireField{}, errProtobuf
		}
		f.to += n
		size = length
	default:
		return wireField{}, errProtobuf
	}
	if size > uint64(len(msg)-f.to) {
		return wireField{}, errProtobuf
	}
	if f.wire == wireBytes {
		f.bytes = msg[f.to : f.to+int(size)]
	}
	f.to += int(size)
	return f, nil
}

// wireFields calls field for each field of msg until it returns false.
func wireFields(msg []byte, field func(wireField) bool) error {
	for i := 0; i < len(msg); {
		f, err := nextField(msg, i)
		if err != nil {
			return err
		}
		if !field(f) {
			return nil
		}
		i = f.to
	}
	return nil
}

// unwrapProtobuf returns the message of an encoded object: magic, then a runtime.Unknown.
func unwrapProtobuf(b []byte) (msg []byte, err error) {
	if len(b) < len(protobufMagic) || string(b[:len(protobufMagic)]) != protobufMagic {
		return nil, fmt.Errorf("%w: it begins with %q instead of %q", errProtobuf, b[:min(len(b), len(protobufMagic))], protobufMagic)
	}
	err = wireFields(b[len(protobufMagic):], func(f wireField) bool {
		if f.number == unknownRaw && f.wire == wireBytes {
			msg = f.bytes
		}
		return true
	})
	return msg, err
}

// typeMeta decodes a runtime.TypeMeta.
func typeMeta(b []byte) (apiVersion, kind string, err error) {
	err = wireFields(b, func(f wireField) bool {
		switch f.number {
		case typeMetaAPIVersion:
			apiVersion = string(f.bytes)
		case typeMetaKind:
			kind = string(f.bytes)
		}
		return true
	})
	return apiVersion, kind, err
}

// peekProtobuf reads an object's identity without decoding the object. It reads no further than it has to.
func peekProtobuf(raw []byte) (id identity) {
	err := wireFields(metadataOf(raw).bytes, func(f wireField) bool {
		switch f.number {
		case metaName:
			id.name = f.bytes
		case metaNamespace:
			id.namespace = f.bytes
		case metaUID:
			id.uid = f.bytes
		case metaRV:
			id.resourceVersion = f.bytes
		}
		return !id.complete()
	})
	if err != nil {
		return identity{}
	}
	return id
}

// metadataOf returns the metadata of an encoded object, without bytes when there is none.
func metadataOf(raw []byte) (meta wireField) {
	_ = wireFields(raw, func(f wireField) bool {
		if f.number != objectMetadata || f.wire != wireBytes {
			return true
		}
		meta = f
		return false
	})
	return meta
}

// cutProtobuf returns an encoded object without metadata.managedFields.
func cutProtobuf(raw []byte) []byte {
	meta := metadataOf(raw)
	kept := make([]byte, 0, len(meta.bytes))
	err := wireFields(meta.bytes, func(f wireField) bool {
		if f.number != metaManaged {
			kept = append(kept, meta.bytes[f.from:f.to]...)
		}
		return true
	})
	if err != nil || len(kept) == len(meta.bytes) {
		return raw
	}
	without := append(make([]byte, 0, len(raw)), raw[:meta.from]...)
	without = append(without, objectMetadata<<3|wireBytes)
	without = binary.AppendUvarint(without, uint64(len(kept)))
	without = append(without, kept...)
	return append(without, raw[meta.to:]...)
}

// protobufStream reads fields from a stream, each into the same memory.
type protobufStream struct {
	r   *bufio.Reader
	buf []byte
}

func newProtobufStream(r io.Reader) *protobufStream {
	return &protobufStream{r: bufio.NewReaderSize(r, 64<<10)}
}

// bytes reads the next n bytes. They are valid until the next call. Memory grows with what really comes, not with
// what n promises.
func (s *protobufStream) bytes(n uint64) ([]byte, error) {
	if n > maxObjectBytes {
		return nil, errObjectTooLarge
	}
	if n <= uint64(s.r.Size()) {
		b, err := s.r.Peek(int(n))
		if err != nil {
			return nil, unexpectedEOF(err)
		}
		_, _ = s.r.Discard(len(b)) // they are there
		return b, nil
	}
	s.buf = s.buf[:0]
	for len(s.buf) < int(n) {
		if len(s.buf) == cap(s.buf) {
			grown := make([]byte, len(s.buf), max(2*cap(s.buf), 64<<10))
			copy(grown, s.buf)
			s.buf = grown
		}
		to := min(int(n), cap(s.buf))
		read, err := io.ReadFull(s.r, s.buf[len(s.buf):to])
		s.buf = s.buf[:len(s.buf)+read]
		if err != nil {
			return nil, unexpectedEOF(err)
		}
	}
	return s.buf, nil
}

// length is what is left of a message whose end is not in memory.
type length struct{ left uint64 }

// field reads the tag of the next field and, for one of wireBytes, its length; others are skipped and have number 0.
// It returns io.EOF at the end of the message.
func (s *protobufStream) field(of *length) (number int, size uint64, err error) {
	if of.left == 0 {
		return 0, 0, io.EOF
	}
	if of.left == math.MaxUint64 { // as much as there is
		if _, err := s.r.Peek(1); err != nil {
			return 0, 0, err
		}
	}
	tag, err := s.uvarint(of)
	if err != nil {
		return 0, 0, err
	}
	if tag>>3 == 0 || tag>>3 > math.MaxInt32 {
		return 0, 0, errProtobuf
	}
	skip := uint64(0)
	switch tag & 7 {
	case wireVarint:
		_, err := s.uvarint(of)
		return 0, 0, err
	case wireFixed64:
		skip = 8
	case wireFixed32:
		skip = 4
	case wireBytes:
		size, err = s.uvarint(of)
		if err != nil {
			return 0, 0, err
		}
		if size > of.left {
			return 0, 0, fmt.Errorf("%w: a field is longer than its message", errProtobuf)
		}
		if of.left != math.MaxUint64 {
			of.left -= size
		}
		return int(tag >> 3), size, nil
	default:
		return 0, 0, errProtobuf
	}
	if skip > of.left {
		return 0, 0, errProtobuf
	}
	if of.left != math.MaxUint64 {
		of.left -= skip
	}
	return 0, 0, s.skip(skip)
}

func (s *protobufStream) uvarint(of *length) (uint64, error) {
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		if of.left == 0 {
			return 0, errProtobuf
		}
		b, err := s.r.ReadByte()
		if err != nil {
			return 0, unexpectedEOF(err)
		}
		if of.left != math.MaxUint64 {
			of.left--
		}
		if shift == 63 && b > 1 {
			return 0, errProtobuf
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errProtobuf
}

func (s *protobufStream) skip(n uint64) error {
	_, err := s.r.Discard(int(min(n, math.MaxInt)))
	return unexpectedEOF(err)
}
