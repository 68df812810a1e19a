package bench

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// BenchmarkRelistUnchanged relists 10,000 unchanged pods, as after 410 Expired: from the HTTP client until the store is up
// to date. It excludes client-go's notification of every handler about every object; our handlers receive nothing.
func BenchmarkRelistUnchanged(b *testing.B) {
	const relisted = 10_000
	pods := fleet.New(fleet.Config{Pods: relisted}).All()
	formats(b, func(b *testing.B, media string) {
		server := canned.ListOf(b, media, pods)
		measure := func(b *testing.B, relist func() (objects int)) {
			relist()
			b.SetBytes(int64(len(server.List)))
			b.ReportAllocs()
			for b.Loop() {
				if n := relist(); n != relisted {
					b.Fatalf("%d objects", n)
				}
			}
		}
		b.Run("impl=client-go", func(b *testing.B) {
			peer := peerOf(b, server)
			store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			r := cache.NewReflector(canned.WithoutWatchList{ListWatch: &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					return peer.List(ctx, opts)
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					return nil, errEnough
				},
			}}, &corev1.Pod{}, store, 0)
			measure(b, func() int {
				if err := r.ListAndWatchWithContext(b.Context()); !errors.Is(err, errEnough) {
					b.Fatal(err)
				}
				return len(store.ListKeys())
			})
		})
		b.Run("impl=informer", func(b *testing.B) {
			store, writer := informer.NewStore[*corev1.Pod]()
			client, sink := clientOf(b, server), holder{store, writer}
			measure(b, func() int {
				reflect(b, client, false, sink)
				return store.Len()
			})
		})
	})
}

// holder is a sink that tells its reflector what it holds. It has enough after a list.
type holder struct {
	*informer.Store[*corev1.Pod]
	writer informer.StoreWriter[*corev1.Pod]
}

func (h holder) Put(_ context.Context, d informer.Delta[*corev1.Pod]) error {
	if err := h.writer.Apply(d); err != nil {
		return err
	}
	return errEnough
}
