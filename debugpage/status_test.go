package debugpage_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

// status.json shows informers, watches, subscriptions, queues and controllers.
func TestStatus(t *testing.T) {
	inRig(t, func(r *rig) {
		queue := informer.NewQueue(informer.QueueConfig[string]{Name: "jobs"})
		queue.AddWith(informer.AddOptions{}, secret, "b")
		queue.AddWith(informer.AddOptions{Priority: informer.HighPriority}, "c")
		ctl := &informer.Controller[informer.Key]{Name: "web", Logger: quiet, MaxConcurrentReconciles: 3, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
			return informer.Result{}, nil
		}}
		ctl.Watch(informer.EnqueueObject(r.pods))
		r.config.Queues = []func() status.Queue{queue.Status}
		r.config.Clients = []func() status.Client{r.client.Status}
		r.config.Controllers = []func() status.Controller{ctl.Status}
		r.pod("default", "a", "")
		run(r, r.pods)
		r.tasks.Go(func() { _ = ctl.Run(r.ctx) })
		synctest.Wait()
		lacks(r.T, r.get("/status.json?token=right"))
		s := ask[debugpage.Status](r, "status.json")
		if s.Name != "test" || !s.Authorized || len(s.Problems) != 0 || len(s.Informers) != 1 || len(s.Queues) != 2 || len(s.Controllers) != 1 {
			r.Fatalf("%+v", s)
		}
		i := s.Informers[0]
		if i.Name != "v1 pods" || i.Version != "v1" || i.Resource != "pods" || !i.Synced || i.Severity != "" || i.Objects != 1 || i.ResourceVersion == "" || len(i.Watches) != 1 || len(i.Subscriptions) != 1 {
			r.Errorf("informer: %+v", i)
		}
		if w := i.Watches[0]; w.State != "Watching" || !w.Open || w.Severity != "" || w.Watches != 1 || w.LastError != nil || w.Since.IsZero() || w.Events != 2 || w.Bytes == 0 || w.Awaits == "" || w.ListsBy["first"] != 1 || len(w.Transitions) != 2 || w.Transitions[0].Why != "first" {
			r.Errorf("watch: %+v", w)
		}
		if sub := i.Subscriptions[0]; !sub.Synced || sub.Backlog != 0 || sub.Calls.Count != 1 || len(sub.Calls.Buckets) != 1 {
			r.Errorf("subscription: %+v", sub)
		}
		if q := s.Queues[0]; q.Name != "web" || q.Controller != "web" || q.State != "Open" || q.Adds != 1 {
			r.Errorf("queue of the controller: %+v", q)
		}
		if q := s.Queues[1]; q.Name != "jobs" || q.Controller != "" || q.Ready != 3 || q.High != 1 || q.Normal != 2 {
			r.Errorf("queue: %+v", q)
		}
		if c := s.Controllers[0]; c.Name != "web" || !c.Running || c.Workers != 3 || c.Succeeded != 1 || c.Reconciles.Count != 1 {
			r.Errorf("controller: %+v", c)
		}
		if c := s.Clients[0]; c.Host != "in-memory" || len(c.Requests) != 1 || c.Requests[0] != (debugpage.Requests{Method: "GET", Code: 200, Count: 1}) || c.Latencies["GET"].Count != 1 {
			r.Errorf("client: %+v", c)
		}
	})
}

// replica is the status of a replica whose lease cannot be renewed.
func replica(change func(*shard.Status)) func() shard.Status {
	s := shard.Status{
		Group: "ns/web", Identity: "web-1", State: shard.Member, Replicas: []string{"web-0", "web-1"}, Slots: 16, Planned: 9, Held: 8, Claimed: 7, Owned: 6, Gained: 5, Released: 4, Lost: 3, LeasesLost: 2,
		Renewed: time.Now(), LastError: errors.New(secret), LastErrorTime: time.Now(),
	}
	change(&s)
	return func() shard.Status { return s }
}

