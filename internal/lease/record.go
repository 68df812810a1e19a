package lease

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/notfound"
	"github.com/typedinformer/informer/internal/object"
)

// ErrTaken indicates that the Lease is no longer that of this process.
var ErrTaken = errors.New("the Lease was deleted, or another replica holds it")

var errConflicts = errors.New("gave up: repeated conflicts updating the Lease")

// Client sends requests for Leases. An informer.TypedClient does, which this package is below.
type Client interface {
	Get(ctx context.Context, key object.Key, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// Record is a Lease on the server, as the last response shows it.
//
//	          Read or Write: does not exist               Write: AlreadyExists
//	absent <------------------------------- present --+   is an error, and Read shows the Lease
//	   |                                     ^   ^    | Write: a conflict
//	   +--------- Read or Write -------------+   |    v
//	                                             +-- stale: Renew reads it again before the next write
//	                                            Read
//
// Its invariant is that each write names the version that this process has seen, so it never overwrites what another
// process has written since. It does not matter whether the server has executed a request without a response: if so,
// the next write is a conflict, and what Read then shows is its own.
//
// One goroutine at a time may use it.
type Record struct {
	client  Client
	key     object.Key
	timeout time.Duration         // of each request
	seen    *coordinationv1.Lease // nil if it does not exist, or was not read yet
	changed time.Time             // when a response first had the present spec. Only its monotonic clock is used
	stale   bool                  // the server has another version
}

// NewRecord returns the record of a Lease that was not read. Each of its requests has a timeout.
func NewRecord(client Client, key object.Key, timeout time.Duration) *Record {
	return &Record{client: client, key: key, timeout: timeout}
}

// Seen returns the Lease. Nil means that it does not exist, or was not read. The caller must not change it.
func (r *Record) Seen() *coordinationv1.Lease { return r.seen }

// Unchanged returns for how long responses have had the same spec.
func (r *Record) Unchanged() time.Duration { return time.Since(r.changed) }

// Forget makes the next write create the Lease.
func (r *Record) Forget() { r.see(nil) }

// Read reads the Lease. It is not an error if it does not exist.
func (r *Record) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	switch got, err := r.client.Get(ctx, r.key, metav1.GetOptions{}); {
	case err == nil:
		r.see(got)
	case notfound.Is(err):
		r.see(nil)
	default:
		return err
	}
	return nil
}

// Write creates the Lease, or updates it at the version that was seen. It sets the name of next, its UID and its
// version. It returns the errors of the server; after a conflict, the caller should read or [Record.Renew].
func (r *Record) Write(ctx context.Context, next *coordinationv1.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	next.Namespace, next.Name = r.key.Namespace, r.key.Name
	next.UID, next.ResourceVersion = "", ""
	var written *coordinationv1.Lease
	var err error
	if r.seen == nil {
		written, err = r.client.Create(ctx, next, metav1.CreateOptions{})
	} else {
		next.UID, next.ResourceVersion = r.seen.UID, r.seen.ResourceVersion
		written, err = r.client.Update(ctx, next, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		r.see(written)
	case apierrors.IsConflict(err):
		r.stale = true
	case notfound.Is(err):
		r.see(nil)
	}
	return err
}

// Renew updates the Lease of this process. own reports whether a Lease that was read is that of this process. next
// receives the Lease as it was last seen, and returns the Lease to write. Renew returns ErrTaken if the Lease was
// deleted, or is that of another process.
// After a conflict it reads the Lease and writes again, once: the conflict may come from a change of metadata, or from
// a write whose response was lost.
func (r *Record) Renew(ctx context.Context, own func(*coordinationv1.Lease) bool,
	next func(seen *coordinationv1.Lease) *coordinationv1.Lease) error {
	for range 2 {
		if r.stale {
			if err := r.Read(ctx); err != nil {
				return err
			}
		}
		if r.seen == nil || !own(r.seen) {
			return ErrTaken
		}
		switch err := r.Write(ctx, next(r.seen)); {
		case notfound.Is(err):
			return ErrTaken
		case !apierrors.IsConflict(err):
			return err
		}
	}
	return errConflicts
}

// see notes the Lease of a response. Nil means that it does not exist.
func (r *Record) see(got *coordinationv1.Lease) {
	if r.seen == nil || got == nil || !equality.Semantic.DeepEqual(r.seen.Spec, got.Spec) {
		r.changed = time.Now()
	}
	r.seen, r.stale = got, false
}

// Holder returns the identity of the holder. Empty means that there is none.
func Holder(l *coordinationv1.Lease) string {
	if l == nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// Duration returns how long the holder of l has it after a renewal, or otherwise if l does not say that.
func Duration(l *coordinationv1.Lease, otherwise time.Duration) time.Duration {
	if d := l.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
		return time.Duration(*d) * time.Second
	}
	return otherwise
}
