package leader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/test/testkit"
)

var (
	histories = flag.Int("histories", 0, "number of random histories; zero means 6, or 100 if tests run whole")
	seed      = flag.Uint64("seed", 0, "seed of the first history; without -histories, run only that one")
)

// In random histories of three replicas with Config.Recover, the server goes away, replicas are cut off, requests are slow, writes land
// late, responses get lost, wall clocks are set, calls of Reconcile do not return, and replicas stop. No two replicas reconcile at the
// same time, and each write is sent by the holder of the lease. After the last fault, one replica writes again in time.
//
//	go test ./leader -race -run TestHistories -timeout 1h -args -histories 1000
//
// Guarantees: E1, E3, E4, E7
func TestHistories(t *testing.T) {
	var total tally
	defer func() { t.Logf("%+v", total) }()
	n, first := cmp.Or(*histories, testkit.Rounds(6, 100)), cmp.Or(*seed, 1)
	if *seed != 0 && *histories == 0 {
		n = 1
	}
	for i := range uint64(n) {
		if history(t, first+i, &total); t.Failed() {
			t.Fatalf("run it again with -args -seed %d", first+i)
		}
	}
	if n > 1 && total.recovered == 0 {
		t.Error("no replica has gone on after an outage")
	}
}

// tally has what has happened in the histories.
type tally struct{ paused, recovered, lost, killed int }

// play is one history.
type play struct {
	*stage
	random *rand.Rand
	all    []*player
	steps  []string

	calls     map[*player]int // of Reconcile under way; protected by stage.mu
	lastWrite time.Time       // protected by stage.mu
}

// player is a replica of a history.
type player struct {
	*Elector
	play   *play
	name   string
	gate   *informer.Gate
	log    testkit.Log
	cancel context.CancelFunc
	ended  chan struct{}
	killed chan struct{} // closed when the process has ended
	skew   atomic.Int64  // of its wall clock

	mu    sync.Mutex    // protects the fields below
	cut   chan struct{} // if not nil, requests hang until it is closed
	late  time.Duration // how long after it is sent a write lands, even if its client gives up
	slow  time.Duration // how long the response to a write needs
	stuck chan struct{} // if not nil, calls of Reconcile do not return until it is closed
}

func (h *play) between(least, most time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return least + time.Duration(h.random.Int64N(int64(most-least)))
}

func (h *play) step(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, fmt.Sprintf("%v ", time.Since(h.began))+fmt.Sprintf(format, args...))
}

// join starts a replica.
func (h *play) join() {
	p := &player{play: h, name: fmt.Sprint("r", len(h.all)), gate: new(informer.Gate), ended: make(chan struct{}), killed: make(chan struct{})}
	h.step("%s joins", p.name)
	h.all = append(h.all, p)
	client := func(gated bool) *informer.Client {
		config := h.server.Config()
		config.QPS = -1
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return line{next, p, gated} })
		client, err := informer.NewClient(config)
		if err != nil {
			h.Fatal(err)
		}
		return client
	}
	e, err := New(client(false), Config{Namespace: "ns", Name: "lease", Identity: p.name, Recover: p.gate, Fatal: p.kill, Logger: slog.New(slog.NewTextHandler(&p.log, nil))})
	if err != nil {
		h.Fatal(err)
	}
	e.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(p.skew.Load())) }
	p.Elector = e
	maps := informer.NewTypedClient[*corev1.ConfigMap](client(true).WithGate(p.gate), corev1.SchemeGroupVersion.WithResource("configmaps"))
	ctl := &informer.Controller[int]{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), MaxConcurrentReconciles: 3, Grace: h.between(-1, 5*time.Second), Queue: informer.NewQueue(informer.QueueConfig[int]{}),
		Reconcile: func(ctx context.Context, key int) (informer.Result, error) { return p.reconcile(ctx, maps) },
	}
	ctl.Queue.AddWith(informer.AddOptions{}, 1, 2, 3, 4, 5)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(h.Context())
	go func() {
		defer close(p.ended)
		_ = e.Run(ctx, ctl.Run)
	}()
}

// reconcile writes an object, or fails.
func (p *player) reconcile(ctx context.Context, maps *informer.TypedClient[*corev1.ConfigMap]) (informer.Result, error) {
	p.count(1)
	defer p.count(-1)
	p.mu.Lock()
	stuck := p.stuck
	p.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-p.killed:
		}
	}
	_ = run.Sleep(ctx, p.play.between(0, 2*time.Second))
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: p.name + "-"}}, metav1.CreateOptions{})
	return informer.Result{RequeueAfter: p.play.between(1, 3*time.Second)}, err
}

// count counts the calls under way, and checks that no other replica has one.
func (p *player) count(n int) {
	h := p.play
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[p] += n
	if run.IsClosed(p.killed) {
		return
	}
	for other, calls := range h.calls {
		if other != p && calls > 0 && !run.IsClosed(other.killed) {
			h.Errorf("%v: %s reconciles while %s does", time.Since(h.began), p.name, other.name)
		}
	}
}

// kill ends the process.
func (p *player) kill() {
	p.play.step("%s ends itself", p.name)
	close(p.killed)
	p.cancel()
}

// line is the way of a replica to the server.
type line struct {
	http.RoundTripper
	p     *player
	gated bool // it is that of the work
}

var errReset = errors.New("connection reset")

