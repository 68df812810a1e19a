package bench

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
)

// The pods of the benchmarks of selectors: each namespace has as many apps, whose pods have five labels.
const (
	selectorNamespaces = 100
	selectorPods       = 100_000
)

// selectorPod returns a pod of an app. Apps are spread over the namespaces.
func selectorPod(i, apps int) *corev1.Pod {
	app := i % apps
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprint("ns", app%selectorNamespaces), Name: fmt.Sprint("pod", i), UID: "1", ResourceVersion: "1",
		Labels: map[string]string{"app": fmt.Sprint("app", app), "tier": "backend", "team": fmt.Sprint("team", app%7),
			"version": "v1", "pod-template-hash": fmt.Sprint(i % 10)},
	}}
}

// selectorService returns the service of an app.
func selectorService(app int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns", app%selectorNamespaces), Name: fmt.Sprint("app", app),
			UID: "1", ResourceVersion: "1"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"tier": "backend", "app": fmt.Sprint("app", app)}},
	}
}

func selectsByService(s *corev1.Service) (string, labels.Selector) {
	if len(s.Spec.Selector) == 0 {
		return s.Namespace, nil
	}
	return s.Namespace, labels.Set(s.Spec.Selector).AsSelectorPreValidated()
}

// selecting finds services by pods, and pods by services.
type selecting interface {
	services(p *corev1.Pod) (n int)
	pods(s *corev1.Service) (n int)
}

// indexed is this library.
type indexed struct {
	index *informer.SelectorIndex[*corev1.Service]
	store *informer.Store[*corev1.Pod]
}

func (x indexed) services(p *corev1.Pod) (n int) {
	for range x.index.Matching(p.Namespace, p.Labels) {
		n++
	}
	return n
}

func (x indexed) pods(s *corev1.Service) (n int) {
	namespace, selector := selectsByService(s)
	for p := range x.store.Namespace(namespace) {
		if selector.Matches(labels.Set(p.Labels)) {
			n++
		}
	}
	return n
}

// scan checks everything.
type scan struct {
	selectors *informer.Store[*corev1.Service]
	objects   *informer.Store[*corev1.Pod]
}

func (x scan) services(p *corev1.Pod) (n int) {
	for s := range x.selectors.All() {
		if s.Namespace == p.Namespace && labels.Set(s.Spec.Selector).AsSelectorPreValidated().Matches(labels.Set(p.Labels)) {
			n++
		}
	}
	return n
}

func (x scan) pods(s *corev1.Service) (n int) {
	for p := range x.objects.All() {
		if s.Namespace == p.Namespace && labels.Set(s.Spec.Selector).AsSelectorPreValidated().Matches(labels.Set(p.Labels)) {
			n++
		}
	}
	return n
}

// dependencies is how istio's krt does it, from its description: a collection derived from pods fetches the services of
// a namespace and filters them by the labels of the pod. It records each such fetch. An event of a service checks the
// recorded fetches of all pods.
type dependencies struct {
	byNamespace map[string][]*corev1.Service
	fetches     map[string]*fetched // by pod
}

// fetched is what a pod depends on: the services of a namespace that select these labels.
type fetched struct {
	namespace string
	selects   map[string]string
}

func newDependencies(services *informer.Store[*corev1.Service], pods *informer.Store[*corev1.Pod]) *dependencies {
	d := &dependencies{byNamespace: map[string][]*corev1.Service{}, fetches: map[string]*fetched{}}
	for s := range services.All() {
		d.byNamespace[s.Namespace] = append(d.byNamespace[s.Namespace], s)
	}
	for p := range pods.All() {
		d.services(p)
	}
	return d
}

// selectsAll reports whether a set has all of these labels.
func selectsAll(selector, set map[string]string) bool {
	for key, value := range selector {
		if got, ok := set[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func (d *dependencies) services(p *corev1.Pod) (n int) {
	d.fetches[p.Namespace+"/"+p.Name] = &fetched{p.Namespace, p.Labels}
	for _, s := range d.byNamespace[p.Namespace] {
		if selectsAll(s.Spec.Selector, p.Labels) {
			n++
		}
	}
	return n
}

func (d *dependencies) pods(s *corev1.Service) (n int) {
	for _, f := range d.fetches {
		if f.namespace == s.Namespace && selectsAll(s.Spec.Selector, f.selects) {
			n++
		}
	}
	return n
}

// liveHeap returns the bytes of the live heap.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkSelectors measures how long it takes to find the services of a pod, and the pods of a service. The metric
// heap-B is the memory of what finds them.
func BenchmarkSelectors(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		pods, podWriter := informer.NewStore[*corev1.Pod]()
		services, serviceWriter := informer.NewStore[*corev1.Service]()
		for i := range selectorPods {
			if err := podWriter.Apply(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: selectorPod(i, n)}); err != nil {
				b.Fatal(err)
			}
		}
		for app := range n {
			upsert := informer.Delta[*corev1.Service]{Type: informer.Upserted, Object: selectorService(app)}
			if err := serviceWriter.Apply(upsert); err != nil {
				b.Fatal(err)
			}
		}
		var asked []*corev1.Pod
		for i := range 1000 {
			asked = append(asked, selectorPod(i*(selectorPods/1000)+i%97, n))
		}
		for _, impl := range []struct {
			name string
			make func() selecting
		}{
			{"index", func() selecting { return indexed{informer.NewSelectorIndex(services, selectsByService), pods} }},
			{"scan", func() selecting { return scan{services, pods} }},
			{"recorded-fetches", func() selecting { return newDependencies(services, pods) }},
		} {
			before := liveHeap()
			found := impl.make()
			heap := float64(liveHeap()) - float64(before)
			b.Run(fmt.Sprintf("services=%d/find=services/impl=%s", n, impl.name), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					if got := found.services(asked[i%len(asked)]); got != 1 {
						b.Fatalf("%d services, want 1", got)
					}
				}
				b.ReportMetric(max(heap, 0), "heap-B")
			})
			b.Run(fmt.Sprintf("services=%d/find=pods/impl=%s", n, impl.name), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					if got := found.pods(selectorService(i % n)); got != selectorPods/n {
						b.Fatalf("%d pods, want %d", got, selectorPods/n)
					}
				}
			})
		}
	}
}
