package informerprom_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informerprom"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

var (
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// fixed returns a function that returns v.
func fixed[T any](v T) func() T { return func() T { return v } }

// registryOf returns a registry that contains only c, and checks its metrics.
func registryOf(c prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	return registry
}

// seriesOf returns the number of series of a registry.
func seriesOf(t *testing.T, registry prometheus.Gatherer) int {
	t.Helper()
	n, err := testutil.GatherAndCount(registry)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// expect fails the test unless the metrics with these names are those of the page.
func expect(t *testing.T, registry prometheus.Gatherer, page string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(page), names...); err != nil {
		t.Error(err)
	}
}

// durations returns a histogram with n times a millisecond, a minute, and an hour, which exceeds all buckets.
func durations(n uint64) (d status.Durations) {
	for i, bound := range status.DurationBounds() {
		if bound == 1024*time.Microsecond || bound == 1048576*64*time.Microsecond {
			d.Buckets[i] = n
		}
	}
	d.Count, d.Sum, d.Max = 3*n, time.Duration(n)*(time.Millisecond+time.Minute+time.Hour), time.Hour
	return d
}

// everything is a configuration in which each metric has a value of its own.
func everything() informerprom.Config {
	return informerprom.Config{
		Name: "edge",
		Informers: []func() informer.InformerStatus{fixed(informer.InformerStatus{
			Resource:        informer.Resource{GroupVersionResource: deployments, Namespaces: []string{"a", "b"}},
			Synced:          true,
			ResourceVersion: "9123456789012345678", // more digits than a float64 holds
			Objects:         11,
			Memory:          14,
			Missing:         15,
			Queued:          12,
			Blocked:         13,
			Audit:           status.Audit{Equal: 16, Different: 17, Failed: 18, Differ: 19, LastEqual: time.UnixMilli(7_000_500), LastError: errors.New("secret")},
			Reflectors: []status.Reflector{
				{Namespace: "a", State: status.ReflectorWatching, WatchOpen: true, ResourceVersion: "9123456789012345679", Restored: 23, DecodeErrors: 24, Stale: 25,
					List:                status.List{Objects: 26, Bytes: 220, Total: 221, Left: 224500 * time.Millisecond, Forecast: status.Forecast{Loaded: 222, Whole: 223, Exceeded: true}},
					ResourceVersionTime: time.Now().Add(-27500 * time.Millisecond),
					Traffic: status.ReflectorTraffic{Lists: 21, Watches: 22, Bytes: 28, Events: 29, Late: 30, SharedKeys: 33, Modified: 35, CutAfter: 34500 * time.Millisecond,
						ListsBy:   map[status.Reason]int{status.ReasonFirst: 201, status.ReasonEnded: 202, status.ReasonFailed: 203, status.ReasonExpired: 204, status.ReasonRestored: 205, status.ReasonBehind: 206, status.ReasonRefused: 207, status.ReasonAbsent: 208, status.ReasonUnclear: 209, status.ReasonShard: 210, status.ReasonAudit: 218, status.ReasonPolled: 219},
						WatchesBy: map[status.Reason]int{status.ReasonFirst: 211, status.ReasonEnded: 212, status.ReasonFailed: 213, status.ReasonWarmStart: 214}},
					WarmStart: status.WarmStart{Loaded: true, Saves: 215, SavedAt: time.UnixMilli(2_000_500), SavedBytes: 216, SaveTime: 217500 * time.Millisecond}},
				{Namespace: "b", State: status.ReflectorBackoff, NoWatchSince: time.Now().Add(-90 * time.Second), LastError: errors.New("failed"), LastErrorTime: time.UnixMilli(1_000_500), Failures: 31, RetryAt: time.Now().Add(32500 * time.Millisecond),
					WarmStart: status.WarmStart{SaveError: errors.New("failed")}},
			},
			Handlers: []status.Subscription{{Name: "web", Backlog: 41, Busy: 1500 * time.Millisecond, Synced: true, Blocking: true,
				Oldest: 4250 * time.Millisecond, Delays: durations(42), Calls: durations(43),
				Durable: &status.Durable{Acknowledged: 401, Unknown: 402, Saves: 403, SavedAt: time.UnixMilli(8_000_500), StoredBytes: 404, SaveTime: 405500 * time.Millisecond, SaveError: errors.New("secret")}}},
		})},
		Groups: []func() []informer.InformerStatus{fixed([]informer.InformerStatus{{Resource: informer.Resource{GroupVersionResource: pods}}})},
		Sets: map[string]func() []informer.MemberStatus{"clusters": fixed([]informer.MemberStatus{
			{Name: "north", State: status.MemberSynced, Informer: informer.InformerStatus{Objects: 301, Memory: 302}},
			{Name: "south", State: status.MemberUnsynced, Informer: informer.InformerStatus{Objects: 10, Memory: 20,
				Reflectors: []status.Reflector{{Failures: 1, NoWatchSince: time.Now().Add(-303500 * time.Millisecond)}}}},
			{Name: "east", State: status.MemberSynced, Informer: informer.InformerStatus{Reflectors: []status.Reflector{{Failures: 1}, {NoWatchSince: time.Now()}}}},
			{Name: "west", Err: errors.New("secret")},
			{Name: "new", State: status.MemberStarting},
			{Name: "well", State: status.MemberSynced, Informer: informer.InformerStatus{Reflectors: []status.Reflector{
				{Failures: 3, State: status.ReflectorAbsent, NoWatchSince: time.Now().Add(-time.Hour)}, {Failures: 1, WatchOpen: true}}}},
		})},
		Controllers: []func() status.Controller{fixed(status.Controller{
			Name: "site", Running: true, Workers: 51, Active: 52, Succeeded: 53, RequeuedAfter: 54, BackedOff: 55, Failed: 56, Terminal: 57, Panicked: 58, Reconciles: durations(59),
			OwnWrites: status.OwnWrites{Waiting: 103, Expired: 104, Waits: durations(105)},
			Failing:   50, FailingKeys: []status.FailingKey{{Key: "secret"}}, LastSuccess: time.UnixMilli(4_000_500), LastError: errors.New("secret"), LastErrorTime: time.UnixMilli(5_000_500), LastErrorKey: "secret",
			Queue: status.Queue{
				Name:    "sites",
				Depth:   status.QueueDepth{High: 61, Normal: 62, Low: 63},
				Delayed: 64, InWork: 65, Adds: 66, Retries: 67, Refused: 68, Awaited: 69, Foreign: 70, LongestRunning: 2500 * time.Millisecond, Unfinished: 3500 * time.Millisecond,
				LongestReady: 6900 * time.Millisecond, Waits: durations(691), Works: durations(692),
			},
		})},
		Queues: []func() status.Queue{fixed(status.Queue{Name: "jobs", Adds: 71})},
		Clients: []func() status.Client{fixed(status.Client{
			Host:      "10.0.0.1:443",
			Requests:  map[status.RequestKind]uint64{{Method: "GET", Code: 200}: 81, {Method: "GET", Code: 404}: 82, {Method: "PUT"}: 83},
			Latencies: map[string]status.Durations{"GET": durations(84), "PUT": durations(85)},
			Throttled: durations(86),
		})},
		Electors: []func() leader.Status{fixed(leader.Status{
			Lease: "secret/site-controller", Identity: "secret", Holder: "secret", State: leader.Leading, Renewed: time.Now().Add(-1500 * time.Millisecond),
			Terms: 87, Lost: 86, LastError: errors.New("failed"), LastErrorTime: time.UnixMilli(6_000_500),
		})},
		Replicas: []func() shard.Status{fixed(shard.Status{
			Group: "kube-system/sites", Identity: "secret", State: shard.Member, Replicas: make([]string, 91), Slots: 92, Planned: 93, Held: 94, Claimed: 95, Owned: 96, Yielded: 102, Overdue: make([]shard.Call, 3),
			Gained: 97, Released: 98, Lost: 99, LeasesLost: 100, Renewed: time.Now().Add(-101500 * time.Millisecond), LastError: errors.New("failed"), LastErrorTime: time.UnixMilli(3_000_500),
		})},
	}
}

// Every metric has the value of its field.
func TestValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still
		page, err := os.ReadFile("testdata/page.txt")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, registryOf(informerprom.New(everything())), string(page))
	})
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(registryOf(informerprom.New(everything())))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A set of any size has few series, and names the first members that are not ready.
func TestSetsHaveFewSeries(t *testing.T) {
	count := func(ready, unready int) int {
		var members []informer.MemberStatus
		for i := range ready + unready {
			m := informer.MemberStatus{Name: fmt.Sprint("member-", i), State: status.MemberSynced}
			if i >= ready {
				m.State = status.MemberUnsynced
			}
			m.Informer.Resource.Resource = m.Name
			members = append(members, m)
		}
		c := informerprom.New(informerprom.Config{Sets: map[string]func() []informer.MemberStatus{"all": fixed(members)}})
		return seriesOf(t, registryOf(c))
	}
	none := count(1000, 0)
	if none > 10 {
		t.Errorf("%d series for 1,000 members", none)
	}
	if n := count(0, 1000); n != none+20 {
		t.Errorf("%d series for 1,000 members that are not synced, want %d", n, none+20)
	}
}

