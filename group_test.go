package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

func TestL3_GroupSharesAndStops(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		w.create(newPod("a", "x", "v=1"), newPod("b", "y", "v=1"))
		g := informer.NewGroup(w.client())
		share := func(r informer.Resource) (*informer.Informer[*corev1.Pod], func()) {
			w.Helper()
			inf, release, err := informer.Shared(g, r, quiet[*corev1.Pod]())
			if err != nil {
				w.Fatal(err)
			}
			return inf, release
		}
		all, releaseAll := share(informer.Resource{GroupVersionResource: podGVR})
		if again, release := share(informer.Resource{GroupVersionResource: podGVR}); again != all {
			w.Error("not shared")
		} else {
			release()
			release() // counts once
		}
		two, releaseTwo := share(informer.Resource{GroupVersionResource: podGVR, Namespaces: []string{"b", "a"}})
		if again, release := share(informer.Resource{GroupVersionResource: podGVR, Namespaces: []string{"a", "b"}}); again != two {
			w.Error("not shared when the namespaces come in another order")
		} else {
			defer release()
		}
		selected, _ := share(informer.Resource{GroupVersionResource: podGVR, LabelSelector: "v=2"})
		metadata, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: podGVR}, informer.Config[*metav1.PartialObjectMetadata]{})
		if err != nil {
			w.Fatal(err)
		}
		if len(w.requests()) != 0 {
			w.Error("something was asked for before Run")
		}

		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }()
		if err := g.WaitSynced(ctx); err != nil {
			w.Fatal(err)
		}
		if all.Store().Len() != 2 || two.Store().Len() != 2 || selected.Store().Len() != 0 || metadata.Store().Len() != 2 {
			w.Errorf("%d, %d, %d, %d objects", all.Store().Len(), two.Store().Len(), selected.Store().Len(), metadata.Store().Len())
		}
		synctest.Wait()
		if n := w.pods.Watchers(); n != 5 { // two namespaces have one each
			w.Errorf("%d watches", n)
		}

		releaseTwo() // one user is left
		synctest.Wait()
		if n := w.pods.Watchers(); n != 5 {
			w.Errorf("%d watches", n)
		}
		releaseAll() // the others go on
		synctest.Wait()
		if n := w.pods.Watchers(); n != 4 {
			w.Errorf("%d watches after the last user let go", n)
		}
		if err := all.WaitFor(ctx, "99"); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitFor of a stopped informer: %v", err)
		}
		fresh, _ := share(informer.Resource{GroupVersionResource: podGVR})
		if err := g.WaitSynced(ctx); err != nil || fresh == all || fresh.Store().Len() != 2 {
			w.Errorf("asked for again: %v, %d objects", err, fresh.Store().Len())
		}
		if n := len(g.Status()); n != 4 {
			w.Errorf("%d informers", n)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("Run: %v", err)
		}
		if _, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]()); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("Shared after the end: %v", err)
		}
		if err := g.Run(w.Context()); !errors.Is(err, informer.ErrRunning) {
			w.Errorf("second Run: %v", err)
		}
	})
}

func TestL1_GroupWaitsForItsHandlers(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		w.create(newPod("a", "x"))
		g := informer.NewGroup(w.client())
		inf, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		if err != nil {
			w.Fatal(err)
		}
		gate := make(chan struct{})
		inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{Add: func(*corev1.Pod, bool) { <-gate }})
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(ended) > 0 {
			w.Error("Run returned while a handler was being called")
		}
		close(gate)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
	})
}

// Users come and go, all at once: who has an informer gets all of it, and who waits for the group is not told of
// informers that others let go of.
func TestL3L5_GroupConcurrently(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		w.create(newPod("a", "x"), newPod("b", "y"))
		g := informer.NewGroup(w.client())
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		var users sync.WaitGroup
		for n := range 6 {
			users.Go(func() {
				for i := range 20 {
					resource := informer.Resource{GroupVersionResource: podGVR, Namespaces: []string{string("ab"[(n+i)%2])}}
					inf, release, err := informer.Shared(g, resource, quiet[*corev1.Pod]())
					if err == nil && i%3 > 0 {
						err = inf.WaitSynced(ctx)
					}
					if err == nil && i%3 > 0 && inf.Store().Len() != 1 {
						err = fmt.Errorf("%d objects", inf.Store().Len())
					}
					if err = errors.Join(err, g.WaitSynced(ctx)); err != nil {
						w.Error(err)
					}
					g.Status()
					release()
				}
			})
		}
		users.Wait()
		synctest.Wait()
		if len(g.Status()) != 0 || w.pods.Watchers() != 0 {
			w.Errorf("%d informers and %d watches stay", len(g.Status()), w.pods.Watchers())
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
	})
}

func TestGroup_WaitSyncedNamesWhatIsMissing(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		g := informer.NewGroup(w.client())
		quietMaps := quiet[*corev1.ConfigMap]()
		if _, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]()); err != nil {
			w.Fatal(err)
		}
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		if _, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: gvr, Namespaces: []string{"x"}}, quietMaps); err != nil {
			w.Fatal(err)
		}
		running, stop := context.WithCancel(w.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(running) }()
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		err := g.WaitSynced(ctx)
		var unsynced *informer.NotSyncedError
		if !errors.As(err, &unsynced) || unsynced.Resource.Resource != "configmaps" || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("WaitSynced: %v", err)
		}
		if text := err.Error(); strings.Contains(text, "pods") || !strings.Contains(text, "v1 configmaps in x not synced: namespace x: Absent") {
			w.Errorf("WaitSynced: %v", err)
		}
		stop()
		<-ended
	})
}

func TestGroup_ConfigsMustAgree(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		g := informer.NewGroup(w.client())
		pods := informer.Resource{GroupVersionResource: podGVR}
		transform := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
		if _, _, err := informer.Shared(g, pods, informer.Config[*corev1.Pod]{PageSize: 7, Transform: transform}); err != nil {
			w.Fatal(err)
		}
		for name, c := range map[string]struct {
			config informer.Config[*corev1.Pod]
			ok     bool
		}{
			"zero":      {informer.Config[*corev1.Pod]{}, true},
			"same":      {informer.Config[*corev1.Pod]{PageSize: 7}, true},
			"other":     {informer.Config[*corev1.Pod]{PageSize: 8}, false},
			"transform": {informer.Config[*corev1.Pod]{PageSize: 7, Transform: transform}, false},
		} {
			if _, _, err := informer.Shared(g, pods, c.config); (err == nil) != c.ok {
				w.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := informer.Shared(g, informer.Resource{}, informer.Config[*corev1.Pod]{}); err == nil {
			w.Error("an empty resource was taken")
		}
	})
}
