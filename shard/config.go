package shard

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
)

// Config is the configuration of a [Replica]. Only Namespace and Name are required. All replicas of a group must have
// the same Name, Namespace, Field and Slots. The durations have the names of client-go's leaderelection.
type Config struct {
	// Namespace and Name identify the group of replicas. Each replica has a Lease in Namespace, with Name as the value of
	// the label [GroupLabel] and as the beginning of its name. The service account needs the verbs list, watch, create,
	// get, update and delete for leases in the group coordination.k8s.io.
	Namespace, Name string
	// Identity is the name of this replica. It must be unique: no other replica may have it, nor an earlier process of
	// this one. Empty means the host name, "_" and a random UUID.
	Identity string
	// Field is the field whose hash decides which replica an object belongs to. Zero means the UID.
	Field informer.ShardField
	// Slots is the number of parts into which the objects are divided, a power of two from 1 to 4096. A replica has whole
	// slots. More slots make the shards more equal, but the requests of the informers longer: with n replicas, a shard has
	// about Slots / n ranges. Zero means 256, which is right for up to 30 replicas.
	Slots int
	// LeaseDuration is how long other replicas wait, after the last renewal that they saw, before they delete the Lease.
	// It must be in whole seconds. Zero means 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is the age of the lease at which the contexts of all calls of Reconcile end. They must return within
	// LeaseDuration - RenewDeadline - Margin. Zero means two thirds of LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals. Zero means a fifth of LeaseDuration.
	RetryPeriod time.Duration
	// Grace is the time from the loss of a slot to another replica to the end of the contexts of the calls of Reconcile
	// under way in that slot. The other replica waits until they have returned. Zero means 20 s. Negative means that the
	// contexts end at once.
	Grace time.Duration
	// StuckAfter is how long after Grace such a call may take to return. A call that takes longer is stuck. Its replica
	// then hands over its other slots, for at most HandOverTimeout, and stops renewing its lease, unless the call returns.
	// As after every lost lease, Fatal ends the process if calls do not return: nothing else frees the slots of stuck
	// calls. Zero means LeaseDuration - RenewDeadline - Margin, the time that calls have after a lost lease.
	StuckAfter time.Duration
	// ListTimeout is the time that a replica has to list the objects of a slot that it should own. After that, it yields
	// the slot to another replica, and takes it back when its list succeeds. If no other replica can list the objects
	// either, the first that succeeds owns the slot. ListTimeout should be longer than the lists of the informers take.
	// Zero means a minute.
	ListTimeout time.Duration
	// HandOverTimeout is how long a replica that leaves waits for the others to take over its slots, before it stops its
	// work. Zero means 10 s. Negative means that it does not wait.
	HandOverTimeout time.Duration
	// Fatal is called when calls of Reconcile have not returned in time after the lease was lost. It must not return. Nil
	// means os.Exit(1).
	Fatal func()
	// Logger receives a record for each change of the group or of the replica's slots, and when requests begin to fail.
	// Nil means slog.Default().
	Logger *slog.Logger
}

// Margin is how long before the end of the lease all work must have returned: one second. It allows for clocks of
// different speeds, and for the end of the process.
const Margin = lease.Margin

const (
	defaultSlots = 256
	maxSlots     = 4096
)

// complete sets the defaults. It returns an error that names the field that is wrong.
func (c *Config) complete() (err error) {
	setDefault(&c.Slots, defaultSlots)
	setDefault(&c.LeaseDuration, 15*time.Second)
	setDefault(&c.RenewDeadline, c.LeaseDuration*2/3)
	setDefault(&c.RetryPeriod, c.LeaseDuration/5)
	setDefault(&c.Grace, 20*time.Second)
	setDefault(&c.StuckAfter, c.timing().Grace())
	setDefault(&c.ListTimeout, time.Minute)
	setDefault(&c.HandOverTimeout, 10*time.Second)
	setDefault(&c.Logger, slog.Default())
	if c.Fatal == nil {
		c.Fatal = func() { os.Exit(1) }
	}
	if err := c.timing().Validate(); err != nil {
		return err
	}
	switch {
	case c.Namespace == "":
		return errors.New("Config.Namespace is empty")
	case c.Name == "":
		return errors.New("Config.Name is empty")
	case len(validation.IsValidLabelValue(c.Name)) > 0 || len(validation.IsDNS1123Subdomain(c.Name)) > 0:
		return fmt.Errorf("Config.Name is %q: it must be a valid label value and a valid beginning of the name of a Lease", c.Name)
	case c.Field != informer.ShardByUID && c.Field != informer.ShardByNamespace:
		return fmt.Errorf("Config.Field is %d: it must be ShardByUID or ShardByNamespace", c.Field)
	case c.Slots < 1 || c.Slots > maxSlots || bits.OnesCount(uint(c.Slots)) != 1:
		return fmt.Errorf("Config.Slots is %d: it must be a power of two from 1 to %d", c.Slots, maxSlots)
	case c.StuckAfter < 0:
		return fmt.Errorf("Config.StuckAfter is %v: it must not be negative", c.StuckAfter)
	case c.ListTimeout < 0:
		return fmt.Errorf("Config.ListTimeout is %v: it must not be negative", c.ListTimeout)
	}
	if c.Identity == "" {
		if c.Identity, err = lease.NewIdentity(); err != nil {
			return err
		}
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// timing returns the durations of the lease.
func (c *Config) timing() lease.Timing {
	return lease.Timing{LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RetryPeriod: c.RetryPeriod}
}

// requestTimeout leaves time for a second request before RenewDeadline, if the first one gets no response.
func (c *Config) requestTimeout() time.Duration { return (c.RenewDeadline - c.RetryPeriod) / 2 }

// group identifies the group of replicas.
func (c *Config) group() string { return c.Namespace + "/" + c.Name }

// leaseName returns the name of the replica's Lease. Identities may have characters that are invalid in a name.
func (c *Config) leaseName() string {
	return fmt.Sprintf("%s-%016x", c.Name, informer.HashOf(c.Identity))
}
