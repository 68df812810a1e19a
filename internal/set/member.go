package set

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/typedinformer/informer"
)

// member is an informer of a set.
//
//	waiting --> starting --> started --> ended
//	   |            |                      ^
//	   |            +----------------------+
//	   +--removed: it never runs           |
//	                      removed, or by itself
//
// One goroutine calls Run of its informer, and no other belongs to it: while it starts, one of the goroutines that
// start members waits for it.
type member[ID comparable, T informer.Object] struct {
	life
	id       ID
	informer *informer.Informer[T]

	// Set.mu protects the fields below.
	wanted  bool // by Add or Want
	holders int
	how     Removal                 // how to remove it when the last holder releases it
	next    *member[ID, T]          // has the same id, and starts when this one has ended; nil for none
	end     context.CancelCauseFunc // ends Run; nil before it starts
}

// life is the part of a member that does not depend on types. Set.mu protects phase and err.
type life struct {
	name   string
	begun  chan struct{} // closed when it has started, has ended, or will never start
	synced func() bool   // reports whether the informer is synced
	phase  phase
	err    error // why it ended by itself
}

type phase uint8

const (
	waiting  phase = iota // for its turn
	starting              // in its first list
	started               // with or without a first list
	ended
)

// beginLocked closes begun.
func (l *life) beginLocked() {
	select {
	case <-l.begun:
	default:
		close(l.begun)
	}
}

// get returns a member, which it adds if there is none. It needs turn.
func (s *Set[ID, T]) get(id ID, create func() *informer.Informer[T]) (*member[ID, T], error) {
	if m := s.find(id); m != nil {
		return m, nil
	}
	name := s.config.name(id)
	if s.stopped { // only turn changes it
		return nil, fmt.Errorf("%s: the set has stopped: %w", name, informer.ErrStopped)
	}
	var i *informer.Informer[T]
	if create != nil {
		i = create()
	}
	if i == nil {
		return nil, fmt.Errorf("%s: the set got no informer for it", name)
	}
	m := &member[ID, T]{life: life{name: name, begun: make(chan struct{}), synced: i.HasSynced}, id: id, informer: i}
	for _, p := range s.parts {
		p.join(m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[id] = m
	s.order = append(s.order, m)
	if before := s.ending[id]; before != nil {
		before.next = m
	} else {
		s.queue = append(s.queue, m)
		s.startLocked()
	}
	return m, nil
}

// errRemoved is why a member ends that was removed in silence.
var errRemoved = errors.New("the member was removed")

// drop removes m as m.how says. It needs turn. If m runs, ended does the rest.
func (s *Set[ID, T]) drop(m *member[ID, T]) {
	s.mu.Lock()
	delete(s.members, m.id)
	s.order = without(s.order, m)
	s.queue = without(s.queue, m)
	if before := s.ending[m.id]; before != nil && before.next == m {
		before.next = nil
	}
	runs := m.phase == starting || m.phase == started
	if runs {
		s.ending[m.id] = m
	}
	m.beginLocked()
	s.mu.Unlock()
	for _, p := range s.parts {
		p.leave(m, runs && m.how == Deliver)
	}
	if runs && m.how == Silent {
		m.end(errRemoved)
	} else {
		m.informer.Retire()
	}
}

// without returns a copy of members without m.
func without[ID comparable, T informer.Object](members []*member[ID, T], m *member[ID, T]) []*member[ID, T] {
	index := slices.Index(members, m)
	if index < 0 {
		return members
	}
	return slices.Concat(members[:index], members[index+1:])
}

// startPatience is how long the first list of a member may keep others from starting. A large list takes longer, but
// few members have one.
const startPatience = 5 * time.Second

// startLocked starts members that wait, if few enough are starting.
func (s *Set[ID, T]) startLocked() {
	if s.ctx == nil || s.stopped {
		return
	}
	for range min(len(s.queue), max(0, s.config.starts()-s.starting)) {
		s.starting++
		s.running.Go(s.start)
	}
}

// start starts members, one after the other, until none waits.
func (s *Set[ID, T]) start() {
	for {
		m, ctx := s.take()
		if m == nil {
			return
		}
		s.running.Go(func() { s.ended(m, m.informer.Run(ctx)) })
		patience, end := context.WithTimeoutCause(ctx, startPatience, errSlow)
		err := m.informer.WaitReadable(patience, 0)
		end()
		s.begun(m, err)
	}
}

var errSlow = fmt.Errorf("no answer within %v", startPatience)

// take takes a member that waits, which is about to run. If there is none, it returns nil, and the caller starts no
// more.
func (s *Set[ID, T]) take() (*member[ID, T], context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.starting--
		s.queue = nil // it may have been long
		return nil, nil
	}
	m := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	ctx, end := context.WithCancelCause(s.ctx)
	m.phase, m.end = starting, end
	return m, ctx
}

// begun records that m does not keep others from starting any longer. err is why it is not synced.
func (s *Set[ID, T]) begun(m *member[ID, T], err error) {
	s.mu.Lock()
	m.beginLocked()
	if m.phase == starting {
		m.phase = started
	}
	present := s.members[m.id] == m
	s.mu.Unlock()
	if present && errors.Is(err, errSlow) {
		s.config.logger().Warn("a member has not synced: others start without it", "member", m.name, "why", err)
	}
}

// ended records that m, whose Run returned err, has ended.
func (s *Set[ID, T]) ended(m *member[ID, T], err error) {
	m.end(nil)
	if !s.bury(m, err) && s.ctx.Err() == nil {
		s.config.logger().Error("a member has ended by itself", "member", m.name, "err", err)
	}
}

// bury records the end of m. If m was removed, bury returns true, removes what is left of it, and lets the next member
// with its id start.
func (s *Set[ID, T]) bury(m *member[ID, T], err error) (removed bool) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	m.phase = ended
	if s.ctx.Err() == nil {
		m.err = err
	}
	m.beginLocked()
	if s.ending[m.id] != m {
		s.mu.Unlock()
		return false
	}
	delete(s.ending, m.id)
	if next := m.next; next != nil {
		m.next = nil
		s.queue = append(s.queue, next)
		s.startLocked()
	}
	s.mu.Unlock()
	for _, p := range s.parts {
		p.leave(m, false)
	}
	return true
}
