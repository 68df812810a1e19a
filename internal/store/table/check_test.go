package table

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/cow"
)

// Check reports each kind of broken invariant.
func TestCheckReportsEachBrokenInvariant(t *testing.T) {
	type state struct {
		*Table[*thing]
		v       *Version[*thing]
		index   *keyTree[*thing, string]
		ordered *sortedTree[*thing, string]
	}
	stored := func(s state, name string) *item[struct{}] { // points into the tree
		p := s.v.place(object.Key{Name: name})
		return s.v.records.Get(&p)
	}
	indexed := func(s state, key string) *item[string] {
		return s.index.tree.Get(&cow.Place[string]{Hash: s.index.index.hash(key), Name: "n00"})
	}
	for want, spoil := range map[string]func(s state){
		"": func(state) {},
		"records: item": func(s state) {
			s.v.records.All(func(items []item[struct{}]) bool { slices.Reverse(items[1:]); return false })
		},
		"objects: volume 0 of shelf 0: page 0 of chapter 0": func(s state) { // writes with generations in the wrong order
			s.v.objects.Set(s.gen+1, 0, s.v.objects.Get(0))
			s.v.objects.Set(s.gen, 16, s.v.objects.Get(16))
		},
		"which holds another":        func(s state) { s.v.objects.Set(s.gen, 3, s.v.objects.Get(4)) },
		"is filed with slot":         func(s state) { stored(s, "n03").Slot++ },
		"is filed with another hash": func(s state) { stored(s, "n03").Hash++ },
		"never allocated":            func(s state) { s.next = 60 },
		"records by slot, but":       func(s state) { s.records = s.records[1:] },
		"but records by slot has":    func(s state) { s.records[3] = s.records[4] },
		"are in use or free":         func(s state) { s.free = nil },
		"is in use, or free twice":   func(s state) { s.free[0] = 7 },
		"holds an object":            func(s state) { s.v.objects.Set(s.gen, s.free[0], &thing{name: "ghost"}) },
		"so has /n02": func(s state) {
			it := stored(s, "n03")
			it.Slot = stored(s, "n02").Slot
			it.Record.Data.slot = it.Slot
		},
		"hints: 62 names": func(s state) {
			s.v.hints.Put(0, 100)
			s.v.hints.Drop(0, 100)
			s.v.hints.Drop(0, 100)
		},
		"hints: an entry has slot 100": func(s state) {
			for bucket := range uint32(8) { // one of them is full by chance, but never all
				s.v.hints.Drop(0, 200)
				s.v.hints.Put(bucket, 100)
			}
		},
		"index 0: 3 items": func(s state) {
			s.index.tree.Set(0, newItem("ghost", s.index.index.hash("ghost"), &record{Name: "ghost"}))
		},
		"index 0: record /n00 is not filed": func(s state) { s.v.record(object.Key{Name: "n00"}).Data.hashes[1]++ },
		"leads to an outdated record": func(s state) {
			again := *indexed(s, "a").Record
			indexed(s, "a").Record = &again
		},
		"index 0: key other of /n00 is filed with another hash": func(s state) { indexed(s, "a").Key = "other" },
		"index 1: record /n00 is not filed under its key b": func(s state) {
			s.ordered.tree.Delete(s.gen, &cow.Place[string]{Key: "b", Name: "n00"})
		},
		"index 1: record /n00 is filed under key a, which should be A": func(s state) { s.ordered.keysIn(0)[0] = "A" },
		"index 1: key a of /n00 leads to an outdated record": func(s state) {
			again := *s.v.record(object.Key{Name: "n00"})
			s.ordered.tree.Set(s.gen, newItem("a", 0, &again))
		},
		"index 1: 3 items and 2 filed keys, but the records have 2": func(s state) {
			s.ordered.tree.Set(s.gen, newItem("ghost", 0, &record{Name: "ghost"}))
		},
		"index 1: 2 items and 3 filed keys, but the records have 2": func(s state) { s.ordered.note(60, []string{"ghost"}) },
		"index 1: item": func(s state) {
			s.ordered.tree.All(func(items []item[string]) bool { slices.Reverse(items[1:]); items[0].Key = "z"; return false })
		},
		"has hashes of more than 2": func(s state) {
			r := s.v.record(object.Key{Name: "n05"})
			r.Data.hashes = append(r.Data.hashes, 0)
		},
		"has no hashes of this index": func(s state) { s.v.record(object.Key{Name: "n05"}).Data.hashes = nil },
	} {
		t.Run(want, func(t *testing.T) {
			o := newOwner()
			o.edit(func(e *Edit[*thing]) {
				addIndex(e, tagsOf)
				e.AddIndex(NewOrdered(tagsOf, byLetter))
			})
			var things []*thing
			for i := range 64 {
				things = append(things, &thing{name: fmt.Sprintf("n%02d", i)})
			}
			things[0].tags = []string{"a", "b"}
			o.replace(things...)
			o.remove(object.Key{Name: "n60"})
			indexes := o.published.indexes
			spoil(state{&o.table, &o.published, indexes[0].(*keyTree[*thing, string]), indexes[1].(*sortedTree[*thing, string])})
			switch err := o.table.Check(&o.published); {
			case err == nil && want != "":
				t.Error("Check returned nil")
			case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
				t.Errorf("err = %v", err)
			}
		})
	}
}

// Assert panics with the error of the table and that of its caller. It checks a large table only now and then.
func TestAssertPanics(t *testing.T) {
	o := newOwner()
	assert := func(v *Version[*thing], err error) (text string, checks int) {
		defer func() {
			if why := recover(); why != nil {
				text = fmt.Sprint(why)
			}
		}()
		o.table.Assert(v, func() error { checks++; return err })
		return "", checks
	}
	old := o.published
	o.put(&thing{name: "a"})
	if text, checks := assert(&o.published, nil); text != "" || checks != 1 {
		t.Errorf("%q after %d checks", text, checks)
	}
	if text, _ := assert(&o.published, errors.New("boom")); text != "informer: store of 1 *table.thing after 1 edits: boom" {
		t.Errorf("%q", text)
	}
	if text, _ := assert(&old, nil); !strings.Contains(text, "store of 0 *table.thing") {
		t.Errorf("an older version, whose slots and hints the table no longer has: %q", text)
	}
	for i := range 3 * checkedAtOnce {
		o.put(&thing{name: fmt.Sprint(i)})
	}
	sum := 0
	for range 40 {
		o.put(&thing{name: "b"})
		_, checks := assert(&o.published, nil)
		sum += checks
	}
	if sum != 10 {
		t.Errorf("%d checks of a table of %d in 40 edits", sum, o.published.Len())
	}
}
