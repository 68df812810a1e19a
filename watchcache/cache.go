// Package watchcache is the server half of a Kubernetes collection. It holds all current objects and the most recent
// changes, and serves list and watch requests from them, like kube-apiserver's cacher.
//
// A [Cache] is filled through Put, one delta after the other: by a test's API server (package informertest), or by an
// informer.Reflector that follows a real one. It serves any number of clients over HTTP, and never waits for one.
//
// # Guarantees
//
//   - A watch from a resource version receives every later change, once and in order, or 410 Expired.
//     (https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes)
//   - A watch without a resource version, or from "0", begins with an ADDED event for each object. With
//     sendInitialEvents, a bookmark annotated k8s.io/initial-events-end follows them (KEP-3157).
//   - Watches that request bookmarks receive them about every minute, and shortly before the end of the watch
//     (KEP-956).
//   - A list, and each page of it, is from one snapshot. Every version that a watch can start from can also be listed.
//   - An object that many clients receive at a time is encoded once for each representation, not once for each client.
//   - The cache ends a watcher that does not read, or reads too slowly, while its version is still in the window, so
//     that it can resume. This affects neither other watchers nor Put.
package watchcache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/object"
)

// Object is the constraint of a [Cache]'s objects: a pointer to a Kubernetes object with its whole metadata, because a
// server selects by labels and distinguishes versions. Every pointer to a struct that embeds metav1.ObjectMeta
// satisfies it, and so does *unstructured.Unstructured.
type Object interface {
	metav1.Object
}

// Config configures a [Cache].
type Config struct {
	// GroupVersionResource is the collection, for error texts.
	GroupVersionResource schema.GroupVersionResource
	// Kind is the kind of the objects.
	Kind string
	// ListKind is the kind of their lists. Empty means the kind with the suffix List.
	ListKind string
	// Type is the type of the objects, a pointer to a struct, if the type parameter of the cache is an interface such as
	// metav1.Object. Nil means the type parameter.
	Type reflect.Type
	// SelectableFields are the fields, beside metadata.name and metadata.namespace, that a field selector may name, as
	// paths of JSON names: "spec.nodeName". Their values are strings, booleans or integers. Nil means those fields of
	// the Go type that kube-apiserver supports for the kind; for custom resources, none.
	SelectableFields []string
	// Window is how many of the latest changes the cache remembers. Clients can watch, list and page from every version
	// in it; older versions fail with 410 Expired. The cache ends a watcher that falls three quarters of the window
	// behind. The window keeps as many old versions of objects in memory. Zero means 8,192.
	Window int
	// Table makes the Tables that kubectl get requests. Nil means the columns Name and Age.
	Table *Table
	// ManagedFieldsOptOut lets clients that accept application/json;drop=metadata.managedFields receive JSON without
	// metadata.managedFields, as the feature gate of that name does (KEP-5958). False means JSON with
	// metadata.managedFields.
	ManagedFieldsOptOut bool
	// WatchListCompression makes the cache compress streaming lists for clients that accept gzip, like the feature gate of
	// that name of kube-apiserver 1.37. Each flush ends a member. The stream stays compressed when it goes on as the
	// watch; other watches are not compressed. False means no compression.
	WatchListCompression bool
}

// typeOf returns the type of the objects of a cache.
func typeOf[T Object](config Config) reflect.Type {
	if config.Type != nil {
		return config.Type
	}
	return reflect.TypeFor[T]()
}

const (
	defaultWindow = 8192
	// freshTimeout is how long a request waits for a future version, as in kube-apiserver.
	freshTimeout = 3 * time.Second
)

