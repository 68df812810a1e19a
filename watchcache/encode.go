package watchcache

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// format is a representation of an object: JSON or protobuf, whole or metadata only; bare JSON, which is without
// managedFields; or a Table in JSON, whose rows include the metadata of objects, nothing, or whole objects.
type format uint8

const (
	formatJSON format = iota
	formatProtobuf
	formatMetadataJSON
	formatMetadataProtobuf
	formatBareJSON
	formatBareMetadataJSON
	formatTable // the first one that is not kept, since its cells change with time
	formatBareTable
	formatObjectTable
	formats // the number of formats
)

func (f format) protobuf() bool { return f == formatProtobuf || f == formatMetadataProtobuf }
func (f format) table() bool    { return f >= formatTable }

func (f format) metadata() bool {
	return f == formatMetadataJSON || f == formatMetadataProtobuf || f == formatBareMetadataJSON
}

// bare returns f without managedFields, if f is JSON, and otherwise f.
func (f format) bare() format {
	switch f {
	case formatJSON:
		return formatBareJSON
	case formatMetadataJSON:
		return formatBareMetadataJSON
	}
	return f
}

// wholeJSON reports whether f is JSON and more than metadata.
func (f format) wholeJSON() bool { return f == formatJSON || f == formatBareJSON }

func (f format) contentType() string {
	if f.protobuf() {
		return runtime.ContentTypeProtobuf
	}
	return runtime.ContentTypeJSON
}

// protoMessage is the protobuf encoding of the generated types of k8s.io/api.
type protoMessage interface {
	Size() int
	Marshal() ([]byte, error)
}

// protobufPrefix begins every protobuf body of Kubernetes except frames of a watch.
var protobufPrefix = []byte{'k', '8', 's', 0}

// codec writes objects of one kind as kube-apiserver does. It encodes an object without its kind and apiVersion, like
// the items of a list, and writes them around it where they belong.
type codec[T Object] struct {
	kind     schema.GroupVersionKind
	listKind string
	typ      reflect.Type // of the objects, a pointer to a struct
	// custom is set for types without protobuf, such as custom resources. Their lists have sorted keys, and items with
	// a kind.
	custom bool
	// dynamic is set for *unstructured.Unstructured, whose content includes its kind.
	dynamic bool
	heads   [formats][]byte // the beginning of an object with its kind
}

func newCodec[T Object](config Config) codec[T] {
	typ := typeOf[T](config)
	c := codec[T]{kind: config.GroupVersionResource.GroupVersion().WithKind(config.Kind), listKind: config.ListKind,
		typ: typ, custom: !typ.Implements(reflect.TypeFor[protoMessage]()),
		dynamic: typ == reflect.TypeFor[*unstructured.Unstructured]()}
	for f := range formats {
		c.heads[f] = c.head(f, c.kindOf(f))
	}
	return c
}

// kindOf returns the kind of an object in format f.
func (c *codec[T]) kindOf(f format) schema.GroupVersionKind {
	if f.metadata() {
		return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	}
	return c.kind
}

