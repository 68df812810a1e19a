package informerprom

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/typedinformer/informer"
)

// page has the values of one scrape.
type page struct {
	values    map[series]float64
	durations map[series]*informer.Durations
}

func newPage() *page {
	return &page{values: map[series]float64{}, durations: map[series]*informer.Durations{}}
}

// series identifies a series.
type series struct {
	metric *metric
	labels [maxLabels]string // those of metric, then empty strings
}

// seriesOf returns the series of m with labels, which are in the order of the metric's.
func seriesOf(m *metric, labels []string) series {
	s := series{metric: m}
	for i, label := range labels {
		s.labels[i] = strings.ToValidUTF8(label, "\uFFFD") // Prometheus refuses other text
	}
	return s
}

// add adds a value. The order of the labels is that of the metric.
func (p *page) add(m *metric, value float64, labels ...string) {
	s := seriesOf(m, labels)
	if other, ok := p.values[s]; ok {
		value = m.merge(other, value)
	}
	p.values[s] = value
}

// observe adds a histogram. The order of the labels is that of the metric.
func (p *page) observe(m *metric, d *informer.Durations, labels ...string) {
	s := seriesOf(m, labels)
	other, ok := p.durations[s]
	if !ok {
		p.durations[s] = d
		return
	}
	both := *other
	both.Count += d.Count
	both.Sum += d.Sum
	both.Max = max(both.Max, d.Max)
	for i, n := range d.Buckets {
		both.Buckets[i] += n
	}
	p.durations[s] = &both
}

// sendTo sends the metrics of the page.
func (p *page) sendTo(to chan<- prometheus.Metric) {
	for s, value := range p.values {
		to <- prometheus.MustNewConstMetric(s.metric.desc, s.metric.kind, value, s.labels[:s.metric.labels]...)
	}
	for s, d := range p.durations {
		upTo, n := make(map[float64]uint64, len(bounds)), uint64(0)
		for i, bound := range bounds {
			n += d.Buckets[i]
			upTo[bound] = n
		}
		to <- prometheus.MustNewConstHistogram(s.metric.desc, d.Count, d.Sum.Seconds(), upTo, s.labels[:s.metric.labels]...)
	}
}

