package informerprom

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

// page holds the values of one scrape. The next scrape reuses it, so each series makes its labels once. Only one scrape
// may use it at a time.
type page struct {
	scrape uint64 // the number of the scrape
	points map[series]*point
}

// series identifies a series.
type series struct {
	metric *metric
	labels [maxLabels]string // those of metric, then empty strings
}

// point is a series of a page.
type point struct {
	metric    *metric
	labels    []*dto.LabelPair
	scrape    uint64 // the last scrape that contains the series
	value     float64
	durations *status.Durations // for a histogram
}

func newPage() *page { return &page{points: map[series]*point{}} }

// point returns the point of m with labels, which are in the order of m.labels. again means that this scrape already
// contains it.
func (p *page) point(m *metric, labels []string) (_ *point, again bool) {
	s := series{metric: m}
	for i, label := range labels {
		s.labels[i] = strings.ToValidUTF8(label, "\uFFFD") // Prometheus refuses other text
	}
	pt := p.points[s]
	if pt == nil {
		pt = &point{metric: m, labels: m.pairs(s.labels[:len(labels)])}
		p.points[s] = pt
	}
	again = pt.scrape == p.scrape
	pt.scrape = p.scrape
	return pt, again
}

// add adds a value. The order of the labels is that of the metric.
func (p *page) add(m *metric, value float64, labels ...string) {
	pt, again := p.point(m, labels)
	if again {
		value = m.merge(pt.value, value)
	}
	pt.value = value
}

// observe adds a histogram. The order of the labels is that of the metric.
func (p *page) observe(m *metric, d *status.Durations, labels ...string) {
	pt, again := p.point(m, labels)
	if !again {
		pt.durations = d
		return
	}
	both := *pt.durations
	both.Count += d.Count
	both.Sum += d.Sum
	for i, n := range d.Buckets {
		both.Buckets[i] += n
	}
	pt.durations = &both
}

// sendTo sends the series of the scrape, and forgets all others.
func (p *page) sendTo(to chan<- prometheus.Metric) {
	for s, pt := range p.points {
		if pt.scrape != p.scrape {
			delete(p.points, s)
			continue
		}
		sent := *pt // the next scrape changes it
		to <- &sent
		pt.durations = nil
	}
}

// Desc implements [prometheus.Metric].
func (p *point) Desc() *prometheus.Desc { return p.metric.desc }

// Write implements [prometheus.Metric].
func (p *point) Write(to *dto.Metric) error {
	to.Label = p.labels
	switch {
	case p.durations != nil:
		to.Histogram = histogramOf(p.durations)
	case p.metric.kind == prometheus.CounterValue:
		to.Counter = &dto.Counter{Value: &p.value}
	default:
		to.Gauge = &dto.Gauge{Value: &p.value}
	}
	return nil
}

func histogramOf(d *status.Durations) *dto.Histogram {
	buckets, upTo, sent := make([]dto.Bucket, len(bounds)), make([]uint64, len(bounds)), make([]*dto.Bucket, len(bounds))
	n := uint64(0)
	for i := range bounds {
		n += d.Buckets[i]
		upTo[i] = n
		buckets[i].UpperBound, buckets[i].CumulativeCount = &bounds[i], &upTo[i]
		sent[i] = &buckets[i]
	}
	seconds := d.Sum.Seconds()
	return &dto.Histogram{SampleCount: &d.Count, SampleSum: &seconds, Bucket: sent}
}

// bounds are the upper bounds of the buckets of histograms, in seconds.
var bounds = func() (seconds []float64) {
	for _, bound := range status.DurationBounds() {
		seconds = append(seconds, bound.Seconds())
	}
	return seconds
}()

func (p *page) addConfig(c *Config) {
	for _, status := range c.Informers {
		p.addInformer(c.Name, status())
	}
	for _, statuses := range c.Groups {
		for _, s := range statuses() {
			p.addInformer(c.Name, s)
		}
	}
	for set, members := range c.Sets {
		p.addSet(set, members())
	}
	for _, status := range c.Controllers {
		p.addController(status())
	}
	for _, status := range c.Queues {
		p.addQueue("", status())
	}
	for _, status := range c.Clients {
		p.addClient(status())
	}
	for _, status := range c.Electors {
		p.addElector(status())
	}
	for _, status := range c.Replicas {
		p.addReplica(status())
	}
}

