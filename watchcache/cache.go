// Package watchcache is the server half of a Kubernetes collection: it holds all current objects and the most recent
// changes, and answers list and watch requests from them, as the cacher of kube-apiserver does.
//
// A [Cache] is filled through Put, one delta after the other, by a test's API server (package informertest) or by an
// informer.Reflector that follows a real one, and serves any number of clients over HTTP. It never waits for a client.
//
// # Guarantees
//
//   - A watch from a resource version gets every change after it, once and in order, or 410 Expired.
//     (https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes)
//   - A watch without one, or from "0", begins with an ADDED event for each object that there is; with
//     sendInitialEvents these end in a bookmark that is annotated k8s.io/initial-events-end (KEP-3157).
//   - Bookmarks tell those who ask for them how far the collection has come, about every minute and shortly before the
//     end of a watch (KEP-956).
//   - A list, and each page of it, is from one snapshot. Any version that can be watched from can also be listed.
//   - An object that many clients are sent at a time is encoded once for each representation, not once for each client.
//   - A watcher that does not read, or reads too slowly, is ended while its version is still in the window, so that it
//     can come back and carry on. No other watcher, nor Put, notices it.
package watchcache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
)

// Object is what a [Cache] holds: a pointer to a Kubernetes object with its whole metadata, since a server selects by
// labels and tells versions apart. Every pointer to a struct that embeds metav1.ObjectMeta is one, and so is
// *unstructured.Unstructured.
type Object interface {
	comparable
	metav1.Object
}

// Config says what a [Cache] holds and how much it remembers.
type Config struct {
	// GroupVersionResource is the collection, for the texts of errors.
	GroupVersionResource schema.GroupVersionResource
	// Kind is the kind of its objects.
	Kind string
	// SelectableFields are the fields, beside metadata.name and metadata.namespace, that a field selector may name, as
	// paths of JSON names: "spec.nodeName". Their values are strings, booleans or integers. Nil means those that
	// kube-apiserver knows for the kind, as far as the Go type has them; custom resources have none.
	SelectableFields []string
	// Window is how many of the latest changes are remembered. Every version in it can be watched from, listed, and
	// paged through; for older ones the answer is 410 Expired. A watcher that is three quarters of it behind is ended.
	// It costs the memory of that many former versions of objects.
	// Zero means 8,192.
	Window int
}

const (
	defaultWindow = 8192
	// freshTimeout is how long a request for a version that is yet to come waits for it. As kube-apiserver's.
	freshTimeout = 3 * time.Second
)

// Cache is the current state of a collection and its recent past. It is like the cacher of kube-apiserver, but holds
// values of one Go type, keeps its watchers' places in the one ring of events that all share instead of a queue for
// each, and can list each version in that ring.
//
// All methods are safe for concurrent use. Objects that are given to a Cache must not be written to afterwards.
type Cache[T Object] struct {
	config Config
	codec  codec[T]
	fields selectableFields[T]
	latest latest

	objects *informer.Store[*element[T]]
	writer  informer.StoreWriter[*element[T]]

	mu       sync.RWMutex // protects the fields below, and writer; taken before no other lock but the store's
	ready    bool         // the first Replaced has come
	rv       uint64       // every change up to it has been told
	ring     ring[T]
	wake     chan struct{}            // closed, and made anew, by the next event
	progress chan struct{}            // closed when rv moves; nil when nobody waits for that
	watchers map[*watcher[T]]struct{} // those that are to be told when they are too slow
}

var _ informer.Sink[*metav1.PartialObjectMetadata] = (*Cache[*metav1.PartialObjectMetadata])(nil)

// New returns an empty cache. Until it is given its first Replaced delta, it answers 429 Too Many Requests.
func New[T Object](config Config) *Cache[T] {
	if config.Window <= 0 {
		config.Window = defaultWindow
	}
	c := &Cache[T]{
		config:   config,
		codec:    newCodec[T](config.GroupVersionResource.GroupVersion().WithKind(config.Kind)),
		wake:     make(chan struct{}),
		watchers: map[*watcher[T]]struct{}{},
	}
	c.fields = newSelectableFields[T](config, c.codec.custom)
	c.objects, c.writer = informer.NewStore[*element[T]]()
	c.ring.reset(config.Window, 0, c.objects.Snapshot())
	return c
}

