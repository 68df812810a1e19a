package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"reflect"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/snapshotfile"
	"github.com/typedinformer/informer/internal/transport"
)

const (
	minBackoff    = 800 * time.Millisecond
	maxBackoff    = 30 * time.Second
	healthyAfter  = 2 * time.Minute  // the time without a failure that resets the backoff
	maxRetryAfter = 10 * time.Minute // the limit of a server's Retry-After
	// relist after this many consecutive watches from a version that the server has not reached
	maxAhead         = 3
	streamAgainAfter = time.Hour // the pause before the next streaming list after the server refused one
)

// Reflector reads one collection, or one namespace of it, by list and watch, and puts deltas into a [Sink]: one
// Replaced for a list, then one delta for each event of the watch. After a failure it resumes at its resource version.
// It lists again only when the server no longer has the changes since that version.
//
// A 404 alone is such a failure, too: a proxy can send it. If the server's discovery documents also show that no
// version of the API group has the resource, the sink gets an empty Replaced; see [ReflectorState]. All authenticated
// users may read these documents by default. If a cluster has changed that, bind the ClusterRole system:discovery to
// the client.
//
// An [Informer] has one for each namespace that it follows. Use one on its own to feed something other than a Store.
type Reflector[T Object] struct {
	collection[T]
	sink    Sink[T]
	batcher batcher[T]    // sink as a batcher; nil if it is none
	saved   *snapshots[T] // nil without Config.Snapshot
	config  Config[T]
	log     *slog.Logger

	// Only the goroutine in Run, or one that it waits for, uses these.
	state     state
	absence   absence
	sharded   uint64     // the change of the shard that decoder and state are of
	undecoded *undecoded // as of the last delta
	listed    bool       // the sink has had a list
	started   bool       // the reflector has loaded a snapshot, or found that it cannot; true without Config.Snapshot
	received  bool       // a resource version since the last flush
	// how many objects outside the shard the server had sent when the last list of the whole shard began
	outside int64

	mu        sync.Mutex // protects the fields below
	status    ReflectorStatus
	settled   ReflectorState // the last state other than Listing
	listsBy   byReason
	watchesBy byReason
	interrupt context.CancelCauseFunc // ends what the reflector does, because the shard has changed
	shard     Shard                   // the latest
	shards    uint64                  // how often it has changed
	failures  int                     // consecutive failures, as of retryAt
	retryAt   time.Time               // when the wait after the last failure ends
}

// state determines the next request of a reflector.
type state struct {
	name ReflectorState // ReflectorListing or ReflectorWatching
	rv   string         // the resource version up to which the sink has every change; empty before the first list

	// Used while listing.
	least    string    // the minimum resource version of the list: "0" for any, "" for the newest
	why      Reason    // of the next list or watch
	restored bool      // the server went back in time since the last list: an equal version does not mean equal content
	loaded   bool      // the sink has objects of a snapshot: an equal version does not mean equal content
	told     bool      // no empty Replaced is needed if the server does not serve the resource
	began    time.Time // of the list
	paged    time.Time // use paged lists until then: the server refused a streaming list

	// Used while watching.
	open  *openWatch // the open watch of a streaming list; nil if there is none
	ahead int        // consecutive watches from a version that the server has not reached
	has   *Shard     // the shard that the sink has, if it is another one than the reflector's; nil otherwise

	// Used while watching after a warm start, until the sink has every change up to the version that the server had then.
	until    string    // that version; empty once the sink has reached it
	catchUps int       // watches that ended before
	missed   int       // consecutive watches that failed without progress
	progress time.Time // when the sink last came closer to that version
}

// watching returns the state after the whole collection has entered the sink.
func (s state) watching() state {
	return state{name: ReflectorWatching, rv: s.rv, paged: s.paged}
}

// listing returns a state that lists the collection at resource version least or later, because of why.
func (s state) listing(least string, why Reason) state {
	s.name, s.least, s.why, s.ahead = ReflectorListing, least, why, 0
	s.until, s.catchUps, s.missed, s.progress, s.has = "", 0, 0, time.Time{}, nil
	return s
}

