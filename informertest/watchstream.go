package informertest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer"
)

// watchStream is the response of a watch, whose events a test can hold.
//
//	passing ──► holding ──► passing
type watchStream struct {
	http.ResponseWriter
	server *Server
	req    Request
	hold   *Hold // the first that selected the watch; protected by the server's httpMu

	// out orders the writes to the response, and is held during them. A client that does not read blocks them, so nobody
	// takes out while holding another lock.
	out sync.Mutex

	mu      sync.Mutex // protects the fields below; after httpMu and out; never held during a write
	holding bool
	failed  bool // the response is an error, not a stream
	initial bool // the client has no version yet: the initial events have not ended
	frames  frames
	part    []byte       // the part so far of a frame that began while passing
	frame   []byte       // the part so far of a frame that began while holding
	queue   []*heldFrame // in order
	latest  []byte       // the last frame that was not held
}

// heldFrame is a frame of a watch, and what it says.
type heldFrame struct {
	event HeldEvent
	bytes []byte
}

// newWatchStream returns the stream of a watch.
func newWatchStream(w http.ResponseWriter, server *Server, req Request) *watchStream {
	version := req.Query.Get("resourceVersion")
	initial := version == "" || version == "0" || req.Query.Get("sendInitialEvents") == "true"
	return &watchStream{ResponseWriter: w, server: server, req: req, initial: initial}
}

// Unwrap returns the underlying http.ResponseWriter, for http.ResponseController.
func (w *watchStream) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError flushes, like http.ResponseController.Flush. It excludes the writes of a test's goroutine.
func (w *watchStream) FlushError() error {
	w.out.Lock()
	defer w.out.Unlock()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is FlushError for a Middleware that asks for an http.Flusher.
func (w *watchStream) Flush() { _ = w.FlushError() }

func (w *watchStream) WriteHeader(code int) {
	w.out.Lock()
	defer w.out.Unlock()
	w.mu.Lock()
	w.failed = code != http.StatusOK
	w.frames.protobuf = strings.HasPrefix(w.Header().Get("Content-Type"), runtime.ContentTypeProtobuf)
	w.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
}

// Write passes frames on, or holds them.
func (w *watchStream) Write(b []byte) (int, error) {
	more, err := w.write(b)
	if more {
		w.server.tellHeld()
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (w *watchStream) write(b []byte) (more bool, err error) {
	w.out.Lock()
	defer w.out.Unlock()
	now, more := w.divide(b)
	if len(now) > 0 {
		_, err = w.ResponseWriter.Write(now)
	}
	return more, err
}

// divide returns what is to be written now that b is to be written, and whether it holds another event.
func (w *watchStream) divide(b []byte) (now []byte, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed {
		return b, false
	}
	n := 0
	for n < len(b) && len(w.frame) == 0 && !(w.holding && !w.frames.within) {
		length := w.frames.take(b[n:])
		w.passLocked(b[n : n+length])
		n += length
	}
	now = b[:n:n]
	for n < len(b) {
		length := w.frames.take(b[n:])
		w.frame = append(w.frame, b[n:n+length]...)
		if n += length; w.frames.within {
			continue
		}
		frame := w.frame
		if w.frame = nil; w.captureLocked(frame) {
			more = true
		} else {
			now = append(now, frame...)
		}
	}
	return now, more
}

// maxNoted is how much of a frame that is not held is noted. etcd's largest object fits.
const maxNoted = 2 << 20

// passLocked notes the end of a frame that is not held, or a part of it.
func (w *watchStream) passLocked(b []byte) {
	if w.frames.within || len(w.part) > 0 {
		w.part = append(w.part, b[:min(len(b), maxNoted-len(w.part))]...)
		b = w.part
	}
	if !w.frames.within {
		w.deliveredLocked(b)
		w.part = w.part[:0]
	}
}

// deliveredLocked notes a frame that the client gets.
func (w *watchStream) deliveredLocked(frame []byte) {
	w.latest = append(w.latest[:0], frame[:min(len(frame), maxNoted)]...)
	w.initial = w.initial && !isInitialEventsEnd(frame)
}

// captureLocked queues a frame, and returns true, unless nothing keeps it. A bookmark replaces the one before it.
func (w *watchStream) captureLocked(frame []byte) bool {
	f := &heldFrame{bytes: frame, event: w.parse(frame)}
	last := len(w.queue) - 1
	switch {
	case !w.holding, f.event.Type == watch.Bookmark && last < 0:
		w.deliveredLocked(frame)
		return false
	case f.event.Type == watch.Bookmark && w.queue[last].event.Type == watch.Bookmark &&
		!isInitialEventsEnd(w.queue[last].bytes):
		w.queue[last] = f
	default:
		w.queue = append(w.queue, f)
	}
	return true
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
	w.out.Lock()
	defer w.out.Unlock()
	return w.send(w.choose(chosen))
}

// choose removes frames from the queue and returns them.
func (w *watchStream) choose(chosen map[*heldFrame]bool) (frames []*heldFrame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kept []*heldFrame
	for _, f := range w.queue {
		if !chosen[f] && (f.event.Type != watch.Bookmark || len(kept) > 0) {
			kept = append(kept, f)
			continue
		}
		w.deliveredLocked(f.bytes)
		frames = append(frames, f)
	}
	w.queue = kept
	return frames
}

// send writes frames that were held, and returns the number of events among them. The caller holds out. The queue of a
// response that has ended is empty, so send does not touch it.
func (w *watchStream) send(frames []*heldFrame) (n int) {
	if len(frames) == 0 {
		return 0
	}
	for _, f := range frames {
		if _, err := w.ResponseWriter.Write(f.bytes); err == nil && f.event.Type != watch.Bookmark {
			n++
		}
	}
	http.NewResponseController(w.ResponseWriter).Flush() // an error is the client's
	return n
}

// release delivers everything, and gives the watch to the next hold that selects it. Nothing is written meanwhile.
func (w *watchStream) release(h *Hold) {
	w.out.Lock()
	defer w.out.Unlock()
	w.send(w.leave(h))
}

// leave takes the watch from h, and returns the frames that were held.
func (w *watchStream) leave(h *Hold) (frames []*heldFrame) {
	w.server.httpMu.Lock()
	defer w.server.httpMu.Unlock()
	if w.hold != h {
		return nil
	}
	w.mu.Lock()
	for _, f := range w.queue {
		w.deliveredLocked(f.bytes)
	}
	frames, w.queue, w.holding, w.hold = w.queue, nil, false, nil
	w.mu.Unlock()
	for _, h := range w.server.holds {
		w.join(h)
	}
	return frames
}

// end drops what is held: the response is over. It waits for a write or flush of a test's goroutine.
func (w *watchStream) end() {
	w.out.Lock()
	defer w.out.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = nil
}

// reachable returns the version that the client of the watch is going to reach without what is held, or false if
// nothing is held. Version 0 means that the client is going to have none.
func (w *watchStream) reachable() (version uint64, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return 0, false
	}
	text := w.req.Query.Get("resourceVersion")
	switch {
	case w.initial:
		return 0, true
	case len(w.latest) > 0:
		text = w.parse(w.latest).ResourceVersion
	}
	version, _ = strconv.ParseUint(text, 10, 64)
	return version, true
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
