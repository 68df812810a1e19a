package ondemand

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/status"
)

// Config describes a [Reader].
type Config[T any] struct {
	// Metadata returns what the store has of a key now, or the error of a read: "not found" if it has nothing.
	Metadata func(key object.Key) (ID, error)
	// Kept returns the object with a key from a store of whole objects that somebody else keeps. Nil means that there is
	// none.
	Kept func(key object.Key) (Object[T], bool)
	// Fetch reads an object from the server, not older than a version. An empty version means the latest one.
	Fetch func(ctx context.Context, key object.Key, version string) (Object[T], error)
	// Undecodable reports whether an error of Fetch says that the object cannot be decoded. A list then goes on with the
	// other objects. Nil means that no error does.
	Undecodable func(err error) bool
	// MaxBytes limits the memory of the objects that the reader holds.
	MaxBytes int64
	// MaxIdle is how long the reader holds an object that nobody reads.
	MaxIdle time.Duration
	// Stopped is the error of a read after Close.
	Stopped error
}

// maxRounds is how often a read begins anew because the metadata of its object changed during the request.
const maxRounds = 10

// Reader reads whole objects. It is safe for concurrent use.
type Reader[T any] struct {
	config  Config[T]
	running sync.WaitGroup // the requests; not added to after closed is set

	mu      sync.Mutex // protects the fields below
	held    held[T]
	flights map[request]*flight[T]
	idle    *time.Timer // calls expire; nil while nothing is held
	status  status.ReadThrough
	closed  bool
}

// request is what readers share: a version of an object.
type request struct {
	key  object.Key
	want ID
}

// flight is a request under way.
type flight[T any] struct {
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the request has ended
	waiting int           // the reads; protected by Reader.mu
	obj     Object[T]     // set before done is closed
	err     error         // the same
}

// errExited is the error of a request whose goroutine ended in a function of the user.
var errExited = errors.New("the function that decodes or transforms the object called runtime.Goexit")

// New returns a reader without objects.
func New[T any](config Config[T]) *Reader[T] {
	return &Reader[T]{
		config:  config,
		held:    held[T]{limit: config.MaxBytes, entries: map[object.Key]*list.Element{}},
		flights: map[request]*flight[T]{},
	}
}

// Get returns an object: the one that is held if the metadata do not say that it is old, and otherwise that of a
// request.
func (r *Reader[T]) Get(ctx context.Context, key object.Key) (T, error) {
	var none T
	for range maxRounds {
		want, err := r.config.Metadata(key)
		if err != nil {
			return none, err
		}
		if obj, ok := r.kept(key, want); ok {
			return obj, nil
		}
		obj, err := r.read(ctx, request{key, want})
		now, gone := r.config.Metadata(key)
		switch {
		case gone != nil: // meanwhile, the object was deleted
			return none, gone
		case err != nil && now != want && (isGone(err, key) || errors.Is(err, ErrStale)):
			continue // meanwhile, it was created again, or the store followed a server that went back
		case err != nil:
			return none, err
		}
		ok, err := obj.ID.notOlder(now)
		switch {
		case err != nil:
			return none, fmt.Errorf("get %s: %w", key, err)
		case ok:
			return obj.Value, nil
		}
	}
	return none, fmt.Errorf("get %s: %w", key, errChanging)
}

// kept returns the object of Config.Kept if it is not older than some metadata.
func (r *Reader[T]) kept(key object.Key, metadata ID) (T, bool) {
	var none T
	if r.config.Kept == nil {
		return none, false
	}
	obj, ok := r.config.Kept(key)
	if !ok {
		return none, false
	}
	if ok, err := obj.ID.notOlder(metadata); err != nil || !ok {
		return none, false
	}
	return obj.Value, true
}

// read returns the object that is held, or that of a request, which it begins if there is none under way.
func (r *Reader[T]) read(ctx context.Context, req request) (Object[T], error) {
	obj, f, err := r.begin(ctx, req)
	if f == nil {
		return obj, err
	}
	select {
	case <-f.done:
		return f.obj, f.err
	case <-ctx.Done():
		r.leave(req, f)
		return Object[T]{}, fmt.Errorf("get %s: %w", req.key, context.Cause(ctx))
	}
}

