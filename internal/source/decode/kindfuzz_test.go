package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// strangeSeeds calls add with lists and streams of pods in which something has another kind.
func strangeSeeds(add func(f Format, list, stream []byte)) {
	nodes := corev1.SchemeGroupVersion.WithKind("Node")
	for _, f := range []Format{JSON, Protobuf} {
		pod, node := one(f, "Pod"), one(f, "Node")
		streamOf := func(objects ...[]byte) (stream []byte) {
			for _, obj := range objects {
				stream = append(stream, encodeFrame(f, "ADDED", obj)...)
			}
			return stream
		}
		add(f, encodeList(f, nodes, [][]byte{pod, pod}), streamOf(pod, node, pod))
		add(f, encodeList(f, nodes, nil), streamOf(node))
		add(f, encodeList(f, schema.GroupVersionKind{Version: "v1"}, [][]byte{node}), streamOf(pod, one(f, "")))
		add(f, encodeList(f, podKind, [][]byte{pod, node}), append(streamOf(pod), encodeFrame(f, "BOOKMARK", node)...))
	}
	add(JSON, []byte(`{"items":[{"kind":"Pod"},{"metadata":{"name":"a"}}],"kind":"NodeList"}`),
		[]byte(`{"type":"ADDED","object":{"metadata":{},"\u006bind":"Node","apiVersion":"v1"}}`))
	add(JSON, []byte(`{"kind":"PodList","items":[{"apiVersion":"v1","metadata":{"kind":"Pod"},"kind":"Node"}]}`),
		[]byte(`{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1"}} {"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"other.io/v1"}}`))
}

// isPod reports whether an object of that kind may be a pod: its plural is "pods".
func isPod(kind string) bool {
	name := strings.ToLower(kind)
	return name == "pod" || name == "pods"
}

// kindOf returns the kind that an object in JSON names, as a strict parser finds it. clear is false if parsers can disagree.
func kindOf(raw []byte) (kind string, clear bool) {
	value := jsontext.Value(raw)
	if !value.IsValid() || value.Kind() != '{' {
		return "", false
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	_, _ = d.ReadToken()
	for d.PeekKind() == '"' {
		name, _ := d.ReadToken()
		isKind := name.String() == "kind"
		member, _ := d.ReadValue()
		if !isKind {
			continue
		}
		if member.Kind() != '"' {
			return "", false
		}
		text, err := jsontext.AppendUnquote(nil, member)
		return string(text), err == nil
	}
	return "", true
}

// checkListKind reads a list of pods. An object of another kind is never part of a list that is read to its end, and each
// object is one that a reader finds that accepts every kind.
func checkListKind(t *testing.T, f Format, body []byte) {
	t.Helper()
	var any [][]byte
	var info ListInfo
	anyErr := readList(bytes.NewReader(body), f, &info, func(raw []byte) { any = append(any, bytes.Clone(raw)) })
	for _, reader := range []io.Reader{bytes.NewReader(body), &slowReader{b: body}} {
		list, n := NewList(reader, f, NewKind(reflect.TypeFor[*corev1.Pod](), "pods"), nil), 0
		var unnamed bool
		var err error
		for err == nil || err == ErrMore {
			var raw []byte
			switch raw, err = list.Next(); err {
			case ErrMore:
				if failed := list.Fill(); failed != nil {
					err = failed
				}
			case nil:
				if n >= len(any) || !bytes.Equal(raw, any[n]) {
					t.Fatalf("item %d differs from that without a kind", n)
				}
				n++
				named, clear := "", true
				if f == JSON {
					named, clear = kindOf(raw)
				}
				unnamed = unnamed || clear && named == ""
				if clear && named != "" && !isPod(named) {
					t.Fatalf("an object of the kind %q is delivered", named)
				}
			}
		}
		switch {
		case err != io.EOF && !errors.Is(err, ErrWrongKind) && anyErr == nil:
			t.Fatalf("%v, without a kind nil", err)
		case err == io.EOF && anyErr != nil:
			t.Fatalf("no error, without a kind %v", anyErr)
		case err != io.EOF:
			continue
		}
		if name := strings.TrimSuffix(list.Info.Kind, "List"); name != "" && unnamed && !isPod(name) {
			t.Fatalf("a %s is delivered, whose items name no kind", list.Info.Kind)
		}
	}
}

// checkWatchKind reads a watch of pods. An object of another kind is never delivered, and each frame is one that a reader
// finds that accepts every kind.
func checkWatchKind(t *testing.T, f Format, stream []byte) {
	t.Helper()
	for _, slow := range []bool{false, true} {
		body := func() io.Reader {
			if slow {
				return &slowReader{b: stream}
			}
			return bytes.NewReader(stream)
		}
		frames := NewFrames(body(), f, NewKind(reflect.TypeFor[*corev1.Pod](), "pods"), nil)
		all, rest := NewFrames(body(), f, nil, nil), stream
		for {
			want, wantErr := nextFrame(all)
			frame, err := nextFrame(frames)
			if err != nil {
				if wantErr == nil && !errors.Is(err, ErrWrongKind) {
					t.Fatalf("%v, without a kind nil", err)
				}
				break
			}
			if wantErr != nil || frame.Event != want.Event || !bytes.Equal(frame.Raw, want.Raw) {
				t.Fatalf("%q, without a kind %q, %v", frame.Event, want.Event, wantErr)
			}
			named, clear := kindOf(frame.Raw)
			if f == Protobuf {
				size := binary.BigEndian.Uint32(rest)
				named, clear = envelopeKind(rest[frameHeader : frameHeader+size])
				rest = rest[frameHeader+size:]
			}
			if clear && named != "" && frame.Event != errorEvent && !isPod(named) {
				t.Fatalf("an object of the kind %q is delivered", named)
			}
		}
	}
}

// envelopeKind returns the kind in the envelope of the object of a frame, as the generated code finds it.
func envelopeKind(frame []byte) (kind string, clear bool) {
	var event metav1.WatchEvent
	var unknown runtime.Unknown
	if event.Unmarshal(frame) != nil {
		return "", false
	}
	raw := event.Object.Raw
	if !bytes.HasPrefix(raw, []byte(protobufMagic)) || unknown.Unmarshal(raw[len(protobufMagic):]) != nil {
		return "", false
	}
	return unknown.Kind, true
}
