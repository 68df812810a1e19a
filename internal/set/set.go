// Package set runs many informers as one. The members of a set come and go while it runs: every kind of a cluster, or
// one kind of many clusters. Each member is an informer with an identifier, which knows nothing of the set.
//
//	Add, Hold, Want -> member waits -> starts -> runs ------------> removed
//	                   for its turn    until its first list,        its handlers receive deletions,
//	                                   a failure, or a timeout      if that is asked for
//
// Handlers, indexes and queues of a set have the objects of all members, with the identifier beside each object. They
// join each member before it starts, so they miss nothing.
//
// # Order
//
// Calls of a handler for one member come one after the other, in the order of its changes. Calls for different
// members may be concurrent. If a member is removed and added again, the calls for the new one follow those for the
// old one: the new one starts when the old one has ended.
//
// # Locks
//
// The lock order is: Set.turn, then Set.mu, then that of a subscription. Set.turn serializes changes of the members and
// of what joins them; with it, the set calls the functions that make informers, and adds the objects of members to new
// subscriptions and indexes. Set.mu is held for a moment only. No lock is held while anything waits for a handler or a
// server. So handlers may call every method of a set but Run.
package set

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/typedinformer/informer"
)

// Config describes a [Set]. The zero value is right for most.
type Config[ID comparable, T informer.Object] struct {
	// Name returns the name of a member, which appears in errors, logs and status. Nil means the text of its ID.
	Name func(ID) string
	// Starts is how many members may be in their first list at once. Zero means 8.
	Starts int
	// Known is closed when the set has its first members. Until then, nothing is synced: a set without members may be one
	// that does not know them yet. Nil means that they are known.
	Known <-chan struct{}
	// Logger receives a line for each member that does not start in time, or that ends by itself. Informers have loggers
	// of their own. Nil means slog.Default.
	Logger *slog.Logger
}

const defaultStarts = 8

func (c *Config[ID, T]) name(id ID) string {
	if c.Name == nil {
		return fmt.Sprint(id)
	}
	return c.Name(id)
}

func (c *Config[ID, T]) starts() int {
	if c.Starts <= 0 {
		return defaultStarts
	}
	return c.Starts
}

func (c *Config[ID, T]) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.Default()
	}
	return c.Logger
}

// Removal says what handlers receive when a member is removed.
type Removal uint8

const (
	// Deliver gives handlers what they have not received yet, and then a deletion with final=false for each object of the
	// member. A member that has ended by itself, such as one with a wrong configuration, has no handlers any more.
	Deliver Removal = iota
	// Silent gives handlers nothing: from the removal on, no call for the member begins.
	Silent
)

// String returns "Deliver" or "Silent".
func (r Removal) String() string {
	switch r {
	case Deliver:
		return "Deliver"
	case Silent:
		return "Silent"
	}
	return fmt.Sprintf("Removal(%d)", uint8(r))
}

// ErrPresent indicates that a set has the member already.
var ErrPresent = errors.New("the set has it already")

// Set runs informers, which come and go. Create one with [New]. All methods are safe for concurrent use.
type Set[ID comparable, T informer.Object] struct {
	config  Config[ID, T]
	running sync.WaitGroup // members that run, and goroutines that start some
	over    chan struct{}  // closed when Run has returned

	turn  sync.Mutex    // protects parts; see the comment of the package
	parts []part[ID, T] // what each member joins

	mu       sync.Mutex // protects the fields below; changes of the members also need turn
	members  map[ID]*member[ID, T]
	order    []*member[ID, T]      // as they joined; a reader may keep it, since it only grows or is replaced
	ending   map[ID]*member[ID, T] // removed, and still running
	queue    []*member[ID, T]      // those that wait for their turn to start
	starting int                   // goroutines that start members
	ctx      context.Context       // of the members; nil before Run
	stopped  bool                  // Run has returned, or is about to: no member starts any more
}

// part is what each member joins: a subscription or an index. The set calls it with turn.
type part[ID comparable, T informer.Object] interface {
	// join adds a member before it starts. A new part also joins members that have started.
	join(m *member[ID, T])
	// leave removes a member. If delivers is true, its handlers still receive what it has for them. The set then calls
	// leave again when the member has ended.
	leave(m *member[ID, T], delivers bool)
}

// New returns a set without members. It starts no goroutine; Run does.
func New[ID comparable, T informer.Object](c Config[ID, T]) *Set[ID, T] {
	if c.Known == nil {
		known := make(chan struct{})
		close(known)
		c.Known = known
	}
	return &Set[ID, T]{
		config:  c,
		over:    make(chan struct{}),
		members: map[ID]*member[ID, T]{},
		ending:  map[ID]*member[ID, T]{},
	}
}

// Run runs the members, also those that are added later, until ctx ends. It returns the cause of ctx, once all members
// have stopped and no handler is called any more. Their stores stay readable. A set runs once: later calls return an
// error that wraps [informer.ErrRunning].
func (s *Set[ID, T]) Run(ctx context.Context) error {
	own, end := context.WithCancel(ctx) // so that members need no goroutine each, whatever ctx is
	defer end()
	if err := s.begin(own); err != nil {
		return err
	}
	<-ctx.Done()
	s.stop()
	s.running.Wait()
	close(s.over)
	return context.Cause(ctx)
}

