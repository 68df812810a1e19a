package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/informer/durable"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/status"
)

// Informer keeps a [Store] equal to a collection on the API server, and delivers each change to its handlers.
//
// Create one with [New], add handlers and indexes at any time, and call Run. All methods are safe for concurrent use.
type Informer[T Object] struct {
	resource Resource
	config   Config[T]
	invalid  error // the reason why New rejected its arguments; nil if it did not
	store    *Store[T]
	synced   <-chan struct{} // closed when store has the whole collection
	stopped  <-chan struct{} // closed when the informer has stopped
	engine   engine[T]
	client   *Client // nil if the informer is invalid for that reason
}

// New returns an informer of resource. It starts no goroutine and sends no request; Run does.
//
// If client, resource, T or config is wrong, New logs the error. Run, WaitSynced, WaitForResourceVersion, WaitForObject
// and Await then return it at once, and each subscription ends with it.
func New[T Object](client *Client, resource Resource, config Config[T]) *Informer[T] {
	i := newInformer(client, resource, config)
	if i.invalid != nil {
		config.logger().Error("the informer does not run", "resource", resource.String(), "err", i.invalid)
	}
	return i
}

// newInformer is New without the log, for a caller that returns the error.
func newInformer[T Object](client *Client, resource Resource, config Config[T]) *Informer[T] {
	if client != nil && client.observe != nil {
		config = config.observed(client.observe)
	}
	i := &Informer[T]{resource: resource, config: config, client: client}
	if config.Layout == LayoutCompact {
		c, store := newCompact(client, resource, config)
		i.engine, i.store, i.synced, i.stopped = c, store, c.Hub.Synced(), c.Hub.Stopped()
	} else {
		e := newEngine(client, resource, config, intake.Unpacked[T]{Decoded: config.goType()}, config.Transform, nil, nil)
		i.engine, i.store, i.synced, i.stopped = e, (*Store[T])(e.Store()), e.Hub.Synced(), e.Hub.Stopped()
	}
	i.invalid = i.engine.Invalid()
	return i
}

// Store returns the local copy. It is empty at first, complete once WaitSynced has returned nil, and stays readable
// after the informer has stopped.
func (i *Informer[T]) Store() *Store[T] { return i.store }

// Resource returns the collection that the informer follows. Its Shard and Selections are those at the beginning;
// Status has the present ones.
func (i *Informer[T]) Resource() Resource { return i.resource }

// Run follows the collection until ctx ends, and returns the cause of ctx. If New rejected its arguments, Run returns
// that error at once. If the function of an index calls runtime.Goexit, Run returns an error. Run waits for the handler
// calls under way, and for the last saves with Config.WarmStart and SubscriptionConfig.Durable. When it returns, every
// goroutine that it started has ended, and no handler is called any more. An informer runs once; later calls return
// [ErrRunning].
//
// In profiles, its goroutines have the label "informer" with the resource, and those that call a handler also "handler"
// with its name.
func (i *Informer[T]) Run(ctx context.Context) error { return i.engine.Run(ctx) }

// Retire ends the informer for good, as if the collection had ceased to exist. First, its handlers receive all earlier
// changes, and then OnDelete with final=false for each object of the store, which becomes empty in one step. A handler
// that has not received the addition of an object receives neither, but with [DeliverEvery] both. Then Run returns an
// error that wraps [ErrStopped].
//
// Retire does not wait, so a handler may call it. Run waits for the handlers, but not longer than until its context
// ends: they may then lack deletions. WaitForResourceVersion, WaitForObject and Await return an error from now on,
// since an empty store proves nothing. A saved state of Config.WarmStart has the objects. Before Run, Retire ends the
// informer at once. After Run, or after another call, it does nothing. Release an informer of a [Group] instead.
func (i *Informer[T]) Retire() { i.engine.Retire() }

