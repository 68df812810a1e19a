package shard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// network is the way from a replica to the server.
type network struct {
	tasks *sync.WaitGroup // requests that land after their clients have given up

	mu   sync.Mutex    // protects the fields below
	cut  chan struct{} // if not nil, requests hang until it is closed, and then break off
	late time.Duration // how long after it is sent a write lands, even if its client gives up
	slow time.Duration // how long the response to a write needs
	lag  time.Duration // how long a watch needs for what it reads
}

// link is a network as one client uses it.
type link struct {
	http.RoundTripper
	*network
}

var errReset = errors.New("connection reset")

func (n link) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	cut, late, slow := n.cut, n.late, n.slow
	n.mu.Unlock()
	if cut != nil {
		select {
		case <-cut:
			return nil, errReset
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if r.Method != http.MethodGet && late > 0 {
		return n.sendLate(r, late)
	}
	resp, err := n.RoundTripper.RoundTrip(r)
	if r.Method != http.MethodGet && slow > 0 {
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
		}
	}
	if err == nil && r.URL.Query().Get("watch") != "" {
		resp.Body = lagging{resp.Body, n.network, r.Context()}
	}
	return resp, err
}

// sendLate sends r after a time, whether its client still waits or not.
func (n link) sendLate(r *http.Request, late time.Duration) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	type answer struct {
		resp *http.Response
		err  error
	}
	answers := make(chan answer, 1)
	n.tasks.Go(func() {
		<-time.After(late)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
		defer cancel()
		copied := r.Clone(ctx)
		copied.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := n.RoundTripper.RoundTrip(copied)
		if err == nil { // read it here, in case the client has given up
			read, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(read))
		}
		answers <- answer{resp, err}
	})
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// lagging is the body of a watch.
type lagging struct {
	io.ReadCloser
	network *network
	ctx     context.Context
}

func (l lagging) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.network.mu.Lock()
	lag := l.network.lag
	l.network.mu.Unlock()
	if lag > 0 {
		select {
		case <-time.After(lag):
		case <-l.ctx.Done():
		}
	}
	return n, err
}
