package watchcache_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/watchcache"
)

// counted is a kind that counts how often it is encoded.
type counted struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	encoded *atomic.Int64
}

func (c *counted) MarshalJSON() ([]byte, error) {
	c.encoded.Add(1)
	return json.Marshal(map[string]any{"metadata": c.ObjectMeta})
}

// Guarantees: W7
func TestAnObjectIsEncodedOnce(t *testing.T) {
	bubble(t, 0, func(r rig) {
		things := informertest.Register[*counted](r.server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("things"), Kind: "Thing",
		})
		client, err := rest.HTTPClientFor(r.server.Config())
		r.must(err)
		var encoded atomic.Int64
		_, err = things.Create(&counted{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, encoded: &encoded})
		r.must(err)
		const watchers = 50
		var frames []*bufio.Reader
		for i := range watchers {
			query := "resourceVersion=2"
			if i%2 == 0 {
				query = "resourceVersion=0" // the object itself first
			}
			response, err := client.Get(r.server.URL + "/api/v1/things?watch=1&" + query)
			r.must(err)
			defer response.Body.Close()
			frames = append(frames, bufio.NewReader(response.Body))
		}
		for i := range watchers {
			if i%2 == 0 {
				_, err := frames[i].ReadString('\n')
				r.must(err)
			}
		}
		synctest.Wait()
		if n := encoded.Load(); n != 1 {
			t.Errorf("an object that there was was encoded %d times", n)
		}
		encoded.Store(0)
		_, err = things.Update(&counted{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"a": "b"}}, encoded: &encoded})
		r.must(err)
		for _, frame := range frames {
			line, err := frame.ReadString('\n')
			r.must(err)
			if !strings.HasPrefix(line, `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Thing","metadata":{`) {
				t.Fatal(line)
			}
		}
		if n := encoded.Load(); n != 1 {
			t.Errorf("an event for %d watchers was encoded %d times", watchers, n)
		}
	})
}

func TestCache_PutChecksOrder(t *testing.T) {
	ctx := context.Background()
	cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
	pod := func(name, rv string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: rv}}
	}
	put := func(d informer.Delta[*corev1.Pod], ok bool) {
		t.Helper()
		if err := cache.Put(ctx, d); (err == nil) != ok {
			t.Errorf("%+v: %v", d, err)
		}
	}
	put(informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: []*corev1.Pod{pod("a", "3")}, ResourceVersion: "5"}, true)
	put(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: pod("b", "5")}, false)
	put(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: pod("b", "6")}, true)
	put(informer.Delta[*corev1.Pod]{Type: informer.Bookmarked, ResourceVersion: "9"}, true)
	put(informer.Delta[*corev1.Pod]{Type: informer.Removed, Object: pod("a", "8")}, false)
	put(informer.Delta[*corev1.Pod]{Type: informer.Removed, Object: pod("none", "10")}, true)
	put(informer.Delta[*corev1.Pod]{Type: informer.Bookmarked, ResourceVersion: "x"}, false)
	put(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: pod("gone", "11")}, true)
	put(informer.Delta[*corev1.Pod]{Type: informer.Removed, Key: informer.Key{Namespace: "ns", Name: "gone"}, ResourceVersion: "12"}, true)
	if cache.ResourceVersion() != "12" || cache.Len() != 2 {
		t.Errorf("%d objects at %s", cache.Len(), cache.ResourceVersion())
	}
	put(informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: []*corev1.Pod{pod("c", "1")}, ResourceVersion: "4"}, true)
	if _, ok := cache.Get(informer.Key{Namespace: "ns", Name: "a"}); ok || cache.ResourceVersion() != "4" || cache.Len() != 1 {
		t.Errorf("after a replacement at an older version: %d objects at %s", cache.Len(), cache.ResourceVersion())
	}
	other := pod("c", "1") // as on a server that was restored from a backup
	other.Spec.NodeName = "other"
	put(informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: []*corev1.Pod{other}, ResourceVersion: "2", Restored: true}, true)
	if got, _ := cache.Get(informer.KeyOf(other)); got != other {
		t.Errorf("after the source went back in time: %+v", got)
	}
}

