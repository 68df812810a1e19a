package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
)

// peers are the functions that make an informer over a ListerWatcher: client-go's and that of this package.
var peers = []struct {
	name string
	over func(clientcache.ListerWatcher, runtime.Object, time.Duration, clientcache.Indexers) clientcache.SharedIndexInformer
}{
	{"client-go", clientcache.NewSharedIndexInformer},
	{"clientgo", cache.NewSharedIndexInformer},
}

// beside runs a test with an informer of each peer over a stranger, in a bubble. prepare changes the stranger before.
func beside(t *testing.T, prepare func(*world.Stranger),
	test func(t *testing.T, s *world.Stranger, i clientcache.SharedIndexInformer, events *world.Recorder)) {
	for _, peer := range peers {
		t.Run(peer.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, events := &world.Stranger{}, &world.Recorder{}
				prepare(s)
				i := peer.over(s, &corev1.Pod{}, 0, clientcache.Indexers{"node": byNode})
				add(t, i, events)
				defer run(t, i)()
				synctest.Wait()
				test(t, s, i, events)
			})
		})
	}
}

// rest returns the events since the last call.
func rest(events *world.Recorder) []string {
	synctest.Wait()
	return events.Next(len(events.Waiting()))
}

// expired tells the watches that their version has expired, and waits until the informer has listed again.
func expired(s *world.Stranger) {
	lists := len(s.Lists())
	status := apierrors.NewResourceExpired("expired").Status()
	s.SendRaw(watch.Error, &status)
	for len(s.Lists()) == lists {
		<-time.After(time.Second)
	}
	synctest.Wait()
}

// A function that pages by the limit and loses the continue token keeps all objects: no limit is sent where client-go
// sends none, and nothing is deleted.
// Guarantees: P5
func TestListWithoutContinueDeletesNothing(t *testing.T) {
	const objects = 1200
	beside(t, func(s *world.Stranger) {
		for n := range objects {
			s.Add(world.StrangePod("a", fmt.Sprintf("pod-%d", n)))
		}
		s.Listed = func(list *corev1.PodList, options metav1.ListOptions) (runtime.Object, error) {
			if options.Limit > 0 && options.ResourceVersion != "0" { // the cache of a server ignores the limit at "0"
				list.Items = list.Items[:min(len(list.Items), int(options.Limit))]
			}
			return list, nil
		}
	}, func(t *testing.T, s *world.Stranger, i clientcache.SharedIndexInformer, events *world.Recorder) {
		rest(events)
		expired(s)
		if n := len(i.GetStore().List()); n != objects {
			t.Errorf("%d of %d objects are left", n, objects)
		}
		for _, e := range rest(events) {
			if strings.HasPrefix(e, "delete") {
				t.Fatalf("a false deletion: %s", e)
			}
		}
		for _, o := range s.Lists() {
			if o.Limit > 0 && o.ResourceVersion != "" && o.ResourceVersion != "0" {
				t.Errorf("a list at version %q has the limit %d", o.ResourceVersion, o.Limit)
			}
		}
	})
}

// A function that always pages by the limit and loses the continue token keeps all objects, too: it never gets one. A
// token that a function returns without being asked for a page is followed.
// Guarantees: P5
func TestListerWatcherGetsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &world.Stranger{Listed: func(list *corev1.PodList, options metav1.ListOptions) (runtime.Object, error) {
			if options.Limit > 0 {
				list.Items = list.Items[:1]
				return list, nil
			}
			if options.Continue == "" {
				list.Items, list.Continue = list.Items[:2], "more"
				return list, nil
			}
			list.Items = list.Items[2:]
			return list, nil
		}}
		s.Add(world.StrangePod("a", "x"), world.StrangePod("a", "y"), world.StrangePod("a", "z"))
		i := cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil)
		defer run(t, i)()
		if keys := i.GetStore().ListKeys(); !slices.Equal(keys, []string{"a/x", "a/y", "a/z"}) {
			t.Errorf("keys %q", keys)
		}
		if lists := s.Lists(); len(lists) != 2 || lists[0].Limit != 0 || lists[1].Limit != 0 || lists[1].Continue != "more" {
			t.Errorf("lists %v", lists)
		}
	})
}

// The store has the Go values that the ListerWatcher sent, with what no encoding keeps.
// Guarantees: P5
func TestValuesArePassedOn(t *testing.T) {
	beside(t, func(s *world.Stranger) {
		pod := world.StrangePod("a", "listed")
		pod.Kind, pod.Finalizers, pod.Spec.Containers = "Pod", []string{}, []corev1.Container{}
		s.Add(pod)
	}, func(t *testing.T, s *world.Stranger, i clientcache.SharedIndexInformer, _ *world.Recorder) {
		obj, _, err := i.GetStore().GetByKey("a/listed")
		if err != nil {
			t.Fatal(err)
		}
		listed := obj.(*corev1.Pod)
		if listed.Kind != "Pod" || listed.Finalizers == nil || listed.Spec.Containers == nil || listed.Spec.Volumes != nil {
			t.Errorf("the listed object became %#v", listed)
		}
		sent := world.StrangePod("a", "sent")
		s.Send(watch.Added, sent)
		synctest.Wait()
		if got, exists, err := i.GetStore().GetByKey("a/sent"); got != any(sent) || !exists || err != nil {
			t.Errorf("the store has %p for %p: %v", got, sent, err)
		}
	})
}

