package set

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// Handler receives the changes of the objects of a [Set]. Its methods are those of an [informer.Handler] with the
// member that has the object. Calls for one member come one at a time, in order. Calls for different members may be
// concurrent.
type Handler[ID comparable, T informer.Object] interface {
	OnAdd(id ID, obj T, initial bool)
	OnUpdate(id ID, old, new T)
	OnDelete(id ID, last T, final bool)
}

// HandlerFuncs is a [Handler] made of functions. Nil functions are not called.
type HandlerFuncs[ID comparable, T informer.Object] struct {
	AddFunc    func(id ID, obj T, initial bool)
	UpdateFunc func(id ID, old, new T)
	DeleteFunc func(id ID, last T, final bool)
}

// OnAdd calls AddFunc.
func (h HandlerFuncs[ID, T]) OnAdd(id ID, obj T, initial bool) {
	if h.AddFunc != nil {
		h.AddFunc(id, obj, initial)
	}
}

// OnUpdate calls UpdateFunc.
func (h HandlerFuncs[ID, T]) OnUpdate(id ID, old, new T) {
	if h.UpdateFunc != nil {
		h.UpdateFunc(id, old, new)
	}
}

// OnDelete calls DeleteFunc.
func (h HandlerFuncs[ID, T]) OnDelete(id ID, last T, final bool) {
	if h.DeleteFunc != nil {
		h.DeleteFunc(id, last, final)
	}
}

// memberHandler is a handler of a set for one of its members.
type memberHandler[ID comparable, T informer.Object] struct {
	id      ID
	handler Handler[ID, T]
}

func (h memberHandler[ID, T]) OnAdd(obj T, initial bool)   { h.handler.OnAdd(h.id, obj, initial) }
func (h memberHandler[ID, T]) OnUpdate(old, new T)         { h.handler.OnUpdate(h.id, old, new) }
func (h memberHandler[ID, T]) OnDelete(last T, final bool) { h.handler.OnDelete(h.id, last, final) }

// SubscriptionConfig configures a subscription. The zero value is right for most.
type SubscriptionConfig struct {
	// Name names the handler in status.Subscription. Empty means the type of the handler.
	Name string
	// Delivery selects the changes that a slow handler receives. Zero means the latest of each key. A limit counts for
	// each member.
	Delivery informer.Delivery
	// Resync, NewOnly and OnPanic are those of [informer.SubscriptionConfig]. Each member has rounds of its own.
	Resync  time.Duration
	NewOnly bool
	OnPanic func(value any)
}

// Subscription ties a handler to a [Set], as one subscription to each member. Its methods are safe for concurrent use.
type Subscription struct {
	leave func()          // removes it from the set
	known <-chan struct{} // closed when the set has its first members
	over  <-chan struct{} // closed when the set has stopped

	mu      sync.Mutex // protects the fields below; the last lock in the order of the set
	members map[*life]joined
	err     error         // why it has ended, unless the set has stopped; nil while it is open
	done    chan struct{} // closed when it was closed, and no call is under way
}

// joined is the part of a subscription of a set for one member.
type joined struct {
	*informer.Subscription
	leaves bool // the member was removed; the handler still receives what is left
}

// subscriber is a subscription of a set, which members join.
type subscriber[ID comparable, T informer.Object] struct {
	*Subscription
	handler Handler[ID, T]
	config  informer.SubscriptionConfig[T]
}

// Subscribe registers h for the objects of all members, also those that are added later. For each member, it first
// calls OnAdd for every object in the store, and then delivers every later change.
//
// If h is nil or c is wrong, Subscribe returns a subscription that has ended; see [Subscription.Err].
func (s *Set[ID, T]) Subscribe(h Handler[ID, T], c SubscriptionConfig) *Subscription {
	sub := &Subscription{known: s.config.Known, over: s.over, members: map[*life]joined{}, done: make(chan struct{})}
	p := &subscriber[ID, T]{sub, h, informer.SubscriptionConfig[T]{
		Name:     cmp.Or(c.Name, fmt.Sprintf("%T", h)),
		Delivery: c.Delivery,
		Resync:   c.Resync,
		NewOnly:  c.NewOnly,
		OnPanic:  c.OnPanic,
	}}
	sub.leave = func() { s.detach(p) }
	if h == nil {
		sub.end(errors.New("subscribe to a set: the handler is nil"))
	} else if c.Resync < 0 {
		sub.end(fmt.Errorf("subscribe to a set: Resync is %v: it must not be negative", c.Resync))
	} else {
		s.attach(p)
	}
	return sub
}

// attach makes p join all members, and those that come later.
func (s *Set[ID, T]) attach(p part[ID, T]) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.parts = append(s.parts, p)
	for _, m := range s.all() {
		p.join(m)
	}
}

// detach removes p.
func (s *Set[ID, T]) detach(p part[ID, T]) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.parts = slices.DeleteFunc(s.parts, func(other part[ID, T]) bool { return other == p })
}

