package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
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
)

// TestMain fails the package when a test leaves a goroutine of this module behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leftBehind(); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leftBehind returns the stacks of the goroutines that run this module's code, without the one that asks.
func leftBehind() string {
	var left []string
	for range 100 { // what is about to end gets its chance
		left = left[:0]
		var all bytes.Buffer
		pprof.Lookup("goroutine").WriteTo(&all, 2)
		for _, stack := range strings.Split(all.String(), "\n\n") {
			if strings.Contains(stack, "typedinformer/informer") && !strings.Contains(stack, "leftBehind") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return ""
		}
		runtime.Gosched()
	}
	return strings.Join(left, "\n\n")
}

func TestL1_ThousandCyclesLeaveNothing(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		for i := range 30 {
			w.create(newPod("ns", strconv.Itoa(i), "v=1"))
		}
		client := w.client()
		synctest.Wait()
		before := runtime.NumGoroutine()
		for cycle := range 1000 {
			ctx, cancel := context.WithCancel(w.Context())
			inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
			sub := inf.Subscribe(&recorder[*corev1.Pod]{})
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
		if n := w.pods.Watchers(); n != 0 {
			w.Errorf("%d watches left", n)
		}
	})
}

// Wherever an informer is in its work, cancelling ends it at once, and nothing goes on.
func TestL2_CancelAtEveryPoint(t *testing.T) {
	for _, paged := range []bool{false, true} {
		t.Run(fmt.Sprintf("paged=%v", paged), func(t *testing.T) {
			points := int64(1)
			for !cancelAt(t, paged, points) && !t.Failed() {
				points++
			}
			if points < 50 {
				t.Errorf("just %d points", points)
			}
		})
	}
}

// cancelAt cancels an informer at the nth point of an eventful life, where points are before and after each call into
// the network and within each callback. It returns whether the life had not so many.
func cancelAt(t *testing.T, paged bool, n int64) (whole bool) {
	bubble(t, informertest.Options{}, func(w world) {
		for i := range 3 {
			w.create(newPod("ns", strconv.Itoa(i), "v=1"))
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
		config := quiet[*corev1.Pod]()
		config.PagedList, config.PageSize = paged, 2
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { point(); return p, nil }
		inf := informer.New(w.client(func(c *rest.Config) { c.Wrap(atEachCall(point)) }), informer.Resource{GroupVersionResource: podGVR}, config)
		inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
			Add:    func(*corev1.Pod, bool) { point() },
			Update: func(_, _ *corev1.Pod) { point() },
			Delete: func(*corev1.Pod, bool) { point() },
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
			func() {}, // it lists
			func() { w.relabel("ns", "0", "2"); w.delete("ns", "1") },
			w.server.EndWatches,
			w.server.CloseConnections,
			func() {
				w.server.Inject(informertest.Fault{Match: notStreamed, Times: 1, Error: expired})
				w.server.EndWatches()
				w.create(newPod("ns", "new", "v=1"))
			},
			w.server.Stop,
			func() { w.relabel("ns", "0", "3"); w.server.Start() },
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
			equalsServer(w, inf)
			cancelled = time.Now()
			cancel()
			err = <-ended
		}
		if !errors.Is(err, context.Canceled) || took > time.Second {
			w.Errorf("cancelled at point %d, Run returned %v after %v", n, err, took)
		}
		before := points.Load()
		w.create(newPod("ns", "late", "v=1"))
		<-time.After(time.Minute)
		if after := points.Load(); after != before || w.pods.Watchers() != 0 || inf.Status().Reflectors[0].State != informer.Idle {
			w.Errorf("cancelled at point %d, it goes on: %d points more, %d watches, %+v", n, after-before, w.pods.Watchers(), inf.Status())
		}
	})
	return whole
}

// atEachCall wraps a transport so that do is called before and after each of its calls, and each call of a body.
func atEachCall(do func()) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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

