package kinds

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

// Status is the status of a [Set]. It is a copy.
type Status struct {
	Discovery Discovery
	// Members are the members, in the order in which they joined.
	Members []Member
}

// Discovery is the state of the discovery of a [Set].
type Discovery struct {
	// Count is the number of discoveries that succeeded, and LastSuccess the time of the last one. Each takes two
	// requests, or more from a server without aggregated discovery.
	Count       int
	LastSuccess time.Time
	// Failures is the number of failures since then. LastError is the last failure, and LastErrorTime its time. Nil means
	// that there was none. A success does not clear it.
	Failures      int
	LastError     error `json:"-"`
	LastErrorTime time.Time
	// Unknown are the groups and versions that the last discovery does not know, in the server's order. Their members
	// stay, and there may be more kinds.
	Unknown []Unknown
	// Informers are those of CustomResourceDefinitions and APIServices. If one is not synced, the set learns of changes
	// only every Config.DiscoverEvery.
	Informers []informer.InformerStatus
}

// record is what the set counts of its discoveries.
type record struct {
	Discovery
	logged  string // what was not known at the last line of log
	partial int    // discoveries in a row that lacked a part
}

// Member is the status of a member of a [Set].
type Member struct {
	// Kind is what discovery says about the kind, with the version that the set follows.
	Kind status.APIResource
	// Missing is since when discovery has lacked the kind, or its version. Zero means that it has it, or does not know.
	Missing time.Time
	// Wanted is true if Config.Select wants the kind. Holders is how many hold it.
	Wanted  bool
	Holders int
	// MemberStatus has the state of the member, and the status of its informer. Its name is that of the kind, such as
	// "deployments.apps".
	informer.MemberStatus
}

// State is what a member does: waiting for its turn, starting, unsynced, synced or ended. Its text is the name.
type State = status.MemberState

// States of a member.
const (
	// Waiting means that the member has not started: the set does not run, or enough others are in their first list.
	Waiting = status.MemberWaiting
	// Starting means that the member is in its first list.
	Starting = status.MemberStarting
	// Unsynced means that the first list has failed, or takes long. The member goes on, and others start meanwhile.
	Unsynced = status.MemberUnsynced
	// Synced means that the store has the whole collection. The state stays Synced when a watch breaks.
	Synced = status.MemberSynced
	// Ended means that the member has ended: by itself, or because the set has stopped.
	Ended = status.MemberEnded
)

// Status returns the present status of the set.
func (s *Set[T]) Status() Status {
	members := s.members.Status()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Status{Discovery: s.record.Discovery}
	if s.catalog != nil {
		all.Discovery.Unknown = slices.Clone(s.catalog.unknown)
	}
	for _, i := range s.changes.informers {
		all.Discovery.Informers = append(all.Discovery.Informers, i.Status())
	}
	for _, m := range members {
		kind, ok := s.kinds[m.ID]
		if !ok { // removed meanwhile
			continue
		}
		all.Members = append(all.Members, Member{
			Kind:    kind,
			Missing: s.missing[m.ID],
			Wanted:  s.config.Select == nil || s.config.Select(kind),
			Holders: s.holdersLocked(s.catalog, m.ID),

			MemberStatus: m.MemberStatus,
		})
	}
	return all
}

// Members returns the status of the members, for pages and metrics that show several sets.
func (s *Set[T]) Members() []informer.MemberStatus { return s.members.Members() }

// maxNamed is how many groups a line of log names.
const maxNamed = 10

// namesOf returns the names of groups and versions, for the log.
func namesOf(unknown []Unknown) string {
	var names []string
	for i, u := range unknown {
		if i == maxNamed {
			names = append(names, "…")
			break
		}
		names = append(names, cmp.Or(u.GroupVersion.String(), "core"))
	}
	return strings.Join(names, ",")
}
