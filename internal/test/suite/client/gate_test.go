package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// A client with a closed gate sends no write, and reads. With an open one, each write has a pass until it has ended.
//
// Guarantees: Q14
func TestGateOfAClient(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		gate := new(informer.Gate)
		plain := w.Client()
		pods := informer.NewTypedClient[*corev1.Pod](plain.WithGate(gate), world.PodGVR)
		ctx, key := w.Context(), informer.Key{Namespace: "ns", Name: "a"}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		writes := map[string]func() error{
			"create": func() error { _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); return err },
			"update": func() error { _, err := pods.Update(ctx, pod, metav1.UpdateOptions{}); return err },
			"patch": func() error {
				_, err := pods.Patch(ctx, key, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
				return err
			},
			"delete": func() error { return pods.Delete(ctx, key, metav1.DeleteOptions{}) },
			"deletecollection": func() error {
				return pods.DeleteCollection(ctx, "ns", metav1.DeleteOptions{}, metav1.ListOptions{})
			},
		}
		for name, write := range writes {
			if err := write(); !errors.Is(err, informer.ErrGateClosed) {
				w.Errorf("%s: %v", name, err)
			}
		}
		if n := len(w.Server.Requests()); n > 0 {
			w.Errorf("%d requests were sent", n)
		}
		if _, _, err := pods.List(ctx, "", metav1.ListOptions{}); err != nil {
			w.Errorf("a read: %v", err)
		}
		gate.Open(nil)
		for _, name := range []string{"create", "patch", "update", "delete", "deletecollection"} {
			if err := writes[name](); errors.Is(err, informer.ErrGateClosed) || gate.Status().Passes != 0 {
				w.Errorf("%s: %v, %+v", name, err, gate.Status())
			}
		}
		defer w.Server.Inject(informertest.Fault{Verb: "create", Hang: true})()
		time.AfterFunc(5*time.Second, func() { gate.Close(context.DeadlineExceeded) })
		began := time.Now()
		hung := writes["create"]()
		if took := time.Since(began); !errors.Is(hung, informer.ErrGateClosed) || took != 5*time.Second || gate.Status().Passes != 0 {
			w.Errorf("%v after %v", hung, took)
		}
		free := informer.NewTypedClient[*corev1.Pod](plain.WithGate(gate).WithGate(nil), world.PodGVR)
		if err := free.Delete(ctx, key, metav1.DeleteOptions{}); errors.Is(err, informer.ErrGateClosed) {
			w.Error(err)
		}
		if verbs := w.Server.Requests(); !slices.ContainsFunc(verbs, func(r informertest.Request) bool { return r.Verb == "delete" }) {
			w.Error("nothing was deleted")
		}
	})
}

// A write whose transport panics has left its pass: the gate can close, and another process may do the work.
//
// Guarantees: Q14
func TestGateOfAPanickingTransport(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		gate := new(informer.Gate)
		gate.Open(nil)
		client := w.Client(func(config *rest.Config) {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return world.RoundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodGet {
						panic("transport")
					}
					return next.RoundTrip(r)
				})
			})
		})
		pods := informer.NewTypedClient[*corev1.Pod](client.WithGate(gate), world.PodGVR)
		func() {
			defer func() {
				if r := recover(); r != "transport" {
					w.Errorf("recovered %v", r)
				}
			}()
			_ = pods.Delete(w.Context(), world.KeyA, metav1.DeleteOptions{})
		}()
		gate.Close(context.DeadlineExceeded)
		if err := gate.WaitLeft(w.Context()); err != nil || gate.Status().Passes != 0 {
			w.Errorf("%v, %+v", err, gate.Status())
		}
	})
}
