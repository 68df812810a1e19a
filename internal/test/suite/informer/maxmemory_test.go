package informer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// secret is content of objects that no text may have.
const secret = "do-not-show"

// createPods creates n pods of about two kilobytes.
func createPods(w world.World, n int) {
	for i := range n {
		pod := world.NewPod("ns", fmt.Sprintf("pod-%03d", i), "v="+secret)
		pod.Annotations = map[string]string{"text": secret + fmt.Sprint(i) + strings.Repeat("x", 2000)}
		w.Create(pod)
	}
}

// remains makes the server claim that so many more objects remain than it has. It holds up the second page of each list
// until release.
func remains(w world.World, n int64) (release func()) {
	gate := make(chan struct{})
	w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
		switch world.KindOf(r.URL.Path, r.URL.Query()) {
		case "list":
			const page = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":"next","remainingItemCount":%d},"items":[`
			var body bytes.Buffer
			fmt.Fprintf(&body, page, w.Server.ResourceVersion(), n)
			i := 0
			for pod := range w.Pods.All() {
				if i++; i > 1 {
					body.WriteByte(',')
				}
				body.Write(w.Encoded(world.JSONType, pod.DeepCopy()))
			}
			world.Write(rw, world.JSONType, append(body.Bytes(), "]}"...))
			return true
		case "page":
			select {
			case <-gate:
			case <-r.Context().Done():
			}
			world.Write(rw, world.JSONType, []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"`+
				w.Server.ResourceVersion()+`"},"items":[]}`))
			return true
		}
		return false
	})
	return func() { close(gate) }
}

// A first list that will not fit in the memory of the process is reported while it runs, by a line of the log, by the
// status and by the error of those who wait. Afterwards the forecast is gone.
//
// Guarantees: O6, O7
func TestFirstListWarnsBeforeTheKernel(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	debug.SetMemoryLimit(16 << 30) // far from what this process uses
	for name, change := range map[string]func(*informer.Config[*corev1.Pod]){
		"default":  func(*informer.Config[*corev1.Pod]) {},
		"Separate": func(c *informer.Config[*corev1.Pod]) { c.Layout = informer.LayoutSeparate },
		"Compact":  func(c *informer.Config[*corev1.Pod]) { c.Layout = informer.LayoutCompact },
		"Transform": func(c *informer.Config[*corev1.Pod]) {
			c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				createPods(w, 40)
				release := remains(w, 100_000_000)
				config := world.Paged[*corev1.Pod]()
				var log bytes.Buffer
				config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				change(&config)
				client := w.Client()
				inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
				other := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
				defer world.Run(w, inf)()
				defer world.Run(w, other)()
				synctest.Wait()
				s := inf.Status().Reflectors[0].List
				f := s.Forecast
				if s.Objects != 40 || s.Total != 100_000_040 || !f.Exceeded || f.Whole < 16<<30 || f.Loaded*1000 > f.Whole ||
					f.Process < f.Whole || f.Limit != 16<<30 || f.LimitedBy != "GOMEMLIMIT" {
					t.Errorf("%+v", s)
				}
				if f.Metadata == 0 && config.Layout != informer.LayoutCompact || f.Metadata >= f.Whole || f.Compact >= f.Whole {
					t.Errorf("other layouts: %+v", f)
				}
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				err := inf.WaitSynced(ctx)
				cancel()
				const text = "Listing: 40 of 100,000,040 objects, "
				if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "of a limit of 17 GB (GOMEMLIMIT)") {
					t.Errorf("WaitSynced: %v", err)
				}
				if lines := log.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "the first lists may take more memory") ||
					!strings.Contains(lines, " of 100,000,040 objects, ") || strings.Contains(lines+err.Error(), secret) {
					t.Errorf("the log has %q", lines)
				}
				release()
				if err := inf.WaitSynced(w.Context()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if s := inf.Status().Reflectors[0].List; s.Forecast != (status.Forecast{}) || s.Objects != 40 || s.Total != 40 || s.Ended.IsZero() {
					t.Errorf("after the list: %+v", s)
				}
			})
		})
	}
}

