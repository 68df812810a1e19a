package informer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A model test does random things to what an informer follows, and to an informer, and holds the outcome against a plain
// map. There are two: one that feeds the informer's FIFO, and one with a server, over HTTP (package informer_test, for
// which names here are exported). What the informer's users do is the same in both, and is in this file.
//
// Everything random in a run comes from its seed, except the order in which goroutines run, which not even a bubble
// determines, and the jitter of the reflector. So a failure comes again most of the time, not always: repeat it with
// -count, and with the log that a single seed writes.
var (
	modelSeeds = flag.Int("model.seeds", 0, "run the model tests with so many seeds (default: as many as fit into a minute or so)")
	modelSeed  = flag.Int("model.seed", -1, "run the model tests from this seed on; without -model.seeds only this one, with a log of what it does")
)

// Model is one run of a model test.
type Model struct {
	*testing.T
	*rand.Rand
	verbose bool
	began   time.Time
	mu      sync.Mutex // protects log
	log     []string
}

// EachSeed runs test for each seed, in a synctest bubble of its own.
func EachSeed(t *testing.T, seeds int, test func(m *Model)) {
	first, verbose := 0, false
	switch {
	case *modelSeed >= 0 && *modelSeeds == 0:
		first, seeds, verbose = *modelSeed, 1, true
	case *modelSeed >= 0:
		first, seeds = *modelSeed, *modelSeeds
	case *modelSeeds > 0:
		seeds = *modelSeeds
	}
	// A panic in a goroutine of the informer ends the process without a word of which test it was for. Labels have one.
	os.Setenv("GODEBUG", os.Getenv("GODEBUG")+",tracebacklabels=1")
	for seed := first; seed < first+seeds; seed++ {
		t.Run("seed="+strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			pprof.Do(context.Background(), pprof.Labels("model.seed", strconv.Itoa(seed)), func(context.Context) {
				synctest.Test(t, func(t *testing.T) {
					m := &Model{T: t, Rand: rand.New(rand.NewPCG(uint64(seed), 0)), verbose: verbose, began: time.Now()}
					defer func() {
						if t.Failed() {
							name, _, _ := strings.Cut(t.Name(), "/")
							t.Logf("the last steps:\n%s\nrepeat with: go test -race -tags assert -run '^%s$' -count 20 -model.seed %d",
								strings.Join(m.log[max(0, len(m.log)-40):], "\n"), name, seed)
						}
					}()
					test(m)
				})
			})
		})
	}
}

// Step notes what is done, for the log of a run that fails.
func (m *Model) Step(format string, args ...any) {
	line := fmt.Sprintf("%8v "+format, append([]any{time.Since(m.began).Truncate(time.Millisecond)}, args...)...)
	if m.verbose {
		m.Log(line)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, line)
}

// Pass lets other goroutines run: for a moment or until all wait, or lets time pass.
func (m *Model) Pass(longest time.Duration) {
	switch m.IntN(4) {
	case 0:
		synctest.Wait()
	case 1:
		<-time.After(time.Duration(m.Int64N(int64(longest))))
	}
}

// Follower is a handler that rebuilds the state from what it is told alone, and fails when that is no chain.
type Follower[T Object] struct {
	users  *Users[T]
	name   string
	filter func(T) bool
	delay  func() time.Duration // how long it takes for an event; nil for no time
	limit  int                  // it closes itself at this many events; 0 for never
	resync bool                 // it is given objects again
	sub    atomic.Pointer[Subscription]
	busy   atomic.Bool
	closed atomic.Bool // no more events may come

	mu      sync.Mutex // protects the fields below
	have    map[Key]T
	events  int
	initial int // initial additions
}

func (f *Follower[T]) errorf(format string, args ...any) {
	f.users.Errorf(f.name+": "+format, args...)
}

// told notes an event, and returns what it had of key.
func (f *Follower[T]) told(event string, key Key, change func(have T, known bool)) {
	if f.closed.Load() {
		f.errorf("H11: told of %s %s after it was closed", event, key)
	}
	if !f.busy.CompareAndSwap(false, true) {
		f.errorf("H1: told of %s %s during another call", event, key)
	}
	f.mu.Lock()
	have, known := f.have[key]
	if f.users.verbose {
		f.users.Step("    %s is told: %s %s", f.name, event, key)
	}
	change(have, known)
	f.events++
	last := f.events == f.limit
	f.mu.Unlock()
	if f.delay != nil {
		<-time.After(f.delay())
	}
	f.busy.Store(false)
	if sub := f.sub.Load(); last && sub != nil {
		sub.Close()
		f.closed.Store(true)
	}
}

