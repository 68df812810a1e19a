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

	"github.com/typedinformer/informer/internal/transport"
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
	watching := State{Phase: Watching, Version: "7", Watch: WatchPhase{ahead: 1}}
	retried := State{Phase: Watching, Version: "7"}
	ahead := func(n int) State { return State{Phase: Watching, Version: "7", Watch: WatchPhase{ahead: n}} }
	restored := State{Phase: Listing, Version: "7", List: ListPhase{Restored: true}}
	paged := listing
	paged.paged = now.Add(streamAgainAfter)
	for i, c := range []struct {
		from State
		err  error
		next State
		wait Wait
		why  Reason
	}{
		{watching, errors.New("refused"), retried, Backoff, ReasonFailed},
		{watching, ErrEmptyWatch, retried, Backoff, ReasonFailed},
		{watching, tooLarge, ahead(2), Backoff, ReasonFailed},
		{ahead(maxAhead - 1), tooLarge, restored, Backoff, ReasonRestored},
		{watching, ErrWentBack, restored, Backoff, ReasonRestored},
		{watching, expired, listing, Backoff, ReasonExpired},
		{watching, corrupt, listing, Backoff, ReasonExpired},
		{watching, ErrUnknownDeleted, listing, Backoff, ReasonUnclear},
		{watching, ErrForeign, listing, Backoff, ReasonUnclear},
		{watching, notFound, retried, Backoff, ReasonFailed},
		{watching, absent, newest, UntilServed, ReasonAbsent},
		{listing, errors.New("refused"), listing, Backoff, ReasonFailed},
		{listing, ErrForeign, listing, Backoff, ReasonFailed},
		{listing, expired, newest, NoWait, ReasonBehind},
		{listing, tooLarge, newest, NoWait, ReasonBehind},
		{newest, expired, newest, Backoff, ReasonFailed},
		{newest, tooLarge, newest, Backoff, ReasonFailed},
		{listing, ErrNoStreaming, paged, NoWait, ReasonRefused},
		{listing, ErrWentBack, restored, Backoff, ReasonRestored},
		{restored, errors.New("refused"), restored, Backoff, ReasonFailed},
		{listing, notFound, listing, Backoff, ReasonFailed},
		{listing, absent, listing, UntilServed, ReasonAbsent},
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
	if s := paged.Listed(); s != (State{Phase: Watching, Version: "7", paged: paged.paged}) {
		t.Errorf("after a list: %+v", s)
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
		if s, err = s.Ended(now.Add(maxQuiet - 1)); err != nil || s.Why != ReasonEnded {
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
		if relist := next.Phase == Listing; wait != Backoff || relist && (next.Why != ReasonBehind || !next.Doubtful()) {
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
