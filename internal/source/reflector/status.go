package reflector

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/status"
)

// Text says in one line what a loop with the status s is doing, and after what failure.
func Text(s *status.Reflector) string {
	text := s.State.String()
	switch {
	case s.State == status.ReflectorIdle && !s.NoWatchSince.IsZero():
		text = "Run has ended"
	case s.State == status.ReflectorListing && s.List.Ended.IsZero() && s.List.Objects > 0:
		text += ": " + s.List.String()
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

// maxTransitions is the number of transitions in a status.
const maxTransitions = 16

// record is what the loop itself knows of its status; see the fields of the same names in status.Reflector. A loop does
// not have one of those, since most of it would be copies, and most loops wait.
type record struct {
	state                             status.ReflectorState
	since, retryAt                    time.Time
	transitions                       []status.Transition
	lastError                         error
	lastErrorTime                     time.Time
	resourceVersion                   string
	resourceVersionTime, noWatchSince time.Time
	watchOpen                         bool
	restored, decodeErrors, stale     int
	late                              int64
	modified                          int
}

// Status returns the present status. Any goroutine may call it.
func (l *Loop[T]) Status() status.Reflector {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.record
	s := status.Reflector{
		Namespace:           l.Decoder.Namespace,
		State:               r.state,
		Since:               r.since,
		RetryAt:             r.retryAt,
		Transitions:         r.transitions,
		LastError:           r.lastError,
		LastErrorTime:       r.lastErrorTime,
		ResourceVersion:     r.resourceVersion,
		ResourceVersionTime: r.resourceVersionTime,
		WatchOpen:           r.watchOpen,
		NoWatchSince:        r.noWatchSince,
		Traffic:             l.Source.Traffic(),
		Restored:            r.restored,
		DecodeErrors:        r.decodeErrors,
		Stale:               r.stale,
		OutsideShard:        l.Decoder.Outside(),
		WarmStart:           l.warm.status(),
	}
	s.Traffic.Late, s.Traffic.Modified, s.Traffic.SharedKeys = r.late, r.modified, l.Decoder.Shared()
	s.Traffic.ListsBy, s.Traffic.WatchesBy = maps.Clone(l.listsBy), maps.Clone(l.watchesBy)
	s.List = l.Progress.List.Status(s.Traffic.Bytes)
	var retryAt time.Time
	s.Failures, retryAt = l.retries.Failures(time.Now())
	switch s.State {
	case status.ReflectorListing, status.ReflectorWatching, status.ReflectorPolled:
		s.Awaits = l.Source.Awaits.Get()
	case status.ReflectorBackoff, status.ReflectorAbsent:
		s.Awaits, s.RetryAt = status.AwaitingRetry, retryAt
	}
	return s
}

// noWatchSince returns since when no watch has been open.
func (l *Loop[T]) noWatchSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.noWatchSince
}

// lateEvents returns the number of events that came late.
func (l *Loop[T]) lateEvents() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.late
}

// Failure returns the failure after which the loop waits now, and how many consecutive failures there were. The error
// is nil while the loop lists or watches, and while it does not run. Any goroutine may call it.
func (l *Loop[T]) Failure() (consecutive int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.record.state; s != status.ReflectorBackoff && s != status.ReflectorAbsent {
		return 0, nil
	}
	consecutive, _ = l.retries.Failures(time.Now())
	return consecutive, l.record.transitions[len(l.record.transitions)-1].Err
}

func (l *Loop[T]) update(change func(*record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.record)
}

// count counts a list or a watch by its reason.
func (l *Loop[T]) count(counters map[status.Reason]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counters[l.state.Why]++
}

// enter enters s, after the failure err or for the reason of l.state, and logs the change. While all is well, nothing
// else is logged.
func (l *Loop[T]) enter(s status.ReflectorState, err error, more ...any) {
	now := time.Now()
	l.mu.Lock()
	from, settled := l.record.state, l.settled
	if s == from {
		l.mu.Unlock()
		return
	}
	l.record.state, l.record.since = s, now
	latest := l.record.transitions
	// copied, since a status may share latest
	l.record.transitions = append(slices.Clone(latest[max(0, len(latest)+1-maxTransitions):]),
		status.Transition{Time: now, State: s, Reason: l.state.Why, Err: err})
	if s != status.ReflectorListing {
		l.settled = s
	}
	l.mu.Unlock()
	level := slog.LevelInfo
	switch {
	case s == status.ReflectorListing && (from == status.ReflectorBackoff || from == status.ReflectorAbsent),
		s == status.ReflectorAbsent && settled == s:
		level = slog.LevelDebug // one line for each try is enough, and none for a resource that stays absent
	case s == status.ReflectorBackoff || s == status.ReflectorAbsent:
		level = slog.LevelWarn
	}
	attrs := []any{"from", from.String()}
	switch {
	case err != nil:
		attrs = append(attrs, "why", err)
	case s != status.ReflectorIdle:
		attrs = append(attrs, "why", l.state.Why.String())
	}
	l.Log.Log(context.Background(), level, "reflector: "+s.String(), append(attrs, more...)...)
}

// noteDecodeError logs and counts an object that cannot be decoded. The key is not longer than a log should show.
func (l *Loop[T]) noteDecodeError(key object.Key, why error) {
	failed := l.Decoder.Collection.DecodeError(key, why)
	l.Log.Error("an object cannot be decoded", "key", key.String(), "err", why)
	l.update(func(r *record) { r.decodeErrors++; r.lastError, r.lastErrorTime = failed, time.Now() })
}

// noteSharedKey logs and reports that the server gives a key to several objects at once.
func (l *Loop[T]) noteSharedKey(why error) {
	l.Log.Warn("a key has several objects", "why", why)
	l.update(func(r *record) { r.lastError, r.lastErrorTime = why, time.Now() })
	l.reportFailure(why)
}

// noteModified logs and reports that the program has modified an object of the store. field is never content.
func (l *Loop[T]) noteModified(key object.Key, field string) {
	const text = "the program has modified an object of the store; copy an object before you write to it"
	why := fmt.Errorf("%s: %s of %T %s, or of an object that shares that field", text, field, *new(T), key)
	l.Log.Error(text, "field", field, "type", fmt.Sprintf("%T", *new(T)), "key", key.String())
	l.update(func(r *record) { r.modified++; r.lastError, r.lastErrorTime = why, time.Now() })
	l.reportFailure(why)
}
