package set

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// A handler that joins later first gets the objects of all members, and later members join it. Once it is closed, no
// call begins, also for members that are being removed. Guarantees: N1
func TestSubscriptionHasAllMembers(t *testing.T) {
	onStage(t, config{}, []string{"a", "b", "c"}, func(s *stage) {
		for _, name := range []string{"a", "b", "c"} {
			s.create(name, "x", "v=1")
		}
		s.add("a", "b")
		s.run()
		s.must(s.set.WaitSynced(s.Context()))
		rec := &recorder{}
		sub := s.set.Subscribe(rec, SubscriptionConfig{Name: "late"})
		s.must(sub.WaitSynced(s.Context()))
		for _, name := range []string{"a", "b"} {
			rec.of(name).Want(s.T, "add ns/x 1 initial=true")
		}
		s.add("c")
		s.must(sub.WaitSynced(s.Context()))
		rec.of("c").Want(s.T, "add ns/x 1 initial=true")
		if status := sub.Status(); status.Name != "late" || !status.Synced || !sub.HasSynced() || sub.Err() != nil {
			s.Errorf("status: %+v, %v", status, sub.Err())
		}

		release := rec.hold()
		s.create("a", "y", "v=1")
		s.create("b", "y", "v=1")
		synctest.Wait() // a call for each is under way
		s.set.Remove("a", Deliver)
		sub.Close()
		sub.Close()
		synctest.Wait()
		select {
		case <-sub.Done():
			s.Error("Done is closed while calls are under way")
		default:
		}
		release()
		<-sub.Done()
		s.create("c", "y", "v=1")
		rec.of("a").Want(s.T, "add ns/y 1 initial=false")
		rec.of("b").Want(s.T, "add ns/y 1 initial=false")
		rec.of("c").Want(s.T)
		for _, err := range []error{sub.Err(), sub.WaitSynced(s.Context())} {
			if !errors.Is(err, informer.ErrClosed) {
				s.Errorf("after Close: %v", err)
			}
		}
		if len(s.set.parts) > 0 {
			s.Error("the set keeps the subscription")
		}
	})
}

// WaitSynced of a subscription names the members that are missing, and a wrong one ends at once.
// Guarantees: N2
func TestSubscriptionNamesWhatIsMissing(t *testing.T) {
	onStage(t, config{}, []string{"a", "b"}, func(s *stage) {
		s.hang("b")
		s.add("a", "b")
		s.run()
		sub := s.set.Subscribe(&recorder{}, SubscriptionConfig{})
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		if err := sub.WaitSynced(ctx); err == nil || !strings.HasPrefix(err.Error(), "1 of 2 members are not synced: b: ") {
			s.Errorf("WaitSynced: %v", err)
		}
		s.set.Remove("b", Deliver)
		s.must(sub.WaitSynced(s.Context())) // also before b has ended
		if !sub.HasSynced() || sub.Err() != nil {
			s.Errorf("after the removal: %v", sub.Err())
		}
		for _, wrong := range []*Subscription{
			s.set.Subscribe(nil, SubscriptionConfig{}),
			s.set.Subscribe(&recorder{}, SubscriptionConfig{Resync: -1}),
		} {
			<-wrong.Done()
			if err := wrong.WaitSynced(s.Context()); err == nil || wrong.Err() == nil {
				s.Error("a wrong subscription is open")
			}
			wrong.Close()
		}
	})
}

// A handler may change the set and its own subscription.
// Guarantees: N1
func TestHandlersMayChangeTheSet(t *testing.T) {
	onStage(t, config{}, []string{"a", "b"}, func(s *stage) {
		s.create("a", "x")
		s.create("b", "x")
		var sub *Subscription
		ready := make(chan struct{})
		sub = s.set.Subscribe(HandlerFuncs[string, *corev1.Pod]{AddFunc: func(id string, _ *corev1.Pod, _ bool) {
			<-ready
			switch id {
			case "a":
				s.set.Remove("a", Silent)
				s.add("b")
			case "b":
				sub.Close()
				s.set.Remove("b", Deliver)
			}
		}}, SubscriptionConfig{})
		close(ready)
		s.add("a")
		s.run()
		<-sub.Done()
		s.wantMembers()
	})
}

