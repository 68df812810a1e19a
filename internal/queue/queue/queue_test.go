package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// clock is a time that a test sets.
type clock struct{ now time.Duration }

func newLine() (*Line[int], *clock) {
	c := &clock{}
	return New[int](func() time.Duration { return c.now }), c
}

// check checks that the data of a line about its keys is consistent.
func check[K comparable](t *testing.T, l *Line[K]) {
	t.Helper()
	count := func(name string, c chain[K], is func(e *entry[K]) bool) {
		n := 0
		var last *entry[K]
		for e := c.first; e != nil; e = c.next(e) {
			if e.links[c.by].prev != last || !is(e) || l.keys.entries[e.key] != e {
				t.Fatalf("%v is out of place in %s", e.key, name)
			}
			last = e
			n++
		}
		if c.last != last || c.n != n {
			t.Fatalf("%s has %d entries, %d counted", name, n, c.n)
		}
	}
	free := func(e *entry[K]) bool { return e.place == ready && e.works == nil }
	waiting := 0
	for level, c := range l.ranks.levels {
		count("a level", c, func(e *entry[K]) bool { return free(e) && int(e.level) == level })
		waiting += c.n
	}
	if l.ranks.age.n != waiting {
		t.Fatalf("%d by priority, %d by age", waiting, l.ranks.age.n)
	}
	count("age", l.ranks.age, free)
	count("work", l.working, func(e *entry[K]) bool { return e.works != nil && e.place != awaited })
	count("awaited", l.owner.awaited, func(e *entry[K]) bool { return e.place == awaited && e.works == nil })
	count("idle", l.keys.idle, func(e *entry[K]) bool { return e.place == nowhere && e.works == nil })
	for i, e := range l.delayed {
		if e.index != i || e.place != delayed || l.keys.entries[e.key] != e || i > 0 && l.delayed.before(e, l.delayed[(i-1)/4]) {
			t.Fatalf("%v is out of place in the heap", e.key)
		}
	}
	var depth [Levels]int
	left := map[*generation]int{}
	places := map[place]int{}
	for key, e := range l.keys.entries {
		if e.key != key {
			t.Fatalf("%v has the entry of %v", key, e.key)
		}
		if (e.place == ready) != (e.waits != nil) {
			t.Fatalf("%v is in place %d, and waits in generation %p", key, e.place, e.waits)
		}
		if e.waits != nil {
			depth[e.level]++
			left[e.waits]++
		}
		if e.works != nil {
			left[e.works]++
		}
		if e.works == nil || e.place == delayed {
			places[e.place]++
		}
	}
	if depth != l.depth {
		t.Fatalf("%v keys are ready, %v counted", depth, l.depth)
	}
	if places[nowhere] != l.keys.idle.n || places[delayed] != len(l.delayed) || places[awaited] != l.owner.awaited.n || places[ready] != waiting {
		t.Fatalf("places %v, of %d idle, %d delayed, %d awaited, %d ready", places, l.keys.idle.n, len(l.delayed), l.owner.awaited.n, waiting)
	}
	if l.state == status.QueueClosed {
		return // keys that were dropped never leave their generation
	}
	for g := l.turns.oldest; g != nil; g = g.next {
		if g.left != left[g] {
			t.Fatalf("a generation has %d keys left, %d counted", left[g], g.left)
		}
		delete(left, g)
	}
	if len(left) > 0 {
		t.Fatalf("keys belong to %d generations that have ended", len(left))
	}
}

// After any operations, every key is in its place, once; and a key in work is handed to nobody else.
// Guarantees: Q1
func TestEachKeyIsInOnePlace(t *testing.T) {
	for range 30 {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runRandomly(t, rand.New(rand.NewPCG(seed, 0))) }) {
			return
		}
	}
}

