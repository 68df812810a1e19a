package shard

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/run"
)

// The flags of TestSimulation. docs/scale.md has the results of larger groups.
var (
	simReplicas = flag.Int("replicas", 10, "simulation: replicas")
	simSlots    = flag.Int("slots", 256, "simulation: slots")
	simFor      = flag.Duration("for", 3*time.Minute, "simulation: virtual time of random churn")
	simEvery    = flag.Duration("every", 20*time.Second, "simulation: mean time between two random changes")
	simChanges  = flag.Int("changes", 3, "simulation: replicas that join, leave and are killed one by one")
	simPace     = flag.Duration("pace", 5*time.Second, "simulation: in a rolling update, how long a new replica runs before the old one leaves, and that before the next")
	simOutages  = flag.Int("outages", 2, "simulation: outages of the API server")
	simOutage   = flag.Duration("outage", 2*time.Minute, "simulation: the longest of them; the shortest is LeaseDuration")
	simUpdate   = flag.Bool("rolling", true, "simulation: a rolling update")
	simObjects  = flag.Int("objects", 1_000_000, "simulation: objects of the collection")
	simObject   = flag.Duration("object", 24*time.Microsecond, "simulation: time to list one object")
	simSlow     = flag.Float64("slow", 0.05, "simulation: fraction of the lists that take 1 s to 30 s more")
	simCall     = flag.Duration("call", 100*time.Millisecond, "simulation: the longest call of Reconcile")
	simLease    = flag.Duration("lease", 15*time.Second, "simulation: LeaseDuration")
)

// Replicas with the real code of this package share the slots, in virtual time, while replicas join, leave, are killed and replaced by
// a rolling update. Informers and controllers are models: a list takes as long as the measured time of its objects, and some take much
// longer. The server is informertest; each request takes 2 ms to 20 ms. No slot has two owners at a time. At the end of each part, each
// slot has the owner of the plan. In an outage of the server that is longer than the leases, no slot has an owner; after it, each has one
// in time. With -v, the test prints what a change costs.
//
//	go test ./shard -run TestSimulation -v -timeout 1h -args -replicas 100 -slots 1024 -for 30m
//
// Guarantees: S3
func TestSimulation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t)
		defer s.server.Close()
		s.run()
	})
}

// simulation is a group of replicas, and the observations of it.
type simulation struct {
	*testing.T
	server *informertest.Server
	hashes []uint64 // the first of each slot

	mu       sync.Mutex // protects the fields below
	random   *rand.Rand
	joined   int
	parts    []*part // the replicas that run
	owner    []*part // for each slot, the replica that owns it
	working  []*part // for each slot, the replica whose calls of Reconcile may be under way
	gaps     []gap   // for each slot, since when it has no owner
	heirs    []*part // for each slot, the replica that should have it
	moves    []gap   // for each slot, since when it has another heir than owner
	requests map[string]int
	kinds    map[string]*figures
	all      []*part // also those that have ended
	lists    int     // calls of SetShard that list
	aborted  int     // of those, the calls that a newer one ended
	listed   float64 // collections, if the server filters: two lists of a half are one
	replays  int     // calls of Controller.Replay
}

// gap is a time that a slot waits.
type gap struct {
	since time.Time // zero means that it does not wait
	kind  string    // of the change that is the reason
}

// figures are the observations of one kind of change.
type figures struct {
	changes   int
	moved     int     // slots with another heir
	ideal     float64 // 1/n of the slots for each change
	handOver  []time.Duration
	ownerless []time.Duration
}

