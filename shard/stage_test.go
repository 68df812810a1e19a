package shard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// stage runs replicas that share pods. It fails the test if two of them reconcile the same key at a time.
type stage struct {
	*testing.T
	server *informertest.Server
	leases *informertest.Collection[*coordinationv1.Lease]
	pods   *informertest.Collection[*corev1.Pod]

	mu         sync.Mutex // protects the fields below
	random     *rand.Rand
	reconciled map[Key]string // the newest resource version that a reconcile saw, or "deleted"
	working    map[Key]string // the replica that is reconciling a key
	calls      int
	steps      []string // for messages
	networks   map[string]*network
	tasks      sync.WaitGroup // of the networks
}

// onStage calls test in a synctest bubble. The server filters by shard if seed is even.
func onStage(t *testing.T, seed uint64, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true, Shards: seed%2 == 0})
		defer server.Close()
		s := &stage{
			T:          t,
			server:     server,
			leases:     informertest.Register[*coordinationv1.Lease](server, informertest.Resource{GroupVersionResource: leasesResource}),
			pods:       informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podsResource}),
			random:     rand.New(rand.NewPCG(seed, 1)),
			reconciled: map[Key]string{},
			working:    map[Key]string{},
			networks:   map[string]*network{},
		}
		defer s.tasks.Wait()
		test(s)
	})
}

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// actor is one replica of the stage: an informer of pods, and a controller.
type actor struct {
	*Replica
	s      *stage
	name   string
	pods   *informer.Informer[*corev1.Pod]
	ctl    *informer.Controller[Key]
	also   *informer.Informer[*corev1.Node] // that the controller watches, and the replica does not follow; nil for none
	dead   chan struct{}                    // closed by kill
	cancel context.CancelFunc
	ended  chan struct{}
	err    error         // of Run
	skew   time.Duration // of the wall clock
	skewMu sync.Mutex    // protects skew

	least        time.Duration             // the shortest time that a call needs after its context has ended
	keeps        time.Duration             // see keepPeriod; by default a second, so that all is settled soon
	sticks       func(Key) <-chan struct{} // a call for the key returns when the channel is closed, whatever its context; nil for others
	takes, winds time.Duration             // the longest time that a call of Reconcile takes, and then needs after its context has ended
}

// join starts a replica.
func (s *stage) join(name string, change ...func(*actor, *Config)) *actor {
	s.Helper()
	config := Config{
		Namespace: "ns", Name: "group", Identity: name, Slots: 16,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Fatal:  func() { s.Errorf("%s: Fatal", name) },
	}
	a := &actor{s: s, name: name, dead: make(chan struct{}), ended: make(chan struct{}), takes: 300 * time.Millisecond, winds: time.Second, keeps: time.Second}
	for _, c := range change {
		c(a, &config)
	}
	var err error
	if a.Replica, err = New(s.client(name), config); err != nil {
		s.Fatal(err)
	}
	a.keepHeld = a.keeps
	a.wall = func() time.Time {
		a.skewMu.Lock()
		defer a.skewMu.Unlock()
		return time.Now().Round(0).Add(a.skew)
	}
	quiet := slog.New(slog.DiscardHandler)
	a.pods = informer.New(s.client(name), informer.Resource{GroupVersionResource: podsResource, Shard: informer.Shard{Field: config.Field}}, informer.Config[*corev1.Pod]{Logger: quiet})
	a.ctl = &informer.Controller[Key]{Reconcile: a.reconcile, MaxConcurrentReconciles: 4, Logger: quiet}
	a.Follow(a.pods)
	Control(a.Replica, a.ctl, func(key Key) uint64 {
		if config.Field == informer.ShardByNamespace {
			return ByNamespace(key.Key)
		}
		return ByUID(key)
	})
	a.ctl.Watch(EnqueueObject(a.pods))
	if a.also != nil {
		a.ctl.Watch(informer.Enqueue(a.also, func(*corev1.Node) []Key { return nil }))
	}
	ctx, cancel := context.WithCancel(s.Context())
	a.cancel = cancel
	go func() {
		defer close(a.ended)
		a.err = a.Run(ctx, func(ctx context.Context) error {
			var all sync.WaitGroup
			defer all.Wait()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			all.Go(func() { _ = a.pods.Run(ctx) })
			if a.also != nil {
				all.Go(func() { _ = a.also.Run(ctx) })
			}
			return a.ctl.Run(ctx)
		})
	}()
	s.Cleanup(func() { a.leave() })
	return a
}

func (s *stage) client(name string) *informer.Client {
	r := s.server.Config()
	r.UserAgent = name
	r.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return link{rt, s.network(name)} }
	return must(informer.NewClient(r))
}

// network returns the network of a replica.
func (s *stage) network(name string) *network {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.networks[name] == nil {
		s.networks[name] = &network{tasks: &s.tasks}
	}
	return s.networks[name]
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// leave ends the replica, and waits until Run has returned.
func (a *actor) leave() {
	a.cancel()
	<-a.ended
}

// kill ends the replica as SIGKILL does: it sends nothing more, and its calls of Reconcile have ended.
func (a *actor) kill() {
	a.s.isolate(a.name)
	a.s.mu.Lock()
	if !run.IsClosed(a.dead) {
		close(a.dead)
	}
	maps.DeleteFunc(a.s.working, func(_ Key, name string) bool { return name == a.name })
	a.s.mu.Unlock()
	a.cancel()
}

func (a *actor) isDead() bool { return run.IsClosed(a.dead) }

// isolate makes new requests of a replica hang, until its network is mended. They break off then.
func (s *stage) isolate(name string) (mend func()) {
	n, cut := s.network(name), make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cut == cut { // otherwise the process was killed
			n.cut = nil
		}
		close(cut)
	}
}

