package informerprom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informerprom"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// program is a program with a group of one informer, and a controller that fails once for its pod.
type program struct {
	*testing.T
	server     *informertest.Server
	pods       *informer.Informer[*corev1.Pod]
	release    func() // releases pods
	controller *informer.Controller[informer.Key]
	client     *informer.Client
	metrics    *informerprom.Collector
	registry   *prometheus.Registry
	ctx        context.Context // ends with the test
	tasks      *sync.WaitGroup // have ended then
}

// inProgram calls test in a bubble, while the program runs and is idle.
func inProgram(t *testing.T, test func(p *program)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		collection := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: pods})
		if _, err := collection.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "secret", Name: "secret"}}); err != nil {
			t.Fatal(err)
		}
		client, err := informer.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		p := &program{T: t, server: server, client: client}
		group := informer.NewGroup(client)
		p.pods, p.release, err = informer.Shared(group, informer.Resource{GroupVersionResource: pods}, informer.Config[*corev1.Pod]{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		p.controller = &informer.Controller[informer.Key]{Name: "site", Logger: quiet, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
			if calls++; calls == 1 {
				return informer.Result{}, errors.New("failed")
			}
			return informer.Result{}, nil
		}}
		p.controller.Watch(informer.EnqueueObject(p.pods))
		p.metrics = informerprom.New(informerprom.Config{
			Groups:      []func() []informer.InformerStatus{group.Status},
			Sets:        map[string]func() []informer.MemberStatus{"pods": fixed([]informer.MemberStatus{{Name: "north"}})},
			Controllers: []func() status.Controller{p.controller.Status},
			Clients:     []func() status.Client{client.Status},
		})
		p.registry = registryOf(p.metrics)
		ctx, cancel := context.WithCancel(t.Context())
		var tasks sync.WaitGroup
		defer tasks.Wait()
		defer cancel()
		p.ctx, p.tasks = ctx, &tasks
		tasks.Go(func() { _ = group.Run(ctx) })
		tasks.Go(func() { _ = p.controller.Run(ctx) })
		p.rest(time.Minute)
		test(p)
	})
}

// join adds a replica to the program, which soon has all slots, an elector, which soon leads, and an informer of its
// pods that saves its state, with a durable subscription. It audits the other informer.
func (p *program) join() *shard.Replica {
	p.Helper()
	informertest.Register[*coordinationv1.Lease](p.server, informertest.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases")})
	client, err := informer.NewClient(p.server.Config())
	if err != nil {
		p.Fatal(err)
	}
	replica, err := shard.New(client, shard.Config{Namespace: "kube-system", Name: "sites", Identity: "secret", Slots: 16, Logger: quiet})
	if err != nil {
		p.Fatal(err)
	}
	saved := informer.New(client, informer.Resource{GroupVersionResource: pods}, informer.Config[*corev1.Pod]{
		Logger: quiet, WarmStart: informer.WarmStartConfig{Storage: informer.WarmStartDir(p.TempDir()), Interval: time.Minute},
	})
	saved.Subscribe(informer.HandlerFuncs[*corev1.Pod]{}, informer.SubscriptionConfig[*corev1.Pod]{
		Name: "audit", Durable: informer.DurableConfig{Name: "audit", Storage: informer.WarmStartDir(p.TempDir())},
	})
	controller := &informer.Controller[shard.Key]{Name: "shared", Logger: quiet, Reconcile: func(context.Context, shard.Key) (informer.Result, error) {
		return informer.Result{}, nil
	}}
	replica.Follow(saved)
	shard.Control(replica, controller, shard.ByUID)
	controller.Watch(shard.EnqueueObject(saved))
	p.metrics.Add(informerprom.Config{
		Name:        "shared",
		Informers:   []func() informer.InformerStatus{saved.Status},
		Controllers: []func() status.Controller{controller.Status},
		Replicas:    []func() shard.Status{replica.Status},
	})
	elector, err := leader.New(client, leader.Config{Namespace: "kube-system", Name: "site-controller", Identity: "secret", Logger: quiet})
	if err != nil {
		p.Fatal(err)
	}
	p.metrics.Add(informerprom.Config{Electors: []func() leader.Status{elector.Status}})
	p.tasks.Go(func() { _ = elector.Run(p.ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) })
	p.tasks.Go(func() {
		_ = replica.Run(p.ctx, func(ctx context.Context) error {
			p.tasks.Go(func() { _ = saved.Run(ctx) })
			return controller.Run(ctx)
		})
	})
	p.rest(time.Minute)
	if _, err := p.pods.Audit(p.ctx); err != nil {
		p.Fatal(err)
	}
	return replica
}

// rest lets d pass, and then waits until the program is idle.
func (p *program) rest(d time.Duration) {
	<-testkit.After(d)
	synctest.Wait()
}

// scrape returns the page that Prometheus reads.
func (p *program) scrape() string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		p.Fatalf("%d %s", w.Code, w.Body)
	}
	if strings.Contains(w.Body.String(), "secret") {
		p.Errorf("the page has the name of an object:\n%s", w.Body)
	}
	return w.Body.String()
}

// has fails the test unless the page contains each line, or does not contain it if it begins with "no ".
func (p *program) has(lines ...string) {
	p.Helper()
	page := "\n" + p.scrape()
	for _, line := range lines {
		unwanted, no := strings.CutPrefix(line, "no ")
		if no && strings.Contains(page, "\n"+unwanted) {
			p.Errorf("the page has %s", unwanted)
		}
		if !no && !strings.Contains(page, "\n"+line+"\n") {
			p.Errorf("the page lacks %s", line)
		}
	}
}

