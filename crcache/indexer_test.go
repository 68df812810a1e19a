package crcache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/typedinformer/informer/crcache"
	"github.com/typedinformer/informer/informertest"
)

// LastStoreSyncResourceVersion is the version of the namespace that is furthest behind. It is empty while a namespace
// has no objects.
func TestLastStoreSyncResourceVersionIsTheOldest(t *testing.T) {
	for _, test := range []struct{ behind, ahead string }{{"a", "b"}, {"b", "a"}} {
		t.Run(test.behind+" is behind", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				for i := range 8 { // the next version, 10, has more digits
					w.pod("a", fmt.Sprint("p", i))
				}
				before := w.server.ResourceVersion()
				hang := func() (mend func()) {
					return w.server.Inject(informertest.Fault{Hang: true, Namespace: test.behind})
				}
				mend := hang()
				c := w.cache(cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}, crcache.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- c.Start(ctx) }()
				i, err := c.GetInformer(t.Context(), &corev1.Pod{}, cache.BlockUntilSynced(false))
				if err != nil {
					t.Fatal(err)
				}
				indexer := i.(interface{ GetIndexer() toolscache.Indexer }).GetIndexer()
				check := func(want string) {
					t.Helper()
					synctest.Wait()
					if got := indexer.LastStoreSyncResourceVersion(); got != want {
						t.Errorf("the version is %q, want %q", got, want)
					}
				}
				check("")
				mend()
				if !c.WaitForCacheSync(t.Context()) {
					t.Fatal("the cache has not synced")
				}
				check(before)
				mend = hang()
				w.server.EndWatches()
				if err := crcache.WaitForObject(t.Context(), c, w.pod(test.ahead, "new")); err != nil {
					t.Fatal(err)
				}
				check(before)
				mend()
				if err := crcache.WaitForObject(t.Context(), c, w.pod(test.behind, "new")); err != nil {
					t.Fatal(err)
				}
				check("10")
				cancel()
				<-ended
				w.server.Close()
			})
		})
	}
}
