package transport

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Values is a transport of objects that are Go values already: nothing encodes or decodes them. A [Client] whose
// rest.Config.Transport is one lists and watches by it. The methods are those of client-go's
// cache.ListerWatcherWithContext.
type Values interface {
	http.RoundTripper // for all other requests
	// ListWithContext returns a list. It may ignore any option.
	ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	// WatchWithContext opens a watch. It may ignore any option.
	WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}
