package informer

import (
	"fmt"

	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/fetch"
)

// TerminalError wraps an error of Reconcile that a retry will not fix. The controller logs and counts the error, resets
// the failure count, and does not reconcile the key until the next event. TerminalError(nil) is such an error too, and
// not nil, as in controller-runtime: return nil for success.
func TerminalError(err error) error { return &terminalError{err} }

type terminalError struct{ err error } // err may be nil

func (e *terminalError) Error() string {
	if e.err == nil {
		return "terminal: TerminalError(nil)"
	}
	return "terminal: " + e.err.Error()
}

func (e *terminalError) Unwrap() error { return e.err }

// Errors of an Informer that is not running.
var (
	// ErrNotStarted indicates that Run has not been called.
	ErrNotStarted = core.ErrNotStarted
	// ErrStopped indicates that the informer has stopped. An informer cannot be started again.
	ErrStopped = core.ErrStopped
	// ErrNoWatch indicates that the server cannot watch a collection; see Config.PollEvery.
	ErrNoWatch = fetch.ErrNoWatch
	// ErrNoList indicates that a resource has no lists, such as that of TokenReviews: the server answers a list with 405,
	// or with 404 while its discovery documents show the resource without the verb list.
	ErrNoList = fetch.ErrNoList
	// ErrRunning indicates that Run has been called before.
	ErrRunning = core.ErrRunning
)

// ErrMaxMemory indicates that a collection takes more memory than Config.MaxMemory. The text has the figures.
var ErrMaxMemory = budget.ErrMaxMemory

// ErrAbsent indicates that the server does not serve a resource: it answers 404, and its discovery documents show that
// no version of the API group has the resource.
var ErrAbsent = fetch.ErrNotServed

// NotSyncedError indicates that an informer does not have the whole collection yet. It wraps the cause of the context,
// or [ErrStopped], or what [Informer.WaitReadable] returned it for, and the last failure of each missing part. It never
// meets apierrors.IsNotFound, because a reader would take that for an object that does not exist; see [ErrAbsent].
type NotSyncedError struct {
	Resource Resource
	// Why names the state of each missing part, and its last failure.
	Why  string
	errs []error
}

// Error implements error.
func (e *NotSyncedError) Error() string {
	return fmt.Sprintf("%s not synced: %s: %v", e.Resource, e.Why, e.errs[0])
}

// Unwrap returns the errors that e wraps.
func (e *NotSyncedError) Unwrap() []error { return e.errs }
