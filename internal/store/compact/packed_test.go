package compact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/store/pack"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// Labels answer like labels.Set.
func TestLabels(t *testing.T) {
	for _, set := range []map[string]string{
		nil,
		{},
		{"a": "1"},
		{"a": "", "b": "2", "ab": "x\x00y", "c": strings.Repeat("v", 300)},
		{strings.Repeat("k", 20000): "v", "": "empty"},
	} {
		checkLabels(t, set)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		set := map[string]string{}
		for range random.IntN(6) {
			set[fmt.Sprint("k", random.IntN(9))] = strings.Repeat("v", random.IntN(200))
		}
		checkLabels(t, set)
	}
}

func checkLabels(t *testing.T, set map[string]string) {
	t.Helper()
	got := newLabels(set)
	if again := newLabels(maps.Clone(set)); again != got {
		t.Errorf("%v makes two different sets", set)
	}
	if !got.equal(set) {
		t.Errorf("%v does not equal its own set", set)
	}
	keys := []string{"absent", "", "k1", "a", "b"}
	for key := range set {
		keys = append(keys, key)
	}
	for _, key := range keys {
		value, ok := got.Lookup(key)
		if want, has := labels.Set(set).Lookup(key); value != want || ok != has || got.Get(key) != want || got.Has(key) != has {
			t.Errorf("%v: label %q is %q, %t", set, key, value, ok)
		}
		other := maps.Clone(set)
		if other == nil {
			other = map[string]string{}
		}
		other[key] += "x"
		if got.equal(other) {
			t.Errorf("%v equals %v", set, other)
		}
		delete(other, key)
		if _, has := set[key]; has && got.equal(other) {
			t.Errorf("%v equals %v", set, other)
		}
	}
}

// Settle packs objects again that were packed with an older dictionary. Readers get equal objects before, during and after that.
func TestSettle(t *testing.T) {
	k, err := NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []*corev1.Pod
	var objects []*Object
	d := k.pool.Get()
	for pod := range fleet.New(fleet.Config{Pods: 500}).All() {
		pod.ManagedFields = nil
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := d.Decode(decode.JSON, raw, decode.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, decoded.(*corev1.Pod))
		objects = append(objects, k.Pack(d, decode.JSON, raw, nil, decoded, nil))
	}
	check := func() {
		for i, p := range objects {
			if diff := cmp.Diff(want[i], p.Fresh(nil)); diff != "" {
				t.Errorf("object %d (-want +got):\n%s", i, diff)
				return
			}
			if p.GetUID() != want[i].UID || p.GetResourceVersion() != want[i].ResourceVersion {
				t.Errorf("object %d is %s %s, want %s %s", i, p.GetUID(), p.GetResourceVersion(), want[i].UID, want[i].ResourceVersion)
			}
		}
	}
	size := func() (bytes, outdated int) {
		for _, p := range objects {
			bytes += len(p.body.Load().data)
			if k.bytes.Outdated(p.body.Load().form.dict) {
				outdated++
			}
		}
		return bytes, outdated
	}
	check()
	before, outdated := size()
	if outdated == 0 {
		t.Fatal("no object has an older dictionary: the test tests nothing")
	}
	var reading sync.WaitGroup
	reading.Go(check)
	k.Settle(t.Context(), slices.Values(objects))
	reading.Wait()
	check()
	after, outdated := size()
	if outdated != 0 || after >= before {
		t.Errorf("%d objects have an older dictionary, want none; %d bytes before, %d after", outdated, before, after)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	last := objects[0]
	body := last.body.Load()
	k.bytes = &pack.Packer{} // every dictionary is outdated now
	k.Settle(ended, slices.Values(objects))
	if last.body.Load() != body {
		t.Error("Settle continues after its context has ended")
	}
}

// Packed objects decode in the format and with the list that each came with.
func TestPackedHasItsFormatAndList(t *testing.T) {
	pods := func(kind, version string) *decode.ListInfo { return &decode.ListInfo{Kind: kind, APIVersion: version} }
	k, err := NewPacker(reflect.TypeFor[*unstructured.Unstructured](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Object
	lists := []*decode.ListInfo{nil, pods("Pod", "v1"), pods("Pod", "v2"), pods("Node", "v2"), nil}
	for _, list := range lists {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}
		all = append(all, k.PackBytes(obj, decode.JSON, []byte(`{"metadata":{"name":"a"}}`), list, nil))
	}
	for i, p := range all {
		var want decode.ListInfo
		if lists[i] != nil {
			want = *lists[i]
		}
		if got := p.Fresh(nil).(*unstructured.Unstructured); got.GetKind() != want.Kind || got.GetAPIVersion() != want.APIVersion {
			t.Errorf("object %d is a %s %s, want a %s %s", i, got.GetAPIVersion(), got.GetKind(), want.APIVersion, want.Kind)
		}
	}

	if k, err = NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil); err != nil {
		t.Fatal(err)
	}
	all = nil
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	protobuf, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		all = append(all, k.PackBytes(pod, decode.JSON, []byte(`{"metadata":{"name":"a"}}`), nil, nil), k.PackBytes(pod, decode.Protobuf, protobuf, nil, nil))
	}
	for i, p := range all {
		if got := p.Fresh(nil).(*corev1.Pod); got.Name != "a" {
			t.Errorf("pod %d is %v", i, got)
		}
	}
}

// Objects that cannot be decoded again are remembered as long as anything holds them, with the error of the first
// failure. Each is reported once.
// Guarantees: R17, R22
func TestFailuresAreForgotten(t *testing.T) {
	k, err := NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var reported []error
	k.Failures.Error = func(p *Object, why error) error { return fmt.Errorf("%s/%s: %w", p.GetNamespace(), p.GetName(), why) }
	k.Failures.Report = func(err error) { reported = append(reported, err) }
	first := errors.New("test")
	var last *Object
	for i := range 1000 {
		last = k.Hold(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "1", ResourceVersion: "1"}})
		last.fail(first)
		last.fail(errors.New("again"))
		if i%100 == 0 {
			runtime.GC()
		}
	}
	if n := len(k.Failures.objects); n > 500 || len(reported) != 1000 {
		t.Errorf("%d objects are remembered, %d were reported", n, len(reported))
	}
	got := last.Failed()
	if !errors.Is(got, first) || got != reported[999] || !strings.HasPrefix(got.Error(), "a/x: ") {
		t.Errorf("the object has %v, reported was %v", got, reported[999])
	}
	if all := k.Failures.In(func(namespace, name string) *Object {
		if namespace != "a" || name != "x" {
			t.Errorf("the key is %s/%s", namespace, name)
		}
		return last
	}); !slices.Equal(all, []*Object{last}) {
		t.Errorf("the store has %v", all)
	}
}

// An object that a program gave to Value has no marks of a decoder behind it, so nobody may look for them.
// Guarantees: D1
func TestObjectsOfValueHaveNoMarks(t *testing.T) {
	k, err := NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !k.makes() {
		t.Error("at first, objects are not those of a decoder")
	}
	old := k.Value(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "1"}})
	now := k.Value(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "2"}})
	if k.makes() {
		t.Error("after Value, objects count as those of a decoder")
	}
	if got := now.Decoded(old.Alive()).(*corev1.Pod); got.ResourceVersion != "2" {
		t.Errorf("the new version is %s", got.ResourceVersion)
	}
}
