package fetch

import (
	"math/rand/v2"
	"time"
)

const (
	// workedAfter is how long a watch must stand to count as one that worked. A watch that breaks sooner, without an
	// event, may have been rejected.
	workedAfter = 10 * time.Second
	// trustCuts is how long a limit counts at first. Then a longer watch shows whether it still exists. Each time that it
	// does, it counts twice as long as before, up to maxTrustCuts.
	trustCuts    = time.Hour
	maxTrustCuts = 24 * time.Hour
)

// cuts learns after what time something between client and server cuts watches: often a proxy that cuts each connection
// that has been silent for a minute, or open for an hour. The server should end a watch before that, since the client
// then resumes at once, without a failure. The zero value knows no limit.
//
//	unknown -- two cuts in a row at the same age --> known -- after a while --> on trial
//	known and on trial -- a watch stood for longer --> unknown
//	on trial -- a cut at the same age --> known
type cuts struct {
	last  cut           // the latest cut
	limit time.Duration // zero if unknown
	idle  bool          // limit is for silence, and not for the whole watch
	trust time.Duration // how long the limit counts
	until time.Time     // when it is on trial
}

// cut describes how a watch ended: after how long, and after how long a silence.
type cut struct{ age, idle time.Duration }

// add learns from a watch that was cut now.
func (c *cuts) add(now time.Time, this cut) {
	last := c.last
	c.last = this
	limit, idle := this.idle, true
	if !equalAge(this.idle, last.idle) {
		limit, idle = this.age, false
		if !equalAge(this.age, last.age) {
			return
		}
	}
	trust := trustCuts
	if equalAge(limit, c.limit) {
		limit = c.limit
		if trust = c.trust; !now.Before(c.until) {
			trust = min(2*trust, maxTrustCuts)
		}
	}
	c.limit, c.idle, c.trust, c.until = limit, idle, trust, now.Add(trust)
}

// stood learns from a watch that ended otherwise; longest is its longest silence.
func (c *cuts) stood(age, longest time.Duration) {
	if c.idle {
		age = longest
	}
	if c.limit > 0 && age > c.limit && !equalAge(age, c.limit) {
		*c = cuts{}
	}
}

// timeout returns after what time the server should end a watch that begins now. Zero means that any time will do.
func (c *cuts) timeout(now time.Time) time.Duration {
	if !now.Before(c.until) {
		return 0
	}
	return c.limit*3/4 + rand.N(c.limit*3/20)
}

// equalAge reports whether two watches that ended at the ages a and b may have met the same limit.
func equalAge(a, b time.Duration) bool {
	return min(a, b) >= workedAfter && (a-b).Abs() <= max(time.Second, b/20)
}