// bounds are the upper bounds of the buckets of histograms, in seconds.
var bounds = func() (seconds []float64) {
	for _, bound := range informer.DurationBounds() {
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
	for _, status := range c.Controllers {
		p.addController(status())
	}
	for _, status := range c.Queues {
		p.addQueue("", status())
	}
	for _, status := range c.Clients {
		p.addClient(status())
	}
}

func (p *page) addInformer(name string, s informer.InformerStatus) {
	group, version, resource := s.Resource.Group, s.Resource.Version, s.Resource.Resource
	p.add(informerSynced, truth(s.Synced), name, group, version, resource)
	p.add(informerObjects, float64(s.Objects), name, group, version, resource)
	p.add(informerMemory, float64(s.Memory), name, group, version, resource)
	p.add(informerQueued, float64(s.Queued), name, group, version, resource)
	p.add(informerBlocked, float64(s.Blocked), name, group, version, resource)
	p.add(informerVersion, lastDigits(s.ResourceVersion), name, group, version, resource)
	for _, r := range s.Reflectors {
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
	}
}

// states are the values of the label state. A reflector has a series for each.
var states = []informer.ReflectorState{
	informer.ReflectorIdle, informer.ReflectorListing, informer.ReflectorWatching, informer.ReflectorBackoff, informer.ReflectorAbsent,
}

// reasons are the values of the label reason. A reflector has a series for each.
var reasons = []informer.Reason{
	informer.ReasonFirst, informer.ReasonEnded, informer.ReasonFailed, informer.ReasonExpired, informer.ReasonRestored,
	informer.ReasonBehind, informer.ReasonRefused, informer.ReasonAbsent, informer.ReasonUnclear,
}

func (p *page) addReflector(name string, of informer.Resource, r informer.ReflectorStatus) {
	group, version, resource := of.Group, of.Version, of.Resource
	for _, state := range states {
		p.add(reflectorState, truth(r.State == state), name, group, version, resource, r.Namespace, state.String())
	}
	noWatch := 0.0
	if !r.NoWatchSince.IsZero() {
		noWatch = time.Since(r.NoWatchSince).Seconds()
	}
	if r.LastError != nil {
		p.add(reflectorLastError, float64(r.LastErrorTime.UnixMilli())/1000, name, group, version, resource, r.Namespace)
	}
	p.add(reflectorFailures, float64(r.Failures), name, group, version, resource, r.Namespace)
	p.add(reflectorWatchOpen, truth(r.WatchOpen), name, group, version, resource, r.Namespace)
	p.add(reflectorNoWatch, noWatch, name, group, version, resource, r.Namespace)
	p.add(reflectorRestored, float64(r.Restored), name, group, version, resource, r.Namespace)
	p.add(reflectorDecodeErrors, float64(r.DecodeErrors), name, group, version, resource, r.Namespace)
	p.add(reflectorStale, float64(r.Stale), name, group, version, resource, r.Namespace)
	for _, reason := range reasons {
		p.add(reflectorListsBy, float64(r.ListsBy[reason]), name, group, version, resource, r.Namespace, reason.String())
		p.add(reflectorWatchesBy, float64(r.WatchesBy[reason]), name, group, version, resource, r.Namespace, reason.String())
	}
	if !r.ResourceVersionTime.IsZero() {
		p.add(reflectorVersionAge, time.Since(r.ResourceVersionTime).Seconds(), name, group, version, resource, r.Namespace)
	}
	retry := 0.0
	if !r.RetryAt.IsZero() {
		retry = max(0, time.Until(r.RetryAt).Seconds())
	}
	p.add(reflectorRetry, retry, name, group, version, resource, r.Namespace)
	p.add(reflectorBytes, float64(r.Bytes), name, group, version, resource, r.Namespace)
	p.add(reflectorEvents, float64(r.Events), name, group, version, resource, r.Namespace)
	p.add(reflectorRead, float64(r.Read), name, group, version, resource, r.Namespace)

	reflector := resource + "." + version + "." + group
	if name != "" {
		reflector = name + " " + reflector
	}
	p.add(reflectorLists, float64(r.Lists), reflector, r.Namespace)
	p.add(reflectorWatches, float64(r.Watches), reflector, r.Namespace)
	p.add(reflectorVersion, lastDigits(r.ResourceVersion), reflector, r.Namespace)
}

func (p *page) addController(s informer.ControllerStatus) {
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
	if s.Queue.Depth != nil { // a controller has no queue before its first Watch or Run
		p.addQueue(s.Name, s.Queue)
	}
}

func (p *page) addQueue(controller string, s informer.QueueStatus) {
	for _, priority := range []informer.Priority{informer.HighPriority, informer.NormalPriority, informer.LowPriority} {
		p.add(queueDepth, float64(s.Depth[priority]), s.Name, controller, priority.String())
	}
	p.add(queueAdds, float64(s.Adds), s.Name, controller)
	p.add(queueRetries, float64(s.Retries), s.Name, controller)
	p.add(queueUnfinished, s.Unfinished.Seconds(), s.Name, controller)
	p.add(queueLongest, s.LongestRunning.Seconds(), s.Name, controller)
	p.observe(queueWaits, &s.Waits, s.Name, controller)
	p.observe(queueWorks, &s.Works, s.Name, controller)
	p.add(queueOldest, s.LongestReady.Seconds(), s.Name, controller)
	p.add(queueDelayed, float64(s.Delayed), s.Name, controller)
	p.add(queueWorking, float64(s.InWork), s.Name, controller)
	p.add(queueRefused, float64(s.Refused), s.Name, controller)
}

func (p *page) addClient(s informer.ClientStatus) {
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

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// lastDigits returns the 15 least significant digits of a resource version: as many as a float64 holds exactly. It returns 0
// if there is no version yet.
func lastDigits(version string) float64 {
	n, err := strconv.ParseUint(version[max(0, len(version)-15):], 10, 64)
	if err != nil {
		return 0
	}
	return float64(n)
}
