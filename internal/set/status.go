package set

import (
	"fmt"

	"github.com/typedinformer/informer"
)

// State is what a member of a set does.
type State uint8

const (
	// Waiting means that the member has not started: the set does not run, enough others are in their first list, or a
	// removed member with the same ID has not ended.
	Waiting State = iota
	// Starting means that the member is in its first list.
	Starting
	// Unsynced means that the first list has failed, or takes long. The member goes on, and others start meanwhile.
	Unsynced
	// Synced means that the store has the whole collection. The state stays Synced when a watch breaks.
	Synced
	// Ended means that the member has ended: by itself, or because the set has stopped.
	Ended
)

// String returns the name of the state, such as "Waiting".
func (s State) String() string {
	names := [...]string{"Waiting", "Starting", "Unsynced", "Synced", "Ended"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MemberStatus is the status of a member of a set.
type MemberStatus[ID comparable] struct {
	ID    ID
	Name  string
	State State
	// Wanted is true if Add or Want keeps the member, and Holders is how many hold it.
	Wanted  bool
	Holders int
	// Err is why the member has ended. Nil in other states. The failures of a member that goes on are in Informer.
	Err error `json:"-"`
	// Informer is the status of the informer. The handlers of the set are among its Handlers.
	Informer informer.InformerStatus
}

// Status returns the status of each member, in the order in which they joined. Members that were removed have none.
func (s *Set[ID, T]) Status() []MemberStatus[ID] {
	members := s.all()
	all := make([]MemberStatus[ID], len(members))
	for i, m := range members {
		all[i] = s.statusOf(m)
		all[i].Informer = m.informer.Status()
	}
	return all
}

// statusOf returns the status of m without that of its informer.
func (s *Set[ID, T]) statusOf(m *member[ID, T]) MemberStatus[ID] {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := MemberStatus[ID]{ID: m.id, Name: m.name, Wanted: m.wanted, Holders: m.holders, Err: m.err}
	switch synced := m.informer.HasSynced(); {
	case m.phase == ended || m.phase == waiting && s.stopped:
		status.State = Ended
	case m.phase == waiting:
		status.State = Waiting
	case synced:
		status.State = Synced
	case m.phase == starting:
		status.State = Starting
	default:
		status.State = Unsynced
	}
	return status
}
