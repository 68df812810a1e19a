package informer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// State is what a [Reflector] is doing.
//
//	Idle --> Listing -------- whole list read ---------> Watching
//	          ^  |  ^                                     |  ^
//	          |  |  +------ after a while ----- Backoff <-+  |
//	          |  |                               ^    |      |
//	          |  +-------------- failed ---------+    +------+ after a while
//	          |  |
//	          |  +-- not served (404) --> Absent
//	          +------- after a while ------+
type State uint8

const (
	// Idle is the state before Run and after it.
	Idle State = iota
	// Listing reads the whole collection.
	Listing
	// Watching follows the changes; whether a watch is open just now is in ReflectorStatus.WatchOpen.
	Watching
	// Backoff waits before it tries again what failed.
	Backoff
	// Absent waits for the resource to be served: its custom resource definition is not installed.
	Absent
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Idle:
		return "Idle"
	case Listing:
		return "Listing"
	case Watching:
		return "Watching"
	case Backoff:
		return "Backoff"
	case Absent:
		return "Absent"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// ReflectorStatus tells how a [Reflector] is doing.
type ReflectorStatus struct {
	// Namespace is the part of the collection; empty means all of it.
	Namespace string
	State     State
	// Since is when it entered State.
	Since time.Time
	// LastError is the last failure, nil when there was none. It stays after things are well again.
	LastError error
	// LastErrorTime is when that was.
	LastErrorTime time.Time
	// ResourceVersion is how far it has read. Empty before the first list.
	ResourceVersion string
	// WatchOpen says whether a watch is open, so that changes come in as they happen.
	WatchOpen bool
	// Lists and Watches count requests. A streaming list counts as both.
	Lists, Watches int
	// Restored counts how often the server was taken to have gone back in time, as when it is restored from a backup.
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
	pageSize         = 500 // as client-go's
	minBackoff       = 800 * time.Millisecond
	maxBackoff       = 30 * time.Second
	healthyAfter     = 2 * time.Minute // without a failure, backoff begins anew
	shortWatch       = time.Second     // an empty watch that ends sooner is not asked for again at once
	progressDeadline = 10 * time.Second
	maxAhead         = 3                // watches in a row from a version that the server has not reached
	streamAgainAfter = time.Hour        // after the server refused a streaming list
	minWatchTimeout  = 5 * time.Minute  // watches end after this, and up to twice as long
	watchGrace       = 30 * time.Second // how much later the server may end them
	maxRetryAfter    = 10 * time.Minute // whatever the server says, it is asked again
	streamProgress   = 1 << 10          // bytes of a streaming list that are waited for no longer than progressDeadline
)

// Reflector reads one collection, or one namespace of it, by list and watch, and puts what it reads into a [Sink]:
// one Replaced for a list, then one delta for each event of the watch. After a failure it goes on where it was; it
// lists again only when the server no longer has the changes since.
//
// An [Informer] has one for each namespace that it follows. Use one on its own to feed something else than a Store.
type Reflector[T Object] struct {
	client    *Client
	resource  Resource
	namespace string
	sink      Sink[T]
	config    Config[T]
	log       *slog.Logger
	held      func(Key) (T, bool) // what is there of an object; nil when nobody knows
	decoders  sync.Pool           // of *decoder[T], for other goroutines than that in Run
	batches   sync.Pool           // of *batch[T]

	// Of the goroutine in Run, or of the one whose turn it is in its pipeline, which it waits for.
	decoder     *decoder[T]      // of the goroutine in Run alone
	rv          string           // how far everything was put into the sink
	listed      bool             // the sink has the whole collection as of rv: go on by watching
	listRV      string           // what to list at least
	restored    bool             // the server was, since what is held was read: equal versions prove nothing
	tellAbsence bool             // the sink has to be told if the resource is not served
	ahead       int              // watches in a row from a version that the server has not reached
	stale       map[Key]struct{} // what could not be decoded of late
	streamAfter time.Time        // no streaming list before

	read     atomic.Int64 // status.Read
	mu       sync.Mutex   // protects the fields below
	status   ReflectorStatus
	failures int       // in a row, as of retryAt
	retryAt  time.Time // when the wait after the last failure ends
}

// NewReflector returns a reflector of resource, of which Namespaces may name one at most. It does nothing before Run.
func NewReflector[T Object](client *Client, resource Resource, sink Sink[T], config Config[T]) (*Reflector[T], error) {
	if err := resource.validate(); err != nil {
		return nil, err
	}
	if len(resource.Namespaces) > 1 {
		return nil, fmt.Errorf("Resource.Namespaces of %s: a reflector follows one namespace or all, not %d", resource.Resource, len(resource.Namespaces))
	}
	c, err := newCodec[T](client.accept, config.KeepManagedFields)
	if err != nil {
		return nil, err
	}
	r := &Reflector[T]{
		client:    client,
		resource:  resource,
		namespace: resource.sources()[0],
		sink:      sink,
		config:    config,
		decoder:   newDecoder(c),
		log:       config.logger().With("resource", resource.String()),
		listRV:    "0",

		tellAbsence: config.AbsentIsSynced,
	}
	r.decoders.New = func() any { return newDecoder(c) }
	r.batches.New = func() any { return &batch[T]{} }
	r.status.Namespace = r.namespace
	r.status.Since = time.Now()
	return r, nil
}

// Status returns how the reflector is doing.
func (r *Reflector[T]) Status() ReflectorStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Read = int(r.read.Load())
	s.Failures = r.failuresLocked(time.Now())
	return s
}