func TestL4_WrongOrder(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		if err := inf.WaitSynced(ended); !errors.Is(err, informer.ErrNotStarted) || !errors.Is(err, context.Canceled) {
			w.Errorf("WaitSynced before Run: %v", err)
		}
		stop := start(w.T, inf)
		if err := inf.Run(w.Context()); !errors.Is(err, informer.ErrRunning) {
			w.Errorf("second Run: %v", err)
		}
		sub := inf.Subscribe(&recorder[*corev1.Pod]{})
		stop()
		if err := inf.Run(w.Context()); !errors.Is(err, informer.ErrRunning) {
			w.Errorf("Run after the end: %v", err)
		}
		sub.Close()
		late := inf.Subscribe(&recorder[*corev1.Pod]{})
		if err := late.WaitSynced(w.Context()); err == nil {
			w.Error("a subscription after the end synced")
		}
		late.Close()
		if err := inf.WaitFor(w.Context(), "1000"); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitFor after the end: %v", err)
		}
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Errorf("it was synced, but: %v", err)
		}
		never := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		if err := never.Run(ended); !errors.Is(err, context.Canceled) {
			w.Errorf("Run of an ended context: %v", err)
		}
		if err := never.WaitSynced(w.Context()); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitSynced after the end: %v", err)
		}
	})
}

// Everything at once, for the race detector: in a bubble, where no failure costs time, and over TCP.
func TestL5_EverythingAtOnce(t *testing.T) {
	t.Run("bubble", func(t *testing.T) {
		bubble(t, informertest.Options{}, func(w world) { everythingAtOnce(w, time.Second, w.server.CloseConnections) })
	})
	t.Run("TCP", func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{})
		defer server.Close()
		pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podGVR})
		var once sync.Once // each failure in a row makes the backoff longer
		everythingAtOnce(world{t, server, pods, t.Context()}, time.Millisecond, func() { once.Do(server.CloseConnections) })
	})
}

// mirror is a handler that keeps what it was given, until the pod called last.
type mirror struct {
	*testing.T
	has   map[informer.Key]*corev1.Pod
	whole chan struct{} // closed at the last pod
	after func()        // of each call
}

func (m *mirror) OnAdd(pod *corev1.Pod, _ bool) { m.OnUpdate(nil, pod) }

func (m *mirror) OnUpdate(old, new *corev1.Pod) {
	if m.has[informer.KeyOf(new)] != old {
		m.Errorf("%s: it was not given what is old", new.Name)
	}
	m.has[informer.KeyOf(new)] = new
	if new.Name == "last" && old != new {
		close(m.whole)
	}
	m.after()
}

func (m *mirror) OnDelete(last *corev1.Pod, _ bool) {
	if m.has[informer.KeyOf(last)] == nil {
		m.Errorf("%s: deleted without having been given", last.Name)
	}
	delete(m.has, informer.KeyOf(last))
	m.after()
}

