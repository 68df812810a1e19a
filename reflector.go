package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReflectorState is what a [Reflector] is doing.
//
//	Idle -- Run --> Listing -- whole list in the sink --> Watching
//	                 ^ |  ^ |                              ^ |  |
//	                 | |  | | version too old or too new,  | |  | changes are lost:
//	                 | |  | | no streaming: ask otherwise  | |  | wait in Backoff, then
//	                 | |  +-+                              | |  +--------------> Listing
//	                 | |                                   | |
//	                 | +-- failed --> Backoff              | +-- failed --> Backoff
//	                 |                 |                   |                 |
//	                 +-- after a while +                   +-- after a while +
//	                 |
//	                 +-- after a while -- Absent <-- not served (404) -- Listing
//
// A watch that the server ends in good order is followed by the next one. From every state, the end of Run's context leads to Idle.
type ReflectorState uint8

const (
	// ReflectorIdle is the state before Run and after it.
	ReflectorIdle ReflectorState = iota
	// ReflectorListing reads the whole collection.
	ReflectorListing
	// ReflectorWatching follows the changes; ReflectorStatus.WatchOpen reports whether a watch is open just now.
	ReflectorWatching
	// ReflectorBackoff waits before it tries again.
	ReflectorBackoff
	// ReflectorAbsent waits for the resource to be served: its custom resource definition is not installed.
	ReflectorAbsent
)

// String returns the name of the state, such as "Listing".
func (s ReflectorState) String() string {
	switch s {
	case ReflectorIdle:
		return "Idle"
	case ReflectorListing:
		return "Listing"
	case ReflectorWatching:
		return "Watching"
	case ReflectorBackoff:
		return "Backoff"
	case ReflectorAbsent:
		return "Absent"
	}
	return fmt.Sprintf("ReflectorState(%d)", uint8(s))
}

// ReflectorStatus is the status of a [Reflector].
type ReflectorStatus struct {
	// Namespace is the part of the collection; empty means all of it.
	Namespace string
	State     ReflectorState
	// Since is when it entered State.
	Since time.Time
	// LastError is the last failure, nil when there was none. It stays after things are well again. A [*DecodeError] in it
	// has no Raw.
	LastError error
	// LastErrorTime is when that was.
	LastErrorTime time.Time
	// ResourceVersion is the version up to which the sink has everything. Empty before the first list.
	ResourceVersion string
	// WatchOpen says whether a watch is open, so that changes come in as they happen.
	WatchOpen bool
	// Lists and Watches count requests. A streaming list counts as both.
	Lists, Watches int
	// Restored counts how often the reflector found that the server went back in time, as when it is restored from a backup.
	Restored int
	// Failures is the number of failures in a row, on which the backoff depends. Two minutes without one make it zero.
	Failures int
	// DecodeErrors counts objects and events that could not be decoded.
	DecodeErrors int
	// Stale is how many objects there are whose newest version could not be decoded. Of each the store has an older
	// one, or none.
	Stale int
	// Read is how many objects of the present list, or of the last one, have been read.
	Read int
}

const (
	minBackoff       = 800 * time.Millisecond
	maxBackoff       = 30 * time.Second
	healthyAfter     = 2 * time.Minute  // without a failure, backoff begins anew
	maxRetryAfter    = 10 * time.Minute // the longest wait that a server can ask for
	maxAhead         = 3                // watches in a row from a version that the server has not reached
	streamAgainAfter = time.Hour        // after the server refused a streaming list
)

// Reflector reads one collection, or one namespace of it, by list and watch, and puts what it reads into a [Sink]:
// one Replaced for a list, then one delta for each event of the watch. After a failure it goes on where it was; it
// lists again only when the server no longer has the changes since.
//
// An [Informer] has one for each namespace that it follows. Use one on its own to feed something else than a Store.
type Reflector[T Object] struct {
	collection[T]
	sink    Sink[T]
	batcher batcher[T] // sink, if it is one
	config  Config[T]
	log     *slog.Logger

	// Of the goroutine in Run, or of one that it waits for.
	state state
	stale map[Key]struct{} // objects whose newest version could not be decoded

	mu       sync.Mutex // protects the fields below
	status   ReflectorStatus
	failures int       // in a row, as of retryAt
	retryAt  time.Time // when the wait after the last failure ends
}

