package table

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/typedinformer/informer/internal/object"
)

// indexed returns the owner of a table with an index.
func indexed[K comparable](keys func(*thing) []K) (o *owner, x *Index[*thing, K]) {
	o = newOwner()
	o.edit(func(e *Edit[*thing]) { x = addIndex(e, keys) })
	return o, x
}

// keysOf returns the keys of x in the published version.
func keysOf[K comparable](o *owner, x *Index[*thing, K]) (keys []K) {
	x.Keys(&o.published, func(key K) bool { keys = append(keys, key); return true })
	return keys
}

// A lookup of NaN finds nothing, as in a Go map. The index removes the key together with its object.
//
// Guarantees: C3, C5
func TestKeyThatIsNotEqualToItselfIsFreedWithItsObject(t *testing.T) {
	o, x := indexed(func(t *thing) []float64 { return []float64{math.NaN(), float64(len(t.name)), math.NaN()} })
	for version := range 20 {
		o.put(&thing{name: "a", version: version}, &thing{name: "b", version: version})
		found, _ := lookup(x, &o.published, 1)
		nan, _ := lookup(x, &o.published, math.NaN())
		if n := len(keysOf(o, x)); n != 5 || len(found) != 2 || len(nan) != 0 {
			t.Fatalf("%d keys, %d and %d objects", n, len(found), len(nan))
		}
		o.check(t)
	}
	o.remove(object.Key{Name: "a"})
	o.replace()
	if n := len(keysOf(o, x)); n != 0 {
		t.Errorf("%d keys but no objects", n)
	}
}

// colliding returns three keys that have the same hash in x.
func colliding(x *Index[*thing, string]) []string {
	seen := map[uint32][]string{}
	for i := 0; ; i++ {
		key := "key" + strconv.Itoa(i)
		hash := x.hash(key)
		if seen[hash] = append(seen[hash], key); len(seen[hash]) == 3 {
			return seen[hash]
		}
	}
}

// Ordinals distinguish the keys of one object whose hashes are equal, in any order, as keys are added and removed.
//
// Guarantees: C3, C5
func TestCollidingKeysOfOneObjectAreToldApart(t *testing.T) {
	o, x := indexed(tagsOf)
	keys := colliding(x)
	a, b, c := keys[0], keys[1], keys[2]
	versions := [][]string{
		{a}, {a, b, c}, {c, a, b}, {b, c}, {c, b}, {c}, {a, a, b, a, c, c}, {"other", c, a}, {}, {b, a, c},
	}
	for version, tags := range slices.Concat(versions, versions) {
		two := version >= len(versions) // in the second round, another object has all keys
		if version == len(versions) {
			o.put(&thing{name: "beside", tags: []string{b, c, a}})
		}
		o.put(&thing{name: "it", version: version, tags: tags})
		for _, key := range keys {
			var want, got []string
			if two {
				want = append(want, "beside")
			}
			if slices.Contains(tags, key) {
				want = append(want, "it")
			}
			found, _ := lookup(x, &o.published, key)
			for _, it := range found {
				got = append(got, it.name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("version %d with keys %q: %q finds %q, want %q", version, tags, key, got, want)
			}
		}
		o.check(t)
	}
}

// Ordinals distinguish the keys of one object whose hashes are equal, also among many.
//
// Guarantees: C3, C5
func TestCollidingKeysAmongMany(t *testing.T) {
	o, x := indexed(tagsOf)
	keys := colliding(x)
	var others []string
	for i := range fewKeys {
		others = append(others, fmt.Sprint("other", i))
	}
	a, b, c := keys[0], keys[1], keys[2]
	for version, tags := range [][]string{{a, b, c}, {c, a, b, a}, {b, c}, {c}, {a, b}, {}, {c, b, a}} {
		all := slices.Concat(tags, others, tags)
		if version%2 == 1 {
			all = slices.Concat(others[:1], tags) // few
		}
		o.put(&thing{name: "it", version: version, tags: all})
		for _, key := range slices.Concat(keys, others) {
			if found, _ := lookup(x, &o.published, key); len(found) == 1 != slices.Contains(all, key) {
				t.Errorf("version %d with keys %q: %q finds %d objects", version, all, key, len(found))
			}
		}
		o.check(t)
	}
}

// With so many keys that some have equal hashes, each key still finds only its own object.
//
// Guarantees: C3
func TestKeysWithEqualHashesFindTheirOwnObjects(t *testing.T) {
	const objects = 30_000 // about 25 pairs have equal hashes of 24 bits
	o, x := indexed(tagsOf)
	var items []*thing
	for i := range objects {
		items = append(items, &thing{name: fmt.Sprint("p", i), tags: []string{fmt.Sprint("own", i)}})
	}
	o.replace(items...)
	for i, it := range items {
		if found, _ := lookup(x, &o.published, it.tags[0]); len(found) != 1 || found[0] != it {
			t.Fatalf("the key of p%d finds %d objects", i, len(found))
		}
	}
	if n := len(keysOf(o, x)); n != objects {
		t.Errorf("%d keys", n)
	}
}

// The table calls the function of an index once for each version of an object. A function that returns different keys
// each time corrupts nothing.
//
// Guarantees: C3
func TestIndexFunctionRunsOnceAVersionAndCannotCorrupt(t *testing.T) {
	calls := 0
	o, x := indexed(func(*thing) []int { calls++; return []int{calls, calls, -calls} })
	for version := 1; version <= 2; version++ {
		o.put(&thing{name: "a", version: version})
		found, _ := lookup(x, &o.published, version)
		got := slices.Sorted(slices.Values(keysOf(o, x)))
		if !slices.Equal(got, []int{-version, version}) || len(found) != 1 {
			t.Fatalf("keys %v, %d objects", got, len(found))
		}
		o.check(t)
	}
	o.remove(object.Key{Name: "a"})
	if got := keysOf(o, x); len(got) != 0 || calls != 2 {
		t.Fatalf("keys %v after %d calls", got, calls)
	}
}

// A table does not have an index of another one, even if it has as many.
func TestIndexOfAnotherTableIsNotFound(t *testing.T) {
	o, x := indexed(tagsOf)
	_, other := indexed(tagsOf)
	o.put(&thing{name: "a", tags: []string{"t"}})
	if found, has := lookup(x, &o.published, "t"); !has || len(found) != 1 {
		t.Errorf("%v: %d objects", has, len(found))
	}
	if found, has := lookup(other, &o.published, "t"); has || len(found) != 0 {
		t.Errorf("the index of another table finds %d objects", len(found))
	}
}
