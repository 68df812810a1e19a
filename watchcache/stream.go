package watchcache

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
)

const (
	bookmarkInterval = time.Minute
	// bookmarkBeforeEnd is how long before the end of a watch its last bookmark is sent, as in kube-apiserver.
	bookmarkBeforeEnd = 2 * time.Second
)

// stream is the body of a watch.
type stream[T Object] struct {
	ctx        context.Context // of the request
	end        time.Time       // of the watch
	cache      *Cache[T]
	to         io.Writer
	w          *bufio.Writer // buffers to; nil while there is nothing to write
	connection *http.ResponseController
	format     format
	selector   selector[T]
	bookmarks  bool // the client requests them
	initialEnd bool // the client requests one after the initial events
	unsent     int  // events since the last flush
}

// eventsAtATime is how many events a watcher takes from the ring in one step.
const eventsAtATime = 16

// follow writes the objects of snapshot at version rv, if it is not nil, and then the events of watcher. It returns
// when the watch's time is up, the context or watcher ends, or a write fails.
func (s *stream[T]) follow(watcher *watcher[T], snapshot *informer.Snapshot[*element[T]], rv uint64) {
	if snapshot != nil && !s.initialEvents(watcher, snapshot) || s.initialEnd && s.bookmark(rv, true) != nil {
		return
	}
	if s.flush() != nil { // also flushes the headers
		return
	}
	timer := time.NewTimer(s.untilBookmark())
	defer timer.Stop()
	bookmarkDue := false
	var events [eventsAtATime]*event[T]
	for {
		batch, rv, wake, ok := watcher.take(events[:0])
		if !ok {
			s.flush()
			return
		}
		for _, e := range batch {
			if e.rv > watcher.from {
				if eventType, el := s.selector.see(e); eventType != "" && s.event(eventType, el) != nil {
					return
				}
			}
			watcher.done(e)
		}
		if len(batch) > 0 {
			continue
		}
		if bookmarkDue {
			bookmarkDue = false
			if rv >= watcher.from && s.bookmark(rv, false) != nil {
				return
			}
			timer.Reset(s.untilBookmark())
		}
		if s.flush() != nil {
			return
		}
		s.returnBuffer() // most watches are idle most of the time, and the buffer is nearly all of a watch's memory
		clear(events[:]) // so that an idle watch keeps no objects in memory
		select {
		case <-wake:
		case <-timer.C:
			if !time.Now().Before(s.end) {
				return
			}
			bookmarkDue = true
		case <-s.ctx.Done():
			return
		}
	}
}

// initialEvents writes the objects of snapshot. It returns false if the watch has ended.
func (s *stream[T]) initialEvents(watcher *watcher[T], snapshot *informer.Snapshot[*element[T]]) bool {
	for el := range s.selector.from(snapshot, informer.Key{}) {
		if !s.selector.matches(el.obj) {
			continue
		}
		if s.event("ADDED", el) != nil || s.ctx.Err() != nil || !time.Now().Before(s.end) || watcher.ended.Load() {
			return false
		}
	}
	return true
}

// buffers are free buffers of bufferSize.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, bufferSize) }}

// takeBuffer provides s.w.
func (s *stream[T]) takeBuffer() {
	if s.w == nil {
		s.w = buffers.Get().(*bufio.Writer)
		s.w.Reset(s.to)
	}
}

// returnBuffer returns the buffer, if any. Everything has been flushed, or will never be.
func (s *stream[T]) returnBuffer() {
	if s.w != nil {
		s.w.Reset(nil)
		buffers.Put(s.w)
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
	b, err := s.cache.bytesFor(s.ctx, el, s.format)
	if err != nil {
		return err
	}
	s.takeBuffer()
	s.cache.codec.writeEvent(s.w, eventType, s.format, b)
	s.unsent++
	_, err = s.w.Write(nil) // the error of earlier writes, if any
	return err
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
