package factory_test

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/clientgo/factory"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// newFactory returns a factory for a clientset of generated code.
func newFactory(t *testing.T, client kubernetes.Interface,
	config factory.Config) *factory.Factory[kubernetes.Interface, internalinterfaces.NewInformerFunc] {
	t.Helper()
	f, err := factory.New[kubernetes.Interface, internalinterfaces.NewInformerFunc](client,
		kubernetes.NewForConfigAndClient, config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The generated code of a clientset accepts a factory, which has one informer for each type.
// Guarantees: P1
func TestGeneratedCode(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	f := newFactory(t, w.Clientset(), factory.Config{})
	pods := core.New(f, "a", nil).V1().Pods()
	lister := pods.Lister()
	if !clientcache.WaitFor(t.Context(), "") || len(f.WaitForCacheSync(t.Context().Done())) != 0 {
		t.Error("an informer runs before Start")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer f.Shutdown()
	defer cancel()
	f.Start(ctx.Done())
	if synced := f.WaitForCacheSync(t.Context().Done()); !synced[reflect.TypeFor[*corev1.Pod]()] || len(synced) != 1 {
		t.Errorf("synced %v", synced)
	}
	if pod, err := lister.Pods("a").Get("one"); err != nil || pod.Name != "one" {
		t.Errorf("Get: %v %v", pod, err)
	}
}

// The requests of the informers have the user agent of the clientset, also below a prefix of the path.
// Guarantees: P1
func TestRequestsAreThoseOfTheClientset(t *testing.T) {
	w := world.New(t)
	config := w.Server.Config()
	config.Host += "/prefix"
	config.UserAgent = "the-program/1"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return withoutPrefix{next}
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f := newFactory(t, client, factory.Config{})
	core.New(f, "", nil).V1().Pods().Informer()
	ctx, cancel := context.WithCancel(context.Background())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	if err := f.WaitForCacheSyncWithContext(t.Context()).AsError(); err != nil {
		t.Fatal(err)
	}
	for _, req := range w.Server.Requests() {
		if agent := req.Header.Get("User-Agent"); agent != "the-program/1" {
			t.Errorf("user agent %q", agent)
		}
	}
}

// withoutPrefix removes the prefix of a path, as a proxy before the server would.
type withoutPrefix struct{ next http.RoundTripper }

func (p withoutPrefix) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Path = strings.TrimPrefix(req.URL.Path, "/prefix")
	return p.next.RoundTrip(req)
}

// A factory that has been shut down starts nothing, and releases its name.
// Guarantees: P1
func TestShutdown(t *testing.T) {
	name, err := clientcache.NewInformerName("test-of-shutdown")
	if err != nil {
		t.Fatal(err)
	}
	f := newFactory(t, world.New(t).Clientset(), factory.Config{InformerName: name})
	if f.InformerName() != name {
		t.Error("another name")
	}
	i := core.New(f, "", nil).V1().Pods().Informer()
	f.Shutdown()
	f.StartWithContext(t.Context())
	if synced := f.WaitForCacheSync(t.Context().Done()); len(synced) != 0 || i.HasSynced() {
		t.Errorf("synced %v", synced)
	}
	if _, err := clientcache.NewInformerName("test-of-shutdown"); err != nil {
		t.Error(err)
	}
}

// New rejects a function that makes other clientsets.
func TestWrongFunction(t *testing.T) {
	_, err := factory.New[kubernetes.Interface, internalinterfaces.NewInformerFunc](nil,
		func(*rest.Config, *http.Client) (string, error) { return "", nil }, factory.Config{})
	if err == nil || !strings.Contains(err.Error(), "newClient returns a string") {
		t.Errorf("error %v", err)
	}
}
