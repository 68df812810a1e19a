package informer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
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
