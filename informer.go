package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Config is the configuration of an [Informer] or a [Reflector]. The zero value is right for most.
type Config[T Object] struct {
	// Transform is called once for each object as it was read, before it is stored, and returns what to store in its
	// place: usually obj itself with less in it. It may write to obj. It is called for one object at a time. It must keep namespace, name, uid and
	// resourceVersion. Its error is that object's decode error. Nil means that objects are stored as they come.
	Transform func(obj T) (T, error)
	// Filter restricts the informer to the objects for which it returns true, by what is in their metadata; those for which
	// it returns false are not even decoded, and coming to be such a one is a deletion whose final state is not known. It is
	// called once for each version, with metadata that lacks managedFields and that is Filter's. The server sends all of
	// them: what a selector of Resource can say, is better said there. Nil means all.
	Filter func(meta *metav1.PartialObjectMetadata) bool
	// KeepManagedFields keeps metadata.managedFields. Zero means that they are dropped while decoding: they are a
	// third of a typical object, and only server-side apply looks at them.
	KeepManagedFields bool
	// Share makes equal parts of different objects one: a pointer, slice or map that is decoded from the same bytes is
	// that of another object, and the parts of an object that did not change stay those of its version before. Pods of
	// one Deployment then share most of their spec, which can halve their memory, and what is shared need not be decoded.
	// Cached objects must never be written to; with Share, who does so changes other objects too. Transform may write to
	// the object that it is given all the same: with Transform, objects share with their versions before only, and what
	// it returns must be memory of its own. Tests find who writes by informertest.DetectMutations. Zero means that each
	// object has its own memory, but for strings.
	Share bool
	// OnDecodeError is called when an object cannot be decoded, while what comes after it waits. The informer goes on
	// with the others and keeps the last good version of that one. Nil means that it is only logged and counted.
	OnDecodeError func(*DecodeError)
	// PagedList reads the collection by LIST, page by page. Zero means by a streaming list (KEP-3157) where the
	// server can do that, and by LIST otherwise.
	PagedList bool
	// PageSize is how many objects to ask for at a time with LIST. Zero means 500.
	PageSize int
	// AbsentIsSynced says that a resource that the server does not serve, because its custom resource definition is
	// not installed, counts as an empty one. Zero means that it counts as not synced.
	AbsentIsSynced bool
	// Logger is told of failures. Zero means slog.Default().
	Logger *slog.Logger
}

func (c *Config[T]) logger() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.Default()
}

// Errors of an Informer that is not running.
var (
	// ErrNotStarted indicates that Run has not been called.
	ErrNotStarted = errors.New("informer not started")
	// ErrStopped indicates that the informer has stopped. An informer cannot be started again.
	ErrStopped = errors.New("informer stopped")
	// ErrRunning indicates that Run has been called before.
	ErrRunning = errors.New("informer already started")
)

// Informer keeps a [Store] equal to a collection on the API server, and tells handlers of each change.
//
// Create one with [New], add handlers and indexes at any time, and call Run. All methods are safe for concurrent use.
type Informer[T Object] struct {
	resource Resource
	config   Config[T]
	invalid  error // what New found wrong
	store    *Store[T]

	reflectors []*Reflector[T]
	fifo       *FIFO[T]
	handlers   sync.WaitGroup // goroutines that deliver
	synced     chan struct{}  // closed when the store has all of the first lists
	stopped    chan struct{}  // closed when Run is about to return

	// mu makes a change of the store and the telling of it one step, so that a subscription in between is given
	// each object once. It is taken before the locks of the store and of a listener.
	mu        sync.Mutex // protects the fields below, and writes to store
	started   bool
	listeners []*listener[T]
	listed    map[string]bool // the namespaces whose first list is in the store
}