// state is what a reflector does next, and all that this depends on.
type state struct {
	name ReflectorState // ReflectorListing or ReflectorWatching
	rv   string         // the sink has everything up to this resource version; empty for nothing

	// Of ReflectorListing.
	least    string    // the resource version that the list has at least: "0" for any, "" for the newest
	restored bool      // the server went back in time since the sink was filled: equal versions prove nothing
	told     bool      // the sink need not be told if the resource is not served
	paged    time.Time // until then the server refuses a streaming list

	// Of ReflectorWatching.
	open  *openWatch // a watch that is open already, since it began with the collection
	ahead int        // watches in a row from a version that the server has not reached
}

// watching returns the state after the whole collection went into the sink.
func (s state) watching() state {
	return state{name: ReflectorWatching, rv: s.rv, paged: s.paged}
}

// listing returns a state that lists at least that version.
func (s state) listing(least string) state {
	s.name, s.least, s.ahead = ReflectorListing, least, 0
	return s
}

// Failures that the reflector recognizes by these errors rather than by what the server says.
var (
	errEmptyWatch = errors.New("the server ended the watch at once")
	errWentBack   = errors.New("the server went back in time")
	// A list tells what is gone.
	errUnknownDeleted = errors.New("the server deleted an object without telling its name")
)

const noteRestored = "the server was restored: read everything anew"

// failed returns the state after err, and where to wait before it: ReflectorBackoff, ReflectorAbsent, or ReflectorIdle for not at
// all. note says what changed, for the log.
func (s state) failed(err error, now time.Time) (next state, wait ReflectorState, note string) {
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	tooLarge := isTooLarge(err)
	watching := s.name == ReflectorWatching
	if watching && tooLarge {
		s.ahead++
	} else {
		s.ahead = 0
	}
	switch {
	case errors.Is(err, errWentBack), s.ahead >= maxAhead: // e.g. etcd was restored from a backup
		next = s.listing("")
		next.restored = true
		return next, ReflectorBackoff, noteRestored
	case watching && (expired || apierrors.IsStoreReadError(err) || errors.Is(err, errUnknownDeleted) || errors.Is(err, errForeign)):
		return s.listing(s.rv), ReflectorBackoff, "" // the changes since rv are lost
	case watching && apierrors.IsNotFound(err): // the resource is gone: the list will tell
		return s.listing(""), ReflectorBackoff, ""
	case watching:
		return s, ReflectorBackoff, ""
	case (expired || tooLarge) && s.least != "": // the server is behind, or was restored
		s.least = ""
		return s, ReflectorIdle, "list again at any resource version"
	case errors.Is(err, errNoStreaming):
		s.paged = now.Add(streamAgainAfter)
		return s, ReflectorIdle, "fall back to paged lists"
	case apierrors.IsNotFound(err):
		return s, ReflectorAbsent, ""
	}
	return s, ReflectorBackoff, ""
}

