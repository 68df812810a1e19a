package crcache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
	"github.com/typedinformer/informer/informertest"
)

// podsOnDemand is the one line of a program.
var podsOnDemand = crcache.Options{NoMetrics: true, ByObject: map[client.Object]crcache.ByObject{&corev1.Pod{}: {OnDemand: true}}}

// sent returns how many requests of a verb the server has got for pods, and how many of them were for metadata only.
func (w *world) sent(verb string) (all, metadata int) {
	for _, r := range w.server.Requests() {
		if r.Verb == verb && r.Resource.Resource == "pods" {
			all++
			if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
				metadata++
			}
		}
	}
	return all, metadata
}

func (w *world) wantGets(want int) {
	w.Helper()
	if n, _ := w.sent("get"); n != want {
		w.Errorf("%d requests for a pod, want %d", n, want)
	}
}

// Every way to read a kind on demand returns whole objects. The cache requests metadata, and each object that is read.
// Guarantees: T8
func TestOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.pod("ns", "a")
		w.pod("ns", "b")
		c := w.started(cache.Options{}, podsOnDemand)
		key := client.ObjectKey{Namespace: "ns", Name: "a"}
		var first, second corev1.Pod
		for _, out := range []*corev1.Pod{&first, &second} {
			if err := c.Get(t.Context(), key, out); err != nil || out.Spec.NodeName != "node-a" || out.Kind != "Pod" || len(out.ManagedFields) != 1 {
				t.Errorf("%v, %v", out, err)
			}
		}
		if first.Spec.SecurityContext == second.Spec.SecurityContext {
			t.Error("two reads share memory")
		}
		if pod, err := crcache.Get[*corev1.Pod](t.Context(), c, key); err != nil || pod.Spec.NodeName != "node-a" {
			t.Errorf("%v, %v", pod, err)
		}
		w.wantGets(1)
		var u unstructured.Unstructured
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		if err := c.Get(t.Context(), key, &u); err != nil {
			t.Fatal(err)
		}
		if node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName"); node != "node-a" {
			t.Errorf("%v", u.Object)
		}
		w.wantGets(2)
		w.relabel("ns", "a", "x", "y")
		synctest.Wait()
		if err := c.Get(t.Context(), key, &first); err != nil || first.Labels["x"] != "y" || first.Spec.NodeName != "node-a" {
			t.Errorf("%v, %v", first, err)
		}
		w.wantGets(3)
		w.delete("ns", "a")
		synctest.Wait()
		if err := c.Get(t.Context(), key, &first); !apierrors.IsNotFound(err) {
			t.Errorf("%v for a deleted pod", err)
		}
		remove := w.server.Inject(informertest.Fault{Verb: "get", Error: apierrors.NewForbidden(corev1.Resource("pods"), "b", errors.New("no"))})
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "b"}, &first); !apierrors.IsForbidden(err) {
			t.Errorf("%v without the permission", err)
		}
		remove()
		for _, verb := range []string{"list", "watch"} {
			if all, metadata := w.sent(verb); all != metadata {
				t.Errorf("%d of %d requests to %s were for whole objects", all-metadata, all, verb)
			}
		}
	})
}

// A list of a kind on demand has whole objects, by namespace and label. Many cost one request.
// Guarantees: T8
func TestOnDemandLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		for n := range 24 {
			w.pod([]string{"ns", "other"}[n%2], fmt.Sprintf("%02d", n))
		}
		c := w.started(cache.Options{DefaultNamespaces: map[string]cache.Config{"ns": {}, "other": {}}}, podsOnDemand)
		w.wantNames(c, []string{"ns/04"}, client.MatchingLabels{"name": "04"})
		w.wantGets(1)
		w.wantNames(c, []string{"other/01", "other/03"}, client.InNamespace("other"), client.Limit(2))
		w.wantGets(3)
		for range 2 {
			pods, err := crcache.List[*corev1.Pod](t.Context(), c)
			if err != nil || len(pods) != 24 {
				t.Fatalf("%d pods, %v", len(pods), err)
			}
			for _, pod := range pods {
				if pod.Spec.NodeName != "node-"+pod.Name {
					t.Errorf("pod %+v", pod)
				}
			}
		}
		all, metadata := w.sent("list")
		if _, streamed := w.sent("watch"); all-metadata != 2 || streamed == 0 { // one for each namespace
			t.Errorf("%d lists of whole pods", all-metadata)
		}
		w.wantGets(3)
	})
}

// An object whose transform fails, or that cannot be decoded, affects only itself: a list has the others, and an error.
// Guarantees: T8
func TestOnDemandListWithoutWhatCannotBeDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		for n := range 20 {
			w.pod("ns", fmt.Sprintf("%02d", n))
		}
		w.pod("few", "03")
		w.pod("few", "04")
		c := w.started(cache.Options{DefaultTransform: func(in any) (any, error) {
			if in.(*corev1.Pod).Spec.NodeName == "node-03" { // metadata have none
				return nil, errors.New("wrong node")
			}
			return in, nil
		}}, podsOnDemand)
		key := func(namespace, name string) client.ObjectKey {
			return client.ObjectKey{Namespace: namespace, Name: name}
		}
		for _, verb := range []string{"list", "get"} {
			w.server.Inject(informertest.Fault{Verb: verb, Corrupt: []informer.Key{key("ns", "05")}})
		}
		for range 2 { // the second time, most are held
			for namespace, want := range map[string]int{"ns": 18, "few": 1, "": 19} {
				var list corev1.PodList
				err := c.List(t.Context(), &list, client.InNamespace(namespace))
				pods, same := crcache.List[*corev1.Pod](t.Context(), c, client.InNamespace(namespace))
				for _, err := range []error{err, same} {
					var failed *informer.DecodeError
					if !errors.As(err, &failed) || failed.Key.Name != "03" || !strings.Contains(err.Error(), "list Pod: ") {
						t.Errorf("namespace %q: error %v", namespace, err)
					}
				}
				if len(list.Items) != want || len(pods) != want {
					t.Errorf("namespace %q: %d and %d pods, want %d", namespace, len(list.Items), len(pods), want)
				}
			}
			w.wantNames(c, []string{"ns/04"}, client.InNamespace("ns"), client.MatchingLabels{"name": "04"})
		}
		var failed *informer.DecodeError
		if err := c.Get(t.Context(), key("ns", "05"), &corev1.Pod{}); !errors.As(err, &failed) || failed.Key != key("ns", "05") {
			t.Errorf("Get of an object that cannot be decoded: %v", err)
		}
	})
}

