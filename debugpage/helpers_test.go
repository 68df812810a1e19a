package debugpage_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// secret is in errors and objects. Only the tests for authorized callers may find it.
const secret = "hunter2"

var (
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
	core  = corev1.SchemeGroupVersion
)

// admit admits requests that have ?token=right.
func admit(r *http.Request) bool { return r.URL.Query().Get("token") == "right" }

// rig is a server, and a program with a debug page.
type rig struct {
	*testing.T
	server  *informertest.Server
	client  *informer.Client
	created *informertest.Collection[*corev1.Pod]
	pods    *informer.Informer[*corev1.Pod]
	byNode  *informer.Index[*corev1.Pod, string]
	config  debugpage.Config
	ctx     context.Context
	tasks   sync.WaitGroup
}

// inRig calls test in a bubble. The informer of pods is not running. Requests with ?token=right are authorized.
func inRig(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		r := &rig{T: t, server: server}
		r.created = informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: core.WithResource("pods")})
		var err error
		if r.client, err = informer.NewClient(server.Config()); err != nil {
			t.Fatal(err)
		}
		r.pods = informer.New(r.client, informer.Resource{GroupVersionResource: core.WithResource("pods")}, informer.Config[*corev1.Pod]{Logger: quiet})
		r.byNode = informer.NewIndex(r.pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		r.config = debugpage.Config{
			Name:      "test",
			Informers: []func() informer.InformerStatus{r.pods.Status},
			Objects:   []debugpage.Source{debugpage.Objects(r.pods, debugpage.Index("node", r.byNode))},
			Authorize: admit,
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.ctx = ctx
		defer r.tasks.Wait()
		defer cancel()
		test(r)
	})
}

// pod creates a pod.
func (r *rig) pod(namespace, name, node string) {
	r.Helper()
	if _, err := r.created.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node}}); err != nil {
		r.Fatal(err)
	}
}

// run runs an informer until the test ends, and waits until it has synced.
func run[T informer.Object](r *rig, i *informer.Informer[T]) {
	r.Helper()
	r.tasks.Go(func() { _ = i.Run(r.ctx) })
	if err := i.WaitSynced(r.ctx); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

// forbidden is an error of a server that has a secret and HTML in its text.
func forbidden() error {
	return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(secret+"<script>alert(1)</script>"))
}

// request returns a request from this machine.
func request(method, target string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "localhost:8080"
	return r
}

// get sends a GET request to a new handler, and returns the answer.
func (r *rig) get(target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	debugpage.New(r.config).ServeHTTP(w, request(http.MethodGet, target))
	return w
}

// ask sends an authorized request for a file with a query, and decodes the answer, which must be a success.
func ask[T any](r *rig, file string, query ...string) (answer T) {
	r.Helper()
	w := r.get(target(file, append(query, "token", "right")...))
	if w.Code != http.StatusOK {
		r.Fatalf("%s %q: %d %s", file, query, w.Code, w.Body)
	}
	decode(r.T, w, &answer)
	return answer
}

// refused sends an authorized request, and fails the test unless the answer is an error with a code.
func (r *rig) refused(code int, file string, query ...string) {
	r.Helper()
	failed(r.T, r.get(target(file, append(query, "token", "right")...)), code)
}

// failed fails the test unless w has an error in JSON with that code.
func failed(t *testing.T, w *httptest.ResponseRecorder, code int) {
	t.Helper()
	var answer struct{ Error *debugpage.Error }
	decode(t, w, &answer)
	if w.Code != code || answer.Error == nil || answer.Error.Code != code || answer.Error.Message == "" {
		t.Errorf("%d %s, want an error with code %d", w.Code, w.Body, code)
	}
}

func decode(t *testing.T, w *httptest.ResponseRecorder, to any) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q: %s", got, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
}

// target returns a URL. query has names and values in turn.
func target(file string, query ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		values.Add(query[i], query[i+1])
	}
	return "/debug/informers/" + file + "?" + values.Encode()
}

// lacks fails the test if an answer has the secret.
func lacks(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if strings.Contains(w.Body.String(), secret) {
		t.Errorf("the answer has the secret: %s", w.Body)
	}
}