// Cache is the current state of a collection and its recent past. Unlike kube-apiserver's cacher, it holds values of
// one Go type. All watchers share one ring of events, in which each has its position; they need no queues. The cache
// can list every version in the ring.
//
// All methods are safe for concurrent use. Do not write to an object after giving it to a Cache.
type Cache[T Object] struct {
	config Config
	codec  codec[T]
	fields selectableFields[T]
	latest latest
	sent   atomic.Uint64 // events that watches have sent
	slow   atomic.Uint64 // watches that were ended because they were too slow

	bookmark atomic.Pointer[bookmark[T]]   // the latest one; nil before the first
	nudge    atomic.Pointer[chan struct{}] // closed and replaced when every watch is to send a bookmark

	objects *informer.Store[*element[T]]
	index   *informer.Index[*element[T], string] // by the field fields.index; nil if there is none
	writer  informer.StoreWriter[*element[T]]

	mu       sync.RWMutex // protects the fields below, and writer; while holding it, take only the store's lock
	ready    bool         // the first Replaced has arrived
	rv       uint64       // the cache has every change up to this version
	ring     ring[T]
	progress chan struct{}            // closed when rv moves; nil if nobody waits for that
	watchers map[*watcher[T]]struct{} // the open ones, to end those that are too slow
	groups   groups                   // of the open ones and those that are ending
}

var _ informer.Sink[*metav1.PartialObjectMetadata] = (*Cache[*metav1.PartialObjectMetadata])(nil)

// New returns an empty cache. Before its first Replaced delta, it responds with 429 Too Many Requests.
func New[T Object](config Config) *Cache[T] {
	if config.Window <= 0 {
		config.Window = defaultWindow
	}
	if config.ListKind == "" {
		config.ListKind = config.Kind + "List"
	}
	if config.Table == nil {
		config.Table = defaultTable
	}
	c := &Cache[T]{
		config:   config,
		codec:    newCodec[T](config),
		watchers: map[*watcher[T]]struct{}{},
		groups:   newGroups(),
	}
	c.nudge.Store(new(make(chan struct{})))
	c.fields = newSelectableFields[T](config, c.codec.custom)
	c.objects, c.writer = informer.NewStore[*element[T]]()
	if value, ok := c.fields.values[c.fields.index]; ok {
		c.index = informer.NewIndex(c.objects, func(el *element[T]) []string { return []string{value(el.obj)} })
	}
	c.ring.reset(config.Window, 0, c.objects.Snapshot())
	return c
}

// Put applies one change to the cache and wakes the watchers. It never waits, and does not use ctx.
//
// The resource version of Upserted and Removed is the delta's or, if it has none, the object's. It must be greater than
// that of the previous change or bookmark. A removed object carries the version of its removal, as in a DELETED event
// of kube-apiserver. Removing an object that is not in the cache only advances the resource version. If Delta.Object is
// nil, Delta.Key names the removed object, and watchers receive its last state.
//
// Replaced makes its items and the objects that it keeps the whole collection, at any version. Without a version, as
// when the source no longer serves the resource, the current version stays. The changes in between are unknown, so it
// empties the window and ends every watch: clients watch or list again.
//
// Put makes a Cache the informer.Sink of an informer.Reflector. A Cache has one source: Delta.Namespace is not used.
func (c *Cache[T]) Put(_ context.Context, d informer.Delta[T]) error {
	version, key := d.ResourceVersion, d.Key
	if !object.IsNil(d.Object) {
		key = informer.KeyOf(d.Object)
		if version == "" {
			version = d.Object.GetResourceVersion()
		}
	}
	rv, err := strconv.ParseUint(version, 10, 64)
	if err != nil && !(d.Type == informer.Replaced && version == "") {
		err = fmt.Errorf("resourceVersion: %w", err)
	} else {
		var slow []*watcher[T]
		slow, err = c.put(d, key, rv)
		for _, w := range slow {
			w.abort()
		}
	}
	if err != nil {
		return fmt.Errorf("%v of %s: %w", d.Type, c.config.GroupVersionResource.Resource, err)
	}
	return nil
}

