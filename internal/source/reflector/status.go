package reflector

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/status"
)

// State is what a [Loop] is doing. The values are those of informer.ReflectorState.
type State uint8

// The states; see informer.ReflectorState.
const (
	Idle State = iota
	Listing
	Watching
	Backoff
	Absent
	Polled
)

// String returns the name of the state, such as "Listing".
func (s State) String() string {
	names := [...]string{"Idle", "Listing", "Watching", "Backoff", "Absent", "Polled"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("ReflectorState(%d)", uint8(s))
}

// Status is the status of a [Loop]; see informer.ReflectorStatus.
type Status struct {
	State               State
	Since               time.Time
	Awaits              string
	RetryAt             time.Time
	Transitions         []Transition
	LastError           error
	LastErrorTime       time.Time
	ResourceVersion     string
	ResourceVersionTime time.Time
	WatchOpen           bool
	NoWatchSince        time.Time
	Requests            Requests
	Restored            int
	Late                int64
	Failures            int
	DecodeErrors        int
	Stale               int
	OutsideShard        int64
	Read                int
	WarmStart           status.WarmStart
}

// Text says in one line what the loop is doing, and after what failure.
func (s *Status) Text() string {
	text := s.State.String()
	if s.State == Idle && !s.NoWatchSince.IsZero() {
		text = "Run has ended"
	}
	if s.WarmStart.CatchUpTo != "" {
		text = "catching up from a saved state at resource version " + s.ResourceVersion + " to " + s.WarmStart.CatchUpTo +
			", " + text
	}
	if s.LastError != nil {
		text += " after: " + s.LastError.Error()
	}
	return text
}

// Requests counts requests, and lists and watches by reason.
type Requests struct {
	fetch.Traffic
	ListsBy, WatchesBy map[fetch.Reason]int
	SharedKeys         int
}

// Transition is a change of the state of a [Loop]; see informer.Transition.
type Transition struct {
	Time   time.Time
	State  State
	Reason fetch.Reason
	Err    error
}

// maxTransitions is the number of transitions in a status.
const maxTransitions = 16

// byReason counts by reason.
type byReason [fetch.Reasons]int

// counts returns the counts that are not zero.
func (c byReason) counts() map[fetch.Reason]int {
	counts := map[fetch.Reason]int{}
	for reason, n := range c {
		if n > 0 {
			counts[fetch.Reason(reason)] = n
		}
	}
	return counts
}

// Status returns the present status. Any goroutine may call it.
func (l *Loop[T]) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Requests = Requests{
		Traffic:    l.Source.Traffic(),
		ListsBy:    l.listsBy.counts(),
		WatchesBy:  l.watchesBy.counts(),
		SharedKeys: l.Decoder.Shared(),
	}
	s.Read = int(l.read.Load())
	s.OutsideShard = l.Decoder.Outside()
	s.WarmStart = l.warm.status()
	var retryAt time.Time
	s.Failures, retryAt = l.retries.Failures(time.Now())
	switch s.State {
	case Listing, Watching, Polled:
		s.Awaits = l.Source.Awaits.Get().String()
	case Backoff, Absent:
		s.Awaits, s.RetryAt = fetch.AwaitingRetry.String(), retryAt
	}
	return s
}

// Failure returns the failure after which the loop waits now, and how many consecutive failures there were. The error
// is nil while the loop lists or watches, and while it does not run. Any goroutine may call it.
func (l *Loop[T]) Failure() (consecutive int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.status.State; s != Backoff && s != Absent {
		return 0, nil
	}
	consecutive, _ = l.retries.Failures(time.Now())
	return consecutive, l.status.Transitions[len(l.status.Transitions)-1].Err
}

func (l *Loop[T]) update(change func(*Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.status)
}

// count counts a list or a watch by its reason.
func (l *Loop[T]) count(counters *byReason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counters[l.state.Why]++
}

// enter enters s, after the failure err or for the reason of l.state, and logs the change. While all is well, nothing
// else is logged.
func (l *Loop[T]) enter(s State, err error, more ...any) {
	now := time.Now()
	l.mu.Lock()
	from, settled := l.status.State, l.settled
	if s == from {
		l.mu.Unlock()
		return
	}
	l.status.State, l.status.Since = s, now
	latest := l.status.Transitions
	// copied, since a status may share latest
	l.status.Transitions = append(slices.Clone(latest[max(0, len(latest)+1-maxTransitions):]),
		Transition{Time: now, State: s, Reason: l.state.Why, Err: err})
	if s != Listing {
		l.settled = s
	}
	l.mu.Unlock()
	level := slog.LevelInfo
	switch {
	case s == Listing && (from == Backoff || from == Absent), s == Absent && settled == s:
		level = slog.LevelDebug // one line for each try is enough, and none for a resource that stays absent
	case s == Backoff || s == Absent:
		level = slog.LevelWarn
	}
	attrs := []any{"from", from.String()}
	switch {
	case err != nil:
		attrs = append(attrs, "why", err)
	case s != Idle:
		attrs = append(attrs, "why", l.state.Why.String())
	}
	l.Log.Log(context.Background(), level, "reflector: "+s.String(), append(attrs, more...)...)
}

// NoteDecodeError logs and counts an object that cannot be decoded because of failed. The key is not longer than a log
// should show.
func (l *Loop[T]) NoteDecodeError(key string, why, failed error) {
	l.Log.Error("an object cannot be decoded", "key", key, "err", why)
	l.update(func(s *Status) { s.DecodeErrors++; s.LastError, s.LastErrorTime = failed, time.Now() })
}

// NoteSharedKey logs and reports that the server gives a key to several objects at once.
func (l *Loop[T]) NoteSharedKey(why error) {
	l.Log.Warn("a key has several objects", "why", why)
	l.update(func(s *Status) { s.LastError, s.LastErrorTime = why, time.Now() })
	l.reportFailure(why)
}
