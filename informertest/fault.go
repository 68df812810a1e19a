package informertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/test/spoil"
	"github.com/typedinformer/informer/watchcache"
)

// Fault is a failure of requests to a [Server]: it selects requests, a place in the response, and the failure.
//
//	Fault{Verb: "watch", AfterEvents: 3, Drop: true}                              // the connection breaks after the third event
//	Fault{Verb: "watch", AfterEvents: 3, AfterBytes: 20, Drop: true}              // in the middle of the fourth
//	Fault{Verb: "watch", Times: 1, Error: apierrors.NewResourceExpired("gone")}   // the next watch fails with 410
//	Fault{Resource: "pods", Error: apierrors.NewTooManyRequests("later", 3)}      // 429 with Retry-After: 3
//	Fault{Verb: "list", Skip: 1, Times: 1, Hang: true}                            // the second list never gets a response
//	Fault{Error: apierrors.NewNotFound(schema.GroupResource{}, "")}               // 404 for everything, as from a proxy without a backend
//	Fault{Verb: "watch", AfterEvents: 1, Error: apierrors.NewTimeoutError("", 0)} // an ERROR event after the first event
//
// For failures of the whole server, see [Server.Stop], [Server.CloseConnections], [Server.EndWatches], [Server.Compact]
// and [Server.Restore].
//
// Three ways make a store differ from the server without any error, to test what [informer.Informer.Audit] finds:
// LoseEvents loses changes; Rewrite can send another resource version; and a server that is stopped, restored by
// [Server.Restore], written to until it is past the version of the store, and started again has another history.
type Fault struct {
	// Verb selects requests by their verb, as in [Request]. Empty means any, and requests without one, such as
	// discovery.
	Verb string
	// Resource selects requests by the plural name of their resource, such as "pods". Empty means any.
	Resource string
	// Namespace selects requests by their namespace. Empty means any.
	Namespace string
	// Match, if not nil, reports whether the fault applies to one of these requests.
	Match func(Request) bool
	// Skip is how many of the selected requests are unaffected at first.
	Skip int
	// Times is how many requests are affected after that. Zero means all. A client may retry by itself: net/http
	// repeats a GET if a reused connection breaks before the response has begun.
	Times int

	// Delay is the time to wait before the response.
	Delay time.Duration
	// BytesPerSecond limits the rate of the response's body. Zero means no limit.
	BytesPerSecond int

	// AfterHeaders, AfterEvents and AfterBytes say where the response breaks off: after the headers, then after this
	// many events of a watch (bookmarks count), then after this many more bytes of the body. If all are zero, the
	// failure replaces the response.
	AfterHeaders bool
	AfterEvents  int
	AfterBytes   int

	// At most one of the following is set.

	// Error is sent as its metav1.Status; see package k8s.io/apimachinery/pkg/api/errors. Other errors become an
	// internal error. In the body of a watch, Error sends an ERROR event and ends the watch. In another body it acts as
	// Drop.
	Error error
	// Drop breaks the connection.
	Drop bool
	// Hang sends nothing more until the client gives up.
	Hang bool
	// End ends the body as if it were complete.
	End bool

	// OmitBookmarks sends no bookmarks, even if the client requests them.
	OmitBookmarks bool
	// OmitInitialEventsEnd omits only the bookmark after the initial events.
	OmitInitialEventsEnd bool
	// IgnoreSendInitialEvents treats a streaming list as a watch without sendInitialEvents, as an old server does. A
	// kube-apiserver with the feature off responds with 422 Invalid: use Error for that.
	IgnoreSendInitialEvents bool

	// LoseEvents is how many events of each watch are never sent, the first ones after those that AfterEvents counts.
	// Bookmarks do not count, and are sent. The client then misses changes and cannot notice: its [informer.Informer.Audit]
	// does.
	LoseEvents int

	// Corrupt are objects that cannot be decoded. Their bytes are corrupted after the metadata, in every response. JSON
	// remains syntactically valid but has a wrong type.
	Corrupt []informer.Key
	// Rewrite, if not nil, returns the bytes to send in place of each encoded object: in JSON or protobuf, in a list,
	// an event or by itself, without its kind. The key of a bookmark is empty. Rewrite must not write to object.
	Rewrite func(key informer.Key, object []byte) []byte
}

