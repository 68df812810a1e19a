package informer

import (
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
}

// RequestKind is what ClientStatus counts requests by.
type RequestKind struct {
	// Method is the HTTP method.
	Method string
	// Code is the HTTP status code. Zero means that there was no response. A code that is not in the standard counts as the
	// first of its class, so that a server cannot make up kinds.
	Code int
}

// traffic counts the requests of a client. It is safe for concurrent use.
type traffic struct {
	mu        sync.Mutex // protects the fields below
	requests  map[RequestKind]uint64
	latencies map[string]Durations
	throttled Durations
}

// waited counts the wait for the rate limit.
func (t *traffic) waited(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.throttled.add(d)
}

// answered counts a request. code is 0 if there was no response.
func (t *traffic) answered(method string, code int, d time.Duration) {
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
}

func (t *traffic) status() ClientStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return ClientStatus{Requests: maps.Clone(t.requests), Latencies: maps.Clone(t.latencies), Throttled: t.throttled}
}
