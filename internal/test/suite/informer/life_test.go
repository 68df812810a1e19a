package informer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// Guarantees: L1
func TestThousandCyclesLeaveNothing(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for i := range 30 {
			w.Create(world.NewPod("ns", strconv.Itoa(i), "v=1"))
		}
		client := w.Client()
		synctest.Wait()
		before := runtime.NumGoroutine()
		for cycle := range testkit.Rounds(200, 1000) {
			ctx, cancel := context.WithCancel(w.Context())
			inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
			sub := inf.Subscribe(&testkit.Recorder[*corev1.Pod]{})
			ended := make(chan struct{})
			go func() { inf.Run(ctx); close(ended) }()
			switch cycle % 3 {
			case 0:
				if err := sub.WaitSynced(ctx); err != nil {
					w.Fatal(err)
				}
			case 1:
				synctest.Wait()
			}
			cancel()
			<-ended
		}
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before+10 { // idle connections of the transport
			w.Errorf("%d goroutines before, %d after", before, after)
		}
		if n := w.Pods.Watchers(); n != 0 {
			w.Errorf("%d watches left", n)
		}
	})
}

// Cancelling an informer ends it at once, at any point of its work. Nothing continues.
// Guarantees: L2
func TestCancelAtEveryPoint(t *testing.T) {
	for _, paged := range []bool{false, true} {
		t.Run(fmt.Sprintf("paged=%v", paged), func(t *testing.T) {
			points := int64(1)
			for !cancelAt(t, paged, points) && !t.Failed() {
				points++
			}
			if points < 50 {
				t.Errorf("only %d points", points)
			}
		})
	}
}

// cancelAt cancels an informer at the nth point of an eventful run. Points are before and after each network call, and
// within each callback. It reports whether the run had fewer points.
func cancelAt(t *testing.T, paged bool, n int64) (whole bool) {
	world.Bubble(t, func(w world.World) {
		for i := range 3 {
			w.Create(world.NewPod("ns", strconv.Itoa(i), "v=1"))
		}
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		var points atomic.Int64
		var cancelled time.Time
		point := func() {
			if points.Add(1) == n {
				cancelled = time.Now()
				cancel()
			}
		}
		config := world.Quiet[*corev1.Pod]()
		config.PagedList, config.PageSize = paged, 2
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { point(); return p, nil }
		inf := informer.New(w.Client(func(c *rest.Config) { c.Wrap(atEachCall(point)) }), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
			AddFunc:    func(*corev1.Pod, bool) { point() },
			UpdateFunc: func(_, _ *corev1.Pod) { point() },
			DeleteFunc: func(*corev1.Pod, bool) { point() },
		})
		var took time.Duration
		ended := make(chan error, 1)
		go func() {
			err := inf.Run(ctx)
			took = time.Since(cancelled)
			ended <- err
		}()
		var err error
		for _, step := range []func(){
			func() {}, // the initial list
			func() { w.Relabel("ns", "0", "2"); w.Delete("ns", "1") },
			w.Server.EndWatches,
			w.Server.CloseConnections,
			func() {
				w.Server.Inject(informertest.Fault{Match: world.NotStreamed, Times: 1, Error: world.Expired})
				w.Server.EndWatches()
				w.Create(world.NewPod("ns", "new", "v=1"))
			},
			w.Server.Stop,
			func() { w.Relabel("ns", "0", "3"); w.Server.Start() },
		} {
			step()
			select {
			case err = <-ended:
			case <-time.After(time.Minute):
			}
			if err != nil {
				break
			}
		}
		if whole = points.Load() < n; whole {
			if err != nil {
				w.Fatalf("Run: %v", err)
			}
			world.EqualsServer(w, inf)
			cancelled = time.Now()
			cancel()
			err = <-ended
		}
		if !errors.Is(err, context.Canceled) || took > time.Second {
			w.Errorf("cancelled at point %d, Run returned %v after %v", n, err, took)
		}
		before := points.Load()
		w.Create(world.NewPod("ns", "late", "v=1"))
		<-time.After(time.Minute)
		if after := points.Load(); after != before || w.Pods.Watchers() != 0 || inf.Status().Reflectors[0].State != status.ReflectorIdle {
			w.Errorf("cancelled at point %d, it continues: %d more points, %d watches, %+v", n, after-before, w.Pods.Watchers(), inf.Status())
		}
	})
	return whole
}

// atEachCall wraps a transport to call do before and after each of its calls, and each call of a body.
func atEachCall(do func()) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTripper(func(r *http.Request) (*http.Response, error) {
			do()
			defer do()
			resp, err := next.RoundTrip(r)
			if err == nil {
				resp.Body = bodyHook{resp.Body, do}
			}
			return resp, err
		})
	}
}

type bodyHook struct {
	io.ReadCloser
	do func()
}

func (h bodyHook) Read(b []byte) (int, error) {
	h.do()
	defer h.do()
	return h.ReadCloser.Read(b)
}

