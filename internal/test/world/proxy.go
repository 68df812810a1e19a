package world

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// ErrReset is the error of an HTTP/2 stream that the other side has reset.
var ErrReset = errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer")

// Proxy is between a client and the server, and disturbs watches as proxies do. Install it with Wrap. The zero value
// disturbs nothing.
type Proxy struct {
	// Idle is how long a watch may be silent. Zero means for ever.
	Idle time.Duration
	// Cut is the error with which the body of a watch ends that is silent for longer than Idle. With io.EOF, the body is
	// complete.
	Cut error
	// Hold is how long the proxy holds back the header of a watch that has no event. If the watch is silent for Idle in
	// the meantime, the proxy answers 524 with HTML.
	Hold time.Duration
}

// Wrap makes the requests of a client with that configuration pass the proxy.
func (p *Proxy) Wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err != nil || !AsksToWatch(r) {
				return resp, err
			}
			return p.pass(r, resp), nil
		})
	})
}

// pass returns the response to a watch that passes the proxy.
func (p *Proxy) pass(r *http.Request, resp *http.Response) *http.Response {
	from, out := io.Pipe()
	first, silent := make(chan struct{}), make(chan struct{})
	idle := time.AfterFunc(24*365*time.Hour, func() {
		close(silent)
		out.CloseWithError(p.Cut)
		resp.Body.Close()
	})
	rearm := func() {
		if p.Idle > 0 {
			idle.Reset(p.Idle)
		}
	}
	rearm()
	go func() {
		defer idle.Stop()
		buffer := make([]byte, 4<<10)
		for begun := false; ; begun = true {
			n, err := resp.Body.Read(buffer)
			rearm()
			if !begun {
				close(first)
			}
			if n > 0 {
				out.Write(buffer[:n])
			}
			if err != nil {
				out.CloseWithError(err)
				return
			}
		}
	}()
	passed := *resp
	passed.Body = pipeBody{from, resp.Body}
	if p.Hold > 0 {
		select {
		case <-first:
		case <-time.After(p.Hold):
		case <-r.Context().Done():
		case <-silent:
			passed.StatusCode, passed.Header = 524, http.Header{"Content-Type": {"text/html; charset=UTF-8"}}
			passed.Body = io.NopCloser(strings.NewReader("<html><title>524: A timeout occurred</title></html>"))
		}
	}
	return &passed
}

// pipeBody is a body that comes through a pipe.
type pipeBody struct {
	*io.PipeReader
	from io.Closer
}

// Close closes both ends.
func (b pipeBody) Close() error {
	b.PipeReader.Close()
	return b.from.Close()
}
