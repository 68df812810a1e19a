package informer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/errtext"
)

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
	_, missing := s.undecodable()
	return fmt.Sprint(objects, undecodable, missing)
}

// A reader that sees a list in the store sees in the status what could not be decoded of it, whatever the reflector has noted: it
// may be about to.
// Guarantees: R17, C6
func TestStatusHasWhatTheStoreLacks(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		client, err := NewClient(&rest.Config{Host: "http://localhost"})
		if err != nil {
			t.Fatal(err)
		}
		inf := New(client, Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}}, Config[*thing]{})
		d := Delta[*thing]{Type: Replaced, ResourceVersion: "1", Undecoded: decodeErrors(Key{Namespace: "a", Name: "x"})}
		if err := followerOf(inf).fifo.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := followerOf(inf).applyBatch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := inf.Status(); s.Reflectors[0].Stale != 1 || s.Undecodable != 1 || s.Missing != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

// A server that sends long names or values, and any number of them, takes little memory: a name that no API server accepts is only
// counted, and reasons are short and shared.
// Guarantees: R17, R22
func TestUndecodedIsBounded(t *testing.T) {
	var u *undecoded
	long := strings.Repeat("x", 1<<20)
	u = u.with(&DecodeError{Key: Key{Namespace: "ns", Name: long}, Err: errors.New("long")})
	u = u.with(&DecodeError{Key: Key{Namespace: long, Name: "a"}, Err: errors.New("long")})
	why := errors.New(long[:2*errtext.Max])
	for i := range 2000 {
		u = u.with(&DecodeError{Key: Key{Namespace: "ns", Name: fmt.Sprint(i % 1000)}, Err: why})
	}
	if u.len() != 1002 || u.unnamed() != 2 {
		t.Fatalf("%d objects, %d without a name", u.len(), u.unnamed())
	}
	reasons := map[reason]bool{}
	for failed := range u.in("") {
		short := failed.Err.(reason)
		if reasons[short] = true; len(short.Error()) > errtext.Max {
			t.Fatalf("a reason of %d bytes", len(short.Error()))
		}
	}
	if len(reasons) != 1 {
		t.Errorf("%d reasons", len(reasons))
	}
	if err := u.keys.Check(); err != nil {
		t.Error(err)
	}
	var l listing[*thing]
	for range 2 * maxNameless {
		l.fail(decodeErrors(Key{})[0])
	}
	if n := len(l.undecoded()); n != maxNameless {
		t.Errorf("a list has %d objects without a name", n)
	}
}