func (l line) RoundTrip(r *http.Request) (*http.Response, error) {
	p, write := l.p, r.Method != http.MethodGet
	if run.IsClosed(p.killed) {
		return nil, errReset
	}
	if l.gated && write {
		p.play.sent(p)
	}
	p.mu.Lock()
	cut, late, slow := p.cut, p.late, p.slow
	p.mu.Unlock()
	if cut != nil {
		select {
		case <-cut:
		case <-r.Context().Done():
		}
		return nil, errReset
	}
	if !write || late == 0 && slow == 0 {
		return l.RoundTripper.RoundTrip(r)
	}
	return l.slowly(r, late, slow)
}

// sent checks that the sender of a write holds the lease.
func (h *play) sent(p *player) {
	if l := h.lease(); *l.Spec.HolderIdentity != p.name {
		h.Errorf("%v: %s writes while %s holds the lease", time.Since(h.began), p.name, *l.Spec.HolderIdentity)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastWrite = time.Now()
}

// slowly sends r after the time late, whether its client still waits or not, and holds the response back for the time slow.
func (l line) slowly(r *http.Request, late, slow time.Duration) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	answers := make(chan *http.Response, 1)
	go func() {
		<-testkit.After(late)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
		defer cancel()
		copied := r.Clone(ctx)
		copied.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := l.RoundTripper.RoundTrip(copied)
		if err == nil { // read it here, in case the client has given up
			read, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(read))
		}
		<-testkit.After(slow)
		answers <- resp
	}()
	select {
	case resp := <-answers:
		if resp == nil {
			return nil, errReset
		}
		return resp, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// change changes a replica or its network, and returns a function that undoes that.
func (p *player) change(do func(), undo func()) (mend func()) {
	locked := func(f func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		f()
	}
	locked(do)
	return func() { locked(undo) }
}

// faults are what can happen to a replica, by name. Each returns the mend.
var faults = map[string]func(p *player) (mend func()){
	"is cut off": func(p *player) func() {
		cut := make(chan struct{})
		return p.change(func() { p.cut = cut }, func() { p.cut = nil; close(cut) })
	},
	"writes late": func(p *player) func() {
		late := p.play.between(1, 12*time.Second)
		return p.change(func() { p.late = late }, func() { p.late = 0 })
	},
	"gets slow answers": func(p *player) func() {
		slow := p.play.between(1, 12*time.Second)
		return p.change(func() { p.slow = slow }, func() { p.slow = 0 })
	},
	"gets stuck": func(p *player) func() {
		stuck := make(chan struct{})
		return p.change(func() { p.stuck = stuck }, func() { p.stuck = nil; close(stuck) })
	},
	"has its clock set": func(p *player) func() {
		p.skew.Add(int64(p.play.between(-time.Minute, 30*time.Second)))
		return func() {}
	},
	"stops": func(p *player) func() {
		p.cancel()
		return func() {}
	},
	"loses the server": func(p *player) func() {
		outages := []informertest.Fault{{Drop: true}, {Hang: true}, {Resource: "leases", Drop: true}, {AfterHeaders: true, Hang: true}}
		return p.play.server.Inject(outages[p.play.between(0, time.Duration(len(outages)))])
	},
}

// live returns the replicas that have not ended.
func (h *play) live() []*player {
	return slices.DeleteFunc(slices.Clone(h.all), func(p *player) bool { return run.IsClosed(p.ended) || run.IsClosed(p.killed) })
}

// history runs one history.
func history(t *testing.T, seed uint64, total *tally) {
	onShops(t, func(s *stage) {
		h := &play{stage: s, random: rand.New(rand.NewPCG(seed, 7)), calls: map[*player]int{}}
		names := []string{"is cut off", "writes late", "gets slow answers", "gets stuck", "has its clock set", "stops", "loses the server", "loses the server", "loses the server"}
		mends := map[string]func(){}
		for range 20 {
			for len(h.live()) < 3 {
				h.join()
			}
			<-time.After(h.between(0, 30*time.Second))
			live := h.live()
			if len(live) == 0 {
				continue
			}
			p, name := live[h.between(0, time.Duration(len(live)))], names[h.between(0, time.Duration(len(names)))]
			id := p.name + " " + name
			if name == "loses the server" {
				id = name
			}
			if mend := mends[id]; mend != nil {
				h.step("%s no longer", id)
				mend()
				delete(mends, id)
				continue
			}
			h.step("%s", id)
			mends[id] = faults[name](p)
		}
		h.step("all faults end")
		for _, mend := range mends {
			mend()
		}
		h.join() // the others may have ended
		mended := time.Now()
		// The requests of all workers may still hang, for the 90 s after which a silent connection is given up. A Paused
		// holder may just have been taken for dead, and a candidate waits for the lease.
		<-time.After(3 * time.Minute)
		h.mu.Lock()
		if !h.lastWrite.After(mended) {
			h.Errorf("nobody writes after the last fault")
		}
		h.mu.Unlock()
		for _, p := range h.all {
			total.paused += strings.Count(p.log.String(), "paused:")
			total.recovered += strings.Count(p.log.String(), "leading again")
			total.lost += int(p.Status().Lost)
			if run.IsClosed(p.killed) {
				total.killed++
			}
			p.cancel()
			<-p.ended
		}
		<-time.After(2 * time.Minute) // for writes that land late
		if h.Failed() {
			for _, step := range h.steps {
				h.Log(step)
			}
		}
	})
}
