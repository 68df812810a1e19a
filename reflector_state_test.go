package informer

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// After each failure, the reflector changes its state as the drawing says.
// Guarantees: R4, R5, R6, R8, R9, R14
func TestStateAfterEachFailure(t *testing.T) {
	now := time.Unix(1000, 0)
	tooLarge := apierrors.NewTimeoutError("too large resource version", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	expired, notFound := apierrors.NewResourceExpired("old"), apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "")
	absent := fmt.Errorf("%w: %w", notFound, errNotServed)
	corrupt := apierrors.NewInternalError(errors.New("corrupt"))
	corrupt.ErrStatus.Reason, corrupt.ErrStatus.Code = metav1.StatusReasonStoreReadError, http.StatusInternalServerError
	listing := state{name: ReflectorListing, rv: "7", least: "7"}
	newest := state{name: ReflectorListing, rv: "7"}
	watching := state{name: ReflectorWatching, rv: "7", ahead: 1}
	restored := state{name: ReflectorListing, rv: "7", restored: true}
	paged := listing
	paged.paged = now.Add(streamAgainAfter)
	for i, c := range []struct {
		from state
		err  error
		next state
		wait ReflectorState
		why  Reason
	}{
		{watching, errors.New("refused"), state{name: ReflectorWatching, rv: "7"}, ReflectorBackoff, ReasonFailed},
		{watching, errEmptyWatch, state{name: ReflectorWatching, rv: "7"}, ReflectorBackoff, ReasonFailed},
		{watching, tooLarge, state{name: ReflectorWatching, rv: "7", ahead: 2}, ReflectorBackoff, ReasonFailed},
		{state{name: ReflectorWatching, rv: "7", ahead: maxAhead - 1}, tooLarge, restored, ReflectorBackoff, ReasonRestored},
		{watching, errWentBack, restored, ReflectorBackoff, ReasonRestored},
		{watching, expired, listing, ReflectorBackoff, ReasonExpired},
		{watching, corrupt, listing, ReflectorBackoff, ReasonExpired},
		{watching, errUnknownDeleted, listing, ReflectorBackoff, ReasonUnclear},
		{watching, errForeign, listing, ReflectorBackoff, ReasonUnclear},
		{watching, notFound, state{name: ReflectorWatching, rv: "7"}, ReflectorBackoff, ReasonFailed},
		{watching, absent, newest, ReflectorAbsent, ReasonAbsent},
		{listing, errors.New("refused"), listing, ReflectorBackoff, ReasonFailed},
		{listing, errForeign, listing, ReflectorBackoff, ReasonFailed},
		{listing, expired, newest, ReflectorIdle, ReasonBehind},
		{listing, tooLarge, newest, ReflectorIdle, ReasonBehind},
		{newest, expired, newest, ReflectorBackoff, ReasonFailed},
		{newest, tooLarge, newest, ReflectorBackoff, ReasonFailed},
		{listing, errNoStreaming, paged, ReflectorIdle, ReasonRefused},
		{listing, errWentBack, restored, ReflectorBackoff, ReasonRestored},
		{restored, errors.New("refused"), restored, ReflectorBackoff, ReasonFailed},
		{listing, notFound, listing, ReflectorBackoff, ReasonFailed},
		{listing, absent, listing, ReflectorAbsent, ReasonAbsent},
	} {
		next, wait, _ := c.from.failed(fmt.Errorf("asked: %w", c.err), now)
		c.next.why = c.why
		if next != c.next || wait != c.wait {
			t.Errorf("%d: %+v after %v: %+v, wait in %v, want %+v, wait in %v", i, c.from, c.err, next, wait, c.next, c.wait)
		}
	}
	told := state{name: ReflectorListing, least: "0", told: true}
	if next, _, _ := told.failed(errWentBack, now); !next.told {
		t.Error("the sink gets the same absence again")
	}
	if s := paged.watching(); s != (state{name: ReflectorWatching, rv: "7", paged: paged.paged}) {
		t.Errorf("after a list: %+v", s)
	}
}
