package notfound

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIs(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", leases, "a", "404 page not found", 0, true)
	for err, want := range map[error]bool{
		nil:                                false,
		errors.New("not found"):            false,
		apierrors.NewNotFound(leases, "a"): true,
		fmt.Errorf("get: %w", apierrors.NewNotFound(leases, "a")): true,
		page:                                    false,
		fmt.Errorf("get: %w", page):             false,
		apierrors.NewConflict(leases, "a", nil): false,
	} {
		if got := Is(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}
