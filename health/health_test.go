package health_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/status"
)

// secret is in errors and objects. No answer may contain it.
const secret = "hunter2"

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// rig is a server with one pod, and a program that is probed.
type rig struct {
	*testing.T
	server *informertest.Server
	pods   *informer.Informer[*corev1.Pod]
	ctx    context.Context
	tasks  sync.WaitGroup
}

// inRig calls test in a bubble. The informer of pods is not running.
func inRig(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		resource := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
		pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: resource.GroupVersionResource})
		if _, err := pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: secret, Name: secret}}); err != nil {
			t.Fatal(err)
		}
		client, err := informer.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := &rig{T: t, server: server, ctx: ctx, pods: informer.New(client, resource, informer.Config[*corev1.Pod]{Logger: quiet})}
		defer r.tasks.Wait()
		defer cancel()
		test(r)
	})
}

// sync runs the informer until the test ends.
func (r *rig) sync() {
	r.tasks.Go(func() { _ = r.pods.Run(r.ctx) })
	if err := r.pods.WaitSynced(r.ctx); err != nil {
		r.Fatal(err)
	}
}

// config checks the informer, and shows everything to everybody.
func (r *rig) config() health.Config {
	return health.Config{
		Informers: []func() informer.InformerStatus{r.pods.Status},
		Authorize: func(*http.Request) bool { return true },
	}
}

// answer sends a request to h.
func (r *rig) answer(h http.Handler, url string) (code int, body string) {
	r.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	if strings.Contains(w.Body.String(), secret) {
		r.Errorf("%s shows a secret:\n%s", url, w.Body)
	}
	return w.Code, w.Body.String()
}

// expect fails the test unless h has passed, or has failed with one check that matches failure.
func (r *rig) expect(h http.Handler, failure string) {
	r.Helper()
	synctest.Wait()
	code, body := r.answer(h, "/?verbose")
	want, match := http.StatusOK, `^(\[\+\].* ok\n)+\w+ check passed\n$`
	if failure != "" {
		want, match = http.StatusInternalServerError, `^(\[\+\].* ok\n)*\[-\]`+failure+`\n(\[\+\].* ok\n)*\w+ check failed\n$`
	}
	if code != want || !regexp.MustCompile(match).MatchString(body) {
		r.Errorf("%d, want %d and a match for %s:\n%s", code, want, match, body)
	}
}

func forbidden() error {
	return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(secret))
}