func newSimulation(t *testing.T) *simulation {
	s := &simulation{
		T:        t,
		random:   rand.New(rand.NewPCG(cmp.Or(*seed, 1), 3)),
		owner:    make([]*part, *simSlots),
		working:  make([]*part, *simSlots),
		gaps:     make([]gap, *simSlots),
		heirs:    make([]*part, *simSlots),
		moves:    make([]gap, *simSlots),
		requests: map[string]int{},
		kinds:    map[string]*figures{"other": {}}, // moves of a plan that was replaced before they were complete
	}
	for slot := range *simSlots {
		s.hashes = append(s.hashes, setOf(*simSlots, slot).shard(informer.ShardByUID).Ranges[0].First)
	}
	s.server = informertest.NewServer(informertest.Options{InMemory: true, Middleware: s.delay})
	informertest.Register[*coordinationv1.Lease](s.server, informertest.Resource{GroupVersionResource: leasesResource})
	return s
}

// delay counts the requests, and makes them take time. Those of a process that was killed hang.
func (s *simulation) delay(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb := r.Method
		if r.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		s.mu.Lock()
		s.requests[verb]++
		takes := s.betweenLocked(2*time.Millisecond, 20*time.Millisecond)
		dead := slices.ContainsFunc(s.parts, func(p *part) bool { return p.config.Identity == r.UserAgent() && p.dead })
		s.mu.Unlock()
		if dead {
			<-r.Context().Done()
			return
		}
		time.Sleep(takes)
		next.ServeHTTP(w, r)
	})
}

func (s *simulation) between(least, most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.betweenLocked(least, most)
}

func (s *simulation) betweenLocked(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)+1))
}

// part is one replica of a simulation.
type part struct {
	*Replica
	s      *simulation
	cancel context.CancelFunc
	ended  chan struct{}
	has    []bool // the slots of the last SetShard that returned nil; the replica has one call under way at a time

	// protected by simulation.mu
	dead, leaving bool
	owned         slotSet
	leases        *informer.Informer[*coordinationv1.Lease]
}

// join starts a replica.
func (s *simulation) join(kind string) *part {
	s.Helper()
	s.mu.Lock()
	p := &part{s: s, ended: make(chan struct{}), owned: make(slotSet, *simSlots)}
	name := fmt.Sprint("replica-", s.joined)
	s.joined++
	s.mu.Unlock()
	config := s.server.Config()
	config.UserAgent = name
	p.Replica = must(New(must(informer.NewClient(config)), Config{
		Namespace: "ns", Name: "group", Identity: name, Slots: *simSlots, LeaseDuration: *simLease,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Fatal: func() {
			if !p.dead {
				s.Errorf("%s: Fatal", name)
			}
		},
	}))
	p.Follow(p)
	p.controllers = append(p.controllers, controller{own: p.own, synced: func(context.Context) error { return nil }, replay: p.replay, release: p.release, inWork: func(func(uint64) bool) []Call { return nil }})
	s.change(kind, func() { s.parts, s.all = append(s.parts, p), append(s.all, p) })
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(s.Context())
	go func() {
		defer close(p.ended)
		_ = p.Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			p.stop()
			return nil
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.parts = slices.DeleteFunc(s.parts, func(other *part) bool { return other == p })
	}()
	return p
}

// leave ends a replica, and does not wait.
func (s *simulation) leave(kind string, p *part) {
	s.change(kind, func() { p.leaving = true })
	p.cancel()
}

// kill ends a replica as SIGKILL does.
func (s *simulation) kill(kind string, p *part) {
	s.change(kind, func() {
		p.dead = true
		for slot := range s.owner {
			if s.working[slot] == p {
				s.working[slot] = nil
			}
			if s.owner[slot] == p {
				s.owner[slot], s.gaps[slot] = nil, gap{time.Now(), kind}
			}
		}
	})
	p.cancel()
}

// stop ends the work of a replica that has left. If it has not handed over all slots in time, the rest has no owner.
func (p *part) stop() {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot := range s.owner {
		if s.working[slot] == p {
			s.working[slot] = nil
		}
		if s.owner[slot] == p {
			s.owner[slot], s.gaps[slot] = nil, gap{time.Now(), cmp.Or(s.moves[slot].kind, "other")}
		}
	}
}

