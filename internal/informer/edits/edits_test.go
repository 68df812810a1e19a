package edits

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/table"
)

// object returns an object. A pointer to ObjectMeta has all methods of an Object.
func newObject(name, uid, version string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version}
}

// store is a table and its published version.
type store struct {
	table   table.Table[*metav1.ObjectMeta]
	version table.Version[*metav1.ObjectMeta]
}

func newStore(objects ...*metav1.ObjectMeta) *store {
	s := &store{version: table.Empty[*metav1.ObjectMeta]()}
	s.edit(Edit[*metav1.ObjectMeta]{}, func(e *Edit[*metav1.ObjectMeta]) {
		for _, obj := range objects {
			e.Upsert(obj)
		}
	})
	return s
}

// edit makes one edit, and returns its changes.
func (s *store) edit(e Edit[*metav1.ObjectMeta], do func(*Edit[*metav1.ObjectMeta])) []Change[*metav1.ObjectMeta] {
	next := s.version
	e.Begin(&s.table, &next)
	do(&e)
	s.version = next
	e.End()
	return e.Changes
}

// texts returns changes as texts: what they have, with UID and version of each object.
func texts(changes []Change[*metav1.ObjectMeta]) (all []string) {
	text := func(obj *metav1.ObjectMeta) string {
		if obj == nil {
			return "-"
		}
		return fmt.Sprint(obj.UID, obj.ResourceVersion)
	}
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s: %s, %s, %s; %v %v %v", c.Key.Name, text(c.Old), text(c.Last), text(c.New),
			c.Added, c.Deleted, c.Final))
	}
	return all
}

// Each method changes the table, and notes what a handler has to know: the old, the last and the new state of the
// object, and whether it was added or deleted with a final state from the server.
func TestChanges(t *testing.T) {
	type edit = *Edit[*metav1.ObjectMeta]
	key := object.Key{Name: "a"}
	for name, c := range map[string]struct {
		do   func(edit)
		want []string
		has  string // of a
	}{
		"a new object": {
			func(e edit) { e.Upsert(newObject("b", "v", "1")) },
			[]string{"b: -, -, v1; true false false"}, "u1",
		},
		"a new version": {
			func(e edit) { e.Upsert(newObject("a", "u", "2")) },
			[]string{"a: u1, -, u2; false false false"}, "u2",
		},
		"the same version": {
			func(e edit) { e.Upsert(newObject("a", "u", "1")) },
			nil, "u1",
		},
		"a successor of the same version": {
			func(e edit) { e.Upsert(newObject("a", "v", "1")) },
			[]string{"a: u1, u1, v1; true true false"}, "v1",
		},
		"no version is never the same": {
			func(e edit) { e.Upsert(newObject("a", "u", "")) },
			[]string{"a: u1, -, u; false false false"}, "u",
		},
		"another copy of the same version": {
			func(e edit) { e.Put(newObject("a", "u", "1")) },
			[]string{"a: u1, -, u1; false false false"}, "u1",
		},
		"the same copy": {func(e edit) {
			obj, _ := e.Get(key)
			e.Put(obj)
		}, nil, "u1"},
		"a removal": {
			func(e edit) { e.Remove(key, newObject("a", "u", "3"), true) },
			[]string{"a: u1, u3, -; false true true"}, "",
		},
		"a removal without a state": {
			func(e edit) { e.Remove(key, nil, false) },
			[]string{"a: u1, u1, -; false true false"}, "",
		},
		"a removal with a guess": {
			func(e edit) { e.Remove(key, newObject("a", "u", "3"), false) },
			[]string{"a: u1, u1, -; false true false"}, "",
		},
		"a removal of a missed successor": {
			func(e edit) { e.Remove(key, newObject("a", "v", "3"), true) },
			[]string{"a: u1, u1, -; false true false"}, "",
		},
		"a removal of what is not there": {
			func(e edit) { e.Remove(object.Key{Name: "b"}, newObject("b", "v", "3"), true) },
			nil, "u1",
		},
		"two steps of one edit": {
			func(e edit) { e.Remove(key, nil, false); e.Upsert(newObject("a", "u", "1")) },
			[]string{"a: u1, u1, -; false true false", "a: -, -, u1; true false false"}, "u1",
		},
		"a replacement": {
			replaceBy(newObject("b", "v", "1")),
			[]string{"a: u1, u1, -; false true false", "b: -, -, v1; true false false"}, "",
		},
		"a replacement by a new version": {
			replaceBy(newObject("a", "u", "2")),
			[]string{"a: u1, -, u2; false false false"}, "u2",
		},
		"a replacement by a successor": {
			replaceBy(newObject("a", "v", "2")),
			[]string{"a: u1, u1, v2; true true false"}, "v2",
		},
		"a replacement by the same object": {
			replaceBy(newObject("a", "u", "1")),
			nil, "u1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(newObject("a", "u", "1"))
			if got := texts(s.edit(Edit[*metav1.ObjectMeta]{}, c.do)); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("changes %q, want %q", got, c.want)
			}
			has := ""
			if _, obj, ok := s.version.Find(key); ok {
				has = string(obj.UID) + obj.ResourceVersion
			}
			if has != c.has {
				t.Errorf("the table has %q, want %q", has, c.has)
			}
			quiet := newStore(newObject("a", "u", "1"))
			if changes := quiet.edit(Edit[*metav1.ObjectMeta]{Quiet: true}, c.do); changes != nil {
				t.Errorf("a quiet edit has changes: %q", texts(changes))
			}
		})
	}
}

func replaceBy(items ...*metav1.ObjectMeta) func(*Edit[*metav1.ObjectMeta]) {
	return func(e *Edit[*metav1.ObjectMeta]) {
		e.Replace("", items, object.SameVersion, func(object.Key, *metav1.ObjectMeta) bool { return false })
	}
}

// Changes are appended to those that the edit begins with, in order.
func TestChangesAreAppended(t *testing.T) {
	s := newStore()
	before := s.edit(Edit[*metav1.ObjectMeta]{}, func(e *Edit[*metav1.ObjectMeta]) { e.Upsert(newObject("a", "u", "1")) })
	all := s.edit(Edit[*metav1.ObjectMeta]{Changes: before}, func(e *Edit[*metav1.ObjectMeta]) { e.Upsert(newObject("b", "v", "1")) })
	if len(all) != 2 || all[0].Key.Name != "a" || all[1].Key.Name != "b" {
		t.Errorf("changes %q", texts(all))
	}
}

// Objects of the same version are held once. The list itself does not change, because others may be reading it.
// Guarantees: O10
func TestHoldAll(t *testing.T) {
	held := newObject("a", "u1", "1")
	s := newStore(held, newObject("b", "u2", "1"))
	again, newer := newObject("a", "u1", "1"), newObject("b", "u2", "2")
	items := []*metav1.ObjectMeta{again, newer}
	got := HoldAll(&s.version, items)
	if got[0] != held || got[1] != newer {
		t.Errorf("holds %v, want the held object and the newer one", got)
	}
	if items[0] != again || items[1] != newer {
		t.Errorf("the list has become %v", items)
	}
}
