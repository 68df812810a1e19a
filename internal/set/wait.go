package set

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
)

// MemberError is the error of one member of a set.
type MemberError struct {
	Name string
	Err  error
}

// Error implements error.
func (e MemberError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e MemberError) Unwrap() error { return e.Err }

// NotSyncedError names the members of a set that are not synced.
type NotSyncedError struct {
	// Members has an error for each of them, sorted by name: an [informer.NotSyncedError], or why the member ended.
	Members []MemberError
	// All is the number of members that the caller waited for.
	All int
}

// maxNamed is how many members the text of an error names with their reasons. A text for 1,000 clusters would fill a
// log.
const maxNamed = 10

// Error implements error. It has the reasons of the first members, and the names of the others.
func (e *NotSyncedError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d members are not synced: ", len(e.Members), e.All)
	for i, m := range e.Members {
		switch {
		case i >= maxNamed:
			text.WriteString(", " + m.Name)
		case i > 0:
			text.WriteString("; " + m.Error())
		default:
			text.WriteString(m.Error())
		}
	}
	return text.String()
}

// Unwrap returns the errors of Members.
func (e *NotSyncedError) Unwrap() (all []error) {
	for _, m := range e.Members {
		all = append(all, m)
	}
	return all
}

func (e *NotSyncedError) add(name string, err error) {
	e.Members = append(e.Members, MemberError{name, err})
}

// of returns e as the error of a wait for some members, or nil if it names none.
func (e *NotSyncedError) of(all int) error {
	if len(e.Members) == 0 {
		return nil
	}
	slices.SortStableFunc(e.Members, func(a, b MemberError) int { return cmp.Compare(a.Name, b.Name) })
	e.All = all
	return e
}

// WaitSynced waits until the stores of these members have their whole collections, and then returns nil. Without ids,
// it waits until the members are known, and for all that are in the set then. It returns a [*NotSyncedError] if ctx
// ends first, or when it has waited for the others and some have ended by themselves. A member that the set does not
// have is in that error, which then wraps [ErrNotMember]; one that is removed during the wait is not, unless ids has
// it.
func (s *Set[ID, T]) WaitSynced(ctx context.Context, ids ...ID) error {
	if len(ids) == 0 {
		if err := waitKnown(ctx, s.config.Known, s.over); err != nil {
			return err
		}
	}
	var failed NotSyncedError
	members, count := s.all(), len(ids)
	if len(ids) > 0 {
		members = nil
	} else {
		count = len(members)
	}
	for _, id := range ids {
		if m := s.find(id); m != nil {
			members = append(members, m)
		} else {
			failed.add(s.config.name(id), ErrNotMember)
		}
	}
	for _, m := range members {
		err := m.informer.WaitSynced(ctx)
		switch present := s.find(m.id) == m; {
		case present && err != nil:
			failed.add(m.name, s.why(m, err))
		case !present && len(ids) > 0:
			failed.add(m.name, ErrNotMember)
		}
	}
	return failed.of(count)
}

// why returns the error of m, whose informer is not synced because of err: why it ended, if it has.
func (s *Set[ID, T]) why(m *member[ID, T], err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.phase == ended && s.ctx.Err() == nil && !errors.Is(err, m.err) {
		return m.err
	}
	return err
}

// errUnknown indicates that the members of a set are not known yet.
var errUnknown = errors.New("the members of the set are not known yet")

// waitKnown waits until known is closed. It fails if ctx ends or over is closed before that.
func waitKnown(ctx context.Context, known, over <-chan struct{}) error {
	if run.IsClosed(known) {
		return nil
	}
	select {
	case <-known:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnknown, context.Cause(ctx))
	case <-over:
		return fmt.Errorf("%w: the set has stopped: %w", errUnknown, informer.ErrStopped)
	}
}

// HasSynced reports whether the members are known, and the stores of all present ones have their whole collections. For
// a set that is known to have no members it returns true.
func (s *Set[ID, T]) HasSynced() bool {
	unsynced := func(m *member[ID, T]) bool { return !m.informer.HasSynced() }
	return run.IsClosed(s.config.Known) && !slices.ContainsFunc(s.all(), unsynced)
}

// settled reports whether nobody needs to wait for a member any more before work with the others begins: its first list
// is there, has failed, or takes too long.
func (l *life) settled() bool { return run.IsClosed(l.begun) }