// status.json shows replicas and saved states. Only authorized callers receive the texts of errors.
func TestStatusOfReplicasAndWarmStarts(t *testing.T) {
	inRig(t, func(r *rig) {
		r.config.Replicas = []func() shard.Status{replica(func(s *shard.Status) {
			s.Yielded, s.Overdue = 8, []shard.Call{{Key: secret, Since: time.Now()}}
		})}
		saved := informer.InformerStatus{Resource: r.pods.Resource(), Reflectors: []status.Reflector{
			{State: status.ReflectorWatching, WatchOpen: true, WarmStart: status.WarmStart{
				Loaded: true, LoadedObjects: 1, LoadedAge: 2 * time.Second, LoadTime: 3 * time.Second, CatchUpTo: "4", Saves: 5, SavedAt: time.Now(), SavedObjects: 6, SavedBytes: 7, SaveTime: 8 * time.Second,
			}},
			{State: status.ReflectorWatching, WatchOpen: true, WarmStart: status.WarmStart{LoadError: errors.New(secret), SaveError: errors.New(secret)}},
			{State: status.ReflectorWatching, WatchOpen: true},
		}}
		r.config.Informers = []func() informer.InformerStatus{func() informer.InformerStatus { return saved }}
		lacks(r.T, r.get("/status.json"))
		s := ask[debugpage.Status](r, "status.json")
		now := s.Time
		want := debugpage.Replica{
			Group: "ns/web", Identity: "web-1", Severity: debugpage.SeverityError, State: "Member", Replicas: []string{"web-0", "web-1"}, Slots: 16, Planned: 9, Held: 8, Claimed: 7, Owned: 6,
			Yielded: 8, Overdue: []debugpage.OverdueCall{{Key: secret, Since: now}}, Gained: 5, Released: 4, Lost: 3, LeasesLost: 2, Renewed: now, LastError: &debugpage.Failure{Time: now, Class: "see the log", Text: secret},
		}
		if diff := cmp.Diff([]debugpage.Replica{want}, s.Replicas); diff != "" {
			r.Error(diff)
		}
		var got []*debugpage.WarmStart
		for _, w := range s.Informers[0].Watches {
			got = append(got, w.WarmStart)
		}
		if diff := cmp.Diff([]*debugpage.WarmStart{
			{Loaded: true, LoadedObjects: 1, LoadedAgeSeconds: 2, LoadSeconds: 3, CatchUpTo: "4", Saves: 5, SavedAt: now, SavedObjects: 6, SavedBytes: 7, SaveSeconds: 8},
			{LoadFailure: secret, SaveFailed: true, SaveFailure: secret},
			nil,
		}, got); diff != "" {
			r.Error(diff)
		}
	})
}

// problemsOf returns the problems that an unauthorized caller sees, a line for each.
func problemsOf(r *rig) string {
	r.Helper()
	synctest.Wait()
	w := r.get("/status.json")
	lacks(r.T, w)
	var s debugpage.Status
	decode(r.T, w, &s)
	var lines []string
	for _, p := range s.Problems {
		lines = append(lines, string(p.Severity)+" "+p.Kind+" "+p.Name+": "+p.Message)
	}
	return strings.Join(lines, "\n")
}

