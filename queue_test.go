package informer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
)

// modelKey is a naive queue's record of a key. Places are numbers in order of arrival.
type modelKey struct {
	ready, inWork   bool
	priority, given Priority
	place, age      int       // within its priority, and overall, while ready and not in work
	due             time.Time // when it becomes ready; zero if not delayed
	delay           int       // its place among keys with equal times
	tries           int
	owed, owedWork  []int // markers that wait for it, and for the work under way
}

// model is a queue that follows the rules in the simplest way.
type model struct {
	keys    map[int]*modelKey
	clock   int
	passed  int
	adds    uint64
	markers []int // the number of keys that each marker waits for
}

func (m *model) key(key int) *modelKey {
	if m.keys[key] == nil {
		m.keys[key] = &modelKey{}
	}
	return m.keys[key]
}

func (m *model) next() int {
	m.clock++
	return m.clock
}

func (m *model) add(key int, o AddOptions) {
	k := m.key(key)
	retry := o.RateLimited || o.After > 0
	if o.RateLimited {
		o.After = max(o.After, time.Duration(k.tries)*time.Millisecond)
		k.tries++
	}
	p := min(max(o.Priority, LowPriority), HighPriority)
	if retry && p == NormalPriority && k.inWork {
		p = k.given
	}
	due := time.Now().Add(o.After)
	switch {
	case k.ready && p > k.priority:
		k.priority, k.place = p, m.next()
	case k.ready:
	case o.After > 0 && k.due.IsZero():
		k.due, k.delay, k.priority = due, m.next(), p
	case o.After > 0:
		k.priority = max(p, k.priority)
		if due.Before(k.due) {
			k.due, k.delay = due, m.next()
		}
	default:
		if k.due.IsZero() {
			k.priority = p
		}
		k.priority = max(p, k.priority)
		m.makeReady(k)
	}
}

func (m *model) makeReady(k *modelKey) {
	k.due, k.ready = time.Time{}, true
	k.place, k.age = m.next(), m.clock
	m.adds++
}

// pass makes due keys ready.
func (m *model) pass() {
	var due []*modelKey
	for _, k := range m.keys {
		if !k.due.IsZero() && !k.due.After(time.Now()) {
			due = append(due, k)
		}
	}
	slices.SortFunc(due, func(a, b *modelKey) int {
		if c := a.due.Compare(b.due); c != 0 {
			return c
		}
		return a.delay - b.delay
	})
	for _, k := range due {
		m.makeReady(k)
	}
}

// get returns the key to hand out, or -1.
func (m *model) get() int {
	first, oldest := -1, -1
	for key, k := range m.keys {
		if !k.ready || k.inWork {
			continue
		}
		if first == -1 || k.priority > m.keys[first].priority || k.priority == m.keys[first].priority && k.place < m.keys[first].place {
			first = key
		}
		if oldest == -1 || k.age < m.keys[oldest].age {
			oldest = key
		}
	}
	if first == -1 {
		return -1
	}
	if first != oldest {
		m.passed++
	}
	if first == oldest || m.passed == 16 {
		first, m.passed = oldest, 0
	}
	k := m.keys[first]
	k.ready, k.inWork, k.given = false, true, k.priority
	k.owed, k.owedWork = nil, k.owed
	return first
}

func (m *model) done(key int) {
	k := m.key(key)
	if !k.inWork {
		return
	}
	k.inWork = false
	m.settle(&k.owedWork)
	if k.ready {
		k.place, k.age = m.next(), m.clock
	}
}

func (m *model) cancel(key int) bool {
	k := m.key(key)
	was := k.ready || !k.due.IsZero()
	k.ready, k.due = false, time.Time{}
	m.settle(&k.owed)
	return was
}

func (m *model) settle(owed *[]int) {
	for _, marker := range *owed {
		m.markers[marker]--
	}
	*owed = nil
}

// mark adds a marker that waits for all keys ready or in work now.
func (m *model) mark() {
	marker := len(m.markers)
	m.markers = append(m.markers, 0)
	for _, k := range m.keys {
		if k.ready {
			k.owed = append(k.owed, marker)
			m.markers[marker]++
		}
		if k.inWork {
			k.owedWork = append(k.owedWork, marker)
			m.markers[marker]++
		}
	}
}

