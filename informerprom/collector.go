package informerprom

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/shard"
	"github.com/typedinformer/informer/status"
)

// Config says what to collect. A scrape calls its functions, and scrapes may be concurrent. Do not change it after
// [New] or [Collector.Add].
type Config struct {
	// Name is the label name of the metrics of informers. It keeps informers of one resource apart, such as those with
	// different selectors. Empty means no name.
	Name string
	// Informers are the Status methods of informers outside of groups.
	Informers []func() informer.InformerStatus
	// Groups are the Status methods of groups. Informers that join later are collected, too.
	Groups []func() []informer.InformerStatus
	// Sets are the Members methods of sets of informers, such as those of packages fleet and kinds, by the label set of
	// their metrics.
	Sets map[string]func() []informer.MemberStatus
	// Controllers are the Status methods of controllers. They include the status of their queues.
	Controllers []func() status.Controller
	// Queues are the Status methods of queues that no controller uses.
	Queues []func() status.Queue
	// Clients are the Status methods of clients. A client and those that its WithTracer returned share one status, so
	// give only one of them.
	Clients []func() status.Client
	// Electors are the Status methods of electors of package leader.
	Electors []func() leader.Status
	// Replicas are the Status methods of replicas that share objects.
	Replicas []func() shard.Status
}

// Collector is a [prometheus.Collector] of informers, queues, controllers, clients, electors and replicas. Create one
// with [New]. All methods are safe for concurrent use. A registry accepts only one Collector, because all have the same
// metrics.
type Collector struct {
	mu      sync.Mutex // protects the fields below
	configs []*Config
	page    *page // of the last scrape; nil during a scrape, and before the first
}

// New returns a collector for config. [Collector.Add] adds sources that are created later, or end before the collector.
func New(config Config) *Collector { return &Collector{configs: []*Config{&config}} }

// Add adds config. The returned function removes it: later scrapes neither call its functions nor contain its series.
// Add does not wait for a scrape under way, which may still call them. Removing again does nothing.
func (c *Collector) Add(config Config) (remove func()) {
	added := &config
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configs = append(c.configs, added)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.configs = slices.DeleteFunc(c.configs, func(other *Config) bool { return other == added })
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range metrics {
		to <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	configs := slices.Clone(c.configs)
	p := c.page
	c.page = nil // a concurrent scrape makes its own
	c.mu.Unlock()
	if p == nil {
		p = newPage()
	}
	p.scrape++
	for _, config := range configs {
		p.addConfig(config)
	}
	p.sendTo(to)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.page = p
}
