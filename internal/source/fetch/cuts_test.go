package fetch

import (
	"testing"
	"time"
)

// trial is a sequence of watches, and the limit that they teach.
type trial struct {
	*testing.T
	cuts cuts
	now  time.Time
}

func (r *trial) cut(age, idle time.Duration) {
	r.now = r.now.Add(age)
	r.cuts.add(r.now, cut{age, idle})
}

// want checks that the server is to end the next watch soon before limit. Zero means that there is no limit.
func (r *trial) want(limit time.Duration) {
	r.Helper()
	for range 100 {
		if got := r.cuts.timeout(r.now); (got > 0) != (limit > 0) || got < limit*7/10 || got > limit*9/10 {
			r.Fatalf("the next watch takes up to %v, with a limit of %v", got, limit)
		}
	}
}

// Two watches in a row that are cut after the same silence, or at the same age, show a limit. One alone, or two others,
// may be a coincidence, and a watch that breaks soon may have been rejected.
// Guarantees: R12
func TestTwoEqualCutsAreALimit(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		cuts  []cut
		limit time.Duration
	}{
		"one":              {[]cut{{50 * s, 50 * s}}, 0},
		"silence":          {[]cut{{50 * s, 50 * s}, {400 * s, 51 * s}}, 51 * s},
		"age":              {[]cut{{60 * s, 2 * s}, {61 * s, 40 * s}}, 61 * s},
		"different":        {[]cut{{50 * s, 50 * s}, {70 * s, 55 * s}}, 0},
		"not in a row":     {[]cut{{50 * s, 50 * s}, {70 * s, 20 * s}, {80 * s, 50 * s}}, 0},
		"soon":             {[]cut{{9 * s, 9 * s}, {9 * s, 9 * s}}, 0},
		"soon after bytes": {[]cut{{70 * s, s}, {90 * s, s}}, 0},
		"another limit":    {[]cut{{90 * s, 90 * s}, {90 * s, 90 * s}, {30 * s, 30 * s}, {30 * s, 30 * s}}, 30 * s},
	} {
		t.Run(name, func(t *testing.T) {
			r := &trial{T: t, now: time.Unix(1000, 0)}
			for _, cut := range c.cuts {
				r.cut(cut.age, cut.idle)
			}
			r.want(c.limit)
		})
	}
}

// After a while, a longer watch shows whether a limit still exists. While it does, that happens less and less often.
// Guarantees: R12
func TestLimitIsForgottenWhenItIsWrong(t *testing.T) {
	const idle = 50 * time.Second
	r := &trial{T: t, now: time.Unix(1000, 0)}
	r.cut(idle, idle)
	r.cut(idle, idle)
	for _, trust := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
		r.now = r.now.Add(trust*time.Hour - time.Second)
		r.want(idle)
		r.now = r.now.Add(time.Second)
		r.want(0)
		r.cuts.stood(10*time.Minute, idle-time.Second) // it was never silent for that long
		r.want(0)
		r.cut(2*idle, idle)
		r.want(idle)
	}
	r.cuts.stood(idle*9/10, idle*9/10)
	r.want(idle)
	r.cuts.stood(10*time.Minute, time.Minute)
	r.want(0)
	r.cut(idle, idle)
	r.want(0) // one cut shows no limit
	r.cut(idle, idle)
	r.want(idle)
	r.now = r.now.Add(time.Hour)
	r.want(0)
}