// Objects without a name are in the store and in the indexes.
// Guarantees: P5
func TestValuesWithoutName(t *testing.T) {
	beside(t, func(s *world.Stranger) {
		pod := world.StrangePod("a", "")
		pod.Spec.NodeName = "n"
		s.Add(pod)
	}, func(t *testing.T, s *world.Stranger, i clientcache.SharedIndexInformer, events *world.Recorder) {
		if list, err := i.GetIndexer().ByIndex("node", "n"); len(list) != 1 || err != nil {
			t.Errorf("by index: %d objects, %v", len(list), err)
		}
		for _, key := range i.GetStore().ListKeys() {
			if _, exists, err := i.GetStore().GetByKey(key); !exists || err != nil {
				t.Errorf("by key %q: %t %v", key, exists, err)
			}
		}
		s.Send(watch.Deleted, world.StrangePod("a", ""))
		if got := rest(events); len(got) != 2 || !strings.HasPrefix(got[1], "delete") {
			t.Errorf("events %q", got)
		}
	})
}

// An update without a new version is delivered, also of the same pointer. Versions may go back. Neither lists.
// Guarantees: P5
func TestVersionsOfValuesMeanNothing(t *testing.T) {
	pod := func(name, version, node string) *corev1.Pod {
		p := world.StrangePod("a", name)
		p.ResourceVersion, p.Spec.NodeName = version, node
		return p
	}
	beside(t, func(s *world.Stranger) { s.Add(pod("x", "18", "1")) },
		func(t *testing.T, s *world.Stranger, i clientcache.SharedIndexInformer, events *world.Recorder) {
			second := pod("x", "18", "2")
			s.Send(watch.Modified, second)
			synctest.Wait()
			second.Spec.NodeName = "3"
			s.Send(watch.Modified, second)
			synctest.Wait()
			s.Send(watch.Added, pod("y", "5", "1"))
			s.Send(watch.Modified, pod("x", "4", "4"))
			want := []string{"initial a/x@18", "update a/x@18 to a/x@18", "update a/x@18 to a/x@18", "add a/y@5",
				"update a/x@18 to a/x@4"}
			if got := rest(events); !slices.Equal(got, want) {
				t.Errorf("events %q", got)
			}
			if list, err := i.GetIndexer().ByIndex("node", "4"); len(list) != 1 || err != nil {
				t.Errorf("by index: %v %v", list, err)
			}
			if n := len(s.Lists()); n != 1 {
				t.Errorf("%d lists", n)
			}
		})
}

// A relist that finds other content under a known version delivers it.
// Guarantees: P5
func TestRelistComparesValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := world.StrangePod("a", "x")
		pod.ResourceVersion = "18"
		s, events := &world.Stranger{}, &world.Recorder{}
		s.Add(pod)
		i := cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil)
		add(t, i, events)
		defer run(t, i)()
		expired(s)
		if got := rest(events); !slices.Equal(got, []string{"initial a/x@18"}) {
			t.Errorf("events %q after an equal list", got)
		}
		pod.Spec.NodeName = "other"
		expired(s)
		if got := rest(events); !slices.Equal(got, []string{"update a/x@18 to a/x@18"}) {
			t.Errorf("events %q", got)
		}
	})
}

// A deletion right after the sync is delivered, although a fake clientset has no history: the watch is open then.
// Guarantees: P5
func TestDeletionRightAfterSync(t *testing.T) {
	lost := map[string]int{}
	for _, peer := range peers {
		client := fake.NewSimpleClientset()
		pods := client.CoreV1().Pods("a")
		for range 200 {
			if _, err := pods.Create(t.Context(), world.StrangePod("a", "x"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				lw := clientcache.ToListWatcherWithWatchListSemantics(&clientcache.ListWatch{
					ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
						return pods.List(ctx, o)
					},
					WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
						return pods.Watch(ctx, o)
					},
				}, client)
				i, events := peer.over(lw, &corev1.Pod{}, 0, clientcache.Indexers{}), &world.Recorder{}
				add(t, i, events)
				defer run(t, i)()
				if err := pods.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				if got := rest(events); len(got) != 2 {
					lost[peer.name]++
				}
			})
		}
	}
	t.Logf("lost deletions of 200: %v", lost)
	if lost["clientgo"] > 0 {
		t.Errorf("%d of 200 deletions were lost", lost["clientgo"])
	}
}

