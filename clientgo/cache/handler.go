package cache

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/typedinformer/informer"
)

// minResync is the shortest resync period, as in client-go. Shorter ones are raised to it.
const minResync = time.Second

// afterPanic is the pause after a call of a handler that has panicked, as in client-go. It matters only with
// utilruntime.ReallyCrash = false: otherwise the program ends.
const afterPanic = time.Second

// handler passes the events of an informer to a handler of client-go. Each call defers HandleCrash itself, so that the
// log names the line that panicked.
type handler struct {
	to           cache.ResourceEventHandler
	registration *registration
}

func (h handler) OnAdd(obj Object, initial bool) {
	defer utilruntime.HandleCrashWithLogger(h.registration.logger, h.registration.pause)
	h.to.OnAdd(Result(obj), initial)
}

func (h handler) OnUpdate(old, new Object) {
	defer utilruntime.HandleCrashWithLogger(h.registration.logger, h.registration.pause)
	h.to.OnUpdate(Result(old), Result(new))
}

func (h handler) OnDelete(last Object, final bool) {
	defer utilruntime.HandleCrashWithLogger(h.registration.logger, h.registration.pause)
	if final {
		h.to.OnDelete(Result(last))
		return
	}
	h.to.OnDelete(cache.DeletedFinalStateUnknown{Key: keyOf(last), Obj: Result(last)})
}

// registration is the handle that AddEventHandler returns for a handler.
type registration struct {
	handler  cache.ResourceEventHandler
	name     string          // of the handler
	resync   []time.Duration // for each part
	logger   klog.Logger
	informer string        // the name of the informer
	synced   chan struct{} // closed when the handler has processed the initial list
	leaves   chan struct{} // closed when the handler is removed
	ended    chan struct{} // closed when the last call of the handler has returned

	mu   sync.Mutex // protects the fields below
	subs []*informer.Subscription
	gone bool // the handler was removed, or the informer has stopped
}

// newRegistration returns the handle of h. informer is the name of the informer.
func newRegistration(h cache.ResourceEventHandler, informer string, resync []time.Duration,
	logger klog.Logger) *registration {
	return &registration{
		handler:  h,
		name:     fmt.Sprintf("%T", h),
		resync:   resync,
		logger:   logger,
		informer: informer,
		synced:   make(chan struct{}),
		leaves:   make(chan struct{}),
		ended:    make(chan struct{}),
	}
}

// subscribe subscribes the handler to the parts of an informer that runs or is about to run. follow must run
// afterwards.
func (r *registration) subscribe(to []*informer.Informer[Object]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return nil
	}
	for n, i := range to {
		sub := i.Subscribe(handler{r.handler, r}, informer.SubscriptionConfig[Object]{
			Name: r.name,
			// As in client-go, any number of changes may wait.
			Delivery: informer.DeliverEvery(math.MaxInt),
			Resync:   r.resync[n],
		})
		r.subs = append(r.subs, sub)
		if err := sub.Err(); err != nil {
			r.closeLocked()
			return err
		}
	}
	return nil
}

// pause waits after a panic, unless the program ends or the handler is removed.
func (r *registration) pause(context.Context, any) {
	if utilruntime.ReallyCrash {
		return
	}
	timer := time.NewTimer(afterPanic)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.leaves:
	}
}

// follow closes the channels of r, and returns when the subscriptions have ended.
func (r *registration) follow() {
	defer close(r.ended)
	r.mu.Lock()
	subs := r.subs
	r.mu.Unlock()
	if waitSynced(subs) {
		close(r.synced)
	}
	for _, sub := range subs {
		<-sub.Done()
	}
}

// remove ends the handler. It does not wait for a call under way.
func (r *registration) remove() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone && r.subs == nil {
		close(r.ended) // nobody follows
	}
	r.closeLocked()
}

func (r *registration) closeLocked() {
	if !r.gone {
		close(r.leaves)
	}
	r.gone = true
	for _, sub := range r.subs {
		sub.Close()
	}
}

// HasSynced reports whether the handler has processed the initial list.
func (r *registration) HasSynced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sub := range r.subs {
		if !sub.HasSynced() {
			return false
		}
	}
	return len(r.subs) > 0
}

// HasSyncedChecker returns a checker that is done when HasSynced returns true.
func (r *registration) HasSyncedChecker() cache.DoneChecker {
	return checker{r.informer + " + event handler " + r.name, r.synced}
}

// ShutdownChan returns a channel that is closed when the handler was removed, or the informer has stopped, and the last
// call of the handler has returned. cache.ShutDownEventHandler uses it.
func (r *registration) ShutdownChan() <-chan struct{} { return r.ended }

// checker is a [cache.DoneChecker].
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }

// waitSynced waits until all subscriptions have synced. It returns false if one ends first.
func waitSynced(subs []*informer.Subscription) bool {
	for _, sub := range subs {
		if sub.WaitSynced(context.Background()) != nil {
			return false
		}
	}
	return len(subs) > 0
}
