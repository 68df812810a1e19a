package ondemand

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/notfound"
	"github.com/typedinformer/informer/internal/object"
)

// ID is what an object, or its metadata, is compared by.
type ID struct {
	UID     types.UID
	Version string // the resource version
}

// notOlder reports whether an object is at the version of some metadata or at a newer one. An object that was deleted
// and created again has another UID and a newer version. Versions are decimal numbers, as KEP-5504 defines them; others
// cannot be ordered, which is an error unless the two are equal.
func (id ID) notOlder(metadata ID) (bool, error) {
	if id == metadata && id.Version != "" {
		return true, nil
	}
	order, err := resourceversion.CompareResourceVersion(id.Version, metadata.Version)
	if err != nil {
		return false, fmt.Errorf("version %.100q of the object and %.100q of its metadata cannot be ordered: %w", id.Version,
			metadata.Version, err)
	}
	return order > 0, nil
}

// Object is a whole object, as it was read from the server.
type Object[T any] struct {
	Value T
	ID    ID
}

// ErrStale indicates that the server sent an object that is older than its metadata.
var ErrStale = errors.New("the server has an older object than the store has metadata: it may have been restored from " +
	"a backup, or another server has answered")

// errChanging is the error of a read that never saw an object at the version of its metadata.
var errChanging = errors.New("the object was deleted and created again, or changed, during each of several requests")

// isGone reports whether the server answered that it has no object with that key. Any other 404, such as one of a proxy
// or of a server that does not serve the resource, says nothing about the object.
func isGone(err error, key object.Key) bool {
	var answer apierrors.APIStatus
	if !notfound.Is(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Name == key.Name
}

// asFetched returns the error of a request. It hides the status of a 404 that says nothing about the object, so that
// nobody takes it for a missing object.
func asFetched(err error, key object.Key) error {
	if apierrors.IsNotFound(err) && !isGone(err, key) {
		return fmt.Errorf("get %s: the 404 is not about the object: %v", key, err)
	}
	return err
}

// isAhead reports whether the server answered that it has not reached the requested version.
func isAhead(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
