package byresource

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientcache "k8s.io/client-go/tools/cache"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamiclister"

	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// withMethod is an interface that has the method, as from client-go 0.38 on.
type withMethod interface {
	WaitForCacheSyncWithContext(context.Context) theirs
}

type theirs struct {
	Err    error
	Synced map[schema.GroupVersionResource]bool
}

type older struct{ Before038 }

type newer struct {
	withMethod
	older
}

// A factory has the method of client-go's interface with the type that the interface requires, also a type that this
// module cannot name. The result names what has not synced.
// Guarantees: P1
func TestWaitForCacheSyncWithContext(t *testing.T) {
	w := world.New(t)
	w.Server.Inject(informertest.Fault{Hang: true, Resource: "nodes"})
	f := New(Config{
		Client: w.Client(),
		Object: &unstructured.Unstructured{},
		Lister: func(indexer clientcache.Indexer, resource schema.GroupVersionResource) clientcache.GenericLister {
			return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, resource))
		},
	}, newer.WaitForCacheSyncWithContext)
	var _ withMethod = f
	f.ForResource(world.Pods)
	ctx, cancel := context.WithCancel(context.Background())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	if result := f.WaitForCacheSyncWithContext(ctx); result.Err != nil || !result.Synced[world.Pods] {
		t.Errorf("pods: %+v", result)
	}
	f.ForResource(world.Nodes)
	f.StartWithContext(ctx)
	reason := errors.New("enough")
	ended, end := context.WithCancelCause(ctx)
	end(reason)
	result := f.WaitForCacheSyncWithContext(ended)
	if synced, there := result.Synced[world.Nodes]; !errors.Is(result.Err, reason) || synced || !there || !result.Synced[world.Pods] {
		t.Errorf("nodes: %+v", result)
	}
}