func runRandomly(t *testing.T, random *rand.Rand) {
	l, clock := newLine()
	owned, held := map[int]Ownership{}, map[int]bool{}
	keys := 1 + random.IntN(50)
	var work []int
	pick := func() (key int) {
		if len(work) == 0 {
			return random.IntN(keys)
		}
		i := random.IntN(len(work))
		key = work[i]
		work = slices.Delete(work, i, i+1)
		return key
	}
	var releases []*Release[int]
	var marks []<-chan struct{}
	for range 1500 {
		key := random.IntN(keys)
		switch op := random.IntN(100); {
		case op < 35:
			l.Add(key, Want{Level: uint8(random.IntN(Levels)), After: time.Duration(random.IntN(6) - 3), Retry: op < 10, Inherit: op < 5})
		case op < 65:
			turn, ok, _ := l.Next()
			if ok && slices.Contains(work, turn.Key) {
				t.Fatalf("%d was handed out twice", turn.Key)
			}
			if ok {
				if l.owner.of != nil && owned[turn.Key] != Owned {
					t.Fatalf("%d was handed out, but its ownership is %d", turn.Key, owned[turn.Key])
				}
				if held[turn.Key] {
					t.Fatalf("%d was handed out, but is held", turn.Key)
				}
				work = append(work, turn.Key)
			}
		case op < 80:
			l.Done(pick())
		case op < 84:
			l.PutBack(pick())
		case op < 86:
			l.Cancel(key)
		case op < 87:
			l.Hold(key)
			held[key] = true
		case op < 88:
			l.LetGo(key)
			delete(held, key)
		case op < 92:
			owned[key] = Ownership(random.IntN(3))
			if random.IntN(3) == 0 {
				l.Own(nil)
			} else {
				l.Own(func(key int) Ownership { return owned[key] })
			}
		case op < 94:
			if r := l.Released(func(k int) bool { return k%3 == key%3 }); r != nil {
				releases = append(releases, r)
			}
		case op < 95:
			marks = append(marks, l.Mark())
		default:
			clock.now += time.Duration(random.IntN(3))
			for l.Fall() {
			}
		}
		check(t, l)
		for e := l.owner.awaited.first; e != nil; e = l.owner.awaited.next(e) {
			if l.Owns(e.key) {
				t.Fatalf("%d waits, but may be handed out", e.key)
			}
		}
	}
	l.Own(nil)
	l.Drain()
	check(t, l)
	for {
		turn, ok, _ := l.Next()
		if ok {
			work = append(work, turn.Key)
		}
		if len(work) == 0 {
			break
		}
		l.Done(pick())
		check(t, l)
	}
	if !run.IsClosed(l.Drained) || l.Status().State != status.QueueClosed {
		t.Errorf("a drained line is in state %v", l.Status().State)
	}
	for _, r := range releases {
		if !run.IsClosed(r.Done()) {
			t.Error("no key is in work, but a release waits")
		}
	}
	for _, mark := range marks {
		if !run.IsClosed(mark) {
			t.Error("every key is done, but a mark waits")
		}
	}
}

// A key that is held is not handed out, whatever it was added with, and others are. It is ready when it is let go. A Drain lets it go.
// Guarantees: Q12
func TestHeldKeyWaits(t *testing.T) {
	for name, end := range map[string]func(l *Line[int]){
		"let go": func(l *Line[int]) { l.LetGo(1) },
		"drain":  func(l *Line[int]) { l.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			l, clock := newLine()
			l.Add(1, Want{})
			l.Next()
			l.Hold(1)
			l.Add(1, Want{After: time.Second, Retry: true})
			l.Done(1)
			l.Add(2, Want{})
			clock.now = time.Second
			l.Fall()
			if turn, ok, foreign := l.Next(); !ok || turn.Key != 2 || foreign != nil {
				t.Errorf("Next returned %v, %v, %v", turn, ok, foreign)
			}
			if _, ok, _ := l.Next(); ok || l.Status().Awaited != 1 {
				t.Errorf("Next returned a key: %v. Awaited: %d", ok, l.Status().Awaited)
			}
			end(l)
			check(t, l)
			if turn, ok, _ := l.Next(); !ok || turn.Key != 1 {
				t.Errorf("after the end, Next returned %v, %v", turn, ok)
			}
		})
	}
}

