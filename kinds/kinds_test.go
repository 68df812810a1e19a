package kinds_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/kinds"
)

func TestMain(m *testing.M) { leak.Main(m) }

type object = *metav1.PartialObjectMetadata

// table has the objects of a kind on the server.
type table struct {
	*informertest.Collection[*unstructured.Unstructured]
	resource informertest.Resource
}

// world is a server with definitions and APIServices, and a set of its kinds.
type world struct {
	*testing.T
	server      *informertest.Server
	definitions *table
	services    *table
	set         *kinds.Set[object]
	log         *lines
	events      *events

	mu     sync.Mutex // protects frozen
	frozen []byte     // what /apis answers; nil for the truth
}

// bubble runs do with a server that has the kinds pods and nodes, and a set with that configuration that does not run.
func bubble(t *testing.T, config kinds.Config[object], do func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, log: &lines{}, events: &events{}}
		w.server = informertest.NewServer(informertest.Options{InMemory: true, Middleware: w.freezable})
		defer w.server.Close()
		w.definitions = w.serve("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", true)
		w.services = w.serve("apiregistration.k8s.io/v1", "apiservices", "APIService", true)
		create(w, w.serve("v1", "pods", "Pod", false), "a", "b")
		create(w, w.serve("v1", "nodes", "Node", true), "n")
		client, err := informer.NewClient(w.server.Config())
		if err != nil {
			t.Fatal(err)
		}
		config.Logger = slog.New(slog.NewTextHandler(w.log, nil))
		w.set = kinds.New(client, config)
		w.set.Subscribe(w.events.handler(), kinds.SubscriptionConfig{})
		do(w)
	})
}

// freezable makes /apis answer what it did before, as an API server that lags.
func (w *world) freezable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		body := w.frozen
		w.mu.Unlock()
		if body == nil || r.URL.Path != "/apis" {
			next.ServeHTTP(out, r)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		out.Write(body)
	})
}

// groups returns what /apis answers now.
func (w *world) groups() []byte {
	client := &http.Client{Transport: &http.Transport{DialContext: w.server.Config().Dial, DisableKeepAlives: true}}
	req := httptest.NewRequest(http.MethodGet, w.server.URL+"/apis", nil)
	req.RequestURI = ""
	req.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	resp, err := client.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return body
}

// without returns what /apis answers now, but without the resources of a version.
func without(w *world, gv schema.GroupVersion) []byte {
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(w.groups(), &list); err != nil {
		w.Fatal(err)
	}
	for _, group := range list.Items {
		for i := range group.Versions {
			if group.Name == gv.Group && group.Versions[i].Version == gv.Version {
				group.Versions[i].Resources = nil
			}
		}
	}
	body, err := json.Marshal(list)
	if err != nil {
		w.Fatal(err)
	}
	return body
}

// freeze makes /apis answer that body; nil for the truth.
func (w *world) freeze(body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = body
}

// serve makes the server serve a kind.
func (w *world) serve(version, resource, kind string, clusterScoped bool) *table {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		w.Fatal(err)
	}
	r := informertest.Resource{GroupVersionResource: gv.WithResource(resource), Kind: kind, ClusterScoped: clusterScoped}
	return &table{informertest.Register[*unstructured.Unstructured](w.server, r), r}
}

// create creates objects in a collection.
func create(w *world, c *table, names ...string) {
	w.Helper()
	r := c.resource
	for _, name := range names {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetAPIVersion(r.GroupVersion().String())
		obj.SetKind(r.Kind)
		obj.SetName(name)
		if !r.ClusterScoped {
			obj.SetNamespace("default")
		}
		if _, err := c.Create(obj); err != nil {
			w.Fatal(err)
		}
	}
}

