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

func newQueue() (*Queue[int], *clock) {
	c := &clock{}
	return New[int](func() time.Duration { return c.now }), c
}

// check checks that the data of a queue about its keys is consistent.
func check[K comparable](t *testing.T, q *Queue[K]) {
	t.Helper()
	count := func(name string, c chain[K], belongs func(e *entry[K]) bool) {
		n := 0
		var last *entry[K]
		for e := c.first; e != nil; e = c.next(e) {
			if e.links[c.link].prev != last || !belongs(e) || q.keys.entries[e.key] != e {
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
	for level, c := range q.ranks.levels {
		count("a level", c, func(e *entry[K]) bool { return free(e) && int(e.level) == level })
		waiting += c.n
	}
	if q.ranks.age.n != waiting {
		t.Fatalf("%d by priority, %d by age", waiting, q.ranks.age.n)
	}
	count("age", q.ranks.age, free)
	count("work", q.working, func(e *entry[K]) bool { return e.works != nil && e.place != awaited })
	count("awaited", q.owner.awaited, func(e *entry[K]) bool { return e.place == awaited && e.works == nil })
	count("idle", q.keys.idle, func(e *entry[K]) bool { return e.place == nowhere && e.works == nil })
	for i, e := range q.delayed {
		if e.index != i || e.place != delayed || q.keys.entries[e.key] != e || i > 0 && q.delayed.before(e, q.delayed[(i-1)/4]) {
			t.Fatalf("%v is out of place in the heap", e.key)
		}
	}
	var depth [Levels]int
	left := map[*generation]int{}
	places := map[place]int{}
	for key, e := range q.keys.entries {
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
	if depth != q.depth {
		t.Fatalf("%v keys are ready, %v counted", depth, q.depth)
	}
	if places[nowhere] != q.keys.idle.n || places[delayed] != len(q.delayed) || places[awaited] != q.owner.awaited.n || places[ready] != waiting {
		t.Fatalf("places %v, of %d idle, %d delayed, %d awaited, %d ready", places, q.keys.idle.n, len(q.delayed), q.owner.awaited.n, waiting)
	}
	if q.state == status.QueueClosed {
		return // keys that were dropped never leave their generation
	}
	for g := q.turns.oldest; g != nil; g = g.next {
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
	q, clock := newQueue()
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
			q.Add(key, Want{Level: uint8(random.IntN(Levels)), After: time.Duration(random.IntN(6) - 3), Retry: op < 10, Inherit: op < 5})
		case op < 65:
			turn, ok, _ := q.Next()
			if ok && slices.Contains(work, turn.Key) {
				t.Fatalf("%d was handed out twice", turn.Key)
			}
			if ok {
				if q.owner.rule != nil && owned[turn.Key] != Owned {
					t.Fatalf("%d was handed out, but its ownership is %d", turn.Key, owned[turn.Key])
				}
				if held[turn.Key] {
					t.Fatalf("%d was handed out, but is held", turn.Key)
				}
				work = append(work, turn.Key)
			}
		case op < 80:
			q.Done(pick())
		case op < 84:
			q.PutBack(pick())
		case op < 86:
			q.Cancel(key)
		case op < 87:
			q.Hold(key)
			held[key] = true
		case op < 88:
			q.LetGo(key)
			delete(held, key)
		case op < 92:
			owned[key] = Ownership(random.IntN(3))
			if random.IntN(3) == 0 {
				q.Own(nil)
			} else {
				q.Own(func(key int) Ownership { return owned[key] })
			}
		case op < 94:
			if r := q.Released(func(k int) bool { return k%3 == key%3 }); r != nil {
				releases = append(releases, r)
			}
		case op < 95:
			marks = append(marks, q.Mark())
		default:
			clock.now += time.Duration(random.IntN(3))
			for q.Fall() {
			}
		}
		check(t, q)
		for e := q.owner.awaited.first; e != nil; e = q.owner.awaited.next(e) {
			if q.Owns(e.key) {
				t.Fatalf("%d waits, but may be handed out", e.key)
			}
		}
	}
	q.Own(nil)
	q.Drain()
	check(t, q)
	for {
		turn, ok, _ := q.Next()
		if ok {
			work = append(work, turn.Key)
		}
		if len(work) == 0 {
			break
		}
		q.Done(pick())
		check(t, q)
	}
	if !run.IsClosed(q.Drained) || q.Status().State != status.QueueClosed {
		t.Errorf("a drained queue is in state %v", q.Status().State)
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
	for name, end := range map[string]func(q *Queue[int]){
		"let go": func(q *Queue[int]) { q.LetGo(1) },
		"drain":  func(q *Queue[int]) { q.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			q, clock := newQueue()
			q.Add(1, Want{})
			q.Next()
			q.Hold(1)
			q.Add(1, Want{After: time.Second, Retry: true})
			q.Done(1)
			q.Add(2, Want{})
			clock.now = time.Second
			q.Fall()
			if turn, ok, foreign := q.Next(); !ok || turn.Key != 2 || foreign != nil {
				t.Errorf("Next returned %v, %v, %v", turn, ok, foreign)
			}
			if _, ok, _ := q.Next(); ok || q.Status().Awaited != 1 {
				t.Errorf("Next returned a key: %v. Awaited: %d", ok, q.Status().Awaited)
			}
			end(q)
			check(t, q)
			if turn, ok, _ := q.Next(); !ok || turn.Key != 1 {
				t.Errorf("after the end, Next returned %v, %v", turn, ok)
			}
		})
	}
}

// Close drops keys in each place. Keys in work are done later, and do not run again.
// Guarantees: Q7
func TestCloseDropsKeysInEachPlace(t *testing.T) {
	q, _ := newQueue()
	q.Own(func(key int) Ownership {
		if key == 9 {
			return Awaited
		}
		return Owned
	})
	q.Add(1, Want{})
	q.Add(9, Want{})
	turn, _, _ := q.Next()
	q.Add(1, Want{After: time.Hour})
	q.Add(2, Want{})
	q.Add(3, Want{After: time.Hour})
	q.Next() // 9 is parked, 2 is in work
	q.Add(2, Want{})
	q.Add(4, Want{})
	q.Close()
	check(t, q)
	if got := q.Keys(); len(got) != 2 || q.Waiting() != 0 {
		t.Errorf("keys %v, %d wait", got, q.Waiting())
	}
	q.Done(turn.Key)
	q.PutBack(2)
	check(t, q)
	if q.InWork() != 0 || len(q.Keys()) != 0 {
		t.Errorf("%d keys in work, keys %v", q.InWork(), q.Keys())
	}
}

// If a million keys are due at once, other callers get the lock in between: one Fall takes a few keys.
func TestFallMakesFewKeysReadyAtOnce(t *testing.T) {
	q, clock := newQueue()
	const keys = 10*fallAtOnce + 1
	for i := range keys {
		q.Add(i, Want{After: time.Second})
	}
	clock.now = time.Second
	for i := 1; i <= 10; i++ {
		if more := q.Fall(); q.Waiting() != i*fallAtOnce || !more {
			t.Fatalf("%d keys ready in round %d, more is %v", q.Waiting(), i, more)
		}
		check(t, q)
	}
	if more := q.Fall(); q.Waiting() != keys || more {
		t.Errorf("%d keys ready, more is %v", q.Waiting(), more)
	}
}

// A queue that had many keys keeps little memory when it is empty.
func TestLineGivesMemoryBack(t *testing.T) {
	q, _ := newQueue()
	const keys = 5 * idleEntries
	for i := range keys {
		q.Add(i, Want{})
	}
	for i := range keys {
		if i == keys/2 {
			check(t, q)
			if n := len(q.keys.entries); n > keys/2+idleEntries || q.keys.idle.n > idleEntries {
				t.Errorf("%d entries, %d idle", n, q.keys.idle.n)
			}
		}
		turn, ok, _ := q.Next()
		if !ok {
			t.Fatal("no key is ready")
		}
		q.Done(turn.Key)
	}
	if len(q.keys.entries) != 0 || q.keys.most != 0 || q.keys.idle.n != 0 {
		t.Errorf("%d entries, %d idle, in a map for %d", len(q.keys.entries), q.keys.idle.n, q.keys.most)
	}
	for i := range keys {
		q.Add(i, Want{After: time.Second})
	}
	for i := range keys {
		q.Cancel(i)
	}
	if cap(q.delayed) > idleEntries || len(q.keys.entries) != 0 {
		t.Errorf("a heap for %d, %d entries", cap(q.delayed), len(q.keys.entries))
	}
	check(t, q)
}

// Keys that become foreign leave no entries behind, and a wait for the release of keys that ends early leaves nothing.
// Guarantees: S3
func TestForeignKeysLeaveNothingBehind(t *testing.T) {
	q, _ := newQueue()
	owned := Awaited
	rule := func(int) Ownership { return owned }
	q.Own(rule)
	const keys = 4 * idleEntries
	for i := range keys {
		q.Add(i, Want{})
	}
	if turn, ok, _ := q.Next(); ok {
		t.Errorf("%d was handed out", turn.Key)
	}
	if s := q.Status(); s.Awaited != keys {
		t.Errorf("%d keys are awaited", s.Awaited)
	}
	owned = Foreign
	if foreign := q.Own(rule); len(foreign) != keys {
		t.Errorf("%d keys were dropped", len(foreign))
	}
	check(t, q)
	if s := q.Status(); s.Awaited != 0 || s.Foreign != keys || len(q.keys.entries) > idleEntries {
		t.Errorf("%d keys are awaited, %d were dropped, %d have entries", s.Awaited, s.Foreign, len(q.keys.entries))
	}
	owned = Owned
	q.Add(1, Want{})
	q.Next()
	r := q.Released(func(int) bool { return true })
	if left := q.Abandon(r); left != 1 || len(q.owner.releases) != 0 {
		t.Errorf("%d keys are left, and %d waits", left, len(q.owner.releases))
	}
	q.Done(1)
	if run.IsClosed(r.Done()) {
		t.Error("a wait that was abandoned ends")
	}
}