// Inject applies f to new requests until remove is called. Requests in progress are not affected. Faults stack, the
// first one outermost; a request counts for each fault that it matches.
//
// It panics if f has no effect, has more than one of Error, Drop, Hang and End, or says where to break off without any
// of these; AfterEvents alone may say from where on LoseEvents loses events.
func (s *Server) Inject(f Fault) (remove func()) {
	f.validate()
	active := &activeFault{Fault: f}
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	s.faults = append(s.faults, active)
	return func() {
		s.httpMu.Lock()
		defer s.httpMu.Unlock()
		s.faults = slices.DeleteFunc(slices.Clone(s.faults), func(f *activeFault) bool { return f == active })
	}
}

// activeFault is an injected fault. The lock of the server's HTTP side protects seen.
type activeFault struct {
	Fault
	seen int // how many requests have matched
}

// breaks returns how many of Error, Drop, Hang and End are set.
func (f *Fault) breaks() (n int) {
	for _, chosen := range []bool{f.Error != nil, f.Drop, f.Hang, f.End} {
		if chosen {
			n++
		}
	}
	return n
}

// late reports whether the response begins before it breaks off.
func (f *Fault) late() bool { return f.AfterHeaders || f.AfterEvents > 0 || f.AfterBytes > 0 }

// losesLater reports whether AfterEvents only says from where on events are lost.
func (f *Fault) losesLater() bool { return f.LoseEvents > 0 && !f.AfterHeaders && f.AfterBytes == 0 }

// omitsEnd reports whether the watch lacks the bookmark at the end of the initial events. Even without
// sendInitialEvents, a watch without a resource version begins with all objects, and a bookmark after them.
func (f *Fault) omitsEnd() bool { return f.OmitInitialEventsEnd || f.IgnoreSendInitialEvents }

func (f *Fault) validate() {
	effect := f.Delay > 0 || f.BytesPerSecond > 0 || f.OmitBookmarks || f.OmitInitialEventsEnd ||
		f.IgnoreSendInitialEvents || f.LoseEvents > 0 || f.Corrupt != nil || f.Rewrite != nil
	switch n := f.breaks(); {
	case n > 1:
		panic("informertest: a Fault has more than one of Error, Drop, Hang and End")
	case n == 0 && f.late() && !f.losesLater():
		panic("informertest: a Fault says where to break off, but has none of Error, Drop, Hang and End")
	case n == 0 && !effect:
		panic("informertest: a Fault has no effect")
	}
}

func (f *Fault) matches(req Request) bool {
	return (f.Verb == "" || f.Verb == req.Verb) &&
		(f.Resource == "" || f.Resource == req.Resource.Resource) &&
		(f.Namespace == "" || f.Namespace == req.Namespace) &&
		(f.Match == nil || f.Match(req))
}

// withFaults applies the injected faults to requests.
func (s *Server) withFaults(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := next
		for _, f := range slices.Backward(s.faultsFor(r.Context().Value(requestKey{}).(Request))) {
			handler = f.handler(handler)
		}
		handler.ServeHTTP(w, r)
	})
}

// faultsFor returns the faults that apply to a request.
func (s *Server) faultsFor(req Request) (met []*activeFault) {
	s.httpMu.Lock()
	faults := s.faults
	s.httpMu.Unlock()
	for _, f := range faults {
		if !f.matches(req) { // without the lock: Fault.Match is the user's function
			continue
		}
		s.httpMu.Lock()
		f.seen++
		if n := f.seen - f.Skip; n > 0 && (f.Times == 0 || n <= f.Times) {
			met = append(met, f)
		}
		s.httpMu.Unlock()
	}
	return met
}