// Put brings one change into the cache and tells the watchers. It never waits; ctx is not used.
//
// The resource version of Upserted and Removed is that of the delta or, when it has none, of the object, and must be
// greater than that of the change or bookmark before. A removed object carries the version of its removal, as in a DELETED event of
// kube-apiserver. An object that is removed but not there only moves the resource version. Of an object that is removed
// by Delta.Key alone, watchers are told the last state.
//
// Replaced makes its items and what it keeps the whole collection, at any version; without one, as when the source no
// longer serves the resource, at the present version. As there is no telling what happened between, it empties the window
// and ends every watch: clients watch or list again.
//
// Put makes a Cache the informer.Sink of an informer.Reflector. A Cache has one source: Delta.Namespace is not used.
func (c *Cache[T]) Put(_ context.Context, d informer.Delta[T]) error {
	var none T
	version, key := d.ResourceVersion, d.Key
	if d.Object != none {
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

// put brings d into the cache and returns the watchers that are too slow to be kept. If it returns an error, the cache has
// not changed.
func (c *Cache[T]) put(d informer.Delta[T], key informer.Key, rv uint64) (slow []*watcher[T], err error) {
	var none T
	c.mu.Lock()
	defer c.mu.Unlock()
	switch d.Type {
	case informer.Upserted, informer.Removed:
		switch {
		case d.Type == informer.Upserted && d.Object == none:
			return nil, errNoObject
		case rv <= c.rv:
			return nil, fmt.Errorf("resourceVersion %d is not after %d", rv, c.rv)
		}
		return c.changeLocked(d.Type, key, d.Object, rv)
	case informer.Replaced:
		if slices.Contains(d.Items, none) {
			return nil, errNoObject
		}
		if d.ResourceVersion == "" {
			rv = max(c.rv, 1) // in a request, version 0 has a meaning of its own
		}
		return nil, c.replaceLocked(d, rv)
	case informer.Bookmarked:
		c.advanceLocked(rv)
		return nil, nil
	}
	return nil, errors.New("no type of a delta")
}

var errNoObject = errors.New("it has a nil object")

// changeLocked files one change and returns the watchers that are too slow to be kept.
func (c *Cache[T]) changeLocked(change informer.DeltaType, key informer.Key, obj T, rv uint64) (slow []*watcher[T], err error) {
	old, found := c.objects.Get(key)
	if change == informer.Removed && !found {
		c.advanceLocked(rv)
		return nil, nil
	}
	var none T
	if obj == none { // removed, in a state that its source could not read: the last one known has to do
		obj = ShallowCopy(old.obj)
		obj.SetResourceVersion(formatRV(rv))
	}
	el := &element[T]{obj: obj}
	if err := c.writer.Apply(informer.Delta[*element[T]]{Type: change, Object: el}); err != nil {
		return nil, err
	}
	c.ring.append(&event[T]{rv: rv, old: old, new: el, removed: change == informer.Removed, after: c.objects.Snapshot()})
	c.advanceLocked(rv)
	close(c.wake)
	c.wake = make(chan struct{})
	if c.ring.next%uint64(max(1, c.config.Window/16)) != 0 {
		return nil, nil // the check costs a look at each watcher: not at each event
	}
	for w := range c.watchers {
		if w.next.Load()+uint64(c.config.Window-c.config.Window/4) < c.ring.next {
			slow = append(slow, w)
			c.endLocked(w)
		}
	}
	return slow, nil
}

func (c *Cache[T]) replaceLocked(d informer.Delta[T], rv uint64) error {
	items := make([]*element[T], len(d.Items))
	for i, obj := range d.Items {
		items[i] = &element[T]{obj: obj}
	}
	batch := []informer.Delta[*element[T]]{{Type: informer.Replaced, Items: items, Kept: d.Kept}}
	if d.Restored { // what the items take the place of is dropped first: an equal version can be of another content
		batch = slices.Insert(batch, 0, informer.Delta[*element[T]]{Type: informer.Replaced, Kept: d.Kept})
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

// Compact forgets the past, as a compaction of etcd does: from every version before the present one, lists, watches and
// continue tokens are answered 410 Expired. Watches that have kept up go on.
func (c *Cache[T]) Compact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring.reset(c.config.Window, c.rv, c.objects.Snapshot())
}

// EndWatches ends every watch, cleanly, between two events. The clients can come back at the version they have.
func (c *Cache[T]) EndWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endAllLocked()
}

func (c *Cache[T]) endAllLocked() {
	for w := range c.watchers {
		c.endLocked(w)
	}
}

func (c *Cache[T]) endLocked(w *watcher[T]) {
	delete(c.watchers, w)
	close(w.ended)
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

// RV returns the version up to which the cache has been told of every change, "0" before the first.
func (c *Cache[T]) ResourceVersion() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return formatRV(c.rv)
}

// Watchers returns the number of watches that are open.
func (c *Cache[T]) Watchers() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.watchers)
}

// waitFresh returns as soon as the cache is at version rv or beyond it, or with an error when it does not get there.
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

// tooLargeResourceVersion is what kube-apiserver answers to a request for a version that does not come
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