// Guarantees: R13, Z1, Z2
func TestChecks(t *testing.T) {
	for name, test := range map[string]func(r *rig){
		"not started": func(r *rig) {
			r.expect(health.Ready(r.config()), `informer/v1 pods/synced failed: not synced; state Idle for 0s`)
			r.expect(health.Live(r.config()), "")
		},
		"not synced": func(r *rig) {
			mend := r.server.Inject(informertest.Fault{Resource: "pods", Error: forbidden()})
			r.tasks.Go(func() { _ = r.pods.Run(r.ctx) })
			<-time.After(10 * time.Second)
			r.expect(health.Ready(r.config()), `informer/v1 pods/synced failed: not synced; state Backoff for \d+s, last error \d+s ago: 403 Forbidden`)
			mend()
			<-time.After(time.Minute)
			r.expect(health.Ready(r.config()), "")
		},
		"no server": func(r *rig) {
			r.sync()
			r.server.Stop()
			<-time.After(4 * time.Minute)
			r.expect(health.Ready(r.config()), "")
			<-time.After(2 * time.Minute)
			r.expect(health.Ready(r.config()), `informer/v1 pods/watch failed: no watch for 6m0s, state \w+ for \d+s, last error \d+s ago: .*`)
			r.expect(health.Live(r.config()), "")
			config := r.config()
			config.MaxNoWatch = -1
			r.expect(health.Ready(config), "")
			r.server.Start()
			<-time.After(time.Minute)
			r.expect(health.Ready(r.config()), "")
		},
		"lists allowed, watches forbidden": func(r *rig) {
			r.server.Inject(informertest.Fault{Resource: "pods", Verb: "watch", Times: 1, Error: apierrors.NewBadRequest("no streaming lists")})
			r.server.Inject(informertest.Fault{Resource: "pods", Verb: "watch", Skip: 1, Error: forbidden()})
			r.sync()
			<-time.After(6 * time.Minute)
			r.expect(health.Ready(r.config()), `informer/v1 pods/watch failed: no watch for 6m0s, .*: 403 Forbidden`)
		},
		"a token is revoked": func(r *rig) {
			r.sync()
			<-time.After(time.Hour)
			r.server.Inject(informertest.Fault{Resource: "pods", Error: apierrors.NewUnauthorized(secret)})
			r.server.EndWatches()
			<-time.After(29 * time.Second)
			r.expect(health.Ready(r.config()), "")
			<-time.After(30 * time.Second)
			r.expect(health.Ready(r.config()), `informer/v1 pods/watch failed: no watch for 59s, state \w+ for \d+s, last error \d+s ago: 401 Unauthorized`)
			config := r.config()
			config.MaxNoWatch = -1
			r.expect(health.Ready(config), "")
		},
		"an optional selection is forbidden": func(r *rig) {
			config := r.config()
			status := informer.InformerStatus{
				Resource: informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Selections: []informer.Selection{{Namespace: "a", Optional: true}, {Namespace: "b"}}},
				Synced:   true,
				Reflectors: []status.Reflector{
					{Namespace: "a", State: status.ReflectorBackoff, NoWatchSince: time.Now(), LastError: forbidden()},
					{Namespace: "b", State: status.ReflectorWatching, WatchOpen: true},
				},
			}
			config.Informers = []func() informer.InformerStatus{func() informer.InformerStatus { return status }}
			<-time.After(6 * time.Minute)
			status.Reflectors[1].Since = time.Now()
			r.expect(health.Ready(config), "")
			status.Resource.Selections[0].Optional = false
			r.expect(health.Ready(config), `informer/v1 secrets in a or in b/watch failed: no watch for 6m0s, .*: 403 Forbidden`)
		},
		"stopped": func(r *rig) {
			ctx, cancel := context.WithCancel(r.ctx)
			r.tasks.Go(func() { _ = r.pods.Run(ctx) })
			<-time.After(time.Minute)
			cancel()
			<-time.After(6 * time.Minute)
			r.expect(health.Ready(r.config()), `informer/v1 pods/watch failed: no watch for 6m0s, state Idle for 6m0s`)
		},
		"quiet watch": func(r *rig) {
			r.sync()
			<-time.After(24 * time.Hour)
			r.expect(health.Ready(r.config()), "")
			r.expect(health.Live(r.config()), "")
		},
		"stuck handler": func(r *rig) {
			r.sync()
			r.pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{AddFunc: func(*corev1.Pod, bool) {
				<-time.After(10 * time.Minute)
			}}, informer.SubscriptionConfig[*corev1.Pod]{Name: "slow"})
			<-time.After(5 * time.Minute)
			r.expect(health.Live(r.config()), "")
			<-time.After(time.Minute)
			r.expect(health.Live(r.config()), `informer/v1 pods/handlers failed: handler "slow" in one call for 6m0s, backlog 0`)
			r.expect(health.Ready(r.config()), "")
			config := r.config()
			config.MaxHandlerCall = 7 * time.Minute
			r.expect(health.Live(config), "")
			<-time.After(5 * time.Minute)
			r.expect(health.Live(r.config()), "")
		},
		"ready keys that nobody takes": func(r *rig) {
			queue := informer.NewQueue(informer.QueueConfig[string]{Name: "jobs"})
			config := health.Config{Queues: []func() status.Queue{queue.Status}, Authorize: func(*http.Request) bool { return true }, MaxReady: 5 * time.Minute}
			queue.AddWith(informer.AddOptions{}, "a", secret)
			<-time.After(time.Hour)
			r.expect(health.Live(config), "") // it has no worker yet
			key, err := queue.Get(r.ctx)
			if err != nil {
				r.Fatal(err)
			}
			r.expect(health.Live(config), "") // the other key waits behind this one
			queue.Done(key)
			r.expect(health.Live(config), `queue/jobs failed: a key ready for 1h0m0s, none in work, 1 ready`)
			controller := status.Controller{Name: "web", Running: true, Queue: queue.Status()}
			config.Queues, config.Controllers = nil, []func() status.Controller{func() status.Controller { return controller }}
			r.expect(health.Live(config), `controller/web/queue failed: a key ready for 1h0m0s, none in work, 1 ready`)
			controller.Running = false // not the leader any more
			r.expect(health.Live(config), "")
			controller.Running, config.MaxReady = true, 0
			r.expect(health.Live(config), "")
		},
		"controller that waits for its sources": func(r *rig) {
			r.server.Stop()
			ctl := &informer.Controller[informer.Key]{Name: "web", Logger: quiet, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
				return informer.Result{}, nil
			}, Queue: informer.NewQueue(informer.QueueConfig[informer.Key]{})}
			ctl.Watch(informer.EnqueueObject(r.pods))
			ctl.Queue.Add(informer.Key{Name: secret})
			config := r.config()
			config.Controllers, config.MaxReady = []func() status.Controller{ctl.Status}, time.Minute
			r.tasks.Go(func() { _ = r.pods.Run(r.ctx) })
			r.tasks.Go(func() { _ = ctl.Run(r.ctx) })
			<-time.After(time.Hour)
			r.expect(health.Live(config), "")
			r.server.Start()
			<-time.After(10 * time.Minute)
			r.expect(health.Live(config), "")
		},
		"no resource version": func(r *rig) {
			r.server.Inject(informertest.Fault{Resource: "pods", Verb: "watch", OmitBookmarks: true})
			r.sync()
			config := r.config()
			config.MaxVersionAge = time.Minute
			<-time.After(2 * time.Minute)
			r.expect(health.Ready(config), `informer/v1 pods/watch failed: no resource version for 2m0s, state Watching for 2m0s.*`)
			r.expect(health.Ready(r.config()), "")
			config.MaxVersionAge = 3 * time.Minute
			r.expect(health.Ready(config), "")
		},
		"queue without progress": func(r *rig) {
			queue := informer.NewQueue(informer.QueueConfig[string]{Name: "jobs"})
			config := health.Config{Queues: []func() status.Queue{queue.Status}, Authorize: func(*http.Request) bool { return true }}
			queue.AddWith(informer.AddOptions{}, secret, "b", "c")
			<-time.After(time.Hour)
			r.expect(health.Live(config), "") // keys that only wait
			key, err := queue.Get(r.ctx)
			if err != nil {
				r.Fatal(err)
			}
			<-time.After(6 * time.Minute)
			r.expect(health.Live(config), `queue/jobs failed: a key in work for 6m0s, 1 in work, 2 ready`)
			config.MaxWork = time.Hour
			r.expect(health.Live(config), "")
			config.MaxWork = 0
			queue.Done(key)
			r.expect(health.Live(config), "")
		},
		"stuck reconcile": func(r *rig) {
			r.sync()
			ctl := &informer.Controller[informer.Key]{Name: "web", Logger: quiet, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
				<-time.After(10 * time.Minute)
				return informer.Result{}, nil
			}}
			ctl.Watch(informer.EnqueueObject(r.pods))
			config := r.config()
			config.Controllers = []func() status.Controller{ctl.Status}
			<-time.After(time.Hour)
			r.expect(health.Live(config), "") // not the leader
			r.tasks.Go(func() { _ = ctl.Run(r.ctx) })
			<-time.After(6 * time.Minute)
			r.expect(health.Live(config), `controller/web/queue failed: a key in work for 6m0s, 1 in work, 0 ready`)
			<-time.After(5 * time.Minute)
			r.expect(health.Live(config), "")
		},
		"own check": func(r *rig) {
			var failure error
			config := r.config()
			own := []health.Check{{Name: "webhook", Func: func(*http.Request) error { return failure }}}
			config.LiveChecks = own
			r.expect(health.Live(config), "")
			failure = errors.New("not started")
			r.expect(health.Live(config), `webhook failed: not started`)
			r.sync()
			r.expect(health.Ready(config), "")
			config.ReadyChecks = own
			r.expect(health.Ready(config), `webhook failed: not started`)
		},
		"group": func(r *rig) {
			client, err := informer.NewClient(r.server.Config())
			if err != nil {
				r.Fatal(err)
			}
			group := informer.NewGroup(client)
			config := health.Config{Groups: []func() []informer.InformerStatus{group.Status}, Authorize: func(*http.Request) bool { return true }}
			r.tasks.Go(func() { _ = group.Run(r.ctx) })
			for _, namespace := range []string{"a", "b"} { // the second one joins later
				resource := r.pods.Resource()
				resource.Namespaces = []string{namespace}
				remove := r.server.Inject(informertest.Fault{Resource: "pods", Namespace: namespace, Hang: true})
				if _, _, err := informer.Shared(group, resource, informer.Config[*corev1.Pod]{Logger: quiet}); err != nil {
					r.Fatal(err)
				}
				<-time.After(time.Second)
				r.expect(health.Ready(config), `informer/v1 pods in `+namespace+`/synced failed: not synced; namespace `+namespace+`: state Listing for 1s`)
				remove()
				<-time.After(3 * time.Minute)
				r.expect(health.Ready(config), "")
			}
		},
	} {
		t.Run(name, func(t *testing.T) { inRig(t, test) })
	}
}

