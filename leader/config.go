package leader

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
)

// Config is the configuration of an [Elector]. Only Namespace and Name are required. The durations have the names and
// defaults of client-go's leaderelection. All replicas should have the same ones.
type Config struct {
	// Namespace and Name are those of the Lease. The elector creates it. The service account needs the verbs get, create
	// and update for leases in the group coordination.k8s.io.
	Namespace, Name string
	// Identity is the name of this replica in the Lease. It must be unique: no other replica may have it, nor an earlier
	// process of this one. Empty means the host name, "_" and a random UUID.
	Identity string
	// LeaseDuration is how long other replicas wait after the last renewal that they saw, in whole seconds. Zero means 15
	// s.
	LeaseDuration time.Duration
	// RenewDeadline is the age of the lease at which the context of the work ends. The work must then return within
	// LeaseDuration - RenewDeadline - Margin. An informer.Controller does, if its calls of Reconcile return when their
	// context ends. Zero means two thirds of LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two renewals. A replica that does not lead waits 1 to 2.2 times as long between
	// two attempts. RenewDeadline must be at least twice as long. Zero means 2 s.
	RetryPeriod time.Duration
	// Recover makes the work survive an outage of the API server: if the lease is not renewed in time, the elector closes
	// this gate, and the work goes on. No other elector may have the same gate. All that must not happen on two replicas
	// needs a pass of the gate; see the section Outages of the package documentation. Nil means that the context of the
	// work ends.
	Recover *informer.Gate
	// Fatal is called when the work has not returned in time, and must not return. Nil means os.Exit(1).
	Fatal func()
	// Logger receives a record when this replica begins or stops leading, and when requests begin to fail. Nil means
	// slog.Default().
	Logger *slog.Logger
}

// Margin is how long before the end of the lease the work must have returned: one second. It covers clocks of different
// speeds, and the end of the process.
const Margin = lease.Margin

// complete sets the defaults. It returns an error that names the field that is wrong.
func (c *Config) complete() (err error) {
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 15 * time.Second
	}
	if c.RenewDeadline == 0 {
		c.RenewDeadline = c.LeaseDuration * 2 / 3
	}
	if c.RetryPeriod == 0 {
		c.RetryPeriod = 2 * time.Second
	}
	if c.Fatal == nil {
		c.Fatal = func() { os.Exit(1) }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case c.Namespace == "":
		return errors.New("Config.Namespace is empty")
	case c.Name == "":
		return errors.New("Config.Name is empty")
	}
	if c.Identity == "" {
		if c.Identity, err = lease.NewIdentity(); err != nil {
			return err
		}
	}
	return c.timing().Validate()
}

// timing returns the durations of the lease.
func (c *Config) timing() lease.Timing {
	return lease.Timing{LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RetryPeriod: c.RetryPeriod}
}

// requestTimeout leaves time for two requests before RenewDeadline.
func (c *Config) requestTimeout() time.Duration { return c.RenewDeadline / 2 }