// Failures that the reflector detects itself.
var (
	errEmptyWatch = errors.New("the server ended the watch at once")
	errWentBack   = errors.New("the server went back in time")
	// errUnknownDeleted leads to a list, which shows the objects that are left.
	errUnknownDeleted = errors.New("the server reported the deletion of an object without its name")
)

const noteRestored = "the server was restored: list everything again"

// failed returns the state after err, and the state in which to wait first: ReflectorBackoff, ReflectorAbsent, or
// ReflectorIdle for no wait. note describes the transition for the log.
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
	case errors.Is(err, errNotServed):
		if watching {
			s = s.listing("", ReasonAbsent)
		}
		s.why = ReasonAbsent
		return s, ReflectorAbsent, ""
	case errors.Is(err, errWentBack), s.ahead >= maxAhead: // e.g. etcd was restored from a backup
		next = s.listing("", ReasonRestored)
		next.restored = true
		return next, ReflectorBackoff, noteRestored
	case watching && (expired || apierrors.IsStoreReadError(err)):
		return s.listing(s.rv, ReasonExpired), ReflectorBackoff, "" // the changes since rv are lost
	case watching && s.until != "" && s.stuck(err, now):
		return s.listing(s.rv, ReasonBehind), ReflectorBackoff, ""
	case watching && (errors.Is(err, errUnknownDeleted) || errors.Is(err, errForeign)):
		return s.listing(s.rv, ReasonUnclear), ReflectorBackoff, "" // a change since rv is lost
	case watching:
		if s.why = ReasonFailed; s.until != "" && !transport.IsUnreachable(err) {
			s.missed++
		}
		return s, ReflectorBackoff, ""
	case (expired || tooLarge) && s.least != "": // the server is behind, or was restored
		s.least, s.why = "", ReasonBehind
		return s, ReflectorIdle, "list again at any resource version"
	case errors.Is(err, errNoStreaming):
		s.paged, s.why = now.Add(streamAgainAfter), ReasonRefused
		return s, ReflectorIdle, "fall back to paged lists"
	}
	s.why = ReasonFailed
	return s, ReflectorBackoff, ""
}

// stuck reports whether to list instead of another watch after a warm start, because of err. While no connection to the
// server is possible, a list would fail, too.
func (s state) stuck(err error, now time.Time) bool {
	switch {
	case errors.Is(err, errNoConfirmation), apierrors.IsForbidden(err):
		return true
	case errors.Is(err, ErrNoProgress):
		return now.Sub(s.progress) >= maxQuiet
	}
	return !transport.IsUnreachable(err) && s.missed+1 >= maxMissed
}

// NewReflector returns a reflector of resource, whose Namespaces may name at most one. It does nothing before Run. It
// returns an error if client, resource, T, sink or config is wrong.
func NewReflector[T Object](client *Client, resource Resource, sink Sink[T], config Config[T]) (*Reflector[T], error) {
	if config.Compact {
		return nil, errors.New("Config.Compact: a reflector holds no objects, so it cannot hold them in compact form; " +
			"only an Informer can")
	}
	if config.Snapshot.Storage != nil {
		return nil, errors.New("Config.Snapshot: a reflector holds no objects, so it cannot save them; only an Informer can")
	}
	return newReflector(client, resource, sink, config, nil)
}

