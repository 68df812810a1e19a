package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/fleet"
)

// simulation is a cluster in the process: an API server on loopback, and what happens to its pods.
type simulation struct {
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
	fleet  *fleet.Fleet
	rate   int          // changes per second
	loaded atomic.Int64 // pods of the fleet that the server has

	mu     sync.Mutex       // held for each write, so that whoever is told of it finds its time; protects the fields below
	latest uint64           // version
	writes [1 << 16]written // the latest, by version modulo length
}

// written is when the server was given a version.
type written struct {
	version uint64
	at      time.Time
}

const (
	maxPods      = 1_000_000 // some 20 GB
	checkTimeout = 30 * time.Second
)

// newSimulation starts a server that has no pods yet.
func newSimulation(o options) *simulation {
	server := informertest.NewServer(informertest.Options{})
	return &simulation{
		server: server,
		pods: informertest.Register[*corev1.Pod](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		}),
		fleet: fleet.New(fleet.Config{Pods: o.pods, Namespaces: o.namespaces}),
		rate:  o.rate,
	}
}

// load creates the pods that are there at first.
func (s *simulation) load(ctx context.Context) error {
	for pod := range s.fleet.All() {
		if ctx.Err() != nil {
			return fmt.Errorf("fill the simulation: %w", context.Cause(ctx))
		}
		if _, err := s.write(fleet.Change{Type: watch.Added, Object: pod}); err != nil {
			return err
		}
		s.loaded.Add(1)
	}
	return nil
}

// run changes pods until ctx ends.
func (s *simulation) run(ctx context.Context) error {
	if s.rate == 0 {
		<-ctx.Done()
		return nil
	}
	due := time.Now()
	for change := range s.fleet.Changes(0) {
		changed, err := s.write(change)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		due = due.Add(time.Second / time.Duration(s.rate))
		wait := time.Until(due)
		if wait < -time.Second { // the machine was asleep, or cannot do that many: what was missed is not made up for
			due = time.Now()
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// write gives the server a change, and says whether that made a new version.
func (s *simulation) write(c fleet.Change) (bool, error) {
	c.Object.ResourceVersion = "" // the server has its own
	c.Object.Finalizers = nil     // there are no controllers that would take them away
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now()
	var stored *corev1.Pod
	var err error
	switch c.Type {
	case watch.Added:
		stored, err = s.pods.Create(c.Object)
	case watch.Modified:
		stored, err = s.pods.Update(c.Object)
	case watch.Deleted:
		stored, err = s.pods.Delete(informer.KeyOf(c.Object))
	}
	if err != nil {
		return false, fmt.Errorf("simulate %s of pod %s: %w", c.Type, informer.KeyOf(c.Object), err)
	}
	version, err := strconv.ParseUint(stored.ResourceVersion, 10, 64)
	if err != nil || version <= s.latest {
		return false, err // an update without a difference
	}
	s.latest = version
	s.writes[version%uint64(len(s.writes))] = written{version, at}
	return true, nil
}

// writtenAt returns when a version was written, if it is one of the latest.
func (s *simulation) writtenAt(resourceVersion string) (time.Time, bool) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writes[version%uint64(len(s.writes))]
	return w.at, err == nil && w.version == version
}

// check says to out that the informer's store has what the server has, or returns an error. Nobody may write meanwhile.
func (s *simulation) check(ctx context.Context, pods *informer.Informer[*corev1.Pod], out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := pods.WaitForResourceVersion(ctx, s.server.ResourceVersion()); err != nil {
		return fmt.Errorf("wait for the last change: %w", err)
	}
	store := pods.Store().Snapshot()
	for pod := range s.pods.All() {
		if have, ok := store.Get(informer.KeyOf(pod)); !ok || have.ResourceVersion != pod.ResourceVersion {
			return fmt.Errorf("store differs from server: no pod %s of version %s", informer.KeyOf(pod), pod.ResourceVersion)
		}
	}
	if store.Len() != s.pods.Len() {
		return fmt.Errorf("store differs from server: it has %d pods, not %d", store.Len(), s.pods.Len())
	}
	fmt.Fprintf(out, "store equals server: %s pods\n", thousands(store.Len()))
	return nil
}