func TestProblems(t *testing.T) {
	for name, test := range map[string]func(r *rig){
		"replica without its lease": func(r *rig) {
			r.config = debugpage.Config{Replicas: []func() shard.Status{replica(func(s *shard.Status) { s.Owned = 0 })}}
			<-time.After(20 * time.Second)
			r.expect("error replica ns/web: owns none of its 9 slots; the lease was renewed 20 s ago; last error 20 s ago: see the log")
		},
		"replica with a part of its slots": func(r *rig) {
			r.config = debugpage.Config{Replicas: []func() shard.Status{replica(func(s *shard.Status) { s.LastError = nil })}}
			r.expect("warning replica ns/web: owns 6 of its 9 slots")
		},
		"replica that cannot list, and has a call that does not return": func(r *rig) {
			r.config = debugpage.Config{Replicas: []func() shard.Status{replica(func(s *shard.Status) {
				s.Owned, s.Yielded, s.Overdue = s.Planned, 8, []shard.Call{{Key: secret, Since: time.Now().Add(-time.Minute)}}
			})}}
			r.expect("error replica ns/web: leaves 8 slots to other replicas, because it cannot list their objects\nerror replica ns/web: 1 call of Reconcile under way, although the slots move or the lease was lost: the first for 1 min")
		},
		"replica that joins": func(r *rig) {
			r.config = debugpage.Config{Replicas: []func() shard.Status{replica(func(s *shard.Status) { s.State = shard.Joining })}}
			r.expect("warning replica ns/web: not yet a member of the group; last error 0 s ago: see the log")
		},
		"every reconcile fails": func(r *rig) {
			key := informer.Key{Namespace: "default", Name: "a"}
			var mended atomic.Bool
			ctl := &informer.Controller[informer.Key]{Name: "web", Logger: quiet, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
				if mended.Load() {
					return informer.Result{}, nil
				}
				return informer.Result{}, errors.New(secret)
			}}
			ctl.Watch(informer.EnqueueObject(r.pods))
			r.config.Controllers = []func() status.Controller{ctl.Status}
			r.pod(key.Namespace, key.Name, "")
			run(r, r.pods)
			r.tasks.Go(func() { _ = ctl.Run(r.ctx) })
			<-time.After(time.Minute)
			r.expect("error controller web: no reconcile has succeeded for 1 min 0 s, 1 key failing; last error ")
			s := ask[debugpage.Status](r, "status.json")
			if p := s.Problems[0]; p.Detail != "default/a: "+secret {
				r.Errorf("%+v", p)
			}
			c := s.Controllers[0]
			if c.Severity != debugpage.SeverityError || c.Failing != 1 || len(c.FailingKeys) != 1 || c.FailingKeys[0].Key != "default/a" || c.LastErrorKey != "default/a" || c.LastError.Text != secret || !c.LastSuccess.IsZero() {
				r.Errorf("%+v", c)
			}
			var hidden debugpage.Status
			decode(r.T, r.get("/status.json"), &hidden)
			if c := hidden.Controllers[0]; c.Failing != 1 || c.FailingKeys != nil || c.LastErrorKey != "" || c.LastError.Text != "" || hidden.Problems[0].Detail != "" {
				r.Errorf("an unauthorized caller sees %+v", c)
			}
			mended.Store(true)
			<-time.After(20 * time.Minute)
			r.expect("")
		},
		"some reconciles fail": func(r *rig) {
			now := time.Now()
			s := status.Controller{Name: "web", Failing: 20, FailingKeys: []status.FailingKey{{Key: secret, Since: now.Add(-5 * time.Minute), Failures: 9}}, LastSuccess: now, LastError: errors.New(secret), LastErrorTime: now, LastErrorKey: secret}
			r.config = debugpage.Config{Controllers: []func() status.Controller{func() status.Controller { return s }}}
			r.expect("warning controller web: 20 keys failing, one for 5 min 0 s; last error 0 s ago: see the log")
			s.Failing, s.FailingKeys[0].Failures = 2, 2
			r.expect("") // conflicts, for example
		},
		"client": func(r *rig) {
			now := time.Now()
			s := status.Client{Host: "server", RecentRequests: 124, RecentFailures: 118, LastError: forbidden(), LastErrorTime: now, LastSuccess: now.Add(-time.Minute)}
			r.config = debugpage.Config{Clients: []func() status.Client{func() status.Client { return s }}}
			r.expect("error client server: 118 of 124 requests failed in the last 5 min; last error 0 s ago: 403 Forbidden")
			s.LastSuccess = now
			r.expect("warning client server: 118 of 124 requests failed in the last 5 min; last error 0 s ago: 403 Forbidden")
			s.RecentFailures = 30
			r.expect("")
			s.RecentRequests, s.RecentFailures = 2, 2
			r.expect("")
		},
		"manager": func(r *rig) {
			now := time.Now()
			s := manager.Status{State: manager.Running, Since: now.Add(-2 * time.Minute), Leading: true, Tasks: []manager.TaskStatus{{Name: "web", State: manager.TaskRunning, Since: now}}}
			r.config = debugpage.Config{Managers: []func() manager.Status{func() manager.Status { return s }}}
			r.expect("")
			s.State = manager.Starting
			r.expect("warning manager Starting: starting for 2 min 0 s")
			s.State, s.StopBy, s.Tasks[0].State = manager.Stopping, now.Add(20*time.Second), manager.TaskStopping
			r.expect("warning manager Stopping: stopping, 20 s until the deadline; web")
			s.State, s.Err, s.Tasks[0].Err, s.Tasks[0].State = manager.Stopped, errors.New(secret), errors.New(secret), manager.TaskReturned
			r.expect("error manager Stopped: a failure: see the log; web")
			r.config.Authorize = admit
			if m := ask[debugpage.Status](r, "status.json").Managers[0]; m.Failure.Text != secret || m.Tasks[0].Failure.Text != secret || m.Tasks[0].State != "Returned" || m.State != "Stopped" || !m.Leading || m.Severity != debugpage.SeverityError {
				r.Errorf("%+v", m)
			}
		},
		"elector": func(r *rig) {
			now := time.Now()
			e := leader.Status{Lease: "ns/web", State: leader.Leading, Identity: "a", Holder: "a", Since: now, Renewed: now, RenewDeadline: 10 * time.Second, Grace: 4 * time.Second, Terms: 2, Lost: 1}
			s := manager.Status{State: manager.Running, Elector: &e}
			r.config = debugpage.Config{Managers: []func() manager.Status{func() manager.Status { return s }}, Electors: []func() leader.Status{func() leader.Status { return e }}, Authorize: admit}
			r.expect("")
			want := debugpage.Elector{Lease: "ns/web", Identity: "a", Holder: "a", State: "Leading", Since: now, Renewed: now, RenewDeadlineSeconds: 10, GraceSeconds: 4, Terms: 2, Lost: 1}
			if diff := cmp.Diff([]debugpage.Elector{want, want}, ask[debugpage.Status](r, "status.json").Electors); diff != "" {
				r.Error(diff)
			}
			e.Renewed, e.LastError, e.LastErrorTime = now.Add(-8*time.Second), errors.New(secret), now
			r.expect("warning elector ns/web: the lease was renewed 8 s ago, and is lost after 10 s; last error 0 s ago: see the log")
			e.State, e.Since = leader.Paused, now.Add(-5*time.Second)
			r.expect("warning elector ns/web: paused 5 s ago, because the lease was not renewed in time; last error 0 s ago: see the log")
			e.State, e.StopBy = leader.Stopping, now.Add(3*time.Second)
			r.expect("error elector ns/web: the lease is lost, 3 s until the work must have returned; ")
			e.State, e.StopBy, e.Holder = leader.Candidate, time.Time{}, ""
			r.expect("warning elector ns/web: does not lead, and requests for the lease fail; ")
			e.LastError, e.Since = nil, now.Add(-2*time.Minute)
			r.expect("warning elector ns/web: nobody has held the lease for 2 min 0 s")
			e.Holder = "b"
			r.expect("")
		},
		"replica without a problem": func(r *rig) {
			r.config = debugpage.Config{Replicas: []func() shard.Status{replica(func(s *shard.Status) { s.Owned = s.Planned }), replica(func(s *shard.Status) { s.State = shard.Idle })}}
			r.expect("")
		},
		"state that cannot be saved": func(r *rig) {
			saved := informer.InformerStatus{Resource: r.pods.Resource(), Reflectors: []status.Reflector{{
				State: status.ReflectorWatching, WatchOpen: true, WarmStart: status.WarmStart{SaveError: errors.New(secret)},
			}}}
			r.config = debugpage.Config{Informers: []func() informer.InformerStatus{func() informer.InformerStatus { return saved }}}
			r.expect("warning watch v1 pods: the state for a warm start cannot be saved")
		},
		"durable state that cannot be saved": func(r *rig) {
			durable := status.Durable{Continues: true, LoadedKeys: 9, LoadedAge: time.Minute, LoadTime: time.Second, Differences: 2, Acknowledged: 8,
				Unknown: 1, Saves: 3, SavedAt: time.Unix(1, 0).UTC(), SavedBytes: 10, SaveTime: time.Second, StoredBytes: 20}
			s := informer.InformerStatus{Resource: r.pods.Resource(), Reflectors: []status.Reflector{{State: status.ReflectorWatching, WatchOpen: true}},
				Handlers: []status.Subscription{{Name: "audit", Synced: true, Durable: &durable}}}
			r.config = debugpage.Config{Informers: []func() informer.InformerStatus{func() informer.InformerStatus { return s }}}
			r.expect("")
			want := &debugpage.Durable{Continues: true, LoadedKeys: 9, LoadedAgeSeconds: 60, LoadSeconds: 1, Differences: 2, Acknowledged: 8,
				Unknown: 1, Saves: 3, SavedAt: durable.SavedAt, SavedBytes: 10, SaveSeconds: 1, StoredBytes: 20}
			shown := func() *debugpage.Durable {
				return ask[debugpage.Status](r, "status.json").Informers[0].Subscriptions[0].Durable
			}
			if diff := cmp.Diff(want, shown()); diff != "" {
				r.Error(diff)
			}
			durable.SaveError = errors.New(secret)
			r.expect("warning subscription v1 pods: audit: its durable state cannot be saved, and new objects wait")
			if d := shown(); !d.SaveFailed || d.SaveFailure != "" {
				r.Errorf("%+v", d)
			}
		},
		"not started": func(r *rig) {
			r.expect("warning watch v1 pods: not started")
		},
		"two namespaces": func(r *rig) {
			r.server.Inject(informertest.Fault{Resource: "pods", Namespace: "b", Error: forbidden()})
			both := r.pods.Resource()
			both.Namespaces = []string{"a", "b"}
			pods := informer.New(r.client, both, informer.Config[*corev1.Pod]{Logger: quiet})
			r.config.Informers = []func() informer.InformerStatus{pods.Status}
			r.tasks.Go(func() { _ = pods.Run(r.ctx) })
			<-time.After(100 * time.Millisecond)
			r.expect("error watch v1 pods in a,b, namespace b: no watch for 0 s, ")
		},
		"stopped": func(r *rig) {
			ctx, cancel := context.WithCancel(r.ctx)
			r.tasks.Go(func() { _ = r.pods.Run(ctx) })
			synctest.Wait()
			cancel()
			synctest.Wait()
			<-time.After(time.Hour)
			r.expect("warning watch v1 pods: stopped 1 h 0 min ago")
		},
		"forbidden": func(r *rig) {
			mend := r.server.Inject(informertest.Fault{Resource: "pods", Error: forbidden()})
			r.tasks.Go(func() { _ = r.pods.Run(r.ctx) })
			<-time.After(500 * time.Millisecond)
			r.expect("error watch v1 pods: no watch for ")
			r.expect("403 Forbidden")
			mend()
			<-time.After(time.Minute)
			r.expect("")
		},
		"no server": func(r *rig) {
			run(r, r.pods)
			r.server.Stop()
			<-time.After(10 * time.Minute)
			r.expect("no watch for 10 min 0 s")
			r.expect("connection refused")
		},
		"absent": func(r *rig) {
			gone := informer.New(r.client, informer.Resource{GroupVersionResource: core.WithResource("gadgets")}, informer.Config[*corev1.Pod]{Logger: quiet})
			r.config.Informers = []func() informer.InformerStatus{gone.Status}
			r.tasks.Go(func() { _ = gone.Run(r.ctx) })
			synctest.Wait()
			r.expect("warning watch v1 gadgets: the server does not serve this resource")
		},
		"stalled list": func(r *rig) {
			r.server.Inject(informertest.Fault{Resource: "pods", Verb: "watch", Error: apierrors.NewBadRequest("no streaming lists")})
			r.server.Inject(informertest.Fault{Resource: "pods", Verb: "list", Hang: true})
			r.tasks.Go(func() { _ = r.pods.Run(r.ctx) })
			<-time.After(75 * time.Second)
			r.expect("warning watch v1 pods: no watch for 1 min 15 s, 0 objects listed so far")
		},
		"corrupt object": func(r *rig) {
			r.pod("default", secret, "")
			r.server.Inject(informertest.Fault{Resource: "pods", Corrupt: []informer.Key{{Namespace: "default", Name: secret}}})
			run(r, r.pods)
			r.expect("warning watch v1 pods: 1 object whose newest version cannot be decoded")
			r.expect("v1 pods: the store lacks 1 object that cannot be decoded")
		},
		"modified object": func(r *rig) {
			s := informer.InformerStatus{Resource: informer.Resource{GroupVersionResource: core.WithResource("pods")}}
			s.Reflectors = []status.Reflector{{}, {Traffic: status.ReflectorTraffic{Modified: 2}}}
			r.config = debugpage.Config{Informers: []func() informer.InformerStatus{func() informer.InformerStatus { return s }}}
			r.expect("error informer v1 pods: the program has modified 2 objects of the store, which others read")
			if got := ask[debugpage.Status](r, "status.json").Informers[0]; got.Modified != 2 {
				r.Errorf("%+v", got)
			}
		},
		"first list over the memory": func(r *rig) {
			s := informer.InformerStatus{Resource: informer.Resource{GroupVersionResource: core.WithResource("pods")}}
			list := status.List{Began: time.Now(), Objects: 1500, Bytes: 5, Total: 88_000, Forecast: status.Forecast{Loaded: 12e6, Whole: 704e6,
				Process: 804e6, Limit: 500e6, LimitedBy: "the cgroup", Exceeded: true, Metadata: 79e6}}
			s.Reflectors = []status.Reflector{{State: status.ReflectorListing, List: list}}
			r.config = debugpage.Config{Informers: []func() informer.InformerStatus{func() informer.InformerStatus { return s }}}
			const text = "1,500 of 88,000 objects, 12 MB of memory; the whole collection will take about 704 MB, and the process about 804 MB " +
				"of a limit of 500 MB (the cgroup); metadata only would take 79 MB"
			r.expect("warning watch v1 pods: the first list may take more memory than the process has: " + text)
			want := debugpage.ListProgress{Read: 1500, ListBytes: 5, ListTotal: 88_000, Progress: text}
			if got := ask[debugpage.Status](r, "status.json").Informers[0].Watches[0].ListProgress; got != want {
				r.Errorf("%+v", got)
			}
		},
		"slow handler": func(r *rig) {
			release := make(chan struct{})
			defer close(release)
			r.pod("default", "a", "")
			run(r, r.pods)
			r.pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{AddFunc: func(*corev1.Pod, bool) { <-release }}, informer.SubscriptionConfig[*corev1.Pod]{Name: "slow"})
			synctest.Wait()
			<-time.After(time.Minute)
			r.expect("warning subscription v1 pods: slow: one call for 1 min 0 s, backlog 0")
			<-time.After(5 * time.Minute)
			r.expect("error subscription v1 pods: slow: one call for 6 min 0 s, backlog 0")
		},
		"key that waits": func(r *rig) {
			release := make(chan struct{})
			defer close(release)
			ctl := &informer.Controller[informer.Key]{Name: "web", Logger: quiet, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
				<-release
				return informer.Result{}, nil
			}}
			ctl.Watch(informer.EnqueueObject(r.pods))
			r.config.Controllers = []func() status.Controller{ctl.Status}
			r.pod("default", "a", "")
			r.pod("default", "b", "")
			run(r, r.pods)
			<-time.After(time.Hour)
			r.expect("") // not the leader
			r.tasks.Go(func() { _ = ctl.Run(r.ctx) })
			<-time.After(2 * time.Minute)
			r.expect("warning queue web: a key in work for 2 min 0 s")
			if s := ask[debugpage.Status](r, "status.json"); s.Problems[0].Detail != "default/a" || s.Queues[0].LongestRunningKey != "default/a" {
				r.Errorf("%+v", s.Problems)
			}
			if w := r.get("/status.json"); strings.Contains(w.Body.String(), "default/a") {
				r.Errorf("an unauthorized caller sees the key: %s", w.Body)
			}
			r.expect("warning queue web: a key has been ready for 1 h 2 min, 1 in work")
		},
		"key in work": func(r *rig) {
			queue := informer.NewQueue(informer.QueueConfig[string]{Name: "jobs"})
			r.config = debugpage.Config{Queues: []func() status.Queue{queue.Status}}
			queue.Add(secret)
			<-time.After(time.Hour)
			r.expect("")
			key, err := queue.Get(r.ctx)
			if err != nil {
				r.Fatal(err)
			}
			<-time.After(2 * time.Minute)
			r.expect("warning queue jobs: a key in work for 2 min 0 s")
			<-time.After(4 * time.Minute)
			r.expect("error queue jobs: a key in work for 6 min 0 s")
			queue.Done(key)
			r.expect("")
		},
	} {
		t.Run(name, func(t *testing.T) { inRig(t, test) })
	}
}

