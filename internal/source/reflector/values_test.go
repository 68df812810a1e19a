package reflector

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/status"
)

// unwatched are the functions of a program that list a pod, and cannot watch.
type unwatched struct{ lists, watches atomic.Int64 }

func (*unwatched) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrNotSupported }

func (u *unwatched) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	u.lists.Add(1)
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "3"}}
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Pod{pod}}, nil
}

func (u *unwatched) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	u.watches.Add(1)
	return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "pods"}, "watch")
}

// The functions of a program that list and cannot watch are polled, too. For an hour, none of the lists tries to watch.
// Guarantees: R24, P5
func TestFunctionsThatCannotWatchArePolled(t *testing.T) {
	u := &unwatched{}
	configure := func(c *Config[*corev1.Pod]) {
		client, err := transport.New(&rest.Config{Host: "http://test", Transport: u, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		c.Source = fetch.NewSource(fetch.Config{Client: client, Path: "/api/v1/pods",
			Resource: corev1.SchemeGroupVersion.WithResource("pods"), Check: func(decode.Format) error { return nil }})
		c.PollEvery = time.Minute
	}
	read(t, configure, func(r *reading) {
		want := func(lists, watches int64) {
			t.Helper()
			if s := r.loop.Status(); u.lists.Load() != lists || u.watches.Load() != watches || s.State != status.ReflectorPolled || s.Failures != 0 {
				r.Errorf("%d lists, want %d, %d watches, want %d, status %+v", u.lists.Load(), lists, u.watches.Load(), watches, s)
			}
		}
		want(1, 1)
		later(59 * time.Minute)
		want(60, 1)
		later(time.Minute)
		want(61, 2)
	})
}
