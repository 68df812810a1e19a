package compact

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/store/pack"
)

// newPods returns a packer of pods.
func newPods(t *testing.T) *Packer {
	t.Helper()
	k, err := NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// podOf returns a pod of some metadata, and the same in JSON.
func podOf(t *testing.T, k *Packer, metadata string) (*corev1.Pod, []byte) {
	t.Helper()
	raw := fmt.Appendf(nil, `{"metadata":{%s},"spec":{"nodeName":"n"}}`, metadata)
	obj, err := k.pool.Decode(decode.JSON, raw, decode.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*corev1.Pod), raw
}

// A version has its own name and labels, however those of the version before are reused.
// Guarantees: D3
func TestVersionHasItsOwnIdentity(t *testing.T) {
	k := newPods(t)
	d := k.pool.Get()
	metadata := []string{
		`"namespace":"x","name":"a","uid":"1","resourceVersion":"1"`,
		`"namespace":"x","name":"a","uid":"1","resourceVersion":"20","labels":{"l":"1"}`,
		`"namespace":"x","name":"a","uid":"1","resourceVersion":"20","labels":{"l":"2"}`,
		`"namespace":"x","name":"a","uid":"333","resourceVersion":"4","labels":{"l":"2","m":""}`,
		`"namespace":"y","name":"a","uid":"1","resourceVersion":"5","labels":{"m":""}`,
		`"namespace":"y","name":"b","uid":"1","resourceVersion":"5"`,
	}
	for _, before := range metadata {
		for _, now := range metadata {
			_, rawBefore := podOf(t, k, before)
			old := k.Unread(d, decode.JSON, rawBefore, nil, nil)
			pod, raw := podOf(t, k, now)
			for how, got := range map[string]*Object{
				"unread":  k.Unread(d, decode.JSON, raw, nil, old),
				"decoded": k.Pack(d, decode.JSON, raw, nil, pod, old),
			} {
				if got.GetNamespace() != pod.Namespace || got.GetName() != pod.Name || got.GetUID() != pod.UID ||
					got.GetResourceVersion() != pod.ResourceVersion || !got.Labels().equal(pod.Labels) {
					t.Errorf("%s: %s after %s is %v %s %s", how, now, before, object.KeyOf(got), got.GetUID(), got.GetResourceVersion())
				}
				for _, key := range []string{"l", "m"} {
					value, ok := got.Labels().Lookup(key)
					if want, has := labels.Set(pod.Labels).Lookup(key); value != want || ok != has {
						t.Errorf("%s: %s after %s: label %s is %q, %t", how, now, before, key, value, ok)
					}
				}
			}
		}
	}
}

// While a caller holds an object, all readers get that one, and a caller who wants a copy gets another one.
// Guarantees: D3
func TestReadersGetOneObjectAndCopiesAreOfTheirOwn(t *testing.T) {
	k := newPods(t)
	d := k.pool.Get()
	pod, raw := podOf(t, k, `"name":"a","uid":"1","resourceVersion":"1"`)
	var open Opener[*corev1.Pod]
	copied := 0
	deepCopy := func(p *corev1.Pod) *corev1.Pod { copied++; return p.DeepCopy() }
	for name, p := range map[string]*Object{
		"packed": k.Pack(d, decode.JSON, raw, nil, pod, nil),
		"held":   k.Hold(pod),
		"value":  k.Value(pod),
	} {
		copied = 0
		if p.Alive() != pod || p.Decoded(nil) != pod || k.Whole(p) != pod || open.Open(p) != pod || k.Alive(p) != pod {
			t.Errorf("%s: a reader gets another object than the one that is held", name)
		}
		if got := open.Copy(p, deepCopy); got == pod || !reflect.DeepEqual(got, pod) || copied != 1 {
			t.Errorf("%s: the copy of %p is %p, after %d copies", name, pod, got, copied)
		}
	}
	unread := k.Unread(d, decode.JSON, raw, nil, nil)
	copied = 0
	if got := open.Copy(unread, deepCopy); copied != 0 || unread.Alive() != nil || !reflect.DeepEqual(got, pod) {
		t.Errorf("the copy of an unread object is %v, after %d copies", got, copied)
	}
	first := open.Open(unread)
	if open.Open(unread) != first || first == open.Copy(unread, deepCopy) {
		t.Error("readers of an unread object get different ones, or the one that a caller may change")
	}
	bad := k.Unread(d, decode.JSON, raw, nil, nil)
	bad.fail(errors.New("test"))
	if open.Open(bad) != nil || open.Copy(bad, deepCopy) != nil {
		t.Error("an object that cannot be decoded is opened")
	}
	if open.Open(nil) != nil || k.Alive(nil) != nil {
		t.Error("no object is one")
	}
}

// Settle changes neither an object that cannot be decoded nor one that is not packed.
// Guarantees: R17
func TestSettleLeavesFailedAndUnpackedObjects(t *testing.T) {
	k := newPods(t)
	d := k.pool.Get()
	pod, raw := podOf(t, k, `"name":"a","uid":"1","resourceVersion":"1"`)
	failed, held, good := k.Unread(d, decode.JSON, raw, nil, nil), k.Hold(pod), k.Unread(d, decode.JSON, raw, nil, nil)
	failed.fail(errors.New("test"))
	k.bytes = &pack.Packer{} // every dictionary is outdated now
	before := good.body.Load()
	k.Settle(t.Context(), slices.Values([]*Object{failed, held, good}))
	if failed.Failed() == nil || failed.Decoded(nil) != nil {
		t.Error("the failed object can be decoded")
	}
	if held.Decoded(nil) != pod {
		t.Error("the unpacked object is another one")
	}
	if good.body.Load() == before || !reflect.DeepEqual(good.Decoded(nil), pod) {
		t.Error("the good object was not packed again, or differs")
	}
}

// The encoded form of an object is what was packed. An object that is not packed has none, and that of an object that
// cannot be decoded is an error, so nobody saves it.
// Guarantees: R17
func TestEncodedIsWhatWasPacked(t *testing.T) {
	k := newPods(t)
	d := k.pool.Get()
	pod, raw := podOf(t, k, `"name":"a","uid":"1","resourceVersion":"1"`)
	p := k.PackBytes(pod, decode.JSON, raw, nil, nil)
	if e, ok, err := k.Encoded(p, nil); !ok || err != nil || e.Format != decode.JSON || string(e.Raw) != string(raw) || e.List != nil {
		t.Errorf("%+v, %t, %v, want %s", e, ok, err, raw)
	}
	if e, ok, err := k.Encoded(k.Hold(pod), nil); ok || err != nil {
		t.Errorf("an object that is not packed has %+v, %v", e, err)
	}
	other := k.Unread(d, decode.JSON, raw, nil, nil)
	if !k.SameContent(p, other) {
		t.Error("equal objects have other content")
	}
	_, rawNext := podOf(t, k, `"name":"a","uid":"1","resourceVersion":"2"`)
	if k.SameContent(p, k.Unread(d, decode.JSON, rawNext, nil, nil)) {
		t.Error("different objects have the same content")
	}
	bad := [2]*Object{k.Unread(d, decode.JSON, raw, nil, nil), k.Unread(d, decode.JSON, raw, nil, nil)}
	for _, p := range bad {
		p.fail(errors.New("test"))
	}
	if _, ok, err := k.Encoded(bad[0], nil); ok || err == nil || err != bad[0].Failed() {
		t.Errorf("an object that cannot be decoded has an encoded form, or the error %v", err)
	}
	if k.SameContent(bad[0], bad[1]) || k.SameContent(p, bad[0]) {
		t.Error("an object that cannot be decoded has the content of another one")
	}
}

// An object is not packed if its encoding would lose something. The input of a Transform is not packed either.
// Guarantees: D2, D3
func TestWhatTheEncodingLosesIsNotPacked(t *testing.T) {
	k := newPods(t)
	d := k.pool.Get()
	pod, raw := podOf(t, k, `"name":"a","uid":"1","resourceVersion":"1"`)
	if p := k.Value(pod); p.body.Load().form.held != nil {
		t.Error("a pod is not packed")
	}
	lossy := pod.DeepCopy()
	lossy.Spec.Tolerations = []corev1.Toleration{} // an empty list has no encoding
	if p := k.Value(lossy); p.body.Load().form.held != lossy {
		t.Error("a pod with an empty list is packed")
	}
	if packed, held := k.Value(pod), k.Hold(pod); held.HeapSize() < packed.HeapSize()+int(reflect.TypeFor[corev1.Pod]().Size())/2 {
		t.Errorf("a pod takes %d bytes, and %d in packed form", held.HeapSize(), packed.HeapSize())
	}

	failed := errors.New("test")
	var result any
	var err error
	k.Transform = func(obj any) (any, error) {
		if obj != pod {
			t.Error("Transform receives another object")
		}
		return result, err
	}
	before := k.Pack(d, decode.JSON, raw, nil, pod, nil)
	if before.body.Load().form.held != pod || k.Value(pod).body.Load().form.held != pod || k.Alive(before) != nil {
		t.Error("the object that Transform is to receive is packed or shared")
	}
	if p, got := k.Transformed(before); p != nil || got != nil {
		t.Errorf("Transform dropped the object, which is %v, %v", p, got)
	}
	result, err = pod, failed
	if p, got := k.Transformed(before); p != nil || got != failed {
		t.Errorf("Transform failed, and the object is %v, %v", p, got)
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "1"}}
	for _, c := range []struct {
		result *corev1.Pod
		packed bool
	}{{small, true}, {lossy, false}} {
		result, err = c.result, nil
		p, got := k.Transformed(before)
		if got != nil || (p.body.Load().form.held == nil) != c.packed || !reflect.DeepEqual(p.Decoded(nil), c.result) {
			t.Errorf("%v is %v, %v", c.result, p, got)
		}
	}
}