// newReflector is NewReflector. If packing is not nil, the reflector decodes objects of packing's type, and packing
// makes a T of each.
func newReflector[T Object](client *Client, resource Resource, sink Sink[T], config Config[T],
	packing packing[T]) (*Reflector[T], error) {
	if err := resource.validate(); err != nil {
		return nil, err
	}
	if len(resource.Namespaces) > 1 {
		return nil, fmt.Errorf("Resource.Namespaces of %s: a reflector follows one namespace or all, not %d",
			resource.Resource, len(resource.Namespaces))
	}
	switch {
	case client == nil:
		return nil, errNoClient
	case sink == nil:
		return nil, errors.New("the sink is nil: a reflector needs a sink for its deltas")
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	t := config.goType()
	if packing != nil {
		t = packing.goType()
	}
	if err := config.Snapshot.validate(resource, t, config.Transform != nil || config.Filter != nil); err != nil {
		return nil, err
	}
	own, err := newDecoders[T](t, client.http.Accept, config.KeepManagedFields)
	if err != nil {
		return nil, err
	}
	metadata, err := newDecoders[*metav1.PartialObjectMetadata](reflect.TypeFor[*metav1.PartialObjectMetadata](),
		client.http.Accept, false)
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
		packing:   packing,
		metadata:  metadata,
		resource:  resource,
		namespace: r.namespace,
		shard:     resource.Shard.clone(),
		config:    config,
		failed:    r.noteDecodeError,
		calling:   run.NewLimit(1),
	}
	r.absence = absence{client: client, resource: resource, awaits: &r.awaits}
	r.saved = newSnapshots(&r.collection, config)
	r.started = r.saved == nil
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
	s.ListsBy, s.WatchesBy = r.listsBy.counts(), r.watchesBy.counts()
	s.OutsideShard = r.decoder.outside.Load()
	s.Snapshot = r.saved.present()
	s.Bytes, s.Events = r.bytes.Load(), r.events.Load()
	s.Failures = r.failuresLocked(time.Now())
	switch s.State {
	case ReflectorListing, ReflectorWatching:
		s.Awaits = r.awaits.get()
	case ReflectorBackoff, ReflectorAbsent:
		s.Awaits, s.RetryAt = AwaitingRetry, r.retryAt
	}
	return s
}

func (r *Reflector[T]) update(change func(*ReflectorStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// enter enters s, after the failure err or for the reason of r.state, and logs that unless it is s already. Nothing
// else logs while all is well.
func (r *Reflector[T]) enter(s ReflectorState, err error, more ...any) {
	now := time.Now()
	r.mu.Lock()
	from, settled := r.status.State, r.settled
	if s == from {
		r.mu.Unlock()
		return
	}
	r.status.State, r.status.Since = s, now
	latest := r.status.Transitions
	// a status may have latest
	r.status.Transitions = append(slices.Clone(latest[max(0, len(latest)+1-maxTransitions):]),
		Transition{now, s, r.state.why, err})
	if s != ReflectorListing {
		r.settled = s
	}
	r.mu.Unlock()
	level := slog.LevelInfo
	switch {
	case s == ReflectorListing && (from == ReflectorBackoff || from == ReflectorAbsent),
		s == ReflectorAbsent && settled == s:
		level = slog.LevelDebug // one line for each try is enough, and none for a resource that stays absent
	case s == ReflectorBackoff || s == ReflectorAbsent:
		level = slog.LevelWarn
	}
	attrs := []any{"from", from.String()}
	switch {
	case err != nil:
		attrs = append(attrs, "why", err)
	case s != ReflectorIdle:
		attrs = append(attrs, "why", r.state.why.String())
	}
	r.log.Log(context.Background(), level, "reflector: "+s.String(), append(attrs, more...)...)
}

// noteDecodeError logs and counts an object that cannot be decoded.
func (r *Reflector[T]) noteDecodeError(failed *DecodeError) {
	r.log.Error("an object cannot be decoded", "key", failed.Key.String(), "err", failed.Err)
	r.update(func(s *ReflectorStatus) { s.DecodeErrors++; s.LastError, s.LastErrorTime = failed, time.Now() })
}

// errSink wraps an error of the sink, which ends the reflector.
type errSink struct{ error }

func (e errSink) Unwrap() error { return e.error }

// Run lists and watches until ctx ends or the sink fails. It returns the cause of ctx or the error of the sink. No
// other failure ends it. Every goroutine that it started has ended when it returns. A later Run resumes where this one
// ended. Two calls of Run must not overlap.
//
// In profiles, its goroutines have the label "informer" with the resource.
func (r *Reflector[T]) Run(ctx context.Context) (err error) {
	pprof.Do(ctx, pprof.Labels("informer", r.resource.String()), func(ctx context.Context) { err = r.run(ctx) })
	return err
}

func (r *Reflector[T]) run(ctx context.Context) error {
	defer r.enter(ReflectorIdle, nil)
	r.update(func(s *ReflectorStatus) {
		if s.NoWatchSince.IsZero() {
			s.NoWatchSince = time.Now()
		}
	})
	for {
		part, end := r.begin(ctx)
		err := run.Sleep(part, r.untilRetry()) // a change of the shard does not cut a backoff short
		if err == nil {
			err = r.loop(part)
		}
		end(nil)
		if r.state.open != nil {
			r.close(r.state.open)
			r.state.open = nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if context.Cause(part) != errResharded {
			return err
		}
	}
}

// begin takes on the latest shard, and returns a context that ends when it changes.
func (r *Reflector[T]) begin(ctx context.Context) (part context.Context, end context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sharded != r.shards {
		has, again := r.state.has, false
		if has == nil {
			has, again = new(r.decoder.shard), r.shard.equal(r.decoder.shard)
		}
		r.sharded, r.decoder.shard = r.shards, r.shard
		if r.state.until != "" {
			r.saved.update(func(s *SnapshotStatus) { s.CatchUpTo = "" })
		}
		missing, common := r.shard.minus(*has)
		// The sink has a part of the shard as of rv, and the rest can be listed. But a server that does not filter sends
		// everything, so one list of the whole shard, at its newest version, is better. A list also shows whether the server
		// went back in time since a watch that has been silent, and which of the objects that could not be decoded are in the
		// shard.
		silent := time.Since(r.status.ResourceVersionTime) >= minWatchTimeout
		inPart := common && !again && !silent && r.undecoded == nil &&
			(len(missing) == 0 || len(missing) <= maxRanges && r.decoder.outside.Load() == r.outside)
		switch {
		case inPart && r.state.name == ReflectorWatching && r.state.until == "":
			r.state.has, r.state.why = has, ReasonShard
		case r.state.rv != "":
			r.state = r.state.listing(r.state.rv, ReasonShard)
		}
		r.state.told = r.state.told && !r.listed // the sink gets the change even if the resource is absent
	}
	part, end = context.WithCancelCause(ctx)
	r.interrupt = end
	return part, end
}

// setShard makes the reflector follow shard, and returns the number of that change.
func (r *Reflector[T]) setShard(shard Shard) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shard = shard
	r.shards++
	if r.interrupt != nil {
		r.interrupt(errResharded)
	}
	return r.shards
}

// untilRetry returns the rest of the wait after the last failure.
func (r *Reflector[T]) untilRetry() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.retryAt)
}