// sound reports what does not fit an object that f is given.
func (f *Follower[T]) sound(event string, obj T) {
	if f.filter != nil && !f.filter(obj) {
		f.errorf("H12: %s of %s, which its filter leaves out", event, KeyOf(obj))
	}
	if have, ok := f.users.Informer.Store().Get(KeyOf(obj)); ok && f.newer(obj, have) {
		f.errorf("H1: %s of %s at %s, and the store is at %s", event, KeyOf(obj), obj.GetResourceVersion(), have.GetResourceVersion())
	}
}

// newer says whether a is a later version of b, where versions can be relied on.
func (f *Follower[T]) newer(a, b T) bool {
	return !f.users.BackInTime.Load() && a.GetUID() == b.GetUID() && older(b.GetResourceVersion(), a.GetResourceVersion())
}

func (f *Follower[T]) OnAdd(obj T, initial bool) {
	f.told("add", KeyOf(obj), func(_ T, known bool) {
		if known {
			f.errorf("H2: addition of %s, which it has", KeyOf(obj))
		}
		if sub := f.sub.Load(); initial && sub != nil && sub.Status().Synced {
			f.errorf("H8: initial addition of %s after it was synced", KeyOf(obj))
		}
		if initial {
			f.initial++
		}
		f.sound("addition", obj)
		f.have[KeyOf(obj)] = obj
	})
}

func (f *Follower[T]) OnUpdate(old, new T) {
	f.told("update", KeyOf(new), func(have T, known bool) {
		switch {
		case !known:
			f.errorf("H2: update of %s, which it does not have", KeyOf(new))
		case have != old:
			f.errorf("H2: update of %s from %s, but it has %s", KeyOf(new), f.users.View(old), f.users.View(have))
		case old.GetUID() != new.GetUID():
			f.errorf("H5: update of %s to another uid", KeyOf(new))
		case old == new && f.resync:
		case !f.newer(new, old) && !f.users.BackInTime.Load():
			f.errorf("H14: update of %s from %s to %s", KeyOf(new), f.users.View(old), f.users.View(new))
		}
		f.sound("update", new)
		f.have[KeyOf(new)] = new
	})
}

func (f *Follower[T]) OnDelete(last T, final bool) {
	f.told("delete", KeyOf(last), func(have T, known bool) {
		switch {
		case !known:
			f.errorf("H2: deletion of %s, which it does not have", KeyOf(last))
		case have.GetUID() != last.GetUID():
			f.errorf("H5: deletion of %s with another uid", KeyOf(last))
		case f.newer(have, last):
			f.errorf("H6: deletion of %s with an old state", KeyOf(last))
		case final && have == last:
			f.errorf("H6: the last state of %s is said to be final", KeyOf(last))
		}
		delete(f.have, KeyOf(last))
	})
}

// Users are who uses an informer: they come and go.
type Users[T Object] struct {
	*Model
	Informer *Informer[T]
	// View returns what there is to an object, and Tags what it is found by.
	View func(T) string
	Tags func(T) []string
	// BackInTime is set once the server may have been restored from a backup: versions mean nothing any more.
	BackInTime atomic.Bool

	followers []*Follower[T]
	indexes   []func(*Snapshot[T]) error
	held      []heldSnapshot[T]
	loops     sync.WaitGroup // of Changes
	endLoops  []context.CancelFunc
}

type heldSnapshot[T Object] struct {
	snap  *Snapshot[T]
	rv    string
	views []string
}

func (u *Users[T]) views(snap *Snapshot[T]) (views []string) {
	for obj := range snap.All() {
		views = append(views, KeyOf(obj).String()+" "+u.View(obj))
	}
	return views
}

