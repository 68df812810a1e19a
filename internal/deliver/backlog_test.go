package deliver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// Folded changes, delivered at random moments, form a chain per key from which the handler rebuilds the world.
// Guarantees: H1, H2
func TestFoldedChangesChain(t *testing.T) {
	t.Parallel()
	const names = 240
	for seed := range uint64(testkit.Rounds(40, 200)) {
		r, w, f := rand.New(rand.NewPCG(seed, 2)), &world{things: map[string]*thing{}}, follow(t)
		l := NewListener(newHub(t, w), Handler[*thing](f), nil, Config{})
		l.wake = make(chan struct{}, 1) // deliver by hand
		var p pending[*thing]
		deliver := func() bool {
			if !l.next(&p) {
				return false
			}
			l.deliver(&p)
			return true
		}
		version := 0
		for range 200 {
			var changes []Change[*thing]
			for range 1 + r.IntN(60) {
				version++
				changes = append(changes, w.random(r, names, version))
			}
			if err := l.enqueue(changes, version < 100, 0); err != nil {
				t.Fatal(err)
			}
			if entries := l.backlog.len(); entries > names {
				t.Fatalf("seed %d: %d entries for %d keys", seed, entries, names)
			}
			if len(l.backlog.queue) > 1024 {
				t.Fatalf("seed %d: a queue of %d for %d keys", seed, len(l.backlog.queue), l.backlog.len())
			}
			for range r.IntN(60) {
				deliver()
			}
			if r.IntN(50) == 0 {
				for deliver() {
				}
				if !maps.Equal(f.has, w.things) {
					t.Fatalf("seed %d: the handler has %d things of %d", seed, len(f.has), len(w.things))
				}
			}
		}
		if l.backlog.initial != 0 && l.backlog.len() == 0 {
			t.Fatalf("seed %d: %d initial additions in an empty backlog", seed, l.backlog.initial)
		}
	}
}

// Keys that are added and deleted unread leave no entry, however many.
// Guarantees: H3, H4
func TestBacklogIsBounded(t *testing.T) {
	var b backlog[*thing]
	b.add(&Change[*thing]{Key: object.Key{Name: "0"}, New: &thing{"0", 1, 1}, Added: true}, true, 0, 0)
	for i := range 20_000 {
		obj := &thing{"key" + strconv.Itoa(i), 1, 1}
		b.add(&Change[*thing]{Key: object.KeyOf(obj), New: obj, Added: true}, false, 0, 1)
		b.add(&Change[*thing]{Key: object.KeyOf(obj), Old: obj, Last: obj, Deleted: true, Final: true}, false, 0, 0)
	}
	if n := cap(b.queue); n > 2048 || b.len() != 1 {
		t.Errorf("%d entries in a queue of %d", b.len(), n)
	}
}

// A backlog finds the entry of a key among few, which it compares, and among many, for which it has a map.
// Guarantees: H2, H3
func TestBacklogOfFewAndOfManyKeys(t *testing.T) {
	for keys := 1; keys <= 3*fewEntries; keys++ {
		for _, every := range []bool{false, true} {
			var b backlog[*thing]
			if every {
				b.limit = 1
			}
			var last [3*fewEntries + 1]*thing
			add := func(rv, i int) {
				obj := &thing{fmt.Sprint(i), 1, rv}
				b.add(&Change[*thing]{Key: object.KeyOf(obj), Old: last[i], New: obj}, false, 0, 0)
				last[i] = obj
			}
			for round := range 3 { // with room from the round before
				var first [3*fewEntries + 1]*thing
				copy(first[:], last[:])
				for i := range keys {
					add(3*round+1, i)
				}
				for i := range keys {
					add(3*round+2, i)
				}
				waiting := keys
				if every {
					waiting = 2 * keys
				}
				if b.len() != waiting || b.keys() != keys || b.full() != (every && keys > 1) {
					t.Fatalf("%d keys, every=%t, round %d: %d entries of %d keys, full: %t", keys, every, round, b.len(), b.keys(), b.full())
				}
				var p pending[*thing]
				for i := range waiting {
					key := i % keys
					if !b.take(&p) || p.Key.Name != fmt.Sprint(key) || p.Old != first[key] {
						t.Fatalf("%d keys, every=%t, round %d: entry %d is of %s, from %v", keys, every, round, i, p.Key, p.Old)
					}
					first[key] = p.New
				}
				if b.take(&p) || b.len() != 0 || b.keys() != 0 || first != last {
					t.Fatalf("%d keys, every=%t, round %d: %d entries are left, delivered %v of %v", keys, every, round, b.len(), first, last)
				}
			}
			// Objects that come and go unseen leave nothing.
			for i := range keys {
				added := &thing{fmt.Sprint(i), 1, 1}
				b.add(&Change[*thing]{Key: object.KeyOf(added), New: added, Added: true}, true, 0, keys-i)
				b.add(&Change[*thing]{Key: object.KeyOf(added), Old: added, Last: added, Deleted: true}, true, 0, 0)
			}
			if entries := b.len(); !every && (entries != 0 || b.keys() != 0) || every && entries != 2*keys {
				t.Fatalf("%d keys, every=%t: %d entries of objects that are gone", keys, every, entries)
			}
			for p := (pending[*thing]{}); b.take(&p); {
				if !every {
					t.Fatalf("delivers %v", p)
				}
			}
			if want := 0; !every && b.initial != want {
				t.Fatalf("%d initial additions are left", b.initial)
			}
		}
	}
}
