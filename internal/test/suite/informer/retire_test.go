package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// running runs inf until it ends by itself. The channel has the error of Run then.
func running(ctx context.Context, inf *informer.Informer[*corev1.Pod]) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	return ended
}

// wantRetired checks that inf, whose Run returned err, has ended by Retire.
func wantRetired(w world.World, inf *informer.Informer[*corev1.Pod], err error) {
	w.Helper()
	if !errors.Is(err, informer.ErrStopped) {
		w.Errorf("Run: %v", err)
	}
	if n := inf.Store().Len(); n != 0 {
		w.Errorf("the store has %d objects", n)
	}
	synctest.Wait() // the server sees the end of a watch a moment later
	if n := w.Pods.Watchers(); n != 0 {
		w.Errorf("%d watches are left", n)
	}
}

// resources are a collection, some of its namespaces, and selections that overlap.
var resources = map[string]informer.Resource{
	"all":        pods,
	"namespaces": {GroupVersionResource: world.PodGVR, Namespaces: []string{"a", "b"}},
	"selections": {GroupVersionResource: world.PodGVR, Selections: []informer.Selection{
		{Namespace: "a"}, {LabelSelector: "v=1"}, {LabelSelector: "v=2", Optional: true},
	}},
}

// A handler that is behind gets all earlier changes, then the deletions. Only then, Run returns. Indexes are empty, too.
// Guarantees: L6
func TestRetireDeletesAllAfterEarlierChanges(t *testing.T) {
	for name, resource := range resources {
		for _, layout := range world.Layouts {
			t.Run(fmt.Sprint(name, " ", layout), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"))
					config := world.Quiet[*corev1.Pod]()
					config.Layout = layout
					inf := informer.New(w.Client(), resource, config)
					byLabel := informer.NewIndex(inf, func(p *corev1.Pod) []string { return []string{p.Labels["v"]} })
					folded, whole := &testkit.Recorder[*corev1.Pod]{}, &testkit.Recorder[*corev1.Pod]{}
					inf.Subscribe(folded)
					inf.Subscribe(whole, informer.SubscriptionConfig[*corev1.Pod]{Delivery: informer.DeliverEvery(0)})
					ended := running(w.Context(), inf)
					folded.Want(w.T, "add a/x 1 initial=true", "add a/y 1 initial=true")
					whole.Want(w.T, "add a/x 1 initial=true", "add a/y 1 initial=true")

					releaseFolded, releaseWhole := folded.Hold(), whole.Hold()
					w.Relabel("a", "x", "2")
					synctest.Wait()
					w.Create(world.NewPod("a", "z", "v=1"))
					synctest.Wait()
					w.Relabel("a", "y", "2")
					synctest.Wait()
					inf.Retire()
					inf.Retire()
					synctest.Wait()
					if len(ended) > 0 {
						w.Fatal("Run returned before the handlers had the deletions")
					}
					if n := byLabel.Count("1") + byLabel.Count("2"); n != 0 {
						w.Errorf("the index has %d objects", n)
					}
					releaseFolded()
					synctest.Wait()
					if len(ended) > 0 {
						w.Fatal("Run returned before one handler had the deletions")
					}
					releaseWhole()
					wantRetired(w, inf, <-ended)
					// The additions and deletions of z, and the updates of y, which had not begun, are one.
					folded.Want(w.T, "update a/x 1->2", "delete a/y 2 final=false", "delete a/x 2 final=false")
					whole.Want(w.T, "update a/x 1->2", "add a/z 1 initial=false", "update a/y 1->2", "delete a/x 2 final=false",
						"delete a/y 2 final=false", "delete a/z 1 final=false")
				})
			})
		}
	}
}

