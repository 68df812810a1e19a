package fetch

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/source/transport"
)

// Failures after which the reflector does not simply repeat the request.
var (
	// ErrNotServed indicates a 404 for a resource that no version of its API group has.
	ErrNotServed = errors.New("discovery shows that no version of the API group has the resource")
	// ErrWentBack indicates a resource version that precedes one that the server has sent.
	ErrWentBack = errors.New("the server went back in time")
	// ErrBehind indicates that the server has not reached the resource version of the sink. The reflector lists at any
	// version, which shows whether the server went back in time.
	ErrBehind = errors.New("the server has not reached the resource version of the store")
	// ErrNoWatch indicates that the collection cannot be watched: the server refuses a watch with 405 or 501, answers it
	// with a list, or sends no resource version. The reflector lists from time to time.
	ErrNoWatch = errors.New("the server cannot watch the collection")
	// ErrNoList indicates that the resource has no lists: the server answers one with 405, or with 404 while discovery
	// shows the resource without the verb list.
	ErrNoList = errors.New("the resource has no lists")
	// ErrNoNumber indicates a resource version that is not a decimal number, although the one before it was. The reflector
	// lists.
	ErrNoNumber = errors.New("the server sent a resource version that is not a number")
	// ErrUnknownDeleted indicates a deletion without a name. The reflector then lists the remaining objects.
	ErrUnknownDeleted = errors.New("the server reported the deletion of an object without its name")
	// ErrUnknownLarge indicates a change of an object over the size limit whose name is not in its first bytes. The
	// reflector lists.
	ErrUnknownLarge = errors.New("the server sent a change of an object whose name does not precede the size limit")
	// ErrForeign indicates an object of another namespace. The reflector lists.
	ErrForeign = errors.New("the server sent an object of another namespace than requested")
	// ErrUnexplained indicates an error event that does not say what happened. The reflector lists.
	ErrUnexplained = errors.New("an error event does not say what happened")
	// ErrNoStreaming indicates that a streaming list is not possible. The reflector falls back to a paged list.
	ErrNoStreaming = errors.New("streaming list not possible")
	// ErrNoListAt indicates that the server cannot list the collection at exactly the resource version of the sink. After
	// a change of the shard, the reflector then lists the whole shard.
	ErrNoListAt = errors.New("a list at exactly that resource version is not possible")
	// ErrDiverged indicates that the sink differs from the server at the same resource version. The reflector lists.
	ErrDiverged = errors.New("the store differs from the server")
	// ErrNoConfirmation indicates that a warm start has not caught up. The reflector lists.
	ErrNoConfirmation = errors.New(
		"the server has not confirmed that the watch has every change since the state was saved")
)

// ErrEmptyWatch indicates a watch without an event that ended within a second. It counts as a failure, so a backoff
// precedes the next watch.
var ErrEmptyWatch = errors.New("the server ended the watch at once")

// ErrUpdated indicates that the client was updated while a request was under way. It is no failure: the reflector sends
// the request again.
var ErrUpdated = transport.ErrUpdated

// errTokens indicates that a list cannot be read page by page. It does not wrap the 410, which would mean that the
// version is too old.
var errTokens = errors.New("a continue token has expired again, after the list began anew: " +
	"the server forgets tokens before the next page is read")

var errNoVersion = errors.New("watch: the server sent a bookmark without resource version")

// IsTooLarge reports whether err means that the server has not reached the requested resource version.
func IsTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// IsLasting reports whether err is a failure of a list that a retry seldom ends: the credentials, the permission or the
// resource is missing, or the resource has no lists.
func IsLasting(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || errors.Is(err, ErrNotServed) ||
		errors.Is(err, ErrNoList)
}

// isRefusal reports whether the server rejected the form of the request, and not the client, the resource or the
// resource version.
func isRefusal(err error) bool {
	switch code := transport.StatusCode(err); code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500 || code == http.StatusNotImplemented
	}
}

// unwatchable returns an ErrNoWatch if err, the outcome of a watch, means that the server cannot watch the collection.
func unwatchable(err error) error {
	switch transport.StatusCode(err) {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", ErrNoWatch, err)
	}
	return err
}

// unlistable returns an ErrNoList if err, the outcome of a list, means that the resource has no lists.
func unlistable(err error) error {
	if transport.StatusCode(err) == http.StatusMethodNotAllowed {
		return fmt.Errorf("%w: %w", ErrNoList, err)
	}
	return err
}