// put applies d to the cache and returns the watchers that are too slow, which it has ended. If it returns an error,
// the cache has not changed.
func (c *Cache[T]) put(d informer.Delta[T], key informer.Key, rv uint64) (slow []*watcher[T], err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch d.Type {
	case informer.Upserted, informer.Removed:
		switch {
		case d.Type == informer.Upserted && object.IsNil(d.Object):
			return nil, errNoObject
		case rv <= c.rv:
			return nil, fmt.Errorf("resourceVersion %d is not after %d", rv, c.rv)
		}
		return c.changeLocked(d.Type, key, d.Object, rv)
	case informer.Replaced:
		if slices.ContainsFunc(d.Items, object.IsNil[T]) {
			return nil, errNoObject
		}
		if d.ResourceVersion == "" {
			rv = max(c.rv, 1) // version 0 has a special meaning in a request
		}
		return nil, c.replaceLocked(d, rv)
	case informer.Bookmarked:
		if err := c.writer.Apply(informer.Delta[*element[T]]{Type: informer.Bookmarked, Undecoded: d.Undecoded}); err != nil {
			return nil, err
		}
		c.advanceLocked(rv)
		return nil, nil
	}
	return nil, errors.New("unknown type of delta")
}

var errNoObject = errors.New("the delta has a nil object")

// changeLocked applies one change and returns the watchers that are too slow, which it has ended.
func (c *Cache[T]) changeLocked(change informer.DeltaType, key informer.Key, obj T,
	rv uint64) (slow []*watcher[T], err error) {
	old, found := c.objects.Get(key)
	if change == informer.Removed && !found {
		if key.Name != "" { // it may be one that could not be decoded
			if err := c.writer.Apply(informer.Delta[*element[T]]{Type: informer.Removed, Key: key}); err != nil {
				return nil, err
			}
		}
		c.advanceLocked(rv)
		return nil, nil
	}
	if object.IsNil(obj) { // removed, and the source could not decode it: use the last state
		obj = ShallowCopy(old.obj)
		obj.SetResourceVersion(formatRV(rv))
	}
	el := &element[T]{obj: obj}
	values := c.valuesLocked(old, el)
	if err := c.writer.Apply(informer.Delta[*element[T]]{Type: change, Object: el}); err != nil {
		return nil, err
	}
	e := &event[T]{seq: c.ring.next, rv: rv, old: old, new: el, removed: change == informer.Removed, values: values,
		after: c.objects.Snapshot()}
	c.ring.append(e)
	c.advanceLocked(rv)
	c.groups.ringLocked(e.seq, key, e.values)
	if c.ring.next%uint64(max(1, c.config.Window/16)) != 0 {
		return nil, nil // the check visits each watcher, so it is not done at each event
	}
	for w := range c.watchers {
		if w.positionLocked()+uint64(c.config.Window-c.config.Window/4) < c.ring.next {
			slow = append(slow, w)
			c.endLocked(w)
		}
	}
	c.slow.Add(uint64(len(slow)))
	return slow, nil
}

// valuesLocked returns the values, before and after a change, of the fields that watchers select by. old may be nil.
func (c *Cache[T]) valuesLocked(old, el *element[T]) (values []fieldChange) {
	for field := range c.groups.fields {
		value := c.fields.values[field]
		v := fieldChange{field: field, after: value(el.obj)}
		if v.before = v.after; old != nil {
			v.before = value(old.obj)
		}
		values = append(values, v)
	}
	return values
}

func (c *Cache[T]) replaceLocked(d informer.Delta[T], rv uint64) error {
	items := make([]*element[T], len(d.Items))
	for i, obj := range d.Items {
		items[i] = &element[T]{obj: obj}
	}
	batch := []informer.Delta[*element[T]]{{Type: informer.Replaced, Items: items, Undecoded: d.Undecoded}}
	if d.Restored { // drop the old objects first: equal versions may have different content
		batch = slices.Insert(batch, 0, informer.Delta[*element[T]]{Type: informer.Replaced, Undecoded: d.Undecoded})
	}
	if err := c.writer.Apply(batch...); err != nil {
		return err
	}
	c.ready, c.rv = true, rv
	c.ring.reset(c.config.Window, rv, c.objects.Snapshot())
	c.progressLocked()
	c.endAllLocked()
	return nil
}

