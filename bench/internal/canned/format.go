package canned

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// Name returns the name of a media type in text: JSON or protobuf.
func Name(media string) string {
	switch media {
	case JSON:
		return "JSON"
	case Protobuf:
		return "protobuf"
	case Metadata:
		return "metadata in protobuf"
	}
	return media
}

// format has everything encoded in one format.
type format struct {
	media          string                    // that clients accept
	typ, watchType string                    // of answers
	kind           runtime.TypeMeta          // of lists
	size           func(pod *corev1.Pod) int // in protobuf
	appendEvent    func(dst []byte, typ watch.EventType, pod *corev1.Pod) ([]byte, error)
	pods           []pod
	changes        [][]byte // frames
	bookmark       []byte   // the frame at the end of the initial events
	expired        []byte   // the frame with 410 Expired
	scratch        []byte
}

// pod is a pod as a frame of a streaming list. An item of a list is a part of that frame, except for its first byte in
// JSON and its tag and length in protobuf. So each pod is kept once.
type pod struct {
	frame []byte
	item  []byte
}

func newFormat(media, version string) (*format, error) {
	f := &format{media: media, kind: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, appendEvent: fleet.AppendWatchEventJSON}
	f.typ, _, _ = strings.Cut(media, ";")
	f.watchType = f.typ
	gone := apierrors.NewResourceExpired("too old resource version").ErrStatus
	gone.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	switch media {
	case JSON:
		status, err := json.Marshal(gone)
		if err != nil {
			return nil, err
		}
		f.expired = fmt.Appendf(nil, `{"type":"ERROR","object":%s}`+"\n", status)
	case Protobuf, Metadata:
		f.watchType += ";stream=watch"
		f.appendEvent, f.size = fleet.AppendWatchEventProtobuf, (*corev1.Pod).Size
		if media == Metadata {
			f.kind = runtime.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}
			f.appendEvent, f.size = fleet.AppendMetadataEventProtobuf, func(pod *corev1.Pod) int {
				return (&metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}).Size()
			}
		}
		raw, err := gone.Marshal()
		if err != nil {
			return nil, err
		}
		envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, Raw: raw}).Marshal()
		if err != nil {
			return nil, err
		}
		event, err := (&metav1.WatchEvent{Type: string(watch.Error),
			Object: runtime.RawExtension{Raw: append([]byte(magic), envelope...)}}).Marshal()
		if err != nil {
			return nil, err
		}
		f.expired = append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
	default:
		return nil, fmt.Errorf("unknown format %q", media)
	}
	var err error
	f.bookmark, err = f.appendEvent(nil, watch.Bookmark, fleet.Bookmark(version, true))
	return f, err
}

const (
	magic = "k8s\x00"
	// jsonBefore and jsonAfter surround an item in a frame. protobufAfter follows a pod in protobuf: the content encoding
	// and the type of its envelope, both empty.
	jsonBefore    = `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1",`
	jsonAfter     = "}\n"
	protobufAfter = "\x1a\x00\x22\x00"
)

// isAccepted reports whether a media type that a client accepts is that of f.
func (f *format) isAccepted(accepted string) bool {
	return strings.HasPrefix(accepted, f.media) && strings.Contains(accepted, ";as=") == (f.media == Metadata)
}

func (f *format) addPod(p *corev1.Pod) (err error) {
	if f.scratch, err = f.appendEvent(f.scratch[:0], watch.Added, p); err != nil {
		return err
	}
	frame := bytes.Clone(f.scratch)
	from, to := len(jsonBefore), len(frame)-len(jsonAfter)
	if f.size != nil {
		to = len(frame) - len(protobufAfter)
		from = to - f.size(p)
	}
	f.pods = append(f.pods, pod{frame, frame[from:to]})
	return nil
}

func (f *format) addChange(typ watch.EventType, p *corev1.Pod) (err error) {
	if f.scratch, err = f.appendEvent(f.scratch[:0], typ, p); err != nil {
		return err
	}
	f.changes = append(f.changes, bytes.Clone(f.scratch))
	return nil
}

// listSize returns the number of bytes that writeList writes.
func (f *format) listSize(meta metav1.ListMeta, from, to int) int {
	var size counter
	f.writeList(&size, meta, from, to)
	return int(size)
}

type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// writeList writes a list of the pods with these numbers. It ignores errors of w.
func (f *format) writeList(w io.Writer, meta metav1.ListMeta, from, to int) {
	write := func(b []byte) { _, _ = w.Write(b) }
	if f.media == JSON {
		encoded, _ := json.Marshal(meta) // strings and a number cannot fail
		write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":`))
		write(encoded)
		write([]byte(`,"items":[`))
		separator := []byte("{")
		for i := from; i < to; i++ {
			write(separator)
			write(f.pods[i].item)
			separator = []byte(",{")
		}
		write([]byte("]}\n"))
		return
	}
	encoded, _ := meta.Marshal()
	size := 1 + protowire.SizeBytes(len(encoded)) // all field numbers are below 16
	for i := from; i < to; i++ {
		size += 1 + protowire.SizeBytes(len(f.pods[i].item))
	}
	write([]byte(magic))
	list := runtime.Unknown{TypeMeta: f.kind}
	_, _ = list.MarshalToWriter(w, size, func(w io.Writer) (int, error) {
		write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), encoded))
		var head [16]byte
		for i := from; i < to; i++ {
			item := f.pods[i].item
			write(protowire.AppendVarint(protowire.AppendTag(head[:0], 2, protowire.BytesType), uint64(len(item))))
			write(item)
		}
		return size, nil
	})
}
