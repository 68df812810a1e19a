package informertest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
)

// Settle waits until all that the server has so far has arrived in the parts of a program, and neither these nor the
// server's [Controllers] have anything left to do. A part is
//
//   - an *informer.Informer: its store has every change, and its handlers have been called with them,
//   - an *informer.Controller: it reconciles nothing, and no key is ready,
//   - an *informer.Queue: likewise,
//   - a func() bool, which reports whether something else has nothing to do. Settle calls it often.
//
// A key whose delay has not ended is not ready, and events that a [Hold] keeps need not arrive. If the parts write to the
// server, Settle waits for what follows from that too, so it does not return while two controllers keep each other busy.
//
// If ctx ends first, the error says what is not settled, and wraps the cause of ctx. If an informer has stopped, it wraps
// informer.ErrStopped.
//
// Outside of a testing/synctest bubble, Settle looks every millisecond, twice in a row, so it may miss what a goroutine
// does that is none of these parts. In a bubble, each look comes when every goroutine waits.
func (s *Server) Settle(ctx context.Context, parts ...any) error {
	last, calm := "", 0
	for {
		state, busy, err := s.look(ctx, parts)
		if err != nil {
			return err
		}
		if busy == "" && state == last {
			if calm++; calm == 2 {
				return nil
			}
		} else {
			calm = 0
		}
		last = state
		if err := run.Sleep(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("informertest: not settled: %s: %w", busy, context.Cause(ctx))
		}
	}
}

// The parts of a program that Settle knows.
type (
	anInformer interface {
		Resource() informer.Resource
		Status() informer.InformerStatus
		WaitForResourceVersion(ctx context.Context, resourceVersion string) error
	}
	aController interface {
		Status() informer.ControllerStatus
	}
	aQueue interface{ Status() informer.QueueStatus }
)

// look returns the state of the parts, which differs after they have done something, and what is busy, if anything is.
func (s *Server) look(ctx context.Context, parts []any) (state, busy string, err error) {
	var text strings.Builder
	text.WriteString(s.ResourceVersion())
	note := func(what string) {
		if what != "" && busy == "" {
			busy = what
		}
	}
	if !s.controllers.idle() {
		note("the controllers of the server")
	}
	for _, part := range parts {
		switch part := part.(type) {
		case anInformer:
			if err := s.arrive(ctx, part); err != nil {
				return "", "", err
			}
			note(busyInformer(part.Status()))
		case aController:
			status := part.Status()
			fmt.Fprint(&text, " ", status.Succeeded+status.RequeuedAfter+status.BackedOff+status.Failed, status.Queue.Adds)
			note(busyQueue(fmt.Sprintf("the controller %q", status.Name), status.Queue, status.Active))
		case aQueue:
			status := part.Status()
			fmt.Fprint(&text, " ", status.Adds)
			note(busyQueue(fmt.Sprintf("the queue %q", status.Name), status, 0))
		case func() bool:
			if !part() {
				note("a function returns false")
			}
		default:
			return "", "", fmt.Errorf("informertest: Settle does not know what a %T has to do", part)
		}
	}
	return text.String(), busy, nil
}

// arrive waits until an informer has the changes that are not held.
func (s *Server) arrive(ctx context.Context, i anInformer) error {
	resource := i.Resource().GroupVersionResource
	target := s.arrivable(resource)
	if target == 0 {
		return nil
	}
	if have, err := strconv.ParseUint(i.Status().ResourceVersion, 10, 64); err == nil && have >= target {
		return nil
	}
	if err := i.WaitForResourceVersion(ctx, strconv.FormatUint(target, 10)); err != nil {
		return fmt.Errorf("informertest: not settled: the informer of %s has not received resource version %d: %w",
			resource.Resource, target, err)
	}
	return nil
}

// arrivable returns the version that every informer of a resource is going to reach, and makes its watches send
// bookmarks, so that also those reach it whose selectors exclude the latest changes. Zero means that there is none.
func (s *Server) arrivable(resource schema.GroupVersionResource) (version uint64) {
	s.mu.Lock()
	c := s.collections[resource]
	version = s.rv
	s.mu.Unlock()
	if c == nil {
		return 0
	}
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	for _, stream := range s.streams {
		if stream.req.Resource == resource {
			version = min(version, stream.reachable())
		}
	}
	c.cache.SendBookmarks()
	return version
}

// reachable returns the version that the client of the watch is going to reach without what is held.
func (w *watchStream) reachable() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return ^uint64(0)
	}
	delivered, _ := strconv.ParseUint(w.version, 10, 64) // 0 if nothing was
	return delivered
}

// busyInformer says what an informer has to do, or nothing.
func busyInformer(s informer.InformerStatus) string {
	if s.Queued > 0 {
		return fmt.Sprintf("the informer of %s has changes on their way to the store", s.Resource.Resource)
	}
	for _, h := range s.Handlers {
		if h.Backlog > 0 || h.Busy > 0 || s.Synced && !h.Synced {
			return fmt.Sprintf("the handler %q of the informer of %s has a backlog of %d", h.Name, s.Resource.Resource,
				h.Backlog)
		}
	}
	return ""
}

// busyQueue says what a queue has to do, or nothing.
func busyQueue(name string, s informer.QueueStatus, active int) string {
	ready := 0
	for _, n := range s.Depth {
		ready += n
	}
	if ready == 0 && s.InWork == 0 && active == 0 {
		return ""
	}
	return fmt.Sprintf("%s has %d keys that are ready, and %d in work", name, ready, s.InWork)
}