// join implements part.
func (p *subscriber[ID, T]) join(m *member[ID, T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.members[&m.life] = joined{Subscription: m.informer.Subscribe(memberHandler[ID, T]{m.id, p.handler}, p.config)}
	}
}

// leave implements part.
func (p *subscriber[ID, T]) leave(m *member[ID, T], delivers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch sub, ok := p.members[&m.life]; {
	case !ok:
	case delivers:
		sub.leaves = true
		p.members[&m.life] = sub
	default:
		sub.Close()
		delete(p.members, &m.life)
	}
}

// Close ends the subscription. After Close has returned, no call of the handler begins. Close does not wait for calls
// under way, so a handler may call it. Closing again does nothing.
func (s *Subscription) Close() {
	if s.end(informer.ErrClosed) {
		s.leave()
	}
}

// end ends the subscription. It returns false if it has ended before.
func (s *Subscription) end(why error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	members := s.members
	s.err, s.members = why, nil
	for _, sub := range members {
		sub.Close()
	}
	for _, sub := range members {
		if !run.IsClosed(sub.Done()) {
			go func() { // until the last call under way returns
				for _, sub := range members {
					<-sub.Done()
				}
				close(s.done)
			}()
			return true
		}
	}
	close(s.done)
	return true
}

// Done returns a channel that is closed when Close has ended the subscription and the last call of the handler has
// returned. If the set stops first, Run waits for the calls; receive from Done only after Close.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Err returns nil while the subscription is open. Afterwards it returns [informer.ErrClosed] if Close ended it, an
// error that wraps [informer.ErrStopped] if the set has stopped, or the reason why it never began. If the
// subscription to one member has ended by itself, Err returns that error, which names the member. The other members
// go on.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case run.IsClosed(s.over):
		return fmt.Errorf("the set has stopped: %w", informer.ErrStopped)
	}
	for m, sub := range s.members {
		if err := sub.Err(); !sub.leaves && err != nil && !errors.Is(err, informer.ErrStopped) {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// HasSynced reports whether the members are known, and the handler has processed the first lists of all present ones.
func (s *Subscription) HasSynced() bool {
	if !run.IsClosed(s.known) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.members {
		if !sub.leaves && !sub.HasSynced() {
			return false
		}
	}
	return s.err == nil
}

// WaitSynced waits until the members are known, and the handler has processed the first lists of all that are in the
// set then, and returns nil. A member that is removed meanwhile does not count. If ctx ends first, it returns a
// [*NotSyncedError], which names the others. It returns the error of Err if the subscription ends first.
func (s *Subscription) WaitSynced(ctx context.Context) error {
	return s.wait(ctx, func(m *life, sub joined) error { return sub.WaitSynced(ctx) })
}

// wait waits until the members are known, and calls do for each that is in the subscription then. It returns the errors
// for those that are still in it.
func (s *Subscription) wait(ctx context.Context, do func(*life, joined) error) error {
	if err := s.waitKnown(ctx); err != nil {
		return err
	}
	var failed NotSyncedError
	members := s.present()
	for m, sub := range members {
		if err := do(m, sub); err != nil && s.has(m) {
			failed.add(m.name, err)
		}
	}
	if err := s.ended(); err != nil {
		return err
	}
	return failed.of(len(members))
}

// waitKnown waits until the members are known. It returns the error of Err if the subscription ends first.
func (s *Subscription) waitKnown(ctx context.Context) error {
	if run.IsClosed(s.known) {
		return nil
	}
	ctx, end := run.Until(ctx, s.done, errEnded)
	defer end()
	err := waitKnown(ctx, s.known, s.over)
	if err != nil && errors.Is(context.Cause(ctx), errEnded) {
		return s.ended()
	}
	return err
}

var errEnded = errors.New("the subscription has ended")

// present returns the members that are in the set.
func (s *Subscription) present() map[*life]joined {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := maps.Clone(s.members)
	maps.DeleteFunc(members, func(_ *life, sub joined) bool { return sub.leaves })
	return members
}

func (s *Subscription) has(m *life) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, ok := s.members[m]
	return ok && !sub.leaves
}

// ended returns why the whole subscription has ended.
func (s *Subscription) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Status returns the status over all present members: Backlog is the sum, Busy and Oldest are those of the slowest one,
// and there are no Delays and Calls. The status of an informer has those of its part.
func (s *Subscription) Status() status.Subscription {
	total := status.Subscription{Synced: s.HasSynced()}
	for _, sub := range s.present() {
		part := sub.Status()
		total.Name = part.Name
		total.Backlog += part.Backlog
		total.Blocking = total.Blocking || part.Blocking
		total.Busy, total.Oldest = max(total.Busy, part.Busy), max(total.Oldest, part.Oldest)
	}
	return total
}
