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
	"github.com/typedinformer/informer/internal/spoil"
	"github.com/typedinformer/informer/watchcache"
)

// Fault is something that goes wrong with requests to a [Server]: with which of them, where in the answer, and what.
//
//	Fault{Verb: "watch", AfterEvents: 3, Drop: true}                              // the connection breaks after the third event
//	Fault{Verb: "watch", AfterEvents: 3, AfterBytes: 20, Drop: true}              // in the middle of the fourth
//	Fault{Verb: "watch", Times: 1, Error: apierrors.NewResourceExpired("gone")}   // the next watch is answered 410
//	Fault{Resource: "pods", Error: apierrors.NewTooManyRequests("later", 3)}      // 429 with Retry-After: 3
//	Fault{Verb: "list", Skip: 1, Times: 1, Hang: true}                            // the second list is never answered
//	Fault{Verb: "watch", AfterEvents: 1, Error: apierrors.NewTimeoutError("", 0)} // an ERROR event behind the first event
//
// A failure of the whole server is none of single requests: see [Server.Stop], [Server.CloseConnections],
// [Server.EndWatches], [Server.Compact] and [Server.Restore].
type Fault struct {
	// Verb is that of the requests, as in [Request]. Empty means any, and also those without one, such as discovery.
	Verb string
	// Resource is the plural name of the resource of the requests: "pods". Empty means any.
	Resource string
	// Namespace is that of the requests. Empty means any.
	Namespace string
	// Match, when not nil, says which of these requests are meant.
	Match func(Request) bool
	// Skip is how many of the requests are left alone at first.
	Skip int
	// Times is how many requests are affected then. Zero means all. A client's library may try again by itself: that of
	// Go does so with a GET, if a connection that was used before breaks before the answer has begun.
	Times int

	// Delay is how long to wait before the answer.
	Delay time.Duration
	// BytesPerSecond is how fast the body of the answer is sent. Zero means no limit.
	BytesPerSecond int

	// AfterHeaders, AfterEvents and AfterBytes say where the answer breaks off: behind the headers, then so many events
	// of a watch (bookmarks count), then so many bytes more of the body. Where all are zero, in place of an answer.
	AfterHeaders bool
	AfterEvents  int
	AfterBytes   int

	// One of these can be chosen for what happens there.

	// Error is answered as the metav1.Status that it is, see package k8s.io/apimachinery/pkg/api/errors; what is none is
	// an internal error. In the body of a watch it is an ERROR event and the end, in another body it is Drop.
	Error error
	// Drop breaks the connection.
	Drop bool
	// Hang sends nothing more, for as long as the client waits.
	Hang bool
	// End ends the body there, as if it were complete.
	End bool

	// OmitBookmarks sends no bookmarks, whoever asks for them.
	OmitBookmarks bool
	// OmitInitialEventsEnd leaves out the bookmark behind the initial events, only.
	OmitInitialEventsEnd bool
	// IgnoreSendInitialEvents treats a streaming list as a watch without sendInitialEvents, as a server does that has
	// never heard of it. A kube-apiserver that has it switched off answers 422 Invalid: that is an Error.
	IgnoreSendInitialEvents bool

	// Corrupt are objects that cannot be decoded: their bytes are spoiled behind the metadata, wherever they are sent.
	// JSON is still JSON, but of the wrong type.
	Corrupt []informer.Key
	// Rewrite, when not nil, returns what is sent in place of each encoded object, be it in JSON or protobuf, in a list,
	// an event or by itself, without its kind. The key of a bookmark is empty. It must not write to object.
	Rewrite func(key informer.Key, object []byte) []byte
}

// Inject makes something go wrong from now on, until remove is called. Requests under way go on as they began. Faults
// come on top of each other, the first one outermost; a request counts for each that it meets.
//
// It panics if f has no effect, or more than one of Error, Drop, Hang and End, or none but a place for it.
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
	seen int // how many requests matched so far
}

// breaks returns how many ways of breaking off f has.
func (f *Fault) breaks() (n int) {
	for _, chosen := range []bool{f.Error != nil, f.Drop, f.Hang, f.End} {
		if chosen {
			n++
		}
	}
	return n
}

// late says whether the answer begins before it breaks off.
func (f *Fault) late() bool { return f.AfterHeaders || f.AfterEvents > 0 || f.AfterBytes > 0 }

// omitsEnd says whether no bookmark tells the end of the initial events. Without sendInitialEvents there would still be
// one behind the objects that a watch without a resource version begins with.
func (f *Fault) omitsEnd() bool { return f.OmitInitialEventsEnd || f.IgnoreSendInitialEvents }

