package shard

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/test/testkit"
)

var (
	histories = flag.Int("histories", 0, "number of random histories; zero means 8, or 20 if tests run whole")
	seed      = flag.Uint64("seed", 0, "seed of the first history; without -histories, run only that one")
)

// In random histories of up to five replicas, they join, leave, are killed and cut off from the server, and their clocks are set. Writes land
// late, responses get lost, watches lag, end and expire, the server fails, some calls of Reconcile do not return, some replicas cannot
// list pods, and pods change. No two replicas reconcile a key at the same time.
//
// Then the test mends all faults except stuck calls and replicas that cannot list. In time, each slot has an owner that
// reconciles pods, or its owner has ended itself. After the last mend, each slot has one owner, and the newest version
// of each pod was reconciled.
//
//	go test ./shard -race -run TestHistories -timeout 1h -args -histories 300
//
// Guarantees: S3, S5
func TestHistories(t *testing.T) {
	var total longest
	defer func() { t.Log(total) }()
	n, first := *histories, *seed
	switch {
	case n == 0 && first == 0:
		n, first = testkit.Rounds(8, 20), 1
	case n == 0:
		n = 1
	case first == 0:
		first = rand.Uint64N(1 << 40)
	}
	t.Logf("seeds %d to %d", first, first+uint64(n)-1)
	for i := range uint64(n) {
		if history(t, first+i, &total); t.Failed() {
			t.Fatalf("run it again with -args -seed %d", first+i)
		}
	}
}

// longest has how long slots had no owner after the last fault, at most, and how many processes ended themselves.
type longest struct {
	rounds, stuck, forbidden, ended int
	owners                          time.Duration
}

func (l longest) String() string {
	return fmt.Sprintf("%d histories, %d of them with stuck calls and %d with a replica that cannot list until the end: after the last fault, every slot had an owner in at most %v; %d processes ended themselves",
		l.rounds, l.stuck, l.forbidden, l.owners.Round(time.Millisecond), l.ended)
}

func (l *longest) note(stuck, forbidden bool) {
	l.rounds++
	if stuck {
		l.stuck++
	}
	if forbidden {
		l.forbidden++
	}
}

// The limits of the faults of a history.
const (
	maxLate = 9 * time.Second  // of a write
	maxList = 25 * time.Second // Config.ListTimeout
)

