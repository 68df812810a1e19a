package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

func TestMain(m *testing.M) { leak.Main(m) }

// gate holds back what watches receive while it is shut.
type gate struct {
	mu   sync.Mutex // protects the field below
	open chan struct{}
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

// wrap makes the watches of a client pass the gate.
func (g *gate) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return gated{g, next} })
}

type gated struct {
	gate *gate
	next http.RoundTripper
}

func (g gated) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		resp.Body = gatedBody{resp.Body, g.gate}
	}
	return resp, err
}

type gatedBody struct {
	io.ReadCloser
	gate *gate
}

func (b gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.gate.wait()
	return n, err
}

// rig is a controller of pods that does what a test says, and its informer, whose watch has a gate.
type rig struct {
	world.World
	gate   *gate
	pods   *informer.Informer[*corev1.Pod]
	client *informer.TypedClient[*corev1.Pod]
	ctl    *informer.Controller[informer.Key]
	log    *testkit.Log
	began  time.Time
	stop   func() // ends the controller

	mu    sync.Mutex // protects the fields below
	do    func(ctx context.Context) error
	calls []string // the key, the time, and the label "v" of pod A in the store
}

// newRig returns a rig whose informer is configured by config and resource. The pods A and B are in its store.
func newRig(w world.World, resource informer.Resource, config informer.Config[*corev1.Pod], deadline time.Duration) *rig {
	w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
	r := &rig{World: w, gate: newGate(), log: &testkit.Log{}}
	config.Logger = world.Quiet[*corev1.Pod]().Logger
	resource.GroupVersionResource = world.PodGVR
	r.pods = informer.New(w.Client(r.gate.wrap), resource, config)
	r.client = informer.NewTypedClient[*corev1.Pod](w.Client(), world.PodGVR)
	r.ctl = &informer.Controller[informer.Key]{
		Queue:     informer.NewQueue(informer.QueueConfig[informer.Key]{}),
		OwnWrites: informer.OwnWrites{Deadline: deadline},
		Logger:    slog.New(slog.NewTextHandler(r.log, nil)),
		Reconcile: r.reconcile,
	}
	r.ctl.Watch(informer.EnqueueObject(r.pods, func(informer.Event[*corev1.Pod]) bool { return false }))
	w.Cleanup(world.Start(w.T, r.pods))
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() { r.ctl.Run(ctx); close(ended) }()
	r.stop = func() { cancel(); <-ended }
	w.Cleanup(r.stop)
	synctest.Wait()
	r.began = time.Now()
	return r
}

func (r *rig) reconcile(ctx context.Context, key informer.Key) (informer.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := "none"
	if pod, ok := r.pods.Store().Get(world.KeyA); ok {
		v = pod.Labels["v"]
	}
	r.calls = append(r.calls, fmt.Sprintf("%s@%v v=%s", key.Name, time.Since(r.began), v))
	do := r.do
	r.do = nil
	if do == nil {
		return informer.Result{}, nil
	}
	return informer.Result{RequeueAfter: time.Millisecond}, do(ctx)
}

// want checks the calls since the last want.
func (r *rig) want(calls ...string) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.calls, calls) {
		r.Errorf("reconciled %q, want %q", r.calls, calls)
	}
	r.calls = nil
}

// patch sets the label "v" of pod A.
func (r *rig) patch(ctx context.Context, o metav1.PatchOptions, subresource ...string) error {
	_, err := r.client.Patch(ctx, world.KeyA, types.MergePatchType, []byte(`{"metadata":{"labels":{"v":"2"}}}`), o, subresource...)
	return err
}

const ten = 10 * time.Second

