package informer

import (
	"fmt"
	"strings"

	"github.com/typedinformer/informer/status"
)

// InformerStatus is the status of an [Informer].
type InformerStatus struct {
	// Resource is the collection, with the shard and the selections that the informer follows now.
	Resource Resource
	// Synced is true once the store has received the whole collection. It stays true.
	Synced bool
	// ResourceVersion is the resource version up to which the store is complete; see [Snapshot.ResourceVersion].
	ResourceVersion string
	// Objects is the number of objects in the store.
	Objects int
	// Undecodable is the number of objects whose newest version could not be decoded, or with LayoutCompact could not be
	// decoded again. Missing is the number of those that the store lacks: it has no older version of them, either.
	// Each version of an object whose name could not be decoded counts as another object, until the next list.
	Undecodable, Missing int
	// Memory is an estimate of the memory that the store takes, in bytes, from the sizes of 32 of its objects. They are
	// measured at most once a minute. Memory that objects share counts as often as among these 32.
	Memory int64
	// Reflectors has one status for each namespace of Resource, or one for all namespaces. With Selections, it has one for
	// each of them, in their order, and then one for each that SetSelections is removing.
	Reflectors []status.Reflector
	// Queued is the number of changes that wait to enter the store. Blocked is the number of reflectors that wait because
	// that queue is full.
	Queued, Blocked int
	// Audit is the status of the audits; see [Informer.Audit].
	Audit status.Audit
	// Handlers are the open subscriptions, in the order in which they joined.
	Handlers []status.Subscription
}

// MemberStatus is the status of a member of a set of informers: a cluster of package fleet, or a kind of package kinds.
type MemberStatus struct {
	// Name tells the member from the others of its set.
	Name  string
	State status.MemberState
	// Err is why the member has ended, or why it has no informer. Nil otherwise: the failures of a member that goes on are
	// in Informer.
	Err error `json:"-"`
	// Informer is the status of its informer. The handlers of the set are among its Handlers.
	Informer InformerStatus
}

// SourceName returns a unique name for Reflectors[i]: its namespace, or a text for its selection, such as "ns with
// labels app=web". It is empty for the only reflector of a whole collection.
func (s InformerStatus) SourceName(i int) string {
	switch selections := s.Resource.Selections; {
	case len(selections) == 0:
		return s.Reflectors[i].Namespace
	case i >= len(selections):
		return fmt.Sprintf("%s (removed, %d)", s.Reflectors[i].Namespace, i)
	default:
		return strings.TrimPrefix(strings.TrimPrefix(s.Resource.part(selections[i]).where(), " in"), " ")
	}
}

// Status returns the present status of the informer.
func (i *Informer[T]) Status() InformerStatus {
	snap := i.store.Snapshot()
	s := InformerStatus{
		Resource:        i.latest(),
		Synced:          i.HasSynced(),
		ResourceVersion: snap.ResourceVersion(),
		Objects:         snap.Len(),
		Memory:          i.engine.Memory(),
		Audit:           i.engine.Audits(),
		Handlers:        i.engine.Handlers(),
	}
	for failed := range snap.core().AllUndecodable("") {
		if s.Undecodable++; failed.Lacks {
			s.Missing++
		}
	}
	s.Reflectors, s.Queued, s.Blocked = i.engine.Reflectors()
	return s
}
