package informer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

func TestAwaitReturnsTheObjectThatMeetsTheCondition(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf := w.QuietInformer()
		key := informer.Key{Namespace: "ns", Name: "a"}
		running := make(chan *corev1.Pod)
		gone := make(chan error)
		go func() {
			pod, err := inf.Await(w.Context(), key, func(p *corev1.Pod) bool { return p != nil && p.Labels["v"] == "3" })
			if err != nil {
				w.Error(err)
			}
			running <- pod
			_, err = inf.Await(w.Context(), key, func(p *corev1.Pod) bool { return p == nil })
			gone <- err
		}()
		defer world.Start(w.T, inf)()
		w.Create(world.NewPod("ns", "a", "v=1"))
		synctest.Wait()
		w.Relabel("ns", "a", "2")
		synctest.Wait()
		w.Relabel("ns", "a", "3")
		if pod := <-running; pod.Labels["v"] != "3" {
			w.Errorf("returned %v", pod)
		}
		w.Delete("ns", "a")
		if err := <-gone; err != nil {
			w.Error(err)
		}
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, errors.New("enough"))
		defer cancel()
		if _, err := inf.Await(ctx, key, func(p *corev1.Pod) bool { return p != nil }); err == nil || err.Error() != "await pods ns/a: enough" {
			w.Errorf("Await: %v", err)
		}
	})
}

// Before the first list the contents are unknown: an object that Await does not find was not deleted.
func TestAwaitTakesNothingForDeletedBeforeTheFirstList(t *testing.T) {
	for _, there := range []bool{false, true} {
		t.Run(fmt.Sprintf("there=%v", there), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				if there {
					w.Create(world.NewPod("ns", "a", "v=1"))
				}
				w.Server.Inject(informertest.Fault{Match: world.Streamed, Delay: 5 * time.Second})
				inf := w.QuietInformer()
				began := time.Now()
				gone := make(chan time.Duration, 1)
				go func() {
					if pod, err := inf.Await(w.Context(), informer.Key{Namespace: "ns", Name: "a"}, world.IsGone); err != nil || pod != nil {
						w.Errorf("Await: %v, %v", pod, err)
					}
					gone <- time.Since(began)
				}()
				synctest.Wait() // the informer has not started
				defer world.Start(w.T, inf)()
				if there {
					<-time.After(time.Minute)
					w.Delete("ns", "a")
				}
				want := 5 * time.Second
				if there {
					want += time.Minute
				}
				if after := <-gone; after != want {
					w.Errorf("gone after %v, want %v", after, want)
				}
			})
		})
	}
}

// Await sees a version that was stored before the informer stopped, whichever it notices first.
func TestAwaitSeesWhatCameBeforeTheStop(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		for range 30 {
			w.Relabel("ns", "a", "1")
			inf := w.QuietInformer()
			stop := world.Start(w.T, inf)
			pod, err := inf.Await(w.Context(), informer.Key{Namespace: "ns", Name: "a"}, func(p *corev1.Pod) bool {
				if p.Labels["v"] == "2" {
					return true
				}
				w.Relabel("ns", "a", "2") // between a check of the store and the next wait
				synctest.Wait()
				stop()
				return false
			})
			if err != nil || pod.Labels["v"] != "2" {
				w.Fatalf("%v, %v", pod, err)
			}
		}
	})
}

// WaitForObject does not wait for an object known to be outside the informer's scope.
// Guarantees: C9
func TestWaitForObjectOutside(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pod := world.NewPod("ns", "a", "v=1")
		pod.ResourceVersion = "7"
		for _, test := range []struct {
			resource informer.Resource
			follows  bool
		}{
			{informer.Resource{}, true},
			{informer.Resource{Namespaces: []string{"other", "ns"}}, true},
			{informer.Resource{Namespaces: []string{"other", "ns2"}}, false},
			{informer.Resource{LabelSelector: "v in (1,2)"}, true},
			{informer.Resource{LabelSelector: "v!=1"}, false},
			{informer.Resource{FieldSelector: "metadata.name=a"}, true},
			{informer.Resource{FieldSelector: "metadata.name=b"}, false},
			{informer.Resource{FieldSelector: "metadata.namespace=ns,metadata.name=a"}, true},
			{informer.Resource{FieldSelector: "metadata.namespace=other,metadata.name=a"}, false},
			{informer.Resource{FieldSelector: "metadata.name!=a"}, true}, // outside the scope, but the wait cannot tell
			{informer.Resource{FieldSelector: "spec.nodeName=n2"}, true},
		} {
			test.resource.GroupVersionResource = world.PodGVR
			inf := informer.New(w.Client(), test.resource, world.Quiet[*corev1.Pod]())
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			if err := inf.WaitForObject(ctx, pod); err == nil == test.follows || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("%s: %v", test.resource, err)
			}
			cancel()
		}
	})
}

// A version that is no number is an error at once: no version reaches it.
// Guarantees: C9, L4
func TestWaitForAVersionThatIsNoNumber(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pod := w.Create(world.NewPod("ns", "a")).DeepCopy()
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		for _, rv := range []string{"", "abc", "-1", "0"} {
			if err := inf.WaitForResourceVersion(ctx, rv); err == nil || errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("WaitForResourceVersion(%q): %v", rv, err)
			}
			pod.ResourceVersion = rv
			if err := inf.WaitForObject(ctx, pod); err == nil || errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("WaitForObject at %q: %v", rv, err)
			}
		}
	})
}

// A version is reached when each namespace has reached it, including one that is not listed yet.
// Guarantees: C9
func TestWaitForSeveralNamespaces(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x"))
		w.Create(world.NewPod("b", "y"))
		end := w.Server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Namespace == "b" }, Error: world.Unavailable})
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"a", "b"}}, world.Quiet[*corev1.Pod]())
		defer world.Run(w, inf)()
		waits := func() error {
			ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
			defer cancel()
			return inf.WaitForResourceVersion(ctx, w.Server.ResourceVersion())
		}
		if err := waits(); !errors.Is(err, context.DeadlineExceeded) || inf.Store().Len() != 1 {
			w.Errorf("%v with %d objects", err, inf.Store().Len())
		}
		end()
		if err := waits(); err != nil || inf.Store().Len() != 2 {
			w.Errorf("%v with %d objects", err, inf.Store().Len())
		}
	})
}

// A condition holds for no object that does not exist.
func TestHasCondition(t *testing.T) {
	ready := informer.HasCondition[*corev1.Pod](corev1.PodReady, "True")
	pod := world.NewPod("ns", "a")
	if ready(nil) || ready(pod) {
		t.Error("a pod without conditions is ready")
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if !ready(pod) {
		t.Error("the pod is not ready")
	}
}