// The series of a removed configuration end, and the others stay.
func TestRemoveEndsSeries(t *testing.T) {
	c := informerprom.New(informerprom.Config{Queues: []func() status.Queue{fixed(status.Queue{Name: "jobs"})}})
	registry := registryOf(c)
	before := seriesOf(t, registry)
	remove := c.Add(everything())
	again := c.Add(everything())
	if n := seriesOf(t, registry); n <= before {
		t.Errorf("%d series, want more than %d", n, before)
	}
	for range 2 { // the second call does nothing
		remove()
	}
	if n := seriesOf(t, registry); n <= before {
		t.Errorf("%d series: the other configuration has been removed, too", n)
	}
	again()
	if n := seriesOf(t, registry); n != before || n == 0 {
		t.Errorf("%d series, want %d", n, before)
	}
}

// Scrapes may run while configurations come and go.
func TestConcurrentScrapes(t *testing.T) {
	c := informerprom.New(informerprom.Config{})
	registry := registryOf(c)
	var tasks sync.WaitGroup
	for range 4 {
		tasks.Go(func() {
			for range 20 {
				remove := c.Add(everything())
				if _, err := registry.Gather(); err != nil {
					t.Error(err)
				}
				remove()
			}
		})
	}
	tasks.Wait()
	if n := seriesOf(t, registry); n != 0 {
		t.Errorf("%d series", n)
	}
}