func everythingAtOnce(w world, resync time.Duration, trouble func()) {
	t, pods := w.T, w.pods
	inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
	var subs []*informer.Subscription
	var mirrors []*mirror
	for _, c := range []informer.SubscriptionConfig[*corev1.Pod]{
		{},
		{Delivery: informer.Every},
		{Delivery: informer.Every, MaxBacklog: 1, Block: true},
		{Resync: resync},
		{OnPanic: func(any) {}},
		{Filter: func(p *corev1.Pod) bool { return p.Labels["v"] == "2" }},
	} {
		m := &mirror{T: t, has: map[informer.Key]*corev1.Pod{}, whole: make(chan struct{}), after: func() {}}
		if c.OnPanic != nil {
			m.after = func() { panic("as every time") }
		}
		mirrors = append(mirrors, m)
		subs = append(subs, inf.SubscribeWith(m, c))
	}
	defer start(t, inf)()

	queue := informer.NewQueue(informer.QueueConfig[informer.Key]{})
	var mu sync.Mutex // protects reconciled
	reconciled := map[informer.Key]string{}
	last := make(chan struct{})
	controller := &informer.Controller[informer.Key]{
		Queue:                   queue,
		Sources:                 []informer.Source{inf.Subscribe(informer.EnqueueObject[*corev1.Pod](queue))},
		MaxConcurrentReconciles: 3,
		Logger:                  quiet[*corev1.Pod]().Logger,
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
				pod, err := pods.Create(newPod(ns, name, "v=1"))
				if err != nil {
					t.Error(err)
					return
				}
				if err := inf.WaitForObject(t.Context(), pod); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					w.relabel(ns, name, "2")
				}
				if i%5 == 0 {
					w.delete(ns, name)
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
					Add:    func(p *corev1.Pod, _ bool) { follower[informer.KeyOf(p)] = p.ResourceVersion },
					Update: func(_, p *corev1.Pod) { follower[informer.KeyOf(p)] = p.ResourceVersion },
					Delete: func(p *corev1.Pod, _ bool) { delete(follower, informer.KeyOf(p)) },
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
	w.create(newPod("ns", "last", "v=2"))
	equalsServer(w, inf)
	for i, m := range mirrors {
		<-m.whole
		subs[i].Close()
		want := map[informer.Key]*corev1.Pod{}
		for pod := range inf.Store().All() {
			if i != len(mirrors)-1 || pod.Labels["v"] == "2" {
				want[informer.KeyOf(pod)] = pod
			}
		}
		if !maps.Equal(m.has, want) {
			t.Errorf("handler %d has %d objects, the store %d", i, len(m.has), len(want))
		}
	}
	<-last
	if err := queue.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	for pod := range inf.Store().All() {
		if rv := reconciled[informer.KeyOf(pod)]; rv != pod.ResourceVersion {
			t.Errorf("%s is at %s, and was reconciled at %q", pod.Name, pod.ResourceVersion, rv)
		}
	}
	if len(reconciled) != inf.Store().Len() {
		t.Errorf("%d objects by reconciling, %d in the store", len(reconciled), inf.Store().Len())
	}
}

func TestAwait(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		key := informer.Key{Namespace: "ns", Name: "a"}
		running := make(chan *corev1.Pod)
		gone := make(chan error)
		go func() {
			pod, err := inf.Await(w.Context(), key, func(p *corev1.Pod) bool { return p != nil && p.Labels["v"] == "3" })
			if err != nil {
				w.Error(err)
			}
			running <- pod
			_, err = inf.Await(w.Context(), key, func(p *corev1.Pod) bool { return p == nil })
			gone <- err
		}()
		defer start(w.T, inf)()
		w.create(newPod("ns", "a", "v=1"))
		synctest.Wait()
		w.relabel("ns", "a", "2")
		synctest.Wait()
		w.relabel("ns", "a", "3")
		if pod := <-running; pod.Labels["v"] != "3" {
			w.Errorf("returned %v", pod)
		}
		w.delete("ns", "a")
		if err := <-gone; err != nil {
			w.Error(err)
		}
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, errors.New("enough"))
		defer cancel()
		if _, err := inf.Await(ctx, key, func(p *corev1.Pod) bool { return p != nil }); err == nil || err.Error() != "await pods ns/a: enough" {
			w.Errorf("Await: %v", err)
		}
	})
}

func TestResource_Validate(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		for want, r := range map[string]informer.Resource{
			"Resource.Resource is empty":                       {},
			"Resource.Version of pods is empty":                {GroupVersionResource: podGVR.GroupResource().WithVersion("")},
			`"../../secrets"`:                                  {GroupVersionResource: corev1.SchemeGroupVersion.WithResource("../../secrets")},
			"Resource.Namespaces[1] of pods is empty":          {GroupVersionResource: podGVR, Namespaces: []string{"a", ""}},
			`Resource.Namespaces[1] of pods repeats "a"`:       {GroupVersionResource: podGVR, Namespaces: []string{"a", "a"}},
			"Resource.LabelSelector of pods":                   {GroupVersionResource: podGVR, LabelSelector: "a in"},
			"Resource.FieldSelector of pods: invalid selector": {GroupVersionResource: podGVR, FieldSelector: "a"},
		} {
			inf := informer.New(w.client(), r, informer.Config[*corev1.Pod]{})
			if err := inf.Run(w.Context()); err == nil || !strings.Contains(err.Error(), want) {
				w.Errorf("Run: %v, want %s", err, want)
			}
		}
	})
}

// What is logged and reported holds no credentials.
func TestClient_NoCredentialInErrors(t *testing.T) {
	const secret = "s3cr3t"
	bubble(t, informertest.Options{}, func(w world) {
		var logged bytes.Buffer
		client := w.client(func(c *rest.Config) {
			c.BearerToken = secret
			c.Host = "http://user:" + secret + "@in-memory"
		})
		config := informer.Config[*corev1.Pod]{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
		stop := start(w.T, inf)
		w.server.Close()
		<-time.After(time.Hour)
		stop()
		text := fmt.Sprintf("%s %+v %v", logged.String(), inf.Status(), inf.Status().Reflectors[0].LastError)
		if !strings.Contains(text, "/api/v1/pods") || strings.Contains(text, secret) {
			w.Errorf("logged and reported: %s", text)
		}
	})
}

// Run waits for the handler's call that is under way.
func TestL1_RunWaitsForTheHandler(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		w.create(newPod("ns", "a"))
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		gate := make(chan struct{})
		inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{Add: func(*corev1.Pod, bool) { <-gate }})
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(ctx) }()
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
