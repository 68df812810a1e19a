package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// timing is that of the defaults.
var timing = Timing{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}

// onClocks calls test with a vacant term. skew is how far its wall clock is ahead.
func onClocks(t *testing.T, test func(t *testing.T, term *Term, skew *time.Duration)) {
	synctest.Test(t, func(t *testing.T) {
		skew := new(time.Duration)
		test(t, NewTerm(timing, func() time.Time { return time.Now().Round(0).Add(*skew) }), skew)
	})
}

// want fails the test unless the term is in a state, and Left and Alive are as given.
func (t *Term) want(test *testing.T, state State, left time.Duration, alive bool) {
	test.Helper()
	if t.State() != state || t.Left() != left || t.Alive() != alive {
		test.Errorf("%v, left %v, alive %t; want %v, %v, %t", t.State(), t.Left(), t.Alive(), state, left, alive)
	}
}

// A lease counts from when its renewal was sent, and is lost for good at RenewDeadline.
//
// Guarantees: E1, E6, S3
func TestLostForGood(t *testing.T) {
	onClocks(t, func(t *testing.T, term *Term, _ *time.Duration) {
		if term.Lose() || term.Overdue() {
			t.Error("a vacant term was lost")
		}
		first := term.Stamp()
		<-time.After(4 * time.Second)
		if !term.Renew(first) {
			t.Error("the first write does not count")
		}
		term.want(t, Held, 6*time.Second, true)
		second := term.Stamp()
		<-time.After(6*time.Second - 1)
		term.want(t, Held, 1, true)
		<-time.After(1)
		term.want(t, Held, 0, false)
		if !term.Overdue() || term.Renew(second) {
			t.Error("a response after RenewDeadline counts")
		}
		if !term.Overdue() || !term.Lose() || term.Lose() {
			t.Error("the term is not lost once")
		}
		term.want(t, Draining, 8*time.Second, false) // others count from the second renewal
		if term.Renew(term.Stamp()) {
			t.Error("a renewal counts after the loss")
		}
		during := term.Stamp()
		term.Drained()
		if term.Renew(second) || term.Renew(during) {
			t.Error("a write counts that was sent before all work had returned")
		}
		if !term.Renew(term.Stamp()) || !term.Alive() {
			t.Error("a write does not count that was sent when all work had returned")
		}
	})
}

// Each clock may stop, and the wall clock may be set.
//
// Guarantees: E1, E3, S3
func TestAgeOnTheClockThatShowsMore(t *testing.T) {
	onClocks(t, func(t *testing.T, term *Term, skew *time.Duration) {
		term.Renew(term.Stamp())
		<-time.After(3 * time.Second)
		*skew = -time.Hour
		term.want(t, Held, 7*time.Second, true)
		*skew = 6 * time.Second
		term.want(t, Held, time.Second, true)
		*skew = 7 * time.Second
		term.want(t, Held, 0, false)
		term.Lose()
		*skew = 11 * time.Second
		term.want(t, Draining, 0, false)
	})
}

// A lease that was taken so long ago that it has passed RenewDeadline is not held. Nothing is lost.
//
// Guarantees: E1, E3
func TestTakenTooLongAgo(t *testing.T) {
	onClocks(t, func(t *testing.T, term *Term, skew *time.Duration) {
		sent := term.Stamp()
		*skew = 10 * time.Second
		if term.Renew(sent) || term.Overdue() || term.State() != Vacant {
			t.Errorf("the term is %v", term.State())
		}
	})
}

// The lease of work that is returning already is lost at its end only, and the next term has the usual deadline.
//
// Guarantees: E2
func TestClosedTerm(t *testing.T) {
	onClocks(t, func(t *testing.T, term *Term, _ *time.Duration) {
		term.Renew(term.Stamp())
		term.Close()
		<-time.After(11 * time.Second)
		term.want(t, Held, 3*time.Second, false)
		if !term.Renew(term.Stamp()) {
			t.Error("a renewal between RenewDeadline and the end does not count")
		}
		term.want(t, Held, 14*time.Second, true)
		<-time.After(14 * time.Second)
		if !term.Overdue() {
			t.Error("the term goes on")
		}
		term.Drained()
		term.Renew(term.Stamp())
		term.want(t, Held, 10*time.Second, true)
	})
}
