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

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/table"
	"github.com/typedinformer/informer/status"
)

// A model test makes random changes to an informer and to what it follows, and compares the outcome with a plain map. One
// of the two feeds the informer's FIFO. The other has a server, over HTTP; it is in package informer_test, for which names
// here are exported. This file has the informer's users, which both tests share.
//
// The randomness of a run comes from its seed, except for the order of goroutines, which even a bubble leaves open, and the
// jitter of the reflector. So a failure usually recurs, but not always: repeat it with -count, and with the log that a single
// seed writes.
var (
	modelSeeds = flag.Int("model.seeds", 0, "number of seeds of the model tests (default: as many as take about a minute if tests run whole, otherwise a tenth of them)")
	modelSeed  = flag.Int("model.seed", -1, "first seed of the model tests; without -model.seeds the only one, with a log of its steps")
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

// EachSeed runs test for each seed, in its own synctest bubble.
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
	// If a goroutine of the informer panics, the process ends without naming the test. A label names the seed.
	os.Setenv("GODEBUG", os.Getenv("GODEBUG")+",tracebacklabels=1")
	for seed := first; seed < first+seeds; seed++ {
		t.Run("seed="+strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			pprof.Do(context.Background(), pprof.Labels("model.seed", strconv.Itoa(seed)), func(context.Context) {
				Bubble(t, func(t *testing.T) {
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

// Step records a step, for the log of a failed run.
func (m *Model) Step(format string, args ...any) {
	line := fmt.Sprintf("%8v "+format, append([]any{time.Since(m.began).Truncate(time.Millisecond)}, args...)...)
	if m.verbose {
		m.Log(line)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, line)
}

// Pass lets other goroutines run: for a moment, until all of them wait, or for a random time.
func (m *Model) Pass(longest time.Duration) {
	switch m.IntN(4) {
	case 0:
		synctest.Wait()
	case 1:
		<-time.After(time.Duration(m.Int64N(int64(longest))))
	}
}

// Users are the users of an informer. They come and go.
type Users[T Object] struct {
	*Model
	Informer *Informer[T]
	// View describes an object, and Tags returns its index keys.
	View func(T) string
	Tags func(T) []string
	// BackInTime is set once the server may have been restored from a backup. Versions are not comparable from then on.
	BackInTime atomic.Bool
	// Fed has the versions of all objects that the informer received one by one, where that is known.
	Fed []string

	followers []*Follower[T]
	copiers   []*copier[T]
	indexes   []func(*Snapshot[T]) error
	held      []heldSnapshot[T]
	loops     sync.WaitGroup // of Changes
	endLoops  []context.CancelFunc

	mu       sync.Mutex        // protects the fields below
	versions map[string]string // the last version of each source
	back     bool              // versions may go back at the moment
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

// Act does one random action.
func (u *Users[T]) Act() {
	switch n := u.IntN(12); {
	case n < 3:
		u.Subscribe()
	case n == 3:
		u.follow()
	case n == 4 && len(u.followers) > 0:
		f := u.followers[u.IntN(len(u.followers))]
		if sub := f.sub.Load(); sub != nil {
			u.Step("close %s", f.name)
			sub.Close()
			<-sub.Done()
			f.closed.Store(true)
		}
	case n == 5 && len(u.indexes) < 4:
		u.Step("index %d", len(u.indexes))
		u.addIndex()
	case n == 6:
		snap := u.Informer.Store().Snapshot()
		u.held = append(u.held, heldSnapshot[T]{snap, snap.ResourceVersion(), u.views(snap)})
	case n == 7:
		u.checkLateSubscription()
	case n == 8 && len(u.copiers) < 3:
		u.addCopier()
	case n == 9 && len(u.copiers) > 0:
		u.copiers[u.IntN(len(u.copiers))].toggle()
	default:
		u.checkBacklogs()
		u.checkIndexes(u.Informer.Store().Snapshot())
	}
}

// Subscribe adds a random follower.
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
	config := SubscriptionConfig[T]{Filter: f.filter}
	if u.IntN(4) == 0 {
		r := rand.New(rand.NewPCG(u.Uint64(), 0))
		f.panics = func() bool { return r.IntN(3) == 0 }
		f.name += ", panicking"
		config.OnPanic = func(any) { f.recovered.Add(1) }
		if f.filter != nil && u.IntN(2) == 0 {
			f.name += " in its filter too"
			config.Filter = func(obj T) bool {
				if !f.filter(obj) {
					f.panic("in the filter")
				}
				return true
			}
		}
	}
	if u.IntN(6) == 0 {
		f.limit = 1 + u.IntN(20)
		f.name += ", closing itself"
	}
	if u.IntN(4) == 0 {
		f.every = true
		limit := 1 + u.IntN(8)
		config.Delivery = DeliverEvery(limit)
		if f.blocks = u.IntN(2) == 0; f.blocks {
			config.Delivery = DeliverEveryBlocking(limit)
		}
		f.name += fmt.Sprintf(", every change, backlog %d, block %v", limit, f.blocks)
	}
	if u.IntN(6) == 0 {
		f.resync, config.Resync = true, time.Duration(1+u.IntN(20))*time.Minute
		f.name += ", resync"
	}
	config.Name = f.name
	u.Step("subscribe %s", f.name)
	f.sub.Store(u.Informer.Subscribe(f, config))
}

func (u *Users[T]) newFollower(kind string) *Follower[T] {
	f := &Follower[T]{users: u, name: fmt.Sprintf("%s %d", kind, len(u.followers)), early: len(u.Fed) == 0, have: map[Key]T{}, seen: map[string]bool{}}
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

// checkLateSubscription subscribes while nothing changes.
func (u *Users[T]) checkLateSubscription() {
	synctest.Wait()
	if !u.Informer.HasSynced() {
		return
	}
	f := u.newFollower("late handler")
	u.Step("subscribe %s", f.name)
	f.sub.Store(u.Informer.Subscribe(f, SubscriptionConfig[T]{}))
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := u.Informer.Store().Len(); f.initial != n || f.events != n || !f.sub.Load().Status().Synced {
		u.Errorf("H7: %s got %d initial objects in %d events, want %d", f.name, f.initial, f.events, n)
	}
}

// checkBacklogs checks H3: no handler is further behind than allowed, unless the informer waits.
func (u *Users[T]) checkBacklogs() {
	synctest.Wait()
	over, blocked := 0, 0
	for _, f := range u.followers {
		sub := f.sub.Load()
		if sub == nil {
			continue
		}
		s := sub.Status()
		if sub.listener.(interface{ Full() bool }).Full() {
			over++
			if !f.blocks {
				f.errorf("H3: %d changes behind", s.Backlog)
			}
		}
		if s.Blocking {
			blocked++
		}
	}
	if (over > 0) != (blocked > 0) {
		u.Errorf("H3: %d handlers are over the limit, the informer waits for %d", over, blocked)
	}
}

// CheckVersions checks C7 for each source, even if others have no version yet.
func (u *Users[T]) CheckVersions() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.versions == nil {
		u.versions = map[string]string{}
	}
	for _, src := range u.Informer.Store().Snapshot().core().Sources() {
		was := u.versions[src.Namespace]
		if src.Version == "" || u.back { // not served, or restored
			continue
		}
		if object.Older(src.Version, was) {
			u.Errorf("C7: the resource version of %q went back from %s to %s", src.Namespace, was, src.Version)
		}
		u.versions[src.Namespace] = src.Version
	}
}

// GoBack calls restore, which takes the server back in time and waits until the informer has noticed.
func (u *Users[T]) GoBack(restore func()) {
	u.BackInTime.Store(true)
	u.setBack(true)
	restore()
	for u.underWay() { // a blocking handler may delay the writer
		<-time.After(time.Minute)
	}
	u.setBack(false)
}

// underWay reports whether the store lacks changes that a reflector has read.
func (u *Users[T]) underWay() bool {
	synctest.Wait()
	have := map[string]string{}
	for _, src := range u.Informer.Store().Snapshot().core().Sources() {
		have[src.Namespace] = src.Version
	}
	return slices.ContainsFunc(u.Informer.Status().Reflectors, func(r status.Reflector) bool { return r.ResourceVersion != have[r.Namespace] })
}

func (u *Users[T]) setBack(back bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.back, u.versions = back, nil
}

// Stale returns the keys whose newest version the informer could not decode. Nothing else may change meanwhile.
func (u *Users[T]) Stale() (keys []Key) {
	synctest.Wait()
	n := 0
	for _, r := range u.Informer.Status().Reflectors {
		n += r.Stale
	}
	snap := u.Informer.Store().Snapshot()
	for failed := range snap.AllUndecodable() {
		if snap.Undecodable(failed.Key) == nil {
			u.Errorf("R17: %s is undecodable, but has no error", failed.Key)
		}
		keys = append(keys, failed.Key)
	}
	if n != len(keys) {
		u.Errorf("R17: %d objects are stale, the store has %v", n, keys)
	}
	slices.SortFunc(keys, table.CompareKeys)
	return keys
}

func (u *Users[T]) addIndex() {
	type tagKey struct{ namespace, tag string }
	switch u.IntN(3) {
	case 0:
		u.indexes = append(u.indexes, newCheckedIndex(u.Informer, u.Tags))
	case 1:
		u.indexes = append(u.indexes, newCheckedIndex(u.Informer, func(obj T) (keys []tagKey) {
			for _, tag := range u.Tags(obj) {
				keys = append(keys, tagKey{obj.GetNamespace(), tag}, tagKey{obj.GetNamespace(), tag}) // equal keys count once
			}
			return keys
		}))
	case 2:
		u.indexes = append(u.indexes, newCheckedIndex(u.Informer, func(obj T) []any { return []any{obj.GetUID(), len(u.Tags(obj)), nil} }))
	}
}

// newCheckedIndex returns a function that compares a new index with the keys of a snapshot's objects.
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
			if got := slices.Collect(x.LookupIn(snap, key)); !slices.EqualFunc(got, want[key], object.Same) {
				return fmt.Errorf("index has %d objects with key %v, want %d", len(got), key, len(want[key]))
			}
		}
		if n != len(want) {
			return fmt.Errorf("index has %d keys, want %d", n, len(want))
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

// Settle waits until all users have handled everything, however slow they are.
func (u *Users[T]) Settle() {
	for _, c := range u.copiers {
		if c.stop == nil {
			c.toggle()
		}
	}
	<-time.After(time.Hour)
	synctest.Wait()
}

// Check compares the state of all settled users with want: the view of each object.
func (u *Users[T]) Check(want map[Key]string) {
	u.Helper()
	store := u.Informer.Store()
	snap := store.Snapshot()
	var wantViews []string
	for _, key := range slices.SortedFunc(maps.Keys(want), table.CompareKeys) {
		wantViews = append(wantViews, key.String()+" "+want[key])
	}
	if got := u.views(snap); !slices.Equal(got, wantViews) {
		u.Errorf("store has %d objects, want %d:\n%s", len(got), len(want), difference(got, wantViews))
	}
	u.checkIndexes(snap)
	for _, h := range u.held {
		if got := u.views(h.snap); h.snap.ResourceVersion() != h.rv || !slices.Equal(got, h.views) {
			u.Errorf("C1: snapshot at %s is now at %s:\n%s", h.rv, h.snap.ResourceVersion(), difference(got, h.views))
		}
		u.checkIndexes(h.snap)
	}
	u.CheckVersions()
	u.checkBacklogs()
	for _, c := range u.copiers {
		c.check(snap)
	}
	for _, f := range u.followers {
		f.checkPanics()
		sub := f.sub.Load()
		behind := sub != nil && errors.Is(sub.Err(), ErrBacklog)
		if behind {
			if f.blocks || !f.every {
				f.errorf("H3: %v", sub.Err())
			}
		}
		if f.closed.Load() || behind {
			continue
		}
		f.mu.Lock()
		have := map[Key]T{}
		for obj := range snap.All() {
			if f.filter == nil || f.filter(obj) {
				have[KeyOf(obj)] = obj
			}
		}
		if !maps.EqualFunc(f.have, have, object.Same) {
			for key, obj := range have {
				if !object.Same(f.have[key], obj) {
					f.errorf("does not have %s at %s", key, u.View(obj))
				}
			}
			f.errorf("has %d objects, want %d", len(f.have), len(have))
		}
		if f.every && f.early && f.filter == nil {
			for _, rv := range u.Fed {
				if !f.seen[rv] {
					f.errorf("H3: did not get version %s", rv)
				}
			}
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

// Stopped checks that no handler is called after Run has returned.
func (u *Users[T]) Stopped() {
	u.loops.Wait() // loops end with the informer
	for _, cancel := range u.endLoops {
		cancel()
	}
	for _, f := range u.followers {
		f.closed.Store(true)
		if f.busy.Load() && f.sub.Load() != nil {
			f.errorf("L1: in a call after Run has returned")
		}
		f.checkPanics()
	}
	for _, c := range u.copiers {
		c.end()
	}
	<-time.After(time.Hour)
}