func (p *page) addInformer(name string, s informer.InformerStatus) {
	group, version, resource := s.Resource.Group, s.Resource.Version, s.Resource.Resource
	p.add(informerSynced, truth(s.Synced), name, group, version, resource)
	p.add(informerObjects, float64(s.Objects), name, group, version, resource)
	p.add(informerMissing, float64(s.Missing), name, group, version, resource)
	p.add(informerMemory, float64(s.Memory), name, group, version, resource)
	p.add(informerQueued, float64(s.Queued), name, group, version, resource)
	p.add(informerBlocked, float64(s.Blocked), name, group, version, resource)
	p.add(informerVersion, lastDigits(s.ResourceVersion), name, group, version, resource)
	p.addAudits(&s.Audit, name, group, version, resource)
	for i, r := range s.Reflectors {
		r.Namespace = s.SourceName(i) // otherwise, selections of one namespace would share a series
		p.addReflector(name, s.Resource, r)
	}
	for i := range s.Handlers {
		h := &s.Handlers[i]
		p.add(subscriptions, 1, name, group, version, resource, h.Name)
		p.add(subscriptionSynced, truth(h.Synced), name, group, version, resource, h.Name)
		p.add(subscriptionBacklog, float64(h.Backlog), name, group, version, resource, h.Name)
		p.add(subscriptionOldest, h.Oldest.Seconds(), name, group, version, resource, h.Name)
		p.observe(subscriptionDelays, &h.Delays, name, group, version, resource, h.Name)
		p.observe(subscriptionCalls, &h.Calls, name, group, version, resource, h.Name)
		p.add(subscriptionBusy, h.Busy.Seconds(), name, group, version, resource, h.Name)
		p.add(subscriptionBlocking, truth(h.Blocking), name, group, version, resource, h.Name)
		p.addDurable(h.Durable, name, group, version, resource, h.Name)
	}
}

// addDurable adds the metrics of a durable subscription. s is nil for others.
func (p *page) addDurable(s *status.Durable, labels ...string) {
	if s == nil {
		return
	}
	p.add(durableAcknowledged, float64(s.Acknowledged), labels...)
	p.add(durableUnknown, float64(s.Unknown), labels...)
	p.add(durableSaves, float64(s.Saves), labels...)
	p.add(durableFailed, truth(s.SaveError != nil), labels...)
	if s.Saves > 0 {
		p.add(durableTime, unix(s.SavedAt), labels...)
		p.add(durableBytes, float64(s.StoredBytes), labels...)
		p.add(durableTook, s.SaveTime.Seconds(), labels...)
	}
}

// maxUnready is how many members of a set have series of their own.
const maxUnready = 20

// addSet adds the metrics of a set. Their number does not grow with that of its members.
func (p *page) addSet(name string, members []informer.MemberStatus) {
	for _, state := range status.MemberStates() {
		p.add(setMembers, 0, name, state.String())
	}
	p.add(setFailing, 0, name)
	p.add(setObjects, 0, name)
	p.add(setMemory, 0, name)
	p.add(setNoWatch, 0, name)
	var failing, unsynced []string
	for _, m := range members {
		p.add(setMembers, 1, name, m.State.String())
		p.add(setObjects, float64(m.Informer.Objects), name)
		p.add(setMemory, float64(m.Informer.Memory), name)
		fails := m.Err != nil
		for _, r := range m.Informer.Reflectors {
			if r.State == status.ReflectorAbsent || r.State == status.ReflectorPolled { // there is nothing to watch
				continue
			}
			fails = fails || !r.WatchOpen && r.Failures > 0
			if !r.NoWatchSince.IsZero() {
				p.add(setNoWatch, time.Since(r.NoWatchSince).Seconds(), name)
			}
		}
		p.add(setFailing, truth(fails), name)
		switch {
		case fails:
			failing = append(failing, m.Name)
		case m.State == status.MemberUnsynced:
			unsynced = append(unsynced, m.Name)
		}
	}
	slices.Sort(failing)
	slices.Sort(unsynced)
	unready := slices.Concat(failing, unsynced)
	for _, member := range unready[:min(len(unready), maxUnready)] {
		p.add(setUnready, 1, name, member)
	}
}