func (f *Fault) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if run.Sleep(r.Context(), f.Delay) != nil {
			panic(http.ErrAbortHandler)
		}
		if f.breaks() > 0 && !f.late() {
			f.inPlace(w, r)
			return
		}
		r = f.overlook(r)
		if rewrite := f.rewrite(); rewrite != nil {
			r = r.WithContext(spoil.NewContext(r.Context(), rewrite))
		}
		if !f.late() && !f.omitsEnd() && f.LoseEvents == 0 && f.BytesPerSecond <= 0 {
			next.ServeHTTP(w, r)
			return
		}
		out := &faultyWriter{ResponseWriter: w, fault: f, ctx: r.Context(), watch: isWatch(r.URL.Query()),
			bytesLeft: f.AfterBytes, eventsLeft: f.AfterEvents, loseLeft: f.LoseEvents}
		defer func() {
			if out.over { // whatever the handler made of the error of its writes
				if p := recover(); p != nil && p != http.ErrAbortHandler {
					panic(p)
				}
			}
		}()
		next.ServeHTTP(out, r)
	})
}

// inPlace sends the failure in the place of a response.
func (f *Fault) inPlace(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.Error != nil:
		watchcache.WriteError(w, r, f.Error)
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Hang:
		// net/http notices that a client has gone only after its body
		io.Copy(io.Discard, http.MaxBytesReader(nil, r.Body, maxBody))
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case f.End:
		w.WriteHeader(http.StatusOK)
	}
}

// overlook returns the request without the parameters that the server is to ignore.
func (f *Fault) overlook(r *http.Request) *http.Request {
	query := r.URL.Query()
	if f.OmitBookmarks {
		query.Del("allowWatchBookmarks")
	}
	if f.IgnoreSendInitialEvents && query.Has("sendInitialEvents") {
		query.Del("sendInitialEvents")
		query.Del("resourceVersionMatch")
	}
	u := *r.URL
	u.RawQuery = query.Encode()
	r = r.WithContext(r.Context()) // a copy
	r.URL = &u
	return r
}

// rewrite returns the function that changes encoded objects, or nil.
func (f *Fault) rewrite() spoil.Func {
	if f.Corrupt == nil && f.Rewrite == nil {
		return nil
	}
	return func(key informer.Key, object []byte) []byte {
		if f.Rewrite != nil {
			object = f.Rewrite(key, object)
		}
		if slices.Contains(f.Corrupt, key) {
			object = corrupted(object)
		}
		return object
	}
}

// corrupted returns object with a part that no type decodes. Its metadata still identify it.
func corrupted(object []byte) []byte {
	if bytes.HasPrefix(object, []byte("{")) {
		// This replaces a time in the metadata of every object. The decoder reads it last, or finds the wrong type.
		before, after, found := bytes.Cut(object, []byte(`"creationTimestamp":`))
		if end := bytes.IndexAny(after, ",}"); found && end >= 0 {
			return slices.Concat(before, []byte(`"creationTimestamp":{"corrupt":true}`), after[end:])
		}
		return []byte(`{"metadata":"corrupt"}`)
	}
	return append(slices.Clone(object), 2<<3|2, 100) // a field of 100 bytes, without the bytes
}

// faultyWriter is an http.ResponseWriter that makes a response fail on its way.
//
//	headers ──► events ──► bytes ──► broken off
type faultyWriter struct {
	http.ResponseWriter
	fault      *Fault
	ctx        context.Context
	watch      bool
	wroteHead  bool
	frame      []byte // an incomplete frame of a watch
	eventsLeft int
	bytesLeft  int
	loseLeft   int
	over       bool // ended cleanly: further writes of the handler are dropped
}

// errBrokenOff indicates that a fault ended the response.
var errBrokenOff = errors.New("informertest: a fault ended the response")

// Unwrap returns the underlying http.ResponseWriter, for http.ResponseController.
func (w *faultyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *faultyWriter) WriteHeader(code int) {
	w.wroteHead = true
	w.ResponseWriter.WriteHeader(code)
	w.check()
}

