package metadatainformer_test

import (
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	clientgo "k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/typedinformer/informer/clientgo/metadatainformer"
	"github.com/typedinformer/informer/informertest"
)

// monitorFigures are what the monitors of many kinds take.
type monitorFigures struct {
	goroutines, heap     int // with all kinds
	idleRequests, idle   int // requests and lines of log of a quarter of an hour with all kinds
	goneRequests, gone   int // the same after all definitions were deleted
	left                 int // goroutines after the stop
	additions, deletions int // calls of handlers
}

const monitored = 200 // kinds

// monitor runs a monitor for each kind, as Kubernetes' garbage collector and its quota do: an informer of a shared factory
// with a handler, which nobody can stop alone. The kinds come and go as those of definitions do.
func monitor(t *testing.T, create func(config *rest.Config) (metadatainformer.SharedInformerFactory, error)) (f monitorFigures) {
	synctest.Test(t, func(t *testing.T) {
		var requests, lines atomic.Int64
		server := informertest.NewServer(informertest.Options{InMemory: true, Middleware: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				next.ServeHTTP(w, r)
			})
		}})
		defer server.Close()
		klog.SetLogger(funcr.New(func(string, string) { lines.Add(1) }, funcr.Options{}))
		defer klog.ClearLogger()
		heap, goroutines := liveHeap(), runtime.NumGoroutine()
		config := server.Config()
		config.QPS = -1
		factory, err := create(config)
		if err != nil {
			t.Fatal(err)
		}
		var additions, deletions atomic.Int64
		handler := clientcache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { additions.Add(1) },
			DeleteFunc: func(any) { deletions.Add(1) },
		}
		var kinds []*informertest.Collection[*unstructured.Unstructured]
		stop := make(chan struct{})
		for i := range monitored {
			gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: fmt.Sprintf("kinds%03d", i)}
			c := informertest.Register[*unstructured.Unstructured](server, informertest.Resource{GroupVersionResource: gvr, Kind: fmt.Sprintf("Kind%03d", i)})
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetAPIVersion("example.com/v1")
			obj.SetKind(fmt.Sprintf("Kind%03d", i))
			obj.SetNamespace("default")
			obj.SetName("x")
			if _, err := c.Create(obj); err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, c)
			if _, err := factory.ForResource(gvr).Informer().AddEventHandler(handler); err != nil {
				t.Fatal(err)
			}
			factory.Start(stop)
		}
		for resource, synced := range factory.WaitForCacheSync(t.Context().Done()) {
			if !synced {
				t.Errorf("%s has not synced", resource)
			}
		}
		pass := func() (asked, logged int) {
			requests.Store(0)
			lines.Store(0)
			time.Sleep(15 * time.Minute)
			synctest.Wait()
			return int(requests.Load()), int(lines.Load())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		f.goroutines, f.heap = runtime.NumGoroutine()-goroutines, int(liveHeap()-heap)
		f.idleRequests, f.idle = pass()
		for _, c := range kinds {
			c.Unregister()
		}
		f.goneRequests, f.gone = pass()
		close(stop)
		factory.Shutdown()
		time.Sleep(time.Second) // for the connections
		synctest.Wait()
		f.left = runtime.NumGoroutine() - goroutines
		f.additions, f.deletions = int(additions.Load()), int(deletions.Load())
	})
	return f
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Monitors of 200 kinds, whose definitions are then deleted, cost no more than with client-go: goroutines, memory within
// what varies, requests. They write a fraction of its lines of log. They deliver the same, and the deletions too, and leave
// nothing when they end.
// Guarantees: N1, P1
func TestMonitorsOfKindsThatGo(t *testing.T) {
	theirs := monitor(t, func(config *rest.Config) (metadatainformer.SharedInformerFactory, error) {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return clientgo.NewSharedInformerFactory(client, 0), nil
	})
	ours := monitor(t, func(config *rest.Config) (metadatainformer.SharedInformerFactory, error) {
		return metadatainformer.NewSharedInformerFactory(config, 0)
	})
	t.Logf("client-go: %+v", theirs)
	t.Logf("here: %+v", ours)
	if ours.additions != monitored || theirs.additions != monitored {
		t.Errorf("%d additions, %d with client-go", ours.additions, theirs.additions)
	}
	if ours.deletions != monitored {
		t.Errorf("%d deletions of objects whose kinds are gone, want %d", ours.deletions, monitored)
	}
	// the heap has the connections and the server, too
	if ours.goroutines > theirs.goroutines || float64(ours.heap) > 1.3*float64(theirs.heap) || ours.left > 0 {
		t.Errorf("more goroutines or memory than client-go: %+v, client-go %+v", ours, theirs)
	}
	// watches end after random times
	if float64(ours.idleRequests) > 1.2*float64(theirs.idleRequests) || ours.idle > theirs.idle || ours.gone > theirs.gone/4 || ours.goneRequests > theirs.goneRequests {
		t.Error("more requests than client-go, or more than a quarter of its lines of log once the kinds are gone")
	}
}
