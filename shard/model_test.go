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
)

var (
	histories = flag.Int("histories", 0, "number of random histories; zero means 40, or 10 with -short")
	seed      = flag.Uint64("seed", 0, "run only the history with this seed")
)

// In random histories, replicas join, leave, are killed and cut off from the server, their clocks are set, the server fails, watches end
// and expire, and pods change. No two replicas reconcile a key at the same time. When all is well again, each slot has one owner, and the
// newest version of each pod was reconciled.
//
// Guarantees: S3
func TestHistories(t *testing.T) {
	if *seed != 0 {
		history(t, *seed)
		return
	}
	n := *histories
	if n == 0 {
		n = 40
		if testing.Short() {
			n = 10
		}
	}
	first := rand.Uint64N(1 << 40)
	if *histories == 0 {
		first = 1
	}
	for i := range uint64(n) {
		if history(t, first+i); t.Failed() {
			t.Fatalf("run it again with -args -seed %d", first+i)
		}
	}
}

// history runs one history.
func history(t *testing.T, seed uint64) {
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
				if !a.isDead() && !isClosed(a.ended) {
					live = append(live, a)
				}
			}
			return live
		}
		join := func() {
			name := fmt.Sprint("r", len(all))
			step("%s joins", name)
			all = append(all, s.join(name, func(a *actor, c *Config) {
				a.takes = between(1, 5*time.Second)
				a.winds = between(1, 2*time.Second)
				c.Fatal = func() { step("%s ends itself", name); a.kill() }
				c.Grace = between(-1, 3*time.Second)
				c.HandOverTimeout = between(-1, 10*time.Second)
			}))
		}
		mends := map[string]func(){}
		mend := func(name string) {
			step("%s is mended", name)
			mends[name]()
			delete(mends, name)
		}
		pods := 0
		for range 1 + random.IntN(3) {
			join()
		}
		for range 10 + random.IntN(25) {
			<-time.After(between(0, 12*time.Second))
			some := live()
			var a *actor
			if len(some) > 0 {
				a = some[random.IntN(len(some))]
			}
			switch what := random.IntN(14); {
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
				step("the server fails")
				mends["server"] = s.server.Inject(informertest.Fault{Drop: true})
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
					pod.Labels = map[string]string{"step": fmt.Sprint(len(s.steps))}
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
		join() // all others may be leaving
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
