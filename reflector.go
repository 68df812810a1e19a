package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/intake"
	"github.com/typedinformer/informer/internal/rollout"
	"github.com/typedinformer/informer/internal/run"
)

// Reflector reads one collection, or one namespace of it, by list and watch, and puts deltas into a [Sink]: one
// Replaced for a list, then one delta for each event of the watch. After a failure it resumes at its resource version.
// It lists again only when the server no longer has the changes since that version.
//
// A 404 alone counts as such a failure, since a proxy can send it. If the server's discovery documents also show that
// no version of the API group has the resource, the sink gets an empty Replaced; see [ReflectorState]. All
// authenticated users may read these documents by default. If a cluster has changed that, bind the ClusterRole
// system:discovery to the client.
//
// An [Informer] has a reflector for each namespace that it follows. Use a reflector alone to feed something other than
// a Store.
type Reflector[T Object] struct {
	resource Resource
	source   *fetch.Source
	decoder  *intake.Decoder[T]
	out      outlet[T]
	warm     warmStart[T]
	config   Config[T]
	log      *slog.Logger
	read     atomic.Int64 // objects read of the current list, or of the last one
	reshard  *rollout.Adoption[Shard]
	retries  fetch.Retries
	resumed  func(away time.Duration) // called when a watch resumes after a failure; nil for none

	// Only the goroutine in Run, or one that it waits for, uses these.
	state    fetch.State
	absence  fetch.Absence
	received bool  // a resource version since the last flush
	outside  int64 // how many objects outside the shard the server had sent when the last list of the whole shard began

	mu        sync.Mutex // protects the fields below
	status    ReflectorStatus
	settled   ReflectorState // the last state other than Listing
	listsBy   byReason
	watchesBy byReason
}

// NewReflector returns a reflector of resource, whose Namespaces may name at most one. It does nothing before Run. It
// returns an error if client, resource, T, sink or config is wrong.
func NewReflector[T Object](client *Client, resource Resource, sink Sink[T], config Config[T]) (*Reflector[T], error) {
	if config.Compact {
		return nil, errors.New("Config.Compact: a reflector holds no objects, so it cannot hold them in compact form; " +
			"only an Informer can")
	}
	if config.WarmStart.Storage != nil {
		return nil, errors.New("Config.WarmStart: a reflector holds no objects, so it cannot save them; only an Informer can")
	}
	return newReflector(client, resource, sink, config, intake.Unpacked[T]{Decoded: config.goType()})
}

// newReflector is like NewReflector, but decodes objects of packing's type, from which packing makes a T.
func newReflector[T Object](client *Client, resource Resource, sink Sink[T], config Config[T],
	packing intake.Packing[T]) (*Reflector[T], error) {
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
	t := packing.Type()
	if err := config.WarmStart.validate(resource, t, config.Transform != nil || config.Filter != nil); err != nil {
		return nil, err
	}
	own, err := decode.NewPool(t, client.http.Accept, config.KeepManagedFields)
	if err != nil {
		return nil, err
	}
	metadata, err := decode.NewPool(reflect.TypeFor[*metav1.PartialObjectMetadata](), client.http.Accept, false)
	if err != nil {
		return nil, err
	}
	r := &Reflector[T]{
		resource: resource,
		out:      outlet[T]{sink: sink},
		config:   config,
		log:      config.logger().With("resource", resource.String()),
		state:    fetch.Start(!config.AbsentIsSynced),
	}
	r.reshard = rollout.NewAdoption(resource.Shard.clone(), Shard.equal, Shard.rest)
	r.decoder = &intake.Decoder[T]{
		Pool:      own,
		Packing:   packing,
		Metadata:  metadata,
		Namespace: resource.sources()[0],
		Share:     config.Share,
		Report:    r.noteDecodeError,
		Filter:    config.Filter,
		Transform: config.Transform,
		Calling:   run.NewLimit(1),
	}
	if report := config.OnDecodeError; report != nil {
		r.decoder.OnDecodeError = func(key Key, err error, raw []byte) {
			report(&DecodeError{Resource: resource, Key: key, Err: err, Raw: raw})
		}
	}
	r.source = fetch.NewSource(fetch.Config{
		Client:        client.http,
		Path:          resource.path(r.decoder.Namespace),
		Resource:      resource.GroupResource(),
		LabelSelector: resource.LabelSelector,
		FieldSelector: resource.FieldSelector,
		Accept:        own.Accept(),
		AcceptList:    own.AcceptList(),
		Check:         own.Check,
	})
	r.absence = fetch.NewAbsence(r.source, resource.GroupVersionResource, len(resource.Namespaces) > 0)
	r.warm = newWarmStart(client, resource, config, r.source, r.decoder, r.log)
	r.out.batcher, _ = sink.(batcher[T])
	if holder, ok := sink.(Holder[T]); ok {
		r.decoder.Held = holder.Get
	}
	r.status.Namespace = r.decoder.Namespace
	r.status.Since = time.Now()
	return r, nil
}

