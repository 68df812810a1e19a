package kinds

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/set"
)

// NotSyncedError names the kinds that are not synced, each with the reason; see [Set.WaitSynced].
type NotSyncedError = set.NotSyncedError

// UnknownError names the API groups and versions whose kinds are not known. A set that returns it may lack some.
type UnknownError struct{ Unknown []Unknown }

// Error implements error.
func (e *UnknownError) Error() string {
	text := "discovery does not know"
	for i, u := range e.Unknown {
		if i > 0 {
			text += ";"
		}
		text += fmt.Sprintf(" %q: %v", u.GroupVersion.String(), u.Err)
	}
	return text
}

// Unwrap returns the reasons.
func (e *UnknownError) Unwrap() (all []error) {
	for _, u := range e.Unknown {
		all = append(all, u.Err)
	}
	return all
}

// WaitSynced waits until the stores of these kinds have their whole collections, and then returns nil.
//
// Without arguments, it waits for the first discovery, and then for all members that the set has. If the discovery does
// not know some groups, it then returns an [*UnknownError]: what the set has is complete, and those groups may have
// more. With arguments, it also waits for kinds that somebody holds until the server serves them, and for those whose
// group is not known. Any other kind that the set does not have is an error at once, which wraps [ErrNotMember].
//
// If ctx ends first, the error names what is missing, and wraps the cause of ctx; see [NotSyncedError]. If the set
// stops first, it wraps [informer.ErrStopped].
func (s *Set[T]) WaitSynced(ctx context.Context, kinds ...schema.GroupResource) error {
	if s.invalid != nil {
		return s.invalid
	}
	ctx, end := run.Until(ctx, s.over, informer.ErrStopped)
	defer end()
	for {
		next := s.news.Next()
		ids, err := s.waitMembers(ctx, kinds)
		if err != nil {
			return err
		}
		if err = s.members.WaitSynced(ctx, ids...); err == nil {
			break
		}
		if !errors.Is(err, ErrNotMember) {
			return err
		}
		select {
		case <-next: // a member was removed or replaced
		case <-ctx.Done():
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(kinds) == 0 && len(s.catalog.unknown) > 0 {
		return &UnknownError{s.catalog.unknown}
	}
	return nil
}

// waitMembers waits for the first discovery, and until the set has these kinds. It returns their identifiers.
func (s *Set[T]) waitMembers(ctx context.Context,
	kinds []schema.GroupResource) (ids []schema.GroupResource, err error) {
	for {
		next := s.news.Next()
		ids, canChange, err := s.present(kinds)
		if err == nil || !canChange {
			return ids, err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// present returns the identifiers of the members of these kinds. If the set lacks some, it returns why, and whether
// that can change.
func (s *Set[T]) present(kinds []schema.GroupResource) (ids []schema.GroupResource, canChange bool, err error) {
	s.turn.Lock() // so that the set has the members of the catalog
	defer s.turn.Unlock()
	s.mu.Lock()
	latest, failure := s.catalog, s.record.LastError
	s.mu.Unlock()
	if latest == nil {
		err := errors.New("kinds: there was no discovery yet")
		if failure != nil {
			err = fmt.Errorf("kinds: %w", failure)
		}
		return nil, true, err
	}
	canChange = true
	var missing []error
	for _, kind := range kinds {
		if r, ok := s.Kind(kind); ok {
			ids = append(ids, r.GroupResource())
			continue
		}
		can, err := s.why(kind)
		canChange = canChange && can
		missing = append(missing, err)
	}
	return ids, canChange, errors.Join(missing...)
}
