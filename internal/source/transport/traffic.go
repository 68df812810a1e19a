package transport

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/errtext"
	"github.com/typedinformer/informer/internal/histogram"
)

// Kind is what a Status counts requests by: the HTTP method, and the status code, or zero if there was no response. A
// code that is not in the standard counts as the first of its class, so that a server cannot make up kinds.
type Kind struct {
	Method string
	Code   int
}

// Status has the counts of a client, as informer.ClientStatus describes them.
type Status struct {
	Requests                       map[Kind]uint64
	Latencies                      map[string]histogram.Histogram
	Throttled                      histogram.Histogram
	RecentRequests, RecentFailures uint64
	LastSuccess, LastErrorTime     time.Time
	LastError                      error
}

// traffic counts the requests of a client. It is safe for concurrent use.
type traffic struct {
	mu        sync.Mutex // protects the fields below
	requests  map[Kind]uint64
	latencies map[string]histogram.Histogram
	throttled histogram.Histogram
	recent    recent

	lastSuccess, lastErrorTime time.Time
	lastError                  error
}

// waited counts the wait for the rate limit.
func (t *traffic) waited(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.throttled.Add(d)
}

// answered counts a request with its result. code is 0 if there was no response. d is the time that the request took
// until now.
func (t *traffic) answered(ctx context.Context, method string, code int, err error, d time.Duration) {
	now := time.Now()
	cancelled := code == 0 && errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, ErrNoProgress)
	switch {
	case code == 0 || http.StatusText(code) != "":
	case code < 100: // HTTP/2 lets a server send any number
		code = 900
	default:
		code = min(code/100*100, 900)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == nil {
		t.requests, t.latencies = map[Kind]uint64{}, map[string]histogram.Histogram{}
	}
	t.requests[Kind{method, code}]++
	latencies := t.latencies[method]
	latencies.Add(d)
	t.latencies[method] = latencies
	switch {
	case err == nil || !failedRequest(code):
		t.recent.add(now, false)
		t.lastSuccess = now
	case !cancelled:
		t.recent.add(now, true)
		t.lastError, t.lastErrorTime = errtext.Short(err), now
	}
}

// failedRequest reports whether a request that got code and an error shows that the server, or the way to it, does not
// work.
func failedRequest(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return code < 300 || code >= 500
}

// status returns the counts until now.
func (t *traffic) status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	requests, failures := t.recent.sum(time.Now())
	return Status{
		Requests:       maps.Clone(t.requests),
		Latencies:      maps.Clone(t.latencies),
		Throttled:      t.throttled,
		RecentRequests: requests,
		RecentFailures: failures,
		LastSuccess:    t.lastSuccess,
		LastError:      t.lastError,
		LastErrorTime:  t.lastErrorTime,
	}
}

// recent counts requests of the last recentSlots steps of recentStep. The zero value has none.
type recent struct {
	began time.Time // of the first step
	slots [recentSlots]struct {
		step               int64
		requests, failures uint64
	}
}

const (
	recentStep  = 30 * time.Second
	recentSlots = 10
)

// add counts a request that has ended now.
func (r *recent) add(now time.Time, failed bool) {
	if r.began.IsZero() {
		r.began = now
	}
	step := r.step(now)
	slot := &r.slots[step%recentSlots]
	if slot.step != step {
		slot.step, slot.requests, slot.failures = step, 0, 0
	}
	slot.requests++
	if failed {
		slot.failures++
	}
}

// sum returns the numbers of requests and failures.
func (r *recent) sum(now time.Time) (requests, failures uint64) {
	step := r.step(now)
	for _, slot := range r.slots {
		if slot.step > step-recentSlots {
			requests += slot.requests
			failures += slot.failures
		}
	}
	return requests, failures
}

func (r *recent) step(now time.Time) int64 { return int64(max(now.Sub(r.began), 0) / recentStep) }
