package fetch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/status"
)

const (
	streamAgainAfter = time.Hour // the pause before the next streaming list after the server refused one
	watchAgainAfter  = time.Hour // the pause before the next watch after the server could not watch the collection
)

// Phase is the kind of request that a State asks for.
type Phase uint8

const (
	// Listing asks for the whole collection.
	Listing Phase = iota
	// Watching asks for the changes since State.Version.
	Watching
	// Polling asks for nothing for a while, and then for the whole collection: the server cannot watch it.
	Polling
)

// String returns "listing", "watching" or "polling".
func (p Phase) String() string {
	switch p {
	case Listing:
		return "listing"
	case Watching:
		return "watching"
	case Polling:
		return "polling"
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// Wait says how to wait after a failure.
type Wait uint8

const (
	// NoWait: ask again at once.
	NoWait Wait = iota
	// Backoff: wait for the backoff.
	Backoff
	// UntilServed: wait until the server serves the resource.
	UntilServed
)

// State says what a reflector requests next, and why. A transition returns another State.
//
//	Listing  -- Listed, Loaded ------------------> Watching
//	Listing  -- Listed: cannot be watched -------> Polling
//	Listing  -- Failed: ask otherwise, or again -> Listing
//	Watching -- Failed: ask again ---------------> Watching
//	Watching -- Relist; Failed: changes are lost -> Listing
//	Watching -- Failed: cannot be watched -------> Polling
//	Polling  -- Relist, after a while -----------> Listing
//	any      -- Failed: the sink is wrong -------> Listing
type State struct {
	Phase   Phase
	Version string        // the resource version up to which the sink has every change; empty before the first list
	Why     status.Reason // of the next list or watch

	List  ListPhase  // while Listing
	Watch WatchPhase // while Watching

	loaded bool      // the sink has objects of a saved state
	paged  time.Time // use paged lists until then: the server refused a streaming list
	polled time.Time // open no watch until then: the server could not watch the collection
}

// ListPhase is the part of a State while Listing.
type ListPhase struct {
	Least    string // the minimum resource version of the list: "0" for any, "" for the newest
	Restored bool   // compare contents: the server went back in time since the last list, or an audit found a difference
	Told     bool   // the sink needs no empty list if the server does not serve the resource
	Whole    bool   // not page by page: the continue tokens expire
}

// WatchPhase is the part of a State while Watching.
type WatchPhase struct {
	Open    Watch   // the open watch of a streaming list; nil if there is none
	CatchUp CatchUp // after a warm start
	Until   string  // the sink may have later objects than the watch sends up to this version; see Listed
	lag     lag     // the server has not reached the version
}

// Start returns the state before the first list. told is ListPhase.Told.
func Start(told bool) State { return State{Phase: Listing, List: ListPhase{Least: "0", Told: told}} }

// Listed returns the state after the whole collection has entered the sink. until is the Until of the list.
func (s State) Listed(until string, now time.Time) State {
	next := State{Phase: Watching, Version: s.Version, paged: s.paged, polled: s.polled}
	if s.Version == "" || s.Polls(now) {
		next.Phase, next.Why = Polling, status.ReasonPolled
	} else {
		next.Watch.Until = until
	}
	return next
}

// Loaded returns the state after the objects of a saved state have entered the sink. until is the resource version that
// the server has, or empty if that is the version of the objects.
func (s State) Loaded(until string, now time.Time) State {
	s = s.Listed("", now)
	s.Why, s.loaded = status.ReasonWarmStart, true
	if until != "" {
		s.Watch.CatchUp = CatchUp{until: until, progress: now}
	}
	return s
}

// Relist returns a state that lists the collection at resource version least or later, for that reason.
func (s State) Relist(least string, reason status.Reason) State {
	s.Phase, s.List.Least, s.Why, s.Watch = Listing, least, reason, WatchPhase{}
	return s
}

// Gone returns the state after the sink has lost all objects, because the server does not serve the resource.
func (s State) Gone() State {
	s.Version, s.List.Least = "", ""
	return s
}

// Doubtful reports whether objects with equal UIDs and resource versions may differ in content, because the server was
// restored or the sink has objects of a saved state.
func (s State) Doubtful() bool { return s.List.Restored || s.loaded }

// Polls reports whether the next list is not followed by a watch, because the server could not watch the collection.
func (s State) Polls(now time.Time) bool { return now.Before(s.polled) }

// Watches returns the state after a list without a version that can be watched all the same.
func (s State) Watches() State {
	s.Phase, s.Why, s.Watch = Watching, status.ReasonFirst, WatchPhase{}
	return s
}

// Streams reports whether the next list may be a streaming list.
func (s State) Streams(now time.Time) bool { return !now.Before(s.paged) }

// Updated returns the state after the client was updated during a list or watch.
func (s State) Updated() State {
	s.Why = status.ReasonUpdated
	return s
}

// Succeeded returns the state after a list or watch without a failure.
func (s State) Succeeded() State {
	s.Watch.lag = lag{}
	return s
}

// Received returns the state after a watch has sent a change or bookmark of a resource version.
func (s State) Received(version string, now time.Time) State {
	if version != s.Version {
		s.Watch.CatchUp = s.Watch.CatchUp.advanced(now)
	}
	return s
}

// Ended returns the state after the server has ended a watch normally. It returns an error if the server should have
// sent more after a warm start.
func (s State) Ended(now time.Time) (State, error) {
	caught, err := s.Watch.CatchUp.ended(now)
	if err != nil {
		return s, err
	}
	s.Watch.CatchUp, s.Why = caught, status.ReasonEnded
	return s, nil
}

// lost reports whether err means that a change of a watch could not be understood.
func lost(err error) bool {
	return slices.ContainsFunc([]error{ErrUnknownDeleted, ErrUnknownLarge, ErrForeign, ErrUnexplained, ErrNoNumber,
		decode.ErrWrongKind},
		func(target error) bool { return errors.Is(err, target) })
}

// Failed returns the state after err, and how to wait first. note describes the transition for the log; it is empty
// unless the transition is worth a line.
func (s State) Failed(err error, now time.Time) (next State, wait Wait, note string) {
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	tooLarge := IsTooLarge(err)
	watching := s.Phase == Watching
	behind := errors.Is(err, ErrBehind)
	if watching && tooLarge && !behind {
		s.Watch.lag, behind = s.Watch.lag.next(err, s.Version, now)
	} else {
		s.Watch.lag = lag{}
	}
	switch {
	case errors.Is(err, ErrNotServed):
		if watching {
			s = s.Relist("", status.ReasonAbsent)
		}
		s.Why = status.ReasonAbsent
		return s, UntilServed, ""
	case errors.Is(err, ErrWentBack): // e.g. etcd was restored from a backup
		next = s.Relist("", status.ReasonRestored)
		next.List.Restored = true
		return next, Backoff, "the server went back in time: listing everything again"
	case behind: // if the server was restored, a list at an old version shows it
		return s.Relist("", status.ReasonBehind), Backoff, "the server is behind: listing at any resource version"
	case errors.Is(err, ErrDiverged):
		next = s.Relist("", status.ReasonAudit)
		next.List.Restored = true
		return next, NoWait, "the store differs from the server: listing everything again"
	case watching && errors.Is(err, ErrNoWatch):
		s.Phase, s.Why, s.Watch = Polling, status.ReasonPolled, WatchPhase{}
		s.paged, s.polled = now.Add(streamAgainAfter), now.Add(watchAgainAfter)
		return s, NoWait, "listing from time to time"
	case watching && (expired || apierrors.IsStoreReadError(err)):
		next = s.Relist(s.Version, status.ReasonExpired) // the changes since Version are lost
		next.List.Whole = s.Watch.Until != ""            // the next list in pages could take as long
		return next, Backoff, ""
	case watching && s.Watch.CatchUp.stuck(err, now):
		return s.Relist(s.Version, status.ReasonBehind), Backoff, ""
	case watching && lost(err):
		return s.Relist(s.Version, status.ReasonUnclear), Backoff, "" // a change since Version is lost
	case watching:
		s.Why, s.Watch.CatchUp = status.ReasonFailed, s.Watch.CatchUp.failed(err)
		return s, Backoff, ""
	case (expired || tooLarge) && s.List.Least != "": // the server is behind, or was restored
		s.List.Least, s.Why = "", status.ReasonBehind
		return s, NoWait, "listing again at any resource version"
	case errors.Is(err, budget.ErrMaxMemory): // with the first page, the server says how many objects there are
		s.paged, s.Why = now.Add(streamAgainAfter), status.ReasonFailed
		return s, Backoff, ""
	case errors.Is(err, ErrNoStreaming):
		s.paged, s.Why = now.Add(streamAgainAfter), status.ReasonRefused
		return s, NoWait, "falling back to paged lists"
	}
	s.Why = status.ReasonFailed
	return s, Backoff, ""
}