// expect fails the test unless the problems have want. An empty want means that there are none.
func (r *rig) expect(want string) {
	r.Helper()
	if got := problemsOf(r); !strings.Contains(got, want) || want == "" && got != "" {
		r.Errorf("the problems lack %q:\n%s", want, got)
	}
}

// An informer has the results of its audits. Only authorized callers receive the keys that differed, and those of masked
// objects only callers whom Unmask admits.
func TestAudits(t *testing.T) {
	inRig(t, func(r *rig) {
		run(r, r.pods)
		if a := ask[debugpage.Status](r, "status.json").Informers[0].Audit; a != nil {
			r.Errorf("before the first audit: %+v", a)
		}
		audit := func() {
			r.Helper()
			if _, err := r.pods.Audit(r.ctx); err != nil {
				r.Fatal(err)
			}
			synctest.Wait()
		}
		audit()
		s := ask[debugpage.Status](r, "status.json")
		if a := s.Informers[0].Audit; a == nil || a.Equal != 1 || a.Last.Differ > 0 || a.Last.Differences == nil || a.Last.ResourceVersion == "" || a.LastEqual.IsZero() || a.LastError != nil || len(s.Problems) > 0 {
			r.Fatalf("%+v", s)
		}
		end := r.server.Inject(informertest.Fault{Verb: "watch", LoseEvents: 1, Match: func(req informertest.Request) bool { return req.Query.Get("sendInitialEvents") == "" }})
		r.server.EndWatches()
		<-time.After(time.Minute)
		synctest.Wait()
		r.pod("default", secret, "")
		r.pod("default", "b", "")
		synctest.Wait()
		end()
		audit()
		<-time.After(3 * time.Second)

		hidden := func(token string) {
			r.Helper()
			w := r.get("/status.json" + token)
			lacks(r.T, w)
			var s debugpage.Status
			decode(r.T, w, &s)
			i := s.Informers[0]
			if a := i.Audit; a == nil || a.Equal != 1 || a.Different != 1 || a.Failed != 0 || a.Differ != 1 || a.Last.Differ != 1 || a.Last.Objects != 2 || a.Last.Bytes == 0 || len(a.Last.Differences) != 0 || a.LastError == nil || a.LastError.Class != "the store differed from the server" {
				r.Errorf("%+v", a)
			}
			if last := i.Watches[0].LastError; last == nil || last.Class != "the store differed from the server" {
				r.Errorf("%+v", last)
			}
		}
		shown := func() {
			r.Helper()
			i := ask[debugpage.Status](r, "status.json").Informers[0]
			if diff := cmp.Diff([]debugpage.Difference{{Key: "default/" + secret, Kind: "missing"}}, i.Audit.Last.Differences); diff != "" {
				r.Error(diff)
			}
			if !strings.Contains(i.Audit.LastError.Text, secret) || !strings.Contains(i.Watches[0].LastError.Text, secret) {
				r.Errorf("%+v, %+v", i.Audit.LastError, i.Watches[0].LastError)
			}
		}
		hidden("")
		shown()
		r.expect("warning informer v1 pods: the store differed from the server in 1 object, as an audit found 3 s ago")
		r.config.Mask = []schema.GroupResource{{Resource: "pods"}}
		hidden("?token=right")
		r.config.Unmask = func(*http.Request, schema.GroupResource) bool { return false }
		hidden("?token=right")
		r.config.Objects = nil
		hidden("?token=right")
		r.config.Unmask = func(_ *http.Request, resource schema.GroupResource) bool { return resource.Resource == "pods" }
		hidden("")
		shown()
		<-time.After(time.Hour)
		r.expect("")
	})
}