func (w *faultyWriter) Write(b []byte) (int, error) {
	if !w.wroteHead {
		w.WriteHeader(http.StatusOK)
	}
	if w.over {
		return 0, errBrokenOff
	}
	if !w.watch || !w.fault.omitsEnd() && w.eventsLeft == 0 && w.loseLeft == 0 && len(w.frame) == 0 {
		return len(b), w.send(b)
	}
	w.frame = append(w.frame, b...)
	for {
		n := w.completeFrame()
		if n == 0 {
			return len(b), nil
		}
		frame := w.frame[:n]
		w.frame = w.frame[n:]
		if w.fault.omitsEnd() && isInitialEventsEnd(frame) {
			continue
		}
		if w.eventsLeft == 0 && w.loseLeft > 0 && !isBookmark(frame) {
			w.loseLeft--
			continue
		}
		if w.eventsLeft > 0 {
			if err := w.sendAll(frame); err != nil {
				return 0, err
			}
			w.eventsLeft--
			w.check()
		} else if err := w.send(frame); err != nil {
			return 0, err
		}
		if w.over {
			return 0, errBrokenOff
		}
	}
}

// send sends b up to the point where the response breaks off.
func (w *faultyWriter) send(b []byte) error {
	if w.fault.breaks() == 0 || w.eventsLeft > 0 || len(b) < w.bytesLeft {
		w.bytesLeft -= len(b)
		return w.sendAll(b)
	}
	if err := w.sendAll(b[:w.bytesLeft]); err != nil {
		return err
	}
	w.bytesLeft = 0
	w.check()
	return errBrokenOff
}

// sendAll sends b at the rate limit.
func (w *faultyWriter) sendAll(b []byte) error {
	if w.fault.BytesPerSecond <= 0 {
		_, err := w.ResponseWriter.Write(b)
		return err
	}
	for piece := range slices.Chunk(b, max(1, w.fault.BytesPerSecond/10)) {
		if err := run.Sleep(w.ctx, time.Duration(len(piece))*time.Second/time.Duration(w.fault.BytesPerSecond)); err != nil {
			return err
		}
		if _, err := w.ResponseWriter.Write(piece); err != nil {
			return err
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (w *faultyWriter) flush() error { return http.NewResponseController(w.ResponseWriter).Flush() }

// check breaks the response off if it has reached that point.
func (w *faultyWriter) check() {
	f := w.fault
	if f.breaks() == 0 || w.eventsLeft > 0 || w.bytesLeft > 0 {
		return
	}
	w.flush() // an error would just be another way to break off
	switch {
	case f.Error != nil && w.watch:
		watchcache.WriteErrorEvent(w.ResponseWriter, w.Header().Get("Content-Type"), f.Error)
		w.over = true
	case f.End:
		w.over = true
	case f.Hang:
		<-w.ctx.Done()
		panic(http.ErrAbortHandler)
	default:
		panic(http.ErrAbortHandler)
	}
}

// completeFrame returns the length of the first complete frame of a watch in w.frame, or 0.
func (w *faultyWriter) completeFrame() int {
	if !strings.HasPrefix(w.Header().Get("Content-Type"), runtime.ContentTypeProtobuf) {
		return bytes.IndexByte(w.frame, '\n') + 1
	}
	if len(w.frame) < 4 {
		return 0
	}
	if n := 4 + int(binary.BigEndian.Uint32(w.frame)); n <= len(w.frame) {
		return n
	}
	return 0
}

func isInitialEventsEnd(frame []byte) bool {
	return isBookmark(frame) && bytes.Contains(frame, []byte(metav1.InitialEventsAnnotationKey))
}

func isBookmark(frame []byte) bool {
	head, _, _ := bytes.Cut(frame[:min(len(frame), 32)], []byte("object"))
	return bytes.Contains(head, []byte("BOOKMARK"))
}
