package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/reflector"
)

// WaitSynced waits until the store has the whole collection, or a list is over Config.MaxMemory.
func (f *Informer[T]) WaitSynced(ctx context.Context) error {
	return f.wait(ctx, nil, func(bool) error { return f.failure(isTooLarge) })
}

// waitSynced waits until the store has the whole collection. Unlike WaitSynced, it goes on while the informer tries
// again.
func (f *Informer[T]) waitSynced(ctx context.Context) error {
	return f.wait(ctx, nil, func(bool) error { return nil })
}

// WaitReadable is WaitSynced for a cached read; see informer.Informer.
func (f *Informer[T]) WaitReadable(ctx context.Context, timeout time.Duration) error {
	if run.IsClosed(f.Hub.Synced()) { // nearly always: a read makes no timer
		return nil
	}
	if timeout <= 0 { // no timer, which would be due at once; see testkit.After
		return f.wait(ctx, nil, func(bool) error { return f.unreadable(true) })
	}
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	return f.wait(ctx, patience.C, f.unreadable)
}

// wait waits until the store has the whole collection, or ends returns an error, which it calls at first and after each
// failure of a list. late is true after patience.
func (f *Informer[T]) wait(ctx context.Context, patience <-chan time.Time, ends func(late bool) error) error {
	if run.IsClosed(f.Hub.Synced()) {
		return nil
	}
	for late := false; ; {
		waiting := f.waiting.Next()
		if why := ends(late); why != nil {
			return f.unsynced(why)
		}
		select {
		case <-waiting:
		case <-patience:
			late = true
		case <-f.Hub.Synced():
			return nil
		case <-f.Hub.Stopped():
			return f.unsynced(ErrStopped)
		case <-ctx.Done():
			return f.unsynced(context.Cause(ctx))
		}
	}
}

// unreadable returns why a read does not wait any longer for the first lists, or nil. late is true
// after the timeout of the read.
func (f *Informer[T]) unreadable(late bool) error {
	return f.failure(func(n int, err error) string {
		switch text := isTooLarge(n, err); {
		case text != "":
			return text
		case n > 1 && fetch.IsLasting(err), errors.Is(err, fetch.ErrNoList):
			return "the server refuses it"
		case late:
			return "the read does not wait longer"
		}
		return ""
	})
}

// isTooLarge returns why WaitSynced does not wait after err, the failure of a list, or "" if it does.
func isTooLarge(_ int, err error) string {
	if errors.Is(err, budget.ErrMaxMemory) {
		return "it is over the limit of memory"
	}
	return ""
}

// failure returns the first failure of a first list for which ends returns why to end a wait. consecutive is the number
// of failures in a row.
func (f *Informer[T]) failure(ends func(consecutive int, err error) (why string)) error {
	for _, m := range f.feeder.awaited() {
		for _, feed := range m.Feeds {
			if m.Sharding.Began(feed.part.Namespace) {
				continue
			}
			if n, err := feed.Loop.Failure(); err != nil {
				if why := ends(n, err); why != "" {
					return &unreadableError{why, asUnsynced(err)}
				}
			}
		}
	}
	return nil
}

// unreadableError is why a wait for the first lists has ended.
type unreadableError struct {
	says string
	err  error // the failure of the list
}

func (e *unreadableError) Error() string { return e.says }
func (e *unreadableError) Unwrap() error { return e.err }

// unsynced returns an error that says what the store lacks and why. The error wraps cause.
func (f *Informer[T]) unsynced(cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.invalid != nil:
		return f.invalid
	case !f.started:
		return fmt.Errorf("%s: %w: %w", f.config.Name, ErrNotStarted, cause)
	}
	var why []string
	errs := []error{cause}
	for _, m := range f.feeder.mirrors() {
		for _, feed := range m.Feeds {
			part, text := feed.part, ""
			if m.Sharding.Began(part.Namespace) {
				continue
			}
			if f.config.Selections {
				text = cmp.Or(strings.TrimPrefix(part.Text, " "), "all namespaces") + ": "
			} else if part.Namespace != "" {
				text = "namespace " + part.Namespace + ": "
			}
			s := feed.Loop.Status()
			if why = append(why, text+reflector.Text(&s)); s.LastError != nil {
				errs = append(errs, asUnsynced(s.LastError))
			}
		}
	}
	return f.config.NotSynced(strings.Join(why, "; "), errs)
}

// asUnsynced returns the failure err of a list for a reader of objects. A 404 of the list must not tell the reader that
// an object does not exist.
func asUnsynced(err error) error {
	switch {
	case errors.Is(err, fetch.ErrNotServed):
		return fetch.ErrNotServed
	case apierrors.IsNotFound(err) && errors.Is(err, fetch.ErrNoList):
		return fetch.ErrNoList
	case apierrors.IsNotFound(err):
		return errors.New(err.Error())
	}
	return err
}