// HasSynced reports whether the store has received the whole collection. Once true, it stays true.
func (i *Informer[T]) HasSynced() bool { return run.IsClosed(i.synced) }

// WaitSynced waits until the store has the whole collection, and then returns nil. If ctx ends first, it returns a
// [*NotSyncedError] that wraps the cause of ctx, or an error that wraps [ErrNotStarted] too if Run was not called. If
// the informer stops first, the error wraps [ErrStopped]. If the collection takes more memory than Config.MaxMemory,
// the error wraps [ErrMaxMemory] as soon as that is known. The informer keeps trying, so that a later call can succeed.
// If [New] rejected its arguments, WaitSynced returns that error at once, whether Run was called or not.
func (i *Informer[T]) WaitSynced(ctx context.Context) error { return i.engine.WaitSynced(ctx) }

// Loading yields the objects that the first list has brought so far, in the order of their arrival, for a program that
// shows them before the list is whole. With several namespaces or selections, it has those of each that is not there
// yet. What has not arrived may exist, and what has arrived may be deleted or changed by the end of the list. The store
// stays empty until the list is whole, and then has all objects at once; Loading yields none from then on. For a
// moment, neither has them. If the list fails, Loading yields none until the next try. Do not modify the objects.
//
// It is safe for concurrent use. A call costs time and memory for each object that has arrived, and with LayoutCompact
// it decodes each one: call it as often as a screen is drawn.
func (i *Informer[T]) Loading() iter.Seq[T] { return i.engine.Loading() }

// WaitReadable is WaitSynced for a cached read, which should rather fail than wait for a server that refuses. It
// returns the [*NotSyncedError] at once if the resource has no lists; see [ErrNoList]. It returns it as soon as two
// lists in a row have failed and the last failure is 401, 403 or [ErrAbsent], which a retry seldom ends. After an
// [ErrMaxMemory], one failure is enough. After any other failure it returns the error once timeout has passed. It does
// not cut a list short that is under way: a slow first list is no failure. The informer keeps trying, so that a later
// call can succeed.
//
// While the informer waits for its next try, a later call returns an error of the first two kinds at once.
func (i *Informer[T]) WaitReadable(ctx context.Context, timeout time.Duration) error {
	return i.engine.WaitReadable(ctx, timeout)
}

// Subscribe registers h, with a configuration or without. The subscription first calls OnAdd for every object in the
// store, and then delivers every later change. No change is missed or delivered twice.
//
// If the informer has stopped, Subscribe returns a subscription that has ended; see [Subscription.Err]. If config is
// wrong or has more than one element, it does the same and logs the error.
func (i *Informer[T]) Subscribe(h Handler[T], config ...SubscriptionConfig[T]) *Subscription {
	if len(config) > 1 {
		err := fmt.Errorf("%s: Subscribe got %d configurations: it takes at most one", i.resource, len(config))
		i.config.logger().Error("the handler does not run", "err", err)
		return &Subscription{deliver.Ended{Why: err}}
	}
	var c SubscriptionConfig[T]
	if len(config) == 1 {
		c = config[0]
	}
	invalid := c.validate()
	if h == nil {
		invalid = errors.New("the handler is nil")
	}
	var keep *durable.Config
	if invalid == nil && i.invalid == nil {
		keep, invalid = durableConfig(i.client, i.resource, &i.config, &c)
	}
	return &Subscription{i.engine.Subscribe(h, c.Filter, c.delivery(h), keep, invalid)}
}

// Changes yields the events that a handler would receive, in the goroutine that iterates. It begins with an addition
// for each object in the store. It ends when ctx ends, when the informer stops, or when the loop breaks. While the loop
// body is busy, changes of one key fold into one.
func (i *Informer[T]) Changes(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		var events eventBuffer[T]
		i.engine.Pull(ctx, &events, func(open func() bool) bool {
			for _, e := range events {
				if ctx.Err() != nil || !open() || !yield(e) {
					return false
				}
			}
			clear(events) // it must not keep objects in memory
			events = events[:0]
			return true
		})
	}
}

