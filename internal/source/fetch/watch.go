package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
)

const (
	shortWatch = time.Second // an empty watch that ends sooner counts as a failure
	// MinWatchTimeout is the time without an event after which a watch is silent. The server ends a watch after one to two
	// times this.
	MinWatchTimeout = 5 * time.Minute
	// streamDeadline is the time limit for the headers of a streaming list, and then for each streamProgress bytes of the
	// initial events.
	streamDeadline = 10 * time.Second
	streamProgress = 1 << 10
	// watchGrace is the time that the server has to end a watch after its timeoutSeconds.
	watchGrace = 30 * time.Second
)

// Watch is one open watch. It is for one goroutine.
type Watch interface {
	// InitialEvents reads the collection from the initial events of a streaming list, and returns its resource version.
	// Afterwards w is an ordinary watch. The error is ErrNoStreaming if the server does not end the initial events
	// properly.
	InitialEvents(into Collector) (version string, err error)
	// Follow gives the changes of objects to an intake, and calls progressed for each bookmark, after the intake has
	// handed on the changes before it. It ends when one of these fails or the watch ends. It returns nil if the server
	// ended the watch normally, and ErrEmptyWatch if it ended the watch at once.
	Follow(into NewIntake, progressed func(version string) error) error
	// Silent reports whether watches have had no event for as long as a server keeps a watch open.
	Silent() bool
	// Close ends the watch.
	Close()
}

// serverWatch is one watch that the server has accepted.
type serverWatch struct {
	source   *Source
	response *transport.Response
	frames   *decode.Frames
	events   int // events that have been read
	changes  int // those after the initial events that are no errors, and bookmarks
	opened   time.Time
	timeout  time.Duration // the server ends the watch this long after opened
	silence  silence
	vigil    vigil
	marked   time.Time       // when the last bookmark came
	period   time.Duration   // the longest time between two bookmarks
	request  context.Context // the context of the request
	cancel   context.CancelCauseFunc
	forget   func()              // ends the look for suspensions
	deadline *time.Timer         // ends request
	updated  context.Context     // transport.Client.Updated before the watch was opened
	stay     func() bool         // undoes that an update of the client ends request
	progress *transport.Progress // ends request when the initial events take too long; nil for a watch without them
}

// Watch opens the watch that state asks for, which begins at state's resource version. The error is ErrNoWatch if the
// collection cannot be watched.
func (s *Source) Watch(ctx context.Context, state State, shard string) (Watch, error) {
	query := url.Values{"resourceVersion": {state.Version}}
	if s.HasValues() {
		w, err := s.watchValues(ctx, query, 0)
		return w, unwatchable(err)
	}
	w, err := s.open(ctx, query, false, state.Watch.CatchUp.timeout(), shard)
	if err != nil {
		return nil, unwatchable(err)
	}
	return w, nil
}

