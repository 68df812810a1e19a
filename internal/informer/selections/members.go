package selections

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
)

// Member is a running part of a union with content C.
type Member[T object.Object, C Content[T]] interface {
	Part[T]
	// Run runs until ctx ends, and returns its cause, or the error that ended it.
	Run(ctx context.Context) error
	// Arrived reports whether the content has the first list of the member, or does not wait for it.
	Arrived() bool
	// Added is called when the member has become a part.
	Added(C)
	// Dropped is called when the member has ceased to be a part. It returns its objects.
	Dropped(C) (objects []T)
}

// Members are the members M of a union with content C, one for each wanted selection S. [NewMembers] returns them. All
// methods are safe for concurrent use, except those of Union, which must be called within Step.
//
// Lock order: mu, then that of Step.
type Members[S comparable, T object.Object, C Content[T], M Member[T, C]] struct {
	config Config[S, T, C, M]
	*Union[T]
	unclear chan struct{} // holds a token if the union may have questions

	mu      sync.Mutex // protects the fields below
	members []*running[S, M]
	start   func(*running[S, M]) // runs a member; nil before Run and after it
	loaded  bool                 // Loaded was called
	changed chan struct{}        // closed when a member arrives or is dropped
}

// Config has the callbacks of Members.
type Config[S comparable, T object.Object, C Content[T], M Member[T, C]] struct {
	// Make returns the member for a selection. It does not run yet.
	Make func(S) (M, error)
	// Step makes one step of the content. It calls do, with a lock.
	Step func(do func(C))
	// Loaded is called once, when every member has arrived for the first time.
	Loaded func()
	// Lacked asks the server about q. It returns a version at which no part of the union has the object, or "" if one has.
	Lacked func(ctx context.Context, q Question) (version string, err error)
}

// running is a member and its selection.
type running[S comparable, M any] struct {
	member    M
	selection S
	leaves    bool // no longer wanted: to be dropped when the others have arrived
	stop      context.CancelCauseFunc
}

// NewMembers returns an empty union.
func NewMembers[S comparable, T object.Object, C Content[T], M Member[T, C]](
	c Config[S, T, C, M]) *Members[S, T, C, M] {
	return &Members[S, T, C, M]{config: c, Union: New[T](), unclear: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Want makes the union have a member for each of these selections. Members that are no longer wanted stay until all
// wanted ones have arrived. If Make fails for a selection, Want returns the error and changes nothing.
func (s *Members[S, T, C, M]) Want(wanted []S) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make([]*running[S, M], len(wanted))
	var added []*running[S, M]
	for i, selection := range wanted {
		index := slices.IndexFunc(s.members, func(m *running[S, M]) bool { return m.selection == selection })
		if index >= 0 {
			next[i] = s.members[index]
			continue
		}
		m, err := s.config.Make(selection)
		if err != nil {
			return err
		}
		next[i] = &running[S, M]{member: m, selection: selection}
		added = append(added, next[i])
	}
	for _, m := range s.members {
		if m.leaves = !slices.Contains(wanted, m.selection); m.leaves {
			next = append(next, m)
		}
	}
	s.members = next
	for _, m := range added {
		s.config.Step(func(content C) {
			s.Add(m.member)
			m.member.Added(content)
		})
		if s.start != nil {
			s.start(m)
		}
	}
	s.settleLocked()
	return nil
}

// Settle checks whether the members have arrived. It must be called when one of them arrives.
func (s *Members[S, T, C, M]) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
}

// settleLocked drops members that are no longer wanted, if all others have arrived.
func (s *Members[S, T, C, M]) settleLocked() {
	if s.start == nil {
		return
	}
	if slices.ContainsFunc(s.members, func(m *running[S, M]) bool { return !m.leaves && !m.member.Arrived() }) {
		return
	}
	for _, m := range s.members {
		if m.leaves {
			s.drop(m)
		}
	}
	s.members = slices.DeleteFunc(s.members, func(m *running[S, M]) bool { return m.leaves })
	if !s.loaded {
		s.loaded = true
		s.config.Loaded()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// errDropped ends a member that is no longer wanted.
var errDropped = errors.New("the selection is no longer wanted")

func (s *Members[S, T, C, M]) drop(m *running[S, M]) {
	if m.stop != nil {
		m.stop(errDropped)
	}
	s.config.Step(func(content C) {
		s.Remove(m.member, m.member.Dropped(content), content)
	})
	s.Changed()
}

// Settled reports whether the union has exactly the members of the last Want, and all of them have arrived. If not, it
// returns a channel that is closed when the answer may have changed. Before and after Run, it returns false.
func (s *Members[S, T, C, M]) Settled() (ok bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := func(m *running[S, M]) bool { return m.leaves || !m.member.Arrived() }
	return s.start != nil && !slices.ContainsFunc(s.members, waits), s.changed
}

// All returns the members, the wanted ones first, and the selections of the wanted ones. Both are in the order of Want.
func (s *Members[S, T, C, M]) All() (all []M, wanted []S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if all = append(all, m.member); !m.leaves {
			wanted = append(wanted, m.selection)
		}
	}
	return all, wanted
}

// Run runs the members until ctx ends or one of them does, and returns the cause. When it returns, all have ended.
func (s *Members[S, T, C, M]) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var members sync.WaitGroup
	start := func(m *running[S, M]) {
		var own context.Context
		own, m.stop = context.WithCancelCause(ctx)
		members.Go(func() {
			if err := m.member.Run(own); !errors.Is(err, errDropped) {
				end(err)
			}
		})
	}
	s.mu.Lock()
	s.start = start
	for _, m := range s.members {
		start(m)
	}
	s.settleLocked()
	s.mu.Unlock()
	s.ask(ctx)
	s.mu.Lock()
	s.start = nil
	s.mu.Unlock()
	members.Wait()
	return context.Cause(ctx)
}

// Changed must be called after a member has reported a change.
func (s *Members[S, T, C, M]) Changed() { run.Signal(s.unclear) }

const (
	// askAfter is how long to wait before asking the server whether an object that no member has is gone. Members usually
	// know earlier.
	askAfter = time.Second
	// maxQuestions is the maximum number of questions at a time. For more, waiting for the bookmarks of the members, about
	// once a minute, is soon faster.
	maxQuestions = 20
	// askAgainAfter is how long to wait before repeating questions that the server did not answer.
	askAgainAfter = 15 * time.Second
)

// ask asks the server about objects that no member has any more, until ctx ends. Without that, a member without changes
// would learn of their deletion only with its next bookmark, about a minute later.
func (s *Members[S, T, C, M]) ask(ctx context.Context) {
	for {
		select {
		case <-s.unclear:
		case <-ctx.Done():
			return
		}
		if run.Sleep(ctx, askAfter) != nil {
			return
		}
		var questions []Question
		s.config.Step(func(C) { questions = s.Questions(maxQuestions) })
		if len(questions) == maxQuestions {
			s.Changed()
		}
		if s.askEach(ctx, questions) != nil {
			_ = run.Sleep(ctx, askAgainAfter)
			s.Changed()
		}
	}
}

// askEach asks the server. It returns the error of the last question that the server did not answer.
func (s *Members[S, T, C, M]) askEach(ctx context.Context, questions []Question) (last error) {
	for _, q := range questions {
		open := false
		if s.config.Step(func(C) { open = s.Open(q) }); !open {
			continue
		}
		version, err := s.config.Lacked(ctx, q)
		s.config.Step(func(content C) {
			if err != nil {
				last = err
				s.Unanswered(q)
			} else if version != "" {
				s.Lacked(q, version, content)
			}
		})
	}
	return last
}