// Act does one random thing.
func (u *Users[T]) Act() {
	switch n := u.IntN(10); {
	case n < 3:
		u.Subscribe()
	case n == 3:
		u.follow()
	case n == 4 && len(u.followers) > 0:
		f := u.followers[u.IntN(len(u.followers))]
		if sub := f.sub.Load(); sub != nil {
			u.Step("close %s", f.name)
			sub.Close()
			f.closed.Store(true)
		}
	case n == 5 && len(u.indexes) < 4:
		u.Step("index %d", len(u.indexes))
		u.addIndex()
	case n == 6:
		snap := u.Informer.Store().Snapshot()
		u.held = append(u.held, heldSnapshot[T]{snap, snap.RV(), u.views(snap)})
	case n == 7:
		u.checkLateSubscription()
	default:
		u.checkIndexes(u.Informer.Store().Snapshot())
	}
}

// Subscribe adds a follower of some kind.
func (u *Users[T]) Subscribe() {
	f := u.newFollower("handler")
	if u.IntN(3) == 0 {
		tag := "tag" + strconv.Itoa(u.IntN(3))
		f.filter = func(obj T) bool { return slices.Contains(u.Tags(obj), tag) }
		f.name += " of " + tag
	}
	if u.IntN(3) == 0 {
		r, longest := rand.New(rand.NewPCG(u.Uint64(), 0)), time.Second<<u.IntN(5)
		f.delay = func() time.Duration { return time.Duration(r.Int64N(int64(longest))) }
		f.name += ", slow"
	}
	if u.IntN(6) == 0 {
		f.limit = 1 + u.IntN(20)
		f.name += ", closing itself"
	}
	config := SubscriptionConfig[T]{Name: f.name, Filter: f.filter}
	if u.IntN(4) == 0 {
		config.Delivery, config.MaxBacklog, config.Block = Every, 1+u.IntN(50), u.IntN(2) == 0
		f.name += fmt.Sprintf(", every change, backlog %d, block %v", config.MaxBacklog, config.Block)
	}
	if u.IntN(6) == 0 {
		f.resync, config.Resync = true, time.Duration(1+u.IntN(20))*time.Minute
		f.name += ", resync"
	}
	u.Step("subscribe %s", f.name)
	f.sub.Store(u.Informer.SubscribeWith(f, config))
}

func (u *Users[T]) newFollower(kind string) *Follower[T] {
	f := &Follower[T]{users: u, name: fmt.Sprintf("%s %d", kind, len(u.followers)), have: map[Key]T{}}
	u.followers = append(u.followers, f)
	return f
}

// follow iterates over changes.
func (u *Users[T]) follow() {
	f := u.newFollower("loop")
	leaveAt := -1
	if u.IntN(3) == 0 {
		leaveAt = u.IntN(20)
	}
	ctx, cancel := context.WithCancel(context.Background())
	u.endLoops = append(u.endLoops, cancel)
	u.Step("iterate: %s", f.name)
	u.loops.Go(func() {
		defer f.closed.Store(true)
		for e := range u.Informer.Changes(ctx) {
			switch e.Type {
			case Added:
				f.OnAdd(e.Object, e.Initial)
			case Updated:
				f.OnUpdate(e.Old, e.Object)
			case Deleted:
				f.OnDelete(e.Object, e.Final)
			}
			if leaveAt--; leaveAt == 0 {
				return
			}
		}
	})
}

// checkLateSubscription subscribes while nothing happens.
func (u *Users[T]) checkLateSubscription() {
	synctest.Wait()
	if !isClosed(u.Informer.synced) {
		return
	}
	f := u.newFollower("late handler")
	u.Step("subscribe %s", f.name)
	f.sub.Store(u.Informer.SubscribeWith(f, SubscriptionConfig[T]{}))
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := u.Informer.Store().Len(); f.initial != n || f.events != n || !f.sub.Load().Status().Synced {
		u.Errorf("H7: %s was told of %d initial objects in %d events, there are %d", f.name, f.initial, f.events, n)
	}
}