// loop lists and watches until ctx ends or the sink fails.
func (r *Reflector[T]) loop(ctx context.Context) error {
	for {
		moves := r.state.has != nil
		err := run.Apart(func() error { return r.step(ctx) }) // step calls functions of the user
		if failed := r.flush(); failed != nil {               // flushes deltas from before a failure, too
			err = failed
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if sink := (errSink{}); errors.As(err, &sink) {
			return sink.error
		}
		if err = r.absence.explain(ctx, err); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case err != nil:
			if err := r.recover(ctx, err); err != nil {
				return err
			}
		case !moves: // a move does not show how far the server is
			r.state.ahead = 0
		}
	}
}

// step lists, watches or moves once.
func (r *Reflector[T]) step(ctx context.Context) error {
	if r.state.name == ReflectorWatching {
		if r.state.has != nil {
			return r.move(ctx)
		}
		r.enter(ReflectorWatching, nil, "objects", r.read.Load(), "resourceVersion", r.state.rv)
		return r.watch(ctx)
	}
	r.enter(ReflectorListing, nil)
	if !r.started {
		if err := r.warm(ctx); err != nil || r.started && r.state.name == ReflectorWatching {
			return err
		}
	}
	r.count(&r.listsBy)
	r.state.began, r.outside = time.Now().Round(0), r.decoder.outside.Load()
	if r.config.PagedList || time.Now().Before(r.state.paged) {
		return r.list(ctx)
	}
	return r.stream(ctx)
}