func (h bodyHook) Close() error {
	h.do()
	return h.ReadCloser.Close()
}

// A controller whose informers do not run says so after 10 seconds, once.
// Guarantees: L4
func TestControllerSaysWhatItWaitsFor(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		log := &testkit.Log{}
		ctl := &informer.Controller[informer.Key]{
			Reconcile: func(context.Context, informer.Key) (informer.Result, error) { return informer.Result{}, nil },
			Logger:    slog.New(slog.NewTextHandler(log, nil)),
		}
		inf := w.QuietInformer()
		ctl.Watch(informer.EnqueueObject(inf))
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- ctl.Run(ctx) }()
		for _, step := range []struct {
			after time.Duration
			lines int
		}{{9 * time.Second, 0}, {2 * time.Second, 1}, {time.Hour, 1}} {
			time.Sleep(step.after)
			synctest.Wait()
			if n := strings.Count(log.String(), "\n"); n != step.lines {
				w.Fatalf("%d lines after %v more, want %d: %s", n, step.after, step.lines, log)
			}
		}
		if !strings.Contains(log.String(), informer.ErrNotStarted.Error()) || !strings.Contains(log.String(), "pods") {
			w.Errorf("log: %s", log)
		}
		world.Start(w.T, inf)
		if err := ctl.WaitSynced(w.Context()); err != nil {
			w.Error(err)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("Run: %v", err)
		}
	})
}

// Guarantees: L4
func TestWrongOrder(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf := w.QuietInformer()
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		if err := inf.WaitSynced(ended); !errors.Is(err, informer.ErrNotStarted) || !errors.Is(err, context.Canceled) {
			w.Errorf("WaitSynced before Run: %v", err)
		}
		stop := world.Start(w.T, inf)
		if err := inf.Run(w.Context()); !errors.Is(err, informer.ErrRunning) {
			w.Errorf("second Run: %v", err)
		}
		sub := inf.Subscribe(&testkit.Recorder[*corev1.Pod]{})
		stop()
		if err := inf.Run(w.Context()); !errors.Is(err, informer.ErrRunning) {
			w.Errorf("Run after the end: %v", err)
		}
		sub.Close()
		late := inf.Subscribe(&testkit.Recorder[*corev1.Pod]{})
		if err := late.WaitSynced(w.Context()); err == nil {
			w.Error("a subscription after the end synced")
		}
		late.Close()
		if err := inf.WaitForResourceVersion(w.Context(), "1000"); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitForResourceVersion after the end: %v", err)
		}
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Errorf("WaitSynced of an informer that was synced: %v", err)
		}
		never := w.QuietInformer()
		if err := never.Run(ended); !errors.Is(err, context.Canceled) {
			w.Errorf("Run of an ended context: %v", err)
		}
		if err := never.WaitSynced(w.Context()); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitSynced after the end: %v", err)
		}
	})
}

// All features run concurrently, for the race detector: in a bubble, where failures cost no time, and over TCP.
// Guarantees: L5
func TestEverythingAtOnce(t *testing.T) {
	t.Run("bubble", func(t *testing.T) {
		world.Bubble(t, func(w world.World) { everythingAtOnce(w, time.Second, w.Server.CloseConnections) })
	})
	t.Run("TCP", func(t *testing.T) {
		w := world.New(t, informertest.Options{})
		var once sync.Once // consecutive failures make the backoff longer
		everythingAtOnce(w, time.Millisecond, func() { once.Do(w.Server.CloseConnections) })
	})
}

