package watchcache_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// A cache compresses streaming lists if its Config says so.
// Guarantees: R27
func TestWatchListCompression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, compresses := range []bool{true, false} {
			cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod",
				WatchListCompression: compresses})
			pod := &corev1.Pod{}
			pod.Name, pod.ResourceVersion = "a", "1"
			if err := cache.Put(t.Context(), informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: []*corev1.Pod{pod}, ResourceVersion: "1"}); err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet,
				"/?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1", nil)
			r.Header.Set("Accept-Encoding", "gzip")
			w := httptest.NewRecorder()
			cache.ServeList(w, r, "")
			body := io.Reader(w.Body)
			if got := w.Header().Get("Content-Encoding") == "gzip"; got != compresses {
				t.Errorf("compressed: %v", got)
			}
			if compresses {
				var err error
				if body, err = gzip.NewReader(w.Body); err != nil {
					t.Fatal(err)
				}
			}
			events, err := io.ReadAll(body)
			if err != nil || !strings.Contains(string(events), `"name":"a"`) || !strings.Contains(string(events), "initial-events-end") {
				t.Errorf("%s, %v", events, err)
			}
		}
	})
}
