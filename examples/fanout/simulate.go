package main

import (
	"context"
	"fmt"
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
}

func newSimulation(pods int) *simulation {
	server := informertest.NewServer(informertest.Options{})
	return &simulation{
		server: server,
		pods: informertest.Register[*corev1.Pod](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		}),
		fleet: fleet.New(fleet.Config{Pods: pods}),
	}
}

// run creates the pods, and then makes rate changes a second until ctx ends.
func (s *simulation) run(ctx context.Context, rate int) error {
	for pod := range s.fleet.All() {
		if ctx.Err() != nil {
			return nil
		}
		if err := s.write(fleet.Change{Type: watch.Added, Object: pod}); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for change := range s.fleet.Changes(0) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if err := s.write(change); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) write(c fleet.Change) (err error) {
	c.Object.ResourceVersion = "" // the server sets its own
	c.Object.Finalizers = nil     // no controller here would remove them
	switch c.Type {
	case watch.Added:
		_, err = s.pods.Create(c.Object)
	case watch.Modified:
		_, err = s.pods.Update(c.Object)
	case watch.Deleted:
		_, err = s.pods.Delete(informer.KeyOf(c.Object))
	}
	if err != nil {
		return fmt.Errorf("simulate %s of pod %s: %w", c.Type, informer.KeyOf(c.Object), err)
	}
	return nil
}
