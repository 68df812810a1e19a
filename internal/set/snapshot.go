package set

import (
	"iter"
	"sync"

	"github.com/typedinformer/informer"
)

// Snapshot is the state of the stores of a [Set]. It never changes. The part of each member is a snapshot of its store:
// objects, indexes and resource version belong together. The parts are taken one after the other, so parts of different
// members may be of different moments. All methods are safe for concurrent use.
type Snapshot[ID comparable, T informer.Object] struct {
	parts  []snapshotPart[ID, T]
	byID   map[ID]*informer.Snapshot[T]
	byOnce sync.Once // makes byID
}

// snapshotPart is the part of a member.
type snapshotPart[ID comparable, T informer.Object] struct {
	id       ID
	snapshot *informer.Snapshot[T]
}

// Snapshot returns the present state of all members. It takes time proportional to their number.
func (s *Set[ID, T]) Snapshot() *Snapshot[ID, T] {
	members := s.all()
	all := &Snapshot[ID, T]{parts: make([]snapshotPart[ID, T], len(members))}
	for i, m := range members {
		all.parts[i] = snapshotPart[ID, T]{m.id, m.informer.Store().Snapshot()}
	}
	return all
}

// Members yields each member with its snapshot, in the order in which they joined the set.
func (s *Snapshot[ID, T]) Members() iter.Seq2[ID, *informer.Snapshot[T]] {
	return func(yield func(ID, *informer.Snapshot[T]) bool) {
		for _, p := range s.parts {
			if !yield(p.id, p.snapshot) {
				return
			}
		}
	}
}

// Member returns the snapshot of a member.
func (s *Snapshot[ID, T]) Member(id ID) (*informer.Snapshot[T], bool) {
	s.byOnce.Do(func() {
		s.byID = make(map[ID]*informer.Snapshot[T], len(s.parts))
		for _, p := range s.parts {
			s.byID[p.id] = p.snapshot
		}
	})
	snapshot, ok := s.byID[id]
	return snapshot, ok
}

// All yields every object with its member: the members in the order in which they joined, and the objects of each by
// namespace, then name.
func (s *Snapshot[ID, T]) All() iter.Seq2[ID, T] {
	return func(yield func(ID, T) bool) {
		for _, p := range s.parts {
			for obj := range p.snapshot.All() {
				if !yield(p.id, obj) {
					return
				}
			}
		}
	}
}

// Len returns the number of objects.
func (s *Snapshot[ID, T]) Len() (n int) {
	for _, p := range s.parts {
		n += p.snapshot.Len()
	}
	return n
}