func (c *codec[T]) head(f format, kind schema.GroupVersionKind) []byte {
	apiVersion := kind.GroupVersion().String()
	switch {
	case f.protobuf():
		return appendTypeMeta(nil, kind)
	case f.wholeJSON() && c.dynamic, f.table():
		return nil
	case f.wholeJSON() && c.custom:
		return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, apiVersion, kind.Kind)
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q`, kind.Kind, apiVersion)
}

// encode returns obj without its kind.
func (c *codec[T]) encode(obj T, f format) ([]byte, error) {
	if f >= formatBareJSON && len(obj.GetManagedFields()) > 0 {
		obj = ShallowCopy(obj)
		obj.SetManagedFields(nil)
	}
	switch f {
	case formatJSON, formatBareJSON:
		if u, ok := any(obj).(*unstructured.Unstructured); ok {
			return json.Marshal(u.Object)
		}
		return json.Marshal(withoutKind(obj))
	case formatProtobuf:
		return any(obj).(protoMessage).Marshal()
	case formatMetadataJSON, formatBareMetadataJSON:
		return json.Marshal(metadataOf(obj))
	default:
		return metadataOf(obj).Marshal()
	}
}

// size returns the length of encode's result, for a protobuf format.
func (c *codec[T]) size(obj T, f format) int {
	if f.metadata() {
		return metadataOf(obj).Size()
	}
	return any(obj).(protoMessage).Size()
}

// withoutKind returns obj, or a copy if it has a kind or apiVersion. A source sends those in an event, but not in an
// item of a list.
func withoutKind[T Object](obj T) T {
	typed, ok := any(obj).(runtime.Object)
	if !ok || typed.GetObjectKind().GroupVersionKind().Empty() {
		return obj
	}
	obj = ShallowCopy(obj)
	any(obj).(runtime.Object).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return obj
}

// empty returns a new object of type T that has only a resource version, like a bookmark.
func (c *codec[T]) empty(rv uint64) T {
	obj := reflect.New(c.typ.Elem()).Interface().(T)
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		u.Object = map[string]any{}
		u.SetGroupVersionKind(c.kind)
	}
	obj.SetResourceVersion(formatRV(rv))
	return obj
}

// writeObject writes an object with its kind; b is the result of encode.
func (c *codec[T]) writeObject(w *bufio.Writer, f format, b []byte) {
	if f.protobuf() {
		w.Write(protobufPrefix)
		w.Write(c.heads[f])
		writeBytes(w, 2, b) // Unknown.raw
		w.Write(unknownEnd)
		return
	}
	head := c.heads[f]
	if head == nil || len(b) == 0 || b[0] != '{' { // the last two apply if a test has changed b
		w.Write(b)
		return
	}
	w.Write(head)
	if len(b) > len("{}") {
		w.WriteByte(',')
	}
	w.Write(b[1:])
}

// objectSize returns the number of bytes that writeObject writes in a protobuf format.
func (c *codec[T]) objectSize(f format, b []byte) int {
	return len(protobufPrefix) + len(c.heads[f]) + fieldSize(len(b)) + len(unknownEnd)
}

// writeEvent writes one frame of a watch: a line of JSON, or a metav1.WatchEvent in protobuf after its length.
func (c *codec[T]) writeEvent(w *bufio.Writer, eventType string, f format, b []byte) {
	if !f.protobuf() {
		w.WriteString(`{"type":"`)
		w.WriteString(eventType)
		w.WriteString(`","object":`)
		c.writeObject(w, f, b)
		w.WriteString("}\n")
		return
	}
	writeEventHead(w, eventType, c.objectSize(f, b))
	c.writeObject(w, f, b)
}

// writeEventHead writes a frame of a watch up to the object.
func writeEventHead(w *bufio.Writer, eventType string, objectSize int) {
	extension := fieldSize(objectSize) // RawExtension.raw
	size := fieldSize(len(eventType)) + fieldSize(extension)
	w.Write(binary.BigEndian.AppendUint32(w.AvailableBuffer(), uint32(size)))
	writeTag(w, 1, len(eventType)) // WatchEvent.type
	w.WriteString(eventType)
	writeTag(w, 2, extension) // WatchEvent.object
	writeTag(w, 1, objectSize)
}

// writeList writes a list of the elements. bytes returns the encoding of an element, and size its length; a nil size
// means the length of encode's result. It encodes the elements one at a time, as it writes them.
func (c *codec[T]) writeList(w *bufio.Writer, f format, list listMeta, items []*element[T],
	size func(*element[T]) (int, error), bytes func(*element[T]) ([]byte, error)) error {
	kind := c.kindOf(f)
	if f.metadata() {
		kind.Kind += "List"
	} else {
		kind.Kind = c.listKind
	}
	if f.protobuf() {
		return c.writeProtobufList(w, f, kind, list, items, size, bytes)
	}
	metadata, err := list.json(f)
	if err != nil {
		return err
	}
	sorted := f.wholeJSON() && c.custom
	if sorted {
		fmt.Fprintf(w, `{"apiVersion":%q,"items":[`, kind.GroupVersion())
		metadata, err = json.Marshal(customListMeta{list.Continue, list.RemainingItemCount, list.ResourceVersion})
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kind.Kind, kind.GroupVersion(), metadata)
	}
	for i, el := range items {
		if i > 0 {
			w.WriteByte(',')
		}
		b, err := bytes(el)
		if err != nil {
			return err
		}
		if sorted || f.metadata() {
			c.writeObject(w, f, b)
		} else {
			w.Write(b)
		}
	}
	if sorted {
		fmt.Fprintf(w, `],"kind":%q,"metadata":%s}`, kind.Kind, metadata)
	} else {
		w.WriteString("]}")
	}
	return w.WriteByte('\n')
}

// listMeta is the metadata of a list.
type listMeta struct {
	metav1.ListMeta
	// the selector of the shard; empty means none. As in kube-apiserver, a list of metadata omits it
	shard string
}

