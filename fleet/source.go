package fleet

import (
	"context"
	"sync"

	"k8s.io/client-go/rest"
)

// Source reports the clusters of a fleet. [NewMap], [Folder], [Secrets] and [Profiles] return sources. Several fleets may
// use one source at once.
type Source interface {
	// Run calls report when it knows the clusters, and after each change, until ctx ends. It returns the cause of ctx.
	// Another error ends the fleet. The calls of report come one at a time, and are fast.
	//
	// report takes all present clusters by name, and does not keep the map. A cluster whose Config is another pointer than
	// before has changed. A non-nil error means that the clusters are not known now, and why: the fleet keeps those that
	// it has. Neither that error nor those of clusters may contain a credential.
	Run(ctx context.Context, report func(clusters map[string]Cluster, err error)) error
}

// Cluster is how to reach a cluster.
type Cluster struct {
	// Config is the configuration of the client. Nobody may modify it any more.
	Config *rest.Config
	// Err is why the present configuration is unusable. Config is then ignored, and the fleet goes on with the last good
	// one, if it had any.
	Err error
}

// Map is a [Source] whose clusters the program sets. Create one with [NewMap]. All methods are safe for concurrent use.
type Map struct {
	mu       sync.Mutex // protects the fields below
	clusters map[string]*rest.Config
	changed  chan struct{} // closed and replaced by each change
}

// NewMap returns a source of these clusters. It keeps neither the map nor its values.
func NewMap(clusters map[string]*rest.Config) *Map {
	m := &Map{clusters: map[string]*rest.Config{}, changed: make(chan struct{})}
	for name, config := range clusters {
		m.clusters[name] = copyOf(config)
	}
	return m
}

// Set adds a cluster, or changes its configuration. It does not keep config. A nil config is an error of the cluster.
func (m *Map) Set(name string, config *rest.Config) {
	own := copyOf(config)
	m.change(func() { m.clusters[name] = own })
}

func copyOf(config *rest.Config) *rest.Config {
	if config == nil {
		return nil
	}
	return rest.CopyConfig(config)
}

// Delete removes a cluster. It does nothing if there is none.
func (m *Map) Delete(name string) { m.change(func() { delete(m.clusters, name) }) }

func (m *Map) change(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
	close(m.changed)
	m.changed = make(chan struct{})
}

// Run implements [Source].
func (m *Map) Run(ctx context.Context, report func(map[string]Cluster, error)) error {
	for {
		clusters, changed := m.present()
		report(clusters, nil)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// present returns the present clusters, and a channel that is closed when they change.
func (m *Map) present() (map[string]Cluster, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clusters := map[string]Cluster{}
	for name, config := range m.clusters {
		clusters[name] = Cluster{Config: config}
	}
	return clusters, m.changed
}