// warm enters the state ReflectorWatching with the objects of a snapshot. If there is none of use, it logs why, and the
// state stays.
func (r *Reflector[T]) warm(ctx context.Context) error {
	l, err := r.saved.load(ctx, &r.collection, r.decoder.shard)
	if cold := (coldStart{}); errors.As(err, &cold) {
		r.started = true
		r.stayCold(cold.error)
		return nil
	}
	if err != nil {
		return err
	}
	past := l.current != l.version
	d := Delta[T]{Type: Replaced, Items: l.items, ResourceVersion: l.version, shard: r.decoder.shard, sharded: r.sharded,
		listed: l.listed, past: past}
	if err := r.put(ctx, d); err != nil {
		return err
	}
	r.started, r.listed = true, true
	r.read.Store(int64(len(l.items)))
	r.state = r.state.watching()
	r.state.why, r.state.loaded = ReasonSnapshot, true
	if past {
		r.state.until, r.state.progress = l.current, time.Now()
	}
	s := r.saved.present()
	r.log.Info("a snapshot was loaded", "objects", s.LoadedObjects, "age", s.LoadedAge, "resourceVersion", l.version,
		"took", s.LoadTime)
	return nil
}

// stayCold notes why the reflector lists although there may be a snapshot.
func (r *Reflector[T]) stayCold(why error) {
	r.saved.update(func(s *SnapshotStatus) { s.LoadError, s.CatchUpTo = why, "" })
	level := slog.LevelInfo
	if damaged := (*snapshotfile.DamagedError)(nil); errors.As(why, &damaged) {
		level = slog.LevelWarn
	}
	r.log.Log(context.Background(), level, "list instead of a warm start", "why", why)
}

// count counts a list or a watch by its reason.
func (r *Reflector[T]) count(by *byReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by[r.state.why]++
}

// recover enters the state after err, and waits for the backoff. It returns an error if ctx ends or the sink fails.
func (r *Reflector[T]) recover(ctx context.Context, err error) error {
	now := time.Now()
	next, wait, note := r.state.failed(err, now)
	r.update(func(s *ReflectorStatus) {
		s.LastError, s.LastErrorTime = err, now
		if note == noteRestored {
			s.Restored++
		}
	})
	r.reportFailure(err)
	from := r.state
	r.state = next
	if from.until != "" && next.until == "" {
		r.stayCold(fmt.Errorf("the watch cannot resume at resource version %s: %w", from.rv, err))
	}
	switch wait {
	case ReflectorIdle:
		r.log.Info(note, "why", err, "resourceVersion", from.least)
		return nil
	case ReflectorAbsent:
		if !r.started { // the objects of a snapshot are gone
			r.started = true
			r.stayCold(err)
		}
		if err := r.absent(ctx); err != nil {
			return err
		}
	default:
		if note != "" {
			r.log.Warn(note, "why", err, "resourceVersion", from.rv)
		}
	}
	delay := r.backoff(now, err)
	r.enter(wait, err, "retryAfter", delay, "resourceVersion", r.state.rv, "relist", r.state.name == ReflectorListing)
	return run.Sleep(ctx, delay)
}

// reportFailure calls Config.OnFailure.
func (r *Reflector[T]) reportFailure(err error) {
	if r.config.OnFailure == nil {
		return
	}
	r.decoder.calling.Enter()
	defer r.decoder.calling.Leave()
	_ = run.Apart(func() error { // OnFailure may call runtime.Goexit
		r.config.OnFailure(err)
		return nil
	})
}

