package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// A folded deletion is final for a slow handler exactly if the informer saw it, even with changes folded in before and after
// it.
// Guarantees: H3, H5, H6
func TestFoldedDeletionIsFinalOnlyIfItWasSeen(t *testing.T) {
	relist := func(w world.World, changes func()) {
		w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 1, Error: world.Expired})
		w.Server.EndWatches()
		changes()
	}
	for name, c := range map[string]struct {
		happens func(w world.World)
		events  []string
	}{
		"missed": {
			func(w world.World) { relist(w, func() { w.Delete("ns", "b") }) },
			[]string{"delete ns/b 1 final=false"},
		},
		"missed behind an update": {
			func(w world.World) {
				w.Relabel("ns", "b", "2")
				synctest.Wait()
				relist(w, func() { w.Delete("ns", "b") })
			},
			[]string{"delete ns/b 2 final=false"},
		},
		"seen behind an update": {
			func(w world.World) { w.Relabel("ns", "b", "2"); synctest.Wait(); w.Delete("ns", "b") },
			[]string{"delete ns/b 2 final=true"},
		},
		"missed behind an update, and another object since": {
			func(w world.World) {
				w.Relabel("ns", "b", "2")
				synctest.Wait()
				relist(w, func() { w.Delete("ns", "b"); w.Create(world.NewPod("ns", "b", "v=3")) })
			},
			[]string{"delete ns/b 2 final=false", "add ns/b 3 initial=false"},
		},
		"seen, and another object missed since": {
			func(w world.World) {
				w.Delete("ns", "b")
				w.Create(world.NewPod("ns", "b", "v=2"))
				synctest.Wait()
				relist(w, func() { w.Delete("ns", "b") })
			},
			[]string{"delete ns/b 1 final=true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
				inf := w.QuietInformer()
				handler := &testkit.Recorder[*corev1.Pod]{}
				inf.Subscribe(handler)
				defer world.Start(w.T, inf)()
				handler.Want(w.T, world.Added...)
				release := handler.Hold()
				defer release()
				w.Relabel("ns", "a", "2")
				synctest.Wait() // the handler blocks on a
				c.happens(w)
				if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
					w.Fatal(err)
				}
				synctest.Wait() // the store has a change before the handler's backlog has it
				release()
				handler.Want(w.T, append([]string{"update ns/a 1->2"}, c.events...)...)
			})
		})
	}
}

// A deletion of an object that the informer never had deletes the stored object of that name, with final=false.
// Guarantees: H2, H6
func TestDeletionOfAnotherObjectIsNotFinal(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		broken := false
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			if broken && p.Name == "a" {
				return nil, errors.New("broken")
			}
			return p, nil
		}
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		rec.Want(w.T, "add ns/a 1 initial=true")
		broken = true // the list keeps the stored version
		w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 1, Error: world.Expired})
		w.Server.EndWatches()
		w.Delete("ns", "a")
		w.Create(world.NewPod("ns", "a", "v=2"))
		<-time.After(time.Minute)
		rec.Want(w.T)
		broken = false
		w.Delete("ns", "a")
		rec.Want(w.T, "delete ns/a 1 final=false")
	})
}

// A handler is synced when it has received every namespace, not when its backlog is empty.
// Guarantees: H8
func TestSubscriptionIsSyncedWithTheLastNamespace(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("b", "y", "v=1"))
		end := w.Server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Namespace == "b" }, Error: world.Unavailable})
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"a", "b"}}, world.Quiet[*corev1.Pod]())
		rec := &testkit.Recorder[*corev1.Pod]{}
		sub := inf.Subscribe(rec)
		running, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(running) }()
		defer func() { stop(); <-ended }()
		waits := func() error {
			ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
			defer cancel()
			return sub.WaitSynced(ctx)
		}
		if err := waits(); !errors.Is(err, context.DeadlineExceeded) || sub.Status().Synced {
			w.Errorf("%v, status %+v", err, sub.Status())
		}
		rec.Want(w.T, "add a/x 1 initial=true")
		end()
		if err := waits(); err != nil || !sub.Status().Synced {
			w.Errorf("%v, status %+v", err, sub.Status())
		}
		rec.Want(w.T, "add b/y 1 initial=true")
	})
}