// Only callers that Authorize admits see more than the result.
//
// Guarantees: Z3
func TestDetailsAreForAuthorizedCallers(t *testing.T) {
	admit := func(r *http.Request) bool { return r.URL.Query().Get("token") == "right" }
	for _, test := range []struct {
		authorize func(*http.Request) bool
		url       string
		synced    bool
		want      string
	}{
		{nil, "/readyz", true, "ok"},
		{nil, "/readyz?verbose", true, "ok"},
		{nil, "/readyz", false, "readyz check failed\n"},
		{nil, "/readyz?verbose", false, "readyz check failed\n"},
		{admit, "/readyz?verbose&token=wrong", true, "ok"},
		{admit, "/readyz?verbose&token=wrong", false, "readyz check failed\n"},
		{admit, "/readyz?token=right", true, "ok"},
		{admit, "/readyz?verbose&token=right", true, "[+]informer/v1 pods/synced ok\n[+]informer/v1 pods/watch ok\nreadyz check passed\n"},
		{admit, "/readyz?token=right", false, "[-]informer/v1 pods/synced failed: not synced; state Idle for 0s\n[+]informer/v1 pods/watch ok\nreadyz check failed\n"},
	} {
		inRig(t, func(r *rig) {
			config, want := r.config(), http.StatusInternalServerError
			if config.Authorize = test.authorize; test.synced {
				r.sync()
				want = http.StatusOK
			}
			if code, body := r.answer(health.Ready(config), test.url); code != want || body != test.want {
				r.Errorf("%s: %d %q, want %d %q", test.url, code, body, want, test.want)
			}
		})
	}
}

// A program without informers and queues is ready and live.
func TestZeroConfig(t *testing.T) {
	for _, h := range []http.Handler{health.Ready(health.Config{}), health.Live(health.Config{})} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusOK || w.Body.String() != "ok" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
}