func everythingAtOnce(w world.World, resync time.Duration, trouble func()) {
	t, pods := w.T, w.Pods
	inf := w.QuietInformer()
	var subs []*informer.Subscription
	var recorders []*testkit.Recorder[*corev1.Pod]
	var whole []chan struct{} // closed when the handler gets the pod named last
	for _, c := range []informer.SubscriptionConfig[*corev1.Pod]{
		{},
		{Delivery: informer.DeliverEvery(0)},
		{Delivery: informer.DeliverEveryBlocking(1)},
		{Resync: resync},
		{OnPanic: func(any) {}},
		{Filter: func(p *corev1.Pod) bool { return p.Labels["v"] == "2" }},
	} {
		rec, last := &testkit.Recorder[*corev1.Pod]{}, make(chan struct{})
		signal := sync.OnceFunc(func() { close(last) })
		rec.After = func(pod *corev1.Pod) {
			if pod.Name == "last" {
				signal()
			}
			if c.OnPanic != nil {
				panic("as every time")
			}
		}
		recorders, whole = append(recorders, rec), append(whole, last)
		subs = append(subs, inf.Subscribe(rec, c))
	}
	defer world.Start(t, inf)()

	queue := informer.NewQueue(informer.QueueConfig[informer.Key]{})
	var mu sync.Mutex // protects reconciled
	reconciled := map[informer.Key]string{}
	last := make(chan struct{})
	controller := &informer.Controller[informer.Key]{
		Queue:                   queue,
		MaxConcurrentReconciles: 3,
		Logger:                  world.Quiet[*corev1.Pod]().Logger,
		Reconcile: func(_ context.Context, key informer.Key) (informer.Result, error) {
			pod, ok := inf.Store().Get(key)
			mu.Lock()
			defer mu.Unlock()
			if delete(reconciled, key); ok {
				reconciled[key] = pod.ResourceVersion
			}
			if key.Name == "last" {
				close(last)
			}
			return informer.Result{}, nil
		},
	}
	controller.Watch(informer.EnqueueObject(inf))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() {
			ns := "ns" + strconv.Itoa(n)
			for i := range 100 {
				name := strconv.Itoa(i)
				pod, err := pods.Create(world.NewPod(ns, name, "v=1"))
				if err != nil {
					t.Error(err)
					return
				}
				if err := inf.WaitForObject(t.Context(), pod); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					w.Relabel(ns, name, "2")
				}
				if i%5 == 0 {
					w.Delete(ns, name)
				}
				if i%20 == n {
					trouble()
				}
			}
		})
		all.Go(func() {
			for range 20 {
				x := informer.NewIndex(inf, func(p *corev1.Pod) []string { return []string{p.Labels["v"]} })
				snap := inf.Store().Snapshot()
				count := 0
				for key := range x.KeysIn(snap) {
					for range x.LookupIn(snap, key) {
						count++
					}
				}
				if count != snap.Len() {
					t.Errorf("%d by index, %d in all", count, snap.Len())
				}
				inf.Status()
			}
		})
		all.Go(func() {
			for range 20 {
				follower := map[informer.Key]string{}
				sub := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
					AddFunc:    func(p *corev1.Pod, _ bool) { follower[informer.KeyOf(p)] = p.ResourceVersion },
					UpdateFunc: func(_, p *corev1.Pod) { follower[informer.KeyOf(p)] = p.ResourceVersion },
					DeleteFunc: func(p *corev1.Pod, _ bool) { delete(follower, informer.KeyOf(p)) },
				})
				if err := sub.WaitSynced(t.Context()); err != nil {
					t.Error(err)
				}
				sub.Close()
				for range inf.Store().All() {
				}
			}
		})
	}
	all.Wait()
	w.Create(world.NewPod("ns", "last", "v=2"))
	world.EqualsServer(w, inf)
	world.AuditAgrees(w, inf)
	for i, rec := range recorders {
		<-whole[i]
		subs[i].Close()
		<-subs[i].Done()
		want := map[informer.Key]*corev1.Pod{}
		for pod := range inf.Store().All() {
			if i != len(recorders)-1 || pod.Labels["v"] == "2" {
				want[informer.KeyOf(pod)] = pod
			}
		}
		if has := rec.Has(); !maps.Equal(has, want) || rec.Broken() > 0 {
			t.Errorf("handler %d has %d objects, the store %d; %d calls do not follow from earlier ones", i, len(has), len(want), rec.Broken())
		}
	}
	<-last
	if err := queue.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	for pod := range inf.Store().All() {
		if rv := reconciled[informer.KeyOf(pod)]; rv != pod.ResourceVersion {
			t.Errorf("%s is at version %s, but was reconciled at %q", pod.Name, pod.ResourceVersion, rv)
		}
	}
	if len(reconciled) != inf.Store().Len() {
		t.Errorf("%d objects reconciled, %d in the store", len(reconciled), inf.Store().Len())
	}
}

// Run waits for a handler call under way.
// Guarantees: L1
func TestRunWaitsForTheHandler(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		inf := w.QuietInformer()
		world.WaitsForHandlers(w, inf, inf.Run)
	})
}

// In profiles, goroutines have labels that name their informer, handler and controller.
// Guarantees: O4
func TestProfilesNameInformersHandlersAndControllers(t *testing.T) {
	w := world.New(t, informertest.Options{})
	w.Create(world.NewPod("ns", "a"))
	gate, calls := make(chan struct{}), make(chan struct{}, 2)
	inf := w.QuietInformer()
	inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{AddFunc: func(*corev1.Pod, bool) { calls <- struct{}{}; <-gate }},
		informer.SubscriptionConfig[*corev1.Pod]{Name: "slow"})
	defer world.Start(t, inf)()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	queue := informer.NewQueue(informer.QueueConfig[informer.Key]{})
	controller := &informer.Controller[informer.Key]{Name: "site", Queue: queue, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
		calls <- struct{}{}
		<-gate
		return informer.Result{}, nil
	}}
	queue.Add(world.KeyA)
	running.Go(func() { _ = controller.Run(ctx) })
	defer close(gate)
	<-calls
	<-calls
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	for _, labels := range []string{`{"informer":"v1 pods"}`, `{"handler":"slow", "informer":"v1 pods"}`, `{"controller":"site"}`} {
		if !strings.Contains(profile.String(), "# labels: "+labels) {
			t.Errorf("no goroutine has the labels %s", labels)
		}
	}
}
