package undecoded

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/typedinformer/informer/internal/errtext"
	"github.com/typedinformer/informer/internal/object"
)

// A set never changes: with and without an object it is another one. The empty one is nil.
// Guarantees: R17
func TestSetNeverChanges(t *testing.T) {
	text := func(s *Set) string {
		var all []string
		for key, why := range s.In("") {
			if !s.Has(key) || s.Get(key) != why {
				t.Errorf("%s is %v, want %v", key, s.Get(key), why)
			}
			all = append(all, key.String())
		}
		if n := len(all) + s.Unnamed(); s.Len() != n {
			t.Errorf("length %d, want %d", s.Len(), n)
		}
		if unknown := s.Unknown(); (unknown != nil) != (s.Unnamed() > 0) {
			t.Errorf("%d objects without a name: %v", s.Unnamed(), unknown)
		}
		return fmt.Sprint(all, s.Unnamed())
	}
	boom := errors.New("boom")
	ax, ay, bz := object.Key{Namespace: "a", Name: "x"}, object.Key{Namespace: "a", Name: "y"}, object.Key{Namespace: "b", Name: "z"}
	var s *Set
	for i, step := range []struct {
		with, without object.Key
		want          string
	}{
		{without: ax, want: "[] 0"},
		{with: ay, want: "[a/y] 0"},
		{with: bz, want: "[a/y b/z] 0"},
		{with: ax, want: "[a/x a/y b/z] 0"},
		{with: ax, want: "[a/x a/y b/z] 0"},
		{without: object.Key{Namespace: "a", Name: "z"}, want: "[a/x a/y b/z] 0"},
		{without: ay, want: "[a/x b/z] 0"},
		{with: object.Key{}, want: "[a/x b/z] 1"},
		{without: ax, want: "[b/z] 1"},
		{without: bz, want: "[] 1"},
	} {
		before, was := s, text(s)
		if step.without.Name != "" {
			s = s.Without(step.without)
		} else {
			s = s.With(step.with, object.ID{}, boom)
		}
		if got := text(s); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		if again := text(before); again != was {
			t.Errorf("step %d: the set before has changed from %s to %s", i, was, again)
		}
	}
	if why := s.Why(); why.Error() != "boom" || errors.Is(why, boom) || !errors.Is(s.Unknown(), why) {
		t.Errorf("why %v, unknown %v", why, s.Unknown())
	}
	if s := (*Set)(nil).With(ax, object.ID{}, boom).Without(ax); s != nil {
		t.Errorf("the set without its last object is %v", s)
	}
	s = s.With(ax, object.ID{}, boom).With(ay, object.ID{}, boom).With(bz, object.ID{}, boom)
	for namespace, want := range map[string]int{"": 3, "a": 2, "b": 1, "c": 0} {
		n := 0
		for range s.In(namespace) {
			n++
		}
		if n != want {
			t.Errorf("%d objects in namespace %q, want %d", n, namespace, want)
		}
	}
	for key := range s.In("") {
		if key != ax {
			t.Errorf("%s after the reader has ended", key)
		}
		break
	}
}

// A server that sends long names or values, and any number of them, takes little memory: a name that no API server accepts is only
// counted, and reasons are short and shared.
// Guarantees: R17, R22
func TestSetIsBounded(t *testing.T) {
	var s *Set
	long := strings.Repeat("x", 1<<20)
	s = s.With(object.Key{Namespace: "ns", Name: long}, object.ID{}, errors.New("long"))
	s = s.With(object.Key{Namespace: long, Name: "a"}, object.ID{}, errors.New("long"))
	why := errors.New(long[:2*errtext.Max])
	for i := range 2000 {
		s = s.With(object.Key{Namespace: "ns", Name: fmt.Sprint(i % 1000)}, object.ID{}, why)
	}
	if s.Len() != 1002 || s.Unnamed() != 2 {
		t.Fatalf("%d objects, %d without a name", s.Len(), s.Unnamed())
	}
	reasons := map[reason]bool{}
	for _, why := range s.In("") {
		short := why.(reason)
		if reasons[short] = true; len(short.Error()) > errtext.Max {
			t.Fatalf("a reason of %d bytes", len(short.Error()))
		}
	}
	if len(reasons) != 1 {
		t.Errorf("%d reasons", len(reasons))
	}
	if err := s.keys.Check(); err != nil {
		t.Error(err)
	}
}

// A set knows the identity and version of each object. It drops parts that are too long, and keeps no memory of others.
// Guarantees: R23
func TestSetKnowsVersions(t *testing.T) {
	key, boom := object.Key{Namespace: "ns", Name: "a"}, errors.New("boom")
	s := (*Set)(nil).With(key, object.ID{UID: "u", Version: "1"}, boom).With(key, object.ID{UID: "u", Version: "2"}, boom)
	if id, ok := s.ID(key); !ok || id != (object.ID{UID: "u", Version: "2"}) {
		t.Errorf("%v, %v", id, ok)
	}
	if _, ok := s.ID(object.Key{Namespace: "ns", Name: "b"}); ok {
		t.Error("has another object")
	}
	if _, ok := (*Set)(nil).ID(key); ok {
		t.Error("the empty set has an object")
	}
	long := strings.Repeat("x", maxName+1)
	if id, ok := s.With(key, object.ID{UID: long, Version: long}, boom).ID(key); !ok || id != (object.ID{}) {
		t.Errorf("%v, %v", id, ok)
	}
}