// NewReflector returns a reflector of resource, of which Namespaces may name one at most. It does nothing before Run.
func NewReflector[T Object](client *Client, resource Resource, sink Sink[T], config Config[T]) (*Reflector[T], error) {
	if err := resource.validate(); err != nil {
		return nil, err
	}
	if len(resource.Namespaces) > 1 {
		return nil, fmt.Errorf("Resource.Namespaces of %s: a reflector follows one namespace or all, not %d", resource.Resource, len(resource.Namespaces))
	}
	switch {
	case client == nil:
		return nil, errNoClient
	case sink == nil:
		return nil, errors.New("the sink is nil: a reflector needs one to put into what it reads")
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	own, err := newDecoders[T](client.accept, config.KeepManagedFields)
	if err != nil {
		return nil, err
	}
	metadata, err := newDecoders[*metav1.PartialObjectMetadata](client.accept, false)
	if err != nil {
		return nil, err
	}
	r := &Reflector[T]{
		collection: collection[T]{client: client, resource: resource, namespace: resource.sources()[0]},
		sink:       sink,
		config:     config,
		log:        config.logger().With("resource", resource.String()),
		state:      state{name: ReflectorListing, least: "0", told: !config.AbsentIsSynced},
	}
	r.decoder = &decoder[T]{
		decoders:  own,
		metadata:  metadata,
		resource:  resource,
		namespace: r.namespace,
		config:    config,
		failed:    r.noteDecodeError,
		calling:   newLimit(1),
	}
	r.batcher, _ = sink.(batcher[T])
	if holder, ok := sink.(Holder[T]); ok {
		r.decoder.held = holder.Get
	}
	r.status.Namespace = r.namespace
	r.status.Since = time.Now()
	return r, nil
}

// Status returns the present status of the reflector.
func (r *Reflector[T]) Status() ReflectorStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Read, s.Lists, s.Watches = int(r.read.Load()), int(r.lists.Load()), int(r.watches.Load())
	s.Failures = r.failuresLocked(time.Now())
	return s
}

