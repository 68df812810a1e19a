package controller

import (
	"testing"
	"testing/synctest"
	"time"
)

// A key is held until its last wait is over, the deadline, or the end, whatever comes first, and let go once.
// Guarantees: Q12
func TestHoldEndsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		waits   []int // when each wait is over, in seconds; 0 for at once, -1 for never, -2 for nothing to wait for
		refused bool
		end     int // when End is called, in seconds; 0 for never
		letGo   int // in seconds; -1 for never
		late    bool
	}{
		"no waits":           {letGo: -1},
		"nothing to wait":    {waits: []int{-2, -2}},
		"at once":            {waits: []int{0}},
		"the last of two":    {waits: []int{3, 1}, letGo: 3},
		"one and nothing":    {waits: []int{-2, 2}, letGo: 2},
		"deadline":           {waits: []int{1, -1}, letGo: 10, late: true},
		"after the deadline": {waits: []int{11}, letGo: 10, late: true},
		"end":                {waits: []int{1, -1}, end: 5, letGo: 5},
		"end after the wait": {waits: []int{1}, end: 5, letGo: 1},
		"end after deadline": {waits: []int{-1}, end: 20, letGo: 10, late: true},
		"refused":            {waits: []int{3}, refused: true, letGo: -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h Holds
				began := time.Now()
				held, letGo, late := 0, []time.Duration{}, 0
				var waits []Await
				for _, after := range c.waits {
					waits = append(waits, func(done func()) func() {
						switch {
						case after == -2:
							return nil
						case after == -1:
							return func() {}
						case after == 0:
							done()
							return func() {}
						}
						timer := time.AfterFunc(time.Duration(after)*time.Second, done)
						return func() { timer.Stop() }
					})
				}
				h.Hold(Held{
					Hold:     func() bool { held++; return !c.refused },
					LetGo:    func() { letGo = append(letGo, time.Since(began)) },
					Deadline: 10 * time.Second,
					Late:     func() { late++ },
				}, waits)
				if c.end > 0 {
					time.AfterFunc(time.Duration(c.end)*time.Second, h.End)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if c.letGo < 0 && len(letGo) > 0 || c.letGo >= 0 && (len(letGo) != 1 || letGo[0] != time.Duration(c.letGo)*time.Second) {
					t.Errorf("let go at %v, want %d s", letGo, c.letGo)
				}
				if (late == 1) != c.late || late > 1 {
					t.Errorf("%d times late", late)
				}
				if s := h.Status(); s.Waiting != 0 || s.Expired != uint64(late) || len(h.held) != 0 {
					t.Errorf("status %+v, %d held", s, len(h.held))
				}
				if held > 1 || (len(c.waits) > 0) != (held == 1) {
					t.Errorf("held %d times", held)
				}
			})
		})
	}
}