func (s *Set[ID, T]) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil {
		return fmt.Errorf("set: %w", informer.ErrRunning)
	}
	s.ctx = ctx
	s.startLocked()
	return nil
}

// stop ends the members that have not started. The context ends the others, perhaps in a moment: Retire would empty
// their stores.
func (s *Set[ID, T]) stop() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	s.stopped, s.queue = true, nil
	var never []*member[ID, T]
	for _, m := range s.order {
		m.beginLocked()
		if m.phase == waiting {
			never = append(never, m)
		}
	}
	s.mu.Unlock()
	for _, m := range never {
		m.informer.Retire()
	}
}

// Add adds a member, whose informer create returns. The informer must not have been started. If the set runs, it starts
// the informer as soon as few enough others are in their first list.
//
// The error wraps [ErrPresent] if the set has the member, and [informer.ErrStopped] if the set has stopped. Otherwise
// Add fails only if create is nil or returns nil: an informer with a wrong configuration is a member, whose error
// WaitSynced and Status return. If the set has the member because somebody holds it, Add keeps it beyond that, and does
// not call create.
//
// create must not call methods of the set that change it.
func (s *Set[ID, T]) Add(id ID, create func() *informer.Informer[T]) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.want(id, create)
}

// want is Add, with turn.
func (s *Set[ID, T]) want(id ID, create func() *informer.Informer[T]) error {
	m, err := s.get(id, create)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.wanted {
		return fmt.Errorf("%s: %w", m.name, ErrPresent)
	}
	m.wanted = true
	return nil
}

// Remove removes a member that Add or Want has added. It returns false if there is none. The member is not in the set
// any more when Remove returns, unless somebody holds it: then it stays until the last release. Remove does not wait
// for the end of the member.
func (s *Set[ID, T]) Remove(id ID, how Removal) bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	m := s.find(id)
	if m == nil || !m.wanted { // only turn changes wanted
		return false
	}
	s.unwant(m, how)
	return true
}

// unwant removes a wanted member, unless somebody holds it. It needs turn.
func (s *Set[ID, T]) unwant(m *member[ID, T], how Removal) {
	s.mu.Lock()
	m.wanted, m.how = false, how
	held := m.holders > 0
	s.mu.Unlock()
	if !held {
		s.drop(m)
	}
}

// Want makes the set have exactly these members, beside those that somebody holds: it adds those that it lacks, in the
// order of their names, and removes others, as [Set.Remove] does. A member that has ended by itself does not start
// again. A function that returns nil adds none. After the set has stopped, Want does nothing.
func (s *Set[ID, T]) Want(ids map[ID]func() *informer.Informer[T], how Removal) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.stopped { // only turn changes it
		return
	}
	for _, m := range s.all() {
		if _, ok := ids[m.id]; !ok && m.wanted {
			s.unwant(m, how)
		}
	}
	type named struct {
		name string
		id   ID
	}
	var added []named
	for id := range ids {
		if m := s.find(id); m == nil || !m.wanted {
			added = append(added, named{s.config.name(id), id})
		}
	}
	slices.SortFunc(added, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	for _, a := range added {
		_ = s.want(a.id, ids[a.id])
	}
}

// Hold returns the informer of a member, and a function that releases it. The member is the next one to start. While
// somebody holds a member, nothing removes it. If the set does not have the member, Hold adds it, as Add does, but
// the last release removes it, with deletions for the handlers. If Remove or Want has been asked to remove it
// meanwhile, the last release does that. release does not wait for the end of the informer. Calling it again does
// nothing.
//
// Hold fails as Add does, but not because the set has the member.
func (s *Set[ID, T]) Hold(id ID, create func() *informer.Informer[T]) (*informer.Informer[T], func(), error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	m, err := s.get(id, create)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.holders++
	if i := slices.Index(s.queue, m); i > 0 { // somebody waits for it
		s.queue = slices.Concat([]*member[ID, T]{m}, s.queue[:i], s.queue[i+1:])
	}
	return m.informer, sync.OnceFunc(func() { s.release(m) }), nil
}

// release ends a Hold of m.
func (s *Set[ID, T]) release(m *member[ID, T]) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	m.holders--
	unused := m.holders == 0 && !m.wanted
	s.mu.Unlock()
	if unused {
		s.drop(m)
	}
}

// Informer returns the informer of a member.
func (s *Set[ID, T]) Informer(id ID) (i *informer.Informer[T], ok bool) {
	if m := s.find(id); m != nil {
		return m.informer, true
	}
	return nil, false
}

// ErrNotMember indicates that a set does not have a member.
var ErrNotMember = errors.New("the set does not have it")

// Store returns the store of a member. If the set does not have the member, the error names it and wraps
// [ErrNotMember].
func (s *Set[ID, T]) Store(id ID) (*informer.Store[T], error) {
	if m := s.find(id); m != nil {
		return m.informer.Store(), nil
	}
	return nil, fmt.Errorf("%s: %w", s.config.name(id), ErrNotMember)
}

// find returns a member, or nil.
func (s *Set[ID, T]) find(id ID) *member[ID, T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[id]
}

// all returns all members, in the order in which they joined. The caller must not write to the result.
func (s *Set[ID, T]) all() []*member[ID, T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order
}