// A GET of an object that the source has but could not decode is not a 404.
// Guarantees: R17
func TestUndecodableObjectIsNoNotFound(t *testing.T) {
	c := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
	key := informer.Key{Namespace: "ns", Name: "a"}
	failed := []*informer.DecodeError{{Key: key, Err: errors.New("not my type")}}
	for _, step := range []struct {
		delta informer.Delta[*corev1.Pod]
		code  int
	}{
		{informer.Delta[*corev1.Pod]{Type: informer.Replaced, ResourceVersion: "1"}, http.StatusNotFound},
		{informer.Delta[*corev1.Pod]{Type: informer.Bookmarked, ResourceVersion: "2", Undecoded: failed}, http.StatusInternalServerError},
		{informer.Delta[*corev1.Pod]{Type: informer.Removed, ResourceVersion: "3", Key: key}, http.StatusNotFound},
		{informer.Delta[*corev1.Pod]{Type: informer.Replaced, ResourceVersion: "4", Undecoded: failed}, http.StatusInternalServerError},
		{informer.Delta[*corev1.Pod]{Type: informer.Replaced, ResourceVersion: "5"}, http.StatusNotFound},
	} {
		if err := c.Put(t.Context(), step.delta); err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		c.ServeObject(rec, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/ns/pods/a", nil), key)
		if rec.Code != step.code {
			t.Errorf("after %v at %s: %d %s", step.delta.Type, step.delta.ResourceVersion, rec.Code, rec.Body)
		}
	}
}

// An invalid delta is an error and changes nothing, and the cache stays usable. The same holds for a panic of an
// object's method that the caller recovers.
func TestInvalidPutChangesNothing(t *testing.T) {
	cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
	pod := func(name, rv string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: rv}}
	}
	type delta = informer.Delta[*corev1.Pod]
	if err := cache.Put(t.Context(), delta{Type: informer.Replaced, Items: []*corev1.Pod{pod("a", "3")}, ResourceVersion: "5"}); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]delta{
		"no object":       {Type: informer.Upserted, Key: informer.Key{Namespace: "ns", Name: "a"}, ResourceVersion: "6"},
		"nobody's object": {Type: informer.Upserted, Key: informer.Key{Namespace: "ns", Name: "b"}, ResourceVersion: "6"},
		"no name":         {Type: informer.Upserted, Object: pod("", "6")},
		"nil item":        {Type: informer.Replaced, Items: []*corev1.Pod{pod("b", "6"), nil}, ResourceVersion: "6"},
		"nameless item":   {Type: informer.Replaced, Items: []*corev1.Pod{pod("b", "6"), pod("", "6")}, ResourceVersion: "6"},
		"no type":         {Object: pod("b", "6")},
	} {
		if err := cache.Put(t.Context(), d); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got, ok := cache.Get(informer.Key{Namespace: "ns", Name: "a"}); !ok || got.ResourceVersion != "3" || cache.Len() != 1 || cache.ResourceVersion() != "5" {
			t.Errorf("%s: %d objects at %s", name, cache.Len(), cache.ResourceVersion())
		}
	}
	slim := watchcache.New[*panicking](watchcache.Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
	put := func(p *panicking, rv string) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		return slim.Put(t.Context(), informer.Delta[*panicking]{Type: informer.Replaced, Items: []*panicking{p}, ResourceVersion: rv})
	}
	if err := put(&panicking{}, "1"); err == nil {
		t.Error("it did not panic")
	}
	if err := put(&panicking{corev1.Pod{ObjectMeta: pod("a", "2").ObjectMeta}}, "2"); err != nil || slim.Len() != 1 { // the lock is free
		t.Errorf("%v, %d objects", err, slim.Len())
	}
}

// panicking is a pod that panics if it has no name.
type panicking struct{ corev1.Pod }

func (p *panicking) GetName() string {
	if p.Name == "" {
		panic("no name")
	}
	return p.Name
}

