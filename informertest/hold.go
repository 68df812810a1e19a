package informertest

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer"
)

// Watches selects watches.
type Watches struct {
	// Resource is the plural name of a resource, such as "pods". Empty means any.
	Resource string
	// Namespace is that of the watch. Empty means any.
	Namespace string
	// Match, if not nil, reports whether a watch is one of these, for example by its user, or its header User-Agent. It
	// must not call the server.
	Match func(Request) bool
}

func (w Watches) match(req Request) bool {
	return (w.Resource == "" || w.Resource == req.Resource.Resource) &&
		(w.Namespace == "" || w.Namespace == req.Namespace) && (w.Match == nil || w.Match(req))
}

// HeldEvent is an event that a [Hold] keeps from a client.
type HeldEvent struct {
	// Watch is the request.
	Watch Request
	// Type is ADDED, MODIFIED, DELETED or ERROR. There are no bookmarks; see [Hold].
	Type watch.EventType
	// Key and ResourceVersion are those of the object.
	Key             informer.Key
	ResourceVersion string
}

// Hold keeps the events of some watches from their clients, until the test delivers them. So it decides which of two
// informers, or of two clients, sees a change first.
//
//	hold := server.Hold(informertest.Watches{Resource: "pods"})
//	… // change a pod and its node: only the node's change arrives
//	hold.Release()
//
// A bookmark is delivered with the event before it. The list of a client is not held, but the initial events of a watch
// are. If a watch ends, its held events are dropped: the client watches again from the version that it has, and these
// events are held again.
//
// Deliver and Release wait until the events are written. If Options.InMemory is true, that takes a client that reads.
//
// All methods are safe for concurrent use.
type Hold struct {
	server  *Server
	watches Watches
}

// Hold holds the events of the watches that w selects, open ones and those to come, from now on. A watch that several
// holds select belongs to the first.
func (s *Server) Hold(w Watches) *Hold {
	h := &Hold{server: s, watches: w}
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	s.holds = append(s.holds, h)
	for _, stream := range s.streams {
		stream.join(h)
	}
	return h
}

// Events returns the held events: watch by watch in the order of their start, and the events of each in order.
func (h *Hold) Events() (events []HeldEvent) {
	for _, stream := range h.streams() {
		for _, f := range stream.pending() {
			events = append(events, f.event)
		}
	}
	return events
}

// Wait waits until at least n events are held, and returns the cause of ctx if that ends first.
func (h *Hold) Wait(ctx context.Context, n int) error {
	for {
		progress := h.server.heldProgress()
		if len(h.Events()) >= n {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Deliver delivers the held events for which match returns true, and returns their number. match may be nil, which
// means all. Deliver calls it once for each event, in the order of [Hold.Events]. An event that it passes over is
// delivered later than the ones after it: no API server does that within one watch.
func (h *Hold) Deliver(match func(HeldEvent) bool) (n int) {
	for _, stream := range h.streams() {
		n += stream.deliver(match)
	}
	return n
}

// Release delivers all held events, and ends the hold.
func (h *Hold) Release() {
	s := h.server
	s.httpMu.Lock()
	s.holds = slices.DeleteFunc(s.holds, func(other *Hold) bool { return other == h })
	s.httpMu.Unlock()
	for _, stream := range h.streams() {
		stream.release(h)
	}
}

// streams returns the open watches that are held.
func (h *Hold) streams() (streams []*watchStream) {
	h.server.httpMu.Lock()
	defer h.server.httpMu.Unlock()
	for _, stream := range h.server.streams {
		if stream.hold == h {
			streams = append(streams, stream)
		}
	}
	return streams
}

// heldProgress returns a channel that is closed when another event is held.
func (s *Server) heldProgress() <-chan struct{} {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	if s.heldMore == nil {
		s.heldMore = make(chan struct{})
	}
	return s.heldMore
}

func (s *Server) tellHeld() {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	if s.heldMore != nil {
		close(s.heldMore)
		s.heldMore = nil
	}
}

// withHolds makes it possible to hold the events of watches.
func (s *Server) withHolds(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := r.Context().Value(requestKey{}).(Request)
		if req.Verb != "watch" {
			next.ServeHTTP(w, r)
			return
		}
		stream := newWatchStream(w, s, req)
		s.httpMu.Lock()
		s.streams = append(s.streams, stream)
		for _, h := range s.holds {
			stream.join(h)
		}
		s.httpMu.Unlock()
		defer func() {
			s.httpMu.Lock()
			s.streams = slices.DeleteFunc(s.streams, func(other *watchStream) bool { return other == stream })
			s.httpMu.Unlock()
			stream.end()
		}()
		next.ServeHTTP(stream, r)
	})
}