// New returns an informer of resource. It starts nothing and asks for nothing before Run, which also tells what is
// wrong with resource or config.
func New[T Object](client *Client, resource Resource, config Config[T]) *Informer[T] {
	i := &Informer[T]{
		resource: resource,
		config:   config,
		fifo:     NewFIFO[T](0),
		synced:   make(chan struct{}),
		stopped:  make(chan struct{}),
		listed:   map[string]bool{},
	}
	i.store, _ = NewStore[T]()
	if i.invalid = resource.validate(); i.invalid != nil {
		return i
	}
	for _, namespace := range resource.sources() {
		part := resource
		if namespace != "" {
			part.Namespaces = []string{namespace}
		}
		r, err := NewReflector(client, part, i.fifo, config)
		if err != nil {
			i.invalid = err
			return i
		}
		r.held = i.store.Get
		i.reflectors = append(i.reflectors, r)
	}
	return i
}

func (i *Informer[T]) indexed() *Store[T] { return i.store }

// Store returns the local copy. It is empty at first, complete once WaitSynced has returned nil, and stays readable
// after the informer has stopped.
func (i *Informer[T]) Store() *Store[T] { return i.store }

// Resource returns which collection the informer follows.
func (i *Informer[T]) Resource() Resource { return i.resource }

// Run follows the collection until ctx ends, and returns the cause of that; or at once an error that says what is
// wrong with the configuration. When it returns, every goroutine that it started has ended and no handler is called
// any more; it waits for calls that are under way. An informer runs once: later calls return [ErrRunning].
func (i *Informer[T]) Run(ctx context.Context) error {
	i.mu.Lock()
	if i.started {
		i.mu.Unlock()
		return fmt.Errorf("%s: %w", i.resource, ErrRunning)
	}
	i.started = true
	i.mu.Unlock()

	defer i.stop()
	if i.invalid != nil {
		return i.invalid
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range i.reflectors {
		group.Go(func() error { return r.Run(ctx) })
	}
	group.Go(func() error { return i.apply(ctx) })
	return group.Wait()
}

// apply brings what the reflectors read into the store, and tells the listeners.
func (i *Informer[T]) apply(ctx context.Context) error {
	var batch []Delta[T]
	var changes []change[T]
	for {
		var err error
		if batch, err = i.fifo.Take(ctx, batch); err != nil {
			return context.Cause(ctx)
		}
		i.mu.Lock()
		changes = i.store.apply(batch, changes)
		if batch[0].Type == Replaced {
			i.replacedLocked(batch[0].Namespace, changes)
		} else {
			i.tellLocked(changes, false)
		}
		listeners := i.listeners
		i.mu.Unlock()
		for _, l := range listeners {
			l.waitForRoom(ctx)
		}
		clear(batch)
		clear(changes)
		if changes = changes[:0]; cap(changes) > fifoCapacity {
			changes = nil // a list is rare, and its changes are many
		}
	}
}

// replacedLocked tells of a list, which is the initial one of its namespace if it is the first.
func (i *Informer[T]) replacedLocked(namespace string, changes []change[T]) {
	first := !i.listed[namespace]
	i.listed[namespace] = true
	i.tellLocked(changes, first)
	if first && len(i.listed) == len(i.reflectors) {
		close(i.synced)
		for _, l := range i.listeners {
			l.load()
		}
	}
}

func (i *Informer[T]) tellLocked(changes []change[T], initial bool) {
	if len(changes) == 0 {
		return
	}
	for _, l := range i.listeners {
		if !l.enqueue(changes, initial) {
			i.config.logger().Error("a subscription has ended", "resource", i.resource.String(), "handler", l.config.Name, "why", l.err())
			i.forgetLocked(l)
		}
	}
}

// stop ends all listeners and waits for the calls under way.
func (i *Informer[T]) stop() {
	i.mu.Lock()
	close(i.stopped)
	listeners := i.listeners
	i.listeners = nil
	i.mu.Unlock()
	for _, l := range listeners {
		l.end(ErrStopped)
	}
	i.handlers.Wait()
}

// Subscribe has h told of every change from now on, beginning with an addition for each object that is there; nothing
// is missed in between, and nothing told twice. On an informer that has stopped it returns a subscription that has
// ended; see [Subscription.Err].
func (i *Informer[T]) Subscribe(h Handler[T]) *Subscription {
	return i.SubscribeWith(h, SubscriptionConfig[T]{})
}

// SubscribeWith is Subscribe with a configuration. If that is wrong, it returns a subscription that has ended; see
// [Subscription.Err].
func (i *Informer[T]) SubscribeWith(h Handler[T], config SubscriptionConfig[T]) *Subscription {
	l := newListener(i, h, config)
	i.subscribe(l)
	return &Subscription{l}
}

func (i *Informer[T]) subscribe(l *listener[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case l.invalid != nil:
		l.end(fmt.Errorf("subscribe to %s: %w", i.resource, l.invalid))
		return
	case isClosed(i.stopped):
		l.end(fmt.Errorf("subscribe to %s: %w", i.resource, ErrStopped))
		return
	}
	i.listeners = append(slices.Clip(i.listeners), l)
	snap := i.store.Snapshot()
	if snap.Len() > 0 {
		initial := make([]change[T], 0, snap.Len())
		for obj := range snap.All() {
			initial = append(initial, change[T]{key: KeyOf(obj), new: obj, added: true})
		}
		l.enqueue(initial, true)
	}
	if isClosed(i.synced) {
		l.load()
	}
}

func (i *Informer[T]) forget(l *listener[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forgetLocked(l)
}

func (i *Informer[T]) forgetLocked(l *listener[T]) {
	i.listeners = slices.DeleteFunc(slices.Clone(i.listeners), func(other *listener[T]) bool { return other == l })
}

// Changes yields every change, as a handler would be told, in the goroutine that iterates: it begins with an addition
// for each object that is there, and ends when ctx or the informer does, or when the loop is left. While the loop is
// busy, changes of one key fold into one.
func (i *Informer[T]) Changes(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		newListener[T](i, nil, SubscriptionConfig[T]{Name: "Changes"}).changes(ctx)(yield)
	}
}

// WaitSynced waits until the store has the whole collection, and returns nil then. When ctx ends first, its error
// says what is missing and why, and wraps the cause of ctx; when the informer stops first, it wraps [ErrStopped].
func (i *Informer[T]) WaitSynced(ctx context.Context) error {
	select {
	case <-i.synced:
		return nil
	default:
	}
	select {
	case <-i.synced:
		return nil
	case <-i.stopped:
		return i.unsynced(ErrStopped)
	case <-ctx.Done():
		return i.unsynced(context.Cause(ctx))
	}
}

// unsynced returns an error that says what the store still lacks and why, and wraps cause.
func (i *Informer[T]) unsynced(cause error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.invalid != nil:
		return i.invalid
	case !i.started:
		return fmt.Errorf("%s: %w: %w", i.resource, ErrNotStarted, cause)
	}
	var why []string
	errs := []error{cause}
	for _, r := range i.reflectors {
		if i.listed[r.namespace] {
			continue
		}
		s := r.Status()
		text := s.State.String()
		if s.Namespace != "" {
			text = "namespace " + s.Namespace + ": " + text
		}
		if s.LastError != nil {
			text += " after: " + s.LastError.Error()
			errs = append(errs, s.LastError)
		}
		why = append(why, text)
	}
	return &NotSyncedError{Resource: i.resource, Why: strings.Join(why, "; "), errs: errs}
}