func (u *Users[T]) addIndex() {
	type tagKey struct{ namespace, tag string }
	switch u.IntN(3) {
	case 0:
		u.indexes = append(u.indexes, newCheckedIndex(u.Informer, u.Tags))
	case 1:
		u.indexes = append(u.indexes, newCheckedIndex(u.Informer, func(obj T) (keys []tagKey) {
			for _, tag := range u.Tags(obj) {
				keys = append(keys, tagKey{obj.GetNamespace(), tag}, tagKey{obj.GetNamespace(), tag}) // folds
			}
			return keys
		}))
	case 2:
		u.indexes = append(u.indexes, newCheckedIndex(u.Informer, func(obj T) []any { return []any{obj.GetUID(), len(u.Tags(obj)), nil} }))
	}
}

// newCheckedIndex returns a function that holds a new index against what its keys are in a snapshot.
func newCheckedIndex[T Object, K comparable](in *Informer[T], keys func(T) []K) func(*Snapshot[T]) error {
	x := NewIndex(in, keys)
	return func(snap *Snapshot[T]) error {
		want := map[K][]T{}
		for obj := range snap.All() {
			mine := map[K]bool{}
			for _, key := range keys(obj) {
				if !mine[key] {
					mine[key] = true
					want[key] = append(want[key], obj)
				}
			}
		}
		n := 0
		for key := range x.KeysIn(snap) {
			n++
			if got := slices.Collect(x.LookupIn(snap, key)); !slices.Equal(got, want[key]) {
				return fmt.Errorf("index has %d objects of %v, not the %d", len(got), key, len(want[key]))
			}
		}
		if n != len(want) {
			return fmt.Errorf("index has %d keys, not %d", n, len(want))
		}
		return nil
	}
}

func (u *Users[T]) checkIndexes(snap *Snapshot[T]) {
	u.Helper()
	for i, check := range u.indexes {
		if err := check(snap); err != nil {
			u.Errorf("C6: index %d: %v", i, err)
		}
	}
}

// Check holds what everybody has against what there is: the view and the tags of each object.
func (u *Users[T]) Check(want map[Key]string) {
	u.Helper()
	store := u.Informer.Store()
	snap := store.Snapshot()
	var wantViews []string
	for _, key := range slices.SortedFunc(maps.Keys(want), compareKeys) {
		wantViews = append(wantViews, key.String()+" "+want[key])
	}
	if got := u.views(snap); !slices.Equal(got, wantViews) {
		u.Errorf("store has %d objects, not the %d:\n%s", len(got), len(want), difference(got, wantViews))
	}
	u.checkIndexes(snap)
	for _, h := range u.held {
		if got := u.views(h.snap); h.snap.RV() != h.rv || !slices.Equal(got, h.views) {
			u.Errorf("C1: snapshot of %s is now of %s:\n%s", h.rv, h.snap.RV(), difference(got, h.views))
		}
		u.checkIndexes(h.snap)
	}
	for _, f := range u.followers {
		sub := f.sub.Load()
		if f.closed.Load() || sub != nil && errors.Is(sub.Err(), ErrBacklog) {
			continue
		}
		f.mu.Lock()
		have := map[Key]T{}
		for obj := range snap.All() {
			if f.filter == nil || f.filter(obj) {
				have[KeyOf(obj)] = obj
			}
		}
		if !maps.Equal(f.have, have) {
			for key, obj := range have {
				if f.have[key] != obj {
					f.errorf("has not %s at %s", key, u.View(obj))
				}
			}
			f.errorf("has %d objects of %d", len(f.have), len(have))
		}
		if sub != nil {
			if s := sub.Status(); !s.Synced || !f.resync && (s.Backlog != 0 || s.Busy != 0) {
				f.errorf("H8: status %+v, %v", s, sub.Err())
			}
		}
		f.mu.Unlock()
	}
}

// difference returns the lines that only one of two lists has.
func difference(got, want []string) string {
	var b strings.Builder
	for _, line := range want {
		if !slices.Contains(got, line) {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			fmt.Fprintf(&b, "+ %s\n", line)
		}
	}
	return b.String()
}

// Stopped checks, after Run has returned, that nobody is told anything any more.
func (u *Users[T]) Stopped() {
	u.loops.Wait() // they end with the informer
	for _, cancel := range u.endLoops {
		cancel()
	}
	for _, f := range u.followers {
		f.closed.Store(true)
		if f.busy.Load() && f.sub.Load() != nil {
			f.errorf("L1: it is being called although Run has returned")
		}
	}
	<-time.After(time.Hour)
}