// change changes the group, and notes which slots move.
func (s *simulation) change(kind string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.liveLocked())
	do()
	live := s.liveLocked()
	f := s.kinds[kind]
	if f == nil {
		f = &figures{}
		s.kinds[kind] = f
	}
	f.changes++
	f.ideal += float64(*simSlots) / float64(max(before, len(live)))
	var names []string
	for _, p := range live {
		names = append(names, p.config.leaseName())
	}
	for slot, i := range plan(names, *simSlots) {
		var heir *part
		if i >= 0 {
			heir = live[i]
		}
		if heir == s.heirs[slot] {
			continue
		}
		f.moved++
		s.heirs[slot] = heir
		switch {
		case s.owner[slot] == heir:
			s.moves[slot] = gap{}
		case s.moves[slot].since.IsZero():
			s.moves[slot] = gap{time.Now(), kind}
		}
	}
}

// liveLocked returns the replicas that take part in the plan.
func (s *simulation) liveLocked() (live []*part) {
	for _, p := range s.parts {
		if !p.dead && !p.leaving {
			live = append(live, p)
		}
	}
	return live
}

func (s *simulation) live() []*part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.liveLocked()
}

// own is Controller.Own: the table of the replica has changed.
func (p *part) own() {
	session := p.session.Load()
	if session == nil {
		return
	}
	table := *session.table.slots.Load()
	s, now := p.s, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	p.leases = session.roster.leases
	if p.dead {
		return
	}
	for slot, o := range table {
		owns := o == informer.KeyOwned
		if owns == p.owned[slot] {
			continue
		}
		p.owned[slot] = owns
		move := s.moves[slot]
		if !owns {
			if s.owner[slot] == p {
				s.owner[slot], s.gaps[slot] = nil, gap{now, cmp.Or(move.kind, "other")}
			}
			continue
		}
		s.wantFreeLocked(slot, p)
		s.owner[slot], s.working[slot] = p, p
		if g := s.gaps[slot]; !g.since.IsZero() {
			s.kinds[g.kind].ownerless = append(s.kinds[g.kind].ownerless, now.Sub(g.since))
			s.gaps[slot] = gap{}
		}
		if s.heirs[slot] == p && !move.since.IsZero() {
			s.kinds[move.kind].handOver = append(s.kinds[move.kind].handOver, now.Sub(move.since))
			s.moves[slot] = gap{}
		}
	}
}

// wantFreeLocked fails the test if a replica other than p may reconcile a key of slot.
func (s *simulation) wantFreeLocked(slot int, p *part) {
	hash := p.hash(slot)
	for _, other := range s.parts {
		if other != p && !other.dead && (s.working[slot] == other || other.Owns(hash)) {
			s.Errorf("slot %d belongs to %s and %s", slot, other.config.Identity, p.config.Identity)
		}
	}
}

// hash returns the first hash in slot.
func (p *part) hash(slot int) uint64 { return p.s.hashes[slot] }

