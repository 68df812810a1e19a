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
	"github.com/typedinformer/informer/status"
)

// traffic counts the requests of a client. It is safe for concurrent use.
type traffic struct {
	mu     sync.Mutex    // protects the fields below
	counts status.Client // without Host and recent requests
	recent recent
}

// waited counts the wait for the rate limit.
func (t *traffic) waited(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	histogram.Add(&t.counts.Throttled, d)
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
	counts := &t.counts
	if counts.Requests == nil {
		counts.Requests, counts.Latencies = map[status.RequestKind]uint64{}, map[string]status.Durations{}
	}
	counts.Requests[status.RequestKind{Method: method, Code: code}]++
	latencies := counts.Latencies[method]
	histogram.Add(&latencies, d)
	counts.Latencies[method] = latencies
	switch {
	case err == nil || !failedRequest(code):
		t.recent.add(now, false)
		counts.LastSuccess = now
	case !cancelled:
		t.recent.add(now, true)
		counts.LastError, counts.LastErrorTime = errtext.Short(err), now
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

// status returns the counts until now, without Host.
func (t *traffic) status() status.Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.counts
	s.Requests, s.Latencies = maps.Clone(s.Requests), maps.Clone(s.Latencies)
	s.RecentRequests, s.RecentFailures = t.recent.sum(time.Now())
	return s
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
