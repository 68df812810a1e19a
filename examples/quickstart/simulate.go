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
	"github.com/typedinformer/informer/internal/test/fleet"
)

// simulation is a cluster in the process: an API server on loopback, and the changes of its pods.
type simulation struct {
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
	fleet  *fleet.Fleet
	rate   int          // changes per second
	loaded atomic.Int64 // pods of the fleet that the server has

	// held during each write, so that its handler finds the write's time; protects the fields below
	mu     sync.Mutex
	latest uint64           // version
	writes [1 << 16]written // the latest, by version modulo length
}

// written is the time at which the server got a version.
type written struct {
	version uint64
	time    time.Time
}

const (
	maxPods      = 1_000_000 // about 20 GB
	checkTimeout = 30 * time.Second
)

// newSimulation starts a server without pods.
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

// load creates the initial pods.
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
		if wait < -time.Second { // the machine slept, or is too slow: skip the missed changes
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

// write applies a change to the server, and reports whether it made a new version.
func (s *simulation) write(c fleet.Change) (bool, error) {
	c.Object.ResourceVersion = "" // the server sets its own
	c.Object.Finalizers = nil     // no controller here would remove them
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
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
		return false, err // an update that changes nothing
	}
	s.latest = version
	s.writes[version%uint64(len(s.writes))] = written{version, now}
	return true, nil
}

// writtenAt returns the time at which a version was written, if it is recent.
func (s *simulation) writtenAt(resourceVersion string) (time.Time, bool) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writes[version%uint64(len(s.writes))]
	return w.time, err == nil && w.version == version
}

// check prints to out that the store equals the server, or returns an error. There must be no writes meanwhile.
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
		return fmt.Errorf("store differs from server: it has %d pods instead of %d", store.Len(), s.pods.Len())
	}
	fmt.Fprintf(out, "store equals server: %s pods\n", thousands(store.Len()))
	return nil
}
