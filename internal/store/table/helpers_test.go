package table

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

// thing is an object.
type thing struct {
	namespace, name string
	version         int
	tags            []string
}

func (t *thing) GetNamespace() string       { return t.namespace }
func (t *thing) GetName() string            { return t.name }
func (t *thing) GetUID() types.UID          { return "" }
func (t *thing) GetResourceVersion() string { return strconv.Itoa(t.version) }

func tagsOf(t *thing) []string { return t.tags }

// owner owns a table: it makes versions of it and publishes them.
type owner struct {
	table     Table[*thing]
	published Version[*thing]
}

func newOwner() *owner { return &owner{published: Empty[*thing]()} }

// edit makes and publishes the next version, unless do panics or ends its goroutine.
func (o *owner) edit(do func(*Edit[*thing])) {
	next := o.published
	e := o.table.Begin(&next)
	do(&e)
	o.published = next
	e.End()
}

// put adds or updates things, in one edit.
func (o *owner) put(things ...*thing) {
	o.edit(func(e *Edit[*thing]) {
		for _, t := range things {
			put(e, t)
		}
	})
}

func put(e *Edit[*thing], t *thing) {
	if slot, _, ok := e.next.Find(object.KeyOf(t)); ok {
		e.Update(slot, t)
	} else {
		e.Add(object.KeyOf(t), t)
	}
}

// remove removes the thing with that key, in one edit.
func (o *owner) remove(key object.Key) {
	o.edit(func(e *Edit[*thing]) {
		slot, _, _ := e.next.Find(key)
		e.Remove(slot)
	})
}

// replace replaces all things by items, in one edit.
func (o *owner) replace(items ...*thing) {
	o.edit(func(e *Edit[*thing]) { e.Replace("", items, keepSame) })
}

// keepSame keeps things of the same version, and nothing else.
var keepSame = Policy[*thing]{
	Same:    func(old, new *thing) bool { return old.version == new.version },
	Keep:    func(object.Key, *thing) bool { return false },
	Changed: func(object.Key, *thing, *thing) {},
}

// check fails the test if an invariant of the published version is broken.
func (o *owner) check(t *testing.T) {
	t.Helper()
	if err := o.table.Check(&o.published); err != nil {
		t.Fatal(err)
	}
}

// addIndex adds an index to the version that e makes.
func addIndex[K comparable](e *Edit[*thing], keys func(*thing) []K) *Index[*thing, K] {
	x := NewIndex(keys)
	e.AddIndex(x)
	return x
}

// lookup returns the things of v that have key, and whether v has the index.
func lookup[K comparable](x *Index[*thing, K], v *Version[*thing], key K) (things []*thing, has bool) {
	has = x.Lookup(v, key, func(t *thing) bool { things = append(things, t); return true })
	return things, has
}

// walk returns the things of v in r.
func walk(v *Version[*thing], r Range) (things []*thing) {
	v.Walk(r, func(t *thing) bool { things = append(things, t); return true })
	return things
}

// world is what a table should have.
type world map[object.Key]*thing

// sorted returns the things for which keep returns true, ordered by key.
func (w world) sorted(keep func(*thing) bool) []*thing {
	things := slices.SortedFunc(maps.Values(w), func(a, b *thing) int { return CompareKeys(object.KeyOf(a), object.KeyOf(b)) })
	return slices.DeleteFunc(things, func(t *thing) bool { return !keep(t) })
}

// keys returns the tags that things of w have.
func (w world) keys() []string {
	tags := map[string]bool{}
	for _, t := range w {
		for _, tag := range t.tags {
			tags[tag] = true
		}
	}
	return slices.SortedFunc(maps.Keys(tags), cmp.Compare)
}
