package leader

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/notfound"
)

// errTaken indicates that this replica no longer holds the lease.
var errTaken = errors.New("the Lease was deleted, or another replica holds it")

// lease is the Lease as this replica last saw it. Only one goroutine may use it at a time.
type lease struct {
	client *informer.TypedClient[*coordinationv1.Lease]
	config *Config
	seen   *coordinationv1.Lease // nil if it does not exist, or was not read yet
	since  time.Time             // when a response first contained the present spec. Only its monotonic clock is used
	stale  bool                  // the server may hold another version
	wall   func() time.Time      // the wall clock, for the times that people read in the Lease
}

// acquire takes the lease if no other replica holds it, and reports whether it did.
func (l *lease) acquire(ctx context.Context) (bool, error) {
	if err := l.read(ctx); err != nil {
		return false, err
	}
	if other := l.holder(); other != "" && other != l.config.Identity && time.Since(l.since) < l.duration() {
		return false, nil
	}
	err := l.write(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another replica was faster
		return false, nil
	}
	return err == nil, err
}

// renew renews the lease. If another replica holds it, or if it was deleted, the error is errTaken.
func (l *lease) renew(ctx context.Context) error {
	for range 2 {
		if l.stale {
			if err := l.read(ctx); err != nil {
				return err
			}
		}
		if l.holder() != l.config.Identity {
			return errTaken
		}
		switch err := l.write(ctx); {
		case notfound.Is(err):
			l.see(nil)
			return errTaken
		// a conflict may come from a change of metadata, or from a write whose response was lost
		case !apierrors.IsConflict(err):
			return err
		}
	}
	return errors.New("gave up: repeated conflicts updating the Lease")
}

// release lets another replica take the lease at once, if this one holds it.
func (l *lease) release(ctx context.Context) error {
	if err := l.read(ctx); err != nil || l.holder() != l.config.Identity {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.requestTimeout())
	defer cancel()
	released := l.seen.DeepCopy()
	released.Spec.HolderIdentity = new("")
	released.Spec.LeaseDurationSeconds = new(int32(1)) // as client-go does; zero is not valid
	released.Spec.RenewTime = new(metav1.NewMicroTime(l.wall()))
	updated, err := l.client.Update(ctx, released, metav1.UpdateOptions{})
	if err == nil {
		l.see(updated)
	}
	return err
}

// read reads the Lease from the server.
func (l *lease) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.requestTimeout())
	defer cancel()
	got, err := l.client.Get(ctx, informer.Key{Namespace: l.config.Namespace, Name: l.config.Name}, metav1.GetOptions{})
	switch {
	case notfound.Is(err):
		l.see(nil)
		return nil
	case err != nil:
		return err
	}
	l.see(got)
	return nil
}

// write makes this replica the holder, or renews its lease.
func (l *lease) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.requestTimeout())
	defer cancel()
	now := metav1.NewMicroTime(l.wall())
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.config.Namespace, Name: l.config.Name}}
	write := func() (*coordinationv1.Lease, error) { return l.client.Create(ctx, next, metav1.CreateOptions{}) }
	if l.seen != nil {
		next = l.seen.DeepCopy()
		write = func() (*coordinationv1.Lease, error) { return l.client.Update(ctx, next, metav1.UpdateOptions{}) }
	}
	spec := &next.Spec
	if l.holder() != l.config.Identity {
		spec.AcquireTime = &now
		if spec.LeaseTransitions == nil {
			spec.LeaseTransitions = new(int32)
		}
		if l.seen != nil {
			*spec.LeaseTransitions++
		}
	}
	spec.HolderIdentity = &l.config.Identity
	spec.LeaseDurationSeconds = new(int32(l.config.LeaseDuration / time.Second))
	spec.RenewTime = &now
	l.stale = true // unless the write succeeds
	written, err := write()
	if err == nil {
		l.see(written)
	}
	return err
}

// see notes the Lease of a response. Nil means that it does not exist.
func (l *lease) see(got *coordinationv1.Lease) {
	if l.seen == nil || got == nil || !equality.Semantic.DeepEqual(l.seen.Spec, got.Spec) {
		l.since = time.Now()
	}
	l.seen, l.stale = got, false
}

// holder returns the identity of the holder. Empty means that there is none.
func (l *lease) holder() string {
	if l.seen == nil || l.seen.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.seen.Spec.HolderIdentity
}

// duration is how long the holder may lead after a renewal: its own LeaseDuration.
func (l *lease) duration() time.Duration {
	if d := l.seen.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
		return time.Duration(*d) * time.Second
	}
	return l.config.LeaseDuration
}