// Writes are the ways to write that a store has to have before the key runs again, and those that it need not have.
var writes = map[string]struct {
	do    func(r *rig, ctx context.Context) error
	waits bool
	seen  string // what the store has of pod A afterwards; empty means v=1
}{
	"nothing": {do: func(r *rig, ctx context.Context) error { return nil }},
	"read": {do: func(r *rig, ctx context.Context) error {
		_, err := r.client.Get(ctx, world.KeyA, metav1.GetOptions{})
		return err
	}},
	"create": {waits: true, do: func(r *rig, ctx context.Context) error {
		_, err := r.client.Create(ctx, world.NewPod("ns", "c"), metav1.CreateOptions{})
		return err
	}},
	"update": {waits: true, seen: "v=2", do: func(r *rig, ctx context.Context) error {
		pod, err := r.client.Get(ctx, world.KeyA, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Labels["v"] = "2"
		_, err = r.client.Update(ctx, pod, metav1.UpdateOptions{})
		return err
	}},
	"update without a change": {do: func(r *rig, ctx context.Context) error {
		pod, err := r.client.Get(ctx, world.KeyA, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = r.client.Update(ctx, pod, metav1.UpdateOptions{})
		return err
	}},
	"update of the status": {waits: true, do: func(r *rig, ctx context.Context) error {
		pod, err := r.client.Get(ctx, world.KeyA, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Reason = "r"
		_, err = r.client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	}},
	"patch": {waits: true, seen: "v=2", do: func(r *rig, ctx context.Context) error { return r.patch(ctx, metav1.PatchOptions{}) }},
	"dry run": {do: func(r *rig, ctx context.Context) error {
		return r.patch(ctx, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	}},
	"delete": {waits: true, seen: "v=none", do: func(r *rig, ctx context.Context) error {
		return r.client.Delete(ctx, world.KeyA, metav1.DeleteOptions{})
	}},
	"dry run of delete": {do: func(r *rig, ctx context.Context) error {
		return r.client.Delete(ctx, world.KeyA, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}},
	"create and delete": {waits: true, do: func(r *rig, ctx context.Context) error {
		if _, err := r.client.Create(ctx, world.NewPod("ns", "c"), metav1.CreateOptions{}); err != nil {
			return err
		}
		return r.client.Delete(ctx, informer.Key{Namespace: "ns", Name: "c"}, metav1.DeleteOptions{})
	}},
	"failure after a write": {waits: true, seen: "v=2", do: func(r *rig, ctx context.Context) error {
		if err := r.patch(ctx, metav1.PatchOptions{}); err != nil {
			return err
		}
		_, err := r.client.Create(ctx, world.NewPod("ns", "a"), metav1.CreateOptions{}) // exists
		return err
	}},
	"refused": {do: func(r *rig, ctx context.Context) error {
		_, err := r.client.Create(ctx, world.NewPod("ns", "a"), metav1.CreateOptions{})
		return err
	}},
	"another context": {do: func(r *rig, _ context.Context) error { return r.patch(r.Context(), metav1.PatchOptions{}) }},
}

// A key whose reconcile wrote runs again when the store has the write, at once; until then, it takes no worker.
// Guarantees: Q12
func TestKeyWaitsUntilTheStoreHasItsWrites(t *testing.T) {
	for name, c := range writes {
		for _, media := range []string{world.JSONType, world.ProtobufType} {
			for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutCompact} {
				t.Run(fmt.Sprintf("%s,%s,%s", name, strings.TrimPrefix(media, "application/"), layout), func(t *testing.T) {
					world.Bubble(t, func(w world.World) {
						r := newRig(w, informer.Resource{}, informer.Config[*corev1.Pod]{Layout: layout}, ten)
						r.client = informer.NewTypedClient[*corev1.Pod](w.Client(func(c *rest.Config) { c.ContentType = media }), world.PodGVR)
						r.gate.shut()
						r.do = func(ctx context.Context) error { return c.do(r, ctx) }
						r.ctl.Queue.Add(world.KeyA)
						synctest.Wait()
						time.Sleep(time.Second)
						r.ctl.Queue.Add(world.KeyB) // the only worker is free
						again, waiting := "a@1ms v=1", 0
						if strings.Contains(name, "refused") {
							again = "a@5ms v=1"
						}
						if c.waits {
							again, waiting = "", 1
						}
						r.want(slices.DeleteFunc([]string{"a@0s v=1", again, "b@1s v=1"}, func(s string) bool { return s == "" })...)
						if s := r.ctl.Status().OwnWrites; s.Waiting != waiting || s.Expired != 0 {
							t.Errorf("status %+v", s)
						}
						r.gate.lift()
						if !c.waits {
							return
						}
						seen := c.seen
						if seen == "" {
							seen = "v=1"
						}
						r.want("a@1s " + seen)
						if s := r.ctl.Status().OwnWrites; s.Waiting != 0 || s.Expired != 0 || s.Waits.Count != 1 || s.Waits.Max != time.Second {
							t.Errorf("status %+v", s)
						}
					})
				})
			}
		}
	}
}

// At the deadline, the key runs although the store lacks the write. The log and the status say so.
// Guarantees: Q12
func TestKeyWaitsForItsWritesUntilTheDeadline(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		r := newRig(w, informer.Resource{}, informer.Config[*corev1.Pod]{}, ten)
		r.gate.shut()
		defer r.gate.lift()
		r.do = func(ctx context.Context) error { return r.patch(ctx, metav1.PatchOptions{}) }
		r.ctl.Queue.Add(world.KeyA)
		time.Sleep(10*time.Second - 1)
		r.want("a@0s v=1")
		time.Sleep(time.Nanosecond)
		r.want("a@10s v=1")
		if s := r.ctl.Status().OwnWrites; s.Waiting != 0 || s.Expired != 1 {
			t.Errorf("status %+v", s)
		}
		if log := r.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "ns/a") || !strings.Contains(log, "pods") {
			t.Errorf("logged %q", log)
		}
	})
}

// Without a deadline, the key runs before the store has its write.
func TestKeyDoesNotWaitByDefault(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		r := newRig(w, informer.Resource{}, informer.Config[*corev1.Pod]{}, 0)
		r.gate.shut()
		defer r.gate.lift()
		r.do = func(ctx context.Context) error { return r.patch(ctx, metav1.PatchOptions{}) }
		r.ctl.Queue.Add(world.KeyA)
		time.Sleep(time.Second)
		r.want("a@0s v=1", "a@1ms v=1")
	})
}

