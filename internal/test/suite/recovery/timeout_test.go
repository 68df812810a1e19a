package recovery

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// The timeout of rest.Config ends no list that makes progress. It limits the time until a list begins, and requests of
// single objects.
// Guarantees: R28
func TestTimeoutEndsNoListThatMakesProgress(t *testing.T) {
	const timeout = 15 * time.Second
	withTimeout := func(c *rest.Config) { c.Timeout = timeout }
	pods := informer.Resource{GroupVersionResource: world.PodGVR}
	world.Bubble(t, func(w world.World) {
		for _, name := range []string{"a", "b", "c", "d"} {
			w.Create(world.NewPod("ns", name, "v=1"))
		}
		client := w.Client(withTimeout)
		w.Server.Inject(informertest.Fault{Verb: "list", BytesPerSecond: 18})
		began := time.Now()
		inf := informer.New(client, pods, world.Paged[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		if took := time.Since(began); took < 2*timeout {
			w.Errorf("the list took only %v", took)
		}
		w.WantRequests("list resourceVersion=0 limit=500", "watch resourceVersion=5")
	})
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		w.Server.Inject(informertest.Fault{Verb: "list", Times: 1, Hang: true})
		began := time.Now()
		inf := informer.New(w.Client(withTimeout), pods, world.Paged[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		if took := time.Since(began); took < timeout || took > timeout+time.Second {
			w.Errorf("a list that did not begin took %v", took)
		}
		if s := world.StatusOf(inf); !errors.Is(s.LastError, informer.ErrNoProgress) {
			w.Errorf("status %+v", s)
		}
		w.Server.Inject(informertest.Fault{Verb: "get", AfterBytes: 10, Hang: true})
		client := informer.NewTypedClient[*corev1.Pod](w.Client(withTimeout), world.PodGVR)
		began = time.Now()
		_, err := client.Get(w.Context(), world.KeyA, metav1.GetOptions{})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != timeout {
			w.Errorf("a read of one object took %v: %v", took, err)
		}
	})
}
