package cache_test

import (
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/clientgo/internal/world"
)

// An informer that has stopped does not keep its handlers, as in client-go, although the program keeps the informer.
// Otherwise nothing that a handler refers to is freed, such as a transport whose goroutine ends when it is.
// Guarantees: P1
func TestStoppedInformerFreesHandlers(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	pods := clientcache.NewListWatchFromClient(w.Clientset().CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.Everything())
	for name, i := range map[string]clientcache.SharedIndexInformer{
		"client-go": clientcache.NewSharedIndexInformer(pods, &corev1.Pod{}, 0, clientcache.Indexers{}),
		"clientgo":  create(t, config(w)),
	} {
		t.Run(name, func(t *testing.T) {
			freed := addTracked(t, i)
			run(t, i)()
			giveUp := time.After(10 * time.Second)
			for collected := false; !collected; {
				runtime.GC()
				select {
				case <-freed:
					collected = true
				case <-giveUp:
					t.Fatal("the handler is not freed")
				default:
				}
			}
			if !i.IsStopped() { // the test keeps i until here
				t.Error("the informer has not stopped")
			}
		})
	}
}

// addTracked adds a handler. It returns a channel that is closed when the handler is freed.
func addTracked(t *testing.T, i clientcache.SharedIndexInformer) <-chan struct{} {
	t.Helper()
	h, freed := &world.Recorder{}, make(chan struct{})
	runtime.AddCleanup(h, func(c chan struct{}) { close(c) }, freed)
	add(t, i, h)
	return freed
}