func (m *model) status() string {
	depth := map[Priority]int{HighPriority: 0, NormalPriority: 0, LowPriority: 0}
	delayed, inWork := 0, 0
	for _, k := range m.keys {
		if k.ready {
			depth[k.priority]++
		}
		if !k.due.IsZero() {
			delayed++
		}
		if k.inWork {
			inWork++
		}
	}
	return fmt.Sprintln(depth, delayed, inWork, m.adds)
}

// linearLimiter is a limiter whose delays the model can predict.
type linearLimiter map[int]int

func (l linearLimiter) When(key int) time.Duration {
	l[key]++
	return time.Duration(l[key]-1) * time.Millisecond
}
func (l linearLimiter) Forget(key int)          { delete(l, key) }
func (l linearLimiter) NumRequeues(key int) int { return l[key] }

// Random operations have the same outcome in the queue and in the model.
func TestQueueModel(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runQueueModel(t, seed) })
		}) {
			return
		}
	}
}

func runQueueModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	q := NewQueue(QueueConfig[int]{RateLimiter: linearLimiter{}})
	m := &model{keys: map[int]*modelKey{}}
	var ended []*atomic.Bool
	var inWork []int
	keys := 1 + random.IntN(60)
	for step := range 1500 {
		key := random.IntN(keys)
		o := AddOptions{Priority: Priority(random.IntN(5) - 2)}
		did := ""
		switch op := random.IntN(100); {
		case op < 25:
			did = fmt.Sprint("add ", key, o)
			q.AddWith(o, key)
			m.add(key, o)
		case op < 38:
			o.After = time.Duration(random.IntN(20)-1) * time.Millisecond
			o.RateLimited = random.IntN(3) == 0
			did = fmt.Sprint("add ", key, o)
			q.AddWith(o, key)
			m.add(key, o)
		case op < 65:
			want := m.get()
			if want == -1 {
				continue
			}
			got, err := q.Get(t.Context())
			if err != nil || got != want {
				t.Fatalf("step %d: got %d, %v instead of %d", step, got, err, want)
			}
			inWork = append(inWork, got)
		case op < 85 && len(inWork) > 0:
			i := random.IntN(len(inWork))
			did = fmt.Sprint("done ", inWork[i])
			q.Done(inWork[i])
			m.done(inWork[i])
			inWork = slices.Delete(inWork, i, i+1)
		case op < 90:
			did = fmt.Sprint("cancel ", key)
			if got, want := q.Cancel(key), m.cancel(key); got != want {
				t.Fatalf("step %d: cancel %d: %v", step, key, got)
			}
		case op < 92:
			q.Forget(key)
			m.key(key).tries = 0
		case op < 94:
			m.mark()
			marker := new(atomic.Bool)
			ended = append(ended, marker)
			go func() {
				if q.WaitProcessed(t.Context()) == nil {
					marker.Store(true)
				}
			}()
			synctest.Wait()
		default:
			<-testkit.After(time.Duration(random.IntN(5)) * time.Millisecond)
			synctest.Wait()
			did = "time passes"
			m.pass()
		}
		s := q.Status()
		if got, want := fmt.Sprintln(q.depths(), s.Delayed, s.InWork, s.Adds), m.status(); got != want {
			t.Fatalf("step %d: %s: %s, want %s", step, did, got, want)
		}
		if got, want := q.NumRequeues(key), m.key(key).tries; got != want {
			t.Fatalf("step %d: %d requeues, want %d", step, got, want)
		}
		checkTimer(t, q)
		if step%10 == 0 {
			synctest.Wait()
			for i, marker := range ended {
				if marker.Load() != (m.markers[i] == 0) {
					t.Fatalf("step %d: marker %d waits for %d keys, ended %v", step, i, m.markers[i], marker.Load())
				}
			}
		}
	}
	q.Close()
}

// checkTimer checks that the queue's timer fires when the first delay ends, or earlier.
func checkTimer[K comparable](t *testing.T, q *Queue[K]) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if due, ok := q.queue.Due(); ok && (q.armed == 0 || q.armed > due) || !ok && q.armed != 0 {
		t.Fatalf("armed for %v, the first delay ends at %v", q.armed, due)
	}
}

// Delayed keys stay in order while they are added, cancelled and moved in any order.
func TestQueueModelOfDelays(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	q := NewQueue(QueueConfig[int]{})
	defer q.Close()
	for range 3000 {
		key := random.IntN(300)
		if random.IntN(3) == 0 {
			q.Cancel(key)
		} else {
			q.AddAfter(key, time.Hour+time.Duration(random.IntN(1e9)))
		}
		checkTimer(t, q)
	}
}

