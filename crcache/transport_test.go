package crcache_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/typedinformer/informer/crcache"
	"github.com/typedinformer/informer/informertest"
)

// The cache sends its requests with the client of its options.
func TestHTTPClient(t *testing.T) {
	w := newWorld(t, false)
	requests := make(chan string, 10)
	c := w.started(cache.Options{HTTPClient: &http.Client{Transport: countedTransport{http.DefaultTransport, requests}}}, crcache.Options{})
	w.wantNames(c, nil)
	if path := <-requests; path != "/api/v1/pods" {
		t.Errorf("first request to %s", path)
	}
}

// transportOf returns the transport to the server of w.
func (w *world) transportOf() http.RoundTripper {
	w.Helper()
	c, err := rest.HTTPClientFor(w.config())
	if err != nil {
		w.Fatal(err)
	}
	if c.Transport == nil {
		return http.DefaultTransport
	}
	return c.Transport
}

// transportFunc is a http.RoundTripper.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The cache sends the cookies of the client's Jar and keeps those that the server sets, as controller-runtime does.
func TestJar(t *testing.T) {
	for _, impl := range caches[:2] {
		t.Run(impl.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.pod("a", "x")
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			server, err := url.Parse(w.server.URL)
			if err != nil {
				t.Fatal(err)
			}
			jar.SetCookies(server, []*http.Cookie{{Name: "session", Value: "1"}})
			next := w.transportOf()
			c := impl.create(w, cache.Options{HTTPClient: &http.Client{Jar: jar, Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil {
					resp.Header.Add("Set-Cookie", "session=2; Path=/")
				}
				return resp, err
			})}})
			w.start(c)
			w.wantNames(c, []string{"a/x"})
			if cookie := w.server.Requests()[0].Header.Get("Cookie"); cookie != "session=1" {
				t.Errorf("the first request has the cookie %q", cookie)
			}
			if cookies := jar.Cookies(server); len(cookies) != 1 || cookies[0].Value != "2" {
				t.Errorf("the jar has %v", cookies)
			}
			if err := c.List(t.Context(), &corev1.NodeList{}); err != nil {
				t.Fatal(err)
			}
			requests := w.server.Requests()
			if cookie := requests[len(requests)-1].Header.Get("Cookie"); cookie != "session=2" {
				t.Errorf("the last request has the cookie %q", cookie)
			}
		})
	}
}

// redirecting sends requests for pods to another path first, which redirects to the right one.
func redirecting(next http.RoundTripper) http.RoundTripper {
	return transportFunc(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Has("redirected") {
			return next.RoundTrip(r)
		}
		to := *r.URL
		to.RawQuery += "&redirected=true"
		return &http.Response{
			StatusCode: http.StatusTemporaryRedirect,
			Header:     http.Header{"Location": {to.String()}},
			Body:       http.NoBody,
			Request:    r,
		}, nil
	})
}

// The client's CheckRedirect decides about redirects, as in controller-runtime. Without it, the cache follows those to the same server.
func TestCheckRedirect(t *testing.T) {
	for _, impl := range caches[:2] {
		t.Run(impl.name, func(t *testing.T) {
			for _, own := range []bool{true, false} {
				w := newWorld(t, false)
				w.pod("a", "x")
				var checked atomic.Int64
				httpClient := &http.Client{Transport: redirecting(w.transportOf())}
				if own {
					httpClient.CheckRedirect = func(*http.Request, []*http.Request) error {
						checked.Add(1)
						return nil
					}
				}
				c := impl.create(w, cache.Options{HTTPClient: httpClient})
				w.start(c)
				w.wantNames(c, []string{"a/x"})
				if (checked.Load() > 0) != own {
					t.Errorf("CheckRedirect was called %d times", checked.Load())
				}
			}
		})
	}
}

// A CheckRedirect that refuses fails the request with its error.
func TestCheckRedirectRefuses(t *testing.T) {
	w := newWorld(t, false)
	refused := errors.New("refused by the test")
	failures := make(chan error, 100)
	c := w.cache(cache.Options{
		HTTPClient:               &http.Client{Transport: redirecting(w.transportOf()), CheckRedirect: func(*http.Request, []*http.Request) error { return refused }},
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) { failures <- err },
	}, crcache.Options{})
	w.start(c)
	if _, err := c.GetInformer(t.Context(), &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	if err := <-failures; !errors.Is(err, refused) {
		t.Error(err)
	}
}

// The timeout of rest.Config, or of the HTTP client, limits lists, and ends no watch. controller-runtime's cache ends each watch after it.
func TestTimeoutLimitsListsNotWatches(t *testing.T) {
	const timeout = 20 * time.Second
	for name, options := range map[string]func(*rest.Config, *cache.Options){
		"rest.Config": func(config *rest.Config, _ *cache.Options) { config.Timeout = timeout },
		"HTTPClient": func(config *rest.Config, opts *cache.Options) {
			c, err := rest.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			opts.HTTPClient = &http.Client{Transport: c.Transport, Timeout: timeout}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				w.pod("a", "x")
				// The streaming list is refused, so there are a list, which hangs at first, and a watch.
				w.server.Inject(informertest.Fault{Verb: "watch", Times: 1, Error: apierrors.NewBadRequest("no streaming lists")})
				w.server.Inject(informertest.Fault{Verb: "list", Times: 1, Hang: true})
				config, opts := w.config(), cache.Options{Mapper: mapper()}
				options(config, &opts)
				c, err := crcache.New(crcache.Options{NoMetrics: true})(config, opts)
				if err != nil {
					t.Fatal(err)
				}
				stop := w.start(c)
				begin := time.Now()
				w.wantNames(c, []string{"a/x"})
				if took := time.Since(begin); took < timeout || took > 2*timeout {
					t.Errorf("the list that hung was given up after %v", took)
				}
				synctest.Wait()
				w.server.ResetRequests()
				<-time.After(4 * timeout)
				events := w.events(w.informerOf(c))
				<-events.events
				w.relabel("a", "x", "v", "1")
				<-events.events
				if requests := w.server.Requests(); len(requests) > 0 {
					t.Errorf("the watch was opened again: %v", requests)
				}
				stop()
				w.server.Close()
			})
		})
	}
}
