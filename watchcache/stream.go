package watchcache

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
)

const (
	bookmarkInterval = time.Minute
	// bookmarkBeforeEnd is how long before the end of a watch its last bookmark is sent, as in kube-apiserver.
	bookmarkBeforeEnd = 2 * time.Second
	// minWatchTimeout is the minimum duration of a watch without a timeout, and half of the maximum, as in
	// kube-apiserver.
	minWatchTimeout = 30 * time.Minute
	// bufferSize is the size of the buffer before a connection. It holds several objects, to save system calls.
	bufferSize = 32 << 10
)

// stream is a watch request.
type stream[T Object] struct {
	cache      *Cache[T]
	watcher    *watcher[T]
	ctx        context.Context // of the request
	end        time.Time       // of the watch
	to         http.ResponseWriter
	w          *bufio.Writer // buffers to; nil while there is nothing to write
	connection *http.ResponseController
	format     format
	selector   selector[T]
	bookmarks  bool // the client requests them
	headless   bool // of a Table: an earlier event contained the columns
	unsent     int  // events since the last flush

	initial    *informer.Snapshot[*element[T]] // the objects to begin with; nil if the client wants none
	initialRV  uint64                          // their version
	initialEnd bool                            // the client requests a bookmark after them
}

// startStream starts a watch, or returns the error to respond with. If it returns neither, it has written the response.
// The caller must call follow.
func (c *Cache[T]) startStream(w http.ResponseWriter, r *http.Request, opts *internalversion.ListOptions,
	sel selector[T]) (*stream[T], error) {
	f, err := c.negotiate(r, "PartialObjectMetadata")
	if err != nil {
		return nil, err
	}
	rv, err := parseRV(opts.ResourceVersion)
	if err != nil {
		return nil, unread(err)
	}
	// Without a resource version, listOptions has set SendInitialEvents unless the client set it to false.
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	timeout := minWatchTimeout + rand.N(minWatchTimeout)
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0 {
		timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	connection := http.NewResponseController(w)
	s := &stream[T]{
		cache: c, ctx: r.Context(), end: time.Now().Add(timeout), to: w, connection: connection, format: f, selector: sel,
		bookmarks: opts.AllowWatchBookmarks, initialEnd: initial && opts.AllowWatchBookmarks,
	}
	ctx, cancel := context.WithDeadline(r.Context(), s.end)
	defer cancel()
	s.watcher, s.initial, s.initialRV, err = c.startWatch(ctx, start{rv: rv, initial: initial}, sel.group(), func() {
		connection.SetWriteDeadline(time.Unix(1, 0))
	})
	switch {
	case apierrors.IsTooManyRequests(err):
		return nil, err // there is nothing to watch yet
	case err != nil:
		// as in kube-apiserver: the request is valid, so the response is a watch
		s.writeHeader()
		s.takeBuffer()
		defer s.returnBuffer()
		writeErrorEvent(s.w, statusOf(err), f.protobuf())
		s.flush()
		return nil, nil
	}
	return s, nil
}

func (s *stream[T]) writeHeader() {
	contentType := s.format.contentType()
	if s.format.protobuf() {
		contentType += ";stream=watch"
	}
	s.to.Header().Set("Content-Type", contentType)
	s.to.WriteHeader(http.StatusOK)
}

// follow writes the initial objects, if any, and then the events of the watcher. It returns when the watch's time is
// up, the context or watcher ends, or a write fails. The goroutine waits here most of the time, so its stack should
// stay small.
func (s *stream[T]) follow() {
	defer s.watcher.stop()
	defer s.returnBuffer()
	if !s.begin() {
		return
	}
	timer := time.NewTimer(s.untilBookmark())
	defer timer.Stop()
	for bookmarkDue := false; ; {
		nudge := *s.cache.nudge.Load() // before the events, so that a bookmark has the version of the nudge
		wake, ok := s.catchUp(bookmarkDue)
		if !ok {
			return
		}
		if bookmarkDue {
			bookmarkDue = false
			timer.Reset(s.untilBookmark())
		}
		select {
		case <-wake:
		case <-timer.C:
			if !time.Now().Before(s.end) {
				return
			}
			bookmarkDue = true
		case <-nudge:
			bookmarkDue = s.bookmarks
		case <-s.ctx.Done():
			return
		}
	}
}

// begin writes the header and the initial objects. It returns false if the watch has ended.
func (s *stream[T]) begin() bool {
	s.writeHeader()
	s.takeBuffer()
	if s.initial != nil && !s.initialEvents() || s.initialEnd && s.bookmark(s.initialRV, true) != nil {
		return false
	}
	s.initial = nil
	return s.flush() == nil // also flushes the header
}

// initialEvents writes the initial objects. It returns false if the watch has ended.
func (s *stream[T]) initialEvents() bool {
	for el := range s.selector.from(s.initial, informer.Key{}) {
		if !s.selector.matches(el.obj) {
			continue
		}
		if s.event("ADDED", el) != nil || s.ctx.Err() != nil || !time.Now().Before(s.end) || s.watcher.ended.Load() {
			return false
		}
	}
	return true
}

// eventsAtATime is how many events a watch takes from the ring in one step.
const eventsAtATime = 16

// catchUp writes all pending events, and then a bookmark if one is due. It returns a channel that the next event
// closes, or false if the watch has ended.
func (s *stream[T]) catchUp(bookmarkDue bool) (wake <-chan struct{}, ok bool) {
	var events [eventsAtATime]*event[T]
	for {
		batch, rv, wake, ok := s.watcher.take(events[:0])
		if !ok {
			s.flush()
			return nil, false
		}
		for _, e := range batch {
			if e.rv > s.watcher.from {
				if eventType, el := s.selector.see(e); eventType != "" && s.event(eventType, el) != nil {
					return nil, false
				}
			}
			s.watcher.done(e)
		}
		if len(batch) > 0 {
			continue
		}
		if bookmarkDue && rv >= s.watcher.from && s.bookmark(rv, false) != nil {
			return nil, false
		}
		if s.flush() != nil {
			return nil, false
		}
		s.returnBuffer() // most watches are idle most of the time, and the buffer is nearly all of a watch's memory
		return wake, true
	}
}

// buffers are free buffers of bufferSize.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, bufferSize) }}

// takeBuffer returns a buffer that writes to w.
func takeBuffer(w io.Writer) *bufio.Writer {
	b := buffers.Get().(*bufio.Writer)
	b.Reset(w)
	return b
}

// returnBuffer returns a buffer to buffers. It drops bytes that were not flushed.
func returnBuffer(b *bufio.Writer) {
	b.Reset(nil)
	buffers.Put(b)
}

// takeBuffer sets s.w if it is nil.
func (s *stream[T]) takeBuffer() {
	if s.w == nil {
		s.w = takeBuffer(s.to)
	}
}

func (s *stream[T]) returnBuffer() {
	if s.w != nil {
		returnBuffer(s.w)
		s.w = nil
	}
}

// untilBookmark returns how long to wait for the next bookmark or, if there is none, for the end of the watch.
func (s *stream[T]) untilBookmark() time.Duration {
	left := time.Until(s.end)
	switch {
	case !s.bookmarks || left <= bookmarkBeforeEnd:
		return left
	case left-bookmarkBeforeEnd < bookmarkInterval:
		return left - bookmarkBeforeEnd
	}
	return bookmarkInterval
}

func (s *stream[T]) event(eventType string, el *element[T]) error {
	b, err := s.bytes(el)
	if err != nil {
		return err
	}
	s.takeBuffer()
	s.cache.codec.writeEvent(s.w, eventType, s.format, b)
	s.unsent++
	_, err = s.w.Write(nil) // the error of earlier writes, if any
	return err
}

// bytes returns an element as the watch sends it. Only the first event of a Table contains the columns.
func (s *stream[T]) bytes(el *element[T]) ([]byte, error) {
	if !s.format.table() {
		return s.cache.bytesFor(s.ctx, el, s.format)
	}
	headers := !s.headless
	s.headless = true
	return s.cache.rowOf(s.format, headers, el)
}

// bookmark writes a bookmark. initialEnd marks the one after the initial events (KEP-3157).
func (s *stream[T]) bookmark(rv uint64, initialEnd bool) error {
	if !initialEnd {
		return s.event("BOOKMARK", s.cache.bookmarkAt(rv))
	}
	obj := s.cache.codec.empty(rv)
	obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return s.event("BOOKMARK", &element[T]{obj: obj})
}

func (s *stream[T]) flush() error {
	if s.w == nil {
		return nil
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	if s.unsent > 0 {
		s.cache.sent.Add(uint64(s.unsent)) // not at each event: all watches share the counter
		s.unsent = 0
	}
	return s.connection.Flush()
}
