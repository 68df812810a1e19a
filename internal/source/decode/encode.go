package decode

import "encoding/json"

// Encoded is an encoded object.
type Encoded struct {
	Format Format
	Raw    []byte
	List   *ListInfo // the list that contained the object; nil if there was none
}

// Encode returns obj encoded: in protobuf if protobuf is true, which requires that obj has a method Marshal; otherwise
// in JSON. It may use the memory of buf[:cap(buf)].
func Encode(obj any, protobuf bool, buf []byte) (Format, []byte, error) {
	if sized, ok := obj.(sizedMarshaler); ok && protobuf {
		size := sized.Size()
		if cap(buf) < size {
			buf = make([]byte, size, 2*size)
		}
		n, err := sized.MarshalToSizedBuffer(buf[:size]) // from the end of the buffer
		return Protobuf, buf[size-n : size], err
	}
	if protobuf {
		raw, err := obj.(marshaler).Marshal()
		return Protobuf, raw, err
	}
	raw, err := json.Marshal(obj)
	return JSON, raw, err
}

// marshaler has the method of generated protobuf code.
type marshaler interface{ Marshal() ([]byte, error) }

// sizedMarshaler has more methods of that code.
type sizedMarshaler interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}
