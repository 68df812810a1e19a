// Package website is a controller: each [Website] gets a Deployment and a Service.
//
//	controller.go  what it follows, and which change is whose
//	reconcile.go   what it does about one website
//	child.go       how children are brought to what they should be
//	website.go     the type; crd.yaml, its definition
//
// It writes only what differs: when nothing changes, it asks the API server for nothing.
package website

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/typedinformer/informer"
)

const (
	// name is that of the controller: as a field manager, in events and in labels.
	name = "website-controller"
	// finalizer has the API server keep a deleted website until its children are gone.
	finalizer = "example.com/children"
	// managedBy is a label of all children. They are followed by it, so that the cache is not of every Deployment there is.
	managedBy = "app.kubernetes.io/managed-by"
)

// Config is the configuration of a Controller. The zero value is right for most.
type Config struct {
	// Workers is how many websites are reconciled at a time. Zero means 4.
	Workers int
	// Grace is how long reconciles under way may take when the controller ends. Zero means 3 s.
	Grace time.Duration
	// Logger is told of failures. Nil means slog.Default().
	Logger *slog.Logger
}

// Controller reconciles websites, while Run of the informer.Controller is under way. It follows the cluster, and its
// queue fills, while Follow is: a replica that does not lead is up to date when it comes to that.
type Controller struct {
	*informer.Controller[informer.Key]
	group  *informer.Group
	log    *slog.Logger
	client *informer.TypedClient[*Website]
	events *informer.TypedClient[*corev1.Event]

	// Websites follows the websites.
	Websites *informer.Informer[*Website]
	// byHost finds the websites that ask for a host.
	byHost      *informer.Index[*Website, string]
	deployments child[*appsv1.Deployment]
	services    child[*corev1.Service]
}

// New returns a controller of all websites that client can see.
func New(client *informer.Client, config Config) (*Controller, error) {
	if config.Workers == 0 {
		config.Workers = 4
	}
	if config.Grace == 0 {
		config.Grace = 3 * time.Second
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	c := &Controller{
		group:  informer.NewGroup(client),
		log:    config.Logger,
		client: informer.NewTypedClient[*Website](client, Resource),
		events: informer.NewTypedClient[*corev1.Event](client, corev1.SchemeGroupVersion.WithResource("events")),
	}
	var err error
	if c.Websites, _, err = informer.Shared(c.group, informer.Resource{GroupVersionResource: Resource}, informer.Config[*Website]{Logger: config.Logger}); err != nil {
		return nil, err
	}
	if c.deployments, err = newChild[*appsv1.Deployment](client, c.group, appsv1.SchemeGroupVersion.WithResource("deployments"), config.Logger); err != nil {
		return nil, err
	}
	if c.services, err = newChild[*corev1.Service](client, c.group, corev1.SchemeGroupVersion.WithResource("services"), config.Logger); err != nil {
		return nil, err
	}
	c.byHost = informer.NewIndex(c.Websites, func(w *Website) []string { return []string{w.Spec.Host} })

	// A website concerns itself, and those that ask for the host that it has, asks for, or no longer does.
	concerned := func(w *Website) []informer.Key {
		keys := []informer.Key{informer.KeyOf(w)}
		for other := range c.byHost.Lookup(w.Spec.Host) {
			keys = append(keys, informer.KeyOf(other))
		}
		return keys
	}
	c.Controller = &informer.Controller[informer.Key]{
		Name: name,
		Queue: informer.NewQueue(informer.QueueConfig[informer.Key]{
			Name: "websites",
			// Each key by itself, and no longer than a minute. The default has a bucket of 10 a second for all keys together
			// too: after an outage in which each of 2,000 keys has failed, the last would come 200 s later.
			RateLimiter: &informer.ExponentialLimiter[informer.Key]{Max: time.Minute},
		}),
		Reconcile:               c.reconcile,
		MaxConcurrentReconciles: config.Workers,
		Timeout:                 30 * time.Second, // an API server that is away, or a watch that is late
		Grace:                   config.Grace,
		Logger:                  config.Logger,
	}
	c.Watch(informer.Enqueue(c.Websites, concerned, matters))
	c.Watch(informer.EnqueueOwner(c.deployments.informer, owner))
	c.Watch(informer.EnqueueOwner(c.services.informer, owner))
	return c, nil
}

var owner = informer.Owner{GroupKind: GroupKind}

// matters says whether a change of a website is one to look at: annotations and labels that others keep there are not.
func matters(e informer.Event[*Website]) bool {
	return informer.GenerationChanged(e) ||
		e.Old.DeletionTimestamp.IsZero() != e.Object.DeletionTimestamp.IsZero() ||
		!slices.Equal(e.Old.Finalizers, e.Object.Finalizers) ||
		!equality.Semantic.DeepEqual(e.Old.Status, e.Object.Status)
}

// Follow runs the informers until ctx ends.
func (c *Controller) Follow(ctx context.Context) error {
	if err := c.group.Run(ctx); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return nil
}
