package informer

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// loading returns the keys of the objects that have arrived.
func loading(inf *informer.Informer[*corev1.Pod]) (keys []string) {
	for pod := range inf.Loading() {
		keys = append(keys, informer.KeyOf(pod).String())
	}
	slices.Sort(keys)
	return keys
}

// While a first list is under way, Loading has what has arrived, and the store has nothing. Then it is the other way round.
// Guarantees: O10
func TestLoadingShowsAFirstListUnderWay(t *testing.T) {
	const all = 2000
	for name, config := range map[string]informer.Config[*corev1.Pod]{
		"list":    {PagedList: true},
		"stream":  {},
		"Compact": {PagedList: true, Layout: informer.LayoutCompact},
	} {
		t.Run(name, func(t *testing.T) {
			world.BubbleWith(t, informertest.Options{}, func(w world.World) {
				for i := range all {
					w.Create(world.NewPod("ns", fmt.Sprintf("p%04d", i)))
				}
				defer w.Server.Inject(informertest.Fault{Resource: "pods", BytesPerSecond: 25_000})()
				config.Logger = world.Quiet[*corev1.Pod]().Logger
				inf := informer.New(w.Client(), pods, config)
				if n := len(loading(inf)); n != 0 {
					w.Errorf("%d objects before Run", n)
				}
				ctx, stop := context.WithCancel(w.Context())
				ended := make(chan error, 1)
				go func() { ended <- inf.Run(ctx) }()
				defer func() { stop(); <-ended }()
				time.Sleep(10 * time.Second) // the list has 350 kB
				synctest.Wait()
				keys := loading(inf)
				if len(keys) < all/4 || len(keys) >= all || inf.Store().Len() != 0 || keys[0] != "ns/p0000" {
					w.Errorf("%d objects have arrived, %d are in the store: %q", len(keys), inf.Store().Len(), keys)
				}
				list := world.StatusOf(inf).List
				if list.Objects < len(keys) || list.Rate < 50 || list.Rate > 200 || (list.Total > 0) != (list.Left > 0) {
					w.Errorf("the status of the list: %+v", list)
				}
				if err := inf.WaitSynced(w.Context()); err != nil {
					w.Fatal(err)
				}
				if n := len(loading(inf)); n != 0 || inf.Store().Len() != all {
					w.Errorf("%d objects after the list, and %d in the store", n, inf.Store().Len())
				}
				synctest.Wait() // the status follows the store
				if list := world.StatusOf(inf).List; list.Rate != 0 || list.Left != 0 {
					w.Errorf("after the list: %+v", list)
				}
			})
		})
	}
}

// The rows of a list that is being read again later are not shown: the store has the objects.
// Guarantees: O10
func TestLoadingShowsOnlyFirstLists(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		w.Create(world.NewPod("ns", "b"))
		config := world.Quiet[*corev1.Pod]()
		config.PagedList, config.PageSize = true, 1
		inf := informer.New(w.Client(), pods, config)
		defer world.Start(w.T, inf)()
		w.Server.Compact()
		defer w.Server.Inject(informertest.Fault{Verb: "list", Skip: 1, Hang: true})()
		w.Server.EndWatches()
		w.Create(world.NewPod("ns", "c"))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if keys := loading(inf); len(keys) != 0 {
			w.Errorf("%q are shown, although the store has objects", keys)
		}
	})
}