// A list with a limit reads the pages that have its objects, not all.
// Guarantees: T8
func TestOnDemandListWithALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		for n := range 1100 {
			w.pod("ns", fmt.Sprintf("%04d", n))
		}
		c := w.started(cache.Options{}, podsOnDemand)
		for _, test := range []struct{ limit, pages int }{{10, 1}, {10, 1}, {600, 3}} { // in all
			pods, err := crcache.List[*corev1.Pod](t.Context(), c, client.Limit(test.limit))
			all, metadata := w.sent("list")
			if err != nil || len(pods) != test.limit || all-metadata != test.pages {
				t.Errorf("%d pods by %d pages, %v, want %+v", len(pods), all-metadata, err, test)
			}
		}
		w.wantGets(0)
	})
}

// Handlers receive objects of the kind's type that have metadata only. A transform sees these, and the whole ones.
// Guarantees: T8
func TestOnDemandEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.pod("ns", "a")
		c := w.started(cache.Options{DefaultTransform: func(in any) (any, error) {
			pod := in.(*corev1.Pod)
			pod.Annotations = map[string]string{"transformed": pod.Spec.NodeName}
			return pod, nil
		}}, podsOnDemand)
		var pods []*corev1.Pod
		if _, err := w.informerOf(c).AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { pods = append(pods, obj.(*corev1.Pod)) }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := map[string]string{"transformed": ""}
		if len(pods) != 1 || pods[0].Name != "a" || pods[0].Labels["name"] != "a" || pods[0].UID == "" || pods[0].Spec.NodeName != "" ||
			pods[0].ManagedFields != nil || !maps.Equal(pods[0].Annotations, want) {
			t.Errorf("events %+v", pods)
		}
		var pod corev1.Pod
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pods[0]), &pod); err != nil || pod.Annotations["transformed"] != "node-a" {
			t.Errorf("%v, %v", pod.Annotations, err)
		}
	})
}

// Calls that need all whole objects return an error that says so. Options that contradict each other do too.
// Guarantees: T8, P3
func TestOnDemandHasNoIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		c := w.started(cache.Options{}, podsOnDemand)
		_, index := crcache.NewIndex(t.Context(), c, func(*corev1.Pod) []string { return nil })
		for what, err := range map[string]error{
			"IndexField":     c.IndexField(t.Context(), &corev1.Pod{}, "spec.nodeName", func(client.Object) []string { return nil }),
			"an Index":       index,
			"list by fields": c.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "node-a"}),
		} {
			if err == nil || !strings.Contains(err.Error(), "OnDemand") {
				t.Errorf("%s: %v", what, err)
			}
		}
		for says, options := range map[string]crcache.Options{
			"OnDemand and LayoutCompact": {ByObject: map[client.Object]crcache.ByObject{&corev1.Pod{}: {OnDemand: true, Layout: new(informer.LayoutCompact)}}},
		} {
			if _, err := crcache.New(options)(w.config(), cache.Options{Mapper: mapper()}); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
		theirs := cache.Options{Mapper: mapper(), NewInformer: toolscache.NewSharedIndexInformer}
		if _, err := crcache.New(podsOnDemand)(w.config(), theirs); err == nil || !strings.Contains(err.Error(), "OnDemand has no effect") {
			t.Errorf("%v with NewInformer", err)
		}
	})
}

// A manager reconciles each pod, and its client reads whole pods. One line of the program differs.
// Guarantees: T8
func TestManagerOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.pod("ns", "a")
		w.pod("ns", "b")
		var mu sync.Mutex
		nodes := map[string]string{}
		mgr, err := ctrl.NewManager(w.config(), ctrl.Options{
			NewCache:               crcache.New(podsOnDemand),
			MapperProvider:         func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper(), nil },
			Metrics:                metricsserver.Options{BindAddress: "0"},
			HealthProbeBindAddress: "0",
			Controller:             config.Controller{SkipNameValidation: ptr(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		reconciler := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			var pod corev1.Pod
			if err := mgr.GetClient().Get(ctx, req.NamespacedName, &pod); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			mu.Lock()
			defer mu.Unlock()
			nodes[pod.Name] = pod.Spec.NodeName + pod.Labels["x"]
			return reconcile.Result{}, nil
		})
		if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Complete(reconciler); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- mgr.Start(ctx) }()
		time.Sleep(time.Minute)
		w.relabel("ns", "a", "x", "y")
		w.pod("ns", "c")
		time.Sleep(time.Minute)
		mu.Lock()
		if want := map[string]string{"a": "node-ay", "b": "node-b", "c": "node-c"}; !maps.Equal(nodes, want) {
			t.Errorf("nodes %v, want %v", nodes, want)
		}
		mu.Unlock()
		for _, verb := range []string{"list", "watch"} {
			if all, metadata := w.sent(verb); all != metadata {
				t.Errorf("%d of %d requests to %s were for whole objects", all-metadata, all, verb)
			}
		}
		w.wantGets(4)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
