package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

const (
	secret  = "hunter2"
	hostile = `<img src=x onerror="window.hacked=true"><script>window.hacked=true</script>`
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// program is a program with informers, a controller and a debug page, and the API server that it reads.
type program struct {
	*testing.T
	server     *informertest.Server
	pods       *informertest.Collection[*corev1.Pod]
	informer   *informer.Informer[*corev1.Pod]
	group      *informer.Group
	controller *informer.Controller[informer.Key]
	queue      *informer.Queue[informer.Key]
	config     debugpage.Config
	page       *httptest.Server
	url        string      // of the page
	last       *corev1.Pod // that write has changed
	reconcile  func() error

	mu       sync.Mutex    // protects the fields below
	requests int           // for status.json
	gone     bool          // answers 404
	shift    time.Duration // see pass
}

// resources are those of the program, with the number of their objects.
var resources = []struct {
	gvr     schema.GroupVersionResource
	kind    string
	objects int
}{
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", 214},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet", 640},
	{schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job", 38},
	{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}, "Ingress", 57},
	{schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "websites"}, "Website", 120},
	{schema.GroupVersionResource{Group: "", Version: "v1", Resource: "services"}, "Service", 231},
	{schema.GroupVersionResource{Group: "", Version: "v1", Resource: "nodes"}, "Node", 12},
}

// start starts a program. config changes the configuration of its page; nil means that nobody sees objects.
func start(t *testing.T, config func(p *program)) *program {
	t.Helper()
	p := &program{T: t, server: informertest.NewServer(informertest.Options{}), reconcile: func() error { return nil }}
	client, err := informer.NewClient(p.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	p.group = informer.NewGroup(client)
	core := func(resource string) schema.GroupVersionResource {
		return corev1.SchemeGroupVersion.WithResource(resource)
	}
	p.pods = informertest.Register[*corev1.Pod](p.server, informertest.Resource{GroupVersionResource: core("pods")})
	for n := range 1240 {
		p.write(n)
	}
	secrets := informertest.Register[*corev1.Secret](p.server, informertest.Resource{GroupVersionResource: core("secrets")})
	create(t, secrets, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "login", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": secret}},
		Type:       corev1.SecretTypeBasicAuth,
		Data:       map[string][]byte{"username": []byte("admin"), "password": []byte(secret)},
	})
	for _, r := range resources {
		collection := informertest.Register[*unstructured.Unstructured](p.server, informertest.Resource{GroupVersionResource: r.gvr, Kind: r.kind})
		for n := range r.objects {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(r.gvr.GroupVersion().WithKind(r.kind))
			o.SetNamespace("default")
			o.SetName(fmt.Sprintf("%s-%d", r.gvr.Resource, n))
			create(t, collection, o)
		}
		share[*metav1.PartialObjectMetadata](p, informer.Resource{GroupVersionResource: r.gvr})
	}
	p.informer = share[*corev1.Pod](p, informer.Resource{GroupVersionResource: core("pods")})
	held := share[*corev1.Secret](p, informer.Resource{GroupVersionResource: core("secrets")})
	byNode := informer.NewIndex(p.informer, func(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} })
	p.informer.Subscribe(informer.HandlerFuncs[*corev1.Pod]{}, informer.SubscriptionConfig[*corev1.Pod]{Name: "audit"})
	p.queue = informer.NewQueue(informer.QueueConfig[informer.Key]{Name: "website"})
	p.controller = &informer.Controller[informer.Key]{Name: "website", Queue: p.queue, MaxConcurrentReconciles: 4, Logger: quiet, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
		return informer.Result{}, p.reconcile()
	}}
	p.controller.Watch(informer.EnqueueObject(p.informer))
	p.config = debugpage.Config{
		Name:        "shop-controller",
		Groups:      []func() []informer.InformerStatus{p.group.Status},
		Controllers: []func() status.Controller{p.controller.Status},
		Clients:     []func() status.Client{client.Status},
		Replicas: []func() shard.Status{func() shard.Status {
			return shard.Status{
				Group: "default/website", Identity: "website-1", State: shard.Member, Replicas: []string{"website-0", "website-1", "website-2"},
				Slots: 256, Planned: 85, Held: 85, Claimed: 85, Owned: 85, Gained: 170, Released: 85, Renewed: time.Now().Add(-2 * time.Second),
			}
		}},
		Managers: []func() manager.Status{func() manager.Status {
			since := time.Now().Add(-time.Hour)
			return manager.Status{
				State: manager.Running, Since: since, Leading: true,
				Elector: &leader.Status{Lease: "shop/website", RenewDeadline: 10 * time.Second, Grace: 4 * time.Second, Identity: "website-1", State: leader.Leading, Since: since, Holder: "website-1", Renewed: time.Now().Add(-time.Second), Terms: 1},
				Tasks: []manager.TaskStatus{
					{Name: "probes :8081", Phase: manager.Servers, State: manager.TaskRunning, Since: since},
					{Name: "informers", Phase: manager.Caches, State: manager.TaskRunning, Since: since},
					{Name: "website", Phase: manager.LeaderOnly, State: manager.TaskRunning, Since: since},
				},
			}
		}},
		Objects: []debugpage.Source{debugpage.Objects(p.informer, debugpage.Index("node", byNode)), debugpage.Objects(held)},
	}
	if config != nil {
		config(p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = p.group.Run(ctx) })
	tasks.Go(func() { _ = p.controller.Run(ctx) })
	if err := p.group.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/informers/", p.counted(debugpage.New(p.config)))
	p.page = httptest.NewServer(mux)
	p.url = p.page.URL + "/debug/informers/"
	t.Cleanup(func() {
		p.page.Close()
		cancel()
		tasks.Wait()
		p.server.Close()
	})
	return p
}

