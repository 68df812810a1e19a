package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/examples/controller/website"
	"github.com/typedinformer/informer/informertest"
)

// simulation is a cluster in the process: an API server on loopback, users, and a controller of Deployments.
type simulation struct {
	server      *informertest.Server
	websites    *informertest.Collection[*website.Website]
	deployments *informertest.Collection[*appsv1.Deployment]
	services    *informertest.Collection[*corev1.Service]
	events      *informertest.Collection[*corev1.Event]
}

// simulate runs two replicas on a simulated cluster until ctx ends. It replaces the older one every 5 s.
func simulate(ctx context.Context, websites, workers int, log *slog.Logger, out io.Writer) error {
	s := informertest.NewServer(informertest.Options{})
	defer s.Close()
	informertest.Register[*coordinationv1.Lease](s,
		informertest.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases")})
	sim := &simulation{
		server: s,
		websites: informertest.Register[*website.Website](s,
			informertest.Resource{GroupVersionResource: website.Resource}),
		deployments: informertest.Register[*appsv1.Deployment](s,
			informertest.Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")}),
		services: informertest.Register[*corev1.Service](s,
			informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services")}),
		events: informertest.Register[*corev1.Event](s,
			informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("events")}),
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { sim.use(ctx, websites) })
	tasks.Go(func() { sim.rollOut(ctx) })

	var replicas []*replica
	var stops []context.CancelFunc
	start := func() error {
		r, err := newReplica(s.Config(), "default", "", workers, log)
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		tasks.Go(func() { _ = r.Run(running) })
		replicas, stops = append(replicas, r), append(stops, stop)
		return nil
	}
	for i := 0; ctx.Err() == nil; i++ {
		for len(replicas) < 2 {
			if err := start(); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "%3ds  %s\n", i, sim.line(replicas))
		second(ctx)
		if i%5 == 4 {
			stops[0]()
			replicas, stops = replicas[1:], stops[1:]
		}
	}
	return nil
}

// second waits for a second, and reports whether ctx is still alive.
func second(ctx context.Context) bool {
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// line returns the state as one line.
func (s *simulation) line(replicas []*replica) string {
	ready, refused, reconciles, conflicts, who := 0, 0, uint64(0), uint64(0), "nobody"
	for w := range s.websites.All() {
		if informer.HasCondition[*website.Website](website.Ready, "True")(w) {
			ready++
		} else if meta.IsStatusConditionFalse(w.Status.Conditions, website.Accepted) {
			refused++
		}
	}
	for _, r := range replicas {
		status := r.controller.Status()
		reconciles += status.Succeeded + status.Failed + status.BackedOff
		conflicts += status.BackedOff
		if status.Running {
			who = r.name()
		}
	}
	return fmt.Sprintf("websites: %d, %d ready, %d refused  children: %d deployments, %d services  reconciles: %d, %d to be retried  events: %d  leader: %s",
		s.websites.Len(), ready, refused, s.deployments.Len(), s.services.Len(), reconciles, conflicts, s.events.Len(), who)
}

// use creates websites, and then changes one ten times a second. Some ask for another website's host.
func (s *simulation) use(ctx context.Context, n int) {
	create := func(i int) {
		_, _ = s.websites.Create(&website.Website{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("site-", i)},
			Spec: website.Spec{Host: fmt.Sprintf("site-%d.example.com", i-i%10/9), Image: "web:1",
				Replicas: new(int32(1 + i%3))},
		})
	}
	for i := range n {
		create(i)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for version := 2; ; version++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		i := rand.IntN(n)
		key := informer.Key{Namespace: "default", Name: fmt.Sprint("site-", i)}
		w, ok := s.websites.Get(key)
		switch action := rand.IntN(10); {
		case !ok:
			create(i)
		case action == 0:
			_, _ = s.websites.Delete(key)
		case action == 1:
			_, _ = s.services.Delete(key) // someone else deletes a child
		default:
			w = w.DeepCopy()
			w.Spec.Image = fmt.Sprint("web:", version)
			_, _ = s.websites.Update(w) // fails if someone else was faster
		}
	}
}

// rollOut makes Deployments available.
func (s *simulation) rollOut(ctx context.Context) {
	for second(ctx) {
		for d := range s.deployments.All() {
			if d.Status.ObservedGeneration == d.Generation {
				continue
			}
			d = d.DeepCopy()
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n,
				AvailableReplicas: n}
			if _, err := s.deployments.Update(d); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				panic(err)
			}
		}
	}
}