// Status returns the present status of the reflector.
func (r *Reflector[T]) Status() ReflectorStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	traffic := r.source.Traffic()
	s.Traffic = ReflectorTraffic{traffic.Lists, traffic.Watches, r.listsBy.counts(), r.watchesBy.counts(), traffic.Bytes,
		traffic.Events, traffic.AuditID}
	s.Read = int(r.read.Load())
	s.OutsideShard = r.decoder.Outside()
	s.WarmStart = r.warm.status()
	var retryAt time.Time
	s.Failures, retryAt = r.retries.Failures(time.Now())
	switch s.State {
	case ReflectorListing, ReflectorWatching:
		s.Awaits = r.source.Awaits.Get().String()
	case ReflectorBackoff, ReflectorAbsent:
		s.Awaits, s.RetryAt = fetch.AwaitingRetry.String(), retryAt
	}
	return s
}

func (r *Reflector[T]) update(change func(*ReflectorStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// enter enters s, after the failure err or for the reason of r.state, and logs the change. While all is well, nothing
// else is logged.
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
	// copied, since a status may share latest
	r.status.Transitions = append(slices.Clone(latest[max(0, len(latest)+1-maxTransitions):]),
		Transition{now, s, Reason(r.state.Why), err})
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
		attrs = append(attrs, "why", Reason(r.state.Why).String())
	}
	r.log.Log(context.Background(), level, "reflector: "+s.String(), append(attrs, more...)...)
}

func (r *Reflector[T]) decodeError(f intake.Failure) *DecodeError {
	return &DecodeError{Resource: r.resource, Key: f.Key, UID: f.UID, ResourceVersion: f.Version, Err: f.Err}
}

// noteDecodeError logs and counts an object that cannot be decoded.
func (r *Reflector[T]) noteDecodeError(key Key, err error) {
	r.log.Error("an object cannot be decoded", "key", key.String(), "err", err)
	failed := r.decodeError(intake.Failure{Key: key, Err: err})
	r.update(func(s *ReflectorStatus) { s.DecodeErrors++; s.LastError, s.LastErrorTime = failed, time.Now() })
}

// count counts a list or a watch by its reason.
func (r *Reflector[T]) count(by *byReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by[r.state.Why]++
}

// outlet puts the deltas of a reflector into its sink. It is for one goroutine.
type outlet[T Object] struct {
	sink      Sink[T]
	batcher   batcher[T]  // sink as a batcher; nil if it is none
	undecoded undecodable // as of the last delta
	listed    bool        // the sink has had a list
}

// errSink wraps an error of the sink, which ends the reflector.
type errSink struct{ error }

func (e errSink) Unwrap() error { return e.error }

// put puts d into the sink. The caller must call flush later.
func (o *outlet[T]) put(ctx context.Context, d Delta[T]) error {
	put := o.sink.Put
	if o.batcher != nil && d.Type != Replaced {
		put = o.batcher.queue
	}
	if err := put(ctx, d); err != nil {
		return errSink{err}
	}
	return nil
}

// note records which objects cannot be decoded as of d. It reports whether that has changed.
func (o *outlet[T]) note(d *Delta[T]) bool {
	before := o.undecoded
	o.undecoded = d.undecoded(before)
	return o.undecoded.Set != before.Set
}

// flush flushes the sink, if it is a batcher.
func (o *outlet[T]) flush() error {
	if o.batcher == nil {
		return nil
	}
	if err := o.batcher.flush(); err != nil {
		return errSink{err}
	}
	return nil
}