// history runs one history.
func history(t *testing.T, seed uint64, total *longest) {
	onStage(t, seed, func(s *stage) {
		random := rand.New(rand.NewPCG(seed, 2))
		between := func(least, most time.Duration) time.Duration {
			return least + time.Duration(random.Int64N(int64(most-least)))
		}
		step := func(format string, args ...any) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.steps = append(s.steps, fmt.Sprintf("%v ", s.time())+fmt.Sprintf(format, args...))
		}
		var all []*actor
		live := func() (live []*actor) {
			for _, a := range all {
				if !a.isDead() && !run.IsClosed(a.ended) {
					live = append(live, a)
				}
			}
			return live
		}
		var fault time.Time // the last one; protected by s.mu
		sinceFault := func() time.Duration {
			s.mu.Lock()
			defer s.mu.Unlock()
			return time.Since(fault)
		}
		join := func() *actor {
			name := fmt.Sprint("r", len(all))
			step("%s joins", name)
			all = append(all, s.join(name, func(a *actor, c *Config) {
				a.takes = between(1, 5*time.Second)
				a.winds = between(1, 2*time.Second)
				c.Fatal = func() {
					step("%s ends itself", name)
					s.mu.Lock()
					fault = time.Now()
					total.ended++
					s.mu.Unlock()
					a.kill()
				}
				c.Grace = between(-1, 3*time.Second)
				c.StuckAfter = between(2*time.Second, 6*time.Second)
				c.ListTimeout = between(5*time.Second, maxList)
				c.HandOverTimeout = between(-1, 10*time.Second)
			}))
			return all[len(all)-1]
		}
		mends := map[string]func(){}
		lasting := map[string]func(){} // mends of faults that may outlast the others
		mend := func(name string) {
			step("%s is mended", name)
			mends[name]()
			delete(mends, name)
		}
		last := func(name string) {
			step("the lasting fault of %s is mended", name)
			lasting[name]()
			delete(lasting, name)
		}
		pods := 0
		for range 2 + random.IntN(3) {
			join()
		}
		for range 10 + random.IntN(25) {
			<-time.After(between(0, 12*time.Second))
			some := live()
			var a *actor
			if len(some) > 0 {
				a = some[random.IntN(len(some))]
			}
			switch what := random.IntN(19); {
			case what == 0 && len(some) < 5, a == nil:
				join()
			case what == 1:
				step("%s leaves", a.name)
				a.cancel()
			case what == 2:
				step("%s is killed", a.name)
				a.kill()
			case what == 3 && mends[a.name] == nil:
				step("%s is cut off", a.name)
				mends[a.name] = s.isolate(a.name)
			case what == 4 && mends[a.name] == nil:
				step("the writes of %s get no response", a.name)
				mends[a.name] = s.server.Inject(informertest.Fault{AfterHeaders: true, Hang: true, Match: func(r informertest.Request) bool {
					return r.Header.Get("User-Agent") == a.name && r.Verb != "list" && r.Verb != "watch" && r.Verb != "get"
				}})
			case what == 5 && mends[a.name] == nil:
				delay := between(0, 9*time.Second)
				step("requests of %s take %v", a.name, delay)
				mends[a.name] = s.server.Inject(informertest.Fault{Delay: delay, Match: func(r informertest.Request) bool { return r.Header.Get("User-Agent") == a.name }})
			case what == 6:
				skew := between(-time.Hour, time.Hour)
				step("the clock of %s is set by %v", a.name, skew)
				a.skewMu.Lock()
				a.skew += skew
				a.skewMu.Unlock()
			case what == 7:
				step("the watches end")
				s.server.EndWatches()
			case what == 8:
				step("the server forgets its history")
				s.server.Compact()
				s.server.EndWatches()
			case what == 9 && mends["server"] == nil:
				resource := []string{"", "leases"}[random.IntN(2)]
				step("the server fails for %q, or all if that is empty", resource)
				mends["server"] = s.server.Inject(informertest.Fault{Drop: true, Resource: resource})
			case what == 14 && mends[a.name] == nil:
				late := between(0, maxLate)
				step("writes of %s land %v late", a.name, late)
				mends[a.name] = a.alter(func(n *network) { n.late = late }, func(n *network) { n.late = 0 })
			case what == 15 && mends[a.name] == nil:
				lag := between(0, 5*time.Second)
				step("the watches of %s lag by %v", a.name, lag)
				mends[a.name] = a.alter(func(n *network) { n.lag = lag }, func(n *network) { n.lag = 0 })
			case what == 16 && lasting[a.name] == nil && pods > 0:
				step("calls of %s get stuck", a.name)
				lasting[a.name] = a.stickSome(1+random.IntN(3), pods)
			case what == 17 && len(some) < 5:
				name := fmt.Sprint("r", len(all))
				step("%s must not list pods", name)
				lasting[name] = s.forbid(name)
				join()
			case what == 18 && len(lasting) > 0:
				last(slices.Sorted(maps.Keys(lasting))[random.IntN(len(lasting))])
			case what >= 10 && len(mends) > 0:
				mend(slices.Sorted(maps.Keys(mends))[random.IntN(len(mends))])
			case what == 11 && pods > 0:
				key := informer.Key{Namespace: "ns", Name: fmt.Sprint("pod-", random.IntN(pods))}
				if _, ok := s.pods.Get(key); ok {
					must(s.pods.Delete(key))
				}
			case what == 12 && pods > 0:
				key := informer.Key{Namespace: "ns", Name: fmt.Sprint("pod-", random.IntN(pods))}
				if pod, ok := s.pods.Get(key); ok {
					pod = pod.DeepCopy()
					pod.Labels = map[string]string{"step": fmt.Sprint(random.Uint64())}
					must(s.pods.Update(pod))
				}
			default:
				s.create("ns", pods, pods+3)
				pods += 3
			}
		}
		for name := range mends {
			mend(name)
		}
		join() // all others may be leaving, or have lasting faults
		bound := takeOver + maxBackoff
		stuck, forbidden := false, false
		for _, a := range live() {
			stuck = stuck || lasting[a.name] != nil && a.sticks != nil
			forbidden = forbidden || lasting[a.name] != nil && a.sticks == nil
		}
		if stuck {
			bound += 3*time.Second + 6*time.Second + 10*time.Second // Grace, StuckAfter and HandOverTimeout
		}
		if forbidden {
			bound += 2 * maxList
		}
		step("the rest is well, stuck calls: %t, a replica that cannot list: %t", stuck, forbidden)
		s.mu.Lock()
		fault = time.Now().Add(maxLate)
		s.mu.Unlock()
		for end := time.Now().Add(maxLate + 3*time.Minute); time.Now().Before(end); <-time.After(500 * time.Millisecond) {
			for slot, names := range s.owners(live()...) {
				if took := sinceFault(); len(names) == 0 && took > bound {
					s.Fatalf("%v after the last fault, slot %d has no owner; history: %q", took, slot, s.steps)
				} else if len(names) == 0 {
					total.owners = max(total.owners, took)
				}
			}
		}
		s.create("ns", pods, pods+3)
		<-time.After(30 * time.Second)
		s.mu.Lock()
		for i := range 3 {
			pod, _ := s.pods.Get(informer.Key{Namespace: "ns", Name: fmt.Sprint("pod-", pods+i)})
			if s.reconciled[KeyOf(pod)] != pod.ResourceVersion {
				s.Errorf("%s is not reconciled; history: %q", pod.Name, s.steps)
			}
		}
		s.mu.Unlock()
		total.note(stuck, forbidden)
		for name := range lasting {
			last(name)
		}
		step("all is well")
		<-time.After(2 * time.Minute)
		if s.wantSettled(live()...); s.Failed() {
			for _, step := range s.steps {
				s.Log(step)
			}
		}
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		for _, a := range all {
			a.cancel()
			select {
			case <-a.ended:
			case <-ctx.Done():
				s.Errorf("%s does not end", a.name)
			}
		}
		if n := s.leases.Len() - countDead(all); n > 0 {
			s.Errorf("%d Leases are left", n)
		}
	})
}

func countDead(all []*actor) (n int) {
	for _, a := range all {
		if a.isDead() {
			n++
		}
	}
	return n
}

// alter changes the network of a replica.
func (a *actor) alter(do, undo func(n *network)) (mend func()) {
	n := a.s.network(a.name)
	locked := func(change func(n *network)) {
		n.mu.Lock()
		defer n.mu.Unlock()
		change(n)
	}
	locked(do)
	return func() { locked(undo) }
}

// stickSome makes the next calls of a for some of the first pods not return, before the returned function is called.
func (a *actor) stickSome(calls, pods int) (mend func()) {
	stuck := make(chan struct{})
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.sticks = func(key Key) <-chan struct{} {
		var i int
		if _, err := fmt.Sscanf(key.Name, "pod-%d", &i); err != nil || i >= pods || calls == 0 {
			return nil
		}
		calls--
		return stuck
	}
	return func() {
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		a.sticks = nil
		close(stuck)
	}
}
