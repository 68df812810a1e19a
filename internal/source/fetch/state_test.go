package fetch

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/status"
)

// After each failure, the reflector changes its state as the drawing says.
// Guarantees: R4, R5, R6, R8, R9, R14
func TestStateAfterEachFailure(t *testing.T) {
	now := time.Unix(1000, 0)
	tooLarge := apierrors.NewTimeoutError("too large resource version", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	expired, notFound := apierrors.NewResourceExpired("old"), apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "")
	absent := fmt.Errorf("%w: %w", notFound, ErrNotServed)
	corrupt := apierrors.NewInternalError(errors.New("corrupt"))
	corrupt.ErrStatus.Reason, corrupt.ErrStatus.Code = metav1.StatusReasonStoreReadError, http.StatusInternalServerError
	listing := State{Phase: Listing, Version: "7", List: ListPhase{Least: "7"}}
	newest := State{Phase: Listing, Version: "7"}
	lagging := func(tries int) State { // since half a minute
		return State{Phase: Watching, Version: "7", Watch: WatchPhase{lag: lag{now.Add(-leastLag), tries, -1}}}
	}
	watching := lagging(1)
	retried := State{Phase: Watching, Version: "7"}
	torn := State{Phase: Watching, Version: "7", Watch: WatchPhase{Until: "9"}}
	whole := State{Phase: Listing, Version: "7", List: ListPhase{Least: "7", Whole: true}}
	polling := State{Phase: Polling, Version: "7", paged: now.Add(streamAgainAfter), polled: now.Add(watchAgainAfter)}
	restored := State{Phase: Listing, Version: "7", List: ListPhase{Restored: true}}
	paged := listing
	paged.paged = now.Add(streamAgainAfter)
	for i, c := range []struct {
		from State
		err  error
		next State
		wait Wait
		why  status.Reason
	}{
		{watching, errors.New("refused"), retried, Backoff, status.ReasonFailed},
		{watching, ErrEmptyWatch, retried, Backoff, status.ReasonFailed},
		{watching, tooLarge, lagging(2), Backoff, status.ReasonFailed},
		{lagging(leastTries - 1), tooLarge, newest, Backoff, status.ReasonBehind},
		{watching, ErrBehind, newest, Backoff, status.ReasonBehind},
		{watching, fmt.Errorf("%w: %w", ErrBehind, tooLarge), newest, Backoff, status.ReasonBehind},
		{watching, fmt.Errorf("%w: %w", ErrDiverged, ErrBehind), newest, Backoff, status.ReasonBehind},
		{watching, ErrWentBack, restored, Backoff, status.ReasonRestored},
		{watching, ErrNoWatch, polling, NoWait, status.ReasonPolled},
		{watching, ErrNoNumber, listing, Backoff, status.ReasonUnclear},
		{watching, fmt.Errorf("event: %w", decode.ErrWrongKind), listing, Backoff, status.ReasonUnclear},
		{watching, ErrUnknownLarge, listing, Backoff, status.ReasonUnclear},
		{torn, errors.New("refused"), torn, Backoff, status.ReasonFailed},
		{torn, expired, whole, Backoff, status.ReasonExpired},
		{watching, expired, listing, Backoff, status.ReasonExpired},
		{watching, corrupt, listing, Backoff, status.ReasonExpired},
		{watching, ErrUnknownDeleted, listing, Backoff, status.ReasonUnclear},
		{watching, ErrForeign, listing, Backoff, status.ReasonUnclear},
		{watching, notFound, retried, Backoff, status.ReasonFailed},
		{watching, absent, newest, UntilServed, status.ReasonAbsent},
		{listing, errors.New("refused"), listing, Backoff, status.ReasonFailed},
		{listing, ErrForeign, listing, Backoff, status.ReasonFailed},
		{listing, ErrNoNumber, listing, Backoff, status.ReasonFailed},
		{listing, errTokens, listing, Backoff, status.ReasonFailed},
		{listing, expired, newest, NoWait, status.ReasonBehind},
		{listing, tooLarge, newest, NoWait, status.ReasonBehind},
		{newest, expired, newest, Backoff, status.ReasonFailed},
		{newest, tooLarge, newest, Backoff, status.ReasonFailed},
		{listing, ErrNoStreaming, paged, NoWait, status.ReasonRefused},
		{listing, ErrWentBack, restored, Backoff, status.ReasonRestored},
		{restored, errors.New("refused"), restored, Backoff, status.ReasonFailed},
		{listing, notFound, listing, Backoff, status.ReasonFailed},
		{listing, absent, listing, UntilServed, status.ReasonAbsent},
	} {
		next, wait, _ := c.from.Failed(fmt.Errorf("asked: %w", c.err), now)
		c.next.Why = c.why
		if next != c.next || wait != c.wait {
			t.Errorf("%d: %+v after %v: %+v, wait in %v, want %+v, wait in %v", i, c.from, c.err, next, wait, c.next, c.wait)
		}
	}
	told := Start(true)
	if next, _, _ := told.Failed(ErrWentBack, now); !next.List.Told {
		t.Error("the sink gets the same absence again")
	}
	if s := paged.Listed("9", now); s != (State{Phase: Watching, Version: "7", paged: paged.paged, Watch: WatchPhase{Until: "9"}}) {
		t.Errorf("after a list: %+v", s)
	}
}