// addAudits adds the metrics of audits. The labels are those of informers.
func (p *page) addAudits(s *status.Audit, name, group, version, resource string) {
	p.add(audits, float64(s.Equal), name, group, version, resource, "equal")
	p.add(audits, float64(s.Different), name, group, version, resource, "different")
	p.add(audits, float64(s.Failed), name, group, version, resource, "failed")
	p.add(auditDifferences, float64(s.Differ), name, group, version, resource)
	if !s.LastEqual.IsZero() {
		p.add(auditEqual, unix(s.LastEqual), name, group, version, resource)
	}
}

// states are the values of the label state. A reflector has a series for each.
var states = []status.ReflectorState{
	status.ReflectorIdle, status.ReflectorListing, status.ReflectorWatching, status.ReflectorBackoff, status.ReflectorAbsent,
	status.ReflectorPolled,
}

// reasons are the values of the label reason. A reflector has a series for each.
var reasons = []status.Reason{
	status.ReasonFirst, status.ReasonEnded, status.ReasonFailed, status.ReasonExpired, status.ReasonRestored,
	status.ReasonBehind, status.ReasonRefused, status.ReasonAbsent, status.ReasonUnclear, status.ReasonShard,
	status.ReasonWarmStart, status.ReasonAudit, status.ReasonUpdated, status.ReasonPolled,
}

func (p *page) addReflector(name string, collection informer.Resource, r status.Reflector) {
	group, version, resource := collection.Group, collection.Version, collection.Resource
	for _, state := range states {
		p.add(reflectorState, truth(r.State == state), name, group, version, resource, r.Namespace, state.String())
	}
	noWatch := 0.0
	if !r.NoWatchSince.IsZero() {
		noWatch = time.Since(r.NoWatchSince).Seconds()
	}
	if r.LastError != nil {
		p.add(reflectorLastError, unix(r.LastErrorTime), name, group, version, resource, r.Namespace)
	}
	p.add(reflectorFailures, float64(r.Failures), name, group, version, resource, r.Namespace)
	p.add(reflectorWatchOpen, truth(r.WatchOpen), name, group, version, resource, r.Namespace)
	p.add(reflectorNoWatch, noWatch, name, group, version, resource, r.Namespace)
	p.add(reflectorRestored, float64(r.Restored), name, group, version, resource, r.Namespace)
	p.add(reflectorDecodeErrors, float64(r.DecodeErrors), name, group, version, resource, r.Namespace)
	p.add(reflectorStale, float64(r.Stale), name, group, version, resource, r.Namespace)
	for _, reason := range reasons {
		p.add(reflectorListsBy, float64(r.Traffic.ListsBy[reason]), name, group, version, resource, r.Namespace, reason.String())
		p.add(reflectorWatchesBy, float64(r.Traffic.WatchesBy[reason]), name, group, version, resource, r.Namespace, reason.String())
	}
	if !r.ResourceVersionTime.IsZero() {
		p.add(reflectorVersionAge, time.Since(r.ResourceVersionTime).Seconds(), name, group, version, resource, r.Namespace)
	}
	retry := 0.0
	if !r.RetryAt.IsZero() {
		retry = max(0, time.Until(r.RetryAt).Seconds())
	}
	p.add(reflectorRetry, retry, name, group, version, resource, r.Namespace)
	p.add(reflectorBytes, float64(r.Traffic.Bytes), name, group, version, resource, r.Namespace)
	p.add(reflectorEvents, float64(r.Traffic.Events), name, group, version, resource, r.Namespace)
	p.add(reflectorLate, float64(r.Traffic.Late), name, group, version, resource, r.Namespace)
	p.add(reflectorModified, float64(r.Traffic.Modified), name, group, version, resource, r.Namespace)
	p.add(reflectorSharedKeys, float64(r.Traffic.SharedKeys), name, group, version, resource, r.Namespace)
	p.add(reflectorCutAfter, r.Traffic.CutAfter.Seconds(), name, group, version, resource, r.Namespace)
	p.addList(&r.List, name, group, version, resource, r.Namespace)

	p.addWarmStart(&r.WarmStart, name, group, version, resource, r.Namespace)

	reflector := resource + "." + version + "." + group
	if name != "" {
		reflector = name + " " + reflector
	}
	p.add(reflectorLists, float64(r.Traffic.Lists), reflector, r.Namespace)
	p.add(reflectorWatches, float64(r.Traffic.Watches), reflector, r.Namespace)
	p.add(reflectorVersion, lastDigits(r.ResourceVersion), reflector, r.Namespace)
}

