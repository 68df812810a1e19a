package cache_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"
	clienttesting "k8s.io/client-go/tools/cache/testing"

	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
)

// An informer over a ListWatch of this package sends its own requests, with namespace and selectors.
// Guarantees: P1
func TestListWatchFromClient(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	w.Pod("a", "two")
	w.Pod("b", "one")
	lw := cache.NewListWatchFromClient(w.Clientset().CoreV1().RESTClient(), "pods", "a",
		fields.OneTermEqualSelector("metadata.name", "one"))
	i := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, clientcache.Indexers{"node": byNode})
	defer run(t, i)()
	if keys, err := i.GetIndexer().IndexKeys("node", "node-one"); err != nil || !slices.Equal(keys, []string{"a/one"}) {
		t.Errorf("IndexKeys: %q %v", keys, err)
	}
	if keys := i.GetStore().ListKeys(); !slices.Equal(keys, []string{"a/one"}) {
		t.Errorf("keys %q", keys)
	}
	if req := w.Server.Requests()[0]; req.Header.Get("Accept") != "application/vnd.kubernetes.protobuf,application/json" &&
		!strings.Contains(req.Header.Get("Accept"), "protobuf") {
		t.Errorf("accepts %q", req.Header.Get("Accept"))
	}
}

// An informer over a ListWatch of a fake clientset has the objects of the clientset.
// Guarantees: P1
func TestListWatchFromFakeClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}})
		lw := &clientcache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.CoreV1().Pods("").List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return client.CoreV1().Pods("").Watch(ctx, o)
			},
		}
		i := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, clientcache.Indexers{})
		var events world.Recorder
		add(t, i, &events)
		defer run(t, i)()
		events.Next(1)
		if _, err := client.CoreV1().Pods("b").Create(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "two"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := events.Next(1); !strings.HasPrefix(got[0], "add b/two@") {
			t.Errorf("event %q", got)
		}
	})
}

// An informer over any ListerWatcher delivers its changes.
// Guarantees: P1
func TestListerWatcher(t *testing.T) {
	source := clienttesting.NewFakeControllerSource()
	pod := func(name, label string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u",
			Labels: map[string]string{"l": label}}}
	}
	source.Add(pod("one", "1"))
	i := cache.NewSharedInformer(source, &corev1.Pod{}, 0)
	var events world.Recorder
	if _, err := i.AddEventHandler(&events); err != nil {
		t.Fatal(err)
	}
	defer run(t, i.(clientcache.SharedIndexInformer))()
	events.Next(1)
	source.Add(pod("two", "1"))
	source.Modify(pod("one", "2"))
	source.Delete(pod("two", "1"))
	want := []string{"add a/two@2", "update a/one@1 to a/one@3", "delete a/two@4"}
	if got := events.Next(3); !slices.Equal(got, want) {
		t.Errorf("events %q", got)
	}
}

// Errors of a ListerWatcher reach the watch error handler: those of the API with their reason, others unchanged.
// Guarantees: P1
func TestListerWatcherFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &failing{failures: []error{errOfList, apierrors.NewForbidden(world.Pods.GroupResource(), "", nil)}}
		i := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, clientcache.Indexers{})
		failures := make(chan error, 10)
		if err := i.SetWatchErrorHandler(func(_ *clientcache.Reflector, err error) { failures <- err }); err != nil {
			t.Fatal(err)
		}
		defer run(t, i)()
		if err := <-failures; !errors.Is(err, errOfList) {
			t.Errorf("failure %v", err)
		}
		if err := <-failures; !apierrors.IsForbidden(err) {
			t.Errorf("failure %v", err)
		}
	})
}

var errOfList = errors.New("from the ListerWatcher")

// failing is a ListerWatcher whose first lists fail.
type failing struct{ failures []error }

func (f *failing) List(metav1.ListOptions) (runtime.Object, error) {
	if len(f.failures) > 0 {
		err := f.failures[0]
		f.failures = f.failures[1:]
		return nil, err
	}
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (*failing) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// An object that no informer here can hold gets client-go's own informer, and Over says why.
func TestOverWrongObject(t *testing.T) {
	i := cache.NewSharedIndexInformer(&failing{}, &corev1.PodList{}, 0, clientcache.Indexers{})
	if err := i.GetStore().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "any"}}); err != nil {
		t.Error(err)
	}
	if _, err := cache.Over(&failing{}, &corev1.PodList{}, clientcache.SharedIndexInformerOptions{}, cache.Options{}); err == nil {
		t.Error("no error for a list")
	}
	if _, err := cache.Over(nil, &corev1.Pod{}, clientcache.SharedIndexInformerOptions{}, cache.Options{}); err == nil {
		t.Error("no error for a nil ListerWatcher")
	}
}

// A fake clientset has no REST client.
func TestClientForFake(t *testing.T) {
	if _, err := cache.ClientFor(fake.NewClientset().CoreV1().RESTClient()); !errors.Is(err, cache.ErrNoRESTClient) {
		t.Errorf("error %v", err)
	}
	if _, err := cache.ClientFor(nil); !errors.Is(err, cache.ErrNoRESTClient) {
		t.Errorf("error %v", err)
	}
}
