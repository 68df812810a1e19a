package fleet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// The functions in this file write exactly the bytes that kube-apiserver sends. They use the encoders of the API types,
// but no scheme and no list in memory.
//
// Pods are taken as in a list: kind and apiVersion are ignored, and written only where the API server writes them.

// protobufMagic comes before each object in protobuf, but not before the frames of a watch.
// See k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
const protobufMagic = "k8s\x00"

// Bookmark returns the object of a BOOKMARK event of a watch for pods. initialEventsEnd marks the end of the initial
// events of a watch with sendInitialEvents=true (KEP-3157). [AppendWatchEventJSON] and [AppendWatchEventProtobuf]
// encode it, with [watch.Bookmark].
func Bookmark(resourceVersion string, initialEventsEnd bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: resourceVersion}}
	if initialEventsEnd {
		pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return pod
}

// WriteListJSON writes a v1.PodList of pods as application/json. meta is the list's metadata: resourceVersion, and for
// a page, continue and remainingItemCount.
func WriteListJSON(w io.Writer, meta metav1.ListMeta, pods iter.Seq[*corev1.Pod]) error {
	var buf bytes.Buffer
	buf.WriteString(`{"kind":"PodList","apiVersion":"v1","metadata":`)
	// One encoder for all pods, because json.Marshal would allocate new bytes for each.
	encoder := json.NewEncoder(&buf)
	if err := encoder.Encode(meta); err != nil {
		return fmt.Errorf("encoding list metadata: %w", err)
	}
	buf.Truncate(buf.Len() - 1) // Encode ends with a newline
	buf.WriteString(`,"items":[`)
	comma := false
	for pod := range pods {
		if comma {
			buf.WriteByte(',')
		}
		comma = true
		item := *pod
		item.TypeMeta = metav1.TypeMeta{}
		if err := encoder.Encode(&item); err != nil {
			return fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		buf.Truncate(buf.Len() - 1)
		if _, err := w.Write(buf.Bytes()); err != nil {
			return err
		}
		buf.Reset()
	}
	buf.WriteString("]}\n")
	_, err := w.Write(buf.Bytes())
	return err
}

// WriteListProtobuf writes a v1.PodList of pods as application/vnd.kubernetes.protobuf. meta is as for [WriteListJSON].
//
// It iterates over pods twice, because the size of a message precedes its content. So pods must yield the same each
// time, as those of a Fleet do.
func WriteListProtobuf(w io.Writer, meta metav1.ListMeta, pods iter.Seq[*corev1.Pod]) error {
	size := fieldSize(meta.Size())
	for pod := range pods {
		size += fieldSize(pod.Size())
	}
	if _, err := io.WriteString(w, protobufMagic); err != nil {
		return err
	}
	list := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	_, err := list.MarshalToWriter(w, size, func(w io.Writer) (written int, err error) {
		buf, err := appendField(nil, 1, &meta)
		if err != nil {
			return 0, fmt.Errorf("encoding list metadata: %w", err)
		}
		written, err = w.Write(buf)
		if err != nil {
			return written, err
		}
		for pod := range pods {
			buf, err = appendField(buf[:0], 2, pod)
			if err != nil {
				return written, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			n, err := w.Write(buf)
			written += n
			if err != nil {
				return written, err
			}
		}
		return written, nil
	})
	return err
}

// AppendWatchEventJSON appends a frame of a watch in application/json to dst: the event with a newline.
func AppendWatchEventJSON(dst []byte, typ watch.EventType, pod *corev1.Pod) ([]byte, error) {
	object := *pod
	object.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	raw, err := json.Marshal(&object)
	if err != nil {
		return dst, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	dst = append(dst, `{"type":"`...)
	dst = append(dst, typ...)
	dst = append(dst, `","object":`...)
	dst = append(dst, raw...)
	return append(dst, "}\n"...), nil
}

// AppendWatchEventProtobuf appends a frame of a watch in application/vnd.kubernetes.protobuf;stream=watch to dst: a
// big-endian length of four bytes, and a metav1.WatchEvent. Its object is a complete message with the magic bytes.
func AppendWatchEventProtobuf(dst []byte, typ watch.EventType, pod *corev1.Pod) ([]byte, error) {
	return appendEventProtobuf(dst, typ, runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, pod)
}

// AppendMetadataEventProtobuf is like [AppendWatchEventProtobuf], but writes the event of a watch for metadata only
// (application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1).
func AppendMetadataEventProtobuf(dst []byte, typ watch.EventType, pod *corev1.Pod) ([]byte, error) {
	return appendEventProtobuf(dst, typ, runtime.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		&metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
}

// message is an object that is encoded in protobuf.
type message interface {
	metav1.Object
	runtime.ProtobufMarshaller
}

func appendEventProtobuf(dst []byte, typ watch.EventType, kind runtime.TypeMeta, m message) ([]byte, error) {
	object := runtime.Unknown{TypeMeta: kind}
	inside := m.Size()
	raw := make([]byte, len(protobufMagic)+object.Size()+fieldSize(inside))
	copy(raw, protobufMagic)
	n, err := object.NestedMarshalTo(raw[len(protobufMagic):], m, uint64(inside))
	if err != nil {
		return dst, fmt.Errorf("encoding %s %s/%s: %w", kind.Kind, m.GetNamespace(), m.GetName(), err)
	}
	event := metav1.WatchEvent{Type: string(typ), Object: runtime.RawExtension{Raw: raw[:len(protobufMagic)+n]}}
	size := event.Size()
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	start := len(dst)
	dst = append(dst, make([]byte, size)...)
	if _, err := event.MarshalTo(dst[start:]); err != nil {
		return dst[:start-4], fmt.Errorf("encoding %s event for %s %s/%s: %w", typ, kind.Kind, m.GetNamespace(), m.GetName(), err)
	}
	return dst, nil
}

// fieldSize returns the number of bytes of a field with this size and a field number of at most 15.
func fieldSize(size int) int {
	return 1 + len(binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64), uint64(size))) + size
}

// appendField appends a message as the field with this number, which is at most 15.
func appendField(dst []byte, number byte, message runtime.ProtobufMarshaller) ([]byte, error) {
	const lengthDelimited = 2 // the wire type
	size := message.Size()
	dst = append(dst, number<<3|lengthDelimited)
	dst = binary.AppendUvarint(dst, uint64(size))
	start := len(dst)
	dst = append(dst, make([]byte, size)...)
	_, err := message.MarshalTo(dst[start:])
	return dst, err
}
