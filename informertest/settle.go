package informertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
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
		Status() status.Controller
	}
	aQueue interface{ Status() status.Queue }
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
			missing, err := s.arrive(ctx, part)
			if err != nil {
				return "", "", err
			}
			note(missing)
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

// arrivalPatience is how long arrive waits. After that, another watch of the informer may be open, or held.
const arrivalPatience = 10 * time.Millisecond

// arrive waits for a while until an informer has the changes that are not held. It then says what is missing, if
// anything is.
func (s *Server) arrive(ctx context.Context, i anInformer) (missing string, err error) {
	resource := i.Resource().GroupVersionResource
	version, ok := s.sendBookmarks(resource)
	if !ok {
		return "", nil
	}
	target, missing := s.arrivable(version, i.Status())
	if target == 0 || missing != "" {
		return missing, nil
	}
	if have, err := strconv.ParseUint(i.Status().ResourceVersion, 10, 64); err == nil && have >= target {
		return "", nil
	}
	patience, cancel := context.WithTimeout(ctx, arrivalPatience)
	defer cancel()
	err = i.WaitForResourceVersion(patience, strconv.FormatUint(target, 10))
	if err == nil {
		return "", nil
	}
	missing = fmt.Sprintf("the informer of %s has not received resource version %d", resource.Resource, target)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("informertest: not settled: %s: %w", missing, context.Cause(ctx))
	case patience.Err() != nil && !errors.Is(err, informer.ErrStopped):
		return missing, nil
	}
	return "", fmt.Errorf("informertest: not settled: %s: %w", missing, err)
}

// sendBookmarks makes the watches of a resource send bookmarks, so that also those informers reach the server's version
// whose selectors exclude the latest changes. It returns that version, or false if the server lacks the resource.
func (s *Server) sendBookmarks(resource schema.GroupVersionResource) (version uint64, ok bool) {
	s.mu.Lock()
	version = s.rv
	c := s.collections[resource]
	s.mu.Unlock()
	if c == nil {
		return 0, false
	}
	c.cache.SendBookmarks()
	return version, true
}

// arrivable returns the version that an informer is going to reach: that of the server, unless one of its own watches
// is held. Zero means that there is none. While a watch is held, missing says what the others lack, because the version
// of the store is that of the slowest.
func (s *Server) arrivable(version uint64, status informer.InformerStatus) (target uint64, missing string) {
	target = version
	for _, reflector := range status.Reflectors {
		stream := s.stream(reflector.Traffic.AuditID)
		if stream == nil {
			continue
		}
		reaches, held := stream.reachable()
		if !held {
			reaches = version
		}
		have, _ := strconv.ParseUint(reflector.ResourceVersion, 10, 64)
		if have < reaches {
			missing = fmt.Sprintf("a watch of %s has not received resource version %d", status.Resource.Resource, reaches)
		}
		target = min(target, reaches)
	}
	if target == version {
		missing = ""
	}
	return target, missing
}

// stream returns the open watch with that Audit-Id, or nil.
func (s *Server) stream(auditID string) *watchStream {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	i := slices.IndexFunc(s.streams, func(w *watchStream) bool { return auditID != "" && w.req.auditID == auditID })
	if i < 0 {
		return nil
	}
	return s.streams[i]
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
func busyQueue(name string, s status.Queue, active int) string {
	ready := s.Depth.Sum()
	if ready == 0 && s.InWork == 0 && active == 0 {
		return ""
	}
	return fmt.Sprintf("%s has %d keys that are ready, and %d in work", name, ready, s.InWork)
}