// A store that does not follow the object need not have the write, but one that has the object until now must learn that it is gone.
// Guarantees: Q12
func TestKeyDoesNotWaitForAStoreThatDoesNotFollow(t *testing.T) {
	for name, c := range map[string]struct {
		resource informer.Resource
		waits    bool
	}{
		"all":               {informer.Resource{}, true},
		"another namespace": {informer.Resource{Namespaces: []string{"other"}}, false},
		"another name":      {informer.Resource{FieldSelector: "metadata.name=b"}, false},
		"no label before":   {informer.Resource{LabelSelector: "v=3"}, false},
		"label until now":   {informer.Resource{LabelSelector: "v=1"}, true},
		"label from now on": {informer.Resource{LabelSelector: "v=2"}, true},
		"another shard":     {informer.Resource{Shard: informer.Shard{Field: informer.ShardByNamespace, Ranges: rangesWithout("ns")}}, false},
		"the shard":         {informer.Resource{Shard: informer.Shard{Field: informer.ShardByNamespace, Ranges: []informer.HashRange{{First: informer.HashOf("ns"), Last: informer.HashOf("ns")}}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				r := newRig(w, c.resource, informer.Config[*corev1.Pod]{}, ten)
				r.gate.shut()
				r.do = func(ctx context.Context) error { return r.patch(ctx, metav1.PatchOptions{}) }
				r.ctl.Queue.Add(world.KeyA)
				time.Sleep(time.Second)
				synctest.Wait()
				if waits := r.ctl.Status().OwnWrites.Waiting == 1; waits != c.waits {
					t.Errorf("it waits: %v", waits)
				}
				r.gate.lift()
				synctest.Wait()
				if s := r.ctl.Status(); s.OwnWrites.Waiting != 0 || s.OwnWrites.Expired != 0 || s.Succeeded != 1 {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

// Neither does it wait for a store that never had an object which the same reconcile created and deleted.
// Guarantees: Q12
func TestKeyDoesNotWaitForADeletionElsewhere(t *testing.T) {
	for name, resource := range map[string]informer.Resource{
		"another namespace": {Namespaces: []string{"other"}},
		"another name":      {FieldSelector: "metadata.name=b"},
		"another label":     {LabelSelector: "v=3"},
		"another shard":     {Shard: informer.Shard{Field: informer.ShardByNamespace, Ranges: rangesWithout("ns")}},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				r := newRig(w, resource, informer.Config[*corev1.Pod]{}, ten)
				r.do = func(ctx context.Context) error { return writes["create and delete"].do(r, ctx) }
				r.ctl.Queue.Add(world.KeyA)
				synctest.Wait()
				if s := r.ctl.Status().OwnWrites; s.Waiting != 0 {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

// A key that created and deleted an object of the selector waits until the store had it, and has it no more.
// Guarantees: Q12
func TestKeyWaitsForADeletionOfTheSelector(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		r := newRig(w, informer.Resource{LabelSelector: "v"}, informer.Config[*corev1.Pod]{}, ten)
		r.gate.shut()
		r.do = func(ctx context.Context) error {
			if _, err := r.client.Create(ctx, world.NewPod("ns", "c", "v=1"), metav1.CreateOptions{}); err != nil {
				return err
			}
			return r.client.Delete(ctx, informer.Key{Namespace: "ns", Name: "c"}, metav1.DeleteOptions{})
		}
		r.ctl.Queue.Add(world.KeyA)
		time.Sleep(time.Second)
		r.want("a@0s v=1")
		r.gate.lift()
		r.want("a@1s v=1")
		if s := r.ctl.Status().OwnWrites; s.Waiting != 0 || s.Expired != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// A store of several selections has a write when it has the object: a selection without changes does not delay the key.
// Guarantees: Q12, U1
func TestKeyDoesNotWaitForQuietSelections(t *testing.T) {
	resource := informer.Resource{Selections: []informer.Selection{{LabelSelector: "v in (1,2)"}, {LabelSelector: "quiet"}}}
	for name, c := range map[string]struct {
		do   func(r *rig, ctx context.Context) error
		want string
	}{
		"patch":  {writes["patch"].do, "a@1s v=2"},
		"delete": {writes["delete"].do, "a@2s v=none"}, // after the question too: it may have left
		"leave": {func(r *rig, ctx context.Context) error {
			_, err := r.client.Patch(ctx, world.KeyA, types.MergePatchType, []byte(`{"metadata":{"labels":{"v":"3"}}}`), metav1.PatchOptions{})
			return err
		}, "a@2s v=none"}, // a second later, the informer asks the server whether another selection has it
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				r := newRig(w, resource, informer.Config[*corev1.Pod]{}, ten)
				r.gate.shut()
				r.do = func(ctx context.Context) error { return c.do(r, ctx) }
				r.ctl.Queue.Add(world.KeyA)
				time.Sleep(time.Second)
				r.want("a@0s v=1")
				r.gate.lift()
				time.Sleep(5 * time.Second)
				r.want(c.want)
				if s := r.ctl.Status().OwnWrites; s.Waiting != 0 || s.Expired != 0 {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

// The end of Run ends the waits, without a warning.
// Guarantees: Q12
func TestEndOfRunEndsTheWaits(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		r := newRig(w, informer.Resource{}, informer.Config[*corev1.Pod]{}, ten)
		r.gate.shut()
		defer r.gate.lift()
		r.do = func(ctx context.Context) error { return r.patch(ctx, metav1.PatchOptions{}) }
		r.ctl.Queue.Add(world.KeyA)
		synctest.Wait()
		r.stop()
		time.Sleep(time.Minute)
		if s := r.ctl.Status().OwnWrites; s.Waiting != 0 || s.Expired != 0 || strings.Contains(r.log.String(), "WARN") {
			t.Errorf("status %+v, logged %q", s, r.log)
		}
	})
}

// rangesWithout returns all hashes but that of value.
func rangesWithout(value string) []informer.HashRange {
	h := informer.HashOf(value)
	return []informer.HashRange{{First: 0, Last: h - 1}, {First: h + 1, Last: 1<<64 - 1}}
}

// A key waits for the slowest store of its controller, unless that source was closed, or its informer has stopped: nothing reaches that
// store any more.
// Guarantees: Q12
func TestKeyWaitsForEveryStore(t *testing.T) {
	for name, ended := range map[string]bool{"open": false, "closed": true, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				r := newRig(w, informer.Resource{}, informer.Config[*corev1.Pod]{}, ten)
				slow := newGate()
				other := informer.New(w.Client(slow.wrap), informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
				subscription := r.ctl.Watch(informer.EnqueueObject(other, func(informer.Event[*corev1.Pod]) bool { return false }))
				stop := world.Start(w.T, other)
				defer stop()
				synctest.Wait()
				switch name {
				case "closed":
					subscription.Close()
				case "stopped":
					stop()
				}
				slow.shut()
				r.do = func(ctx context.Context) error { return r.patch(ctx, metav1.PatchOptions{}) }
				r.ctl.Queue.Add(world.KeyA)
				time.Sleep(time.Second)
				if ended {
					r.want("a@0s v=1", "a@1ms v=2")
				} else {
					r.want("a@0s v=1")
				}
				slow.lift()
				synctest.Wait()
				if !ended {
					r.want("a@1s v=2")
				}
			})
		})
	}
}

// While a pod has a grace period, the removal of its last finalizer does not delete it: the key waits for that version only.
// Guarantees: Q12
func TestKeyDoesNotWaitForADeletionWithinTheGracePeriod(t *testing.T) {
	for _, grace := range []int64{0, 30} {
		t.Run(fmt.Sprintf("grace=%d", grace), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				r := newRig(w, informer.Resource{}, informer.Config[*corev1.Pod]{}, ten)
				// The answer of a server that keeps the pod, or has deleted it: the watch has sent neither.
				r.client = informer.NewTypedClient[*corev1.Pod](w.Client(func(c *rest.Config) {
					c.Wrap(func(next http.RoundTripper) http.RoundTripper { return finalized{next, grace} })
				}), world.PodGVR)
				r.do = func(ctx context.Context) error { return r.patch(ctx, metav1.PatchOptions{}) }
				r.ctl.Queue.Add(world.KeyA)
				time.Sleep(time.Second)
				if waits := r.ctl.Status().OwnWrites.Waiting == 1; waits != (grace == 0) {
					t.Errorf("it waits for a deletion: %v", waits)
				}
			})
		})
	}
}

// finalized makes the answer to each patch a pod that is being deleted with a grace period, and without finalizers.
type finalized struct {
	next  http.RoundTripper
	grace int64
}

func (f finalized) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Accept", "application/json")
	resp, err := f.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodPatch {
		return resp, err
	}
	var pod corev1.Pod
	if err := json.NewDecoder(resp.Body).Decode(&pod); err != nil {
		return nil, err
	}
	resp.Body.Close()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.Now()), &f.grace
	body, err := json.Marshal(&pod)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, err
}

// A queue that drains does not wait for writes: what was added runs once more.
// Guarantees: Q12
func TestDrainDoesNotWaitForWrites(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		r := newRig(w, informer.Resource{}, informer.Config[*corev1.Pod]{}, ten)
		r.gate.shut()
		defer r.gate.lift()
		r.do = func(ctx context.Context) error { return r.patch(ctx, metav1.PatchOptions{}) }
		r.ctl.Queue.Add(world.KeyA)
		time.Sleep(time.Second)
		r.want("a@0s v=1")
		if err := r.ctl.Queue.Drain(w.Context()); err != nil {
			t.Error(err)
		}
		r.want("a@1s v=1")
	})
}

// A negative deadline is an error that names the field.
func TestNegativeDeadline(t *testing.T) {
	ctl := &informer.Controller[string]{
		OwnWrites: informer.OwnWrites{Deadline: -1},
		Reconcile: func(context.Context, string) (informer.Result, error) { return informer.Result{}, nil },
		Logger:    slog.New(slog.DiscardHandler),
	}
	if err := ctl.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Controller.OwnWrites.Deadline is -1ns") {
		t.Errorf("Run: %v", err)
	}
}