// With concurrent workers and producers, a key is with one worker at a time, and is processed again after its last Add.
func TestQueueConcurrently(t *testing.T) {
	const keys, workers, producers, adds = 40, 8, 4, 3000
	seed := rand.Uint64()
	t.Log("seed", seed)
	q := NewQueue(QueueConfig[int]{RateLimiter: &ExponentialLimiter[int]{Base: 1, Max: 1000}})
	const dropped = keys // is added and cancelled, so it may run any number of times
	var asked, seen [keys + 1]atomic.Int64
	var inWork [keys + 1]atomic.Bool
	var working, producing sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					go cancel()
				}
				key, err := q.Get(ctx)
				cancel()
				if err == ErrClosed {
					return
				}
				if err != nil {
					continue
				}
				if inWork[key].Swap(true) {
					t.Errorf("%d is with two workers", key)
				}
				seen[key].Store(asked[key].Load())
				switch random.IntN(10) {
				case 0:
					q.AddRateLimited(key)
				case 1:
					q.AddAfter(key, time.Microsecond)
				case 2:
					q.Forget(key)
				}
				inWork[key].Store(false)
				q.Done(key)
			}
		})
	}
	for p := range producers {
		producing.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(100+p)))
			for i := range adds {
				key := random.IntN(keys)
				asked[key].Add(1)
				o := AddOptions{Priority: Priority(random.IntN(3) - 1)}
				q.AddWith(o, key)
				if i%10 == 0 {
					q.AddWith(o, dropped)
					q.Cancel(dropped)
					q.NumRequeues(key)
				}
				if i%500 == 0 {
					if err := q.WaitProcessed(t.Context()); err != nil {
						t.Error(err)
					}
					if seen[key].Load() == 0 {
						t.Errorf("%d was not processed", key)
					}
				}
				q.Status()
			}
		})
	}
	producing.Wait()
	if err := q.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	working.Wait()
	for key := range keys {
		if seen[key].Load() != asked[key].Load() {
			t.Errorf("%d ran for %d of %d adds", key, seen[key].Load(), asked[key].Load())
		}
	}
	checkTimer(t, q)
	if s := q.Status(); s.State != status.QueueClosed || q.Len() != 0 || s.Delayed != 0 || s.InWork != 0 {
		t.Errorf("%+v", s)
	}
}

func TestQueueDoesNotAllocate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	nothing := func(Priority, time.Duration) {}
	for name, config := range map[string]QueueConfig[Key]{"bare": {}, "observed": {OnGet: nothing, OnDone: nothing}} {
		q := NewQueue(config)
		names := [3]Key{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		i := 0
		if n := testing.AllocsPerRun(1000, func() {
			key := names[i%len(names)]
			i++
			q.AddAfter(key, time.Hour)
			q.AddWith(AddOptions{Priority: LowPriority}, key)
			q.Add(key)
			got, err := q.Get(ctx)
			if err != nil || got != key {
				t.Fatal(got, err)
			}
			q.AddAfter(key, time.Hour)
			q.Done(key)
			q.Cancel(key)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		q.Close()
	}
}

// unlocked is a limiter that checks that the queue calls it without its lock.
type unlocked struct {
	RateLimiter[string]
	check func()
}

func (l unlocked) When(key string) time.Duration { l.check(); return l.RateLimiter.When(key) }
func (l unlocked) Forget(key string)             { l.check(); l.RateLimiter.Forget(key) }
func (l unlocked) NumRequeues(key string) int    { l.check(); return l.RateLimiter.NumRequeues(key) }

// The queue calls its callbacks and its limiter without a lock, so they may use the queue.
// Guarantees: Q9
func TestCallbacksMayUseTheQueue(t *testing.T) {
	var q *Queue[string]
	calls := 0
	check := func() {
		calls++
		if !q.mu.TryLock() {
			t.Errorf("call %d holds the queue's lock", calls)
			return
		}
		q.mu.Unlock()
	}
	observe := func(Priority, time.Duration) { check() }
	q = NewQueue(QueueConfig[string]{OnGet: observe, OnDone: observe, RateLimiter: unlocked{DefaultLimiter[string](), check}})
	defer q.Close()
	q.Add("a")
	key, err := q.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q.AddRateLimited(key)
	q.NumRequeues(key)
	q.Forget(key)
	q.Done(key)
	if calls != 5 {
		t.Errorf("%d calls", calls)
	}
}
