package informertest_test

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// A server that compresses streaming lists sends a member for each flush to a client that accepts gzip, also after the initial events. Holds of
// events work. An informer asks for no compression, and gets none.
// Guarantees: R27
func TestWatchListCompression(t *testing.T) {
	bubble(t, informertest.Options{WatchListCompression: true}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		_, err := pods.Create(newPod("ns", "a"))
		must(t, err)
		hold := server.Hold(informertest.Watches{})
		httpClient, err := rest.HTTPClientFor(server.Config())
		must(t, err)
		r, err := http.NewRequest(http.MethodGet, server.URL+"/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
		must(t, err)
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := httpClient.Do(r)
		must(t, err)
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
			t.Fatalf("content encoding %q", got)
		}
		in := bufio.NewReader(resp.Body)
		member := func() string {
			t.Helper()
			z, err := gzip.NewReader(in)
			must(t, err)
			z.Multistream(false)
			b, err := io.ReadAll(z)
			must(t, err)
			return string(b)
		}
		synctest.Wait()
		if n := len(hold.Events()); n != 1 {
			t.Errorf("%d events are held", n)
		}
		go hold.Release()
		initial := ""
		for !strings.Contains(initial, "k8s.io/initial-events-end") {
			initial += member()
		}
		if n := strings.Count(initial, `"type":"ADDED"`); n != 1 {
			t.Errorf("%d initial events: %s", n, initial)
		}
		for _, name := range []string{"b", "c"} { // each is flushed by itself, since the client reads it before the next
			_, err = pods.Create(newPod("ns", name))
			must(t, err)
			if got := member(); !strings.Contains(got, `"name":"`+name+`"`) || strings.Count(got, `"type":`) != 1 {
				t.Errorf("the member of pod %s: %s", name, got)
			}
		}

		server.ResetRequests()
		store := runPodInformer(t, server.Config(), informer.Config[*corev1.Pod]{})
		_, err = pods.Create(newPod("ns", "d"))
		must(t, err)
		synctest.Wait()
		if store.Store().Len() != 4 {
			t.Errorf("the informer has %d pods", store.Store().Len())
		}
		for _, req := range server.Requests() {
			if got := req.Header.Get("Accept-Encoding"); req.Verb == "watch" && got != "identity" {
				t.Errorf("a watch of an informer accepts %q", got)
			}
		}
	})
}
