package informer

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"
)

// ClientStatus is the status of a [Client], since NewClient. The comments name the equivalent metrics of client-go.
type ClientStatus struct {
	// Host is the host and port of the API server.
	Host string
	// Requests counts the requests that have got an answer or failed: rest_client_requests_total.
	Requests map[RequestKind]uint64
	// Latencies has the times from sending a request to the header of its response, or to its failure, by HTTP method:
	// rest_client_request_duration_seconds. For a streaming list or a watch, that is the time until it begins.
	Latencies map[string]Durations
	// Throttled has the times that requests waited for the client's own rate limit, also those that did not have to wait:
	// rest_client_rate_limiter_duration_seconds.
	Throttled Durations
	// RecentRequests is the number of requests of the last five minutes, in steps of half a minute. RecentFailures is the
	// number of those that failed: there was no response, or its status was 401, 403, 429 or 5xx, or it cannot be read.
	// Answers such as 404 and 409 are no failures. A request that its caller cancelled before the response does not count.
	RecentRequests, RecentFailures uint64
	// LastSuccess is the time of the latest request that did not fail. Zero means that there was none.
	LastSuccess time.Time
	// LastError is the latest failure, in the sense of RecentFailures, and LastErrorTime its time. Nil means that there
	// was none. A success does not clear it. The text may come from the server or a proxy.
	LastError     error
	LastErrorTime time.Time
}

// RequestKind is what ClientStatus counts requests by.
type RequestKind struct {
	// Method is the HTTP method.
	Method string
	// Code is the HTTP status code. Zero means that there was no response. A code that is not in the standard counts as
	// the first of its class, so that a server cannot make up kinds.
	Code int
}

// traffic counts the requests of a client. It is safe for concurrent use.
type traffic struct {
	mu        sync.Mutex // protects the fields below
	requests  map[RequestKind]uint64
	latencies map[string]Durations
	throttled Durations
	recent    recent

	lastSuccess, lastErrorTime time.Time
	lastError                  error
}

// waited counts the wait for the rate limit.
func (t *traffic) waited(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.throttled.add(d)
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
		t.requests, t.latencies = map[RequestKind]uint64{}, map[string]Durations{}
	}
	t.requests[RequestKind{method, code}]++
	latencies := t.latencies[method]
	latencies.add(d)
	t.latencies[method] = latencies
	switch {
	case err == nil || !failedRequest(code):
		t.recent.add(now, false)
		t.lastSuccess = now
	case !cancelled:
		t.recent.add(now, true)
		t.lastError, t.lastErrorTime = shortError(err), now
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

func (t *traffic) status() ClientStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	requests, failures := t.recent.sum(time.Now())
	return ClientStatus{
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
