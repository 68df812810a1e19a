package audit

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/store/undecoded"
)

// objects is a View of objects in one namespace, by name.
type objects struct {
	ids       map[string]object.ID
	undecoded *undecoded.Set
	version   string
}

func keyOf(name string) object.Key { return object.Key{Namespace: "ns", Name: name} }

func (o objects) Shard() shardset.Shard { return shardset.Shard{} }

func (o objects) Version() string { return o.version }

func (o objects) Get(key object.Key) (object.ID, bool) {
	id, ok := o.ids[key.Name]
	return id, ok
}

func (o objects) All() iter.Seq2[object.Key, object.ID] {
	return func(yield func(object.Key, object.ID) bool) {
		for name, id := range o.ids {
			if !yield(keyOf(name), id) {
				return
			}
		}
	}
}

func (o objects) Len() int { return len(o.ids) }

func (o objects) Undecoded() *undecoded.Set { return o.undecoded }

// without returns the set of objects that could not be decoded, by name.
func without(ids map[string]object.ID) (s *undecoded.Set) {
	for name, id := range ids {
		s = s.With(keyOf(name), id, errors.New("test"))
	}
	return s
}

// compare compares view with served, and returns the differences as text, sorted.
func compare(view objects, served map[string]object.ID) (Found, []string) {
	c := NewComparison(view)
	for name, id := range served {
		key := keyOf(name)
		if name == "" {
			key = object.Key{}
		}
		c.Served(key, id)
	}
	found := c.End()
	var texts []string
	for _, d := range found.Differences {
		texts = append(texts, d.Key.Name+" "+d.Kind.String())
	}
	slices.Sort(texts)
	return found, texts
}

// Each kind of difference has its name. What is unknown is no difference, and is counted.
// Guarantees: R23
func TestComparison(t *testing.T) {
	type ids = map[string]object.ID
	nameless := (*undecoded.Set)(nil).With(object.Key{}, object.ID{}, errors.New("test"))
	for name, c := range map[string]struct {
		has, undecodable, serves ids
		set                      *undecoded.Set
		unclear                  int
		want                     []string
	}{
		"nothing":                {},
		"equal":                  {has: ids{"a": {UID: "u", Version: "1"}}, serves: ids{"a": {UID: "u", Version: "1"}}},
		"missing":                {serves: ids{"a": {UID: "u", Version: "1"}}, want: []string{"a missing"}},
		"superfluous":            {has: ids{"a": {UID: "u", Version: "1"}}, want: []string{"a superfluous"}},
		"recreated":              {has: ids{"a": {UID: "u", Version: "1"}}, serves: ids{"a": {UID: "v", Version: "2"}}, want: []string{"a recreated"}},
		"recreated, one version": {has: ids{"a": {UID: "u", Version: "1"}}, serves: ids{"a": {UID: "v", Version: "1"}}, want: []string{"a recreated"}},
		"outdated":               {has: ids{"a": {UID: "u", Version: "1"}}, serves: ids{"a": {UID: "u", Version: "2"}}, want: []string{"a outdated"}},
		"ahead":                  {has: ids{"a": {UID: "u", Version: "2"}}, serves: ids{"a": {UID: "u", Version: "1"}}, want: []string{"a outdated"}},
		"without UID":            {has: ids{"a": {UID: "", Version: "1"}}, serves: ids{"a": {UID: "v", Version: "1"}}},
		"without version":        {has: ids{"a": {UID: "u", Version: ""}}, serves: ids{"a": {UID: "u", Version: "1"}}},
		"undecodable": {has: ids{"a": {UID: "u", Version: "1"}}, undecodable: ids{"a": {UID: "u", Version: "2"}, "b": {UID: "v", Version: "3"}},
			serves: ids{"a": {UID: "u", Version: "2"}, "b": {UID: "v", Version: "3"}}},
		"undecodable, outdated": {undecodable: ids{"a": {UID: "u", Version: "1"}}, serves: ids{"a": {UID: "u", Version: "2"}}, want: []string{"a outdated"}},
		"undecodable, gone": {has: ids{"a": {UID: "u", Version: "1"}}, undecodable: ids{"a": {UID: "u", Version: "2"}, "b": {UID: "v", Version: "2"}},
			want: []string{"a superfluous", "b superfluous"}},
		"unknown name in the store": {has: ids{"a": {UID: "u", Version: "1"}, "b": {UID: "u", Version: "1"}}, set: nameless,
			serves: ids{"b": {UID: "u", Version: "2"}, "c": {UID: "u", Version: "1"}}, unclear: 2, want: []string{"b outdated"}},
		"recreated, unknown name at the server": {has: ids{"a": {UID: "u", Version: "1"}}, serves: ids{"": {UID: "u", Version: "1"}, "a": {UID: "v", Version: "2"}}, unclear: 1,
			want: []string{"a recreated"}},
		"unknown name at the server": {has: ids{"a": {UID: "u", Version: "1"}}, serves: ids{"": {UID: "u", Version: "1"}}, unclear: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if c.set == nil {
				c.set = without(c.undecodable)
			}
			found, texts := compare(objects{ids: c.has, undecoded: c.set}, c.serves)
			if diff := cmp.Diff(c.want, texts); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			if found.Objects != len(c.serves) || found.Differ != len(c.want) || found.Unclear != c.unclear {
				t.Errorf("%+v", found)
			}
		})
	}
}

