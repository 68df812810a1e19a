package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
)

// Subscription ties a handler to an informer. Its methods are safe for concurrent use.
type Subscription struct{ listener subscriber }

// subscriber is a listener of any T.
type subscriber interface {
	HasSynced() bool
	WaitSynced(ctx context.Context) error
	End(why error)
	Released() <-chan struct{}
	Err() error
	Status() deliver.Status
}

// HasSynced reports whether the handler has processed the whole initial list.
func (s *Subscription) HasSynced() bool { return s.listener.HasSynced() }

// WaitSynced waits until the handler has processed the whole initial list, and then returns nil. It returns an error if
// ctx ends or the subscription ends first.
func (s *Subscription) WaitSynced(ctx context.Context) error { return s.listener.WaitSynced(ctx) }

// Close ends the subscription and drops the changes that wait for its handler. After Close has returned, no call of the
// handler or of Filter begins. Close does not wait for a call under way: receive from Done before you free resources
// that the handler uses.
//
//	sub.Close()
//	<-sub.Done()
//
// Because Close waits for no handler, a handler may close its own subscription or another one. So may a goroutine that
// holds a lock which the handler needs. Once Done is closed, the subscription retains neither the handler nor an
// object. Closing again does nothing.
func (s *Subscription) Close() { s.listener.End(ErrClosed) }

// Done returns a channel that is closed when the subscription has ended and the last call of the handler has returned.
// Err then returns the reason. The handler itself must not wait for Done.
func (s *Subscription) Done() <-chan struct{} { return s.listener.Released() }

// Err returns nil while the subscription is open. Afterwards it returns [ErrClosed] if Close ended it, an error that
// wraps [ErrStopped] if the informer has stopped, [ErrBacklog], or the error of an invalid SubscriptionConfig.
func (s *Subscription) Err() error { return s.listener.Err() }

// Status returns the present status of the subscription.
func (s *Subscription) Status() SubscriptionStatus { return subscriptionStatus(s.listener.Status()) }

// SubscriptionStatus is the status of a [Subscription].
type SubscriptionStatus struct {
	Name string
	// Backlog is the number of keys with changes that wait for the handler. With DeliverEvery, it is the number of
	// changes.
	Backlog int
	// Busy is how long the current call has taken so far. Zero means that no call is under way. The informer logs a
	// warning after 10 s, and then when a call takes twice as long as at the last warning.
	Busy time.Duration
	// Oldest is how long the oldest waiting change has waited. Changes of one key that fold wait since the first of them.
	Oldest time.Duration
	// Delays has the times from a change in the store to its call, for each call. Calls has the times that calls took; its
	// Max is the slowest call. For an iteration with [Informer.Changes], the body of the loop is the call.
	Delays, Calls Durations
	// Synced is true once the handler has processed the whole initial list.
	Synced bool
	// Blocking is true while the informer waits for the handler; see [DeliverEveryBlocking].
	Blocking bool
}

// subscriptionStatus returns s as the face shows it.
func subscriptionStatus(s deliver.Status) SubscriptionStatus {
	return SubscriptionStatus{
		Name:     s.Name,
		Backlog:  s.Backlog,
		Busy:     s.Busy,
		Oldest:   s.Oldest,
		Delays:   Durations(s.Delays),
		Calls:    Durations(s.Calls),
		Synced:   s.Synced,
		Blocking: s.Blocking,
	}
}

// newHub returns the hub between store and its listeners.
func newHub[T Object](resource Resource, store *Store[T]) *deliver.Hub[T] {
	h := deliver.NewHub[T]()
	h.Resource = resource.String()
	h.View = func() deliver.View[T] { return store.Snapshot() }
	return h
}

// writeTo writes batch to store and to every backlog of h, and appends its changes to changes. They are initial
// additions if initial is true.
func writeTo[T Object](h *deliver.Hub[T], store *Store[T], batch []Delta[T], changes []change[T],
	initial bool) ([]change[T], error) {
	return h.Apply(func() ([]change[T], error) { return store.apply(batch, changes) }, initial)
}

// newListener returns a listener of handler, and an error if the handler or config is wrong. [deliver.Hub.Join] takes
// both.
func newListener[T Object](h *deliver.Hub[T], handler Handler[T],
	config SubscriptionConfig[T]) (*deliver.Listener[T], error) {
	invalid := config.validate()
	if handler == nil {
		invalid = errors.New("the handler is nil")
	}
	if config.Name == "" {
		config.Name = fmt.Sprintf("%T", handler)
	}
	return deliver.NewListener(h, deliver.Handler[T](handler), deliver.Config[T]{
		Name:    config.Name,
		Filter:  config.Filter,
		Limit:   config.Delivery.limit,
		Block:   config.Delivery.block,
		Resync:  config.Resync,
		NewOnly: config.NewOnly,
		OnPanic: config.OnPanic,
	}), invalid
}

// pull yields the events of a listener, in the goroutine that iterates.
func pull[T Object](ctx context.Context, h *deliver.Hub[T], yield func(Event[T]) bool) {
	var events eventBuffer[T]
	l := deliver.NewListener[T](h, &events, deliver.Config[T]{Name: "Changes"})
	l.Pull(ctx, func() bool {
		for _, e := range events {
			if ctx.Err() != nil || !l.Open() || !yield(e) {
				return false
			}
		}
		clear(events)
		events = events[:0]
		return true
	})
}

// eventBuffer is a Handler that collects events: at most two for each pending.
type eventBuffer[T Object] []Event[T]

func (b *eventBuffer[T]) OnAdd(obj T, initial bool) {
	*b = append(*b, Event[T]{Type: Added, Object: obj, Initial: initial})
}

func (b *eventBuffer[T]) OnUpdate(old, new T) {
	*b = append(*b, Event[T]{Type: Updated, Object: new, Old: old})
}

func (b *eventBuffer[T]) OnDelete(last T, final bool) {
	*b = append(*b, Event[T]{Type: Deleted, Object: last, Final: final})
}