// NotSyncedError says that an informer does not have the whole collection yet, and why. It wraps the cause of the
// context's end, or [ErrStopped], and the last failure of each part that is missing.
type NotSyncedError struct {
	Resource Resource
	// Why names the state of each part that is missing, and its last failure.
	Why  string
	errs []error
}

// Error implements error.
func (e *NotSyncedError) Error() string {
	return fmt.Sprintf("%s not synced: %s: %v", e.Resource, e.Why, e.errs[0])
}

// Unwrap returns what e wraps.
func (e *NotSyncedError) Unwrap() []error { return e.errs }

// WaitFor waits until the store has every change up to resourceVersion, which may come from any answer of the server
// about this resource: lists, events and bookmarks all count. It returns an error when ctx ends or the informer
// stops first, or when resourceVersion is not a number as KEP-5504 says.
//
// With several namespaces, each of them must have got there, and a quiet one gets there by a bookmark, about once a
// minute; [Informer.WaitForObject] waits for the object's own namespace only.
func (i *Informer[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	if _, err := resourceversion.CompareResourceVersion(resourceVersion, resourceVersion); err != nil {
		return err
	}
	return i.waitUntil(ctx, func(s *Snapshot[T]) bool {
		return len(s.sources) == len(i.reflectors) && reached(s.RV(), resourceVersion)
	})
}

// Versioned is the identity and version of an object, of whatever type.
type Versioned interface {
	GetNamespace() string
	GetName() string
	GetResourceVersion() string
}

// WaitForObject waits until the store has obj, as a write returned it, or a newer version, or knows that it is gone:
// so that what was written is what is read. It returns nil at once for an object that the informer does not follow:
// one of another namespace, or one that the label selector, or a field selector on metadata.name or
// metadata.namespace, leaves out. It returns an error when ctx ends or the informer stops first.
func (i *Informer[T]) WaitForObject(ctx context.Context, obj Versioned) error {
	rv := obj.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(rv, rv); err != nil {
		return err
	}
	if !i.follows(obj) {
		return nil
	}
	key := Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	return i.waitUntil(ctx, func(s *Snapshot[T]) bool {
		if have, ok := s.Get(key); ok && reached(have.GetResourceVersion(), rv) {
			return true
		}
		return reached(s.sourceRV(key.Namespace), rv)
	})
}

// follows says whether obj can be in the store, as far as that can be told.
func (i *Informer[T]) follows(obj Versioned) bool {
	r := i.resource
	if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, obj.GetNamespace()) {
		return false
	}
	if labeled, ok := obj.(interface{ GetLabels() map[string]string }); ok {
		if selector, err := labels.Parse(r.LabelSelector); err == nil && !selector.Matches(labels.Set(labeled.GetLabels())) {
			return false
		}
	}
	if selector, err := fields.ParseSelector(r.FieldSelector); err == nil {
		if name, ok := selector.RequiresExactMatch("metadata.name"); ok && name != obj.GetName() {
			return false
		}
		if namespace, ok := selector.RequiresExactMatch("metadata.namespace"); ok && namespace != obj.GetNamespace() {
			return false
		}
	}
	return true
}