func (m *listMeta) json(f format) ([]byte, error) {
	type shardInfo struct {
		Selector string `json:"selector"`
	}
	all := struct {
		metav1.ListMeta
		ShardInfo *shardInfo `json:"shardInfo,omitempty"` // metav1.ListMeta has it since Kubernetes 1.36
	}{ListMeta: m.ListMeta}
	if m.shard != "" && !f.metadata() {
		all.ShardInfo = &shardInfo{m.shard}
	}
	return json.Marshal(all)
}

func (m *listMeta) protobuf(f format) ([]byte, error) {
	b, err := m.ListMeta.Marshal()
	if m.shard == "" || f.metadata() || err != nil {
		return b, err
	}
	b = append(b, 5<<3|2) // ListMeta.shardInfo
	b = binary.AppendUvarint(b, uint64(fieldSize(len(m.shard))))
	b = append(b, 1<<3|2) // ShardInfo.selector
	b = binary.AppendUvarint(b, uint64(len(m.shard)))
	return append(b, m.shard...), nil
}

// customListMeta is the metadata of a list of custom resources, which kube-apiserver builds as a map.
type customListMeta struct {
	Continue           string `json:"continue"`
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
	ResourceVersion    string `json:"resourceVersion"`
}

func (c *codec[T]) writeProtobufList(w *bufio.Writer, f format, kind schema.GroupVersionKind, list listMeta,
	items []*element[T], size func(*element[T]) (int, error), bytes func(*element[T]) ([]byte, error)) error {
	metadata, err := list.protobuf(f)
	if err != nil {
		return err
	}
	if size == nil {
		size = func(el *element[T]) (int, error) { return c.size(el.obj, f), nil }
	}
	total := fieldSize(len(metadata))
	for _, el := range items {
		n, err := size(el)
		if err != nil {
			return err
		}
		total += fieldSize(n)
	}
	w.Write(protobufPrefix)
	w.Write(appendTypeMeta(nil, kind))
	writeTag(w, 2, total)      // Unknown.raw
	writeBytes(w, 1, metadata) // ListMeta
	for _, el := range items {
		b, err := bytes(el)
		if err != nil {
			return err
		}
		writeBytes(w, 2, b) // items
	}
	_, err = w.Write(unknownEnd)
	return err
}

// unknownEnd is the end of a runtime.Unknown after raw: an empty contentEncoding and an empty contentType.
var unknownEnd = []byte{3<<3 | 2, 0, 4<<3 | 2, 0}

// appendTypeMeta appends the field typeMeta of a runtime.Unknown.
func appendTypeMeta(b []byte, kind schema.GroupVersionKind) []byte {
	meta := runtime.TypeMeta{Kind: kind.Kind, APIVersion: kind.GroupVersion().String()}
	encoded, err := meta.Marshal()
	if err != nil {
		panic(err) // cannot happen: it has two strings
	}
	b = append(b, 1<<3|2)
	b = binary.AppendUvarint(b, uint64(len(encoded)))
	return append(b, encoded...)
}

// writeTag writes the tag and length of a protobuf field of size bytes.
func writeTag(w *bufio.Writer, field byte, size int) {
	w.WriteByte(field<<3 | 2)
	w.Write(binary.AppendUvarint(w.AvailableBuffer(), uint64(size)))
}

func writeBytes(w *bufio.Writer, field byte, b []byte) {
	writeTag(w, field, len(b))
	w.Write(b)
}

// fieldSize returns the encoded size of a field with size bytes, for field numbers below 16.
func fieldSize(size int) int { return 1 + (bits.Len64(uint64(size)|1)+6)/7 + size }

// appendStatus appends a metav1.Status, in JSON or protobuf.
func appendStatus(b []byte, status metav1.Status, protobuf bool) []byte {
	if !protobuf {
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		encoded, err := json.Marshal(status)
		if err != nil {
			panic(err) // cannot happen: it has strings and numbers
		}
		return append(b, encoded...)
	}
	encoded, err := status.Marshal()
	if err != nil {
		panic(err)
	}
	b = append(b, protobufPrefix...)
	b = appendTypeMeta(b, schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	b = append(b, 2<<3|2)
	b = binary.AppendUvarint(b, uint64(len(encoded)))
	b = append(b, encoded...)
	return append(b, unknownEnd...)
}

// writeErrorEvent writes the frame that ends a watch with an error.
func writeErrorEvent(w *bufio.Writer, status metav1.Status, protobuf bool) {
	b := appendStatus(nil, status, protobuf)
	if protobuf {
		writeEventHead(w, "ERROR", len(b))
		w.Write(b)
		return
	}
	w.WriteString(`{"type":"ERROR","object":`)
	w.Write(b)
	w.WriteString("}\n")
}