// histogramLines returns the lines of the page for durations(n).
func histogramLines(name, labels string, n int) (lines string) {
	for _, bound := range status.DurationBounds() {
		upTo := 0
		if bound > time.Millisecond {
			upTo += n
		}
		if bound > time.Minute {
			upTo += n
		}
		lines += fmt.Sprintf("%s_bucket{%s,le=\"%v\"} %d\n", name, labels, bound.Seconds(), upTo)
	}
	lines += fmt.Sprintf("%s_bucket{%s,le=\"+Inf\"} %d\n", name, labels, 3*n)
	lines += fmt.Sprintf("%s_sum{%s} %v\n", name, labels, float64(n)*(0.001+60+3600))
	return lines + fmt.Sprintf("%s_count{%s} %d\n", name, labels, 3*n)
}

// Sources with equal labels share a series.
func TestEqualLabels(t *testing.T) {
	behind := everything()
	inf := behind.Informers[0]()
	inf.Synced, inf.Objects, inf.ResourceVersion = false, 100, "5"
	inf.Reflectors = []status.Reflector{{Namespace: "a", State: status.ReflectorWatching, WatchOpen: true, Traffic: status.ReflectorTraffic{Lists: 100}, Failures: 3}}
	inf.Handlers = []status.Subscription{{Name: "web", Backlog: 100, Busy: time.Second}, {Name: "web", Busy: 2 * time.Second}}
	behind.Informers[0] = fixed(inf)
	behind.Queues = []func() status.Queue{fixed(status.Queue{Name: "jobs", Adds: 71, Waits: durations(1)}), fixed(status.Queue{Name: "jobs", Waits: durations(2)})}
	c := informerprom.New(everything())
	c.Add(behind)
	registry := registryOf(c)
	for range 2 { // the second scrape reuses the series of the first
		expect(t, registry, sharedPage(), "rest_client_requests_total", "workqueue_queue_duration_seconds", "informer_objects", "informer_synced", "informer_store_resource_version", "informer_subscriptions", "informer_subscription_backlog",
			"informer_subscription_busy_seconds", "informer_reflector_failures", "reflector_lists_total", "workqueue_adds_total")
	}
}

