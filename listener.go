package informer

import (
	"context"
	"fmt"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/status"
)

// Handler receives the changes of an informer's objects, one call at a time.
//
// For each key the calls form a chain: old is exactly the object that this handler received last. A slow handler does
// not delay others: its changes wait in a backlog of its own, where changes of one key fold into one. A handler may
// read the store and the indexes. They already have the change, and may have later ones. A handler must not write to
// the objects.
type Handler[T Object] interface {
	// OnAdd receives an object that is new to this handler. initial is true for the objects that existed when the
	// subscription began: those of the informer's first list, and those that the store had at a later subscription.
	OnAdd(obj T, initial bool)
	// OnUpdate receives an object that has replaced old. Unless Config.Transform is set with LayoutSeparate, old and new
	// share each slice, map and pointer that did not change. Comparing an unchanged part is therefore cheap, for example
	// by equality.Semantic.DeepEqual(old.Spec, new.Spec) or reflect.DeepEqual.
	OnUpdate(old, new T)
	// OnDelete receives an object that no longer exists, or that has left the informer's shard. If final is true, last is
	// its state at the deletion. Otherwise last is the last known state: the informer missed the deletion, or the object
	// no longer passes the subscription's filter.
	OnDelete(last T, final bool)
}

// HandlerFuncs is a [Handler] made of functions. Nil functions are not called.
type HandlerFuncs[T Object] struct {
	AddFunc    func(obj T, initial bool)
	UpdateFunc func(old, new T)
	DeleteFunc func(last T, final bool)
}

// OnAdd calls AddFunc.
func (h HandlerFuncs[T]) OnAdd(obj T, initial bool) {
	if h.AddFunc != nil {
		h.AddFunc(obj, initial)
	}
}

// OnUpdate calls UpdateFunc.
func (h HandlerFuncs[T]) OnUpdate(old, new T) {
	if h.UpdateFunc != nil {
		h.UpdateFunc(old, new)
	}
}

// OnDelete calls DeleteFunc.
func (h HandlerFuncs[T]) OnDelete(last T, final bool) {
	if h.DeleteFunc != nil {
		h.DeleteFunc(last, final)
	}
}

// SubscriptionConfig configures a subscription. The zero value is right for most.
type SubscriptionConfig[T Object] struct {
	// Name names the handler in status.Subscription. Empty means the type of the handler.
	Name string
	// Filter restricts the subscription to the objects for which it returns true. An object that starts to pass is
	// delivered as an addition, an object that stops passing as a deletion. The handler's goroutine calls Filter, once for
	// each version that it takes from the backlog, and more often with Durable. Nil means all objects.
	Filter func(T) bool
	// Delivery selects the changes that a slow handler receives. Zero means the latest of each key.
	Delivery Delivery
	// Resync is the period at which the handler receives every object again, by OnUpdate with equal old and new. A round
	// begins between one and 1.1 times Resync after the subscription has its initial list, or after the previous round has
	// ended. It sends no request, and changes go first. Zero means never. Resync only helps a handler that compares
	// objects with something that the informer does not watch.
	Resync time.Duration
	// NewOnly passes the zero T to OnUpdate as old. With LayoutCompact, that saves decoding the previous version.
	NewOnly bool
	// OnPanic receives the value of a panic of the handler or of Filter. It runs in the deferred function that recovers
	// the panic, so debug.Stack shows the origin of the panic. Delivery then continues as if the handler had returned, or
	// as if Filter had returned false. Nil means that the panic ends the program.
	OnPanic func(value any)
	// Durable makes the subscription continue after a restart where it stopped; see [DurableConfig]. The zero value means
	// that each subscription begins with all objects.
	Durable DurableConfig
}

// Delivery selects the changes that a slow handler receives. The zero Delivery folds the changes of one key into one:
// from the object that the handler received last to the latest. [DeliverEvery] and [DeliverEveryBlocking] return
// others.
type Delivery struct {
	limit int  // the maximum number of waiting changes; zero means that changes of one key fold
	block bool // what happens at the limit
}

