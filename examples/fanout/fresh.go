package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// freshness makes reads without a resource version as fresh as those of kube-apiserver: the response includes every
// write before the request. So a client that moves between replicas, or whose replica was restarted, never goes back in
// time.
//
// It asks the API server for the newest version by a list of one object's metadata, once for all waiting requests.
// While nothing changes, the cache would reach that version only with the next bookmark, a minute later. So freshness
// opens a short watch from the cache's version, whose bookmark arrives sooner.
type freshness struct {
	client *http.Client
	url    *url.URL // of the collection
	cached func() uint64
	// advance tells the cache that it has every change from one version up to another. It does nothing if the cache has
	// moved.
	advance func(from, to uint64)

	turn chan struct{} // holds one token, for the goroutine that asks

	mu   sync.Mutex // protects next
	next *asked     // has not begun, so more requests may join it; nil if there is none
}

// asked is one question for the newest version.
type asked struct {
	done    chan struct{} // closed when the fields below are set
	version uint64
	err     error
}

const (
	freshTimeout = 10 * time.Second
	// advanceTimeout is the time of the watch. A server sends the last bookmark 2 s before the end.
	advanceTimeout = 3 * time.Second
	maxFrame       = 4 << 20
)

func newFreshness(config *rest.Config, collection *url.URL) (*freshness, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	f := &freshness{client: client, url: collection, turn: make(chan struct{}, 1)}
	f.turn <- struct{}{}
	return f, nil
}

// newest returns a version that is not older than any that a client can have seen before the call.
func (f *freshness) newest(ctx context.Context) (uint64, error) {
	f.mu.Lock()
	a := f.next
	if a == nil {
		a = &asked{done: make(chan struct{})}
		f.next = a
		go f.ask(context.WithoutCancel(ctx), a)
	}
	f.mu.Unlock()
	select {
	case <-a.done:
		return a.version, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (f *freshness) ask(ctx context.Context, a *asked) {
	<-f.turn
	f.mu.Lock()
	f.next = nil // a later request may know a newer version
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	from := f.cached()
	a.version, a.err = f.probe(ctx)
	close(a.done)
	if a.err == nil && from > 0 && f.cached() < a.version {
		f.catchUp(ctx, from, a.version) // meanwhile, the requests wait for the cache
	}
	f.turn <- struct{}{}
}

// probe returns the newest version.
func (f *freshness) probe(ctx context.Context) (uint64, error) {
	body, err := f.get(ctx, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
		url.Values{"limit": {"1"}})
	if err != nil {
		return 0, err
	}
	defer body.Close()
	var list metav1.PartialObjectMetadataList
	if err := json.NewDecoder(io.LimitReader(body, maxFrame)).Decode(&list); err != nil {
		return 0, fmt.Errorf("newest version of %s: %w", f.url.Path, err)
	}
	return strconv.ParseUint(list.ResourceVersion, 10, 64)
}

// catchUp watches from a version for a short time. If the cache has the changes before a bookmark, the bookmark shows
// that it is complete up to there.
func (f *freshness) catchUp(ctx context.Context, from, until uint64) {
	body, err := f.get(ctx, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", url.Values{
		"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {strconv.FormatUint(from, 10)},
		"timeoutSeconds": {strconv.Itoa(int(advanceTimeout / time.Second))},
	})
	if err != nil {
		return // the waiting requests fail after 3 s
	}
	defer body.Close()
	events := json.NewDecoder(body)
	last := from // the last change
	for f.cached() < until {
		var event struct {
			Type   string
			Object metav1.PartialObjectMetadata
		}
		if events.Decode(&event) != nil {
			return
		}
		version, err := strconv.ParseUint(event.Object.ResourceVersion, 10, 64)
		if err != nil { // an error, such as 410 Expired: the cache lists again
			return
		}
		if event.Type != "BOOKMARK" {
			last = version
		} else if cached := f.cached(); last <= cached && cached < version {
			f.advance(cached, version)
		}
	}
}

func (f *freshness) get(ctx context.Context, accept string, query url.Values) (io.ReadCloser, error) {
	u := *f.url
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("GET %s: %s", f.url.Path, response.Status)
	}
	return response.Body, nil
}