// replay is Controller.Replay.
func (p *part) replay(ctx context.Context, _ func(uint64) bool) error {
	p.s.mu.Lock()
	p.s.replays++
	p.s.mu.Unlock()
	if run.Sleep(ctx, p.s.between(0, 20*time.Millisecond)) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// release is Controller.WaitReleased: a call of Reconcile takes up to -call.
func (p *part) release(ctx context.Context, in func(uint64) bool) {
	_ = run.Sleep(ctx, p.s.between(0, *simCall))
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for slot, worker := range p.s.working {
		if worker == p && in(p.hash(slot)) {
			p.s.working[slot] = nil
		}
	}
}

// SetShard is that of an informer.
func (p *part) SetShard(ctx context.Context, shard informer.Shard) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // the informer does not run yet
	}
	slots, comes := make([]bool, *simSlots), 0 // comes: the slots that the informer does not have
	for slot := range slots {
		hash := p.hash(slot)
		slots[slot] = len(shard.Ranges) == 0 || slices.ContainsFunc(shard.Ranges, func(r informer.HashRange) bool { return r.First <= hash && hash <= r.Last })
		if slots[slot] && (p.has == nil || !p.has[slot]) {
			comes++
		}
	}
	if comes == 0 {
		p.has = slots // without a list
		return nil
	}
	s, share := p.s, float64(comes)/float64(*simSlots)
	s.mu.Lock()
	takes := s.betweenLocked(*simObject*3/4, *simObject*3/2) * time.Duration(share*float64(*simObjects))
	if s.random.Float64() < *simSlow {
		takes += s.betweenLocked(time.Second, 30*time.Second)
	}
	if !p.dead {
		s.lists++
		s.listed += share
	}
	s.mu.Unlock()
	if run.Sleep(ctx, takes) == nil {
		p.has = slots
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.dead && !p.leaving {
		s.aborted++
	}
	return context.Cause(ctx)
}

// run runs all parts of the simulation.
func (s *simulation) run() {
	s.Logf("%d replicas, %d slots, LeaseDuration %v, %d objects", *simReplicas, *simSlots, *simLease, *simObjects)
	s.part("start", func() {
		for range *simReplicas {
			s.join("start")
			time.Sleep(s.between(0, 20*time.Second/time.Duration(*simReplicas)))
		}
	})
	s.part("idle", func() { time.Sleep(time.Minute) })
	for _, kind := range []string{"join", "leave", "kill"} {
		s.part(kind, func() {
			for range *simChanges {
				if kind == "leave" && len(s.live()) == 1 {
					break
				}
				s.one(kind, kind)
				s.settle()
				if kind == "kill" {
					s.join("join") // so that the group stays as large as it is
					s.settle()
				}
				time.Sleep(s.between(0, 5*time.Second))
			}
		})
	}
	if *simUpdate {
		s.part("rolling update", func() {
			for _, old := range s.live() {
				s.join("update: join")
				time.Sleep(*simPace)
				s.leave("update: leave", old)
				time.Sleep(*simPace)
			}
		})
	}
	s.part("outage", s.outages)
	s.part("churn", func() {
		for end := time.Now().Add(*simFor); time.Now().Before(end); {
			kind := []string{"join", "leave", "kill"}[s.between(0, 2)]
			switch n := len(s.live()); {
			case n < *simReplicas*3/4 || n < 2:
				kind = "join"
			case n > *simReplicas*5/4+1:
				kind = "leave"
			}
			s.one("churn: "+kind, kind)
			time.Sleep(s.between(0, 2**simEvery))
		}
	})
	s.report()
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, p := range all {
		p.cancel()
	}
	for _, p := range all {
		<-p.ended
	}
}

// outages stops the server for longer than the leases last, and measures how long after its return slots have no owner.
func (s *simulation) outages() {
	for range *simOutages {
		took := s.between(*simLease, max(*simLease, *simOutage))
		s.server.Stop()
		time.Sleep(took)
		s.mu.Lock()
		for slot, p := range s.owner {
			if p != nil {
				s.Errorf("after %v without a server, slot %d belongs to %s", took, slot, p.config.Identity)
			}
			s.gaps[slot] = gap{time.Now(), "outage: from the server's return"}
		}
		f := s.kinds["outage: from the server's return"]
		if f == nil {
			f = &figures{}
			s.kinds["outage: from the server's return"] = f
		}
		f.changes++
		s.mu.Unlock()
		s.server.Start()
		s.waitOwned()
		s.settle()
		time.Sleep(s.between(0, 5*time.Second))
	}
}