// TestCache_NotFilledYet checks the responses of a cache that waits for its source.
func TestCache_NotFilledYet(t *testing.T) {
	cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
	for _, query := range []string{"", "watch=1"} {
		w := &recorder{header: http.Header{}}
		cache.ServeList(w, &http.Request{URL: &url.URL{RawQuery: query}}, "")
		if w.code != http.StatusTooManyRequests || w.header.Get("Retry-After") != "1" {
			t.Errorf("%q: %d %v", query, w.code, w.header)
		}
	}
}

type recorder struct {
	header http.Header
	code   int
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }

func (r *recorder) WriteHeader(code int) { r.code = code }

// Guarantees: W9
func TestManyWatchersOfManyObjects(t *testing.T) {
	const objects, watchers, changes = 10_000, 1_000, 20
	bubble(t, 0, func(r rig) {
		for i := range objects {
			r.set(fmt.Sprint("ns-", i%50), fmt.Sprint("p", i), "", "")
		}
		client, err := rest.HTTPClientFor(r.server.Config())
		r.must(err)
		start := r.server.ResourceVersion()
		ended := make(chan []string, watchers)
		for range watchers {
			response, err := client.Get(fmt.Sprintf("%s/api/v1/pods?watch=1&resourceVersion=%s&timeoutSeconds=60", r.server.URL, start))
			r.must(err)
			go func() {
				defer response.Body.Close()
				var seen []string
				for frames := bufio.NewScanner(response.Body); frames.Scan(); {
					var e struct {
						Type   string
						Object metav1.PartialObjectMetadata
					}
					if json.Unmarshal(frames.Bytes(), &e) == nil {
						seen = append(seen, fmt.Sprint(e.Type, " ", e.Object.Name, " ", e.Object.ResourceVersion))
					}
				}
				ended <- seen
			}()
		}
		var want []string
		for i := range changes {
			pod := r.set(fmt.Sprint("ns-", i%50), fmt.Sprint("p", i), "changed", "")
			want = append(want, fmt.Sprint("MODIFIED ", pod.Name, " ", pod.ResourceVersion))
		}
		for range watchers {
			r.want(<-ended, want...)
		}
	})
}

// Guarantees: W10
func TestBadRequests(t *testing.T) {
	bubble(t, 0, func(r rig) {
		client, err := rest.HTTPClientFor(r.server.Config())
		r.must(err)
		for _, test := range []struct {
			query, accept string
			code          int
			reason        metav1.StatusReason
		}{
			{"watch=1&resourceVersion=x", "", 500, ""}, // as in kube-apiserver
			{"resourceVersion=x", "", 400, metav1.StatusReasonBadRequest},
			{"watch=1&sendInitialEvents=true", "", 422, metav1.StatusReasonInvalid},
			{"watch=1&resourceVersionMatch=NotOlderThan", "", 422, metav1.StatusReasonInvalid},
			{"sendInitialEvents=true", "", 422, metav1.StatusReasonInvalid},
			{"resourceVersion=2&resourceVersionMatch=Other", "", 422, metav1.StatusReasonInvalid},
			{"limit=x", "", 400, metav1.StatusReasonBadRequest},
			{"fieldSelector=a", "", 400, metav1.StatusReasonBadRequest},
			{"", "text/html", 406, metav1.StatusReasonNotAcceptable},
			{"", "application/json;as=Table;g=meta.k8s.io;v=v2", 406, metav1.StatusReasonNotAcceptable},
			{"", "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", 406, metav1.StatusReasonNotAcceptable},
		} {
			request, err := http.NewRequestWithContext(r.Context(), "GET", r.server.URL+"/api/v1/pods?"+test.query, nil)
			r.must(err)
			if test.accept != "" {
				request.Header.Set("Accept", test.accept)
			}
			response, err := client.Do(request)
			r.must(err)
			var status metav1.Status
			r.must(json.NewDecoder(response.Body).Decode(&status))
			response.Body.Close()
			if response.StatusCode != test.code || int(status.Code) != test.code || status.Reason != test.reason || status.Kind != "Status" {
				t.Errorf("%+v: %d %+v", test, response.StatusCode, status)
			}
		}
	})
}
