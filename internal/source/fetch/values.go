package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/status"
)

const (
	// abandonAfter is how long a list may take to return after its context has ended. A program's function may never
	// return, and must not keep its informer from stopping.
	abandonAfter = 500 * time.Millisecond
	// aheadLimit is how long a list waits until the watch after it is open. A proxy can hold back the headers of a watch
	// until its first event.
	aheadLimit = time.Second
)

// HasValues reports whether the objects of the source are Go values, from functions of the program; see
// [transport.Values]. These functions may ignore any option, and their objects may have any resource version: an equal
// version does not mean equal content, and a lower one does not mean that something went back in time. So the source
// never sets a limit, and follows a continue token all the same.
func (s *Source) HasValues() bool { return s.config.Client.Values != nil }

// valuesPage reads the list that the program's function returns for query.
func (s *Source) valuesPage(ctx context.Context, query url.Values, cancel func(error),
	into Collector) (info decode.ListInfo, err error) {
	s.lists.Add(1)
	s.Awaits.Set(status.AwaitingResponse)
	query.Del("limit")
	list, err := s.listValues(ctx, query)
	if err != nil {
		return info, fmt.Errorf("list: %w", err)
	}
	s.Awaits.Set(status.AwaitingData)
	if v := reflect.ValueOf(list); v.Kind() != reflect.Pointer || v.IsNil() {
		return info, fmt.Errorf("list: the program's function returned a %T that is nil or no pointer", list)
	}
	metadata, err := meta.ListAccessor(list)
	if err != nil {
		return info, fmt.Errorf("list: the program's function returned a %T: %w", list, err)
	}
	in := into.Intake(decode.JSON, cancel)
	defer in.Wait()
	if err := meta.EachListItemWithAlloc(list, func(obj runtime.Object) error {
		in.AddValue(obj, false)
		return nil
	}); err != nil {
		return info, fmt.Errorf("list: the program's function returned a %T: %w", list, err)
	}
	info.ResourceVersion, info.Continue = metadata.GetResourceVersion(), metadata.GetContinue()
	return info, in.Wait()
}

// listValues calls the program's function.
func (s *Source) listValues(ctx context.Context, query url.Values) (list runtime.Object, err error) {
	options, err := optionsOf(query, s.config)
	if err != nil {
		return nil, err
	}
	result := make(chan func(), 1)
	go func() {
		l, failed := runtime.Object(nil), run.ErrGoroutineEnded
		defer func() { result <- func() { list, err = l, failed } }()
		l, failed = s.config.Client.Values.ListWithContext(ctx, options)
	}()
	select {
	case set := <-result:
		set()
		return list, err
	case <-ctx.Done():
	}
	abandon := time.NewTimer(abandonAfter)
	defer abandon.Stop()
	select {
	case <-result:
	case <-abandon.C:
	}
	return nil, context.Cause(ctx)
}

// optionsOf returns the list options of a request.
func optionsOf(query url.Values, c Config) (options metav1.ListOptions, err error) {
	err = metav1.Convert_url_Values_To_v1_ListOptions(&query, &options, nil)
	options.LabelSelector, options.FieldSelector = c.LabelSelector, c.FieldSelector
	return options, err
}

// Ahead opens the watch from version before the sink has the list of that version. A watch of a program's function may
// have no history: what happens between the list and the watch is lost. Ahead returns nil for a server, which has one.
func (s *Source) Ahead(ctx context.Context, version string) (Watch, error) {
	if !s.HasValues() {
		return nil, nil
	}
	w, err := s.watchValues(ctx, url.Values{"resourceVersion": {version}}, aheadLimit)
	return w, unwatchable(err)
}

// watchValues opens a watch. If limit is not zero and the watch is not open then, it opens later.
func (s *Source) watchValues(ctx context.Context, query url.Values, limit time.Duration) (Watch, error) {
	w, err := s.openValues(ctx, query)
	if err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-w.opened:
	case <-late:
		return w, nil
	case <-w.ctx.Done():
	}
	if err := w.wait(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// streamValues opens a watch that begins with the whole collection. A function that knows streaming lists may still
// refuse one in any words.
func (s *Source) streamValues(ctx context.Context, query url.Values) (Watch, error) {
	w, err := s.openValues(ctx, query)
	if err != nil {
		return nil, err
	}
	w.deadline = time.AfterFunc(streamDeadline, func() { w.cancel(transport.ErrNoProgress) })
	if err = w.wait(); err != nil {
		w.Close()
		if transport.StatusCode(err) == 0 {
			return nil, fmt.Errorf("%w: %w", ErrNoStreaming, err)
		}
		return nil, refused(err)
	}
	return w, nil
}

// valueWatch is a watch that a program's function opens. Only that function ends it: without a history, a new watch
// would lose changes.
type valueWatch struct {
	source   *Source
	ctx      context.Context // of the watch
	cancel   context.CancelCauseFunc
	asked    time.Time
	deadline *time.Timer   // ends ctx while the initial events make no progress; nil for a watch without them
	opened   chan struct{} // closed when the fields below are set

	watch  apiwatch.Interface // nil if failed is set
	failed error

	events int            // that have been received
	next   apiwatch.Event // an event that Fill has received
	ready  bool           // next is one
	ended  bool           // there are no more
}

// openValues begins to open a watch.
func (s *Source) openValues(ctx context.Context, query url.Values) (*valueWatch, error) {
	query.Set("allowWatchBookmarks", "true")
	query.Set("timeoutSeconds", strconv.Itoa(int((MinWatchTimeout + rand.N(MinWatchTimeout)).Seconds())))
	options, err := optionsOf(query, s.config)
	if err != nil {
		return nil, err
	}
	if err := s.readyToWatch(ctx); err != nil {
		return nil, err
	}
	s.watches.Add(1)
	s.Awaits.Set(status.AwaitingResponse)
	w := &valueWatch{source: s, asked: time.Now(), opened: make(chan struct{}), failed: run.ErrGoroutineEnded}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(w.opened)
		w.watch, w.failed = s.config.Client.Values.WatchWithContext(w.ctx, options)
		if w.failed == nil && w.watch == nil {
			w.failed = errors.New("the program's function returned no watch")
		}
	}()
	return w, nil
}

