package debugpage

import (
	"cmp"
	"errors"
	"maps"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

const (
	maxErrorText   = 1 << 10 // bytes
	maxTransitions = 16
)

// status answers status.json.
func (h *handler) status(r *request) (any, error) {
	b := builder{now: time.Now(), authorized: h.authorized(r.Request),
		hidden: func(resource schema.GroupResource) bool { return h.hidesDifferences(r, resource) }}
	s := Status{
		Name:        h.config.Name,
		Time:        b.now,
		Authorized:  b.authorized,
		Process:     readProcess(),
		Informers:   []Informer{},
		Sets:        []Set{},
		Queues:      []Queue{},
		Controllers: []Controller{},
		Clients:     []Client{},
		Replicas:    []Replica{},
		Managers:    []Manager{},
		Electors:    []Elector{},
		Stores:      []Store{},

		CanAuthorize: h.config.Authorize != nil,
	}
	b.addInformers(&s, &h.config)
	for _, status := range h.config.Controllers {
		c := status()
		s.Controllers = append(s.Controllers, b.controller(c))
		if c.Queue.Name != "" { // a controller has no queue before its first Watch or Run
			s.Queues = append(s.Queues, b.queue(c.Queue, c.Name, c.Running))
		}
	}
	for _, status := range h.config.Queues {
		s.Queues = append(s.Queues, b.queue(status(), "", false))
	}
	for _, status := range h.config.Clients {
		s.Clients = append(s.Clients, b.client(status()))
	}
	for _, status := range h.config.Replicas {
		s.Replicas = append(s.Replicas, b.replica(status()))
	}
	for _, status := range h.config.Managers {
		m := status()
		s.Managers = append(s.Managers, b.manager(m))
		if m.Elector != nil {
			s.Electors = append(s.Electors, b.elector(*m.Elector))
		}
	}
	for _, status := range h.config.Electors {
		s.Electors = append(s.Electors, b.elector(status()))
	}
	for _, source := range h.stores {
		s.Stores = append(s.Stores, h.store(r, source, b.authorized))
	}
	s.Problems = b.sorted()
	return s, nil
}

// addInformers adds the informers of the configuration, and its sets.
func (b *builder) addInformers(s *Status, c *Config) {
	for _, status := range c.Informers {
		s.Informers = append(s.Informers, b.informer(status(), ""))
	}
	for _, statuses := range c.Groups {
		for _, status := range statuses() {
			s.Informers = append(s.Informers, b.informer(status, ""))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sets)) {
		set, shown := b.set(name, c.Sets[name]())
		s.Sets = append(s.Sets, set)
		s.Informers = append(s.Informers, shown...)
	}
}

func (h *handler) store(r *request, s store, authorized bool) Store {
	return Store{
		Name:          s.name,
		Masked:        h.masked(s.resource().GroupResource()) || maskedType(s.typeOf()) != schema.GroupResource{},
		Indexes:       append([]string{}, s.indexes()...),
		IndexesHidden: !authorized || h.veilOf(r, s).hidesAll(),
	}
}

func readProcess() Process {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(samples)
	value := func(s metrics.Sample) uint64 {
		if s.Value.Kind() != metrics.KindUint64 { // a later version of Go may lack the metric
			return 0
		}
		return s.Value.Uint64()
	}
	return Process{value(samples[0]), value(samples[1]), value(samples[2])}
}

func (b *builder) informer(s informer.InformerStatus, prefix string) Informer {
	name := s.Resource.String()
	titled := prefix + name
	i := Informer{
		Name:            name,
		Group:           s.Resource.Group,
		Version:         s.Resource.Version,
		Resource:        s.Resource.Resource,
		Namespaces:      append([]string{}, s.Resource.Namespaces...),
		LabelSelector:   s.Resource.LabelSelector,
		FieldSelector:   s.Resource.FieldSelector,
		Severity:        b.add("informer", titled, informerProblems(s, b.now)),
		Synced:          s.Synced,
		ResourceVersion: s.ResourceVersion,
		Objects:         s.Objects,
		MemoryBytes:     s.Memory,
		Queued:          s.Queued,
		Blocked:         s.Blocked,
		Watches:         []Watch{},
		Subscriptions:   []Subscription{},
	}
	for n, r := range s.Reflectors {
		title := titled
		if len(s.Reflectors) > 1 {
			title += ", namespace " + s.SourceName(n)
		}
		w := b.watch(title, r)
		i.Watches = append(i.Watches, w)
		i.Severity = worse(i.Severity, w.Severity)
		i.Modified += r.Traffic.Modified
	}
	for _, h := range s.Handlers {
		sub := Subscription{
			Name:          h.Name,
			Severity:      b.add("subscription", titled+": "+h.Name, subscriptionProblems(h)),
			Synced:        h.Synced,
			Blocking:      h.Blocking,
			Backlog:       h.Backlog,
			BusySeconds:   h.Busy.Seconds(),
			OldestSeconds: h.Oldest.Seconds(),
			Delays:        durations(h.Delays),
			Calls:         durations(h.Calls),
			Durable:       b.durable(h.Durable),
		}
		i.Subscriptions = append(i.Subscriptions, sub)
		i.Severity = worse(i.Severity, sub.Severity)
	}
	i.Audit = b.audit(s.Audit)
	return i
}

func (b *builder) audit(s status.Audit) *Audit {
	if s.Equal+s.Different+s.Failed == 0 && s.Next.IsZero() {
		return nil
	}
	a := &Audit{
		Equal:     s.Equal,
		Different: s.Different,
		Failed:    s.Failed,
		Differ:    s.Differ,
		LastEqual: s.LastEqual,
		LastError: b.failure(s.LastError, time.Time{}),
		Next:      s.Next,
	}
	if s.Last.Time.IsZero() {
		return a
	}
	a.Last = &AuditResult{
		Time:            s.Last.Time,
		TookSeconds:     s.Last.Took.Seconds(),
		ResourceVersion: s.Last.ResourceVersion,
		Objects:         s.Last.Objects,
		Unclear:         s.Last.Unclear,
		Differ:          s.Last.Differ,
		Bytes:           s.Last.Bytes,
		Differences:     []Difference{},
	}
	if len(s.Last.Differences) > 0 && b.authorized && !b.hidden(s.Last.Resource.GroupResource()) {
		for _, d := range s.Last.Differences {
			a.Last.Differences = append(a.Last.Differences, Difference{shorten(d.Key.String()), d.Kind.String()})
		}
	}
	return a
}

func listProgress(s status.List) ListProgress {
	p := ListProgress{Read: s.Objects, ListBytes: s.Bytes, ListTotal: s.Total}
	if s.Ended.IsZero() && s.Objects > 0 {
		p.Progress = s.String()
	}
	return p
}

func (b *builder) watch(name string, r status.Reflector) Watch {
	w := Watch{
		Namespace:           r.Namespace,
		Severity:            b.add("watch", name, watchProblems(r, b.now)),
		State:               r.State.String(),
		Since:               r.Since,
		Awaits:              r.Awaits.String(),
		RetryAt:             r.RetryAt,
		Open:                r.WatchOpen,
		NoWatchSince:        r.NoWatchSince,
		ResourceVersion:     r.ResourceVersion,
		ResourceVersionTime: r.ResourceVersionTime,
		Lists:               r.Traffic.Lists,
		Watches:             r.Traffic.Watches,
		ListsBy:             byName(r.Traffic.ListsBy),
		WatchesBy:           byName(r.Traffic.WatchesBy),
		Bytes:               r.Traffic.Bytes,
		Events:              r.Traffic.Events,
		Late:                r.Traffic.Late,
		SharedKeys:          r.Traffic.SharedKeys,
		CutAfterSeconds:     r.Traffic.CutAfter.Seconds(),
		Restored:            r.Restored,
		Failures:            r.Failures,
		DecodeErrors:        r.DecodeErrors,
		Stale:               r.Stale,
		ListProgress:        listProgress(r.List),
		Transitions:         []Transition{},
	}
	for _, t := range r.Transitions[max(0, len(r.Transitions)-maxTransitions):] {
		next := Transition{Time: t.Time, State: t.State.String()}
		switch {
		case t.Err != nil && b.authorized:
			next.Why = b.text(t.Err)
		case t.Err != nil:
			next.Why = class(t.Err)
		case t.State != status.ReflectorIdle:
			next.Why = t.Reason.String()
		}
		w.Transitions = append(w.Transitions, next)
	}
	w.LastError = b.failure(r.LastError, r.LastErrorTime)
	w.WarmStart = b.warmStart(r.WarmStart)
	return w
}

// failure returns nil if err is nil.
func (b *builder) failure(err error, moment time.Time) *Failure {
	if err == nil {
		return nil
	}
	return &Failure{Time: moment, Class: class(err), Text: b.text(err)}
}

// text returns the text of an error for authorized callers, and nothing for others. The text of an audit has the keys
// of objects.
func (b *builder) text(err error) string {
	if err == nil || !b.authorized {
		return ""
	}
	if found := (*informer.AuditError)(nil); errors.As(err, &found) && b.hidden(found.Result.Resource.GroupResource()) {
		return class(err)
	}
	return shorten(err.Error())
}

func (b *builder) warmStart(s status.WarmStart) *WarmStart {
	if !s.Loaded && s.LoadError == nil && s.Saves == 0 && s.SaveError == nil {
		return nil
	}
	return &WarmStart{
		Loaded:           s.Loaded,
		LoadedObjects:    s.LoadedObjects,
		LoadedAgeSeconds: s.LoadedAge.Seconds(),
		LoadSeconds:      s.LoadTime.Seconds(),
		CatchUpTo:        s.CatchUpTo,
		LoadFailure:      b.text(s.LoadError),
		Saves:            s.Saves,
		SavedAt:          s.SavedAt,
		SavedObjects:     s.SavedObjects,
		SavedBytes:       s.SavedBytes,
		SaveSeconds:      s.SaveTime.Seconds(),
		SaveFailed:       s.SaveError != nil,
		SaveFailure:      b.text(s.SaveError),
	}
}

func byName(counts map[status.Reason]int) map[string]int {
	named := map[string]int{}
	for reason, n := range counts {
		named[reason.String()] = n
	}
	return named
}

func durations(d status.Durations) Durations {
	h := Durations{Count: d.Count, SumSeconds: d.Sum.Seconds(), MaxSeconds: d.Max.Seconds(), Buckets: []Bucket{}}
	for i, bound := range status.DurationBounds() {
		if n := d.Buckets[i]; n > 0 {
			h.Buckets = append(h.Buckets, Bucket{bound.Seconds(), n})
		}
	}
	return h
}

// shorten returns the beginning of a text.
func shorten(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}

// queue returns the status of a queue. worked says that a controller is working on it.
func (b *builder) queue(s status.Queue, controller string, worked bool) Queue {
	q := Queue{
		Name:                  s.Name,
		Controller:            controller,
		Severity:              b.add("queue", s.Name, queueProblems(s, worked)),
		State:                 s.State.String(),
		High:                  s.Depth.High,
		Normal:                s.Depth.Normal,
		Low:                   s.Depth.Low,
		Ready:                 s.Depth.Sum(),
		Delayed:               s.Delayed,
		InWork:                s.InWork,
		Adds:                  s.Adds,
		Retries:               s.Retries,
		Refused:               s.Refused,
		Awaited:               s.Awaited,
		Foreign:               s.Foreign,
		LongestRunningSeconds: s.LongestRunning.Seconds(),
		UnfinishedSeconds:     s.Unfinished.Seconds(),
		LongestReadySeconds:   s.LongestReady.Seconds(),
		Waits:                 durations(s.Waits),
		Works:                 durations(s.Works),
	}
	if b.authorized {
		q.LongestRunningKey = s.LongestRunningKey
	}
	return q
}

func (b *builder) controller(s status.Controller) Controller {
	c := Controller{
		Name:          s.Name,
		Severity:      b.add("controller", s.Name, controllerProblems(s, b.now)),
		Running:       s.Running,
		Workers:       s.Workers,
		Active:        s.Active,
		Succeeded:     s.Succeeded,
		RequeuedAfter: s.RequeuedAfter,
		BackedOff:     s.BackedOff,
		Failed:        s.Failed,
		Terminal:      s.Terminal,
		Panicked:      s.Panicked,
		Failing:       s.Failing,
		LastSuccess:   s.LastSuccess,
		LastError:     b.failure(s.LastError, s.LastErrorTime),
		Reconciles:    durations(s.Reconciles),
	}
	if b.authorized {
		c.LastErrorKey = s.LastErrorKey
		for _, k := range s.FailingKeys {
			c.FailingKeys = append(c.FailingKeys, FailingKey(k))
		}
	}
	return c
}

func (b *builder) client(s status.Client) Client {
	c := Client{
		Host:           s.Host,
		Severity:       b.add("client", s.Host, clientProblems(s, b.now)),
		RecentRequests: s.RecentRequests,
		RecentFailures: s.RecentFailures,
		LastSuccess:    s.LastSuccess,
		LastError:      b.failure(s.LastError, s.LastErrorTime),
		Requests:       []Requests{},
		Latencies:      map[string]Durations{},
		Throttled:      durations(s.Throttled),
	}
	for kind, n := range s.Requests {
		c.Requests = append(c.Requests, Requests{kind.Method, kind.Code, n})
	}
	slices.SortFunc(c.Requests, func(x, y Requests) int {
		return cmp.Or(cmp.Compare(x.Method, y.Method),
			cmp.Compare(x.Code, y.Code))
	})
	for method, d := range s.Latencies {
		c.Latencies[method] = durations(d)
	}
	return c
}

func (b *builder) replica(s shard.Status) Replica {
	overdue := []OverdueCall{}
	for _, c := range s.Overdue {
		call := OverdueCall{Since: c.Since}
		if b.authorized {
			call.Key = c.Key
		}
		overdue = append(overdue, call)
	}
	return Replica{
		Group:      s.Group,
		Identity:   s.Identity,
		Severity:   b.add("replica", s.Group, replicaProblems(s, b.now)),
		State:      s.State.String(),
		Replicas:   append([]string{}, s.Replicas...),
		Slots:      s.Slots,
		Planned:    s.Planned,
		Held:       s.Held,
		Claimed:    s.Claimed,
		Owned:      s.Owned,
		Yielded:    s.Yielded,
		Overdue:    overdue,
		Gained:     s.Gained,
		Released:   s.Released,
		Lost:       s.Lost,
		LeasesLost: s.LeasesLost,
		Renewed:    s.Renewed,
		LastError:  b.failure(s.LastError, s.LastErrorTime),
	}
}

func (b *builder) manager(s manager.Status) Manager {
	m := Manager{
		Severity: b.add("manager", s.State.String(), managerProblems(s, b.now)),
		State:    s.State.String(),
		Since:    s.Since,
		StopBy:   s.StopBy,
		Leading:  s.Leading,
		Failure:  b.failure(s.Err, s.Since),
		Tasks:    []Task{},
	}
	for _, t := range s.Tasks {
		m.Tasks = append(m.Tasks, Task{
			Name:    t.Name,
			Phase:   t.Phase.String(),
			State:   t.State.String(),
			Since:   t.Since,
			Failure: b.failure(t.Err, t.Since),
		})
	}
	return m
}

func (b *builder) elector(s leader.Status) Elector {
	return Elector{
		Lease:                s.Lease,
		Identity:             s.Identity,
		Holder:               s.Holder,
		Severity:             b.add("elector", s.Lease, electorProblems(s, b.now)),
		State:                s.State.String(),
		Since:                s.Since,
		Renewed:              s.Renewed,
		RenewDeadlineSeconds: s.RenewDeadline.Seconds(),
		GraceSeconds:         s.Grace.Seconds(),
		Terms:                s.Terms,
		Lost:                 s.Lost,
		StopBy:               s.StopBy,
		LastError:            b.failure(s.LastError, s.LastErrorTime),
	}
}
