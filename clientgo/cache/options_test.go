package cache_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
)

// streaming is a stranger that says that it knows streaming lists.
type streaming struct{ *world.Stranger }

func (streaming) IsWatchListSemanticsUnSupported() bool { return false }

// A ListerWatcher that says that it knows streaming lists is asked for one, as by client-go. The same watch goes on. If
// it does not end the initial events, or refuses, it is asked for a list.
// Guarantees: P5
func TestStreamingListOfAListerWatcher(t *testing.T) {
	start := func(t *testing.T, watched func(metav1.ListOptions) error, over func(streaming) clientcache.SharedIndexInformer) (
		*world.Stranger, clientcache.SharedIndexInformer, *world.Recorder) {
		s, events := &world.Stranger{Watched: func(_ context.Context, o metav1.ListOptions) error { return watched(o) }}, &world.Recorder{}
		i := over(streaming{s})
		add(t, i, events)
		go i.RunWithContext(t.Context())
		synctest.Wait()
		return s, i, events
	}
	for _, peer := range peers {
		t.Run("ends the initial events/"+peer.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var options []metav1.ListOptions
				s, i, events := start(t, func(o metav1.ListOptions) error {
					options = append(options, o)
					return nil
				}, func(s streaming) clientcache.SharedIndexInformer { return peer.over(s, &corev1.Pod{}, 0, nil) })
				s.SendRaw(watch.Added, world.StrangePod("a", "x"))
				synctest.Wait()
				if i.HasSynced() {
					t.Error("synced before the end of the initial events")
				}
				s.SendRaw(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
				synctest.Wait()
				<-time.After(20 * time.Second)
				s.SendRaw(watch.Added, world.StrangePod("a", "y"))
				if got := rest(events); !slices.Equal(got, []string{"initial a/x@", "add a/y@"}) {
					t.Errorf("events %q", got)
				}
				if len(options) != 1 || options[0].SendInitialEvents == nil || len(s.Lists()) != 0 {
					t.Errorf("%d watches, %d lists", len(options), len(s.Lists()))
				}
			})
		})
	}
	for name, refusal := range map[string]error{"does not end": nil, "refuses": errors.New("unknown option")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, i, _ := start(t, func(o metav1.ListOptions) error {
					if o.SendInitialEvents != nil {
						return refusal
					}
					return nil
				}, func(s streaming) clientcache.SharedIndexInformer {
					return cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil)
				})
				<-time.After(time.Minute)
				if !i.HasSynced() || len(s.Lists()) != 1 {
					t.Errorf("synced %t, %d lists", i.HasSynced(), len(s.Lists()))
				}
			})
		})
	}
}

// An informer over the ListWatch of a metadata client syncs and delivers changes.
// Guarantees: P5
func TestListWatchOfMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		pod := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"},
		}
		client := metadatafake.NewSimpleMetadataClient(scheme, pod)
		pods := client.Resource(world.Pods).Namespace("a")
		lw := &clientcache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return pods.Watch(ctx, o)
			},
		}
		i := cache.NewSharedIndexInformer(lw, &metav1.PartialObjectMetadata{}, 0, nil)
		var events world.Recorder
		add(t, i, &events)
		defer run(t, i)()
		obj, exists, err := i.GetStore().GetByKey("a/x")
		if err != nil || !exists || obj.(*metav1.PartialObjectMetadata).Kind != "Pod" {
			t.Errorf("the store has %v, %v", obj, err)
		}
		if err := pods.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := events.Next(2); !slices.Equal(got, []string{"initial a/x@", "delete a/x@"}) {
			t.Errorf("events %q", got)
		}
	})
}

// An informer can hold the objects of a ListerWatcher compressed, drop their managedFields, and call a transform once for
// each, as it does with the objects of a server.
// Guarantees: P5, R20, R21
func TestStorageOfValues(t *testing.T) {
	for name, storage := range map[string]cache.Options{
		"dropped": {DropManagedFields: true}, "compact": {Layout: new(informer.LayoutCompact), DropManagedFields: true},
		"shared": {Layout: new(informer.LayoutShared)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &world.Stranger{}
				pod := world.StrangePod("a", "x")
				pod.ManagedFields, pod.Finalizers = []metav1.ManagedFieldsEntry{{Manager: "m"}}, []string{}
				s.Add(pod)
				i, err := cache.Over(s, &corev1.Pod{}, clientcache.SharedIndexInformerOptions{}, storage)
				if err != nil {
					t.Fatal(err)
				}
				calls := 0
				if err := i.SetTransform(func(obj any) (any, error) {
					calls++
					return obj, nil
				}); err != nil {
					t.Fatal(err)
				}
				defer run(t, i)()
				obj, exists, err := i.GetStore().GetByKey("a/x")
				if err != nil || !exists {
					t.Fatal(exists, err)
				}
				got := obj.(*corev1.Pod)
				if (len(got.ManagedFields) == 0) != storage.DropManagedFields || got.Finalizers == nil || calls != 1 {
					t.Errorf("the store has %v after %d calls", got, calls)
				}
			})
		})
	}
}

// An object of another type is one that cannot be decoded. The others go on.
// Guarantees: P5, R17
func TestValueOfAnotherType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, events := &world.Stranger{}, &world.Recorder{}
		i := cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil)
		add(t, i, events)
		defer run(t, i)()
		s.SendRaw(watch.Added, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		s.SendRaw(watch.Added, nil)
		s.Send(watch.Added, world.StrangePod("a", "x"))
		if got := rest(events); !slices.Equal(got, []string{"add a/x@"}) {
			t.Errorf("events %q", got)
		}
		var failed *informer.DecodeError
		if _, exists, err := i.GetStore().GetByKey("n"); exists || !errors.As(err, &failed) ||
			!strings.Contains(failed.Error(), "it is a *v1.Node instead of a *v1.Pod") {
			t.Errorf("the node: %t %v", exists, err)
		}
		if n := len(s.Lists()); n != 1 {
			t.Errorf("%d lists", n)
		}
	})
}

// A list that is nil, or has no list's type, is a failure, and an empty one has no objects.
// Guarantees: P5
func TestNilListOfAListerWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []runtime.Object{nil, (*corev1.PodList)(nil), &corev1.Pod{}, &corev1.PodList{}}
		s := &world.Stranger{Listed: func(*corev1.PodList, metav1.ListOptions) (runtime.Object, error) {
			next := answers[0]
			answers = answers[1:]
			return next, nil
		}}
		i := cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, nil)
		failures := 0
		if err := i.SetWatchErrorHandler(func(*clientcache.Reflector, error) { failures++ }); err != nil {
			t.Fatal(err)
		}
		defer run(t, i)()
		if list := i.GetStore().List(); len(list) != 0 || failures != 3 {
			t.Errorf("%d objects after %d failures", len(list), failures)
		}
	})
}