func (c *Cache[T]) advanceLocked(rv uint64) {
	if rv > c.rv {
		c.rv = rv
		c.progressLocked()
	}
}

func (c *Cache[T]) progressLocked() {
	if c.progress != nil {
		close(c.progress)
		c.progress = nil
	}
}

// Compact forgets the past, as a compaction of etcd does. Lists, watches and continue tokens from older versions fail
// with 410 Expired. Watches that are up to date continue.
func (c *Cache[T]) Compact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring.reset(c.config.Window, c.rv, c.objects.Snapshot())
}

// EndWatches ends every watch cleanly, after the events so far. Clients can resume at their version.
func (c *Cache[T]) EndWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		delete(c.watchers, w)
		w.last = c.ring.next
	}
	c.groups.ringAllLocked(c.ring.next)
}

// SendBookmarks makes every watch that requests bookmarks send one now, after the events up to its version.
func (c *Cache[T]) SendBookmarks() { close(*c.nudge.Swap(new(make(chan struct{})))) }

func (c *Cache[T]) endAllLocked() {
	for w := range c.watchers {
		c.endLocked(w)
	}
	c.groups.ringAllLocked(c.ring.next)
}

// endLocked ends a watcher. If it waits for an event, the caller must wake it.
func (c *Cache[T]) endLocked(w *watcher[T]) {
	delete(c.watchers, w)
	w.ended.Store(true)
}

// Get returns the object with that key.
func (c *Cache[T]) Get(key informer.Key) (T, bool) {
	if el, ok := c.objects.Get(key); ok {
		return el.obj, true
	}
	var none T
	return none, false
}

// All yields every object, ordered by namespace, then name, from one snapshot.
func (c *Cache[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for el := range c.objects.All() {
			if !yield(el.obj) {
				return
			}
		}
	}
}

// Len returns the number of objects.
func (c *Cache[T]) Len() int { return c.objects.Len() }

// ResourceVersion returns the version up to which the cache has every change, "0" before the first.
func (c *Cache[T]) ResourceVersion() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return formatRV(c.rv)
}

// Stats are counts of a [Cache].
type Stats struct {
	// Watchers is the number of open watches.
	Watchers int
	// EventsSent counts the events that watches have sent, without bookmarks.
	EventsSent uint64
	// SlowWatchers counts the watches that the cache ended because they were too slow.
	SlowWatchers uint64
}

// Stats returns the present counts.
func (c *Cache[T]) Stats() Stats {
	return Stats{Watchers: c.Watchers(), EventsSent: c.sent.Load(), SlowWatchers: c.slow.Load()}
}

// Watchers returns the number of open watches.
func (c *Cache[T]) Watchers() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.watchers)
}

// waitFresh waits until the cache has reached version rv. It returns an error if that takes too long.
func (c *Cache[T]) waitFresh(ctx context.Context, rv uint64) error {
	timeout := time.NewTimer(freshTimeout)
	defer timeout.Stop()
	for {
		c.mu.Lock()
		if !c.ready {
			c.mu.Unlock()
			return apierrors.NewTooManyRequests("storage is (re)initializing", 1)
		}
		current := c.rv
		if rv <= current {
			c.mu.Unlock()
			return nil
		}
		if c.progress == nil {
			c.progress = make(chan struct{})
		}
		progress := c.progress
		c.mu.Unlock()
		select {
		case <-progress:
		case <-timeout.C:
			return tooLargeResourceVersion(rv, current)
		case <-ctx.Done():
			return apierrors.NewTimeoutError(ctx.Err().Error(), 0)
		}
	}
}

// tooLargeResourceVersion returns kube-apiserver's error for a version that is not reached in time
// (k8s.io/apiserver/pkg/storage, NewTooLargeResourceVersionError).
func tooLargeResourceVersion(rv, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", rv, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}

func formatRV(rv uint64) string { return strconv.FormatUint(rv, 10) }
