package union

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/run"
)

// Member is a part of a union that runs.
type Member[T Object] interface {
	Part[T]
	// Run runs until ctx ends, and returns its cause, or the error that ended it.
	Run(ctx context.Context) error
	// Arrived reports whether the content has the first list of the member, or does not wait for it.
	Arrived() bool
	// Added is called when the member has become a part.
	Added(Content[T])
	// Dropped is called when the member is no part any more. It returns its objects, and the version that it has reached.
	Dropped(Content[T]) (objects []T, version string)
}

// Members are the members of a union, one for each selection S that somebody wants. [NewMembers] returns them. All
// methods are safe for concurrent use, except that functions of a Union belong to Step.
//
// Lock order: mu, then that of Step.
type Members[S comparable, T Object] struct {
	config Config[S, T]
	*Union[T]
	unclear chan struct{} // holds a token if the union may have questions

	mu      sync.Mutex // protects the fields below
	members []*running[S, T]
	start   func(*running[S, T]) // runs a member; nil before Run and after it
	loaded  bool                 // Loaded was called
	changed chan struct{}        // closed when a member goes or arrives
}

// Config is what members do not know themselves.
type Config[S comparable, T Object] struct {
	// Make returns the member for a selection. It does not run yet.
	Make func(S) (Member[T], error)
	// Step makes one step of the content. It calls do, with a lock.
	Step func(do func(Content[T]))
	// Loaded is called once, when every member has arrived for the first time.
	Loaded func()
	// Lacked asks the server about q. It returns a version at which no part of the union has the object, or "" if one has.
	Lacked func(ctx context.Context, q Question) (version string, err error)
}

// running is a member and its selection.
type running[S comparable, T Object] struct {
	Member[T]
	selection S
	leaves    bool // nobody wants it: it goes as soon as the others have arrived
	stop      context.CancelCauseFunc
}

// NewMembers returns an empty union.
func NewMembers[S comparable, T Object](c Config[S, T]) *Members[S, T] {
	return &Members[S, T]{config: c, Union: New[T](), unclear: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Want makes the union have a member for each of these selections. Members that are not wanted stay until all that are
// have arrived. If one of the selections cannot have a member, Want returns the error of Make and changes nothing.
func (s *Members[S, T]) Want(wanted []S) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make([]*running[S, T], len(wanted))
	var added []*running[S, T]
	for i, selection := range wanted {
		at := slices.IndexFunc(s.members, func(m *running[S, T]) bool { return m.selection == selection })
		if at >= 0 {
			next[i] = s.members[at]
			continue
		}
		m, err := s.config.Make(selection)
		if err != nil {
			return err
		}
		next[i] = &running[S, T]{Member: m, selection: selection}
		added = append(added, next[i])
	}
	for _, m := range s.members {
		if m.leaves = !slices.Contains(wanted, m.selection); m.leaves {
			next = append(next, m)
		}
	}
	s.members = next
	for _, m := range added {
		s.config.Step(func(content Content[T]) {
			s.Add(m.Member)
			m.Added(content)
		})
		if s.start != nil {
			s.start(m)
		}
	}
	s.settleLocked()
	return nil
}

// Settle looks whether the members have arrived. It must be called when one of them does.
func (s *Members[S, T]) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
}

// settleLocked lets members go that nobody wants, once the others have arrived.
func (s *Members[S, T]) settleLocked() {
	if s.start == nil {
		return
	}
	if slices.ContainsFunc(s.members, func(m *running[S, T]) bool { return !m.leaves && !m.Arrived() }) {
		return
	}
	for _, m := range s.members {
		if m.leaves {
			s.drop(m)
		}
	}
	s.members = slices.DeleteFunc(s.members, func(m *running[S, T]) bool { return m.leaves })
	if !s.loaded {
		s.loaded = true
		s.config.Loaded()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// errDropped ends a member that nobody wants any more.
var errDropped = errors.New("nobody wants it any more")

func (s *Members[S, T]) drop(m *running[S, T]) {
	if m.stop != nil {
		m.stop(errDropped)
	}
	s.config.Step(func(content Content[T]) {
		objects, version := m.Dropped(content)
		s.Remove(m.Member, version, objects, content)
	})
	s.Changed()
}

// Settled reports whether the union has the members that were wanted last, and no others. If not, it returns a channel
// that is closed when to ask again. Before Run and after it, they are not settled.
func (s *Members[S, T]) Settled() (ok bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := func(m *running[S, T]) bool { return m.leaves || !m.Arrived() }
	return s.start != nil && !slices.ContainsFunc(s.members, waits), s.changed
}

// All returns the members: first those that are wanted, in the order of Want, and their selections, then the others.
func (s *Members[S, T]) All() (all []Member[T], wanted []S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if all = append(all, m.Member); !m.leaves {
			wanted = append(wanted, m.selection)
		}
	}
	return all, wanted
}

// Run runs the members until ctx ends or one of them does, and returns the cause. When it returns, all have ended.
func (s *Members[S, T]) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var members sync.WaitGroup
	start := func(m *running[S, T]) {
		var own context.Context
		own, m.stop = context.WithCancelCause(ctx)
		members.Go(func() {
			if err := m.Run(own); !errors.Is(err, errDropped) {
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
func (s *Members[S, T]) Changed() { run.Signal(s.unclear) }

const (
	// askAfter is the time after which the server is asked whether an object is gone that no member has any more. Members
	// usually know earlier.
	askAfter = time.Second
	// maxQuestions is the number of questions that are asked then. The bookmarks of the members, about once a minute, are
	// soon better for more.
	maxQuestions = 20
	// askAgainAfter is the time after which questions are asked again that the server did not answer.
	askAgainAfter = 15 * time.Second
)

// ask asks the server about objects that no member has any more, until ctx ends. A member without changes would know
// only with its next bookmark, about a minute later.
func (s *Members[S, T]) ask(ctx context.Context) {
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
		s.config.Step(func(Content[T]) { questions = s.Questions(maxQuestions) })
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
func (s *Members[S, T]) askEach(ctx context.Context, questions []Question) (last error) {
	for _, q := range questions {
		open := false
		if s.config.Step(func(Content[T]) { open = s.Open(q) }); !open {
			continue
		}
		at, err := s.config.Lacked(ctx, q)
		s.config.Step(func(content Content[T]) {
			if err != nil {
				last = err
				s.Unanswered(q)
			} else if at != "" {
				s.Lacked(q, at, content)
			}
		})
	}
	return last
}