// A lookup yields the objects of all members, ordered by member, then by key. A snapshot never changes.
// Guarantees: N5
func TestIndexAndSnapshotHaveAllMembers(t *testing.T) {
	onStage(t, config{}, []string{"a", "b", "c"}, func(s *stage) {
		byLabel := func(id string, p *corev1.Pod) []string { return []string{p.Labels["v"], id + p.Labels["v"]} }
		early := NewIndex(s.set, byLabel)
		s.create("b", "y", "v=1")
		s.create("b", "x", "v=1")
		s.create("b", "z", "v=2")
		s.create("a", "x", "v=1")
		s.create("c", "x", "v=2")
		s.add("b", "a")
		s.run()
		s.must(s.set.WaitSynced(s.Context()))
		late := NewIndex(s.set, byLabel)
		snap := s.set.Snapshot()
		s.add("c")
		s.must(s.set.WaitSynced(s.Context()))
		wants := func(what string, got []string, want ...string) {
			s.Helper()
			if !slices.Equal(got, want) {
				s.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		for name, x := range map[string]*Index[string, *corev1.Pod, string]{"early": early, "late": late} {
			wants(name+" 1", lines(x.Lookup("1")), "b x 1", "b y 1", "a x 1")
			wants(name+" 2", lines(x.Lookup("2")), "b z 2", "c x 2")
			wants(name+" b1", lines(x.Lookup("b1")), "b x 1", "b y 1")
			wants(name+" 3", lines(x.Lookup("3")))
		}
		for range early.Lookup("1") {
			break
		}
		s.set.Remove("b", Deliver)
		wants("after a removal", lines(early.Lookup("1")), "a x 1")
		synctest.Wait()
		all := []string{"b x 1", "b y 1", "b z 2", "a x 1"}
		wants("old snapshot", lines(snap.All()), all...)
		wants("new snapshot", lines(s.set.Snapshot().All()), "a x 1", "c x 2")
		if b, ok := snap.Member("b"); !ok || b.Len() != 3 || snap.Len() != 4 || b.ResourceVersion() == "" {
			s.Errorf("snapshot: %v, %d objects", ok, snap.Len())
		}
		if _, ok := snap.Member("c"); ok {
			s.Error("the snapshot has a later member")
		}
		var members []string
		for id := range snap.Members() {
			members = append(members, id)
		}
		wants("members", members, "b", "a")
	})
}

// key is a key of a queue.
type key struct{ member, pod string }

// reconciled collects the keys that a controller reconciles.
type reconciled struct {
	mu   sync.Mutex // protects keys
	keys []key
}

func (r *reconciled) add(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, k)
}

// take returns the keys since the last take, sorted.
func (r *reconciled) take() []key {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := r.keys
	r.keys = nil
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.member+a.pod, b.member+b.pod) })
	return keys
}

// Each key of an event is added once: no worker can take it, and again for the same event.
// Guarantees: Q15
func TestEnqueueAddsEachKeyOnce(t *testing.T) {
	q := informer.NewQueue(informer.QueueConfig[key]{})
	h := enqueuer[string, *corev1.Pod, key]{q, func(id string, p *corev1.Pod) []key {
		if n := q.Len(); n > 0 {
			t.Errorf("%d keys are in the queue, although those of %s are not known yet", n, p.Labels)
		}
		return []key{{id, p.Name}, {id, p.Labels["v"]}}
	}}
	h.OnUpdate("a", world.NewPod("ns", "x", "v=1"), world.NewPod("ns", "x", "v=2"))
	for _, want := range []key{{"a", "x"}, {"a", "1"}, {"a", "2"}} {
		if got, err := q.Get(t.Context()); err != nil || got != want {
			t.Errorf("the queue has %v, %v, want %v", got, err, want)
		}
	}
	if n := q.Len(); n != 0 {
		t.Errorf("%d keys more", n)
	}
}

