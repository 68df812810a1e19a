package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Cancelling at any moment of a list, a watch or a delivery ends Run at once.
func TestL2_CancelAtAnyMoment(t *testing.T) {
	for _, paged := range []bool{false, true} {
		bubble(t, informertest.Options{}, func(w world) {
			for i := range 50 {
				w.create(newPod("ns", strconv.Itoa(i), "v=1"))
			}
			for reads := range 40 { // cancel at the nth read from the network
				ctx, cancel := context.WithCancel(w.Context())
				n := 0
				client := w.client(func(c *rest.Config) {
					c.Wrap(onRead(func() {
						if n++; n == reads {
							cancel()
						}
					}))
				})
				config := quiet[*corev1.Pod]()
				config.PagedList, config.PageSize = paged, 5
				inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
				blocked := make(chan struct{})
				inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{Add: func(*corev1.Pod, bool) { <-blocked }})
				ended := make(chan error, 1)
				go func() { ended <- inf.Run(ctx) }()
				synctest.Wait()
				cancel()
				began := time.Now()
				close(blocked)
				if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
					w.Errorf("Run: %v after %v", err, time.Since(began))
				}
			}
		})
	}
}

// onRead wraps a transport so that do is called before each read of a body.
func onRead(do func()) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			do()
			resp, err := next.RoundTrip(r)
			if err == nil {
				resp.Body = readHook{resp.Body, do}
			}
			return resp, err
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type readHook struct {
	io.ReadCloser
	do func()
}

func (h readHook) Read(b []byte) (int, error) {
	h.do()
	return h.ReadCloser.Read(b)
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

// Everything at once, for the race detector.
func TestL5_EverythingAtOnce(t *testing.T) {
	bubble(t, informertest.Options{}, everythingAtOnce)
}

func everythingAtOnce(w world) {
	t, server, pods := w.T, w.server, w.pods
	inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
	defer start(t, inf)()
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
					server.CloseConnections()
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
	equalsServer(w, inf)
}

func TestC9_WaitForAndWaitForObject(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		w.create(newPod("a", "x", "app=yes"))
		maps := informertest.Register[*corev1.ConfigMap](w.server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")})
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR, Namespaces: []string{"a", "b"}, LabelSelector: "app=yes"}, quiet[*corev1.Pod]())
		defer start(w.T, inf)()
		ctx := w.Context()
		for name, obj := range map[string]*corev1.Pod{
			"other namespace": w.create(newPod("c", "x", "app=yes")),
			"other label":     w.create(newPod("a", "y", "app=no")),
			"followed":        w.create(newPod("b", "z", "app=yes")),
		} {
			began := time.Now()
			if err := inf.WaitForObject(ctx, obj); err != nil || time.Since(began) != 0 {
				w.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
		if _, ok := inf.Store().Get(informer.Key{Namespace: "b", Name: "z"}); !ok {
			w.Error("it is not there after the wait")
		}
		updated := w.relabel("b", "z", "2")
		w.delete("b", "z")
		if err := inf.WaitForObject(ctx, updated); err != nil {
			w.Errorf("gone at a newer version: %v", err)
		}
		// A bookmark moves the store over changes of other resources.
		if _, err := maps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}}); err != nil {
			w.Fatal(err)
		}
		began := time.Now()
		if err := inf.WaitFor(ctx, w.server.RV()); err != nil || time.Since(began) > 2*time.Minute {
			w.Errorf("WaitFor: %v after %v", err, time.Since(began))
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := inf.WaitFor(short, "1000"); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("WaitFor the future: %v", err)
		}
		for _, rv := range []string{"", "0", "x", "01"} {
			if err := inf.WaitFor(ctx, rv); err == nil {
				w.Errorf("WaitFor(%q) returned nil", rv)
			}
		}
	})
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

func TestSelectorsAndNamespaces(t *testing.T) {
	forEachMode(t, func(w world, client *informer.Client, config informer.Config[*corev1.Pod]) {
		other := newPod("a", "elsewhere", "app=x", "v=1")
		other.Spec.NodeName = "n2"
		w.create(newPod("a", "x", "app=x", "v=1"), newPod("b", "x", "app=x", "v=1"), newPod("c", "x", "app=x", "v=1"), newPod("a", "y", "app=y", "v=1"), other)
		inf := informer.New(client, informer.Resource{
			GroupVersionResource: podGVR,
			Namespaces:           []string{"b", "a"},
			LabelSelector:        "app in (x,z)",
			FieldSelector:        "spec.nodeName=n1",
		}, config)
		rec := &recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer start(w.T, inf)()
		synctest.Wait()
		if len(rec.lines) != 2 || inf.Store().Len() != 2 {
			w.Errorf("told %q", rec.lines)
		}
		rec.lines = nil
		left, _ := w.pods.Get(informer.Key{Namespace: "a", Name: "x"})
		left = left.DeepCopy()
		left.Labels["app"] = "w"
		if _, err := w.pods.Update(left); err != nil {
			w.Fatal(err)
		}
		rec.want(w.T, "delete a/x 1 final=true")
		entered, _ := w.pods.Get(informer.Key{Namespace: "a", Name: "y"})
		entered = entered.DeepCopy()
		entered.Labels["app"] = "z"
		if _, err := w.pods.Update(entered); err != nil {
			w.Fatal(err)
		}
		rec.want(w.T, "add a/y 1 initial=false")
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