// addList adds the metrics of the list under way, or of the last one. What is not known has no series.
func (p *page) addList(s *status.List, labels ...string) {
	p.add(reflectorRead, float64(s.Objects), labels...)
	p.add(reflectorListBytes, float64(s.Bytes), labels...)
	if s.Left > 0 {
		p.add(reflectorLeft, s.Left.Seconds(), labels...)
	}
	p.add(reflectorExceeds, truth(s.Forecast.Exceeded), labels...)
	if s.Total > 0 {
		p.add(reflectorTotal, float64(s.Total), labels...)
	}
	if s.Forecast.Loaded > 0 {
		p.add(reflectorForecast, float64(max(s.Forecast.Whole, s.Forecast.Loaded)), labels...)
	}
}

// addWarmStart adds the metrics of saved states, if the reflector has loaded or saved one, or has tried to.
func (p *page) addWarmStart(s *status.WarmStart, labels ...string) {
	if !s.Loaded && s.LoadError == nil && s.Saves == 0 && s.SaveError == nil {
		return
	}
	p.add(warmStartLoaded, truth(s.Loaded), labels...)
	p.add(warmStartSaves, float64(s.Saves), labels...)
	p.add(warmStartFailed, truth(s.SaveError != nil), labels...)
	if s.Saves > 0 {
		p.add(warmStartTime, unix(s.SavedAt), labels...)
		p.add(warmStartBytes, float64(s.SavedBytes), labels...)
		p.add(warmStartTook, s.SaveTime.Seconds(), labels...)
	}
}

func (p *page) addController(s status.Controller) {
	p.add(reconciles, float64(s.Succeeded), s.Name, "success")
	p.add(reconciles, float64(s.RequeuedAfter), s.Name, "requeue_after")
	p.add(reconciles, float64(s.BackedOff), s.Name, "requeue")
	p.add(reconciles, float64(s.Failed), s.Name, "error")
	p.add(reconcileErrors, float64(s.Failed), s.Name)
	p.add(reconcileTerminal, float64(s.Terminal), s.Name)
	p.add(reconcilePanics, float64(s.Panicked), s.Name)
	p.observe(reconcileTimes, &s.Reconciles, s.Name)
	p.add(controllerWorkers, float64(s.Workers), s.Name)
	p.add(controllerActive, float64(s.Active), s.Name)
	p.add(controllerRunning, truth(s.Running), s.Name)
	p.add(controllerFailing, float64(s.Failing), s.Name)
	p.add(controllerAwaits, float64(s.OwnWrites.Waiting), s.Name)
	p.add(controllerExpired, float64(s.OwnWrites.Expired), s.Name)
	p.add(controllerSkipped, float64(s.OwnWrites.Skipped), s.Name)
	if s.OwnWrites.Waits.Count > 0 {
		p.observe(controllerAwaited, &s.OwnWrites.Waits, s.Name)
	}
	if !s.LastSuccess.IsZero() {
		p.add(controllerSuccess, unix(s.LastSuccess), s.Name)
	}
	if s.LastError != nil {
		p.add(controllerError, unix(s.LastErrorTime), s.Name)
	}
	if s.Queue.Name != "" { // a controller has no queue before its first Watch or Run
		p.addQueue(s.Name, s.Queue)
	}
}

