package leader

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
)

// claim is the claim of this replica to the Lease that all replicas share. Only one goroutine may use it at a time.
//
//	held by another -- unchanged for its duration, or released --> free -- acquire --> held by this replica -- release --> free
//	      ^                                                                                 |
//	      +------------------- renew: the Lease was deleted, or another holds it -----------+
type claim struct {
	record *lease.Record
	config *Config
	wall   func() time.Time // the wall clock, for the times that people read in the Lease
	read   time.Time        // when the Lease was last read; zero before the first time
	failed bool             // the last read failed
	back   time.Time        // when it was read after an outage, in which its holder may have been Paused; zero for none
}

func (e *Elector) newClaim() *claim {
	key := informer.Key{Namespace: e.config.Namespace, Name: e.config.Name}
	return &claim{record: lease.NewRecord(e.client, key, e.config.requestTimeout()), config: &e.config, wall: e.wall}
}

// acquire takes the lease if no other replica holds it, and reports whether it did. With Config.Recover, it counts the
// duration of the lease anew if the Lease could not be read for RenewDeadline: if the server was away, its holder comes
// first.
func (c *claim) acquire(ctx context.Context) (bool, error) {
	if err := c.record.Read(ctx); err != nil {
		c.failed = true
		return false, err
	}
	now, seen := time.Now(), c.record.Seen()
	if c.config.Recover != nil && c.failed && !c.read.IsZero() && now.Sub(c.read) >= c.config.RenewDeadline {
		c.back = now
	}
	c.read, c.failed = now, false
	unchanged := min(c.record.Unchanged(), now.Sub(c.back)) // a Paused holder has time to renew
	if c.holder() != "" && !c.own(seen) && unchanged < lease.Duration(seen, c.config.LeaseDuration) {
		return false, nil
	}
	err := c.record.Write(ctx, c.next(seen))
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another replica was faster
		return false, nil
	}
	return err == nil, err
}

// renew renews the lease. If another replica holds it, or if it was deleted, the error is lease.ErrTaken.
func (c *claim) renew(ctx context.Context) error { return c.record.Renew(ctx, c.own, c.next) }

// release lets another replica take the lease at once, if this one holds it.
func (c *claim) release(ctx context.Context) error {
	if err := c.record.Read(ctx); err != nil {
		return err
	}
	err := c.record.Renew(ctx, c.own, func(seen *coordinationv1.Lease) *coordinationv1.Lease {
		released := seen.DeepCopy()
		released.Spec.HolderIdentity = new("")
		released.Spec.LeaseDurationSeconds = new(int32(1)) // as client-go does; zero is not valid
		released.Spec.RenewTime = new(metav1.NewMicroTime(c.wall()))
		return released
	})
	if errors.Is(err, lease.ErrTaken) {
		return nil
	}
	return err
}

// next returns the Lease with this replica as the holder. Nil means that there is none yet.
func (c *claim) next(seen *coordinationv1.Lease) *coordinationv1.Lease {
	now := metav1.NewMicroTime(c.wall())
	next := &coordinationv1.Lease{}
	if seen != nil {
		next = seen.DeepCopy()
	}
	spec := &next.Spec
	if !c.own(seen) {
		spec.AcquireTime = &now
		if spec.LeaseTransitions == nil {
			spec.LeaseTransitions = new(int32)
		}
		if seen != nil {
			*spec.LeaseTransitions++
		}
	}
	spec.HolderIdentity = &c.config.Identity
	spec.LeaseDurationSeconds = new(int32(c.config.LeaseDuration / time.Second))
	spec.RenewTime = &now
	return next
}

// own reports whether this replica holds the Lease.
func (c *claim) own(seen *coordinationv1.Lease) bool { return lease.Holder(seen) == c.config.Identity }

// holder returns the identity of the holder. Empty means that there is none.
func (c *claim) holder() string { return lease.Holder(c.record.Seen()) }