// Retire ends an informer at any time: before Run, during the first list, while it has no server, and after Run.
// Guarantees: L6
func TestRetireAtAnyTime(t *testing.T) {
	for name, resource := range resources {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Create(world.NewPod("a", "x", "v=1"))
				create := func() (*informer.Informer[*corev1.Pod], *testkit.Recorder[*corev1.Pod], *informer.Subscription) {
					inf, rec := informer.New(w.Client(), resource, world.Quiet[*corev1.Pod]()), &testkit.Recorder[*corev1.Pod]{}
					return inf, rec, inf.Subscribe(rec)
				}
				inf, _, sub := create()
				inf.Retire()
				<-sub.Done()
				wantRetired(w, inf, inf.Run(w.Context()))
				if err := inf.WaitSynced(w.Context()); !errors.Is(err, informer.ErrStopped) {
					w.Errorf("before Run, WaitSynced: %v", err)
				}

				remove := w.Server.Inject(informertest.Fault{Hang: true})
				inf, _, sub = create()
				ended := running(w.Context(), inf)
				synctest.Wait()
				inf.Retire()
				wantRetired(w, inf, <-ended)
				if err := sub.WaitSynced(w.Context()); !errors.Is(err, informer.ErrStopped) {
					w.Errorf("during the first list, WaitSynced: %v", err)
				}
				remove()

				inf, rec, _ := create()
				ended = running(w.Context(), inf)
				rec.Want(w.T, "add a/x 1 initial=true")
				w.Server.Stop()
				synctest.Wait()
				inf.Retire()
				wantRetired(w, inf, <-ended)
				rec.Want(w.T, "delete a/x 1 final=false")
				w.Server.Start()

				inf, rec, _ = create()
				ctx, cancel := context.WithCancel(w.Context())
				ended = running(ctx, inf)
				rec.Want(w.T, "add a/x 1 initial=true")
				cancel()
				<-ended
				inf.Retire()
				rec.Want(w.T)
				if inf.Store().Len() != 1 {
					w.Error("Retire after Run has emptied the store")
				}
			})
		})
	}
}

// The end of the context ends the wait for the handlers, and nothing that the informer started is left.
// Guarantees: L6
func TestRetireAndTheEndOfTheContext(t *testing.T) {
	for order, steps := range map[string]func(retire, cancel func()){
		"retired first":   func(retire, cancel func()) { retire(); synctest.Wait(); cancel() },
		"cancelled first": func(retire, cancel func()) { cancel(); synctest.Wait(); retire() },
		"at once":         func(retire, cancel func()) { go retire(); cancel() },
	} {
		t.Run(order, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"))
				inf, rec := w.PodInformer(informer.Config[*corev1.Pod]{})
				release := rec.Hold()
				ctx, cancel := context.WithCancel(w.Context())
				ended := running(ctx, inf)
				synctest.Wait() // the first call waits
				steps(inf.Retire, cancel)
				synctest.Wait()
				if len(ended) > 0 {
					w.Fatal("Run returned while a handler was being called")
				}
				release()
				if err := <-ended; !errors.Is(err, informer.ErrStopped) && !errors.Is(err, context.Canceled) {
					w.Errorf("Run: %v", err)
				}
				rec.Want(w.T, "add a/x 1 initial=true") // it waits for the server, too
				if n := w.Pods.Watchers(); n != 0 {
					w.Errorf("%d watches are left", n)
				}
			})
		})
	}
}

// The empty store of a retired informer proves nothing: waits end with an error, also those for a deletion.
// Guarantees: L6
func TestRetireProvesNoDeletion(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pod := w.Create(world.NewPod("a", "x", "v=1"))
		inf := w.QuietInformer()
		ended := running(w.Context(), inf)
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		gone := func() error {
			_, err := inf.Await(w.Context(), informer.KeyOf(pod), func(p *corev1.Pod) bool { return p == nil })
			return err
		}
		waits := make(chan error, 1)
		go func() { waits <- gone() }()
		synctest.Wait()
		inf.Retire()
		if err := <-waits; !errors.Is(err, informer.ErrStopped) {
			w.Errorf("Await of a deletion: %v", err)
		}
		wantRetired(w, inf, <-ended)
		if err := gone(); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("later Await of a deletion: %v", err)
		}
		if err := inf.WaitForObject(w.Context(), pod); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitForObject: %v", err)
		}
	})
}

// An iteration yields the deletions and ends. A handler may retire its own informer.
// Guarantees: L6
func TestRetireDuringACall(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for i := range 3 {
			w.Create(world.NewPod("a", strconv.Itoa(i), "v=1"))
		}
		inf, rec := w.PodInformer(informer.Config[*corev1.Pod]{})
		var both sync.WaitGroup // have their first event
		both.Add(2)
		meet := sync.OnceFunc(func() { both.Done(); both.Wait() })
		rec.After = func(*corev1.Pod) { meet(); inf.Retire() }
		ended := running(w.Context(), inf)
		var events []string
		for e := range inf.Changes(w.Context()) {
			if events = append(events, fmt.Sprint(e.Type, e.Object.Name, e.Final)); len(events) == 1 {
				both.Done()
				both.Wait()
			}
			inf.Retire()
		}
		wantRetired(w, inf, <-ended)
		// Those that an iteration or handler has not received when the store becomes empty are void.
		if n := len(events); n%2 != 0 || !slices.Contains(events, "Deleted0false") {
			w.Errorf("the iteration got %v", events)
		}
		if len(rec.Has()) > 0 || rec.Broken() > 0 || len(rec.Told()) < 2 {
			w.Errorf("the handler got %v", rec.Told())
		}
	})
}
