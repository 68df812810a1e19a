package informertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer"
)

// Watches selects watches.
type Watches struct {
	// Resource is the plural name of a resource, such as "pods". Empty means any.
	Resource string
	// Namespace is that of the watch. Empty means any.
	Namespace string
	// Match, if not nil, reports whether a watch is one of these, for example by its user, or its header User-Agent.
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
		stream.release()
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
		stream := &watchStream{ResponseWriter: w, server: s, req: req}
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

// watchStream is the response of a watch, whose events a test can hold.
//
//	passing ──► holding ──► passing
type watchStream struct {
	http.ResponseWriter
	server *Server
	req    Request
	hold   *Hold // the first that selected the watch; protected by the server's httpMu

	mu      sync.Mutex // protects the fields below; held while writing; after httpMu
	holding bool
	failed  bool // the response is an error, not a stream
	ended   bool
	frames  frames
	frame   []byte       // the part so far of a frame that began while holding
	queue   []*heldFrame // in order
	version string       // the resource version of the last held frame that was delivered
}

// heldFrame is a frame of a watch, and what it says.
type heldFrame struct {
	event HeldEvent
	bytes []byte
}

// Unwrap returns the underlying http.ResponseWriter, for http.ResponseController.
func (w *watchStream) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError flushes, like http.ResponseController.Flush. It excludes the writes of a test's goroutine.
func (w *watchStream) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flushLocked()
}

// Flush is FlushError for a Middleware that asks for an http.Flusher.
func (w *watchStream) Flush() { _ = w.FlushError() }

func (w *watchStream) flushLocked() error {
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *watchStream) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = code != http.StatusOK
	w.frames.protobuf = strings.HasPrefix(w.Header().Get("Content-Type"), runtime.ContentTypeProtobuf)
	w.ResponseWriter.WriteHeader(code)
}

func (w *watchStream) Write(b []byte) (int, error) {
	n, more, err := w.write(b)
	if more {
		w.server.tellHeld()
	}
	return n, err
}

// write passes frames on, or holds them. more reports whether it holds another event.
func (w *watchStream) write(b []byte) (n int, more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed {
		n, err = w.ResponseWriter.Write(b)
		return n, false, err
	}
	for n < len(b) && len(w.frame) == 0 && !(w.holding && !w.frames.within) {
		n += w.frames.take(b[n:])
	}
	if n > 0 {
		if n, err := w.ResponseWriter.Write(b[:n]); err != nil {
			return n, false, err
		}
	}
	for n < len(b) {
		length := w.frames.take(b[n:])
		w.frame = append(w.frame, b[n:n+length]...)
		if n += length; !w.frames.within {
			if err := w.captureLocked(); err != nil {
				return n, more, err
			}
			more = true
		}
	}
	return n, more, nil
}

// captureLocked queues the frame that is complete, or writes it if nothing keeps it.
func (w *watchStream) captureLocked() error {
	f := &heldFrame{bytes: w.frame, event: w.parse(w.frame)}
	w.frame = nil
	if w.holding && (f.event.Type != watch.Bookmark || len(w.queue) > 0) {
		w.queue = append(w.queue, f)
		return nil
	}
	return w.sendLocked(f)
}

func (w *watchStream) sendLocked(f *heldFrame) error {
	if w.ended {
		return http.ErrHandlerTimeout
	}
	w.version = f.event.ResourceVersion
	_, err := w.ResponseWriter.Write(f.bytes)
	return err
}

// join makes the watch belong to h, if h selects it. The caller holds the server's httpMu.
func (w *watchStream) join(h *Hold) {
	if w.hold == nil && h.watches.match(w.req) {
		w.hold = h
		w.mu.Lock()
		defer w.mu.Unlock()
		w.holding = true
	}
}

// pending returns the held frames that are not bookmarks.
func (w *watchStream) pending() (frames []*heldFrame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.queue {
		if f.event.Type != watch.Bookmark {
			frames = append(frames, f)
		}
	}
	return frames
}

// deliver delivers the held events that match selects, and the bookmarks that no event precedes any more.
func (w *watchStream) deliver(match func(HeldEvent) bool) (n int) {
	chosen := map[*heldFrame]bool{}
	for _, f := range w.pending() { // without the lock: match is the user's function
		chosen[f] = match == nil || match(f.event)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var kept []*heldFrame
	for _, f := range w.queue {
		if !chosen[f] && (f.event.Type != watch.Bookmark || len(kept) > 0) {
			kept = append(kept, f)
			continue
		}
		if w.sendLocked(f) == nil && f.event.Type != watch.Bookmark {
			n++
		}
	}
	w.queue = kept
	w.flushLocked() // an error is the client's
	return n
}

// release delivers everything and holds no more.
func (w *watchStream) release() {
	w.mu.Lock()
	w.holding = false
	w.mu.Unlock()
	w.deliver(nil)
	w.server.httpMu.Lock()
	defer w.server.httpMu.Unlock()
	w.hold = nil
	for _, h := range w.server.holds {
		w.join(h)
	}
}

// end drops what is held: the response is over.
func (w *watchStream) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended, w.queue = true, nil
}

// parse returns what a frame says.
func (w *watchStream) parse(frame []byte) HeldEvent {
	var event struct {
		Type   watch.EventType              `json:"type"`
		Object metav1.PartialObjectMetadata `json:"object"`
	}
	if w.frames.protobuf {
		var message metav1.WatchEvent
		var unknown runtime.Unknown
		if message.Unmarshal(frame[4:]) == nil &&
			unknown.Unmarshal(bytes.TrimPrefix(message.Object.Raw, protobufPrefix)) == nil {
			event.Object.Unmarshal(unknown.Raw) // every type has its metadata as the first field
		}
		event.Type = watch.EventType(message.Type)
	} else {
		json.Unmarshal(frame, &event)
	}
	return HeldEvent{Watch: w.req, Type: event.Type, Key: informer.KeyOf(&event.Object),
		ResourceVersion: event.Object.ResourceVersion}
}

// protobufPrefix begins every protobuf object of Kubernetes.
var protobufPrefix = []byte("k8s\x00")

// frames finds the ends of the frames of a watch.
type frames struct {
	protobuf bool
	within   bool // the last byte was not the end of a frame
	head     []byte
	rest     int // bytes of the frame that are still to come, after its head
}

// take returns the length of the part of b that belongs to the present frame.
func (f *frames) take(b []byte) (n int) {
	if !f.protobuf {
		n = bytes.IndexByte(b, '\n') + 1
		f.within = n == 0
		if f.within {
			n = len(b)
		}
		return n
	}
	if f.rest == 0 {
		n = min(4-len(f.head), len(b))
		if f.head = append(f.head, b[:n]...); len(f.head) == 4 {
			f.rest, f.head = int(binary.BigEndian.Uint32(f.head)), f.head[:0]
		}
		f.within = true
		return n
	}
	n = min(f.rest, len(b))
	f.rest -= n
	f.within = f.rest > 0
	return n
}