// Await waits until the object with that key meets cond, and returns it. cond is called by the caller's goroutine
// with each version that is seen, and with the zero T while there is none: returning true for that waits for a
// deletion. It returns an error when ctx ends or the informer stops first.
func (i *Informer[T]) Await(ctx context.Context, key Key, cond func(obj T) bool) (T, error) {
	var met T
	err := i.waitUntil(ctx, func(s *Snapshot[T]) bool {
		obj, ok := s.Get(key)
		if !ok && !isClosed(i.synced) || !cond(obj) {
			return false
		}
		met = obj
		return true
	})
	if err != nil {
		return met, fmt.Errorf("await %s %s: %w", i.resource.Resource, key, err)
	}
	return met, nil
}

func (i *Informer[T]) waitUntil(ctx context.Context, cond func(*Snapshot[T]) bool) error {
	err := i.store.waitUntil(ctx, i.stopped, cond)
	if err == ErrStopped {
		return fmt.Errorf("%s: %w", i.resource, err)
	}
	return err
}

// Status tells how an [Informer] is doing.
type Status struct {
	Resource Resource
	// Synced says whether the store has the whole collection, and has had it since.
	Synced bool
	// ResourceVersion is how far the store is complete; see [Snapshot.RV].
	ResourceVersion string
	// Objects is how many the store has.
	Objects int
	// Reflectors are the parts, one for each namespace that is followed by itself.
	Reflectors []ReflectorStatus
	// Queued is how many changes were read and are not yet in the store; Blocked, how many readers wait because
	// there are too many of them.
	Queued, Blocked int
	// Handlers are the subscriptions, in their order.
	Handlers []HandlerStatus
}

// Status returns how the informer is doing.
func (i *Informer[T]) Status() Status {
	i.mu.Lock()
	listeners := i.listeners
	i.mu.Unlock()
	snap := i.store.Snapshot()
	s := Status{Resource: i.resource, Synced: isClosed(i.synced), ResourceVersion: snap.RV(), Objects: snap.Len()}
	s.Queued, s.Blocked = i.fifo.Len()
	for _, r := range i.reflectors {
		s.Reflectors = append(s.Reflectors, r.Status())
	}
	for _, l := range listeners {
		s.Handlers = append(s.Handlers, l.status())
	}
	return s
}