// Selections of one namespace have series of their own.
func TestSelections(t *testing.T) {
	registry := registryOf(informerprom.New(informerprom.Config{Informers: []func() informer.InformerStatus{fixed(informer.InformerStatus{
		Resource:   informer.Resource{GroupVersionResource: pods, Selections: []informer.Selection{{Namespace: "a"}, {Namespace: "a", LabelSelector: "app=web"}, {FieldSelector: "spec.nodeName=n"}}},
		Reflectors: []status.Reflector{{Namespace: "a", Failures: 1}, {Namespace: "a", Failures: 2}, {Failures: 3}, {Namespace: "b", Failures: 4}},
	})}}))
	expect(t, registry, `
# HELP informer_reflector_failures Number of consecutive failures, which determines the backoff.
# TYPE informer_reflector_failures gauge
informer_reflector_failures{group="",name="",resource="pods",version="v1",watch_namespace="a"} 1
informer_reflector_failures{group="",name="",resource="pods",version="v1",watch_namespace="a with labels app=web"} 2
informer_reflector_failures{group="",name="",resource="pods",version="v1",watch_namespace="with fields spec.nodeName=n"} 3
informer_reflector_failures{group="",name="",resource="pods",version="v1",watch_namespace="b (removed, 3)"} 4
`, "informer_reflector_failures")
}

// sharedPage returns the expected page of TestEqualLabels.
func sharedPage() string {
	return `
# HELP informer_objects Number of objects in the store.
# TYPE informer_objects gauge
informer_objects{group="apps",name="edge",resource="deployments",version="v1"} 111
informer_objects{group="",name="edge",resource="pods",version="v1"} 0
# HELP informer_synced Whether the store has received the whole collection: 1 or 0.
# TYPE informer_synced gauge
informer_synced{group="apps",name="edge",resource="deployments",version="v1"} 0
informer_synced{group="",name="edge",resource="pods",version="v1"} 0
# HELP informer_store_resource_version The 15 least significant digits of the resource version of the store.
# TYPE informer_store_resource_version gauge
informer_store_resource_version{group="apps",name="edge",resource="deployments",version="v1"} 5
informer_store_resource_version{group="",name="edge",resource="pods",version="v1"} 0
# HELP informer_subscriptions Number of open subscriptions.
# TYPE informer_subscriptions gauge
informer_subscriptions{group="apps",handler="web",name="edge",resource="deployments",version="v1"} 3
# HELP informer_subscription_backlog Number of keys or changes that wait for the handler.
# TYPE informer_subscription_backlog gauge
informer_subscription_backlog{group="apps",handler="web",name="edge",resource="deployments",version="v1"} 141
# HELP informer_subscription_busy_seconds How long the current call of the handler has taken so far.
# TYPE informer_subscription_busy_seconds gauge
informer_subscription_busy_seconds{group="apps",handler="web",name="edge",resource="deployments",version="v1"} 2
# HELP informer_reflector_failures Number of consecutive failures, which determines the backoff.
# TYPE informer_reflector_failures gauge
informer_reflector_failures{group="apps",name="edge",resource="deployments",version="v1",watch_namespace="a"} 3
informer_reflector_failures{group="apps",name="edge",resource="deployments",version="v1",watch_namespace="b"} 31
# HELP reflector_lists_total Total number of API lists done by the reflectors
# TYPE reflector_lists_total counter
reflector_lists_total{name="edge deployments.v1.apps",watch_namespace="a"} 121
reflector_lists_total{name="edge deployments.v1.apps",watch_namespace="b"} 0
# HELP workqueue_adds_total Total number of adds handled by workqueue
# TYPE workqueue_adds_total counter
workqueue_adds_total{controller="",name="jobs"} 142
workqueue_adds_total{controller="site",name="sites"} 132
# HELP workqueue_queue_duration_seconds How long in seconds an item stays in workqueue before being requested
# TYPE workqueue_queue_duration_seconds histogram
` + histogramLines("workqueue_queue_duration_seconds", `controller="",name="jobs"`, 3) +
		histogramLines("workqueue_queue_duration_seconds", `controller="site",name="sites"`, 2*691) + `
# HELP rest_client_requests_total Number of HTTP requests, partitioned by status code, method, and host.
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"} 162
rest_client_requests_total{code="404",host="10.0.0.1:443",method="GET"} 164
rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="PUT"} 166
`
}