// A comparison agrees with one by maps, whatever the order in which the server sends its objects.
// Guarantees: R23
func TestComparisonAgreesWithMaps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		has, serves, want := map[string]object.ID{}, map[string]object.ID{}, []string(nil)
		for i := range r.IntN(50) {
			name, id := fmt.Sprint(i), object.ID{UID: fmt.Sprint(r.IntN(3)), Version: fmt.Sprint(r.IntN(3))}
			switch r.IntN(4) {
			case 0:
				has[name] = id
				want = append(want, name+" superfluous")
			case 1:
				serves[name] = id
				want = append(want, name+" missing")
			case 2:
				has[name], serves[name] = id, id
			case 3:
				other := object.ID{UID: fmt.Sprint(r.IntN(3)), Version: fmt.Sprint(r.IntN(3))}
				has[name], serves[name] = id, other
				switch {
				case id.UID != other.UID:
					want = append(want, name+" recreated")
				case id.Version != other.Version:
					want = append(want, name+" outdated")
				}
			}
		}
		slices.Sort(want)
		if _, got := compare(objects{ids: has}, serves); !slices.Equal(got, want) {
			t.Fatalf("%v and %v: %v instead of %v", has, serves, got, want)
		}
	}
}

// The server may have several objects with one key. The view is right if it has one of them, at the version of the server,
// wherever that comes in the list. A key that differs counts once.
// Guarantees: R23, R29
func TestSeveralObjectsWithOneKey(t *testing.T) {
	for name, c := range map[string]struct {
		has    string // UID and version of the object in the view; empty for none
		serves string // the same of those of the server
		want   string
	}{
		"the first":           {"u 1", "u 1,v 2,w 3", ""},
		"the last":            {"w 3", "u 1,v 2,w 3", ""},
		"the middle one":      {"v 2", "u 1,v 2,w 3", ""},
		"outdated":            {"v 1", "u 1,v 2,w 3", "outdated"},
		"gone":                {"x 1", "u 1,v 2,w 3", "recreated"},
		"gone, with versions": {"x 1", "u 1,u 2,v 1", "recreated"},
		"missing":             {"", "u 1,v 2,w 3", "missing"},
	} {
		view := objects{ids: map[string]object.ID{"other": {UID: "o", Version: "1"}}}
		id := func(text string) object.ID {
			uid, version, _ := strings.Cut(text, " ")
			return object.ID{UID: uid, Version: version}
		}
		if c.has != "" {
			view.ids["a"] = id(c.has)
		}
		cmp := NewComparison(view)
		cmp.Served(keyOf("other"), object.ID{UID: "o", Version: "1"})
		for _, served := range strings.Split(c.serves, ",") {
			cmp.Served(keyOf("a"), id(served))
		}
		found, kind := cmp.End(), ""
		if len(found.Differences) > 0 {
			kind = found.Differences[0].Kind.String()
		}
		if found.Differ > 1 || len(found.Differences) != found.Differ || kind != c.want || found.Objects != 4 {
			t.Errorf("%s: %+v, want %q", name, found, c.want)
		}
	}
	cmp := NewComparison(objects{ids: map[string]object.ID{"a": {UID: "x", Version: "1"}}})
	for range 2 * maxRecreated {
		cmp.Served(keyOf("a"), object.ID{UID: "u", Version: "1"})
	}
	if found := cmp.End(); found.Differ != 1 || len(cmp.recreated) > maxRecreated {
		t.Errorf("%d differ, %d are remembered", found.Differ, len(cmp.recreated))
	}
}

// At most a hundred differences are named. All are counted.
func TestDifferencesAreBounded(t *testing.T) {
	serves := map[string]object.ID{}
	for i := range 3 * MaxNamed {
		serves[fmt.Sprint(i)] = object.ID{UID: "u", Version: "1"}
	}
	found, _ := compare(objects{}, serves)
	if found.Differ != 3*MaxNamed || len(found.Differences) != MaxNamed {
		t.Errorf("%d differ, %d named", found.Differ, len(found.Differences))
	}
	if text := Text(found.Differences[:1], 1); text != found.Differences[0].Key.String()+" is missing" {
		t.Error(text)
	}
}
