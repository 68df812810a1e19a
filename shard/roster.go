package shard

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
)

// roster is the group as a replica sees it: the Leases of all replicas, and when each of them last changed. A Lease of
// another replica is in one of these states:
//
//	          it changes
//	          +------+
//	          v      |
//	added --> present -- unchanged for its duration and a random wait --> expired -- the deletion succeeds --> gone
//	            ^                                                           |  ^
//	            +---------------- it changes -------------------------------+  | a RetryPeriod later, again
//	                                                                        +--+
//
// Its invariant is that it never finds a Lease expired that has changed within its duration: the time counts on the
// monotonic clock of this process, from when it received the change, and the Lease is deleted at the version that has
// not changed since. So the holder of the Lease, which counts from when it sent that version, has lost it before.
//
// Only delete and refresh send requests and wait for them. They need no lock; the lock of the session protects all
// else.
type roster struct {
	config     *Config
	api        *informer.TypedClient[*coordinationv1.Lease]
	leases     *informer.Informer[*coordinationv1.Lease]
	directory  directory
	observed   map[types.UID]observation // of the Leases in the store
	unreadable map[types.UID]bool        // Leases that cannot be read, and were reported
	replicas   []string
}

// observation is the last change of a Lease that this replica has seen.
type observation struct {
	version string
	time    time.Time
	patient time.Duration // a wait in addition to its duration, so that replicas do not all delete it at once
}

func newRoster(client *informer.Client, api *informer.TypedClient[*coordinationv1.Lease], c *Config) roster {
	return roster{
		config: c,
		api:    api,
		leases: informer.New(client, informer.Resource{
			GroupVersionResource: leasesResource,
			Namespaces:           []string{c.Namespace},
			LabelSelector:        GroupLabel + "=" + c.Name,
		}, informer.Config[*coordinationv1.Lease]{Logger: c.Logger}),
		observed:   map[types.UID]observation{},
		unreadable: map[types.UID]bool{},
	}
}

// observe records a change of a Lease.
func (r *roster) observe(lease *coordinationv1.Lease) {
	r.observed[lease.UID] = observation{lease.ResourceVersion, time.Now(), rand.N(r.config.RetryPeriod)}
}

// has reports whether the last change of a Lease was to a version.
func (r *roster) has(uid types.UID, version string) bool { return r.observed[uid].version == version }

// changed reports whether a Lease has changed in more than its renewal time.
func changed(old, lease *coordinationv1.Lease) bool {
	return slices.ContainsFunc([]string{layoutAnnotation, claimsAnnotation, generationAnnotation, leavingAnnotation,
		yieldsAnnotation}, func(name string) bool {
		return old.Annotations[name] != lease.Annotations[name]
	})
}

// read returns the group. uid is that of this replica's Lease. Since the caller has the lock, each Lease that was
// observed is in the store, or gone.
func (r *roster) read(uid types.UID) group {
	return r.directory.read(slices.Collect(r.leases.Store().All()), uid, r.config)
}

// note compares g with the last group. It returns whether it has other replicas, and why Leases cannot be read that
// were not reported yet.
func (r *roster) note(g *group) (other bool, unreadable []error) {
	var replicas []string
	for _, m := range g.members {
		replicas = append(replicas, m.identity)
		if m.cause != nil && !r.unreadable[m.uid] {
			r.unreadable[m.uid] = true
			unreadable = append(unreadable, m.cause)
		}
	}
	other = !slices.Equal(replicas, r.replicas)
	r.replicas = replicas
	return other, unreadable
}

// expired returns the other replicas whose Leases have expired. It returns them again after a RetryPeriod, if they are
// still there. The caller must call it again after the returned time at the latest.
func (r *roster) expired(g *group, uid types.UID) (expired []member, next time.Duration) {
	next = r.config.LeaseDuration
	for i, m := range g.members {
		if i == g.own || m.uid == uid {
			continue
		}
		o, ok := r.observed[m.uid]
		if !ok {
			continue // the handler is about to see it, and wakes steer
		}
		left := m.duration + o.patient - time.Since(o.time)
		if left > 0 || o.version != m.resourceVersion {
			next = min(next, max(left, 0)+time.Millisecond)
			continue
		}
		o.time, o.patient = time.Now(), -m.duration+r.config.RetryPeriod // try again then
		r.observed[m.uid] = o
		next = min(next, r.config.RetryPeriod)
		expired = append(expired, m)
	}
	for uid := range r.observed {
		if _, ok := r.directory.members[uid]; !ok {
			delete(r.observed, uid)
		}
	}
	return expired, next
}

// delete deletes a Lease, at a version unless that is empty. It needs no lock.
func (r *roster) delete(ctx context.Context, name string, uid types.UID, version string) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.requestTimeout())
	defer cancel()
	conditions := metav1.Preconditions{UID: &uid}
	if version != "" {
		conditions.ResourceVersion = &version
	}
	return r.api.Delete(ctx, informer.Key{Namespace: r.config.Namespace, Name: name},
		metav1.DeleteOptions{Preconditions: &conditions})
}

// refresh makes the informer of the Leases list again. It needs no lock.
func (r *roster) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.config.requestTimeout())
	defer cancel()
	_ = r.leases.SetShard(ctx, informer.Shard{}) // lists, because the shard is the same
}
