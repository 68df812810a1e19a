package set

import (
	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

// MemberStatus is the status of a member of a set.
type MemberStatus[ID comparable] struct {
	ID ID
	informer.MemberStatus
	// Wanted is true if Add or Want keeps the member, and Holders is how many hold it.
	Wanted  bool
	Holders int
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

// Members returns what Status returns, without IDs.
func (s *Set[ID, T]) Members() []informer.MemberStatus {
	all := s.Status()
	members := make([]informer.MemberStatus, len(all))
	for i, m := range all {
		members[i] = m.MemberStatus
	}
	return members
}

// statusOf returns the status of m without that of its informer.
func (s *Set[ID, T]) statusOf(m *member[ID, T]) MemberStatus[ID] {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := informer.MemberStatus{Name: m.name, Err: m.err}
	switch synced := m.informer.HasSynced(); {
	case m.phase == ended || m.phase == waiting && s.stopped:
		present.State = status.MemberEnded
	case m.phase == waiting:
		present.State = status.MemberWaiting
	case synced:
		present.State = status.MemberSynced
	case m.phase == starting:
		present.State = status.MemberStarting
	default:
		present.State = status.MemberUnsynced
	}
	return MemberStatus[ID]{ID: m.id, MemberStatus: present, Wanted: m.wanted, Holders: m.holders}
}