// A watch that does not open does not keep the informer from syncing, and one that is refused neither.
// Guarantees: P5
func TestWatchThatDoesNotOpen(t *testing.T) {
	beside(t, func(s *world.Stranger) {
		refused := false
		s.Watched = func(ctx context.Context, _ metav1.ListOptions) error {
			if !refused {
				refused = true
				return apierrors.NewServiceUnavailable("not now")
			}
			<-ctx.Done()
			return ctx.Err()
		}
		s.Add(world.StrangePod("a", "x"))
	}, func(t *testing.T, s *world.Stranger, i clientcache.SharedIndexInformer, _ *world.Recorder) {
		<-time.After(time.Minute)
		if n := len(i.GetStore().List()); n != 1 || s.Open() != 0 {
			t.Errorf("%d objects, %d watches", n, s.Open())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &world.Stranger{Watched: func(ctx context.Context, _ metav1.ListOptions) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		began := time.Now()
		stop := run(t, cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("synced after %v", took)
		}
		stop()
	})
}

// The watch of a ListerWatcher is stopped with the informer.
// Guarantees: P1
func TestWatchIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &world.Stranger{}
		stop := run(t, cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil))
		if n := s.Open(); n != 1 {
			t.Errorf("%d watches after the sync", n)
		}
		expired(s)
		if n := s.Open(); n != 1 {
			t.Errorf("%d watches after a list", n)
		}
		stop()
		if n := s.Open(); n != 0 {
			t.Errorf("%d watches after the end", n)
		}
	})
}

// A list that never returns does not keep the informer from stopping.
// Guarantees: P5
func TestListThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		s := &world.Stranger{Listed: func(*corev1.PodList, metav1.ListOptions) (runtime.Object, error) {
			<-release
			return nil, errors.New("too late")
		}}
		i := cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); i.RunWithContext(ctx) }()
		synctest.Wait()
		began := time.Now()
		cancel()
		<-ended
		if took := time.Since(began); took > time.Second {
			t.Errorf("stopped after %v", took)
		}
	})
}

// A failure without a code, in a list, and an error event without a kind or a code are failures. The informer lists.
// Guarantees: P1, P5
func TestUnexplainedFailureLists(t *testing.T) {
	for name, event := range map[string]runtime.Object{
		"expired, without kind": &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired},
		"expired, without code": &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired},
		"nothing":               &metav1.Status{},
		"no Status":             &corev1.Pod{},
	} {
		t.Run(name, func(t *testing.T) {
			beside(t, func(s *world.Stranger) {
				failed := false
				s.Listed = func(list *corev1.PodList, _ metav1.ListOptions) (runtime.Object, error) {
					if !failed {
						failed = true
						return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure}}
					}
					return list, nil
				}
				s.Add(world.StrangePod("a", "x"))
			}, func(t *testing.T, s *world.Stranger, i clientcache.SharedIndexInformer, events *world.Recorder) {
				if n := len(s.Lists()); n != 2 {
					t.Errorf("%d lists before the sync", n)
				}
				s.Add(world.StrangePod("a", "y")) // without an event
				s.SendRaw(watch.Error, event)
				<-time.After(time.Minute)
				if got := rest(events); !slices.Equal(got, []string{"initial a/x@", "add a/y@"}) && !slices.Equal(got,
					[]string{"initial a/x@", "update a/x@ to a/x@", "add a/y@"}) {
					t.Errorf("events %q", got)
				}
			})
		})
	}
}

// A fast handler has received the initial objects when the informer has synced. client-go calls it until about then.
// A handler that does not return holds up nobody.
// Guarantees: P1
func TestHandlersRunBeforeTheSync(t *testing.T) {
	const rounds, objects = 200, 10
	late := map[string]int{}
	for _, peer := range peers {
		for range rounds {
			synctest.Test(t, func(t *testing.T) {
				s, events := &world.Stranger{}, &world.Recorder{}
				for n := range objects {
					s.Add(world.StrangePod("a", fmt.Sprint(n)))
				}
				i := peer.over(s, &corev1.Pod{}, 0, clientcache.Indexers{})
				add(t, i, events)
				defer run(t, i)()
				if len(events.Waiting()) < objects {
					late[peer.name]++
				}
			})
		}
	}
	t.Logf("of %d rounds, the handler was called after the sync: %v", rounds, late)
	if late["clientgo"] > 0 {
		t.Errorf("%d times", late["clientgo"])
	}
	synctest.Test(t, func(t *testing.T) {
		s, i := &world.Stranger{}, clientcache.SharedIndexInformer(nil)
		s.Add(world.StrangePod("a", "x"))
		i = cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil)
		add(t, i, clientcache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			clientcache.WaitFor(t.Context(), "", i.HasSyncedChecker())
		}})
		began := time.Now()
		run(t, i)
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("synced after %v", took)
		}
	})
}