// An object that stands in for one that cannot be decoded has its whole identity, and nothing else.
// Guarantees: R17
func TestBareObjectHasTheIdentity(t *testing.T) {
	k := newPods(t)
	pod, raw := podOf(t, k, `"namespace":"x","name":"a","uid":"1","resourceVersion":"22","labels":{"l":"1"}`)
	want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "a", UID: "1", ResourceVersion: "22"}}
	p := k.PackBytes(pod, decode.JSON, raw, nil, nil)
	p.fail(errors.New("test"))
	if got := p.Bare(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A store has the failures of its present objects only: an error goes with the version that failed.
// Guarantees: R17, R22
func TestFailuresAreOfPresentObjects(t *testing.T) {
	k := newPods(t)
	pod, raw := podOf(t, k, `"name":"a"`)
	old, now := k.PackBytes(pod, decode.JSON, raw, nil, nil), k.PackBytes(pod, decode.JSON, raw, nil, nil)
	old.fail(errors.New("test"))
	if got := k.Failures.In(func(_, _ string) *Object { return old }); len(got) != 1 {
		t.Errorf("a present object has the failures %v", got)
	}
	for _, present := range []*Object{now, nil} {
		if got := k.Failures.In(func(_, _ string) *Object { return present }); len(got) != 0 {
			t.Errorf("a store without the object has %v", got)
		}
	}
}
