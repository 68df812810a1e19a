package crcache_test

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer/crcache"
)

// late is a body that arrives a second late. As for any body from the network, Close ends a Read: client-go 0.38 waits for
// that while it holds a mutex, so time in a bubble stops meanwhile.
type late struct {
	io.ReadCloser
	closed context.Context
	close  context.CancelFunc
}

func newLate(body io.ReadCloser) *late {
	closed, end := context.WithCancel(context.Background())
	return &late{body, closed, end}
}

func (l *late) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	select {
	case <-time.After(time.Second):
	case <-l.closed.Done():
	}
	return n, err
}

func (l *late) Close() error {
	l.close()
	return l.ReadCloser.Close()
}

// The option EnableReadYourWritesConsistency of controller-runtime's client works with the cache: a read sees all
// earlier writes of the client, however late the cache receives them. A controller-runtime without the option has
// WaitForObject.
func TestReadYourWrites(t *testing.T) {
	for _, impl := range caches {
		t.Run(impl.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				next := w.transportOf()
				c := impl.create(w, cache.Options{HTTPClient: &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
					resp, err := next.RoundTrip(r)
					if err == nil {
						resp.Body = newLate(resp.Body)
					}
					return resp, err
				})}})
				stop := w.start(c)
				checkReadYourWrites(w, c, impl.name != controllerRuntime)
				stop()
				w.server.Close()
				<-time.After(time.Minute) // for reads that are late
			})
		})
	}
}

func checkReadYourWrites(w *world, c cache.Cache, ours bool) {
	httpClient, err := rest.HTTPClientFor(w.config())
	if err != nil {
		w.Fatal(err)
	}
	options := client.Options{HTTPClient: httpClient, Mapper: mapper(), Cache: &client.CacheOptions{Reader: c}}
	plain, err := client.New(w.config(), options)
	if err != nil {
		w.Fatal(err)
	}
	enable := reflect.ValueOf(options.Cache).Elem().FieldByName("EnableReadYourWritesConsistency")
	if enable.IsValid() { // since controller-runtime 0.25
		enable.Set(reflect.ValueOf(ptr(true)))
	}
	consistent, err := client.New(w.config(), options)
	if err != nil {
		w.Fatal(err)
	}
	seen := func(obj client.Object) {
		w.Helper()
		if !enable.IsValid() && ours {
			if err := crcache.WaitForObject(w.Context(), c, obj); err != nil {
				w.Error(err)
			}
		}
	}
	checks := enable.IsValid() || ours
	key := client.ObjectKey{Namespace: "a", Name: "x"}
	var got corev1.Pod
	if err := plain.Get(w.Context(), key, &got); !apierrors.IsNotFound(err) {
		w.Fatalf("before the first write: %v", err)
	}
	for _, name := range []string{"y", "x"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		if err := consistent.Create(w.Context(), pod); err != nil {
			w.Fatal(err)
		}
		if err := plain.Get(w.Context(), client.ObjectKeyFromObject(pod), &got); !apierrors.IsNotFound(err) {
			w.Errorf("the cache does not lag, so this test shows nothing: %v", err)
		}
		seen(pod)
		if err := consistent.Get(w.Context(), client.ObjectKeyFromObject(pod), &got); checks && err != nil {
			w.Errorf("Get after Create of %s: %v", name, err)
		}
	}
	<-time.After(time.Minute) // without the option, the cache has the pods by now
	for _, value := range []string{"1", "2"} {
		if err := consistent.Get(w.Context(), key, &got); err != nil {
			w.Fatal(err)
		}
		got.Labels = map[string]string{"v": value}
		if err := consistent.Update(w.Context(), &got); err != nil {
			w.Fatal(err)
		}
		seen(&got)
		if checks {
			w.wantNames(consistent, []string{"a/x"}, client.MatchingLabels{"v": value})
		} else {
			<-time.After(time.Minute)
		}
	}
	if err := consistent.Delete(w.Context(), &got); err != nil {
		w.Fatal(err)
	}
	if enable.IsValid() { // the answer of a deletion may have no resource version to wait for
		if err := consistent.Get(w.Context(), key, &got); !apierrors.IsNotFound(err) {
			w.Errorf("Get after Delete: %v", err)
		}
		w.wantNames(consistent, []string{"a/y"})
	}
}