// After a list, the reflector watches, unless the list has no resource version or the server could not watch within the
// last hour.
// Guarantees: R24
func TestStateAfterAListThatCannotBeWatched(t *testing.T) {
	now := time.Unix(1000, 0)
	unwatched, _, _ := State{Phase: Watching, Version: "7"}.Failed(ErrNoWatch, now)
	for i, c := range []struct {
		from State
		now  time.Time
		want Phase
	}{
		{State{Version: "7"}, now, Watching},
		{State{}, now, Polling},
		{unwatched.Relist("7", status.ReasonPolled), now.Add(watchAgainAfter - 1), Polling},
		{unwatched.Relist("7", status.ReasonPolled), now.Add(watchAgainAfter), Watching},
	} {
		if next := c.from.Listed("", c.now); next.Phase != c.want || (next.Why == status.ReasonPolled) != (c.want == Polling) {
			t.Errorf("%d: %+v, want %v", i, next, c.want)
		}
	}
	if unwatched.Streams(now.Add(watchAgainAfter-1)) || !unwatched.Streams(now.Add(watchAgainAfter)) {
		t.Errorf("%+v", unwatched)
	}
}

// A server that has not reached the version of a watch gets time while it comes closer. The reflector lists when it has
// not come closer for half a minute, or comes closer so slowly that it would take more than five minutes.
// Guarantees: R6
func TestServerThatIsBehind(t *testing.T) {
	begin := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		version string
		every   time.Duration
		current func(after time.Duration) string // the rest of the message
		lists   time.Duration                    // zero for never
	}{
		"three answers at once":   {"1000", time.Second, func(time.Duration) string { return "900" }, 30 * time.Second},
		"stands still":            {"1000", 20 * time.Second, func(time.Duration) string { return "900" }, 40 * time.Second},
		"long waits":              {"1000", time.Minute, func(time.Duration) string { return "900" }, 2 * time.Minute},
		"no number":               {"1000", 10 * time.Second, func(time.Duration) string { return "x" }, 30 * time.Second},
		"a version without order": {"x", 10 * time.Second, func(time.Duration) string { return "9" }, 30 * time.Second},
		"approaches in 4 minutes": {"1000", 10 * time.Second, func(d time.Duration) string { return fmt.Sprint(1000 - 240 + int(d.Seconds())) }, 0},
		"approaches in 10 minutes": {"1000", 10 * time.Second,
			func(d time.Duration) string { return fmt.Sprint(1000 - 600 + int(d.Seconds())) }, 30 * time.Second},
		"stops on its way": {"1000", 10 * time.Second,
			func(d time.Duration) string { return fmt.Sprint(800 + int(min(d, 90*time.Second).Seconds())) }, 120 * time.Second},
		"goes back": {"1000", 10 * time.Second, func(d time.Duration) string { return fmt.Sprint(900 - int(d.Seconds())) }, 30 * time.Second},
	} {
		s, lists := State{Phase: Watching, Version: c.version}, time.Duration(0)
		for after := time.Duration(0); after < 4*time.Minute && lists == 0; after += c.every {
			message := fmt.Sprintf("Too large resource version: %s, current: %s", c.version, c.current(after))
			tooLarge := apierrors.NewTimeoutError(message, 1)
			tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
			if s, _, _ = s.Failed(tooLarge, begin.Add(after)); s.Phase == Listing {
				lists = after
			}
		}
		if lists != c.lists || lists != 0 && s.Why != status.ReasonBehind {
			t.Errorf("%s: lists after %v, want %v", name, lists, c.lists)
		}
	}
	s := State{Phase: Watching, Version: "7", Watch: WatchPhase{lag: lag{begin, leastTries, 9}}}
	if got := s.Succeeded(); got.Watch.lag != (lag{}) {
		t.Errorf("%+v after a watch", got)
	}
}