// The page shows what a program does.
func TestPageOfAProgram(t *testing.T) {
	inProgram(t, func(p *program) {
		p.has(
			`informer_synced{group="",name="",resource="pods",version="v1"} 1`,
			`informer_objects{group="",name="",resource="pods",version="v1"} 1`,
			`informer_watch_open{group="",name="",resource="pods",version="v1",watch_namespace=""} 1`,
			`informer_reflector_state{group="",name="",resource="pods",state="Watching",version="v1",watch_namespace=""} 1`,
			`reflector_lists_total{name="pods.v1.",watch_namespace=""} 1`,
			`workqueue_adds_total{controller="site",name="site"} 2`,
			`workqueue_retries_total{controller="site",name="site"} 1`,
			`controller_runtime_reconcile_total{controller="site",result="success"} 1`,
			`controller_runtime_reconcile_total{controller="site",result="error"} 1`,
			`informer_controller_running{controller="site"} 1`,
			`controller_runtime_reconcile_time_seconds_count{controller="site"} 2`,
			`workqueue_queue_duration_seconds_count{controller="site",name="site"} 2`,
			`workqueue_work_duration_seconds_bucket{controller="site",name="site",le="+Inf"} 2`,
			`informer_lists_total{group="",name="",reason="first",resource="pods",version="v1",watch_namespace=""} 1`,
			`rest_client_requests_total{code="200",host="`+p.client.Status().Host+`",method="GET"} 1`,
			`rest_client_request_duration_seconds_count{host="`+p.client.Status().Host+`",verb="GET"} 1`,
			`informer_retry_seconds{group="",name="",resource="pods",version="v1",watch_namespace=""} 0`,
		)
		p.has(
			`informer_audits_total{group="",name="",resource="pods",result="equal",version="v1"} 0`,
			`no informer_audit_last_equal_timestamp_seconds{`,
		)
		if _, err := p.pods.Audit(p.ctx); err != nil {
			p.Fatal(err)
		}
		p.has(
			`informer_audits_total{group="",name="",resource="pods",result="equal",version="v1"} 1`,
			`informer_audits_total{group="",name="",resource="pods",result="different",version="v1"} 0`,
			`informer_audits_total{group="",name="",resource="pods",result="failed",version="v1"} 0`,
			`informer_audit_differences_total{group="",name="",resource="pods",version="v1"} 0`,
			fmt.Sprintf(`informer_audit_last_equal_timestamp_seconds{group="",name="",resource="pods",version="v1"} %v`, float64(time.Now().Unix())),
		)
		p.server.Stop()
		p.rest(4 * time.Minute)
		p.has(
			`informer_synced{group="",name="",resource="pods",version="v1"} 1`,
			`informer_watch_open{group="",name="",resource="pods",version="v1",watch_namespace=""} 0`,
			`informer_no_watch_seconds{group="",name="",resource="pods",version="v1",watch_namespace=""} 240`,
		)
	})
}

// The series of an informer end when its last user releases it, and those of a subscription when it is closed.
func TestSeriesEnd(t *testing.T) {
	inProgram(t, func(p *program) {
		s := p.pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{}, informer.SubscriptionConfig[*corev1.Pod]{Name: "web"})
		p.rest(0)
		p.has(`informer_subscription_synced{group="",handler="web",name="",resource="pods",version="v1"} 1`)
		s.Close()
		<-s.Done()
		p.has(`no informer_subscription_synced{group="",handler="web"`, `informer_synced{group="",name="",resource="pods",version="v1"} 1`)
		p.release()
		p.has("no informer_synced", "no reflector_", "no informer_subscription", `informer_controller_running{controller="site"} 1`)
	})
}

// The page shows the slots of a replica, its lease, and the saved states of its informer.
func TestPageOfAReplica(t *testing.T) {
	inProgram(t, func(p *program) {
		p.has("no informer_shard_", "no informer_warm_start_")
		p.join()
		p.has(
			`informer_shard_state{shards="kube-system/sites",state="Member"} 1`,
			`informer_shard_state{shards="kube-system/sites",state="Leaving"} 0`,
			`informer_shard_replicas{shards="kube-system/sites"} 1`,
			`leader_election_master_status{name="site-controller"} 1`,
			`informer_shard_slots{shards="kube-system/sites"} 16`,
			`informer_shard_owned_slots{shards="kube-system/sites"} 16`,
			`informer_shard_gained_slots_total{shards="kube-system/sites"} 16`,
			`informer_shard_leases_lost_total{shards="kube-system/sites"} 0`,
			`no informer_shard_last_error_timestamp_seconds`,
			`informer_queue_awaited_keys{controller="shared",name="shared"} 0`,
			`informer_warm_start_loaded{group="",name="shared",resource="pods",version="v1",watch_namespace=""} 0`,
			`informer_warm_start_saves_total{group="",name="shared",resource="pods",version="v1",watch_namespace=""} 1`,
			`informer_warm_start_save_failed{group="",name="shared",resource="pods",version="v1",watch_namespace=""} 0`,
			`informer_durable_acknowledged{group="",handler="audit",name="shared",resource="pods",version="v1"} 1`,
			`informer_durable_save_failed{group="",handler="audit",name="shared",resource="pods",version="v1"} 0`,
		)
		p.server.Stop()
		p.rest(time.Minute)
		p.has(
			`informer_shard_owned_slots{shards="kube-system/sites"} 0`,
			`informer_shard_lost_slots_total{shards="kube-system/sites"} 16`,
			`informer_shard_leases_lost_total{shards="kube-system/sites"} 1`,
		)
	})
}