// backoff counts one more failure and returns how long to wait: exponential backoff with full jitter, or the server's
// Retry-After.
func (r *Reflector[T]) backoff(now time.Time, err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.failuresLocked(now)
	delay := rand.N(min(minBackoff<<min(before, 10), maxBackoff))
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		delay = min(time.Duration(seconds)*time.Second, maxRetryAfter)
		delay += rand.N(delay/10 + 1) // clients that the server rejected together should not retry together
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

// absent empties the sink, once for each time that the server stops serving the resource, as discovery shows.
func (r *Reflector[T]) absent(ctx context.Context) error {
	if r.state.told {
		return nil
	}
	r.state.rv, r.state.least = "", ""
	r.update(func(s *ReflectorStatus) { s.ResourceVersion, s.ResourceVersionTime = "", time.Time{} })
	d := Delta[T]{Type: Replaced, Namespace: r.namespace, sharded: r.sharded}
	err := r.sink.Put(ctx, d)
	if err == nil {
		r.state.told, r.listed = true, true
		r.note(&d)
	}
	return err
}

// list lists the collection.
func (r *Reflector[T]) list(ctx context.Context) error {
	l, version, err := r.collection.list(ctx, r.state.least, r.config.PageSize, r.state.restored || r.state.loaded)
	if err != nil {
		return err
	}
	return r.replaced(ctx, l, version)
}

// move gives the sink, which has a part of the shard, the rest, and removes what is outside. The rest is as of the
// version of the sink, so that the watch resumes there.
func (r *Reflector[T]) move(ctx context.Context) error {
	d := Delta[T]{Type: Replaced, part: true, shard: r.decoder.shard, sharded: r.sharded}
	if missing, _ := d.shard.minus(*r.state.has); len(missing) > 0 {
		r.enter(ReflectorListing, nil)
		r.count(&r.listsBy)
		r.decoder.shard = Shard{d.shard.Field, missing}
		defer func() { r.decoder.shard = d.shard }() // also if a function of the user ends the goroutine
		l, err := r.collection.listAt(ctx, r.state.rv, r.config.PageSize)
		if err != nil {
			if ctx.Err() == nil { // otherwise the shard has changed again, and the sink still has a part
				r.state = r.state.listing(r.state.rv, ReasonShard)
			}
			if !errors.Is(err, errNoPart) {
				return err
			}
			r.log.Info("list the whole shard", "why", err)
			return nil
		}
		d.Items = l.items
	}
	if err := r.put(ctx, d); err != nil {
		return err
	}
	r.state.has = nil
	return nil
}

// stream reads the collection by a streaming list. The watch then stays open in the reflector's state.
func (r *Reflector[T]) stream(ctx context.Context) error {
	query := url.Values{"sendInitialEvents": {"true"},
		"resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}}
	if least := r.state.least; least != "0" && least != "" {
		query.Set("resourceVersion", least)
	}
	r.collection.lists.Add(1)
	w, err := r.open(ctx, query, true, 0)
	if err == nil {
		defer func() { // even if a function of the user ends the goroutine
			if r.state.open != w {
				r.close(w)
			}
		}()
		var l listing[T]
		var version string
		if l, version, err = r.collection.initialEvents(w, r.state.restored || r.state.loaded); err == nil {
			if err = r.replaced(ctx, l, version); err == nil {
				r.state.open = w
				return nil
			}
		}
	}
	if errors.Is(err, ErrNoProgress) || isRefusal(err) {
		return fmt.Errorf("%w: %w", errNoStreaming, err)
	}
	return err
}

// open opens a watch.
func (r *Reflector[T]) open(ctx context.Context, query url.Values, initial bool,
	timeout time.Duration) (*openWatch, error) {
	w, err := r.collection.open(ctx, query, initial, timeout)
	if err == nil {
		r.update(func(s *ReflectorStatus) { s.WatchOpen, s.NoWatchSince = true, time.Time{} })
	}
	return w, err
}

func (r *Reflector[T]) close(w *openWatch) {
	w.close()
	r.update(func(s *ReflectorStatus) { s.WatchOpen, s.NoWatchSince = false, time.Now() })
}

// watch follows the changes until the watch ends. It returns nil if the server ended the watch normally.
func (r *Reflector[T]) watch(ctx context.Context) (err error) {
	w := r.state.open
	if r.state.open = nil; w == nil {
		r.count(&r.watchesBy)
		var timeout time.Duration
		if r.state.until != "" {
			timeout = firstCatchUp << min(r.state.catchUps, maxDoublings)
		}
		if w, err = r.open(ctx, url.Values{"resourceVersion": {r.state.rv}}, false, timeout); err != nil {
			return err
		}
	}
	defer r.close(w)
	r.awaits.set(AwaitingData)
	err = r.collection.follow(w, func(o decoded[T]) error { return r.change(ctx, o) }, r.flush,
		func(version string) error {
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
	case r.state.until != "" && time.Since(r.state.progress) >= maxQuiet:
		return fmt.Errorf("watch: %w", errNoConfirmation)
	case r.state.until != "":
		r.state.catchUps++
		r.state.missed = 0
		err = nil
	case w.events == 0 && time.Since(w.opened) >= minWatchTimeout:
		err = r.probe(ctx)
	default:
		err = nil
	}
	r.state.why = ReasonEnded
	return err
}

// probe checks whether the server has reached the version of a watch that had no event and no bookmark. A restored
// server may not have: it then sends nothing until it reaches that version, and never sends the changes before it.
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
		return err // l may contain objects of the sink instead of those that the server sent
	}
	err := r.put(ctx, Delta[T]{Type: Replaced, Items: l.present(), Undecoded: l.undecoded(), ResourceVersion: rv,
		Restored: restored || r.state.loaded, shard: r.decoder.shard, sharded: r.sharded, listed: r.state.began})
	if err == nil {
		r.listed = true
		r.state = r.state.watching()
	}
	return err
}

// change puts the change of one object into the sink. It removes an object that Config.Filter rejects.
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
		return fmt.Errorf("watch: %w: Config.Filter rejects it", errUnknownDeleted)
	case gone:
		d.Type, d.Key = Removed, o.key
	default: // the sink keeps its version of the object
		d.Type, d.Undecoded = Bookmarked, []*DecodeError{o.failed}
	}
	return r.tell(ctx, d)
}

