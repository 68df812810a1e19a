package factory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/internal/apipath"
	"github.com/typedinformer/informer/clientgo/internal/shards"
)

// recordingHost is the server to which a clientset that records sends its requests. Nobody serves it.
const recordingHost = "http://recording.invalid"

// patience is how long an informer of client-go may take until its first request.
const patience = 5 * time.Second

// recorder is the transport of a clientset that records the first request of an informer. It answers requests only for
// probe.
type recorder struct {
	mu    sync.Mutex // protects the fields below
	first chan *url.URL
	list  []byte // of probe
}

// RoundTrip implements http.RoundTripper. It returns when the informer stops.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	r.mu.Lock()
	if ctx.Err() == nil && r.first != nil {
		r.first <- req.URL
		r.first = nil
	}
	list := r.list
	r.mu.Unlock()
	if list != nil {
		return answer(req, list)
	}
	<-ctx.Done()
	if req.URL.Query().Has("watch") {
		// After any other error of a streaming list, the informer lists, in a goroutine that outlives it and calls the function
		// that tweaks the options once more.
		return nil, apierrors.NewResourceExpired("the informer has stopped")
	}
	return nil, context.Cause(ctx)
}

// recorded describes an informer of client-go: its collection and its settings.
type recorded struct {
	resource    informer.Resource
	indexers    clientcache.Indexers
	resync      time.Duration
	description string
	pageSize    int
	transforms  bool // it has a transform, which cannot be read
}

// record runs an informer of client-go, whose client has the recorder as transport, until its first request. It returns
// an error if an informer of this project cannot replace it.
func (r *recorder) record(i clientcache.SharedIndexInformer) (recorded, error) {
	settings, err := settingsOf(i)
	if err != nil {
		return recorded{}, err
	}
	where, err := r.firstRequest(i)
	if err != nil {
		return recorded{}, err
	}
	resource, err := apipath.Collection(where.Path)
	if err != nil {
		return recorded{}, fmt.Errorf("the request of the informer: %w", err)
	}
	query := where.Query()
	resource.LabelSelector, resource.FieldSelector = query.Get("labelSelector"), query.Get("fieldSelector")
	// From client-go 0.38 on, an informer has a field shardSelector, and sends it.
	if resource.Shard, err = shards.Parse(query.Get("shardSelector")); err != nil {
		return recorded{}, fmt.Errorf("the request of the informer: %w", err)
	}
	limit, _ := strconv.Atoi(query.Get("limit")) // zero if there is none
	return recorded{
		resource:    resource,
		indexers:    i.GetIndexer().GetIndexers(),
		resync:      settings.resync,
		description: settings.description,
		pageSize:    limit,
		transforms:  settings.transforms,
	}, nil
}

// errNoRequest indicates that the informer did not use the client that it was given.
var errNoRequest = errors.New("the informer does not use the client that its function receives")

// firstRequest runs i until its first request, and returns its URL.
func (r *recorder) firstRequest(i clientcache.SharedIndexInformer) (*url.URL, error) {
	first, failed := make(chan *url.URL, 1), make(chan struct{}, 1)
	r.mu.Lock()
	r.first = first
	r.mu.Unlock()
	_ = i.SetWatchErrorHandlerWithContext(func(context.Context, *clientcache.Reflector, error) {
		select {
		case failed <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	var running sync.WaitGroup
	running.Go(func() { i.RunWithContext(ctx) })
	defer running.Wait()
	defer cancel()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case where := <-first:
		return where, nil
	case <-failed:
	case <-i.HasSyncedChecker().Done():
	case <-timeout.C:
	}
	return nil, errNoRequest
}
