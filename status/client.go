package status

import (
	"fmt"
	"time"
)

// Client is the status of an informer.Client, since NewClient. The comments name the equivalent metrics of client-go.
type Client struct {
	// Host is the host and port of the API server.
	Host string
	// Requests counts the requests that were answered or failed: rest_client_requests_total.
	Requests map[RequestKind]uint64
	// Latencies has the times from sending a request to the header of its response, or to its failure, by HTTP method:
	// rest_client_request_duration_seconds. For a streaming list or a watch, that is the time until it begins.
	Latencies map[string]Durations
	// Throttled has the times that requests waited for the client's own rate limit, also those that did not have to wait:
	// rest_client_rate_limiter_duration_seconds.
	Throttled Durations
	// RecentRequests is the number of requests of the last five minutes, in steps of half a minute. RecentFailures is the
	// number of those that failed: without a response, with the status 401, 403, 429 or 5xx, or with an unreadable
	// response. Answers such as 404 and 409 are no failures. A request that its caller cancelled before the response does
	// not count.
	RecentRequests, RecentFailures uint64
	// LastSuccess is the time of the latest request that did not fail. Zero means that there was none.
	LastSuccess time.Time
	// LastError is the latest failure, in the sense of RecentFailures, and LastErrorTime its time. Nil means that there
	// was none. A success does not clear it. The text may come from the server or a proxy.
	LastError     error `json:"-"`
	LastErrorTime time.Time
}

// RequestKind is a group of requests that [Client] counts together.
type RequestKind struct {
	// Method is the HTTP method.
	Method string
	// Code is the HTTP status code. Zero means that there was no response. A code that is not in the standard counts as
	// the first of its class, so that a server cannot make up kinds.
	Code int
}

// String returns the method and the code, such as "GET 200".
func (k RequestKind) String() string { return fmt.Sprintf("%s %d", k.Method, k.Code) }

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (k RequestKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