// A name that is not UTF-8 does not make a scrape fail.
func TestNameWithoutUTF8(t *testing.T) {
	c := informerprom.New(informerprom.Config{Queues: []func() status.Queue{
		fixed(status.Queue{Name: "a\xff", Adds: 1}), fixed(status.Queue{Name: "a\xfe", Adds: 2}),
	}})
	expect(t, registryOf(c), `
# HELP workqueue_adds_total Total number of adds handled by workqueue
# TYPE workqueue_adds_total counter
workqueue_adds_total{controller="",name="a`+"\uFFFD"+`"} 3
`, "workqueue_adds_total")
}

// A controller without a queue has the metrics of controllers only.
func TestControllerWithoutQueue(t *testing.T) {
	controller := &informer.Controller[string]{Name: "site"}
	registry := registryOf(informerprom.New(informerprom.Config{Controllers: []func() status.Controller{controller.Status}}))
	if n, err := testutil.GatherAndCount(registry, "workqueue_depth", "workqueue_adds_total"); n != 0 || err != nil {
		t.Errorf("%d series of a queue, %v", n, err)
	}
	if n, err := testutil.GatherAndCount(registry, "controller_runtime_max_concurrent_reconciles"); n != 1 || err != nil {
		t.Errorf("%d series of the controller, %v", n, err)
	}
}

// A server that answers with every status code makes one series for each code of the standard, and for each class.
func TestStatusCodesAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(strings.TrimPrefix(path.Base(r.URL.Path), "pod-"))
		w.WriteHeader(code)
	}))
	defer server.Close()
	client, err := informer.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	typed := informer.NewTypedClient[*corev1.Pod](client, pods)
	codes := map[string]bool{}
	for code := 200; code < 1000; code++ {
		_, _ = typed.Get(t.Context(), informer.Key{Namespace: "default", Name: fmt.Sprint("pod-", code)}, metav1.GetOptions{})
		known := code
		if http.StatusText(code) == "" {
			known = code / 100 * 100
		}
		codes[strconv.Itoa(known)] = true
	}
	families, err := registryOf(informerprom.New(informerprom.Config{Clients: []func() status.Client{client.Status}})).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "rest_client_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "code" && !codes[label.GetValue()] {
					t.Errorf("a series has the code %q", label.GetValue())
				}
			}
		}
		if n := len(family.GetMetric()); n > len(codes) || n < 50 {
			t.Errorf("%d series, want at most %d", n, len(codes))
		}
	}
}

func TestZeroConfig(t *testing.T) {
	for _, c := range []*informerprom.Collector{informerprom.New(informerprom.Config{}), {}} {
		if n := seriesOf(t, registryOf(c)); n != 0 {
			t.Errorf("%d series", n)
		}
	}
}

// Each state and each reason of a reflector has a series.
func TestEachStateAndReasonHasASeries(t *testing.T) {
	families, err := registryOf(informerprom.New(everything())).Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]bool{} // of the labels state and reason
	for _, family := range families {
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if name := label.GetName(); strings.HasPrefix(family.GetName(), "informer_") && (name == "state" || name == "reason") {
					values[label.GetValue()] = true
				}
			}
		}
	}
	check := func(text string) (known bool) {
		if strings.Contains(text, "(") { // a value without a name
			return false
		}
		if !values[text] {
			t.Errorf("%s has no series", text)
		}
		return true
	}
	for s := status.ReflectorState(0); check(s.String()); s++ {
	}
	for r := status.Reason(0); check(r.String()); r++ {
	}
}
