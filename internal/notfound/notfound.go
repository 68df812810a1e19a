// Package notfound tells a missing object from a missing page.
package notfound

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Is reports whether the API server has answered that an object does not exist. [apierrors.IsNotFound] is also true for
// a 404 without a Status, which a proxy sends while it has no server behind it.
func Is(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
