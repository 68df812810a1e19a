package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A status can be marshalled, with the texts of its enumerations. Errors are left out: not everybody may see their
// texts.
func TestStatusesAreMarshalledWithoutErrors(t *testing.T) {
	secret := errors.New("the token is wrong")
	for _, c := range []struct {
		value any
		want  []string
	}{
		{Client{Requests: map[RequestKind]uint64{{Method: "GET"}: 1, {Method: "PUT", Code: 409}: 2}, LastError: secret},
			[]string{`"Requests":{"GET 0":1,"PUT 409":2}`}},
		{WarmStart{LoadError: secret, SaveError: secret, Saves: 3}, []string{`"Saves":3`}},
		{Reflector{State: ReflectorPolled, Awaits: AwaitingRetry, LastError: secret, Transitions: []Transition{{Err: secret}},
			Traffic: ReflectorTraffic{ListsBy: map[Reason]int{ReasonWarmStart: 2}}},
			[]string{`"State":"Polled"`, `"Awaits":"the next try"`, `"Reason":"first"}]`, `"ListsBy":{"warm start":2}`}},
		{Queue{State: QueueDraining, Depth: QueueDepth{1, 2, 3}}, []string{`"State":"Draining","Depth":{"High":1,"Normal":2,"Low":3}`}},
		{Controller{LastError: secret, Failing: 3}, []string{`"Failing":3`}},
		{Audit{LastError: secret, Last: AuditResult{Differences: []AuditDifference{
			{Key: types.NamespacedName{Namespace: "a", Name: "x"}, Kind: DifferenceRecreated}}}},
			[]string{`{"Key":{"Namespace":"a","Name":"x"},"Kind":"recreated"}`}},
	} {
		text, err := json.Marshal(c.value)
		if err != nil || strings.Contains(string(text), "token") || strings.Contains(string(text), "Error\"") {
			t.Errorf("%T: %s, %v", c.value, text, err)
		}
		for _, want := range c.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%T: %s has no %s", c.value, text, want)
			}
		}
	}
}

// The last value of each enumeration has a text of its own, and another value one with its number.
// Guarantees: O1
func TestValuesOfEnumerationsHaveTexts(t *testing.T) {
	for _, c := range []struct {
		last, next fmt.Stringer
		want       string // the texts of both
	}{
		{ReflectorPolled, ReflectorPolled + 1, "Polled, ReflectorState(6)"},
		{ReasonPolled, ReasonPolled + 1, "polled, Reason(14)"},
		{AwaitingWarmStart, AwaitingWarmStart + 1, "the saved state, Awaiting(7)"},
		{QueueClosed, QueueClosed + 1, "Closed, QueueState(3)"},
		{DifferenceOutdated, DifferenceOutdated + 1, "outdated, DifferenceKind(4)"},
	} {
		if got := fmt.Sprintf("%v, %v", c.last, c.next); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
