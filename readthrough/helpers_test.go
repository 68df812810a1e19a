package readthrough_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/readthrough"
)

func TestMain(m *testing.M) { leak.Main(m) }

var resource = informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}

// world is an API server with secrets, in a bubble.
type world struct {
	*testing.T
	server  *informertest.Server
	secrets *informertest.Collection[*corev1.Secret]
	client  *informer.Client
}

func newWorld(t *testing.T) *world {
	server := informertest.NewServer(informertest.Options{InMemory: true})
	t.Cleanup(server.Close)
	w := &world{T: t, server: server}
	w.secrets = informertest.Register[*corev1.Secret](server, informertest.Resource{GroupVersionResource: resource.GroupVersionResource})
	config := server.Config()
	config.QPS = -1
	var err error
	if w.client, err = informer.NewClient(config); err != nil {
		t.Fatal(err)
	}
	return w
}

func key(name string) informer.Key { return informer.Key{Namespace: "ns", Name: name} }

// secret creates or updates a secret with a text.
func (w *world) secret(name, text string, labels map[string]string) *corev1.Secret {
	w.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: labels, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test"}},
		},
		Data: map[string][]byte{"text": []byte(text)},
	}
	write := w.secrets.Create
	if old, ok := w.secrets.Get(key(name)); ok {
		s.UID, s.ResourceVersion, write = old.UID, old.ResourceVersion, w.secrets.Update
	}
	s, err := write(s)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) delete(name string) {
	w.Helper()
	if _, err := w.secrets.Delete(key(name)); err != nil {
		w.Fatal(err)
	}
}

// start runs an informer until the test ends, or until stop is called, and waits until it has synced.
func (w *world) start(config readthrough.Config[*corev1.Secret]) (i *readthrough.Informer[*corev1.Secret], stop func()) {
	w.Helper()
	config.Metadata.Logger = slog.New(slog.DiscardHandler)
	i = readthrough.New(w.client, resource, config)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := i.Run(ctx); err != context.Canceled {
			w.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	w.Cleanup(stop)
	if err := i.WaitSynced(w.Context()); err != nil {
		w.Fatal(err)
	}
	return i, stop
}

// settle waits until the informer has what the server sent.
func settle() { synctest.Wait() }

func (w *world) want(i *readthrough.Informer[*corev1.Secret], name, text string) *corev1.Secret {
	w.Helper()
	s, err := i.Get(w.Context(), key(name))
	if err != nil {
		w.Errorf("get %s: %v", name, err)
		return nil
	}
	if got := string(s.Data["text"]); got != text {
		w.Errorf("%s has %q, want %q", name, got, text)
	}
	return s
}

// requests returns how many requests of a verb the server has got for whole objects.
func (w *world) requests(verb string) int {
	n := 0
	for _, r := range w.server.Requests() {
		if r.Verb == verb && !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
			n++
		}
	}
	return n
}