// wait waits until the watch is open.
func (w *valueWatch) wait() error {
	select {
	case <-w.opened:
		if w.failed != nil {
			return fmt.Errorf("watch: %w", transport.Because(w.ctx, w.failed))
		}
		return nil
	case <-w.ctx.Done():
		return fmt.Errorf("watch: %w", context.Cause(w.ctx))
	}
}

// Close implements Watch. It waits for a function that still opens the watch.
func (w *valueWatch) Close() {
	if w.deadline != nil {
		w.deadline.Stop()
	}
	w.cancel(nil)
	<-w.opened
	if w.failed == nil {
		w.watch.Stop()
		w.source.worked = w.source.worked || w.events > 0 || time.Since(w.asked) >= workedAfter
	}
}

// Silent implements Watch. A silent watch needs no check: the versions of the source prove nothing.
func (w *valueWatch) Silent() bool { return false }

// receive returns the next event that has arrived. It returns decode.ErrMore if there is none, and io.EOF at the end.
func (w *valueWatch) receive() (e apiwatch.Event, err error) {
	if !w.ready && !w.ended {
		select {
		case w.next, w.ready = <-w.watch.ResultChan():
			w.ended = !w.ready
		default:
			return e, decode.ErrMore
		}
	}
	if !w.ready {
		return e, io.EOF
	}
	e, w.next, w.ready = w.next, e, false
	return e, nil
}

// Fill waits for an event.
func (w *valueWatch) Fill() error {
	select {
	case w.next, w.ready = <-w.watch.ResultChan():
		w.ended = !w.ready
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// untilBookmark adds objects to in until the next bookmark, whose metadata it returns. It waits until in has handed
// them on, and returns io.EOF if the watch ended normally. It calls progressed for each event.
func (w *valueWatch) untilBookmark(in Intake, progressed func()) (metav1.Object, error) {
	for {
		e, err := w.receive()
		if err == decode.ErrMore {
			if err = in.Fill(w); err == nil {
				continue
			}
		}
		if err == nil {
			w.events++
			w.source.events.Add(1)
			progressed()
			if e.Type == apiwatch.Added || e.Type == apiwatch.Modified || e.Type == apiwatch.Deleted {
				in.AddValue(e.Object, e.Type == apiwatch.Deleted)
				continue
			}
		}
		if failed := in.Wait(); failed != nil {
			return nil, failed
		}
		switch {
		case err == io.EOF:
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("watch: %w", transport.Because(w.ctx, err))
		case e.Type == apiwatch.Bookmark:
			metadata, err := meta.Accessor(e.Object)
			if err != nil {
				return nil, fmt.Errorf("watch: a bookmark has a %T: %w", e.Object, err)
			}
			return metadata, nil
		case e.Type == apiwatch.Error:
			return nil, valueError(e.Object)
		}
		return nil, fmt.Errorf("watch: the program's function sent an event of type %.100q", e.Type)
	}
}

// valueError returns the error of an event of type ERROR. If the event does not say what happened, changes may be lost.
func valueError(obj runtime.Object) error {
	status, ok := obj.(*metav1.Status)
	if !ok || status == nil {
		return fmt.Errorf("watch: %w: it has a %T", ErrUnexplained, obj)
	}
	err := fmt.Errorf("watch: %w", apierrors.FromObject(status))
	if status.Code < http.StatusBadRequest && status.Reason == metav1.StatusReasonUnknown {
		err = fmt.Errorf("%w: %w", ErrUnexplained, err)
	}
	return err
}

// InitialEvents implements Watch.
func (w *valueWatch) InitialEvents(into Collector) (version string, err error) {
	in := into.Intake(decode.JSON, w.cancel)
	defer in.Wait()
	bookmark, err := w.untilBookmark(in, func() { w.deadline.Reset(streamDeadline) })
	switch {
	case err == io.EOF:
		return "", fmt.Errorf("%w: the watch ended without a bookmark after the initial events", ErrNoStreaming)
	case err != nil:
		return "", refused(err)
	case bookmark.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true":
		return "", fmt.Errorf("%w: an ordinary bookmark came among the initial events", ErrNoStreaming)
	}
	w.deadline.Stop()
	return bookmark.GetResourceVersion(), nil
}

// Follow implements Watch.
func (w *valueWatch) Follow(into NewIntake, progressed func(version string) error) error {
	if err := w.wait(); err != nil {
		return err
	}
	in := into(decode.JSON, w.cancel)
	defer in.Wait()
	for {
		bookmark, err := w.untilBookmark(in, func() {})
		switch {
		case err == io.EOF && w.events == 0 && time.Since(w.asked) < shortWatch:
			return ErrEmptyWatch
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if version := bookmark.GetResourceVersion(); version != "" {
			if err := progressed(version); err != nil {
				return err
			}
		}
	}
}
