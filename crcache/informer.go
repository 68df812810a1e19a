package crcache

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
)

// defaultSyncPeriod is that of controller-runtime.
const defaultSyncPeriod = 10 * time.Hour

// minResync is the shortest resync period, as in client-go. Shorter ones are raised to it.
const minResync = time.Second

// AddEventHandler adds a handler that receives all objects, then each change, and all objects again after each
// SyncPeriod.
func (k *kind) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration,
	error) {
	return k.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod is AddEventHandler with a resync period. Zero means no resync.
func (k *kind) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler,
	resync time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions is AddEventHandler with a resync period, if options has one.
func (k *kind) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if handler == nil {
		return nil, fmt.Errorf("add a handler to the informer of %s: it is nil", k.id.gvk.Kind)
	}
	r := &registration{kind: k}
	for _, p := range k.parts {
		sub := p.informer.SubscribeWith(handlerOf{handler}, informer.SubscriptionConfig[client.Object]{
			Name: fmt.Sprintf("%T", handler),
			// Each change, however many wait, as in client-go; see the documentation of the package.
			Delivery: informer.DeliverEvery(math.MaxInt),
			Resync:   p.resync(options.ResyncPeriod),
		})
		if err := sub.Err(); err != nil {
			r.close()
			return nil, fmt.Errorf("add a handler: %w", err)
		}
		r.subscriptions = append(r.subscriptions, sub)
	}
	return r, nil
}

// resync returns how often a handler receives every object again. own is its own period, if it has one.
func (p *part) resync(own *time.Duration) time.Duration {
	period := defaultSyncPeriod
	if p.config.SyncPeriod != nil {
		period = *p.config.SyncPeriod
	}
	if own != nil {
		period = *own
	}
	if period <= 0 {
		return 0
	}
	return max(period, minResync)
}

// RemoveEventHandler removes a handler that this informer has. It does not wait for a call under way. It does nothing
// if the handler has been removed before.
func (k *kind) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok || r.kind != k {
		return fmt.Errorf("remove a handler from the informer of %s: the registration is of another informer", k.id.gvk.Kind)
	}
	r.close()
	return nil
}

// HasSynced reports whether the cache has all objects of the kind.
func (k *kind) HasSynced() bool { return k.hasSynced() }

// HasSyncedChecker returns a checker that is done when HasSynced returns true.
func (k *kind) HasSyncedChecker() toolscache.DoneChecker {
	return newChecker("cache of "+k.id.gvk.String(), k.waitSynced)
}

// IsStopped reports whether the informer has stopped, and with it all handlers.
func (k *kind) IsStopped() bool {
	for _, p := range k.parts {
		if !p.stopped() {
			return false
		}
	}
	return true
}

func (p *part) stopped() bool { return run.IsClosed(p.done) }

func (k *kind) errStopped() error {
	return fmt.Errorf("the informer of %s: %w", k.id.gvk.Kind, informer.ErrStopped)
}

// handlerOf is the handler of an informer for one of client-go.
type handlerOf struct {
	handler toolscache.ResourceEventHandler
}

func (h handlerOf) OnAdd(obj client.Object, initial bool) { h.handler.OnAdd(shown(obj), initial) }

func (h handlerOf) OnUpdate(old, new client.Object) { h.handler.OnUpdate(shown(old), shown(new)) }

func (h handlerOf) OnDelete(last client.Object, final bool) {
	if final {
		h.handler.OnDelete(shown(last))
		return
	}
	h.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: keyOf(last), Obj: shown(last)})
}

// registration is the handle of a handler.
type registration struct {
	kind          *kind
	subscriptions []*informer.Subscription // one for each part
}

func (r *registration) close() {
	for _, sub := range r.subscriptions {
		sub.Close()
	}
}

// HasSynced reports whether the handler has processed all objects that the cache had at first.
func (r *registration) HasSynced() bool {
	for _, sub := range r.subscriptions {
		if !sub.HasSynced() {
			return false
		}
	}
	return true
}

// HasSyncedChecker returns a checker that is done when HasSynced returns true.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	var names []string
	for _, sub := range r.subscriptions {
		names = append(names, sub.Status().Name)
	}
	return newChecker("handler "+strings.Join(names, ", ")+" of "+r.kind.id.gvk.String(), func(ctx context.Context) error {
		for _, sub := range r.subscriptions {
			if err := sub.WaitSynced(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// checker is a [toolscache.DoneChecker]. It starts a goroutine when somebody asks for its channel.
type checker struct {
	name string
	wait func(context.Context) error
	once sync.Once
	done chan struct{}
}

func newChecker(name string, wait func(context.Context) error) *checker {
	return &checker{name: name, wait: wait, done: make(chan struct{})}
}

func (c *checker) Name() string { return c.name }

// Done returns a channel that is closed when the wait is over. It stays open if the informer or the handler ends first.
func (c *checker) Done() <-chan struct{} {
	c.once.Do(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if c.wait(ended) == nil {
			close(c.done)
			return
		}
		go func() {
			if c.wait(context.Background()) == nil {
				close(c.done)
			}
		}()
	})
	return c.done
}
