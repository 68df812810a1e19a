package compact

import (
	"encoding/json"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// An object that was packed without being decoded is the one that was decoded and packed.
// Guarantees: D3
func TestUnreadIsPack(t *testing.T) {
	k, err := NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := k.pool.Get()
	for pod := range fleet.New(fleet.Config{Pods: 100}).All() {
		inJSON, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		inProtobuf, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for f, raw := range map[decode.Format][]byte{decode.JSON: inJSON, decode.Protobuf: inProtobuf} {
			obj, err := d.Decode(f, raw, decode.Origin{})
			if err != nil {
				t.Fatal(err)
			}
			want := k.Pack(d, f, raw, nil, obj, nil)
			alone := k.Unread(d, f, raw, nil, nil)
			if alone == nil {
				t.Fatalf("format %d: a pod must be decoded", f)
			}
			for _, got := range []*Object{alone, k.Unread(d, f, raw, nil, alone)} {
				if object.KeyOf(got) != object.KeyOf(want) || got.GetUID() != want.GetUID() || got.GetResourceVersion() != want.GetResourceVersion() ||
					got.Labels() != want.Labels() {
					t.Fatalf("packed %v %s %s %v, want %v %s %s %v", object.KeyOf(got), got.GetUID(), got.GetResourceVersion(), got.Labels(),
						object.KeyOf(want), want.GetUID(), want.GetResourceVersion(), want.Labels())
				}
				if got.Alive() != nil {
					t.Fatal("the object is decoded")
				}
				if diff := cmp.Diff(obj, got.Decoded(nil)); diff != "" {
					t.Fatalf("format %d (-decoded +unread):\n%s", f, diff)
				}
			}
		}
	}
}

// A saved object is packed without being decoded, also with a Transform, which has changed it before; it is decoded if that is
// the only way to know.
// Guarantees: D3
func TestRestoredIsNotDecoded(t *testing.T) {
	k, err := NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Transform = func(obj any) (any, error) { return obj, nil }
	d := k.pool.Get()
	for pod := range fleet.New(fleet.Config{Pods: 100}).All() {
		inJSON, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		inProtobuf, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for f, raw := range map[decode.Format][]byte{decode.JSON: inJSON, decode.Protobuf: inProtobuf} {
			got, err := k.Restored(d, decode.Encoded{Format: f, Raw: raw}, false)
			if err != nil {
				t.Fatal(err)
			}
			if got.decoded.Load() != nil {
				t.Fatalf("format %d: the object is decoded", f)
			}
			want, err := d.Decode(f, raw, decode.Origin{})
			if err != nil {
				t.Fatal(err)
			}
			if got.GetUID() != pod.UID || got.GetResourceVersion() != pod.ResourceVersion {
				t.Fatalf("packed %s %s, want %s %s", got.GetUID(), got.GetResourceVersion(), pod.UID, pod.ResourceVersion)
			}
			if diff := cmp.Diff(want, got.Decoded(nil)); diff != "" {
				t.Fatalf("format %d (-decoded +restored):\n%s", f, diff)
			}
		}
	}
	const twice = `{"metadata":{"name":"a"},"metadata":{"name":"b"}}` // Check leaves it to Decode
	got, err := k.Restored(d, decode.Encoded{Format: decode.JSON, Raw: []byte(twice)}, false)
	if err != nil || got.decoded.Load() == nil || got.GetName() != "b" {
		t.Errorf("restored %v, %v, want the decoded b", got, err)
	}
	for _, damaged := range []string{`{"metadata":{"name":"a"}`, `{"metadata":{"name":7}}`} {
		if got, err := k.Restored(d, decode.Encoded{Format: decode.JSON, Raw: []byte(damaged)}, false); err == nil {
			t.Errorf("restored %v of %s", got, damaged)
		}
	}
}

// The next version of an object that somebody has read is decoded when it arrives, until nobody reads any more. So it shares with the
// version that a reader holds.
func TestUnreadUntilItIsRead(t *testing.T) {
	k, err := NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, raw := k.pool.Get(), []byte(`{"metadata":{"name":"a","labels":{"a":"b"}}}`)
	first := k.Unread(d, decode.JSON, raw, nil, nil)
	held := first.Decoded(nil)
	for range 1000 {
		if k.Unread(d, decode.JSON, raw, nil, first) != nil {
			t.Fatal("the version after one that is held is not decoded")
		}
	}
	runtime.KeepAlive(held)
	held = nil
	forget := func(p *Object) { // as if the garbage collector had freed the decoded object
		gone := &decoded{}
		gone.unread.Store(p.decoded.Load().unread.Load())
		p.decoded.Store(gone)
	}
	forget(first)
	last := first
	next := func() *Object {
		obj, err := d.Decode(decode.JSON, raw, decode.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		last = k.Pack(d, decode.JSON, raw, nil, obj, last)
		return last
	}
	for range 100 { // the reader is one version late
		if k.Unread(d, decode.JSON, raw, nil, last) != nil {
			t.Fatal("the version after one that was read is not decoded")
		}
		late := last
		forget(next())
		late.Decoded(nil)
		last.Decoded(nil)
		forget(last)
	}
	for range maxUnread {
		if k.Unread(d, decode.JSON, raw, nil, last) != nil {
			t.Fatal("a version is not decoded although the last one or the one before was read")
		}
		forget(next())
	}
	if k.Unread(d, decode.JSON, raw, nil, last) == nil {
		t.Errorf("a version is decoded after %d that nobody read", maxUnread)
	}
	last.Decoded(nil)
	forget(last)
	if k.Unread(d, decode.JSON, raw, nil, last) != nil {
		t.Error("a version is not decoded although the last one was read")
	}
	k.Transform = func(obj any) (any, error) { return obj, nil }
	if k.Unread(d, decode.JSON, raw, nil, nil) != nil {
		t.Error("Transform gets no object")
	}
	k.Transform = nil
	if k.Unread(d, decode.JSON, []byte(`{"metadata":{"name":""}}`), nil, nil) != nil {
		t.Error("an object without a name is packed")
	}
}
