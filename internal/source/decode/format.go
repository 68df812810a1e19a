package decode

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// Format is an encoding of the Kubernetes API.
type Format uint8

const (
	JSON Format = iota
	Protobuf
)

// Media types of the formats.
const (
	MediaJSON     = "application/json"
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
)

// FormatOf returns the format of a Content-Type.
func FormatOf(contentType string) (Format, error) {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && media == MediaJSON:
		return JSON, nil
	case err == nil && media == MediaProtobuf:
		return Protobuf, nil
	}
	return JSON, fmt.Errorf("the server sent content type %.100q; it was asked for JSON or protobuf", contentType)
}

// Limits on responses of the server.
const (
	// MaxObjectBytes limits the encoded size of an object and of a watch frame. etcd accepts 1.5 MB by default. An object
	// is larger in JSON, and some clusters run etcd with a higher limit.
	MaxObjectBytes = 32 << 20
	// maxSkipped limits the encoded size of an object or frame that is skipped because it exceeds MaxObjectBytes.
	maxSkipped = 256 << 20
	// headBytes is how much of a skipped object is read, in protobuf, to find its identity.
	headBytes = 1 << 20
	// MaxStatusBytes limits the encoded size of a Status.
	MaxStatusBytes = 64 << 10
	// MaxMessage limits the message of a Status, which is logged.
	MaxMessage = 8 << 10
	// maxListBytes limits the bytes of a list outside its items: kind, metadata with a continue token, and little else.
	maxListBytes = 1 << 20
	// maxNesting limits the nesting depth of objects and arrays. The JSON library has the same limit.
	maxNesting = 10_000
)

// ErrTooLarge indicates that the response exceeds a size limit: 32 MiB for an object or a watch frame, 256 MiB for a
// decoded object in memory, 1 MiB for a list without its items, 64 KiB for a Status.
var ErrTooLarge = errors.New("too large")

var (
	errObjectTooLarge = fmt.Errorf("an object or frame of more than %d MiB is %w", MaxObjectBytes>>20, ErrTooLarge)
	errListTooLarge   = fmt.Errorf("a list of more than %d MiB without its items is %w", maxListBytes>>20, ErrTooLarge)
)

// Status decodes a metav1.Status. In protobuf, body is the message without its envelope. It truncates Status.Message
// after MaxMessage bytes. The result is not nil even if there is an error.
func (f Format) Status(body []byte) (*metav1.Status, error) {
	status := &metav1.Status{}
	if len(body) > MaxStatusBytes {
		return status, fmt.Errorf("a Status of more than %d KiB is %w", MaxStatusBytes>>10, ErrTooLarge)
	}
	var err error
	if f == JSON {
		err = unmarshalJSON(body, status)
	} else {
		err = withoutContent(status.Unmarshal(body), reflect.TypeFor[metav1.Status]())
	}
	if len(status.Message) > MaxMessage {
		status.Message = strings.ToValidUTF8(status.Message[:MaxMessage], "") + " ..."
	}
	return status, err
}

// Identity identifies a version of an object. A nil field is absent or cannot be read.
type Identity struct{ Namespace, Name, UID, ResourceVersion []byte }

// complete reports whether no field is nil.
func (id *Identity) complete() bool {
	return id.Namespace != nil && id.Name != nil && id.UID != nil && id.ResourceVersion != nil
}

// Peek reads the identity of an encoded object without decoding the object. The result is the identity that a [Decoder]
// decodes from raw, even if a field occurs twice or is encoded in an unusual way. It may refer to raw's memory.
func (f Format) Peek(raw []byte) Identity {
	if f == JSON {
		return peekJSON(raw, false)
	}
	return peekProtobuf(raw, false)
}

// Glance is like Peek, but stops at the first value of each field. No server writes a field twice.
func (f Format) Glance(raw []byte) Identity {
	if f == JSON {
		return peekJSON(raw, true)
	}
	return peekProtobuf(raw, true)
}

// protobufMagic begins every protobuf body and every object in a watch frame. A runtime.Unknown follows it.
// See the API concepts documentation, "Kubernetes Protobuf encoding".
const protobufMagic = "k8s\x00"

// Field numbers of the messages that this package parses itself. Each kind of the Kubernetes API has its metadata in
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
	metaLabels         = 11
	metaManaged        = 17
	watchEventType     = 1 // metav1.WatchEvent
	watchEventObject   = 2
	rawExtensionRaw    = 1 // runtime.RawExtension
)

// Unwrap returns the message in the envelope of an object that is encoded in protobuf.
func Unwrap(body []byte) (message []byte, err error) { return Protobuf.One(body, nil, nil) }

// unwrap returns the message in an envelope, and the encoded runtime.TypeMeta beside it.
func unwrap(body []byte) (message, meta []byte, err error) {
	if len(body) < len(protobufMagic) || string(body[:len(protobufMagic)]) != protobufMagic {
		return nil, nil, fmt.Errorf("%w: it does not begin with %q", proto.ErrMalformed, protobufMagic)
	}
	known := true
	err = proto.Fields(body[len(protobufMagic):], func(f proto.Field) bool {
		switch f.Number {
		case unknownTypeMeta:
			if meta == nil {
				meta = f.Bytes
			} else { // protobuf merges them: a later value of a field counts
				meta = append(meta, f.Bytes...)
			}
		case unknownRaw:
			message, known = f.Bytes, f.Wire == proto.Bytes
		}
		return known
	})
	if !known {
		return nil, nil, proto.ErrMalformed
	}
	return message, meta, err
}

// One returns an object, the whole body of a response, without its envelope. It returns an error if the object has
// another kind. A nil kind means any kind. ask may be nil.
func (f Format) One(body []byte, kind *Kind, ask Ask) (raw []byte, err error) {
	kinds := kindCheck{kind: kind, ask: ask}
	if f == JSON {
		return body, kinds.object(body)
	}
	raw, meta, err := unwrap(body)
	if err == nil {
		err = kinds.message(meta)
	}
	return raw, err
}

func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
