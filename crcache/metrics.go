package crcache

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics that client-go has for reflectors and informers, under the names with which the components of Kubernetes
// register them. The label name is the form of the objects (typed, unstructured or metadata), with the namespace if the
// cache has a configuration for it. So a process has at most one series of a metric for each kind, form and configured
// namespace.
//
//	informer_queued_items           changes that wait to enter the store
//	informer_store_resource_version the 15 least significant digits of the resource version of the store
//	reflector_lists_total           requests that list; one with a streaming list is also a watch
//	reflector_watches_total         requests that watch
//	reflector_last_resource_version the resource version up to which the reflector has read
//
// If several caches have an informer with the same labels, the counters have their sum, and the versions are those of
// the informer that is furthest behind. A counter keeps the requests of informers that have stopped.
var (
	informerLabels = []string{"name", "group", "version", "resource"}

	queuedItems = prometheus.NewDesc("informer_queued_items", "Number of items currently queued in the FIFO.",
		informerLabels, nil)
	storeVersion = prometheus.NewDesc("informer_store_resource_version",
		"The 15 least significant digits of the resource version of the store.", informerLabels, nil)
	listsTotal = prometheus.NewDesc("reflector_lists_total", "Total number of API lists done by the reflectors",
		[]string{"name"}, nil)
	watchesTotal = prometheus.NewDesc("reflector_watches_total", "Total number of API watches done by the reflectors",
		[]string{"name"}, nil)
	lastVersion = prometheus.NewDesc("reflector_last_resource_version", "Last resource version seen for the reflectors",
		[]string{"name"}, nil)
	collected = newCollector()
)

func init() { metrics.Registry.MustRegister(collected) }

// series identifies a series of each metric.
type series struct {
	name     string
	resource schema.GroupVersionResource
}

// reflector returns the label of the metrics for reflectors.
func (s series) reflector() string {
	return s.name + " " + s.resource.Resource + "." + s.resource.Version + "." + s.resource.Group
}

// sample has the values of a series.
type sample struct {
	queued, lists, watches int
	version                float64
	running                bool
}

// add adds the status of one informer.
func (s *sample) add(p *part) {
	status := p.informer.Status()
	s.queued += status.Queued
	for _, r := range status.Reflectors {
		s.lists += r.Traffic.Lists
		s.watches += r.Traffic.Watches
	}
	version := lastDigits(status.ResourceVersion)
	if !s.running || version < s.version {
		s.version = version
	}
	s.running = true
}

// lastDigits returns the 15 least significant digits of a resource version: as many as a float64 holds exactly.
func lastDigits(version string) float64 {
	n, err := strconv.ParseFloat(version[max(0, len(version)-15):], 64)
	if err != nil {
		return 0 // no version yet
	}
	return n
}

// collector is a [prometheus.Collector] of the running informers.
type collector struct {
	mu      sync.Mutex // protects the fields below
	running map[*part]series
	ended   map[series]sample // the counters of informers that have stopped
}

func newCollector() *collector {
	return &collector{running: map[*part]series{}, ended: map[series]sample{}}
}

func (c *collector) add(p *part, s series) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[p] = s
}

func (c *collector) remove(p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.running[p]
	delete(c.running, p)
	last := sample{}
	last.add(p)
	total := c.ended[s]
	c.ended[s] = sample{lists: total.lists + last.lists, watches: total.watches + last.watches}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queuedItems, storeVersion, listsTotal, watchesTotal, lastVersion} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for s, v := range c.samples() {
		send := func(d *prometheus.Desc, t prometheus.ValueType, value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, t, value, labels...)
		}
		send(listsTotal, prometheus.CounterValue, float64(v.lists), s.reflector())
		send(watchesTotal, prometheus.CounterValue, float64(v.watches), s.reflector())
		if v.running {
			labels := []string{s.name, s.resource.Group, s.resource.Version, s.resource.Resource}
			send(queuedItems, prometheus.GaugeValue, float64(v.queued), labels...)
			send(storeVersion, prometheus.GaugeValue, v.version, labels...)
			send(lastVersion, prometheus.GaugeValue, v.version, s.reflector())
		}
	}
}

func (c *collector) samples() map[series]sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[series]sample{}
	for s, v := range c.ended {
		all[s] = v
	}
	for p, s := range c.running {
		v := all[s]
		v.add(p)
		all[s] = v
	}
	return all
}