func (a *actor) reconcile(ctx context.Context, key Key) (informer.Result, error) {
	takes, winds, stuck := a.s.begin(a, key)
	if takes < 0 {
		return informer.Result{}, nil
	}
	defer a.s.end(a, key)
	if stuck != nil {
		takes = 0
		select {
		case <-stuck:
		case <-a.dead:
			return informer.Result{}, nil
		}
	}
	select {
	case <-testkit.After(takes):
	case <-a.dead:
		return informer.Result{}, nil
	case <-ctx.Done():
		<-time.After(winds)
		return informer.Result{}, ctx.Err()
	}
	version := "deleted"
	if pod, ok := a.pods.Store().Get(key.Key); ok && pod.UID == key.UID {
		version = pod.ResourceVersion
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if !a.isDead() {
		a.s.reconciled[key] = version
	}
	return informer.Result{}, nil
}

// begin returns how long to work, or less than zero for a process that has ended. If stuck is not nil, the call returns when it is closed.
func (s *stage) begin(a *actor, key Key) (takes, winds time.Duration, stuck <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.isDead() {
		return -1, 0, nil
	}
	if other := s.working[key]; other != "" {
		s.Errorf("%v: %s reconciles %v while %s does; history: %q", s.time(), a.name, key, other, s.steps)
	}
	s.working[key] = a.name
	s.calls++
	if a.sticks != nil {
		stuck = a.sticks(key)
	}
	return time.Duration(s.random.Int64N(int64(a.takes) + 1)), a.least + time.Duration(s.random.Int64N(int64(a.winds-a.least)+1)), stuck
}

func (s *stage) end(a *actor, key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.isDead() {
		delete(s.working, key)
	}
}

// time returns the time since the beginning of the test.
func (s *stage) time() time.Duration {
	return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Round(time.Millisecond)
}

// create creates pods.
func (s *stage) create(namespace string, from, to int) {
	s.Helper()
	for i := from; i < to; i++ {
		must(s.pods.Create(newPod(namespace, fmt.Sprintf("pod-%d", i))))
	}
}

// owners returns the names of the replicas that own each slot.
func (s *stage) owners(actors ...*actor) (owners [][]string) {
	synctest.Wait()
	for slot := range 16 {
		var names []string
		for _, a := range actors {
			if !a.isDead() && a.Owns(uint64(slot)<<60) {
				names = append(names, a.name)
			}
		}
		owners = append(owners, names)
	}
	return owners
}

// wantSettled fails the test unless each slot has one owner, each owner has its share and holds its objects only, audits find no
// difference, and the newest version of each pod was reconciled.
func (s *stage) wantSettled(actors ...*actor) {
	s.Helper()
	for slot, names := range s.owners(actors...) {
		if len(names) != 1 {
			s.Errorf("%v: slot %d belongs to %q", s.time(), slot, names)
		}
	}
	total, compared := 0, 0
	for _, a := range actors {
		if a.isDead() || run.IsClosed(a.ended) {
			continue
		}
		switch r, err := a.pods.Audit(s.Context()); {
		case err != nil:
			s.Errorf("%s: an audit failed: %v", a.name, err)
		case r.Differ > 0 || r.Unclear > 0:
			s.Errorf("%s: an audit found %+v", a.name, r)
		default:
			compared += r.Objects
		}
		status := a.Status()
		if status.Owned != status.Planned || status.Held != status.Planned || status.Claimed != status.Planned {
			s.Errorf("%v: %s: the status is %+v", s.time(), a.name, status)
		}
		for pod := range a.pods.Store().All() {
			total++
			if !status.Shard.Has(pod) {
				s.Errorf("%s holds %s", a.name, pod.Name)
			}
		}
	}
	if total != s.pods.Len() {
		s.Errorf("the replicas hold %d pods, want %d", total, s.pods.Len())
	}
	if compared != total {
		s.Errorf("audits compared %d pods, want %d", compared, total)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for pod := range s.pods.All() {
		if got := s.reconciled[KeyOf(pod)]; got != pod.ResourceVersion {
			s.Errorf("%v: %s was reconciled at %q, and is at %s", s.time(), pod.Name, got, pod.ResourceVersion)
		}
	}
}

// claims returns the claims in the Leases by identity.
func (s *stage) claims() map[string]string {
	claims := map[string]string{}
	for lease := range s.leases.All() {
		claims[*lease.Spec.HolderIdentity] = lease.Annotations[claimsAnnotation]
	}
	return claims
}

func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// labelled returns a pod with a new label.
func labelled(s *stage, name string) *corev1.Pod {
	pod, ok := s.pods.Get(informer.Key{Namespace: "ns", Name: name})
	if !ok {
		s.Fatalf("there is no pod %s", name)
	}
	pod = pod.DeepCopy()
	pod.Labels = map[string]string{"at": fmt.Sprint(time.Now().Unix())}
	return pod
}
