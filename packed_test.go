package informer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fleet"
	"github.com/typedinformer/informer/internal/pack"
	"github.com/typedinformer/informer/internal/table"
)

// A labelSet answers like labels.Set.
func TestLabelSet(t *testing.T) {
	for _, set := range []map[string]string{
		nil,
		{},
		{"a": "1"},
		{"a": "", "b": "2", "ab": "x\x00y", "c": strings.Repeat("v", 300)},
		{strings.Repeat("k", 20000): "v", "": "empty"},
	} {
		checkLabelSet(t, set)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		set := map[string]string{}
		for range random.IntN(6) {
			set[fmt.Sprint("k", random.IntN(9))] = strings.Repeat("v", random.IntN(200))
		}
		checkLabelSet(t, set)
	}
}

func checkLabelSet(t *testing.T, set map[string]string) {
	t.Helper()
	got := newLabelSet(set)
	if again := newLabelSet(maps.Clone(set)); again != got {
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

// settle packs objects again that were packed with an older dictionary. Readers get equal objects before, during and after that.
func TestSettle(t *testing.T) {
	k, err := newPacker(reflect.TypeFor[*corev1.Pod](), false)
	if err != nil {
		t.Fatal(err)
	}
	store, writer := NewStore[*packed]()
	var want []*corev1.Pod
	replaced := Delta[*packed]{Type: Replaced, ResourceVersion: "1"}
	one := k.decoders.get()
	for pod := range fleet.New(fleet.Config{Pods: 500}).All() {
		pod.ManagedFields = nil
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := one.Decode(decode.JSON, raw, decode.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, decoded.(*corev1.Pod))
		replaced.Items = append(replaced.Items, k.pack(one, decode.JSON, raw, nil, decoded, nil))
	}
	if err := writer.Apply(replaced); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, func(a, b *corev1.Pod) int { return table.CompareKeys(KeyOf(a), KeyOf(b)) })
	check := func() {
		i := 0
		for p := range store.All() {
			if diff := cmp.Diff(want[i], p.decode(nil)); diff != "" {
				t.Errorf("object %d (-want +got):\n%s", i, diff)
				return
			}
			if p.GetUID() != want[i].UID || p.GetResourceVersion() != want[i].ResourceVersion {
				t.Errorf("object %d is %s %s, want %s %s", i, p.GetUID(), p.GetResourceVersion(), want[i].UID, want[i].ResourceVersion)
			}
			i++
		}
	}
	size := func() (bytes, outdated int) {
		for p := range store.All() {
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
	k.settle(t.Context(), store.All())
	reading.Wait()
	check()
	after, outdated := size()
	if outdated != 0 || after >= before {
		t.Errorf("%d objects have an older dictionary, want none; %d bytes before, %d after", outdated, before, after)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	last, _ := store.Get(KeyOf(replaced.Items[0]))
	body := last.body.Load()
	k.bytes = pack.Packer{} // every dictionary is outdated now
	k.settle(ended, store.All())
	if last.body.Load() != body {
		t.Error("settle continues after its context has ended")
	}
}
