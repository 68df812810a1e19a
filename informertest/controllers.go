package informertest

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Controllers are parts of kube-controller-manager, and of the rules of kube-apiserver that belong to them. A [Server]
// has those that are true. They know every resource that is registered.
//
// They run in one goroutine beside the requests, as in a cluster: a client may see what they have not cleaned up yet. In a
// testing/synctest bubble, they are done when synctest.Wait returns. [Server.Settle] waits for them. Unlike in a cluster,
// no webhook is asked about their writes.
type Controllers struct {
	// Namespaces gives namespaces their lifecycle. A client can create objects only in a namespace that exists and is not
	// being deleted. Deleting a namespace sets its phase to Terminating and deletes what is in it, pods first; then the
	// namespace goes. The resource namespaces must be registered. False means that a namespace is an object like any
	// other, and need not exist.
	Namespaces bool
	// GarbageCollection deletes objects whose owners are gone, by metadata.ownerReferences. A deletion by a client may ask
	// for the propagation policies Background, Foreground and Orphan. References to kinds that are not registered keep an
	// object. False means that owner references have no effect. As with a kube-apiserver alone, an object whose deletion
	// asks for Foreground or Orphan then stays until somebody removes the finalizer that it got. A Job or
	// ReplicationController stays too, unless its deletion asks for Background.
	GarbageCollection bool
	// GracefulPods gives pods on a node time to stop: deleting one marks it, with its grace period of 30 seconds, or what
	// the pod or the client says. It goes when somebody deletes it with a grace period of 0, as its kubelet does. False
	// means that pods go at once.
	GracefulPods bool
	// StopPods deletes each pod at the end of its grace period, in the place of a kubelet. It needs GracefulPods.
	StopPods bool
}

// controllers are the running controllers of a server.
type controllers struct {
	server *Server
	wake   chan struct{} // has an element if there are pending changes
	stops  map[types.UID]stop
	owned  owned

	mu      sync.Mutex // protects the fields below
	pending []change
	busy    bool // changes are being worked on
}

// change is a change of an object. old is nil if the object is new, and obj if it is gone.
type change struct {
	c        *collection
	old, obj object
}

func newControllers(server *Server) *controllers {
	return &controllers{server: server, wake: make(chan struct{}, 1), stops: map[types.UID]stop{}, owned: owned{}}
}

// noteLocked hands changes to the controllers.
func (k *controllers) noteLocked(changes ...change) {
	if k.server.options.Controllers == (Controllers{}) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = append(k.pending, changes...)
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run works on changes until ctx ends.
func (k *controllers) run(ctx context.Context) {
	for {
		batch := k.take()
		k.collectGarbage(batch)
		k.emptyNamespaces(batch)
		var due <-chan time.Time
		if next := k.stopPods(batch); !next.IsZero() {
			due = time.After(time.Until(next))
		}
		k.done()
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-due:
		}
	}
}

func (k *controllers) take() []change {
	k.mu.Lock()
	defer k.mu.Unlock()
	batch := k.pending
	k.pending, k.busy = nil, true
	return batch
}

func (k *controllers) done() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = false
}

// idle reports whether the controllers have nothing to do at present.
func (k *controllers) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.busy && len(k.pending) == 0
}

// member returns the first collection of some kin, or nil if the server does not serve them any more.
func (k *controllers) member(kin *kin) *collection {
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	if len(kin.members) == 0 {
		return nil
	}
	return kin.members[0]
}

// collections returns the collections of the server, one for each kind.
func (k *controllers) collections() (all []*collection) {
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	for _, c := range k.server.collections {
		if c.kin.members[0] == c {
			all = append(all, c)
		}
	}
	return all
}
