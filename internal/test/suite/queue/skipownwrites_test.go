package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// answers delays or loses the answers to writes. The server has done them.
type answers struct {
	late atomic.Int64 // a time.Duration
	lost atomic.Bool
}

func (a *answers) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err != nil || r.Method == http.MethodGet {
				return resp, err
			}
			time.Sleep(time.Duration(a.late.Load()))
			if a.lost.Load() {
				resp.Body.Close()
				return nil, errors.New("the answer was lost")
			}
			return resp, nil
		})
	})
}

// reporter is a controller that writes the label "v" of each pod to its status.
type reporter struct {
	world.World
	pods    *informer.Informer[*corev1.Pod]
	client  *informer.TypedClient[*corev1.Pod]
	ctl     *informer.Controller[informer.Key]
	answers answers
	gate    *gate // of the watch
	// report writes a status in place of UpdateStatus, if it is not nil.
	report func(ctx context.Context, pod *corev1.Pod) error
	result informer.Result

	mu      sync.Mutex // protects the fields below
	calls   []string   // the name, and the label of the pod in the store
	saw     map[informer.Key]string
	foreign map[string]string // the version of the last write by another program, by name
}

func newReporter(w world.World, keys func(*corev1.Pod) []informer.Key) *reporter {
	r := &reporter{World: w, gate: newGate(), saw: map[informer.Key]string{}, foreign: map[string]string{}}
	w.Create(world.NewPod("ns", "a", "v=1"))
	r.pods = informer.New(w.Client(r.gate.wrap), informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
	r.client = informer.NewTypedClient[*corev1.Pod](w.Client(r.answers.wrap), world.PodGVR)
	r.ctl = r.controller()
	source := informer.EnqueueObject(r.pods)
	if keys != nil {
		source = informer.Enqueue(r.pods, keys)
	}
	r.ctl.Watch(source)
	w.Cleanup(world.Start(w.T, r.pods))
	r.run(r.ctl)
	synctest.Wait()
	return r
}

// controller returns a controller that is not running.
func (r *reporter) controller() *informer.Controller[informer.Key] {
	return &informer.Controller[informer.Key]{SkipOwnWrites: true, Reconcile: r.reconcile}
}

func (r *reporter) run(ctl *informer.Controller[informer.Key]) {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() { ctl.Run(ctx); close(ended) }()
	r.Cleanup(func() { cancel(); <-ended })
}

func (r *reporter) reconcile(ctx context.Context, key informer.Key) (informer.Result, error) {
	pod, ok := r.pods.Store().Get(key)
	r.mu.Lock()
	v := "gone"
	if ok {
		v, r.saw[key] = pod.Labels["v"], pod.ResourceVersion
	}
	r.calls = append(r.calls, key.Name+" "+v)
	r.mu.Unlock()
	if !ok || pod.Status.Reason == v {
		return r.result, nil
	}
	if r.report != nil {
		return r.result, r.report(ctx, pod.DeepCopy())
	}
	return r.result, r.updateStatus(ctx, pod.DeepCopy())
}

func (r *reporter) updateStatus(ctx context.Context, pod *corev1.Pod) error {
	pod.Status.Reason = pod.Labels["v"]
	_, err := r.client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// change is a write by another program.
func (r *reporter) change(name, v string) {
	r.Helper()
	if err := r.write(name, func(pod *corev1.Pod) { pod.Labels["v"] = v }); err != nil {
		r.Fatal(err)
	}
}

func (r *reporter) write(name string, change func(*corev1.Pod)) error {
	pod, ok := r.Pods.Get(informer.Key{Namespace: "ns", Name: name})
	if !ok {
		return fmt.Errorf("no pod %s", name)
	}
	pod = pod.DeepCopy()
	change(pod)
	r.mu.Lock() // so that foreign has the last one
	defer r.mu.Unlock()
	written, err := r.Pods.Update(pod)
	if err == nil {
		r.foreign[name] = written.ResourceVersion
	}
	return err
}

// want checks the calls since the last want.
func (r *reporter) want(calls ...string) {
	r.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.calls, calls) {
		r.Errorf("reconciled %q, want %q", r.calls, calls)
	}
	r.calls = nil
}

// patch returns a report by a patch, with the resource version of the pod if locked.
func (r *reporter) patch(pt types.PatchType, locked bool) func(ctx context.Context, pod *corev1.Pod) error {
	return func(ctx context.Context, pod *corev1.Pod) error {
		metadata := ""
		if locked {
			metadata = fmt.Sprintf(`"resourceVersion":%q`, pod.ResourceVersion)
		}
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{%s},"status":{"reason":%q}}`, metadata, pod.Labels["v"])
		if pt == types.JSONPatchType {
			body = fmt.Sprintf(`[{"op":"replace","path":"/status/reason","value":%q}]`, pod.Labels["v"])
		}
		_, err := r.client.Patch(ctx, informer.KeyOf(pod), pt, []byte(body), metav1.PatchOptions{}, "status")
		return err
	}
}

// A controller that writes a status runs once for a change, and for everything that its own writes do not explain.
// Guarantees: Q13
func TestOwnWritesDoNotReconcile(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(r *reporter)
		want []string // after "a 1" for the addition
	}{
		"status":                   {func(r *reporter) { r.change("a", "2") }, []string{"a 2"}},
		"event before the answer":  {func(r *reporter) { r.answers.late.Store(int64(time.Second)); r.change("a", "2") }, []string{"a 2"}},
		"event after the call":     {func(r *reporter) { r.change("a", "2"); r.gate.shut(); time.Sleep(time.Second); r.gate.lift() }, []string{"a 2"}},
		"a requeue":                {func(r *reporter) { r.result.RequeueAfter = 40 * time.Second; r.change("a", "2") }, []string{"a 2", "a 2"}},
		"answer lost":              {func(r *reporter) { r.answers.lost.Store(true); r.change("a", "2") }, []string{"a 2", "a 2"}},
		"another write afterwards": {func(r *reporter) { r.change("a", "2"); synctest.Wait(); r.change("a", "3") }, []string{"a 2", "a 3"}},
		"another write in between": {func(r *reporter) {
			r.report = func(ctx context.Context, pod *corev1.Pod) error {
				r.report = nil
				r.change("a", "3")
				return r.updateStatus(ctx, pod) // a conflict
			}
			r.change("a", "2")
		}, []string{"a 2", "a 3"}},
		"another write during the answer": {func(r *reporter) {
			r.answers.late.Store(int64(time.Second))
			r.change("a", "2")
			synctest.Wait()
			r.change("a", "3")
		}, []string{"a 2", "a 3"}},
		"read again, and written": {func(r *reporter) {
			r.report = func(ctx context.Context, pod *corev1.Pod) error {
				r.report = func(context.Context, *corev1.Pod) error { return nil }
				r.change("a", "3") // its event reconciles
				fresh, err := r.client.Get(ctx, world.KeyA, metav1.GetOptions{})
				if err != nil {
					return err
				}
				fresh.Status.Reason = "2"
				_, err = r.client.UpdateStatus(ctx, fresh, metav1.UpdateOptions{})
				time.Sleep(time.Second) // until the next call finds the write in the store; otherwise, there is a third
				return err
			}
			r.change("a", "2")
		}, []string{"a 2", "a 3"}},
		"a late list": {func(r *reporter) {
			r.change("a", "2")
			synctest.Wait()
			r.Server.Compact()
			r.Server.EndWatches()
		}, []string{"a 2"}},
		"a status that changes nothing": {func(r *reporter) {
			r.report = func(ctx context.Context, pod *corev1.Pod) error {
				_, err := r.client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
				return err
			}
			r.change("a", "2")
			synctest.Wait()
			r.change("a", "3")
		}, []string{"a 2", "a 3"}},
		"deletion":     {func(r *reporter) { r.Delete("ns", "a") }, []string{"a gone"}},
		"without lock": {func(r *reporter) { r.report = r.patch(types.MergePatchType, false); r.change("a", "2") }, []string{"a 2", "a 2"}},
		"with lock":    {func(r *reporter) { r.report = r.patch(types.MergePatchType, true); r.change("a", "2") }, []string{"a 2"}},
		"JSON patch":   {func(r *reporter) { r.report = r.patch(types.JSONPatchType, true); r.change("a", "2") }, []string{"a 2", "a 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				r := newReporter(w, nil)
				r.want("a 1")
				c.do(r)
				r.want(c.want...)
			})
		})
	}
}

// The deletion that the removal of the last finalizer causes reconciles.
// Guarantees: Q13
func TestLastFinalizerReconcilesTheDeletion(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		r := newReporter(w, nil)
		r.report = func(ctx context.Context, pod *corev1.Pod) error {
			switch {
			case pod.DeletionTimestamp != nil:
				pod.Finalizers = nil
			case len(pod.Finalizers) == 0:
				pod.Finalizers = []string{"example.com/f"}
			default:
				return nil
			}
			_, err := r.client.Update(ctx, pod, metav1.UpdateOptions{})
			return err
		}
		r.change("a", "2")
		r.want("a 1", "a 2")
		if err := r.client.Delete(r.Context(), world.KeyA, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.want("a 2", "a gone")
	})
}

// A write for one key does not keep its event from another key or another controller.
// Guarantees: Q13
func TestOwnWritesAreThoseOfOneKeyOfOneController(t *testing.T) {
	both := func(*corev1.Pod) []informer.Key { return []informer.Key{world.KeyA, world.KeyB} }
	t.Run("key", func(t *testing.T) {
		world.Bubble(t, func(w world.World) {
			r := newReporter(w, both)
			time.Sleep(time.Minute)
			synctest.Wait()
			r.calls = nil
			r.change("a", "2")
			time.Sleep(time.Minute)
			r.mu.Lock()
			defer r.mu.Unlock()
			if n := len(r.calls); !slices.Contains(r.calls, "a 2") || r.calls[n-1] != "b gone" || n > 5 {
				t.Errorf("reconciled %q", r.calls)
			}
			if s := r.ctl.Status().OwnWrites; s.Skipped != 2 { // the events of two writes
				t.Errorf("skipped %d events, want 2", s.Skipped)
			}
		})
	})
	t.Run("controller", func(t *testing.T) {
		world.Bubble(t, func(w world.World) {
			r := newReporter(w, nil)
			other := r.controller()
			other.Reconcile = func(_ context.Context, key informer.Key) (informer.Result, error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.calls = append(r.calls, "other "+key.Name)
				return informer.Result{}, nil
			}
			r.want("a 1")
			other.Watch(informer.EnqueueObject(r.pods))
			r.run(other)
			r.want("other a")
			r.change("a", "2")
			synctest.Wait()
			n := 0
			r.mu.Lock()
			for _, call := range r.calls {
				if call == "other a" {
					n++
				}
			}
			r.mu.Unlock()
			if n == 0 || n > 2 {
				t.Errorf("reconciled %q", r.calls)
			}
			if s := other.Status().OwnWrites; s.Skipped != 0 {
				t.Errorf("the other controller skipped %d events", s.Skipped)
			}
			if s := r.ctl.Status().OwnWrites; s.Skipped != 2 {
				t.Errorf("skipped %d events, want 2", s.Skipped)
			}
		})
	})
}

// The creation of an object for a key does not reconcile that key. Its deletion by another program does, and so do events of a custom
// handler.
// Guarantees: Q13
func TestCreationDoesNotReconcile(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		r := newReporter(w, func(*corev1.Pod) []informer.Key { return []informer.Key{world.KeyA} })
		r.report = func(ctx context.Context, pod *corev1.Pod) error {
			child := world.NewPod("ns", "")
			child.GenerateName = "child-"
			_, err := r.client.Create(ctx, child, metav1.CreateOptions{})
			r.report = func(context.Context, *corev1.Pod) error { return nil }
			return err
		}
		r.answers.late.Store(int64(time.Second)) // after the event
		r.change("a", "2")
		r.want("a 1", "a 2")
		for pod := range r.Pods.All() {
			if pod.GenerateName != "" {
				r.Delete("ns", pod.Name)
			}
		}
		r.want("a 2")
	})
}

// Whatever others write, at the end the controller has reconciled a state with their last write, with lost answers, lost
// watches and lists.
// Guarantees: Q13
func TestSkippingLosesNoChange(t *testing.T) {
	for seed := range uint64(testkit.Rounds(20, 500)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			world.Bubble(t, func(w world.World) { skipAtRandom(w, rand.New(rand.NewPCG(seed, 60))) })
		})
	}
}

func skipAtRandom(w world.World, random *rand.Rand) {
	r := newReporter(w, nil)
	names := []string{"a", "b", "c"}
	w.Create(world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1"))
	for range 60 {
		name := names[random.IntN(len(names))]
		switch random.IntN(10) {
		case 0:
			w.Server.EndWatches()
		case 1:
			w.Server.Compact()
			w.Server.EndWatches()
		case 2:
			r.answers.lost.Store(random.IntN(2) == 0)
		case 3:
			r.answers.late.Store(int64(random.IntN(3)) * int64(100*time.Millisecond))
		case 4:
			time.Sleep(time.Duration(random.IntN(100)) * time.Second)
		default:
			v := fmt.Sprint(random.IntN(1000))
			if err := r.write(name, func(pod *corev1.Pod) { pod.Labels["v"] = v }); err != nil {
				if apierrors.IsConflict(err) {
					continue
				}
				r.Fatal(err)
			}
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
	}
	r.answers.late.Store(0)
	r.answers.lost.Store(false)
	time.Sleep(time.Hour)
	synctest.Wait()
	for name, version := range r.foreign {
		key := informer.Key{Namespace: "ns", Name: name}
		if saw := r.saw[key]; len(saw) < len(version) || len(saw) == len(version) && saw < version {
			r.Errorf("%s: reconciled at version %s, and not since %s of another", name, saw, version)
		}
		if pod, _ := r.Pods.Get(key); pod.Status.Reason != pod.Labels["v"] {
			r.Errorf("%s: the status is %s, want %s", name, pod.Status.Reason, pod.Labels["v"])
		}
	}
}
