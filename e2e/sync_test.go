package e2e

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// createFleet creates realistic pods, with the status for every tenth one; see [cluster.CreateFleet].
func createFleet(t testing.TB, on *cluster.Cluster, n int) {
	t.Helper()
	if _, err := cluster.CreateFleet(t.Context(), on.Config(), fleet.Config{Pods: n, Namespaces: 10}, 10); err != nil {
		t.Fatal(err)
	}
}

// expireFirst answers the first list with 410 Expired, like a server that has lost the history.
type expireFirst struct {
	http.RoundTripper
	done bool
}

func (e *expireFirst) RoundTrip(req *http.Request) (*http.Response, error) {
	if e.done || req.URL.Query().Has("watch") { // watches have a transport of their own
		return e.RoundTripper.RoundTrip(req)
	}
	e.done = true
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}`
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(bytes.NewBufferString(status)), Request: req,
	}, nil
}

// Guarantees: R1, R3, R5, R21
func TestStoreEqualsADirectList(t *testing.T) {
	const pageSize = 500
	n := testkit.Rounds(1200, 5000)
	createFleet(t, server, n)
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		// Other tests have left pods behind, but none of them changes now.
		want := sorted(pointers(listPods(t, contentType, "")))
		if len(want) < n {
			t.Fatalf("listed %d pods, want at least %d", len(want), n)
		}
		sync := func(t *testing.T, m mode, record *requests, wrappers ...func(http.RoundTripper) http.RoundTripper) []request {
			t.Helper()
			resource := informer.Resource{GroupVersionResource: podsResource}
			inf := informer.New(newClient(t, m.contentType, record, wrappers...), resource, configOf[*corev1.Pod](t, m))
			start(t, inf)
			storeEquals(t, inf, want)
			made := record.all()
			for _, r := range made {
				if want := contentType; r.Status == http.StatusOK && r.ContentType != want && r.ContentType != want+";stream=watch" {
					t.Errorf("GET %s returned %q, want %s", r.Path, r.ContentType, want)
				}
			}
			if got, want := inf.Status().Reflectors[0].Traffic.Lists, max(1, len(lists(made))); got != want { // a streaming list counts as a list
				t.Errorf("status counts %d lists, want %d", got, want)
			}
			return lists(made)
		}

		t.Run("streaming,"+formatName(contentType), func(t *testing.T) {
			var record requests
			if got := sync(t, mode{contentType: contentType}, &record); len(got) != 0 {
				t.Errorf("made %d lists, want none: %v", len(got), got)
			}
			if got := record.all(); len(got) != 1 || !got[0].watch() || !got[0].streamingList() {
				t.Errorf("made %v, want one watch with sendInitialEvents", got)
			}
		})

		t.Run("paged,"+formatName(contentType), func(t *testing.T) {
			// The server's watch cache answers resourceVersion=0 and ignores limit.
			var record requests
			got := sync(t, mode{contentType: contentType, paged: true}, &record)
			if len(got) != 1 || got[0].Query.Encode() != "limit=500&resourceVersion=0" {
				t.Errorf("made the lists %v, want one with limit=500 and resourceVersion=0", got)
			}
		})

		// modes has the other combination of a format and a list with LayoutCompact.
		compact := mode{contentType: contentType, paged: contentType == runtime.ContentTypeProtobuf, layout: informer.LayoutCompact}
		t.Run(compact.String(), func(t *testing.T) { sync(t, compact, &requests{}) })

		t.Run("paged at any version,"+formatName(contentType), func(t *testing.T) {
			var record requests
			got := sync(t, mode{contentType: contentType, paged: true}, &record, func(rt http.RoundTripper) http.RoundTripper { return &expireFirst{RoundTripper: rt} })
			if pages := (len(want) + pageSize - 1) / pageSize; len(got) != 1+pages || got[0].Status != http.StatusGone {
				t.Fatalf("made %d lists, want %d pages after the rejected one: %v", len(got), pages, got)
			}
			for i, r := range got[1:] {
				if r.Query.Get("limit") != strconv.Itoa(pageSize) || r.Query.Has("resourceVersion") || r.Query.Has("continue") != (i > 0) {
					t.Errorf("list %d is %v, want limit=%d, no resourceVersion, and a token from the second on", i+1, r.Query, pageSize)
				}
			}
		})
	}
}

// lists returns the requests that are not watches.
func lists(made []request) []request {
	var lists []request
	for _, r := range made {
		if !r.watch() {
			lists = append(lists, r)
		}
	}
	return lists
}
