package crcache

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metric is a metric that client-go has for reflectors and informers, under the name with which the components of
// Kubernetes register it. The label name is the form of the objects (typed, unstructured or metadata), with the
// namespace if the cache has a configuration for it. So a process has at most one series of a metric for each kind,
// form and configured namespace.
//
// If several caches have an informer with the same labels, the counters have their sum, and the versions are those of
// the informer that is furthest behind. A counter keeps the requests of informers that have stopped.
type metric struct {
	name, help string
	subject    subject
	valueType  prometheus.ValueType
	value      func(sample) int
}

// subject is what a metric describes, which determines its labels.
type subject uint8

const (
	ofReflector subject = iota
	ofInformer
)

func metrics() []metric {
	return []metric{
		{"informer_queued_items", "Number of items currently queued in the FIFO.", ofInformer, prometheus.GaugeValue,
			func(s sample) int { return s.queued }},
		{"informer_store_resource_version", "The 15 least significant digits of the resource version of the store.",
			ofInformer, prometheus.GaugeValue, func(s sample) int { return s.version }},
		{"reflector_last_resource_version", "Last resource version seen for the reflectors", ofReflector,
			prometheus.GaugeValue, func(s sample) int { return s.version }},
		// A streaming list is a list and a watch.
		{"reflector_lists_total", "Total number of API lists done by the reflectors", ofReflector, prometheus.CounterValue,
			func(s sample) int { return s.lists }},
		{"reflector_watches_total", "Total number of API watches done by the reflectors", ofReflector,
			prometheus.CounterValue, func(s sample) int { return s.watches }},
	}
}

// series identifies a series of each metric.
type series struct {
	name     string
	resource schema.GroupVersionResource
}

// labels returns the names of the labels of a subject.
func (s subject) labels() []string {
	if s == ofReflector {
		return []string{"name"}
	}
	return []string{"name", "group", "version", "resource"}
}

// values returns the values of the labels of a subject.
func (s series) values(subject subject) []string {
	r := s.resource
	if subject == ofReflector {
		return []string{s.name + " " + r.Resource + "." + r.Version + "." + r.Group}
	}
	return []string{s.name, r.Group, r.Version, r.Resource}
}

// sample has the values of a series.
type sample struct {
	queued, lists, watches int
	version                int
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
func lastDigits(version string) int {
	n, err := strconv.Atoi(version[max(0, len(version)-15):])
	if err != nil {
		return 0 // no version yet
	}
	return n
}

// observed are the running informers whose metrics a registry has. A nil *observed ignores all informers.
type observed struct {
	mu      sync.Mutex // protects the fields below
	running map[*part]series
	ended   map[series]sample // the counters of informers that have stopped
}

// observe registers the metrics at registry, and returns the informers that they describe: the caches of a registry
// share them. A metric cannot be registered if another part of the program has registered its name. Then observe leaves
// it out, and left says which ones and why.
func observe(registry prometheus.Registerer) (o *observed, left error) {
	o = &observed{running: map[*part]series{}, ended: map[series]sample{}}
	var failed []error
	for _, m := range metrics() {
		err := registry.Register(newCollector(m, o))
		if already := (prometheus.AlreadyRegisteredError{}); errors.As(err, &already) {
			if c, ok := already.ExistingCollector.(*collector); ok {
				o = c.observed
				continue
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("metric %s: %w", m.name, err))
		}
	}
	return o, errors.Join(failed...)
}

func (o *observed) add(p *part, s series) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[p] = s
}

func (o *observed) remove(p *part) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.running[p]
	delete(o.running, p)
	last := sample{}
	last.add(p)
	total := o.ended[s]
	o.ended[s] = sample{lists: total.lists + last.lists, watches: total.watches + last.watches}
}

func (o *observed) samples() map[series]sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[series]sample{}
	for s, v := range o.ended {
		all[s] = v
	}
	for p, s := range o.running {
		v := all[s]
		v.add(p)
		all[s] = v
	}
	return all
}

// collector is the [prometheus.Collector] of one metric. Each metric has its own, because a registry takes all metrics
// of a collector or none.
type collector struct {
	metric
	desc     *prometheus.Desc
	observed *observed
}

func newCollector(m metric, o *observed) *collector {
	return &collector{m, prometheus.NewDesc(m.name, m.help, m.subject.labels(), nil), o}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for s, v := range c.observed.samples() {
		if v.running || c.valueType == prometheus.CounterValue {
			to <- prometheus.MustNewConstMetric(c.desc, c.valueType, float64(c.value(v)), s.values(c.subject)...)
		}
	}
}
