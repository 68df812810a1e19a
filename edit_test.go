package informer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// A version that the store already has is no change, and the store keeps its own object.
// Guarantees: H14
func TestSameVersionIsNoChange(t *testing.T) {
	store, _ := NewStore[*thing]()
	first := &thing{name: "a", uid: "u", rv: "5"}
	mustApply(t, store, nil, Delta[*thing]{Type: Upserted, Object: first, ResourceVersion: "5"})
	again := *first
	if got := mustApply(t, store, nil, Delta[*thing]{Type: Upserted, Object: &again, ResourceVersion: "5"}); len(got) != 0 {
		t.Fatalf("changes %v", got)
	}
	if got := mustApply(t, store, nil, Delta[*thing]{Type: Replaced, Items: []*thing{&again}, ResourceVersion: "7"}); len(got) != 0 {
		t.Fatalf("changes %v", got)
	}
	if got, _ := store.Get(Key{Name: "a"}); got != first {
		t.Fatal("the stored object was replaced by an equal one")
	}
	if store.ResourceVersion() != "7" {
		t.Fatalf("RV = %s", store.ResourceVersion())
	}
}

// The error of an invalid delta names the delta and the reason. The batch has no effect.
//
// Guarantees: C6, R22
func TestInvalidDeltaIsAnErrorAndChangesNothing(t *testing.T) {
	obj := func(namespace, name string) *thing {
		return &thing{namespace: namespace, name: name, uid: "other", rv: "9"}
	}
	for name, test := range map[string]struct {
		delta Delta[*thing]
		want  string
	}{
		"Upserted of another namespace":  {Delta[*thing]{Type: Upserted, Namespace: "a", Object: obj("b", "y")}, `Upserted of namespace "a" has object b/y of another namespace`},
		"Upserted of no namespace":       {Delta[*thing]{Type: Upserted, Namespace: "a", Object: obj("", "x")}, "has object /x of another namespace"},
		"Removed of another namespace":   {Delta[*thing]{Type: Removed, Namespace: "a", Object: obj("b", "y")}, "has object b/y of another namespace"},
		"Removed key of another":         {Delta[*thing]{Type: Removed, Namespace: "a", Key: Key{Namespace: "b", Name: "y"}}, "has object b/y of another namespace"},
		"Replaced with another":          {Delta[*thing]{Type: Replaced, Namespace: "a", Items: []*thing{obj("a", "x"), obj("b", "y")}}, `Replaced of namespace "a" has object b/y of another namespace`},
		"Upserted without object":        {Delta[*thing]{Type: Upserted}, "Upserted has a nil object"},
		"Upserted without name":          {Delta[*thing]{Type: Upserted, Object: obj("a", "")}, "Upserted has an object without a name"},
		"Removed without object and key": {Delta[*thing]{Type: Removed}, "Removed has an object without a name"},
		"Removed without name":           {Delta[*thing]{Type: Removed, Object: obj("a", "")}, "Removed has an object without a name"},
		"Replaced with a nil object":     {Delta[*thing]{Type: Replaced, Items: []*thing{nil}}, "Replaced has a nil object"},
		"Replaced with a nameless one":   {Delta[*thing]{Type: Replaced, Items: []*thing{obj("a", "")}}, "Replaced has an object without a name"},
		"no type":                        {Delta[*thing]{Object: obj("a", "x")}, "unknown type DeltaType(0)"},
		"unknown type":                   {Delta[*thing]{Type: 9}, "unknown type DeltaType(9)"},
	} {
		t.Run(name, func(t *testing.T) {
			store, w := NewStore[*thing]()
			byUID := NewIndex(store, func(t *thing) []string { return []string{t.uid} })
			x, y := &thing{namespace: "a", name: "x", uid: "u", rv: "1"}, &thing{namespace: "b", name: "y", uid: "u", rv: "1"}
			for _, o := range []*thing{x, y} {
				if err := w.Apply(Delta[*thing]{Type: Replaced, Namespace: o.namespace, Items: []*thing{o}, ResourceVersion: "1"}); err != nil {
					t.Fatal(err)
				}
			}
			valid := Delta[*thing]{Type: Upserted, Namespace: "a", Object: obj("a", "new"), ResourceVersion: "9"}
			for position, batch := range [][]Delta[*thing]{{test.delta}, {valid, test.delta}, {valid, valid, test.delta, valid}} {
				before := store.Snapshot()
				want := fmt.Sprintf("delta %d of %d: ", position+1, len(batch))
				if err := w.Apply(batch...); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("Apply: %v, want %s... %s", err, want, test.want)
				}
				if store.Snapshot() != before {
					t.Error("the store changed")
				}
			}
			if err := w.Apply(valid, Delta[*thing]{Type: Removed, Namespace: "b", Key: KeyOf(y)}); err != nil {
				t.Fatal(err)
			}
			if got := store.List(); !slices.Equal(got, []*thing{valid.Object, x}) || byUID.Count("u") != 1 || byUID.Count("other") != 1 {
				t.Errorf("then: %d objects, %d by index", len(got), byUID.Count("u"))
			}
			if err := store.core().Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// If several items have one key, the last counts. Undecoded objects outside the delta's namespace have no effect.
//
// Guarantees: C6
func TestReplacedTakesTheLastOfEachKeyAndKeepsItsNamespaceOnly(t *testing.T) {
	store, w := NewStore[*thing]()
	items := func(namespace string, rvs ...string) (items []*thing) {
		for i, rv := range rvs {
			items = append(items, &thing{namespace: namespace, name: "n" + strconv.Itoa(i%2), uid: "u", rv: rv})
		}
		return items
	}
	for _, d := range []Delta[*thing]{
		{Type: Replaced, Namespace: "a", Items: items("a", "1", "2", "3", "4", "5")}, // into an empty store
		{Type: Replaced, Namespace: "b", Items: items("b", "6", "7", "8", "9")},
		{Type: Replaced, Namespace: "a", Items: items("a", "5", "10", "11"), Undecoded: decodeErrors(Key{Namespace: "b", Name: "n1"}, Key{Namespace: "a", Name: "n1"})},
		{Type: Replaced, Namespace: "b", Items: items("b", "12"), Undecoded: decodeErrors(Key{Namespace: "a", Name: "n1"}, Key{Name: "n1"})},
	} {
		if err := w.Apply(d); err != nil {
			t.Fatal(err)
		}
		if err := store.core().Check(); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for obj := range store.All() {
		got = append(got, obj.namespace+obj.name+"@"+obj.rv)
	}
	if want := []string{"an0@11", "an1@10", "bn0@12"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A resource version that is not a number cannot be compared. The store accepts it, and any version after it.
//
// Guarantees: C7
func TestResourceVersionThatIsNoNumberIsTakenAsItComes(t *testing.T) {
	store, w := NewStore[*thing]()
	for _, rv := range []string{"7", "one", "two", "3", "4"} {
		if err := w.Apply(Delta[*thing]{Type: Bookmarked, ResourceVersion: rv}); err != nil || store.ResourceVersion() != rv {
			t.Errorf("RV = %q after %q: %v", store.ResourceVersion(), rv, err)
		}
	}
}

// Only Replaced moves the resource version back.
// Guarantees: C7
func TestResourceVersionGoesBackByReplaceOnly(t *testing.T) {
	store, w := NewStore[*thing]()
	for _, step := range []struct {
		delta Delta[*thing]
		want  string
	}{
		{Delta[*thing]{Type: Replaced, ResourceVersion: "90"}, "90"},
		{Delta[*thing]{Type: Bookmarked, ResourceVersion: "100"}, "100"}, // longer means higher
		{Delta[*thing]{Type: Bookmarked, ResourceVersion: "99"}, "100"},
		{Delta[*thing]{Type: Upserted, Object: &thing{name: "a"}, ResourceVersion: ""}, "100"},
		{Delta[*thing]{Type: Upserted, Object: &thing{name: "a", rv: "98"}, ResourceVersion: "98"}, "100"},
		{Delta[*thing]{Type: Replaced, ResourceVersion: "7"}, "7"},
	} {
		w.Apply(step.delta)
		if got := store.ResourceVersion(); got != step.want {
			t.Errorf("after %v %s: RV = %s, want %s", step.delta.Type, step.delta.ResourceVersion, got, step.want)
		}
	}
}

// thingOf returns a thing in namespace "ns".
func thingOf(name, rv string) *thing {
	return &thing{namespace: "ns", name: name, uid: "u", rv: rv}
}

// holds checks that the store has exactly these names with these resource versions.
func holds(t *testing.T, store *Store[*thing], want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for obj := range store.All() {
		got[obj.name] = obj.rv
	}
	if !maps.Equal(got, want) || store.Len() != len(want) {
		t.Errorf("All yields %v, want %v", got, want)
	}
	for name, rv := range want {
		if obj, ok := store.Get(Key{Namespace: "ns", Name: name}); !ok || obj.name != name || obj.rv != rv {
			t.Errorf("Get of %s: %v", name, obj)
		}
	}
}

// A list fills a store that was emptied just as it fills a new one.
func TestStoreIsFilledAgainAfterItsLastObjectWent(t *testing.T) {
	store, writer := NewStore[*thing]()
	put := func(name string) {
		writer.Apply(Delta[*thing]{Type: Upserted, Object: thingOf(name, "1")})
	}
	for _, name := range []string{"a", "b", "c"} {
		put(name)
	}
	for _, name := range []string{"a", "b", "c"} {
		writer.Apply(Delta[*thing]{Type: Removed, Object: thingOf(name, "2")})
	}
	holds(t, store, nil)
	writer.Apply(Delta[*thing]{Type: Replaced, Items: []*thing{thingOf("x", "3"), thingOf("y", "3")}})
	for _, name := range []string{"p", "q", "r"} {
		put(name)
	}
	holds(t, store, map[string]string{"x": "3", "y": "3", "p": "1", "q": "1", "r": "1"})
}

// If several of many items have one key, the last counts, in any order. Apply does not change the caller's slice.
// Guarantees: C6
func TestReplacedTakesTheLastOfManyItemsAndKeepsTheirOrder(t *testing.T) {
	for _, filled := range []bool{false, true} {
		store, writer := NewStore[*thing]()
		if filled {
			writer.Apply(Delta[*thing]{Type: Upserted, Object: thingOf("other", "1")})
		}
		var items []*thing
		want := map[string]string{}
		for rv := range 5 {
			for i := range 100 {
				name := fmt.Sprint("p", i*37%100) // unsorted
				items = append(items, thingOf(name, fmt.Sprint(rv+1)))
				want[name] = fmt.Sprint(rv + 1)
			}
		}
		before := slices.Clone(items)
		writer.Apply(Delta[*thing]{Type: Replaced, Items: items})
		holds(t, store, want)
		if !slices.Equal(items, before) {
			t.Error("Apply changed the caller's slice")
		}
	}
}

// Objects, resource version and what could not be decoded change in one step, and follow each kind of delta.
// Guarantees: R17, C6
func TestStoreFollowsWhatCannotBeDecoded(t *testing.T) {
	store, writer := NewStore[*thing]()
	item := func(namespace, name, rv string) *thing {
		return &thing{namespace: namespace, name: name, uid: "1", rv: rv}
	}
	key := func(text string) Key {
		namespace, name, _ := strings.Cut(text, "/")
		return Key{Namespace: namespace, Name: name}
	}
	for _, step := range []struct {
		delta Delta[*thing]
		want  string // objects, then undecodable ones, then the number of missing ones
	}{
		{Delta[*thing]{Type: Replaced, ResourceVersion: "1", Items: []*thing{item("a", "x", "1")}, Undecoded: decodeErrors(key("a/y"))}, "[a/x] [a/y] 1"},
		{Delta[*thing]{Type: Bookmarked, ResourceVersion: "2", Undecoded: decodeErrors(key("a/x"))}, "[a/x] [a/x a/y] 1"},
		{Delta[*thing]{Type: Bookmarked, ResourceVersion: "3"}, "[a/x] [a/x a/y] 1"},
		{Delta[*thing]{Type: Bookmarked, Undecoded: decodeErrors(key("b/z"))}, "[a/x] [a/x a/y b/z] 2"}, // without a version
		{Delta[*thing]{Type: Upserted, ResourceVersion: "4", Object: item("a", "y", "4")}, "[a/x a/y] [a/x b/z] 1"},
		{Delta[*thing]{Type: Removed, ResourceVersion: "5", Object: item("a", "x", "5")}, "[a/y] [b/z] 1"},
		{Delta[*thing]{Type: Removed, Key: key("b/z")}, "[a/y] [] 0"},
		{Delta[*thing]{Type: Replaced, ResourceVersion: "7", Undecoded: decodeErrors(key("a/y"), key("b/z"))}, "[a/y] [a/y b/z] 1"},
		{Delta[*thing]{Type: Bookmarked, ResourceVersion: "8", Undecoded: decodeErrors(Key{})}, "[a/y] [a/y b/z] 2"},
		{Delta[*thing]{Type: Replaced, ResourceVersion: "9"}, "[] [] 0"},
	} {
		before := store.Snapshot()
		text := fmt.Sprint(view(before))
		if err := writer.Apply(step.delta); err != nil {
			t.Fatal(err)
		}
		if got := view(store.Snapshot()); got != step.want {
			t.Errorf("after %v %s: %s, want %s", step.delta.Type, step.delta.ResourceVersion, got, step.want)
		}
		if again := view(before); again != text {
			t.Errorf("the snapshot before has changed from %s to %s", text, again)
		}
	}
	if err := writer.Apply(Delta[*thing]{Type: Bookmarked, Undecoded: []*DecodeError{nil}}); err == nil {
		t.Error("no error for nothing")
	}
}

func view(s *Snapshot[*thing]) string {
	objects, undecodable := []string{}, []string{}
	for obj := range s.All() {
		objects = append(objects, KeyOf(obj).String())
	}
	for failed := range s.AllUndecodable() {
		if s.Undecodable(failed.Key) == nil {
			undecodable = append(undecodable, "no error")
		}
		undecodable = append(undecodable, failed.Key.String())
	}
	missing := 0
	for failed := range s.core().AllUndecodable("") {
		if failed.Lacks {
			missing++
		}
	}
	return fmt.Sprint(objects, undecodable, missing)
}

// A reader that sees a list in the store also sees in the status how many of its objects could not be decoded, even if
// the reflector has not recorded that yet.
// Guarantees: R17, C6
func TestStatusHasWhatTheStoreLacks(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		client, err := NewClient(&rest.Config{Host: "http://localhost"})
		if err != nil {
			t.Fatal(err)
		}
		inf := New(client, Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}}, Config[*thing]{})
		d := Delta[*thing]{Type: Replaced, ResourceVersion: "1", Undecoded: decodeErrors(Key{Namespace: "a", Name: "x"})}
		if err := mirrorOf(followerOf(inf)).Buffer.Put(t.Context(), read(d)); err != nil {
			t.Fatal(err)
		}
		if err := mirrorOf(followerOf(inf)).Drain.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := inf.Status(); s.Reflectors[0].Stale != 1 || s.Undecodable != 1 || s.Missing != 1 {
			t.Errorf("status %+v", s)
		}
	})
}