// Keys that audits have found are hidden by the Go type of the objects, too.
func TestAuditsOfSecretsUnderAnotherResource(t *testing.T) {
	inRig(t, func(r *rig) {
		resource := informer.Resource{GroupVersionResource: core.WithResource("credentials")}
		secrets := informer.New(r.client, resource, informer.Config[*corev1.Secret]{Logger: quiet})
		found := status.AuditResult{Resource: resource.GroupVersionResource, Collection: resource.String(), Time: time.Now(), Objects: 2, Differ: 1, Differences: []status.AuditDifference{{Key: informer.Key{Namespace: "default", Name: secret}, Kind: status.DifferenceMissing}}}
		s := informer.InformerStatus{Resource: resource, Audit: status.Audit{Different: 1, Differ: 1, Last: found, LastError: &informer.AuditError{Result: found}}}
		r.config.Informers = []func() informer.InformerStatus{func() informer.InformerStatus { return s }}
		if w := r.get("/status.json?token=right"); !strings.Contains(w.Body.String(), secret) {
			r.Errorf("without the store, nothing says that these are Secrets: %s", w.Body)
		}
		r.config.Objects = []debugpage.Source{debugpage.Objects(secrets)}
		lacks(r.T, r.get("/status.json?token=right"))
		r.config.Unmask = func(_ *http.Request, resource schema.GroupResource) bool { return resource.Resource == "credentials" }
		lacks(r.T, r.get("/status.json?token=right"))
		r.config.Unmask = func(*http.Request, schema.GroupResource) bool { return true }
		if w := r.get("/status.json?token=right"); !strings.Contains(w.Body.String(), secret) {
			r.Errorf("Unmask does not show the key: %s", w.Body)
		}
	})
}

