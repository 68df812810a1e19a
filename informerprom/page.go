package informerprom

import (
	"strconv"
	"strings"
	"time"

	"github.com/typedinformer/informer"
)

// page has the values of one scrape.
type page map[series]float64

// series identifies a series.
type series struct {
	metric *metric
	labels [maxLabels]string // those of metric, then empty strings
}

// add adds a value. The order of the labels is that of the metric.
func (p page) add(m *metric, value float64, labels ...string) {
	s := series{metric: m}
	for i, label := range labels {
		s.labels[i] = strings.ToValidUTF8(label, "\uFFFD") // Prometheus refuses other text
	}
	if other, ok := p[s]; ok {
		value = m.merge(other, value)
	}
	p[s] = value
}

func (p page) addConfig(c *Config) {
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
}

func (p page) addInformer(name string, s informer.InformerStatus) {
	group, version, resource := s.Resource.Group, s.Resource.Version, s.Resource.Resource
	p.add(informerSynced, truth(s.Synced), name, group, version, resource)
	p.add(informerObjects, float64(s.Objects), name, group, version, resource)
	p.add(informerQueued, float64(s.Queued), name, group, version, resource)
	p.add(informerBlocked, float64(s.Blocked), name, group, version, resource)
	p.add(informerVersion, lastDigits(s.ResourceVersion), name, group, version, resource)
	for _, r := range s.Reflectors {
		p.addReflector(name, s.Resource, r)
	}
	for _, h := range s.Handlers {
		p.add(subscriptions, 1, name, group, version, resource, h.Name)
		p.add(subscriptionSynced, truth(h.Synced), name, group, version, resource, h.Name)
		p.add(subscriptionBacklog, float64(h.Backlog), name, group, version, resource, h.Name)
		p.add(subscriptionBusy, h.Busy.Seconds(), name, group, version, resource, h.Name)
		p.add(subscriptionBlocking, truth(h.Blocking), name, group, version, resource, h.Name)
	}
}

// states are the values of the label state. A reflector has a series for each.
var states = []informer.ReflectorState{
	informer.ReflectorIdle, informer.ReflectorListing, informer.ReflectorWatching, informer.ReflectorBackoff, informer.ReflectorAbsent,
}

func (p page) addReflector(name string, of informer.Resource, r informer.ReflectorStatus) {
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
	p.add(reflectorRead, float64(r.Read), name, group, version, resource, r.Namespace)

	reflector := resource + "." + version + "." + group
	if name != "" {
		reflector = name + " " + reflector
	}
	p.add(reflectorLists, float64(r.Lists), reflector, r.Namespace)
	p.add(reflectorWatches, float64(r.Watches), reflector, r.Namespace)
	p.add(reflectorVersion, lastDigits(r.ResourceVersion), reflector, r.Namespace)
}

func (p page) addController(s informer.ControllerStatus) {
	p.add(reconciles, float64(s.Succeeded), s.Name, "success")
	p.add(reconciles, float64(s.RequeuedAfter), s.Name, "requeue_after")
	p.add(reconciles, float64(s.BackedOff), s.Name, "requeue")
	p.add(reconciles, float64(s.Failed), s.Name, "error")
	p.add(reconcileErrors, float64(s.Failed), s.Name)
	p.add(reconcileTerminal, float64(s.Terminal), s.Name)
	p.add(reconcilePanics, float64(s.Panicked), s.Name)
	p.add(controllerWorkers, float64(s.Workers), s.Name)
	p.add(controllerActive, float64(s.Active), s.Name)
	p.add(controllerRunning, truth(s.Running), s.Name)
	if s.Queue.Depth != nil { // a controller has no queue before its first Watch or Run
		p.addQueue(s.Name, s.Queue)
	}
}

func (p page) addQueue(controller string, s informer.QueueStatus) {
	for _, priority := range []informer.Priority{informer.HighPriority, informer.NormalPriority, informer.LowPriority} {
		p.add(queueDepth, float64(s.Depth[priority]), s.Name, controller, priority.String())
	}
	p.add(queueAdds, float64(s.Adds), s.Name, controller)
	p.add(queueRetries, float64(s.Retries), s.Name, controller)
	p.add(queueUnfinished, s.Unfinished.Seconds(), s.Name, controller)
	p.add(queueLongest, s.LongestRunning.Seconds(), s.Name, controller)
	p.add(queueDelayed, float64(s.Delayed), s.Name, controller)
	p.add(queueWorking, float64(s.InWork), s.Name, controller)
	p.add(queueRefused, float64(s.Refused), s.Name, controller)
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