// begin returns the object that is held, or the request to wait for, or an error.
func (r *Reader[T]) begin(ctx context.Context, req request) (Object[T], *flight[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.heldLocked(req); e != nil {
		return e.obj, nil, nil
	}
	switch {
	case r.closed:
		return Object[T]{}, nil, fmt.Errorf("get %s: %w", req.key, r.config.Stopped)
	case ctx.Err() != nil:
		return Object[T]{}, nil, fmt.Errorf("get %s: %w", req.key, context.Cause(ctx))
	}
	f := r.flights[req]
	if f == nil {
		f = &flight[T]{done: make(chan struct{})}
		var flying context.Context
		flying, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // others may wait longer than this one
		r.flights[req] = f
		r.status.Requests++
		r.running.Go(func() { r.fly(flying, req, f) })
	} else {
		r.status.Shared++
	}
	f.waiting++
	return Object[T]{}, f, nil
}

// heldLocked returns the object of a version if it is held, and marks it as used. It returns nil if there is none.
func (r *Reader[T]) heldLocked(req request) *entry[T] {
	e := r.held.get(req.key)
	if e == nil || e.obj.ID != req.want || req.want.Version == "" {
		return nil
	}
	r.held.use(e)
	r.status.Hits++
	return e
}

// leave ends the wait of a read. The last one cancels the request, which nobody can join any more.
func (r *Reader[T]) leave(req request, f *flight[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel(nil)
		if r.flights[req] == f {
			delete(r.flights, req)
		}
	}
}

// fly sends a request, and wakes those that wait for it.
func (r *Reader[T]) fly(ctx context.Context, req request, f *flight[T]) {
	f.err = errExited
	defer close(f.done)
	defer func() { r.land(req, f) }()
	defer f.cancel(nil)
	f.obj, f.err = r.load(ctx, req)
}

// load reads an object that is not older than some metadata.
func (r *Reader[T]) load(ctx context.Context, req request) (Object[T], error) {
	obj, err := r.fetch(ctx, req.key, req.want.Version)
	if err != nil && !isAhead(err) {
		return Object[T]{}, err
	}
	if err == nil {
		if ok, err := obj.ID.notOlder(req.want); ok || err != nil {
			return obj, err
		}
	}
	// The server has not reached that version, or ignores it.
	if obj, err = r.fetch(ctx, req.key, ""); err != nil {
		return Object[T]{}, err
	}
	if ok, err := obj.ID.notOlder(req.want); !ok {
		if err == nil {
			err = fmt.Errorf("get %s at version %.100s, have %.100s: %w", req.key, req.want.Version, obj.ID.Version, ErrStale)
		}
		return Object[T]{}, err
	}
	return obj, nil
}

func (r *Reader[T]) fetch(ctx context.Context, key object.Key, version string) (Object[T], error) {
	obj, err := r.config.Fetch(ctx, key, version)
	return obj, asFetched(err, key)
}

// land removes a request that has ended, and holds its object. Nobody can miss both.
func (r *Reader[T]) land(req request, f *flight[T]) {
	bytes, wanted := r.worthHolding(req.key, f)
	r.mu.Lock()
	if r.flights[req] == f { // somebody waits for it
		delete(r.flights, req)
		if f.err != nil && !isGone(f.err, req.key) {
			r.status.Failures++
		}
	}
	if wanted {
		r.holdLocked(req.key, f.obj, bytes, true)
	}
	r.mu.Unlock()
	r.Changed(req.key) // the store may have changed before the object was held
}

// worthHolding returns the size of the object of a request that is at the version of its metadata.
func (r *Reader[T]) worthHolding(key object.Key, f *flight[T]) (bytes int64, ok bool) {
	if f.err != nil {
		return 0, false
	}
	if now, err := r.config.Metadata(key); err != nil || now != f.obj.ID {
		return 0, false // older soon, or newer: a server that is restored now could reach that version once more
	}
	return sizeOf(f.obj.Value), true
}

func sizeOf(obj any) int64 {
	var size heapsize.Set
	size.Add(obj)
	return int64(size.Bytes())
}

// offer holds an object from the server if there is room.
func (r *Reader[T]) offer(key object.Key, obj Object[T]) {
	bytes := sizeOf(obj.Value)
	r.mu.Lock()
	r.holdLocked(key, obj, bytes, false)
	r.mu.Unlock()
	r.Changed(key)
}

// holdLocked holds an object. If evict is false, it does so only if there is room.
func (r *Reader[T]) holdLocked(key object.Key, obj Object[T], bytes int64, evict bool) {
	if r.closed || !evict && !r.held.fits(bytes) {
		return
	}
	r.status.Evicted += uint64(r.held.put(key, obj, bytes))
	if r.idle == nil && r.held.oldest() != nil {
		r.idle = time.AfterFunc(r.config.MaxIdle, r.expire)
	}
}

// Changed drops the object with a key unless it is the one that the metadata describe. It must be called after each
// change of the store.
func (r *Reader[T]) Changed(key object.Key) {
	r.mu.Lock()
	known := r.held.get(key) != nil
	r.mu.Unlock()
	if !known {
		return
	}
	now, gone := r.config.Metadata(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.held.get(key); e != nil && (gone != nil || e.obj.ID != now) {
		r.held.drop(key)
		r.status.Changed++
	}
}

// Updated is Changed for metadata that went from one version to another. If that is not newer, the server went back.
func (r *Reader[T]) Updated(key object.Key, from, to string) {
	if order, err := resourceversion.CompareResourceVersion(to, from); err == nil && order < 0 {
		r.Forget()
		return
	}
	r.Changed(key)
}

// Forget drops all objects: the server went back to an earlier state, so a version can come again with other content.
func (r *Reader[T]) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Changed += uint64(len(r.held.entries))
	r.held.clear()
}

// expire drops the objects that nobody has read for MaxIdle, and comes back when the next one is due.
func (r *Reader[T]) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.closed {
		e := r.held.oldest()
		if e == nil {
			break
		}
		if left := r.config.MaxIdle - time.Since(e.used); left > 0 {
			r.idle.Reset(left)
			return
		}
		r.held.drop(e.key)
		r.status.Idled++
	}
	r.idle = nil
}

// Peek returns the object with a key if it needs no request.
func (r *Reader[T]) Peek(key object.Key) (T, bool) {
	var none T
	want, err := r.config.Metadata(key)
	if err != nil {
		return none, false
	}
	if obj, ok := r.kept(key, want); ok {
		return obj, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.heldLocked(request{key, want})
	if e == nil {
		return none, false
	}
	return e.obj.Value, true
}

// Status returns the present status, without Kept.
func (r *Reader[T]) Status() status.ReadThrough {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Held, s.Bytes = len(r.held.entries), r.held.bytes
	return s
}

// stopped returns the error of a read after Close, or nil before.
func (r *Reader[T]) stopped() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.config.Stopped
	}
	return nil
}

// Close ends all requests, drops all objects, and waits for the goroutines of the requests. Later reads that need a
// request fail.
func (r *Reader[T]) Close() {
	r.mu.Lock()
	r.closed = true
	r.held.clear()
	for _, f := range r.flights {
		f.cancel(r.config.Stopped)
	}
	if r.idle != nil {
		r.idle.Stop()
	}
	r.mu.Unlock()
	r.running.Wait()
}