// Stream opens a watch that begins with the whole collection at resource version least or later: a streaming list
// (KEP-3157). InitialEvents reads it. The error is ErrNoStreaming if the server refuses.
func (s *Source) Stream(ctx context.Context, least, shard string) (Watch, error) {
	query := url.Values{"sendInitialEvents": {"true"},
		"resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}}
	if least != "0" && least != "" {
		query.Set("resourceVersion", least)
	}
	s.lists.Add(1)
	if s.HasValues() {
		return s.streamValues(ctx, query)
	}
	w, err := s.open(ctx, query, true, 0, shard)
	if err != nil {
		return nil, refused(err)
	}
	return w, nil
}

// refused returns an ErrNoStreaming if err, the outcome of a streaming list, requires a paged list instead.
func refused(err error) error {
	switch {
	case errors.Is(err, ErrNoWatch), errors.Is(err, errNoVersion): // the paged list shows what to do
		return fmt.Errorf("%w: %v", ErrNoStreaming, err)
	case errors.Is(err, transport.ErrNoProgress), isRefusal(err):
		return fmt.Errorf("%w: %w", ErrNoStreaming, err)
	}
	return err
}

// open opens a watch that the server ends after timeout; zero means after some minutes. If initial is true, the watch
// begins with the whole collection.
func (s *Source) open(ctx context.Context, query url.Values, initial bool, timeout time.Duration,
	shard string) (_ *serverWatch, err error) {
	if timeout == 0 {
		timeout = MinWatchTimeout + rand.N(MinWatchTimeout)
	}
	if limit := s.cuts.timeout(time.Now()); limit > 0 && !initial { // the initial events may take longer
		timeout = min(timeout, limit)
	}
	w := &serverWatch{source: s, timeout: timeout}
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	query.Set("timeoutSeconds", strconv.Itoa(int(w.timeout.Seconds())))
	if err := s.readyToWatch(ctx); err != nil {
		return nil, err
	}
	w.request, w.cancel = context.WithCancelCause(ctx)
	moved := s.config.Client.Moved()
	w.updated, s.moved, s.address = s.config.Client.Updated(), s.address != nil && s.address != moved, moved
	if initial { // with the same server, the list goes on
		w.endWith(moved)
	} else {
		w.endWith(w.updated)
	}
	limit := w.timeout + watchGrace
	if initial {
		limit = streamDeadline
	}
	w.deadline = time.AfterFunc(limit, func() { w.cancel(transport.ErrNoProgress) })
	w.forget = s.config.Client.Suspension.Watch(w.cancel)
	w.opened = time.Now()
	w.silence.opened = w.opened
	w.vigil.silence, w.vigil.end = &w.silence, func() { w.cancel(transport.ErrNoProgress) }
	w.vigil.set(s.pulse.limit())
	s.watches.Add(1)
	if w.response, err = s.send(w.request, query, s.config.Accept, shard); err != nil {
		w.silence.last = w.silence.lasts()
		w.ended(brokeOff(err))
		err = fmt.Errorf("watch: %w", transport.Because(w.request, err))
		w.cancel(nil)
		return nil, err
	}
	s.auditID.Store(w.response.AuditID)
	w.silence.ReadCloser = w.response
	body := io.Reader(&w.silence)
	if initial {
		w.progress = transport.NewProgress(w.request, &w.silence, w.deadline, streamDeadline, streamProgress)
		body = w.progress
	}
	body = &eventsOnly{body: body, format: w.response.Format}
	w.frames = decode.NewFrames(body, w.response.Format, s.config.Kind, s.kind(w.request))
	return w, nil
}

// endWith makes the end of an access of the client end the request.
func (w *serverWatch) endWith(access context.Context) {
	w.stay = context.AfterFunc(access, func() { w.cancel(context.Cause(access)) })
}

// Close implements Watch.
func (w *serverWatch) Close() {
	w.ended(w.silence.failed != nil)
	w.cancel(nil)
	w.response.Close()
}

// ended makes the source learn from the end of the watch. broke is true if it broke off.
func (w *serverWatch) ended(broke bool) {
	w.deadline.Stop()
	w.vigil.stop()
	w.forget()
	w.stay()
	s, now := w.source, time.Now()
	this := cut{now.Sub(w.opened), w.silence.last}
	cause := context.Cause(w.request)
	stood := this.age >= workedAfter || cause == transport.ErrSuspended
	switch {
	case cause == nil && broke:
		s.cuts.add(now, this)
	case cause == nil && w.response == nil: // the request failed before the server could accept it
		stood = false
	case errors.Is(cause, transport.ErrNoProgress) && w.period == 0: // the server may send no bookmarks any more
		s.pulse = bookmarks{}
	default:
		s.cuts.stood(this.age, w.silence.longest)
	}
	s.cutAfter.Store(int64(s.cuts.limit))
	s.worked = s.worked || stood || w.changes > 0
	if w.events > 0 {
		s.quiet = time.Time{}
	}
}

// brokeOff reports whether err, the failure of a request for a watch, may come from a limit of something between client
// and server, which waited for the server.
func brokeOff(err error) bool {
	var timeout interface{ Timeout() bool }
	switch code := transport.StatusCode(err); {
	case code != 0:
		return code >= 500 || code == http.StatusRequestTimeout
	case transport.IsUnreachable(err):
		return false
	}
	return !errors.As(err, &timeout) || !timeout.Timeout() // such as a handshake that took too long
}

// Silent implements Watch.
func (w *serverWatch) Silent() bool {
	return w.events == 0 && time.Since(w.source.quiet) >= MinWatchTimeout
}

// untilBookmark reads events until the next bookmark, which it returns encoded. It adds the objects before it to in,
// and waits until in has handed them on. It returns io.EOF if the server ended the watch normally.
func (w *serverWatch) untilBookmark(in Intake) (raw []byte, err error) {
	for {
		frame, err := w.frames.Next()
		if err == decode.ErrMore {
			if err = in.Fill(w.frames); err == nil {
				continue
			}
		}
		event, large := apiwatch.EventType(frame.Event), decode.Large(err)
		if err == nil || large != nil {
			w.events++
			w.source.events.Add(1)
		}
		if large != nil {
			in.AddLarge(large, event == apiwatch.Deleted)
			continue
		}
		if err == nil {
			if event == apiwatch.Added || event == apiwatch.Modified || event == apiwatch.Deleted {
				w.changes++
				in.Add(frame.Raw, event == apiwatch.Deleted, nil)
				continue
			}
		}
		if failed := in.Wait(); failed != nil {
			return nil, failed
		}
		switch {
		case err == io.EOF && w.request.Err() == nil: // else a server may end a stream because the client went away
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("watch: %w", transport.Because(w.request, err))
		case event == apiwatch.Bookmark:
			return frame.Raw, nil
		case event == apiwatch.Error:
			return nil, errorEvent(w.response.Format, frame.Raw)
		case strings.ContainsFunc(frame.Event, func(c rune) bool { return c < 'A' || c > 'Z' }):
			return nil, errors.New("watch: the server sent an event whose type is not a name") // the type may be content
		}
		return nil, fmt.Errorf("watch: the server sent an event of type %.100q", frame.Event)
	}
}

// errorEvent returns the error that an event of type ERROR reports.
func errorEvent(f decode.Format, raw []byte) error {
	status, err := f.Status(raw)
	if err != nil {
		return fmt.Errorf("watch: error event: %w", err)
	}
	if status.Status != metav1.StatusFailure && status.Kind != "Status" { // its message may be the content of an object
		return errors.New("watch: the server sent an error event without a Status")
	}
	return fmt.Errorf("watch: %w", apierrors.FromObject(status))
}

// InitialEvents implements Watch.
func (w *serverWatch) InitialEvents(into Collector) (version string, err error) {
	precedence := w.source.config.Client.Precedence
	precedence.Begin()
	defer precedence.End()
	version, err = w.initialEvents(into)
	return version, refused(err)
}

func (w *serverWatch) initialEvents(into Collector) (version string, err error) {
	in := into.Intake(w.response.Format, w.cancel)
	defer in.Wait()
	raw, err := w.untilBookmark(in)
	if err == io.EOF {
		return "", fmt.Errorf("%w: the server ended the watch without a bookmark after the initial events", ErrNoStreaming)
	}
	if err != nil {
		return "", err
	}
	meta, err := w.response.Format.Metadata(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("watch: bookmark: %w", err)
	case meta.ResourceVersion == "":
		return "", errNoVersion
	case meta.Annotations[metav1.InitialEventsAnnotationKey] != "true":
		return "", fmt.Errorf("%w: the server sent an ordinary bookmark among the initial events", ErrNoStreaming)
	}
	w.changes = 0
	w.progress.EndAt(w.timeout + watchGrace - time.Since(w.opened))
	w.stay()
	w.endWith(w.updated) // ends it now if the client was updated during the list
	return meta.ResourceVersion, nil
}

// Follow implements Watch.
func (w *serverWatch) Follow(into NewIntake, progressed func(version string) error) error {
	in := into(w.response.Format, w.cancel)
	defer in.Wait()
	for {
		raw, err := w.untilBookmark(in)
		switch {
		case err == io.EOF && w.events == 0 && time.Since(w.opened) < shortWatch:
			return ErrEmptyWatch
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		w.bookmarked()
		version := string(w.response.Format.Peek(raw).ResourceVersion)
		if version == "" {
			return errNoVersion
		}
		if err := progressed(version); err != nil {
			return err
		}
	}
}

// bookmarked learns from a bookmark in which period the server sends them.
func (w *serverWatch) bookmarked() {
	now := time.Now()
	if !w.marked.IsZero() {
		w.period = max(w.period, now.Sub(w.marked))
		w.source.pulse.period = w.period
		w.vigil.set(w.source.pulse.limit())
	}
	w.marked = now
	w.changes++
}
