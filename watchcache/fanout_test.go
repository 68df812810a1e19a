package watchcache_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/watchcache"
)

// TestFedByAReflectorAnswersAsItsSource puts a cache behind a server, as a fan-out proxy does.
// Guarantees: W10
func TestFedByAReflectorAnswersAsItsSource(t *testing.T) {
	bubble(t, 0, func(r rig) {
		r.set("ns", "a", "x", "n1")
		r.set("ns", "b", "y", "n1")
		client, err := informer.NewClient(r.server.Config())
		r.must(err)
		gvr := corev1.SchemeGroupVersion.WithResource("pods")
		cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: gvr, Kind: "Pod", SelectableFields: []string{"spec.nodeName"}})
		reflector, err := informer.NewReflector(client, informer.Resource{GroupVersionResource: gvr}, cache, informer.Config[*corev1.Pod]{KeepManagedFields: true})
		r.must(err)
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan error)
		go func() { done <- reflector.Run(ctx) }()
		defer func() { cancel(); <-done }()

		upstream, err := rest.HTTPClientFor(r.server.Config())
		r.must(err)
		defer upstream.CloseIdleConnections()
		same := func(query string) {
			t.Helper()
			synctest.Wait()
			for _, contentType := range encodings {
				request := httptest.NewRequest("GET", r.server.URL+"/api/v1/pods?"+query, nil)
				request.Header.Set("Accept", contentType)
				w := httptest.NewRecorder()
				cache.ServeList(w, request, "")

				request.RequestURI = ""
				response, err := upstream.Do(request.WithContext(r.Context()))
				r.must(err)
				want, err := io.ReadAll(response.Body)
				response.Body.Close()
				r.must(err)
				if response.StatusCode != w.Code || w.Code != http.StatusOK {
					t.Errorf("%s: %d, want %d", query, w.Code, response.StatusCode)
				}
				if diff := cmp.Diff(string(want), w.Body.String()); diff != "" {
					t.Errorf("%s %s: %s", contentType, query, diff)
				}
			}
		}
		same("")
		same("watch=1&timeoutSeconds=1")
		r.set("ns", "a", "z", "n2")
		r.delete("ns", "b")
		r.set("ns", "c", "z", "n3")
		same("")
		same("limit=1")
		same("resourceVersion=3&resourceVersionMatch=Exact")
		same("fieldSelector=spec.nodeName%3Dn3")
		same("watch=1&timeoutSeconds=1&resourceVersion=3")
		same("watch=1&timeoutSeconds=5&resourceVersion=3&labelSelector=app%3Dx&allowWatchBookmarks=1")
	})
}

// TestSourceNoLongerServed removes the resource of a cache that a reflector feeds, and brings it back.
// Guarantees: W10
func TestSourceNoLongerServed(t *testing.T) {
	bubble(t, 0, func(r rig) {
		r.set("ns", "a", "x", "n1")
		client, err := informer.NewClient(r.server.Config())
		r.must(err)
		gvr := corev1.SchemeGroupVersion.WithResource("pods")
		cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: gvr, Kind: "Pod"})
		reflector, err := informer.NewReflector(client, informer.Resource{GroupVersionResource: gvr}, cache, informer.Config[*corev1.Pod]{Logger: slog.New(slog.DiscardHandler)})
		r.must(err)
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan error)
		go func() { done <- reflector.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if cache.Len() != 1 {
			t.Fatalf("%d objects, want 1", cache.Len())
		}
		rv := cache.ResourceVersion()
		r.pods.Unregister()
		<-time.After(time.Minute) // in the bubble's time
		if cache.Len() != 0 || cache.ResourceVersion() != rv {
			t.Errorf("%d objects at %s, want none at %s", cache.Len(), cache.ResourceVersion(), rv)
		}
		r.pods = informertest.Register[*corev1.Pod](r.server, informertest.Resource{GroupVersionResource: gvr})
		r.set("ns", "b", "x", "n1")
		<-time.After(time.Minute)
		if _, ok := cache.Get(informer.Key{Namespace: "ns", Name: "b"}); !ok || cache.ResourceVersion() != r.server.ResourceVersion() {
			t.Errorf("at %s, want b at %s", cache.ResourceVersion(), r.server.ResourceVersion())
		}
	})
}