func (r *Reflector[T]) update(change func(*ReflectorStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

func (r *Reflector[T]) enter(s ReflectorState) {
	r.update(func(status *ReflectorStatus) {
		if status.State != s {
			status.State, status.Since = s, time.Now()
		}
	})
}

// noteDecodeError logs and counts an object that cannot be decoded.
func (r *Reflector[T]) noteDecodeError(failed *DecodeError) {
	r.log.Error("an object cannot be decoded", "key", failed.Key.String(), "err", failed.Err)
	r.update(func(s *ReflectorStatus) { s.DecodeErrors++; s.LastError, s.LastErrorTime = failed, time.Now() })
}

// errSink marks an error of the sink: the end of the reflector.
type errSink struct{ error }

func (e errSink) Unwrap() error { return e.error }

// Run lists and watches until ctx ends, and returns why it ended, or until the sink fails, and returns its error.
// No other failure ends it. It starts no goroutine that outlives it. It can be run again afterwards, and then begins
// where it was, but not twice at a time.
func (r *Reflector[T]) Run(ctx context.Context) error {
	defer r.enter(ReflectorIdle)
	defer func() {
		if r.state.open != nil {
			r.close(r.state.open)
			r.state.open = nil
		}
	}()
	for {
		err := apart(func() error { return r.step(ctx) }) // which calls functions of the user's
		if failed := r.flush(); failed != nil {           // of what came before a failure
			err = failed
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if sink := (errSink{}); errors.As(err, &sink) {
			return sink.error
		}
		if err == nil {
			r.state.ahead = 0
		} else if err := r.recover(ctx, err); err != nil {
			return err
		}
	}
}

// step lists, or watches, once.
func (r *Reflector[T]) step(ctx context.Context) error {
	r.enter(r.state.name)
	switch {
	case r.state.name == ReflectorWatching:
		return r.watch(ctx)
	case r.config.PagedList || time.Now().Before(r.state.paged):
		return r.list(ctx)
	}
	return r.stream(ctx)
}

// recover goes on after err, and waits for as long as that takes. It returns an error when ctx ended, or the sink failed.
func (r *Reflector[T]) recover(ctx context.Context, err error) error {
	now := time.Now()
	next, wait, note := r.state.failed(err, now)
	r.update(func(s *ReflectorStatus) {
		s.LastError, s.LastErrorTime = err, now
		if note == noteRestored {
			s.Restored++
		}
	})
	from := r.state
	r.state = next
	switch wait {
	case ReflectorIdle:
		r.log.Info(note, "why", err, "resourceVersion", from.least)
		return nil
	case ReflectorAbsent:
		if err := r.absent(ctx); err != nil {
			return err
		}
	default:
		if note != "" {
			r.log.Warn(note, "why", err, "resourceVersion", from.rv)
		}
	}
	delay := r.backoff(now, err)
	if wait == ReflectorBackoff {
		r.log.Warn("try again", "why", err, "after", delay, "resourceVersion", r.state.rv, "relist", r.state.name == ReflectorListing)
	}
	return r.wait(ctx, wait, delay)
}

// backoff returns how long to wait after one more failure: exponential with full jitter, or what the server says.
func (r *Reflector[T]) backoff(now time.Time, err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.failuresLocked(now)
	delay := rand.N(min(minBackoff<<min(before, 10), maxBackoff))
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		delay = min(time.Duration(seconds)*time.Second, maxRetryAfter)
		delay += rand.N(delay/10 + 1) // clients that were sent away together should not come back together
	}
	r.failures, r.retryAt = before+1, now.Add(delay)
	return delay
}

func (r *Reflector[T]) failuresLocked(now time.Time) int {
	if now.Sub(r.retryAt) > healthyAfter {
		return 0
	}
	return r.failures
}

func (r *Reflector[T]) wait(ctx context.Context, s ReflectorState, d time.Duration) error {
	r.enter(s)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// absent tells the sink that nothing is there, once for each time that the resource is no longer served.
func (r *Reflector[T]) absent(ctx context.Context) error {
	if r.state.told {
		return nil
	}
	r.state.rv, r.state.least, r.state.told = "", "", true
	r.setStale(nil)
	r.update(func(s *ReflectorStatus) { s.ResourceVersion = "" })
	return r.sink.Put(ctx, Delta[T]{Type: Replaced, Namespace: r.namespace})
}

// list lists the collection.
func (r *Reflector[T]) list(ctx context.Context) error {
	l, version, err := r.collection.list(ctx, r.state.least, r.config.PageSize, r.state.restored)
	if err != nil {
		return err
	}
	return r.replaced(ctx, l, version)
}

// stream reads the collection by a streaming list. The watch then stays open in the reflector's state.
func (r *Reflector[T]) stream(ctx context.Context) error {
	query := url.Values{"sendInitialEvents": {"true"}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}}
	if least := r.state.least; least != "0" && least != "" {
		query.Set("resourceVersion", least)
	}
	r.collection.lists.Add(1)
	w, err := r.open(ctx, query, true)
	if err == nil {
		var l listing[T]
		var version string
		if l, version, err = r.collection.initialEvents(w, r.state.restored); err == nil {
			if err = r.replaced(ctx, l, version); err == nil {
				r.state.open = w
				return nil
			}
		}
		r.close(w)
	}
	if errors.Is(err, ErrNoProgress) || isRefusal(err) {
		return fmt.Errorf("%w: %w", errNoStreaming, err)
	}
	return err
}

// open opens a watch.
func (r *Reflector[T]) open(ctx context.Context, query url.Values, initial bool) (*openWatch, error) {
	w, err := r.collection.open(ctx, query, initial)
	if err == nil {
		r.update(func(s *ReflectorStatus) { s.WatchOpen = true })
	}
	return w, err
}

func (r *Reflector[T]) close(w *openWatch) {
	w.close()
	r.update(func(s *ReflectorStatus) { s.WatchOpen = false })
}

// watch follows the changes until the watch ends. It returns nil when the server ended it in good order.
func (r *Reflector[T]) watch(ctx context.Context) (err error) {
	w := r.state.open
	if r.state.open = nil; w == nil {
		if w, err = r.open(ctx, url.Values{"resourceVersion": {r.state.rv}}, false); err != nil {
			return err
		}
	}
	defer r.close(w)
	err = r.collection.follow(w, func(o decoded[T]) error { return r.change(ctx, o) }, r.flush, func(version string) error {
		if err := r.tell(ctx, Delta[T]{Type: Bookmarked, ResourceVersion: version}); err != nil {
			return err
		}
		return r.flush()
	})
	switch {
	case err != io.EOF:
		return err
	case w.events == 0 && time.Since(w.opened) < shortWatch:
		return errEmptyWatch
	case w.events == 0 && time.Since(w.opened) >= minWatchTimeout:
		return r.probe(ctx)
	}
	return nil
}

// probe asks whether the server has reached the version of a watch that had not even a bookmark. So is a watch from a version that a
// restored server has yet to reach: the server sends nothing until then, and never the changes before.
func (r *Reflector[T]) probe(ctx context.Context) error {
	err := r.collection.reaches(ctx, r.state.rv)
	if isTooLarge(err) {
		return fmt.Errorf("%w: %w", errWentBack, err)
	}
	return err
}

// replaced puts the whole list, as of rv, into the sink.
func (r *Reflector[T]) replaced(ctx context.Context, l listing[T], rv string) error {
	restored := r.state.restored
	if err := r.notBack(rv); err != nil && !restored {
		return err // some of it may be what is held rather than what was sent
	}
	kept := slices.Collect(maps.Keys(l.kept))
	err := r.put(ctx, Delta[T]{Type: Replaced, Items: l.present(), Kept: kept, ResourceVersion: rv, Restored: restored})
	if err == nil {
		r.state = r.state.watching()
		r.setStale(kept)
	}
	return err
}

// change puts the change of one object into the sink. An object that Config.Filter refuses is gone.
func (r *Reflector[T]) change(ctx context.Context, o decoded[T]) error {
	d := Delta[T]{ResourceVersion: o.version}
	gone := o.deleted || o.filtered
	switch {
	case o.failed == nil && !o.filtered:
		if d.Type, d.Object = Upserted, o.obj; gone {
			d.Type = Removed
		}
	case gone && o.key.Name == "" && o.failed != nil:
		return fmt.Errorf("watch: %w: %w", errUnknownDeleted, o.failed.Err)
	case gone && o.key.Name == "":
		return fmt.Errorf("watch: %w: Config.Filter refuses it", errUnknownDeleted)
	case gone:
		d.Type, d.Key = Removed, o.key
	default: // what the sink holds of it stays
		d.Type = Bookmarked
	}
	r.changeStale(o.key, o.failed != nil && !gone)
	return r.tell(ctx, d)
}

// tell puts a change into the sink, unless it is from before what the sink has.
func (r *Reflector[T]) tell(ctx context.Context, d Delta[T]) error {
	if err := r.notBack(d.ResourceVersion); err != nil {
		return err
	}
	return r.put(ctx, d)
}

// notBack returns an error when resource version rv is older than what the sink has.
func (r *Reflector[T]) notBack(rv string) error {
	if rv != "" && r.state.rv != "" && older(rv, r.state.rv) {
		return fmt.Errorf("%w: resource version %s after %s", errWentBack, rv, r.state.rv)
	}
	return nil
}

// setStale notes that these are all objects whose newest version could not be decoded.
func (r *Reflector[T]) setStale(keys []Key) {
	r.stale = make(map[Key]struct{}, len(keys))
	for _, key := range keys {
		r.stale[key] = struct{}{}
	}
	r.update(func(s *ReflectorStatus) { s.Stale = len(r.stale) })
}

// changeStale notes of one object whether its newest version could not be decoded.
func (r *Reflector[T]) changeStale(key Key, stale bool) {
	switch {
	case stale:
		r.stale[key] = struct{}{}
	case len(r.stale) > 0:
		delete(r.stale, key)
	default:
		return // as nearly always
	}
	r.update(func(s *ReflectorStatus) { s.Stale = len(r.stale) })
}

// put puts d into the sink, which then has everything up to d's resource version. flush comes after it.
func (r *Reflector[T]) put(ctx context.Context, d Delta[T]) error {
	d.Namespace = r.namespace
	put := r.sink.Put
	if r.batcher != nil && d.Type != Replaced {
		put = r.batcher.queue
	}
	if err := put(ctx, d); err != nil {
		return errSink{err}
	}
	if d.ResourceVersion != "" {
		r.state.rv = d.ResourceVersion
		r.update(func(s *ReflectorStatus) { s.ResourceVersion = d.ResourceVersion })
	}
	return nil
}

// flush tells the sink that nothing more came together with what was put.
func (r *Reflector[T]) flush() error {
	if r.batcher == nil {
		return nil
	}
	if err := r.batcher.flush(); err != nil {
		return errSink{err}
	}
	return nil
}