// Close drops keys in each place. Keys in work are done later, and do not run again.
// Guarantees: Q7
func TestCloseDropsKeysInEachPlace(t *testing.T) {
	l, _ := newLine()
	l.Own(func(key int) Ownership {
		if key == 9 {
			return Awaited
		}
		return Owned
	})
	l.Add(1, Want{})
	l.Add(9, Want{})
	turn, _, _ := l.Next()
	l.Add(1, Want{After: time.Hour})
	l.Add(2, Want{})
	l.Add(3, Want{After: time.Hour})
	l.Next() // 9 is parked, 2 is in work
	l.Add(2, Want{})
	l.Add(4, Want{})
	l.Close()
	check(t, l)
	if got := l.Keys(); len(got) != 2 || l.Waiting() != 0 {
		t.Errorf("keys %v, %d wait", got, l.Waiting())
	}
	l.Done(turn.Key)
	l.PutBack(2)
	check(t, l)
	if l.InWork() != 0 || len(l.Keys()) != 0 {
		t.Errorf("%d keys in work, keys %v", l.InWork(), l.Keys())
	}
}

// If a million keys are due at once, other callers get the lock in between: one Fall takes a few keys.
func TestFallMakesFewKeysReadyAtOnce(t *testing.T) {
	l, clock := newLine()
	const keys = 10*fallAtOnce + 1
	for i := range keys {
		l.Add(i, Want{After: time.Second})
	}
	clock.now = time.Second
	for i := 1; i <= 10; i++ {
		if more := l.Fall(); l.Waiting() != i*fallAtOnce || !more {
			t.Fatalf("%d keys ready in round %d, more is %v", l.Waiting(), i, more)
		}
		check(t, l)
	}
	if more := l.Fall(); l.Waiting() != keys || more {
		t.Errorf("%d keys ready, more is %v", l.Waiting(), more)
	}
}

// A line that had many keys keeps little memory when it is empty.
func TestLineGivesMemoryBack(t *testing.T) {
	l, _ := newLine()
	const keys = 5 * idleEntries
	for i := range keys {
		l.Add(i, Want{})
	}
	for i := range keys {
		if i == keys/2 {
			check(t, l)
			if n := len(l.keys.entries); n > keys/2+idleEntries || l.keys.idle.n > idleEntries {
				t.Errorf("%d entries, %d idle", n, l.keys.idle.n)
			}
		}
		turn, ok, _ := l.Next()
		if !ok {
			t.Fatal("no key is ready")
		}
		l.Done(turn.Key)
	}
	if len(l.keys.entries) != 0 || l.keys.most != 0 || l.keys.idle.n != 0 {
		t.Errorf("%d entries, %d idle, in a map for %d", len(l.keys.entries), l.keys.idle.n, l.keys.most)
	}
	for i := range keys {
		l.Add(i, Want{After: time.Second})
	}
	for i := range keys {
		l.Cancel(i)
	}
	if cap(l.delayed) > idleEntries || len(l.keys.entries) != 0 {
		t.Errorf("a heap for %d, %d entries", cap(l.delayed), len(l.keys.entries))
	}
	check(t, l)
}

// Keys that become foreign leave no entries behind, and a wait for the release of keys that ends early leaves nothing.
// Guarantees: S3
func TestForeignKeysLeaveNothingBehind(t *testing.T) {
	l, _ := newLine()
	owned := Awaited
	of := func(int) Ownership { return owned }
	l.Own(of)
	const keys = 4 * idleEntries
	for i := range keys {
		l.Add(i, Want{})
	}
	if turn, ok, _ := l.Next(); ok {
		t.Errorf("%d was handed out", turn.Key)
	}
	if s := l.Status(); s.Awaited != keys {
		t.Errorf("%d keys are awaited", s.Awaited)
	}
	owned = Foreign
	if foreign := l.Own(of); len(foreign) != keys {
		t.Errorf("%d keys were dropped", len(foreign))
	}
	check(t, l)
	if s := l.Status(); s.Awaited != 0 || s.Foreign != keys || len(l.keys.entries) > idleEntries {
		t.Errorf("%d keys are awaited, %d were dropped, %d have entries", s.Awaited, s.Foreign, len(l.keys.entries))
	}
	owned = Owned
	l.Add(1, Want{})
	l.Next()
	r := l.Released(func(int) bool { return true })
	if left := l.Abandon(r); left != 1 || len(l.owner.releases) != 0 {
		t.Errorf("%d keys are left, and %d waits", left, len(l.owner.releases))
	}
	l.Done(1)
	if run.IsClosed(r.Done()) {
		t.Error("a wait that was abandoned ends")
	}
}
