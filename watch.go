package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/transport"
)

const (
	shortWatch      = time.Second     // an empty watch that ends sooner counts as a failure
	minWatchTimeout = 5 * time.Minute // the server ends a watch after one to two times this
	// streamDeadline is the time limit for the headers of a streaming list, and then for each streamProgress bytes of the
	// initial events.
	streamDeadline = 10 * time.Second
	streamProgress = 1 << 10
	// watchGrace is the time that the server has to end a watch after its timeoutSeconds.
	watchGrace = 30 * time.Second
)

// openWatch is one watch that the server has accepted.
type openWatch struct {
	response *transport.Response
	frames   decode.Frames
	events   int // events that have been read
	opened   time.Time
	timeout  time.Duration   // the server ends the watch this long after opened
	request  context.Context // the context of the request
	cancel   context.CancelCauseFunc
	deadline *time.Timer         // ends request
	progress *transport.Progress // ends request when the initial events take too long; nil for a watch without them
}

func (w *openWatch) close() {
	w.deadline.Stop()
	w.cancel(nil)
	w.response.Close()
}

// open opens a watch that the server ends after timeout; zero means after some minutes. If initial is true, the watch
// begins with the whole collection.
func (c *collection[T]) open(ctx context.Context, query url.Values, initial bool,
	timeout time.Duration) (_ *openWatch, err error) {
	if timeout == 0 {
		timeout = minWatchTimeout + rand.N(minWatchTimeout)
	}
	w := &openWatch{timeout: timeout}
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	query.Set("timeoutSeconds", strconv.Itoa(int(w.timeout.Seconds())))
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	w.request, w.cancel = context.WithCancelCause(ctx)
	limit := w.timeout + watchGrace
	if initial {
		limit = streamDeadline
	}
	w.deadline = time.AfterFunc(limit, func() { w.cancel(ErrNoProgress) })
	w.opened = time.Now()
	c.watches.Add(1)
	if w.response, err = c.send(w.request, query, c.decoder.accept); err != nil {
		w.deadline.Stop()
		err = fmt.Errorf("watch: %w", transport.Because(w.request, err))
		w.cancel(nil)
		return nil, err
	}
	body := io.Reader(w.response)
	if initial {
		w.progress = transport.NewProgress(w.request, w.response, w.deadline, streamDeadline, streamProgress)
		body = w.progress
	}
	w.frames = decode.NewFrames(body, w.response.Format)
	return w, nil
}

// bookmark returns the next bookmark of w, encoded. It adds the objects before it to in, and waits until in has handed
// them on. It returns io.EOF if the server ended the watch normally.
func (c *collection[T]) bookmark(w *openWatch, in *intake[T]) (raw []byte, err error) {
	for {
		frame, err := w.frames.Next()
		if err == decode.ErrMore {
			if err = in.fill(w.frames); err == nil {
				continue
			}
		}
		event := apiwatch.EventType(frame.Event)
		if err == nil {
			w.events++
			c.events.Add(1)
			if event == apiwatch.Added || event == apiwatch.Modified || event == apiwatch.Deleted {
				in.add(frame.Raw, event == apiwatch.Deleted, nil)
				continue
			}
		}
		if failed := in.wait(); failed != nil {
			return nil, failed
		}
		switch {
		case err == io.EOF:
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

var errNamelessFiltered = errors.New("Config.Filter rejects it, but its name could not be decoded")

var errNoVersion = errors.New("watch: the server sent a bookmark without resource version")

// errNoStreaming indicates that a streaming list is not possible. The reflector falls back to a paged list.
var errNoStreaming = errors.New("streaming list not possible")

// initialEvents reads the collection from the initial events of a watch (KEP-3157), and returns its resource version.
// Afterwards w is an ordinary watch.
func (c *collection[T]) initialEvents(w *openWatch, restored bool) (l listing[T], version string, err error) {
	c.read.Store(0)
	in := newIntake(c.decoder, &c.batches, w.response.Format, w.cancel, func(o decoded[T]) error {
		c.read.Add(1)
		switch { // the initial events may include changes
		case o.outside: // if it replaces one in the shard, the deletion of that one came before
		case (o.deleted || o.filtered) && o.key.Name != "":
			l.remove(o.key)
		case o.filtered:
			l.fail(&DecodeError{Resource: c.resource, Err: errNamelessFiltered})
		case o.failed != nil:
			l.fail(o.failed)
		default:
			l.add(o.obj)
		}
		return nil
	})
	in.restored = restored
	defer in.wait()
	raw, err := c.bookmark(w, in)
	if err == io.EOF {
		return l, "", fmt.Errorf("%w: the server ended the watch without a bookmark after the initial events", errNoStreaming)
	}
	if err != nil {
		return l, "", err
	}
	meta, err := w.response.Format.Metadata(raw)
	switch {
	case err != nil:
		return l, "", fmt.Errorf("watch: bookmark: %w", err)
	case meta.ResourceVersion == "":
		return l, "", errNoVersion
	case meta.Annotations[metav1.InitialEventsAnnotationKey] != "true":
		return l, "", fmt.Errorf("%w: the server sent an ordinary bookmark among the initial events", errNoStreaming)
	}
	w.progress.EndAt(w.timeout + watchGrace - time.Since(w.opened))
	return l, meta.ResourceVersion, nil
}

// follow calls change for each change of an object, one at a time and in order. It calls together after each batch of
// changes, and progressed for each bookmark. It ends when one of these functions fails or the watch ends. It returns
// io.EOF if the server ended the watch normally.
func (c *collection[T]) follow(w *openWatch, change func(decoded[T]) error, together func() error,
	progressed func(version string) error) error {
	in := newIntake(c.decoder, &c.batches, w.response.Format, w.cancel, change)
	in.live, in.handed = true, together
	defer in.wait()
	for {
		raw, err := c.bookmark(w, in)
		if err != nil {
			return err
		}
		version := string(w.response.Format.Peek(raw).ResourceVersion)
		if version == "" {
			return errNoVersion
		}
		if err := progressed(version); err != nil {
			return err
		}
	}
}