// waitOwned waits until each slot has an owner.
func (s *simulation) waitOwned() {
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		s.mu.Lock()
		none := 0
		for _, p := range s.owner {
			if p == nil {
				none++
			}
		}
		s.mu.Unlock()
		if none == 0 {
			return
		}
		if took := time.Since(begin); took > takeOver+maxBackoff {
			s.Fatalf("%v after the server's return, %d slots have no owner", took, none)
		}
	}
}

// one changes the group by one replica.
func (s *simulation) one(kind, what string) {
	some := s.live()
	p := some[s.between(0, time.Duration(len(some)-1))]
	switch what {
	case "join":
		s.join(kind)
	case "leave":
		s.leave(kind, p)
	case "kill":
		s.kill(kind, p)
	}
}

// settle waits until each slot has the owner of the plan.
func (s *simulation) settle() {
	begin := time.Now()
	for {
		s.mu.Lock()
		waiting := 0
		for _, m := range s.moves {
			if !m.since.IsZero() {
				waiting++
			}
		}
		s.mu.Unlock()
		if waiting == 0 {
			return
		}
		if time.Since(begin) > 5*time.Minute {
			s.Fatalf("%d slots do not have the owner of the plan", waiting)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// part runs one part of the simulation, and reports what it cost the server.
func (s *simulation) part(name string, do func()) {
	begin := time.Now()
	requests, lists, aborted, listed, replays := s.requests, s.lists, s.aborted, s.listed, s.replays
	s.requests = map[string]int{}
	events, bytes := s.watched()
	do()
	s.settle()
	time.Sleep(5 * time.Second)
	took := time.Since(begin).Seconds()
	events2, bytes2 := s.watched()
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot, p := range s.owner {
		if p == nil || p != s.heirs[slot] {
			s.Errorf("%s: slot %d has the wrong owner", name, slot)
		}
	}
	most := slices.Max(s.loadLocked())
	mean := float64(*simSlots) / float64(len(s.liveLocked()))
	s.Logf("%s, %.0f s: %d replicas, largest shard %.2f of the mean; Leases: %.2f writes/s, %.1f events/s, %.1f kB/s; %d lists of informers (%d aborted) of %.2f collections, %d replays; requests %v",
		name, took, len(s.liveLocked()), float64(most)/mean, float64(s.requests["PUT"]+s.requests["POST"]+s.requests["DELETE"])/took,
		float64(events2-events)/took, float64(bytes2-bytes)/took/1000, s.lists-lists, s.aborted-aborted, s.listed-listed, s.replays-replays, s.requests)
	for verb, n := range requests {
		s.requests[verb] += n
	}
}

// loadLocked returns the number of slots of each replica.
func (s *simulation) loadLocked() (load []int) {
	for _, p := range s.liveLocked() {
		load = append(load, p.owned.count())
	}
	return load
}

// watched returns the events and bytes of the watches of all Leases so far.
func (s *simulation) watched() (events, bytes int64) {
	synctest.Wait()
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, p := range all {
		if p.leases == nil {
			continue
		}
		for _, r := range p.leases.Status().Reflectors {
			events, bytes = events+r.Traffic.Events, bytes+r.Traffic.Bytes
		}
	}
	return events, bytes
}

// report prints the figures of each kind of change.
func (s *simulation) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString("\n| change | changes | slots moved, of the ideal | hand-over p50 | p99 | max | slots without an owner | time without an owner p50 | p99 | max |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		f := s.kinds[kind]
		fmt.Fprintf(&b, "| %s | %d | %.2f | %v | %v | %v | %d | %v | %v | %v |\n", kind, f.changes,
			float64(f.moved)/max(f.ideal, 1), quantile(f.handOver, 0.5), quantile(f.handOver, 0.99), quantile(f.handOver, 1),
			len(f.ownerless), quantile(f.ownerless, 0.5), quantile(f.ownerless, 0.99), quantile(f.ownerless, 1))
	}
	s.Log(b.String())
}

// quantile returns the q-quantile of times.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[int(q*float64(len(times)-1)+0.5)].Round(time.Millisecond)
}
