package informer

import (
	"testing"

	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/reflector"
)

// A status shows the reason of the engine: the values of both enumerations are equal.
// Guarantees: O1
func TestStatusHasTheReasonsOfTheEngine(t *testing.T) {
	pairs := map[Reason]fetch.Reason{
		ReasonFirst: fetch.ReasonFirst, ReasonEnded: fetch.ReasonEnded, ReasonFailed: fetch.ReasonFailed,
		ReasonExpired: fetch.ReasonExpired, ReasonRestored: fetch.ReasonRestored, ReasonBehind: fetch.ReasonBehind,
		ReasonRefused: fetch.ReasonRefused, ReasonAbsent: fetch.ReasonAbsent, ReasonUnclear: fetch.ReasonUnclear,
		ReasonShard: fetch.ReasonShard, ReasonWarmStart: fetch.ReasonWarmStart,
		ReasonAudit: fetch.ReasonAudit, ReasonUpdated: fetch.ReasonUpdated, ReasonPolled: fetch.ReasonPolled,
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

// The states and the types of deltas have the values of the engine, too. An unknown value has a text.
// Guarantees: O1
func TestStatesAndDeltasAreThoseOfTheEngine(t *testing.T) {
	for state, engine := range map[ReflectorState]reflector.State{
		ReflectorIdle: reflector.Idle, ReflectorListing: reflector.Listing, ReflectorWatching: reflector.Watching,
		ReflectorBackoff: reflector.Backoff, ReflectorAbsent: reflector.Absent,
		ReflectorPolled: reflector.Polled,
	} {
		if ReflectorState(engine) != state {
			t.Errorf("%v of the engine shows as %v", engine, ReflectorState(engine))
		}
	}
	for of, engine := range map[DeltaType]reflector.DeltaType{
		Upserted: reflector.Upserted, Removed: reflector.Removed, Replaced: reflector.Replaced, Bookmarked: reflector.Bookmarked,
	} {
		if DeltaType(engine) != of {
			t.Errorf("%d of the engine is %v, want %v", engine, DeltaType(engine), of)
		}
	}
	if got := ReflectorState(99).String() + Reason(99).String(); got != "ReflectorState(99)Reason(99)" {
		t.Error(got)
	}
}