func (f *Fault) validate() {
	effect := f.Delay > 0 || f.BytesPerSecond > 0 || f.OmitBookmarks || f.OmitInitialEventsEnd ||
		f.IgnoreSendInitialEvents || f.Corrupt != nil || f.Rewrite != nil
	switch n := f.breaks(); {
	case n > 1:
		panic("informertest: a Fault has more than one of Error, Drop, Hang and End")
	case n == 0 && f.late():
		panic("informertest: a Fault has a place to break off, but none of Error, Drop, Hang and End")
	case n == 0 && !effect:
		panic("informertest: a Fault without effect")
	}
}

func (f *Fault) matches(req Request) bool {
	return (f.Verb == "" || f.Verb == req.Verb) &&
		(f.Resource == "" || f.Resource == req.Resource.Resource) &&
		(f.Namespace == "" || f.Namespace == req.Namespace) &&
		(f.Match == nil || f.Match(req))
}

// withFaults is the handler that lets requests meet the faults that are meant for them.
func (s *Server) withFaults(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := next
		for _, f := range slices.Backward(s.faultsFor(r.Context().Value(requestKey{}).(Request))) {
			handler = f.handler(handler)
		}
		handler.ServeHTTP(w, r)
	})
}

// faultsFor returns the faults that the request meets.
func (s *Server) faultsFor(req Request) (met []*activeFault) {
	s.httpMu.Lock()
	faults := s.faults
	s.httpMu.Unlock()
	for _, f := range faults {
		if !f.matches(req) { // without the lock: Fault.Match is not ours
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
		if wait(r.Context(), f.Delay) != nil {
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
		if !f.late() && !f.omitsEnd() && f.BytesPerSecond <= 0 {
			next.ServeHTTP(w, r)
			return
		}
		out := &faultyWriter{ResponseWriter: w, fault: f, ctx: r.Context(), watch: isWatch(r.URL.Query()), bytesLeft: f.AfterBytes, eventsLeft: f.AfterEvents}
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

// inPlace lets the request go wrong at once.
func (f *Fault) inPlace(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.Error != nil:
		watchcache.WriteError(w, r, f.Error)
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Hang:
		io.Copy(io.Discard, http.MaxBytesReader(nil, r.Body, maxBody)) // net/http sees a client leave only behind its body
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case f.End:
		w.WriteHeader(http.StatusOK)
	}
}

// overlook returns the request without what the server is to overlook.
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

// rewrite returns what f does to objects, nil for nothing.
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

// corrupted returns object with a part that no type can be decoded from, and metadata that say whose it is.
func corrupted(object []byte) []byte {
	if bytes.HasPrefix(object, []byte("{")) {
		// What stands where a time does, in the metadata of all objects: it is read last, or it is of the wrong type.
		before, after, found := bytes.Cut(object, []byte(`"creationTimestamp":`))
		if end := bytes.IndexAny(after, ",}"); found && end >= 0 {
			return slices.Concat(before, []byte(`"creationTimestamp":{"corrupt":true}`), after[end:])
		}
		return []byte(`{"metadata":"corrupt"}`)
	}
	return append(slices.Clone(object), 2<<3|2, 100) // a field of 100 bytes, of which there is none
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// faultyWriter is an http.ResponseWriter that lets an answer go wrong on its way.
//
//	headers ──► events ──► bytes ──► broken off
type faultyWriter struct {
	http.ResponseWriter
	fault      *Fault
	ctx        context.Context
	watch      bool
	wroteHead  bool
	frame      []byte // of the body of a watch, as far as it is not complete
	eventsLeft int
	bytesLeft  int
	over       bool // broken off in good order: what the handler still writes is not sent
}

// errBrokenOff is the error of writes to an answer that was ended by a fault.
var errBrokenOff = errors.New("informertest: the answer was broken off")

// Unwrap gives http.ResponseController the rest of the http.ResponseWriter.
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
	if !w.watch || !w.fault.omitsEnd() && w.eventsLeft == 0 && len(w.frame) == 0 {
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

// send sends b up to where the answer breaks off.
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

// sendAll sends b, as fast as is allowed.
func (w *faultyWriter) sendAll(b []byte) error {
	if w.fault.BytesPerSecond <= 0 {
		_, err := w.ResponseWriter.Write(b)
		return err
	}
	for piece := range slices.Chunk(b, max(1, w.fault.BytesPerSecond/10)) {
		if err := wait(w.ctx, time.Duration(len(piece))*time.Second/time.Duration(w.fault.BytesPerSecond)); err != nil {
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

// check breaks the answer off if it has come to that point.
func (w *faultyWriter) check() {
	f := w.fault
	if f.breaks() == 0 || w.eventsLeft > 0 || w.bytesLeft > 0 {
		return
	}
	w.flush() // its error would be one more way to break off
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

// completeFrame returns the length of the first frame of a watch in w.frame, 0 if it is not complete.
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
	head, _, _ := bytes.Cut(frame[:min(len(frame), 32)], []byte("object"))
	return bytes.Contains(head, []byte("BOOKMARK")) && bytes.Contains(frame, []byte(metav1.InitialEventsAnnotationKey))
}