// tell puts d into the sink. It returns an error if d is older than the sink.
func (r *Reflector[T]) tell(ctx context.Context, d Delta[T]) error {
	if err := r.notBack(d.ResourceVersion); err != nil {
		return err
	}
	if r.state.until != "" {
		if d.ResourceVersion != r.state.rv {
			r.state.progress, r.state.missed = time.Now(), 0
		}
		d.current, d.sharded = reached(d.ResourceVersion, r.state.until), r.sharded
	}
	if err := r.put(ctx, d); err != nil || !d.current {
		return err
	}
	r.state.until = ""
	r.saved.update(func(s *SnapshotStatus) { s.CatchUpTo = "" })
	return nil
}

// notBack returns an error if resource version rv precedes that of the sink.
func (r *Reflector[T]) notBack(rv string) error {
	if rv != "" && r.state.rv != "" && older(rv, r.state.rv) {
		return fmt.Errorf("%w: resource version %s after %s", errWentBack, rv, r.state.rv)
	}
	return nil
}

// note notes which objects could not be decoded after d.
func (r *Reflector[T]) note(d *Delta[T]) {
	before := r.undecoded
	if r.undecoded = d.undecoded(before); r.undecoded != before {
		r.update(func(s *ReflectorStatus) { s.Stale = r.undecoded.len() })
	}
}

// put puts d into the sink, which then has every change up to d's resource version. The caller must call flush later.
func (r *Reflector[T]) put(ctx context.Context, d Delta[T]) error {
	d.Namespace = r.namespace
	put := r.sink.Put
	if r.batcher != nil && d.Type != Replaced {
		put = r.batcher.queue
	}
	if d.Type == Replaced {
		r.awaits.set(AwaitingSink)
	}
	if err := put(ctx, d); err != nil {
		return errSink{err}
	}
	r.note(&d)
	if d.ResourceVersion != "" {
		r.state.rv = d.ResourceVersion
		r.update(func(s *ReflectorStatus) { s.ResourceVersion = d.ResourceVersion })
		r.received = true
	}
	return nil
}

// flush notes the time of the deltas since the last flush, and flushes the sink, if it is a batcher.
func (r *Reflector[T]) flush() error {
	if r.received {
		r.received = false
		r.update(func(s *ReflectorStatus) { s.ResourceVersionTime = time.Now() })
	}
	if r.batcher == nil {
		return nil
	}
	if err := r.batcher.flush(); err != nil {
		return errSink{err}
	}
	return nil
}