// A controller has the keys of all members. One that hangs keeps it neither from starting nor from working.
// Guarantees: N2
func TestControllerOfAllMembers(t *testing.T) {
	onStage(t, config{}, []string{"a", "b", "hung"}, func(s *stage) {
		s.create("a", "x")
		s.create("b", "y")
		s.hang("hung")
		var seen reconciled
		c := &informer.Controller[key]{Logger: quiet, Reconcile: func(_ context.Context, k key) (informer.Result, error) {
			seen.add(k)
			return informer.Result{}, nil
		}}
		s.add("a", "hung")
		sub := c.Watch(Enqueue(s.set, func(id string, p *corev1.Pod) []key { return []key{{id, p.Name}} }))
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(s.Context())
		go func() { ended <- c.Run(ctx) }()
		s.run()
		time.Sleep(startPatience - time.Second)
		wants := func(want ...key) {
			s.Helper()
			if got := seen.take(); !slices.Equal(got, want) {
				s.Errorf("reconciled %v, want %v", got, want)
			}
		}
		wants()
		time.Sleep(2 * time.Second)
		wants(key{"a", "x"})
		s.add("b")
		wants(key{"b", "y"})
		_, err := s.servers["b"].pods.Delete(informer.Key{Namespace: "ns", Name: "y"})
		s.must(err)
		wants(key{"b", "y"})
		s.must(c.Replay(s.Context(), func(k key) bool { return k.member == "a" }))
		wants(key{"a", "x"})
		s.set.Remove("a", Deliver)
		wants(key{"a", "x"})
		if !sub.HasSynced() {
			s.Error("the source is not synced")
		}
		sub.Close()
		<-sub.Done()
		cancel()
		<-ended
	})
}

// A controller with OwnWrites waits for the store of the member that has the object.
// Guarantees: N5
func TestControllerReadsItsOwnWrites(t *testing.T) {
	onStage(t, config{}, []string{"a", "b"}, func(s *stage) {
		s.create("a", "x", "v=1")
		s.create("b", "x", "v=1")
		hold := s.servers["b"].server.Hold(informertest.Watches{})
		var conflicts atomic.Int64
		pods := map[string]*informer.TypedClient[*corev1.Pod]{}
		for name, h := range s.servers {
			pods[name] = informer.NewTypedClient[*corev1.Pod](h.client, world.PodGVR)
		}
		c := &informer.Controller[key]{Logger: quiet}
		c.OwnWrites.Deadline = time.Hour
		c.Reconcile = func(ctx context.Context, k key) (informer.Result, error) {
			store, err := s.set.Store(k.member)
			if err != nil {
				return informer.Result{}, err
			}
			pod, ok := store.Get(informer.Key{Namespace: "ns", Name: k.pod})
			if !ok || pod.Labels["v"] == "3" {
				return informer.Result{}, nil
			}
			pod = pod.DeepCopy()
			pod.Labels["v"] = map[string]string{"1": "2", "2": "3"}[pod.Labels["v"]]
			if _, err = pods[k.member].Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
				conflicts.Add(1) // the store had an old version
				return informer.Result{}, err
			}
			return informer.Result{RequeueAfter: time.Second}, nil
		}
		c.Watch(Enqueue(s.set, func(id string, p *corev1.Pod) []key { return []key{{id, p.Name}} }))
		s.add("a", "b")
		ctx, cancel := context.WithCancel(s.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		s.run()
		s.must(hold.Wait(s.Context(), 1))
		hold.Deliver(nil) // the first list
		time.Sleep(time.Minute)
		versionOf := func(name string) string {
			pod, _ := s.servers[name].pods.Get(informer.Key{Namespace: "ns", Name: "x"})
			return pod.Labels["v"]
		}
		if a, b := versionOf("a"), versionOf("b"); a != "3" || b != "2" {
			s.Errorf("the pods are at %s and %s: b must wait for its watch, which delivers nothing", a, b)
		}
		if n := conflicts.Load(); n > 0 {
			s.Errorf("%d reconciles read old objects", n)
		}
		hold.Release()
		time.Sleep(time.Minute)
		if b := versionOf("b"); b != "3" {
			s.Errorf("b is at %s", b)
		}
		cancel()
		<-ended
	})
}