func (r *Reflector[T]) update(change func(*ReflectorStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

func (r *Reflector[T]) enter(s State) {
	r.update(func(status *ReflectorStatus) {
		if status.State != s {
			status.State, status.Since = s, time.Now()
		}
	})
}

// errSink marks an error of the sink: the end of the reflector.
type errSink struct{ error }

func (e errSink) Unwrap() error { return e.error }

// Run lists and watches until ctx ends, and returns why it ended, or until the sink fails, and returns its error.
// No other failure ends it. It starts no goroutine that outlives it. It can be run again afterwards, and then begins
// where it was, but not twice at a time.
func (r *Reflector[T]) Run(ctx context.Context) error {
	defer r.enter(Idle)
	for {
		var err error
		began := time.Now()
		switch {
		case r.listed:
			r.enter(Watching)
			err = r.watch(ctx)
		case !r.config.PagedList && !began.Before(r.streamAfter):
			r.enter(Listing)
			err = r.stream(ctx)
		default:
			r.enter(Listing)
			err = r.list(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if sink := (errSink{}); errors.As(err, &sink) {
			return sink.error
		}
		if err == nil {
			r.ahead = 0
		} else if err := r.recover(ctx, err); err != nil {
			return err
		}
	}
}

// Failures that recover knows by these errors rather than by what the server says.
var (
	errNoStreaming = errors.New("streaming list not possible")
	errEmptyWatch  = errors.New("the server ended the watch at once")
	errWentBack    = errors.New("the server went back in time")
	// A list tells what is gone.
	errUnknownDeleted = errors.New("an object was deleted that does not tell its name")
)

// recover decides how to go on after err, and waits for as long as that takes. It returns an error when ctx ended.
func (r *Reflector[T]) recover(ctx context.Context, err error) error {
	now := time.Now()
	r.update(func(s *ReflectorStatus) { s.LastError, s.LastErrorTime = err, now })
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	tooLarge := isTooLarge(err)
	if r.listed && tooLarge {
		r.ahead++
	} else {
		r.ahead = 0
	}
	switch {
	case errors.Is(err, errWentBack) || r.ahead >= maxAhead:
		r.log.Warn("the server was restored: everything is read anew", "why", err, "resourceVersion", r.rv)
		r.listed, r.listRV, r.restored, r.ahead = false, "", true, 0
		r.update(func(s *ReflectorStatus) { s.Restored++ })
	case r.listed && (expired || apierrors.IsStoreReadError(err) || errors.Is(err, errUnknownDeleted)): // the changes since rv are not to be had
		r.listed, r.listRV = false, r.rv
	case !r.listed && (expired || tooLarge) && r.listRV != "": // the server is behind, or was restored
		r.log.Info("list again at any resource version", "why", err, "resourceVersion", r.listRV)
		r.listRV = ""
		return nil
	case !r.listed && errors.Is(err, errNoStreaming):
		r.log.Info("fall back to paged lists", "why", err)
		r.streamAfter = now.Add(streamAgainAfter)
		return nil
	case r.listed && apierrors.IsNotFound(err): // the resource is gone; the list will tell
		r.listed, r.listRV = false, ""
	case apierrors.IsNotFound(err):
		if err := r.absent(ctx); err != nil {
			return err
		}
		return r.wait(ctx, Absent, r.backoff(now, err))
	}
	delay := r.backoff(now, err)
	r.log.Warn("try again", "why", err, "after", delay, "resourceVersion", r.rv, "relist", !r.listed)
	return r.wait(ctx, Backoff, delay)
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

func (r *Reflector[T]) wait(ctx context.Context, s State, d time.Duration) error {
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

// absent takes away what was there when the resource is no longer served.
func (r *Reflector[T]) absent(ctx context.Context) error {
	if !r.tellAbsence {
		return nil
	}
	r.rv, r.listRV, r.tellAbsence = "", "", false
	r.setStale(nil)
	r.update(func(s *ReflectorStatus) { s.ResourceVersion = "" })
	return r.sink.Put(ctx, Delta[T]{Type: Replaced, Namespace: r.namespace})
}

// listing is a list that is being read.
type listing[T Object] struct {
	items []T          // the last one of a key counts
	kept  map[Key]bool // could not be decoded; the empty key for what did not even tell its own
	gone  map[Key]int  // of a key that was deleted, how many items there were by then
}

func (l *listing[T]) add(obj T) {
	if len(l.kept) > 0 {
		delete(l.kept, KeyOf(obj))
	}
	l.items = append(l.items, obj)
}

// fail notes that the newest version of an object cannot be decoded. An earlier one among the items stays.
func (l *listing[T]) fail(key Key) {
	if l.kept == nil {
		l.kept = map[Key]bool{}
	}
	l.kept[key] = true
}

func (l *listing[T]) remove(key Key) {
	delete(l.kept, key)
	if l.gone == nil {
		l.gone = map[Key]int{}
	}
	l.gone[key] = len(l.items)
}

// present returns the items that were not deleted since.
func (l *listing[T]) present() []T {
	if len(l.gone) == 0 {
		return l.items
	}
	var items []T
	for i, obj := range l.items {
		if i >= l.gone[KeyOf(obj)] {
			items = append(items, obj)
		}
	}
	return items
}

// replaced puts the whole list, as of rv, into the sink.
func (r *Reflector[T]) replaced(ctx context.Context, l listing[T], rv string) error {
	if err := r.notBack(rv); err != nil && !r.restored {
		return err // some of it may be what is held rather than what was sent
	}
	kept := slices.Collect(maps.Keys(l.kept))
	err := r.put(ctx, Delta[T]{Type: Replaced, Items: l.present(), Kept: kept, ResourceVersion: rv, Restored: r.restored})
	if err == nil {
		r.listed, r.restored, r.tellAbsence = true, false, true
		r.setStale(kept)
	}
	return err
}

// notBack returns an error when resource version rv is older than what was seen before.
func (r *Reflector[T]) notBack(rv string) error {
	if rv != "" && r.rv != "" && older(rv, r.rv) {
		return fmt.Errorf("%w: resource version %s after %s", errWentBack, rv, r.rv)
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

// put puts d into the sink, and notes that everything up to its resource version is there.
func (r *Reflector[T]) put(ctx context.Context, d Delta[T]) error {
	d.Namespace = r.namespace
	if err := r.sink.Put(ctx, d); err != nil {
		return errSink{err}
	}
	if d.ResourceVersion != "" {
		r.rv = d.ResourceVersion
		r.update(func(s *ReflectorStatus) { s.ResourceVersion = r.rv })
	}
	return nil
}

// list reads the collection page by page.
func (r *Reflector[T]) list(ctx context.Context) error {
	size := r.config.PageSize
	if size == 0 {
		size = pageSize
	}
	query := atLeast(r.listRV)
	query.Set("limit", strconv.Itoa(size))
	var l listing[T]
	r.read.Store(0)
	rv := ""
	for page := 1; ; page++ {
		info, err := r.page(ctx, query, &l)
		if page > 1 && apierrors.IsResourceExpired(err) {
			// The continue token outlived its snapshot. Read everything at once, from the cache, at least as new.
			l = listing[T]{}
			r.read.Store(0)
			info, err = r.page(ctx, atLeast(rv), &l)
		}
		if err != nil {
			return err
		}
		if rv = info.ResourceVersion; info.Continue == "" {
			return r.replaced(ctx, l, rv)
		}
		if info.Continue == query.Get("continue") {
			return errors.New("list: the server sent the same continue token again")
		}
		query = url.Values{"limit": {strconv.Itoa(size)}, "continue": {info.Continue}}
	}
}

// atLeast asks for a state that is as new as rv: any for "0", the newest for "".
func atLeast(rv string) url.Values {
	switch rv {
	case "":
		return url.Values{}
	case "0":
		return url.Values{"resourceVersion": {rv}}
	}
	return url.Values{"resourceVersion": {rv}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}}
}

// page reads the answer to one list request.
func (r *Reflector[T]) page(ctx context.Context, query url.Values, l *listing[T]) (listInfo, error) {
	if err := r.client.wait(ctx); err != nil {
		return listInfo{}, err
	}
	r.update(func(s *ReflectorStatus) { s.Lists++ })
	var info listInfo
	resp, f, err := r.open(ctx, query, r.decoder.codec.acceptList)
	if err != nil {
		return info, fmt.Errorf("list: %w", err)
	}
	defer resp.Body.Close()
	p := newPipeline(r, f, func(error) {}, func(obj T, failed *DecodeError, _ bool, _ []byte) error {
		r.read.Add(1)
		switch {
		case failed == errFiltered:
		case failed != nil:
			l.fail(failed.Key)
		default:
			l.add(obj)
		}
		return nil
	})
	err = readList(p.body(resp.Body), f, &info, func(raw []byte) { p.add(raw, false, &info) })
	if failed := p.wait(); failed != nil { // by then, or because of it, reading ended too
		err = failed
	}
	return info, err
}

func (r *Reflector[T]) open(ctx context.Context, query url.Values, accept string) (*http.Response, format, error) {
	resp, err := r.client.get(ctx, r.resource, r.namespace, query, accept)
	if err != nil {
		return nil, 0, err
	}
	f, err := r.decoder.codec.format(resp.Header.Get("Content-Type"))
	if err != nil {
		resp.Body.Close()
		return nil, 0, err
	}
	return resp, f, nil
}

// errFiltered stands for an object that Config.Filter refuses. It has no key: see peek.
var errFiltered = &DecodeError{Err: errors.New("filtered")}

// find looks for what is held of the object that raw encodes. If it is the same version, nothing is left to decode, so that
// a list that brings nothing new costs little.
func (r *Reflector[T]) find(f format, raw []byte, it *piece[T]) {
	if r.held == nil || it.deleted && !r.config.Share {
		return
	}
	id := f.peek(raw)
	obj, ok := r.held(id.key())
	switch {
	case !ok:
	case !it.deleted && !r.restored && len(id.resourceVersion) > 0 &&
		obj.GetResourceVersion() == string(id.resourceVersion) && string(obj.GetUID()) == string(id.uid):
		it.obj, it.held = obj, true
	case r.config.Share:
		it.old = obj
	}
}

// decode makes it the object that raw encodes, by d, unless find has done so. What may be done for several objects at once
// is done here, the rest by finish.
func (r *Reflector[T]) decode(d *decoder[T], f format, raw []byte, list *listInfo, it *piece[T]) {
	var none T
	switch {
	case it.held:
		return
	case r.config.Filter != nil && !r.accepts(d, f, raw, list):
		it.err = errFiltered
		return
	}
	it.obj, it.err = d.codec.decode(f, raw, list, r.config.Share && r.config.Transform == nil && it.old == none)
	if it.err == nil && it.old != none && r.config.Transform == nil {
		d.adopter.adopt(it.old, it.obj)
	}
}

// accepts asks Config.Filter. What cannot be decoded is accepted: to fail is for decode.
func (r *Reflector[T]) accepts(d *decoder[T], f format, raw []byte, list *listInfo) bool {
	meta, err := d.metadata.decode(f, raw, list, false)
	return err != nil || r.config.Filter(meta)
}

// finish transforms what decode has made of raw. A failure is told to Config.OnDecodeError.
func (r *Reflector[T]) finish(d *decoder[T], f format, raw []byte, it *piece[T]) (T, *DecodeError) {
	var none T
	if it.err == errFiltered {
		return none, errFiltered
	}
	obj, err := it.obj, it.err
	if err == nil && r.config.Transform != nil && !it.held {
		obj, err = r.transform(obj)
		if err == nil && it.old != none {
			d.adopter.adopt(it.old, obj)
		}
	}
	if err == nil {
		return obj, nil
	}
	failed := &DecodeError{Resource: r.resource, Key: f.peek(raw).key(), Raw: bytes.Clone(raw), Err: err}
	r.log.Error("an object cannot be decoded", "key", failed.Key.String(), "err", err)
	r.update(func(s *ReflectorStatus) { s.DecodeErrors++; s.LastError, s.LastErrorTime = failed, time.Now() })
	if r.config.OnDecodeError != nil {
		r.config.OnDecodeError(failed)
	}
	return none, failed
}

func (r *Reflector[T]) transform(obj T) (T, error) {
	var none T
	key, uid, rv := KeyOf(obj), obj.GetUID(), obj.GetResourceVersion()
	obj, err := r.config.Transform(obj)
	switch {
	case err != nil:
		return none, fmt.Errorf("transform: %w", err)
	case obj == none:
		return none, errors.New("transform: it returned nil and no error")
	case KeyOf(obj) != key || obj.GetUID() != uid || obj.GetResourceVersion() != rv:
		return none, errors.New("transform: it changed the object's namespace, name, uid or resourceVersion")
	}
	return obj, nil
}

// watch follows the changes since rv until the watch ends. It returns nil when the server ended it in good order.
func (r *Reflector[T]) watch(ctx context.Context) error {
	return r.follow(ctx, url.Values{"resourceVersion": {r.rv}}, false)
}

// stream reads the collection as the first events of a watch, and goes on with that watch (KEP-3157).
func (r *Reflector[T]) stream(ctx context.Context) error {
	query := url.Values{"sendInitialEvents": {"true"}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}}
	if r.listRV != "0" && r.listRV != "" {
		query.Set("resourceVersion", r.listRV)
	}
	r.update(func(s *ReflectorStatus) { s.Lists++ })
	r.read.Store(0)
	err := r.follow(ctx, query, true)
	if r.listed {
		return err
	}
	switch {
	case err == nil:
		err = errors.New("the server ended the watch without the bookmark behind the initial events")
	case errors.Is(err, ErrSilent) || isRefusal(err):
	default:
		return err
	}
	return fmt.Errorf("%w: %w", errNoStreaming, err)
}

// isRefusal says whether the server did not want the request as it was, rather than the client, the resource or the
// resource version.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// follow opens a watch and puts what it tells into the sink. With initial it begins with the whole collection.
func (r *Reflector[T]) follow(ctx context.Context, query url.Values, initial bool) error {
	timeout := minWatchTimeout + rand.N(minWatchTimeout)
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	query.Set("timeoutSeconds", strconv.Itoa(int(timeout.Seconds())))

	if err := r.client.wait(ctx); err != nil {
		return err
	}
	request, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deadline := time.AfterFunc(timeout+watchGrace, func() { cancel(ErrSilent) })
	defer deadline.Stop()
	if initial {
		deadline.Reset(progressDeadline)
	}
	opened := time.Now()
	r.update(func(s *ReflectorStatus) { s.Watches++ })
	resp, f, err := r.open(request, query, r.decoder.codec.accept)
	if err != nil {
		return fmt.Errorf("watch: %w", because(request, err))
	}
	defer resp.Body.Close()
	r.update(func(s *ReflectorStatus) { s.WatchOpen = true })
	defer r.update(func(s *ReflectorStatus) { s.WatchOpen = false })

	w := &watching[T]{Reflector: r, initial: initial}
	body := io.Reader(resp.Body)
	var list *patience // while the whole collection is read, what counts is that it goes on
	if initial {
		list = newPatience(request, resp.Body, deadline, progressDeadline, streamProgress)
		body = list
	}
	p := newPipeline(r, f, cancel, func(obj T, failed *DecodeError, deleted bool, raw []byte) error {
		return w.object(ctx, f, obj, failed, deleted, raw)
	})
	p.live = !initial
	defer p.wait()
	frames := newFrameReader(p.body(body), f)
	for events := 0; ; events++ {
		frame, err := frames.next()
		if err != nil {
			if err := p.wait(); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF && events == 0 && !initial && time.Since(opened) < shortWatch:
			return errEmptyWatch
		case err == io.EOF && events == 0 && !initial && time.Since(opened) >= minWatchTimeout:
			return r.probe(ctx)
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("watch: %w", because(request, err))
		}
		if err := w.event(ctx, f, frame, p); err != nil {
			return err
		}
		if initial && !w.initial {
			initial, list.ended, p.live = false, true, true
			deadline.Reset(timeout + watchGrace - time.Since(opened))
		}
	}
}

// probe asks whether the server is as far as rv, after a watch that had not even a bookmark. That is what a watch from
// a version is like that the server has yet to reach: what happens until then, it does not tell.
func (r *Reflector[T]) probe(ctx context.Context) error {
	if err := r.client.wait(ctx); err != nil {
		return err
	}
	query := atLeast(r.rv)
	query.Set("limit", "1")
	r.update(func(s *ReflectorStatus) { s.Lists++ })
	resp, _, err := r.open(ctx, query, r.decoder.codec.acceptList)
	switch {
	case isTooLarge(err):
		return fmt.Errorf("%w: %w", errWentBack, err)
	case err != nil:
		return fmt.Errorf("list: %w", err)
	}
	return resp.Body.Close()
}

// isTooLarge says whether the server has not reached the version that it was asked for.
func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// because returns why ctx was ended, if it was, rather than what came of that.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watching is one watch.
type watching[T Object] struct {
	*Reflector[T]
	initial bool // the initial events are not yet complete
	list    listing[T]
}

// event puts one frame's event into the sink, if it is of an object by p.
func (w *watching[T]) event(ctx context.Context, f format, frame frame, p *pipeline[T]) error {
	switch event := watch.EventType(frame.event); event {
	case watch.Added, watch.Modified, watch.Deleted:
		p.add(frame.raw, event == watch.Deleted, nil)
		return nil
	}
	if err := p.wait(); err != nil {
		return err
	}
	switch watch.EventType(frame.event) {
	case watch.Error:
		status, err := f.status(frame.raw)
		if err != nil {
			return fmt.Errorf("watch: error event: %w", err)
		}
		return fmt.Errorf("watch: %w", apierrors.FromObject(status))
	case watch.Bookmark:
		return w.bookmark(ctx, f, frame.raw)
	}
	return fmt.Errorf("watch: the server sent an event of type %.100q", frame.event)
}

// object puts what happened to one object into the sink: raw is its state, or its last one.
func (w *watching[T]) object(ctx context.Context, f format, obj T, failed *DecodeError, deleted bool, raw []byte) error {
	if failed == errFiltered { // as if it were deleted, and could not be read
		failed, deleted = &DecodeError{Key: f.peek(raw).key(), Raw: raw}, true
	}
	if w.initial { // changes can come in between
		w.read.Add(1)
		switch {
		case failed == nil && !deleted:
			w.list.add(obj)
		case failed == nil:
			w.list.remove(KeyOf(obj))
		case deleted && failed.Key.Name != "":
			w.list.remove(failed.Key)
		default:
			w.list.fail(failed.Key)
		}
		return nil
	}
	var d Delta[T]
	var key Key
	if failed == nil {
		d, key = Delta[T]{Type: Upserted, Object: obj, ResourceVersion: obj.GetResourceVersion()}, KeyOf(obj)
		if deleted {
			d.Type = Removed
		}
	} else {
		d, key = Delta[T]{Type: Bookmarked, ResourceVersion: string(f.peek(failed.Raw).resourceVersion)}, failed.Key
		switch {
		case deleted && key.Name == "":
			return fmt.Errorf("watch: %w: %w", errUnknownDeleted, failed)
		case deleted:
			d.Type, d.Key = Removed, key
		}
	}
	w.changeStale(key, failed != nil && !deleted) // what is held of it stays
	return w.tell(ctx, d)
}

// tell puts what happened behind the initial events into the sink, unless it is from before what was seen.
func (w *watching[T]) tell(ctx context.Context, d Delta[T]) error {
	if err := w.notBack(d.ResourceVersion); err != nil {
		return err
	}
	return w.put(ctx, d)
}

func (w *watching[T]) bookmark(ctx context.Context, f format, raw []byte) error {
	rv := string(f.peek(raw).resourceVersion)
	if rv == "" {
		return errors.New("watch: the server sent a bookmark without resource version")
	}
	if !w.initial {
		return w.tell(ctx, Delta[T]{Type: Bookmarked, ResourceVersion: rv})
	}
	var bookmark metav1.PartialObjectMetadata
	c := codec[*metav1.PartialObjectMetadata]{}
	if err := c.into(&bookmark, f, raw, nil, false); err != nil {
		return fmt.Errorf("watch: bookmark: %w", err)
	}
	if bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		return fmt.Errorf("%w: the server sent an ordinary bookmark among the initial events", errNoStreaming)
	}
	l := w.list
	w.initial, w.list = false, listing[T]{}
	if err := w.replaced(ctx, l, rv); err != nil {
		return err
	}
	w.enter(Watching)
	return nil
}