// An informer does not hold more than Config.MaxMemory: a list that would take more ends, with an error that says what
// would take less, and nothing of it is stored. The informer does not ask the server again soon.
//
// Guarantees: O8
func TestListOverMaxMemoryIsRefused(t *testing.T) {
	for name, paged := range map[string]bool{"paged": true, "streaming": false} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				createPods(w, 100)
				config := world.Quiet[*corev1.Pod]()
				config.PagedList, config.PageSize, config.MaxMemory = paged, 20, 100_000
				var failures []error
				config.OnFailure = func(err error) { failures = append(failures, err) }
				inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
				defer world.Run(w, inf)()
				begun := time.Now()
				err := inf.WaitSynced(w.Context())
				var unsynced *informer.NotSyncedError
				if !errors.Is(err, informer.ErrMaxMemory) || !errors.As(err, &unsynced) || time.Since(begun) > time.Second {
					t.Fatalf("after %v: %v", time.Since(begun), err)
				}
				for _, text := range []string{"v1 pods", "and Config.MaxMemory is 100 kB", " objects", "metadata only "} {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%v does not have %q", err, text)
					}
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%v has content", err)
				}
				if again := inf.WaitReadable(w.Context(), time.Hour); !errors.Is(again, informer.ErrMaxMemory) || time.Since(begun) > time.Second {
					t.Errorf("WaitReadable: %v after %v", again, time.Since(begun))
				}
				if len(failures) != 1 || !errors.Is(failures[0], informer.ErrMaxMemory) {
					t.Errorf("failures %v", failures)
				}
				s := inf.Status()
				if s.Objects != 0 || s.Synced || s.Reflectors[0].List.Forecast != (status.Forecast{}) {
					t.Errorf("%+v", s)
				}
				w.Server.ResetRequests()
				time.Sleep(50 * time.Second)
				w.WantRequests()
				time.Sleep(11 * time.Second)
				if requests := w.Requests(); len(requests) == 0 || len(requests) > 4 || !strings.HasPrefix(requests[0], "list ") {
					t.Errorf("a minute later: %q", requests)
				}
				for i := range 90 {
					w.Delete("ns", fmt.Sprintf("pod-%03d", i))
				}
				for inf.WaitSynced(w.Context()) != nil {
					time.Sleep(time.Minute)
				}
				if n := inf.Store().Len(); n != 10 {
					t.Errorf("%d objects", n)
				}
				createPods(w, 90) // later changes are not limited
				world.EqualsServer(w, inf)
			})
		})
	}
}

// A streaming list does not say how many objects there are. Near a limit, the informer asks the server for the number, once.
//
// Guarantees: O6
func TestNumberOfObjectsInAStream(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		createPods(w, 140)
		gate, counted := make(chan struct{}), make(chan struct{})
		lists := 0
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			switch world.KindOf(r.URL.Path, r.URL.Query()) {
			case "list":
				lists++
				<-counted
				world.Write(rw, world.JSONType, []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"next",`+
					`"remainingItemCount":999999},"items":[{"metadata":{"name":"pod-000","namespace":"ns"}}]}`))
				return true
			case "stream":
				n := 0
				for pod := range w.Pods.All() {
					if n++; n == 100 {
						<-gate
					}
					world.Write(rw, world.JSONType, world.Frame(world.JSONType, "ADDED", w.Encoded(world.JSONType, pod.DeepCopy())))
				}
				return true
			}
			return false
		})
		config := world.Quiet[*corev1.Pod]()
		config.MaxMemory = 1_000_000 // more than these pods take
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Run(w, inf)()
		synctest.Wait()
		if s := inf.Status().Reflectors[0].List; s.Objects < 64 || s.Objects > 99 || s.Total != 0 || s.Forecast.Loaded == 0 || lists != 1 {
			t.Errorf("%d lists: %s", lists, s)
		}
		close(counted)
		synctest.Wait()
		if s := inf.Status().Reflectors[0].List; s.Total != 1_000_000 {
			t.Errorf("%s", s)
		}
		close(gate)
		err := inf.WaitSynced(w.Context())
		if !errors.Is(err, informer.ErrMaxMemory) || !strings.Contains(err.Error(), "128 of 1,000,000 objects") || lists != 1 {
			t.Errorf("%d lists: %v", lists, err)
		}
	})
}

// The namespaces of an informer share Config.MaxMemory. What one of them has stays in the store.
//
// Guarantees: O8
func TestNamespacesShareMaxMemory(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		createPods(w, 30)
		w.Create(world.NewPod("small", "a", "v=1"))
		config := world.Paged[*corev1.Pod]()
		config.MaxMemory = 50_000
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"small", "ns"}}, config)
		defer world.Run(w, inf)()
		if err := inf.WaitSynced(w.Context()); !errors.Is(err, informer.ErrMaxMemory) || !strings.Contains(err.Error(), "namespace ns") {
			t.Errorf("WaitSynced: %v", err)
		}
		synctest.Wait()
		if n := inf.Store().Len(); n != 1 {
			t.Errorf("%d objects", n)
		}
	})
}

// A negative limit is a mistake.
func TestNegativeMaxMemory(t *testing.T) {
	config := world.Quiet[*corev1.Pod]()
	config.MaxMemory = math.MinInt64
	err := informer.New(nil, informer.Resource{GroupVersionResource: world.PodGVR}, config).WaitSynced(t.Context())
	if err == nil {
		t.Error("it is accepted")
	}
}