// defaultMaxBacklog is the limit of a Delivery that names none.
const defaultMaxBacklog = 1024

// DeliverEvery delivers each change that the informer saw. Changes of one key that it missed while a watch was broken
// still fold into one, which it finds by listing the collection again.
//
// At most maxBacklog changes wait, in addition to one for each key, which a list can add at once. With more, the
// subscription ends, and its error is [ErrBacklog]. Zero and below mean 1,024.
func DeliverEvery(maxBacklog int) Delivery {
	if maxBacklog <= 0 {
		maxBacklog = defaultMaxBacklog
	}
	return Delivery{limit: maxBacklog}
}

// DeliverEveryBlocking is like [DeliverEvery], but the subscription does not end. While more than maxBacklog changes
// wait, the informer, its store and its other handlers wait, too. The informer checks this between batches of at most
// 1,024 changes.
func DeliverEveryBlocking(maxBacklog int) Delivery {
	d := DeliverEvery(maxBacklog)
	d.block = true
	return d
}

// ErrBacklog indicates that a subscription ended because more changes waited for its handler than [DeliverEvery]
// allows.
var ErrBacklog = deliver.ErrBacklog

// validate names the field that is wrong.
func (c *SubscriptionConfig[T]) validate() error {
	if c.Resync < 0 {
		return fmt.Errorf("SubscriptionConfig.Resync is %v: it must not be negative", c.Resync)
	}
	return c.Durable.validate()
}

// delivery returns how a listener delivers to h.
func (c *SubscriptionConfig[T]) delivery(h Handler[T]) deliver.Config {
	d := deliver.Config{
		Name:    c.Name,
		Limit:   c.Delivery.limit,
		Block:   c.Delivery.block,
		Resync:  c.Resync,
		NewOnly: c.NewOnly,
		OnPanic: c.OnPanic,
	}
	if d.Name == "" {
		d.Name = fmt.Sprintf("%T", h)
	}
	return d
}

// Event is one change as [Informer.Changes] yields it. It carries the arguments of a method of [Handler].
type Event[T Object] struct {
	Type EventType
	// Object is the new state; for Deleted, the last known state.
	Object T
	// Old is the object that this iteration yielded last for the key. Only Updated events have it.
	Old T
	// Initial is true if an Added object existed when the iteration, or the informer, began.
	Initial bool
	// Final is true if Object of a Deleted event is the state at the deletion. False means that the informer missed the
	// deletion, and that Object is the last known state.
	Final bool
}

// EventType is the type of an [Event].
type EventType uint8

const (
	// Added means that the object is new to this iteration.
	Added EventType = iota + 1
	// Updated means that the object has replaced Event.Old.
	Updated
	// Deleted means that the object is gone.
	Deleted
)

// String returns "Added", "Updated" or "Deleted".
func (t EventType) String() string {
	switch t {
	case Added:
		return "Added"
	case Updated:
		return "Updated"
	case Deleted:
		return "Deleted"
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Subscription ties a handler to an informer. Its methods are safe for concurrent use.
type Subscription struct{ listener deliver.Subscriber }

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

// Done returns a channel that is closed when the subscription has ended, the last call of the handler has returned, and
// the last save of a durable subscription has returned or failed; see Status. Err then returns the reason. The handler
// itself must not wait for Done.
func (s *Subscription) Done() <-chan struct{} { return s.listener.Released() }

// Err returns nil while the subscription is open. Afterwards it returns [ErrClosed] if Close ended it, an error that
// wraps [ErrStopped] if the informer has stopped, [ErrBacklog], an error that wraps [ErrDurableState], or the error of
// an invalid SubscriptionConfig.
func (s *Subscription) Err() error { return s.listener.Err() }

// Status returns the present status of the subscription.
func (s *Subscription) Status() status.Subscription { return s.listener.Status() }

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
