package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/status"
)

// Config is the configuration of a [Manager]. The zero value runs without probes and without leader election.
type Config struct {
	// Probes serves /readyz and /livez, and /healthz, which is the same as /livez. Its Handler gets all other requests,
	// such as /metrics. If Addr is empty and Listener nil, no such server runs: Manager.Ready and Manager.Live are
	// handlers for a server of your own.
	Probes Server
	// Health configures the probes: their limits, who may see details, and further checks. The manager adds the
	// informers, groups and controllers that were added to it.
	Health health.Config
	// Elector decides when this replica leads. Nil means always.
	Elector *leader.Elector
	// CacheSyncTimeout is how long the informers that were added before Run may take to sync. After that, Run fails,
	// and names those that have not synced. Zero means no limit.
	CacheSyncTimeout time.Duration
	// GracefulShutdownTimeout is how long everything together may take to stop. It must exceed the Grace of each
	// controller that has set one, and should be less than the terminationGracePeriodSeconds of the pod. Zero means 30 s.
	// Negative means no limit.
	GracefulShutdownTimeout time.Duration
	// DrainDelay is how long the servers still accept connections after the stop has begun, while readiness fails. The
	// informers and the runnables on every replica run as long, because the servers may need them. Leader-only
	// runnables stop at once. The delay is part of GracefulShutdownTimeout, and must be less. Zero means none.
	//
	// Set it, to 5 s for example, if clients reach a server through a Service, as the API server reaches a webhook. A pod
	// receives its signal before all nodes know that it is no longer an endpoint, so new connections arrive for some
	// seconds. A preStop hook of the pod that sleeps has the same effect. Probes and metrics alone need no delay.
	DrainDelay time.Duration
	// Logger receives a record of each failure, and one when Run begins to stop. Nil means slog.Default().
	Logger *slog.Logger
}

const defaultShutdownTimeout = 30 * time.Second

// validate returns an error that names the field that is wrong.
func (c *Config) validate() error {
	switch {
	case c.CacheSyncTimeout < 0:
		return fmt.Errorf("Config.CacheSyncTimeout is %v: it must not be negative", c.CacheSyncTimeout)
	case c.DrainDelay < 0:
		return fmt.Errorf("Config.DrainDelay is %v: it must not be negative", c.DrainDelay)
	case c.GracefulShutdownTimeout > 0 && c.DrainDelay >= c.GracefulShutdownTimeout:
		return fmt.Errorf("Config.DrainDelay is %v: it must be less than GracefulShutdownTimeout, %v", c.DrainDelay,
			c.GracefulShutdownTimeout)
	}
	return nil
}

// Phase says when a [Runnable] runs. The package documentation gives the order.
type Phase uint8

const (
	// LeaderOnly runs when this replica leads, as a controller does. So it runs on one replica at a time.
	LeaderOnly Phase = iota
	// EveryReplica runs on all replicas, from when the informers have synced until the leader-only runnables have
	// returned.
	EveryReplica
	// Caches runs on all replicas, with the informers.
	Caches
	// Servers runs on all replicas, from before the informers until everything else has returned.
	Servers

	phases = iota
)

// String returns the name of the phase, such as "LeaderOnly".
func (p Phase) String() string {
	switch p {
	case LeaderOnly:
		return "LeaderOnly"
	case EveryReplica:
		return "EveryReplica"
	case Caches:
		return "Caches"
	case Servers:
		return "Servers"
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// Runnable is something that runs until its context ends.
type Runnable struct {
	// Name names the runnable in errors and logs. It is required.
	Name string
	// Run runs until ctx ends. If it returns an error, Manager.Run stops everything and returns the error. An error after
	// the end of ctx counts too, unless it wraps context.Canceled or the cause of ctx. If it returns nil before the end of
	// ctx, it is done; nothing stops, and it does not run again. It is required.
	Run func(ctx context.Context) error
	// Phase says when it runs. Zero means only while this replica leads.
	Phase Phase
	// WaitSynced waits until the runnable is ready for later phases. Only a runnable in Caches may have one. Nil means
	// ready at once.
	WaitSynced func(ctx context.Context) error
}

func (r *Runnable) validate() error {
	switch {
	case r.Name == "":
		return errors.New("Runnable.Name is empty")
	case r.Run == nil:
		return fmt.Errorf("%s: Runnable.Run is nil", r.Name)
	case r.Phase >= phases:
		return fmt.Errorf("%s: Runnable.Phase is %v, which does not exist", r.Name, r.Phase)
	case r.WaitSynced != nil && r.Phase != Caches:
		return fmt.Errorf("%s: Runnable.WaitSynced is set, but Phase is %v, not Caches", r.Name, r.Phase)
	}
	return nil
}

// Informer is an *informer.Informer[T] of any T.
type Informer interface {
	Run(ctx context.Context) error
	WaitSynced(ctx context.Context) error
	Status() informer.InformerStatus
}

// Controller is an *informer.Controller[K] of any K, or a type that embeds one.
type Controller interface {
	Run(ctx context.Context) error
	Status() status.Controller
}
