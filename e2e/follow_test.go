package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
)

// Shared code of this package's tests: a client with recorded requests, an informer that runs until its test ends, and the
// comparison of a store with client-go's decoding.

var (
	podsResource       = corev1.SchemeGroupVersion.WithResource("pods")
	configMapsResource = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// patience bounds each wait for the server, so that a failure does not hang. It is far longer than needed, even on a busy
// machine.
const patience = 60 * time.Second

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// request is one request of an informer, with the beginning of its response.
type request struct {
	Path        string
	Query       url.Values
	Accept      string
	Status      int // 0 if there was no response
	ContentType string
}

func (r request) watch() bool         { return r.Query.Get("watch") != "" }
func (r request) streamingList() bool { return r.Query.Get("sendInitialEvents") == "true" }

// requests records the requests of one client. It is safe for concurrent use.
type requests struct {
	keepBodies bool // set before use

	mu     sync.Mutex // protects the fields below
	made   []request
	bodies []*body // of the responses, if kept
}

// body records the part of a response that is read.
type body struct {
	io.ReadCloser
	requests *requests
	read     bytes.Buffer // protected by requests.mu
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.requests.mu.Lock()
	defer b.requests.mu.Unlock()
	b.read.Write(p[:n])
	return n, err
}

// roundTripper is a transport that records requests.
type roundTripper struct {
	http.RoundTripper
	requests *requests
}

func (rt roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	made := request{Path: req.URL.Path, Query: req.URL.Query(), Accept: req.Header.Get("Accept")}
	resp, err := rt.RoundTripper.RoundTrip(req)
	r := rt.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		made.Status, made.ContentType = resp.StatusCode, resp.Header.Get("Content-Type")
		if r.keepBodies {
			b := &body{ReadCloser: resp.Body, requests: r}
			resp.Body = b
			r.bodies = append(r.bodies, b)
		}
	}
	r.made = append(r.made, made)
	return resp, err
}

// all returns the requests so far, in the order of their responses.
func (r *requests) all() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.made)
}

// count returns the number of occurrences of text in the responses so far.
func (r *requests) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, b := range r.bodies {
		n += bytes.Count(b.read.Bytes(), []byte(text))
	}
	return n
}

// newClient returns a client that requests contentType, or the best one for the type if that is empty. The first of wrappers is
// nearest to the server. record, which may be nil, records all requests.
func newClient(t *testing.T, contentType string, record *requests, wrappers ...func(http.RoundTripper) http.RoundTripper) *informer.Client {
	t.Helper()
	config := server.Config()
	config.ContentType = contentType
	for _, wrap := range wrappers {
		config.Wrap(wrap)
	}
	if record != nil {
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return roundTripper{rt, record} })
	}
	client, err := informer.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// logged returns a Config that logs to t.
func logged[T informer.Object](t *testing.T) informer.Config[T] {
	return informer.Config[T]{
		Logger:        slog.New(slog.NewTextHandler(t.Output(), nil)),
		OnDecodeError: func(err *informer.DecodeError) { t.Errorf("%v\n%s", err, err.Raw) },
	}
}

// start runs inf until the test ends, and waits until it has synced.
func start[T informer.Object](t *testing.T, inf *informer.Informer[T]) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run of %s: %v", inf.Resource(), err)
			}
		case <-time.After(patience):
			t.Errorf("Run of %s does not return", inf.Resource())
		}
	})
	if err := inf.WaitSynced(within(t, patience)); err != nil {
		t.Fatal(err)
	}
}

// mode is a way to read a collection.
type mode struct {
	contentType string
	paged       bool
	layout      informer.Layout
}

// Each layout has few modes: objects come in both formats, and JSON items of a page lack their kind.
var modes = []mode{
	{runtime.ContentTypeJSON, false, informer.LayoutShared},
	{runtime.ContentTypeJSON, true, informer.LayoutSeparate},
	{runtime.ContentTypeJSON, true, informer.LayoutCompact},
	{runtime.ContentTypeProtobuf, false, informer.LayoutSeparate},
	{runtime.ContentTypeProtobuf, true, informer.LayoutShared},
	{runtime.ContentTypeProtobuf, false, informer.LayoutCompact},
}

func formatName(contentType string) string {
	if contentType == runtime.ContentTypeProtobuf {
		return "protobuf"
	}
	return "JSON"
}

func (m mode) String() string {
	name := "streaming,"
	if m.paged {
		name = "paged,"
	}
	return name + m.layout.String() + "," + formatName(m.contentType)
}

// configOf returns a Config for m that logs to t.
func configOf[T informer.Object](t *testing.T, m mode) informer.Config[T] {
	config := logged[T](t)
	config.PagedList, config.Layout = m.paged, m.layout
	return config
}

func forEachMode(t *testing.T, test func(t *testing.T, m mode)) {
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) { test(t, m) })
	}
}

// object is a type that client-go decodes into.
type object interface {
	informer.Object
	GetObjectKind() schema.ObjectKind
	SetManagedFields([]metav1.ManagedFieldsEntry)
}

// bare removes from client-go's object the fields that the library leaves out on purpose: managedFields and, except for
// unstructured objects, kind and apiVersion. Only some calls of client-go leave those empty.
func bare[T object](obj T) T {
	obj.SetManagedFields(nil)
	if _, isMap := any(obj).(runtime.Unstructured); !isMap {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return obj
}

// sorted makes the objects bare, and sorts them like a store.
func sorted[T object](list []T) []T {
	for _, obj := range list {
		bare(obj)
	}
	slices.SortFunc(list, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return list
}

func pointers[T any](list []T) []*T {
	p := make([]*T, len(list))
	for i := range list {
		p[i] = &list[i]
	}
	return p
}

// storeEquals checks that the store equals want, which is sorted, in every field of every object.
func storeEquals[T informer.Object](t *testing.T, inf *informer.Informer[T], want []T) {
	t.Helper()
	goruntime.GC() // with LayoutCompact, objects that nobody has are then decoded again
	got := inf.Store().List()
	if len(got) != len(want) {
		t.Errorf("store has %d objects, server has %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("%s in the store differs from the server's (-server +store):\n%s", informer.KeyOf(want[i]), diff(want[i], got[i]))
		}
	}
}

// diff describes how got differs from want, also where reflect.DeepEqual is stricter than cmp.
func diff(want, got any) string {
	if d := gocmp.Diff(want, got, gocmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
		return d
	}
	return fmt.Sprintf("cmp sees no difference, reflect.DeepEqual does: %#v and %#v", want, got)
}