// The sync of a subscription does not wait for initial additions that are dropped because their objects were deleted.
// Guarantees: H4, H8
func TestSubscriptionIsSyncedWithoutWhatWasGoneBefore(t *testing.T) {
	for _, more := range []int{0, 300} { // enough that the backlog must make room
		t.Run(fmt.Sprintf("more=%d", more), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				const pods = 100
				for i := range pods {
					w.Create(world.NewPod("ns", fmt.Sprintf("p%02d", i), "v=1"))
				}
				inf := w.QuietInformer()
				handler := &testkit.Recorder[*corev1.Pod]{}
				release := handler.Hold()
				sub := inf.Subscribe(handler)
				defer world.Start(w.T, inf)()
				defer release()
				synctest.Wait() // the handler blocks on the first object
				for i := 1; i < pods; i++ {
					w.Delete("ns", fmt.Sprintf("p%02d", i))
				}
				for i := range more {
					w.Create(world.NewPod("ns", fmt.Sprint("q", i), "v=1"))
					if i%2 == 0 {
						synctest.Wait()
						w.Delete("ns", fmt.Sprint("q", i))
					}
				}
				if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
					w.Fatal(err)
				}
				synctest.Wait() // the store has a change before the handler's backlog has it
				if sub.Status().Synced {
					w.Error("synced during the first call")
				}
				release()
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				if err := sub.WaitSynced(ctx); err != nil {
					w.Error(err)
				}
				synctest.Wait()
				if told := len(handler.Told()); told != 1+more/2 {
					w.Errorf("received %d events", told)
				}
			})
		})
	}
}

// The limit of DeliverEvery does not count one waiting change per key, whether or not the handler has received other
// changes of that key.
// Guarantees: H3
func TestBacklogCountsOneChangeOfAKeyLess(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		const limit = 20
		var names []string
		for i := range limit {
			names = append(names, fmt.Sprintf("p%02d", i))
			w.Create(world.NewPod("ns", names[i], "v=1"))
		}
		inf := w.QuietInformer()
		handler := &testkit.Recorder[*corev1.Pod]{}
		sub := inf.Subscribe(handler, informer.SubscriptionConfig[*corev1.Pod]{Delivery: informer.DeliverEvery(limit)})
		defer world.Start(w.T, inf)()
		synctest.Wait()
		defer handler.Hold()()
		w.Create(world.NewPod("ns", "other", "v=0"))
		synctest.Wait() // the handler blocks on other
		for _, v := range []string{"2", "3"} {
			for _, name := range names {
				w.Relabel("ns", name, v)
				synctest.Wait()
			}
		}
		for range 1 + limit { // other, and the first change of each name
			handler.Gate <- struct{}{}
			synctest.Wait()
		}
		// The handler now blocks on the first name's second change. Each other name has one change waiting.
		for i := range 1 + limit + 1 {
			if err := sub.Err(); err != nil {
				w.Fatalf("ended %d changes behind: %v", i, err)
			}
			w.Relabel("ns", "other", fmt.Sprint(i+1))
			synctest.Wait()
		}
		if err := sub.Err(); !errors.Is(err, informer.ErrBacklog) {
			w.Errorf("beyond the limit: %v, %+v", err, sub.Status())
		}
	})
}

// Guarantees: L4
func TestInvalidSubscriptionLogsTheError(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		var log strings.Builder
		config := informer.Config[*corev1.Pod]{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{}, informer.SubscriptionConfig[*corev1.Pod]{Name: "mine", Resync: -1})
		if !strings.Contains(log.String(), "handler=mine") || !strings.Contains(log.String(), "SubscriptionConfig.Resync is -1ns") {
			w.Errorf("log %q", &log)
		}
	})
}
