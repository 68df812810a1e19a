package cache

import (
	"errors"
	"net/http"

	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
)

// bridge is the transport of an informer over a [cache.ListerWatcher]. The informer takes the objects of the
// ListerWatcher as they are; it finds the methods ListWithContext and WatchWithContext in the transport.
type bridge struct{ cache.ListerWatcherWithContext }

// RoundTrip rejects all other requests, such as those for discovery documents.
func (bridge) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("a ListerWatcher only lists and watches")
}

// streams reports whether a ListerWatcher says that it knows streaming lists. If it says nothing, it may
// ignore sendInitialEvents, as a fake clientset does, and would then never end the list.
func streams(lw cache.ListerWatcher) bool {
	says, ok := lw.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && !says.IsWatchListSemanticsUnSupported() && features.FeatureGates().Enabled(features.WatchListClient)
}