// touch updates an object, as a controller updates its status.
func touch(w *world, c *table, name string) {
	w.Helper()
	obj, ok := c.Get(informer.Key{Name: name})
	if !ok {
		w.Fatalf("no %s", name)
	}
	obj = obj.DeepCopy()
	obj.SetAnnotations(map[string]string{"touched": time.Now().String()})
	if _, err := c.Update(obj); err != nil {
		w.Fatal(err)
	}
}

// remove deletes a cluster-scoped object.
func remove(w *world, c *table, name string) {
	w.Helper()
	if _, err := c.Delete(informer.Key{Name: name}); err != nil {
		w.Fatal(err)
	}
}

// define creates a definition, which is served at once and gets a status a little later. The kind has one object.
func (w *world) define(resource string) *table {
	w.Helper()
	create(w, w.definitions, resource+".example.com")
	c := w.serve("example.com/v1", resource, strings.ToUpper(resource), false)
	create(w, c, "x")
	time.Sleep(50 * time.Millisecond)
	touch(w, w.definitions, resource+".example.com")
	return c
}

// run runs the set for the rest of the test, and waits until it has synced.
func (w *world) run() {
	w.Helper()
	w.start()
	if err := w.set.WaitSynced(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.pass(0)
}

// start runs the set for the rest of the test.
func (w *world) start() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.set.Run(ctx) }()
	w.Cleanup(func() { stop(); <-ended })
}

// pass lets time pass, until nothing is left to do.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// discoveries returns the number of requests to aggregated discovery since the last call. A member whose requests fail
// with 404 reads the plain documents.
func (w *world) discoveries() (n int) {
	for _, r := range w.server.Requests() {
		if strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList") {
			n++
		}
	}
	w.server.ResetRequests()
	return n
}

// names returns the identifiers of the members.
func (w *world) names() string {
	var names []string
	for _, r := range w.set.Kinds() {
		names = append(names, r.GroupResource().String())
	}
	return strings.Join(names, " ")
}

// want fails the test if the set does not have these members.
func (w *world) want(names string) {
	w.Helper()
	if got := w.names(); got != names {
		w.Errorf("the set has %q, want %q", got, names)
	}
}

const always = "nodes pods customresourcedefinitions.apiextensions.k8s.io apiservices.apiregistration.k8s.io"

var widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}

// lines counts lines of log.
type lines struct {
	mu   sync.Mutex // protects text
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns the lines since the last call.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.text.String()), "\n")
	l.text.Reset()
	return slices.DeleteFunc(all, func(line string) bool { return line == "" })
}

// events records what a handler receives.
type events struct {
	mu  sync.Mutex // protects all
	all []string
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf(format, args...))
}

func (e *events) handler() kinds.Handler[object] {
	return kinds.HandlerFuncs[object]{
		AddFunc: func(kind schema.GroupResource, obj object, _ bool) { e.add("add %s/%s", kind, obj.Name) },
		UpdateFunc: func(kind schema.GroupResource, _, obj object) {
			e.add("update %s/%s", kind, obj.Name)
		},
		DeleteFunc: func(kind schema.GroupResource, last object, final bool) {
			e.add("delete %s/%s final=%t", kind, last.Name, final)
		},
	}
}

// take returns the events of the kinds of example.com since the last call.
func (e *events) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := slices.DeleteFunc(e.all, func(text string) bool { return !strings.Contains(text, ".example.com/") })
	all = slices.DeleteFunc(all, func(text string) bool { return strings.Contains(text, "definitions") })
	e.all = nil
	return strings.Join(all, ", ")
}

// memberOf returns the status of a member.
func memberOf(w *world, id schema.GroupResource) kinds.Member {
	w.Helper()
	for _, m := range w.set.Status().Members {
		if m.Kind.GroupResource() == id {
			return m
		}
	}
	w.Fatalf("%s is no member", id)
	return kinds.Member{}
}

// sortedNames returns the names in an error.
func sortedNames(err *kinds.NotSyncedError) string {
	var names []string
	for _, m := range err.Members {
		names = append(names, m.Name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return strings.Join(names, " ")
}