// After a warm start, watches follow each other until the sink has every change since the save. The reflector lists if
// they do not bring it closer, but not while the server is down.
// Guarantees: S4
func TestStateAfterAWarmStart(t *testing.T) {
	now := time.Unix(1000, 0)
	began := State{Phase: Listing, Version: "7"}.Loaded("9", now)
	if s := began.Watch.CatchUp; !s.Pending() || s.Reaches("8") || !s.Reaches("9") || !s.Reaches("10") || s.Reaches("x") {
		t.Errorf("%+v should end at 9", s)
	}
	if s := (State{}).Loaded("", now); s.Watch.CatchUp.Pending() || s.Watch.CatchUp.Reaches("9") || !s.Doubtful() {
		t.Errorf("%+v has every change", s)
	}
	s, failed := began, errors.New("refused")
	for i, timeout := range []time.Duration{3, 6, 12, 24, 48, 96, 96} {
		if got := s.Watch.CatchUp.timeout(); got != timeout*time.Second {
			t.Errorf("watch %d ends after %v, want %v s", i, got, int(timeout))
		}
		var err error
		if s, err = s.Ended(now.Add(maxQuiet - 1)); err != nil || s.Why != status.ReasonEnded {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	if _, err := s.Ended(now.Add(maxQuiet)); !errors.Is(err, ErrNoConfirmation) {
		t.Errorf("%v after a time without a later version", err)
	}
	if s, err := s.Received("8", now.Add(time.Second)).Ended(now.Add(maxQuiet)); err != nil {
		t.Errorf("%v, although the watch has sent version 8 of %+v", err, s)
	}
	down := &net.OpError{Op: "dial", Err: failed}
	relists := func(s State, err error) bool {
		next, wait, _ := s.Failed(fmt.Errorf("asked: %w", err), now.Add(maxQuiet))
		if relist := next.Phase == Listing; wait != Backoff || relist && (next.Why != status.ReasonBehind || !next.Doubtful()) {
			t.Errorf("%+v, wait in %v", next, wait)
		}
		return next.Phase == Listing
	}
	s = began
	for range maxMissed - 1 {
		if relists(s, failed) || relists(s, down) {
			t.Fatalf("%+v leads to a list", s)
		}
		s, _, _ = s.Failed(failed, now)
		s, _, _ = s.Failed(down, now)
	}
	if !relists(s, failed) || relists(s, down) || relists(s.Received("8", now), failed) {
		t.Errorf("%+v", s)
	}
	if ended, err := s.Ended(now); err != nil || relists(ended, failed) {
		t.Errorf("%+v, %v", ended, err)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", failed)
	for err, relist := range map[error]bool{forbidden: true, ErrNoConfirmation: true, transport.ErrNoProgress: true} {
		if relists(began, err) != relist {
			t.Errorf("after %v: list %t", err, !relist)
		}
	}
	if relists(began.Received("8", now.Add(time.Second)), transport.ErrNoProgress) {
		t.Error("a watch that made progress leads to a list")
	}
	if next, _, _ := (State{Phase: Watching, Version: "7"}).Failed(forbidden, now); next.Phase != Watching {
		t.Errorf("%+v without a warm start", next)
	}
}