func (p *page) addQueue(controller string, s status.Queue) {
	p.add(queueDepth, float64(s.Depth.High), s.Name, controller, "high")
	p.add(queueDepth, float64(s.Depth.Normal), s.Name, controller, "normal")
	p.add(queueDepth, float64(s.Depth.Low), s.Name, controller, "low")
	p.add(queueAdds, float64(s.Adds), s.Name, controller)
	p.add(queueRetries, float64(s.Retries), s.Name, controller)
	p.add(queueUnfinished, s.Unfinished.Seconds(), s.Name, controller)
	p.add(queueLongest, s.LongestRunning.Seconds(), s.Name, controller)
	p.observe(queueWaits, &s.Waits, s.Name, controller)
	p.observe(queueWorks, &s.Works, s.Name, controller)
	p.add(queueOldest, s.LongestReady.Seconds(), s.Name, controller)
	p.add(queueDelayed, float64(s.Delayed), s.Name, controller)
	p.add(queueWorking, float64(s.InWork), s.Name, controller)
	p.add(queueAwaited, float64(s.Awaited), s.Name, controller)
	p.add(queueForeign, float64(s.Foreign), s.Name, controller)
	p.add(queueRefused, float64(s.Refused), s.Name, controller)
}

func (p *page) addClient(s status.Client) {
	for kind, n := range s.Requests {
		code := "<error>" // as in client-go
		if kind.Code != 0 {
			code = strconv.Itoa(kind.Code)
		}
		p.add(clientRequests, float64(n), code, kind.Method, s.Host)
	}
	for method, latencies := range s.Latencies {
		p.observe(clientLatencies, &latencies, method, s.Host)
	}
	p.observe(clientThrottled, &s.Throttled, s.Host)
}

func (p *page) addElector(s leader.Status) {
	_, name, _ := strings.Cut(s.Lease, "/") // as in controller-runtime and the components of Kubernetes
	p.add(leaderStatus, truth(s.State == leader.Leading), name)
	if s.State == leader.Leading || s.State == leader.Paused || s.State == leader.Stopping {
		p.add(leaderRenewed, time.Since(s.Renewed).Seconds(), name)
	}
	p.add(leaderTerms, float64(s.Terms), name)
	p.add(leaderLost, float64(s.Lost), name)
	if s.LastError != nil {
		p.add(leaderLastError, unix(s.LastErrorTime), name)
	}
}

// shardStates are the values of the label state of replicas. A group has a series for each.
var shardStates = []shard.State{shard.Idle, shard.Joining, shard.Member, shard.Leaving}

func (p *page) addReplica(s shard.Status) {
	for _, state := range shardStates {
		p.add(shardState, truth(s.State == state), s.Group, state.String())
	}
	p.add(shardReplicas, float64(len(s.Replicas)), s.Group)
	p.add(shardSlots, float64(s.Slots), s.Group)
	p.add(shardPlanned, float64(s.Planned), s.Group)
	p.add(shardHeld, float64(s.Held), s.Group)
	p.add(shardClaimed, float64(s.Claimed), s.Group)
	p.add(shardOwned, float64(s.Owned), s.Group)
	p.add(shardYielded, float64(s.Yielded), s.Group)
	p.add(shardOverdue, float64(len(s.Overdue)), s.Group)
	p.add(shardGained, float64(s.Gained), s.Group)
	p.add(shardReleased, float64(s.Released), s.Group)
	p.add(shardLost, float64(s.Lost), s.Group)
	p.add(shardLeasesLost, float64(s.LeasesLost), s.Group)
	if !s.Renewed.IsZero() {
		p.add(shardRenewed, time.Since(s.Renewed).Seconds(), s.Group)
	}
	if s.LastError != nil {
		p.add(shardLastError, unix(s.LastErrorTime), s.Group)
	}
}

// unix returns the seconds since the Unix epoch.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// lastDigits returns the 15 least significant digits of a resource version: as many as a float64 holds exactly. It
// returns 0 if there is no version yet.
func lastDigits(version string) float64 {
	n, err := strconv.ParseUint(version[max(0, len(version)-15):], 10, 64)
	if err != nil {
		return 0
	}
	return float64(n)
}