func share[T informer.Object](p *program, resource informer.Resource) *informer.Informer[T] {
	p.Helper()
	i, _, err := informer.Shared(p.group, resource, informer.Config[T]{Logger: quiet})
	if err != nil {
		p.Fatal(err)
	}
	return i
}

func create[T interface {
	informer.Object
	metav1.Object
}](t *testing.T, c interface{ Create(T) (T, error) }, obj T) {
	t.Helper()
	if _, err := c.Create(obj); err != nil {
		t.Fatal(err)
	}
}

// write creates or changes a pod.
func (p *program) write(n int) {
	p.Helper()
	name := fmt.Sprintf("web-%04d", n%1240)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web", "change": fmt.Sprint(n)}},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", n%1240%12+1), Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/web:1.8.2"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", n%1240/250, n%250)},
	}
	if n < 1240 {
		create(p.T, p.pods, pod)
		return
	}
	updated, err := p.pods.Update(pod)
	if err != nil {
		p.Fatal(err)
	}
	p.last = updated
}

// forbid breaks the watch of a resource, with HTML in the error. The returned function mends it.
func (p *program) forbid(resource string) (mend func()) { return p.refuse(resource, hostile) }

// refuse is forbid with the text of the error.
func (p *program) refuse(resource, text string) (mend func()) {
	remove := p.server.Inject(informertest.Fault{Resource: resource, Error: apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New(text))})
	p.server.EndWatches()
	return remove
}

// counted counts requests for status.json, and moves the time of the answers.
func (p *program) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/informers/status.json" {
			h.ServeHTTP(w, r)
			return
		}
		p.mu.Lock()
		gone := p.gone
		p.mu.Unlock()
		if gone {
			http.NotFound(w, r)
			return
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		var status map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p.mu.Lock()
		p.requests++
		status["time"] = time.Now().Add(p.shift)
		p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(status)
	})
}

// fail makes all later requests for status.json fail.
func (p *program) fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
}

// answer ends fail.
func (p *program) answer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = false
}

// pass lets d pass for the page, without waiting.
func (p *program) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shift += d
}

// polled returns the number of requests for status.json so far.
func (p *program) polled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}