// SetShard makes the store hold exactly the objects of shard, and returns when it does. Until then, the store holds
// those of the previous shard. It changes in one step, or in one step for each namespace of the Resource. Handlers
// receive additions for the objects that enter, and deletions with final=false for those that leave. An object that
// stays raises no event unless it has changed.
//
// If the store has a part of shard, and the server filters by shard, the informer lists only the newly added ranges, at
// the resource version of the store, and resumes the watch there. If no range is new, it needs no list. Otherwise, even
// if the store already has shard, it lists the whole shard. It does neither before a backoff has ended. Calls for the
// same shard share a list that has not arrived yet.
//
// If ctx ends first, SetShard returns an error that wraps the cause of ctx, and the change continues. SetShard also
// waits before Run, and until the server first serves the resource. If another call changes the shard meanwhile,
// SetShard waits for the later shard. If the informer stops, the error wraps [ErrStopped].
func (i *Informer[T]) SetShard(ctx context.Context, shard Shard) error {
	return i.engine.SetShard(ctx, shardset.Shard(shard))
}

// SetSelections makes the store hold the objects that match at least one of these selections, and returns when it does.
// It is for an informer whose Resource has Selections.
//
// The informer lists only the selections that it does not have yet. Objects of removed selections stay until it has the
// new ones. Then they are deleted with final=false, unless another selection matches them. Without selections, the
// store becomes empty. If ctx ends first, SetSelections returns an error that wraps the cause of ctx, and the change
// continues. SetSelections also waits before Run. If another call is made meanwhile, both wait for its selections. If
// the informer stops, the error wraps [ErrStopped].
func (i *Informer[T]) SetSelections(ctx context.Context, selections ...Selection) error {
	r := i.resource
	r.Selections = selections
	return i.engine.SetSelections(ctx, r.selected(), r.validate)
}

// Audit compares the store with the server, and returns what differs. It waits until the store has the whole
// collection. Then it lists the metadata of all objects at exactly the resource version of the store, page by page, and
// compares UID and resource version of each with those in the store at that version. Namespaces, selectors, Shard and
// Filter apply; Filter is called once more for each object. If the server no longer has that version, Audit takes the
// next one of the store. Its requests wait for the rate limit of the client, and while an informer of the client lists.
// A client lists for one audit at a time. With Selections, Audit lists each of them, and compares the store with their
// union. It waits until what left one selection is gone from the store or in another one.
//
// The informer repairs a difference: it lists everything again, and compares contents. Handlers receive the changes as
// after any list. It logs the difference with the keys of the objects, counts it in [status.Audit], and calls
// Config.OnFailure with an [*AuditError]. Audit does not wait for the repair.
//
// If Audit cannot compare the two, the error says why. Only metadata crosses the network, but a server without the
// feature ListFromCacheSnapshot reads all objects from etcd, so do not audit every minute. An audit does not notice
// different content under the same UID and resource version. The informer also audits by itself after a warm start,
// after a minute without a watch, and every Config.AuditEvery; see [status.Audit].
func (i *Informer[T]) Audit(ctx context.Context) (status.AuditResult, error) {
	return i.engine.Audit(ctx)
}

// latest returns the resource with the latest shard and selections.
func (i *Informer[T]) latest() Resource {
	r := i.resource
	shard, parts := i.engine.Latest()
	r.Shard = Shard(shard)
	if len(r.Selections) > 0 {
		r.Selections = []Selection{} // never nil: that would be the whole collection
		for _, p := range parts {
			r.Selections = append(r.Selections, selectionOf(p))
		}
	}
	return r
}

func (i *Informer[T]) indexed() *Store[T] { return i.store }

// abandon ends an informer that was not started. Its waits and Run then return [ErrStopped].
func (i *Informer[T]) abandon() { i.engine.Abandon() }
