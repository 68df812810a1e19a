package informer_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/status"
)

// Aggregated discovery takes two requests. Without it, Discover finds the same. A version whose server is away is stale,
// or an error, and the others are there.
func TestDiscover(t *testing.T) {
	for name, c := range map[string]struct {
		plain    bool
		away     string // what Discover says of the version whose server is away
		requests int
	}{
		"aggregated": {false, "stale", 2},
		"plain":      {true, "error", 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := informertest.NewServer(informertest.Options{InMemory: true, Middleware: func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if c.plain {
							r.Header.Set("Accept", "application/json")
						}
						next.ServeHTTP(w, r)
					})
				}})
				defer server.Close()
				informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
				away := schema.GroupVersion{Group: "away.example.com", Version: "v1"}
				informertest.Register[*corev1.ConfigMap](server, informertest.Resource{GroupVersionResource: away.WithResource("things"), Kind: "Thing", ClusterScoped: true})
				client, err := informer.NewClient(server.Config())
				if err != nil {
					t.Fatal(err)
				}
				discover := func() (status.Discovery, string) {
					t.Helper()
					d, err := client.Discover(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					var found []string
					for _, g := range d.Groups {
						for _, v := range g.Versions {
							for _, r := range v.Resources {
								found = append(found, r.Group+"/"+r.Version+"/"+r.Resource+" "+r.Kind+" "+v.Freshness.String())
								if !r.Has("list", "watch") || r.Has("list", "dance") || r.Namespaced != (r.Kind == "Pod") {
									t.Errorf("%+v", r)
								}
							}
						}
					}
					return d, strings.Join(found, ", ")
				}
				const pods, things = "/v1/pods Pod Current", "away.example.com/v1/things Thing "
				d, got := discover()
				if want := pods + ", " + things + "Current"; got != want || d.Err() != nil {
					t.Errorf("got %s, %v, want %s", got, d.Err(), want)
				}
				if n := len(server.Requests()); n != c.requests {
					t.Errorf("%d requests, want %d", n, c.requests)
				}
				server.SetAway(away, true)
				d, got = discover()
				switch c.away {
				case "stale":
					if got != pods+", "+things+"Stale" || d.Err() != nil {
						t.Errorf("got %s, %v", got, d.Err())
					}
				case "error":
					if err := d.Err(); got != pods || err == nil || !strings.Contains(err.Error(), away.String()) {
						t.Errorf("got %s, %v", got, err)
					}
				}
				if d, got = discover(); d.Groups[1].Versions[0].Known() {
					t.Errorf("the version is known: %s", got)
				}
				if len(client.Status().Requests) == 0 {
					t.Error("the client counts no request")
				}
				server.SetAway(away, false)
				if d, got = discover(); !d.Groups[1].Versions[0].Known() {
					t.Errorf("the version is not known: %s", got)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := client.Discover(ctx); err == nil || !strings.Contains(err.Error(), "discovery") {
					t.Errorf("got %v", err)
				}
				if n := client.Status().Requests[status.RequestKind{Method: "GET", Code: http.StatusNotModified}]; (n > 0) == c.plain {
					t.Errorf("%d responses without a body", n)
				}
			})
		})
	}
	var none *informer.Client
	if _, err := none.Discover(t.Context()); err == nil {
		t.Error("no error of a nil client")
	}
}
