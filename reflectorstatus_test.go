package informer

import (
	"testing"

	"github.com/typedinformer/informer/internal/fetch"
)

// A status shows the reason of the engine: the values of both enumerations are equal.
// Guarantees: O1
func TestStatusHasTheReasonsOfTheEngine(t *testing.T) {
	pairs := map[Reason]fetch.Reason{
		ReasonFirst: fetch.ReasonFirst, ReasonEnded: fetch.ReasonEnded, ReasonFailed: fetch.ReasonFailed,
		ReasonExpired: fetch.ReasonExpired, ReasonRestored: fetch.ReasonRestored, ReasonBehind: fetch.ReasonBehind,
		ReasonRefused: fetch.ReasonRefused, ReasonAbsent: fetch.ReasonAbsent, ReasonUnclear: fetch.ReasonUnclear,
		ReasonShard: fetch.ReasonShard, ReasonWarmStart: fetch.ReasonWarmStart,
		ReasonAudit: fetch.ReasonAudit,
	}
	for reason, engine := range pairs {
		if Reason(engine) != reason {
			t.Errorf("%v of the engine shows as %v", reason, Reason(engine))
		}
	}
	if len(pairs) != fetch.Reasons {
		t.Errorf("%d of %d reasons", len(pairs), fetch.Reasons)
	}
}
