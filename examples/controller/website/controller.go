// Package website is a controller: each [Website] gets a Deployment and a Service.
//
//	controller.go  the informers, and which keys a change enqueues
//	reconcile.go   the reconciliation of one website
//	child.go       the reconciliation of its children
//	website.go     the type; crd.yaml, its definition
//
// It writes only differences: if nothing changes, it sends no request to the API server.
package website

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/reconcile"
	"github.com/typedinformer/informer/status"
)

const (
	// name is the name of the controller: as a field manager, in events and in labels.
	name = "website-controller"
	// finalizer makes the API server keep a deleted website until its children are gone.
	finalizer = "example.com/children"
	// managedBy is a label of all children. The informers select it, so that the cache does not hold every Deployment.
	managedBy = "app.kubernetes.io/managed-by"
	// instance is a label of all children, and of the pods: the name of their website.
	instance = "app.kubernetes.io/instance"
)

// Config is the configuration of a Controller. The zero value is right for most.
type Config struct {
	// Workers is the number of websites reconciled at the same time. Zero means 4.
	Workers int
	// Grace is how long reconciles under way may take when the controller stops. Zero means 20 s. After a lost lease, they
	// have less.
	Grace time.Duration
	// Logger logs failures. Nil means slog.Default().
	Logger *slog.Logger
}

// Controller reconciles websites on the leader. Its informers run on every replica, so a replica is up to date when it
// becomes the leader.
type Controller struct {
	*informer.Controller[informer.Key]
	group  *informer.Group
	client *informer.TypedClient[*Website]
	events *reconcile.Recorder

	// Websites follows the websites.
	Websites *informer.Informer[*Website]
	// byHost finds the websites that ask for a host.
	byHost      *informer.Index[*Website, string]
	deployments child[*appsv1.Deployment]
	services    child[*corev1.Service]
}

// New returns a controller of all websites that client can see. It writes events with a client of its own, so that they
// do not take the rate limit of the writes.
func New(client, events *informer.Client, config Config) (*Controller, error) {
	if config.Workers == 0 {
		config.Workers = 4
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	c := &Controller{
		group:  informer.NewGroup(client),
		client: informer.NewTypedClient[*Website](client, Resource),
	}
	var err error
	if c.events, err = reconcile.NewRecorder(events, reconcile.RecorderConfig{Component: name,
		Logger: config.Logger}); err != nil {
		return nil, err
	}
	if c.Websites, _, err = informer.Shared(c.group, informer.Resource{GroupVersionResource: Resource},
		informer.Config[*Website]{Logger: config.Logger}); err != nil {
		return nil, err
	}
	if c.deployments, err = newChild[*appsv1.Deployment](client, c.group,
		appsv1.SchemeGroupVersion.WithResource("deployments"), config.Logger); err != nil {
		return nil, err
	}
	if c.services, err = newChild[*corev1.Service](client, c.group, corev1.SchemeGroupVersion.WithResource("services"),
		config.Logger); err != nil {
		return nil, err
	}
	c.byHost = informer.NewIndex(c.Websites, func(w *Website) []string { return []string{w.Spec.Host} })

	// A change of a website enqueues it, and the websites that ask for its old or its new host.
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
			// The delay is per key, and at most a minute. The default limiter also has a bucket of 10 a second for all keys:
			// after an outage in which 2,000 keys failed, the last one would come 200 s later.
			RateLimiter: &informer.ExponentialLimiter[informer.Key]{Max: time.Minute},
		}),
		Reconcile:               c.reconcile,
		MaxConcurrentReconciles: config.Workers,
		Timeout:                 30 * time.Second, // for an API server that is down, or a late watch
		Grace:                   config.Grace,
		Logger:                  config.Logger,
	}
	c.Watch(informer.Enqueue(c.Websites, concerned, matters))
	c.Watch(informer.EnqueueOwner(c.deployments.informer, owner))
	c.Watch(informer.EnqueueOwner(c.services.informer, owner))
	return c, nil
}

var owner = informer.Owner{GroupKind: kind.GroupKind()}

// matters reports whether a change of a website needs a reconcile. Annotations and labels of others do not.
func matters(e informer.Event[*Website]) bool {
	return informer.GenerationChanged(e) ||
		e.Old.DeletionTimestamp.IsZero() != e.Object.DeletionTimestamp.IsZero() ||
		!slices.Equal(e.Old.Finalizers, e.Object.Finalizers) ||
		!equality.Semantic.DeepEqual(e.Old.Status, e.Object.Status)
}

// DebugPage returns a configuration of a page that shows the informers and the controller. It shows no objects.
func (c *Controller) DebugPage() debugpage.Config {
	return debugpage.Config{
		Groups:      []func() []informer.InformerStatus{c.group.Status},
		Controllers: []func() status.Controller{c.Status},
	}
}

// AddTo adds the controller to m, with its informers and its events.
func (c *Controller) AddTo(m *manager.Manager) error {
	return errors.Join(
		m.AddGroup("informers", c.group),
		m.Add(manager.Runnable{Name: "events", Run: c.events.Run, Phase: manager.EveryReplica}),
		m.AddController(c),
	)
}