// Errors come before warnings.
func TestProblemsAreSorted(t *testing.T) {
	inRig(t, func(r *rig) {
		r.server.Inject(informertest.Fault{Resource: "secrets", Error: forbidden()})
		broken := informer.New(r.client, informer.Resource{GroupVersionResource: core.WithResource("secrets")}, informer.Config[*corev1.Secret]{Logger: quiet})
		r.config.Informers = append(r.config.Informers, broken.Status)
		r.tasks.Go(func() { _ = broken.Run(r.ctx) })
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		s := ask[debugpage.Status](r, "status.json")
		if len(s.Problems) != 2 || s.Problems[0].Severity != debugpage.SeverityError || s.Problems[1].Severity != debugpage.SeverityWarning || s.Informers[1].Severity != debugpage.SeverityError {
			r.Errorf("%+v", s.Problems)
		}
	})
}

// The text of an error may have anything. Only authorized callers receive it, and only the beginning of it.
func TestTextOfErrorsIsForAuthorizedCallers(t *testing.T) {
	inRig(t, func(r *rig) {
		r.server.Inject(informertest.Fault{Resource: "pods", Error: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(secret+"<script>"+strings.Repeat("é", 10_000)))})
		r.tasks.Go(func() { _ = r.pods.Run(r.ctx) })
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		var hidden debugpage.Status
		w := r.get("/status.json")
		decode(r.T, w, &hidden)
		if lacks(r.T, w); hidden.Informers[0].Watches[0].Transitions[1].Why != "403 Forbidden" {
			r.Errorf("the history does not have the kind of the failure, and only that: %s", w.Body)
		}
		w = r.get("/status.json?token=right")
		if strings.Contains(w.Body.String(), "<script>") {
			r.Errorf("the JSON has HTML: %s", w.Body)
		}
		last := ask[debugpage.Status](r, "status.json").Informers[0].Watches[0].LastError
		if last == nil || last.Class != "403 Forbidden" || !strings.Contains(last.Text, secret+"<script>") || len(last.Text) > 1100 || last.Time.IsZero() {
			r.Errorf("%+v", last)
		}
		if history := ask[debugpage.Status](r, "status.json").Informers[0].Watches[0].Transitions; !strings.Contains(history[1].Why, secret) || len(history[1].Why) > 1100 {
			r.Errorf("%+v", history)
		}
		r.config.Authorize = func(*http.Request) bool { return false }
		lacks(r.T, r.get("/status.json?token=right"))
	})
}
