package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/transport"
)

// pageSize is the default number of objects in a page of a list, the same as in client-go.
const pageSize = 500

// collection reads a collection, or one namespace of it, for a reflector.
type collection[T Object] struct {
	client    *Client
	resource  Resource
	namespace string // empty for all
	decoder   *decoder[T]
	batches   batches[T]
	read      atomic.Int64 // objects read of the current list, or of the last one
	lists     atomic.Int64 // requests
	watches   atomic.Int64 // requests
	events    atomic.Int64 // events of watches
	bytes     atomic.Int64 // of bodies
	awaits    awaiting
}

// countedBody is the body of a response whose bytes are counted.
type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (c countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// ready waits until the rate limit allows one more request.
func (c *collection[T]) ready(ctx context.Context) error {
	c.awaits.set(AwaitingRateLimit)
	return c.client.http.Wait(ctx)
}

// send sends one request for the collection.
func (c *collection[T]) send(ctx context.Context, query url.Values, accept string) (*transport.Response, error) {
	u := c.client.http.Base.JoinPath(c.resource.path(c.namespace))
	if c.resource.LabelSelector != "" {
		query.Set("labelSelector", c.resource.LabelSelector)
	}
	if c.resource.FieldSelector != "" {
		query.Set("fieldSelector", c.resource.FieldSelector)
	}
	if selector := c.decoder.shard.String(); selector != "" {
		query.Set("shardSelector", selector) // a server without the feature ignores it
	}
	u.RawQuery = query.Encode()
	c.awaits.set(AwaitingResponse)
	resp, err := c.client.http.Send(ctx, transport.Request{
		Method: http.MethodGet, URL: u, Watch: query.Has("watch"), Accept: accept, Resource: c.resource.GroupResource(),
	})
	if err != nil {
		return nil, err
	}
	if err := c.decoder.check(resp.Format); err != nil {
		resp.Close()
		return nil, err
	}
	c.awaits.set(AwaitingData)
	resp.ReadCloser = countedBody{resp.ReadCloser, &c.bytes}
	return resp, nil
}

// listing collects the objects of a list.
type listing[T Object] struct {
	items    []T                  // if several have one key, the last one counts
	failed   map[Key]*DecodeError // objects that could not be decoded
	nameless []*DecodeError       // those whose key could not be decoded, either; at most maxNameless
	gone     map[Key]int          // for each deleted key, the number of items at the deletion
}

// maxNameless limits the memory that objects without a name take.
const maxNameless = 1000

func (l *listing[T]) add(obj T) {
	if len(l.failed) > 0 {
		delete(l.failed, KeyOf(obj))
	}
	l.items = append(l.items, obj)
}

// fail notes that the newest version of an object could not be decoded. An earlier version among the items stays.
func (l *listing[T]) fail(failed *DecodeError) {
	switch {
	case failed.Key.Name != "":
		if l.failed == nil {
			l.failed = map[Key]*DecodeError{}
		}
		l.failed[failed.Key] = failed
	case len(l.nameless) < maxNameless:
		l.nameless = append(l.nameless, failed)
	}
}

// undecoded returns the objects that could not be decoded.
func (l *listing[T]) undecoded() []*DecodeError {
	return slices.AppendSeq(l.nameless, maps.Values(l.failed))
}

func (l *listing[T]) remove(key Key) {
	delete(l.failed, key)
	if l.gone == nil {
		l.gone = map[Key]int{}
	}
	l.gone[key] = len(l.items)
}

// present returns the items without those that were deleted later.
func (l *listing[T]) present() []T {
	if len(l.gone) == 0 {
		return l.items
	}
	var items []T
	for i, obj := range l.items {
		if i >= l.gone[KeyOf(obj)] {
			items = append(items, obj)
		}
	}
	return items
}

// list reads the collection page by page, at resource version least or later. It returns the resource version of the
// list. If restored is true, an equal version in the sink does not mean equal content.
func (c *collection[T]) list(ctx context.Context, least string, size int,
	restored bool) (l listing[T], version string, err error) {
	if size == 0 {
		size = pageSize
	}
	query := atLeast(least)
	query.Set("limit", strconv.Itoa(size))
	c.read.Store(0)
	for page := 1; ; page++ {
		info, err := c.page(ctx, query, &l, restored)
		if page > 1 && apierrors.IsResourceExpired(err) {
			// The snapshot of the continue token has expired. Read everything at once, from the cache, at version or later.
			l = listing[T]{}
			c.read.Store(0)
			info, err = c.page(ctx, atLeast(version), &l, restored)
		}
		if err != nil {
			return l, "", err
		}
		version = info.ResourceVersion
		if query, err = nextPage(query, info); err != nil || query == nil {
			return l, version, err
		}
	}
}

// nextPage returns the parameters of the page after that of query, or nil if that was the last one.
func nextPage(query url.Values, info decode.ListInfo) (url.Values, error) {
	switch info.Continue {
	case "":
		return nil, nil
	case query.Get("continue"):
		return nil, errors.New("list: the server sent the same continue token again")
	}
	return url.Values{"limit": query["limit"], "continue": {info.Continue}}, nil
}

// errNoPart indicates that a list of what comes to a shard is not possible. The reflector lists the whole shard.
var errNoPart = errors.New("a list of what comes to the shard is not possible")

// listAt reads the collection page by page, exactly at resource version rv. The error is errNoPart if the server cannot
// do that, or if it sends an object that cannot be decoded.
func (c *collection[T]) listAt(ctx context.Context, rv string, size int) (l listing[T], err error) {
	if size == 0 {
		size = pageSize
	}
	query := url.Values{"resourceVersion": {rv}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchExact)},
		"limit": {strconv.Itoa(size)}}
	c.read.Store(0)
	for {
		info, err := c.page(ctx, query, &l, false)
		switch {
		case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err),
			apierrors.IsTooManyRequests(err):
			return l, err
		case errors.As(err, new(apierrors.APIStatus)): // such as 410 Expired, or 500 for a version that etcd has not reached
			return l, fmt.Errorf("%w: %w", errNoPart, err)
		case err != nil:
			return l, err
		case len(l.failed)+len(l.nameless) > 0:
			return l, fmt.Errorf("%w: an object cannot be decoded", errNoPart)
		case info.ResourceVersion != rv:
			return l, fmt.Errorf("%w: the server listed at resource version %.100q, not at %s", errNoPart, info.ResourceVersion,
				rv)
		}
		if query, err = nextPage(query, info); err != nil || query == nil {
			return l, err
		}
	}
}

// atLeast returns the parameters of a list at resource version rv or later: any for "0", the newest for "".
func atLeast(rv string) url.Values {
	switch rv {
	case "":
		return url.Values{}
	case "0":
		return url.Values{"resourceVersion": {rv}}
	}
	return url.Values{"resourceVersion": {rv}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}}
}

// page reads the response to one list request into l.
func (c *collection[T]) page(ctx context.Context, query url.Values, l *listing[T],
	restored bool) (decode.ListInfo, error) {
	if err := c.ready(ctx); err != nil {
		return decode.ListInfo{}, err
	}
	c.lists.Add(1)
	request, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.send(request, query, c.decoder.acceptList)
	if err != nil {
		return decode.ListInfo{}, fmt.Errorf("list: %w", err)
	}
	defer resp.Close()
	in := newIntake(c.decoder, &c.batches, resp.Format, cancel, func(o decoded[T]) error {
		c.read.Add(1)
		switch {
		case o.filtered:
		case o.failed != nil:
			l.fail(o.failed)
		default:
			l.add(o.obj)
		}
		return nil
	})
	in.restored = restored
	defer in.wait()
	list := decode.NewList(resp, resp.Format)
	for {
		raw, err := list.Next()
		switch err {
		case nil:
			in.add(raw, false, &list.Info)
			continue
		case decode.ErrMore:
			if err = in.fill(list); err == nil {
				continue
			}
			err = fmt.Errorf("read list: %w", err)
		case io.EOF:
			err = nil
		}
		if failed := in.wait(); failed != nil { // the intake's failure comes first: it may have ended the read
			err = failed
		}
		return list.Info, err
	}
}

// reaches sends a list request at resource version rv. If the server has not reached rv, isTooLarge is true for the
// error.
func (c *collection[T]) reaches(ctx context.Context, rv string) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	query := atLeast(rv)
	query.Set("limit", "1")
	c.lists.Add(1)
	resp, err := c.send(ctx, query, c.decoder.acceptList)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return resp.Close()
}

// objectID names one version of an object.
type objectID struct {
	key          Key
	uid, version string
}

// current returns the resource version that the server has now, and one of its objects, if there is any.
func (c *collection[T]) current(ctx context.Context) (rv string, one objectID, err error) {
	if err := c.ready(ctx); err != nil {
		return "", one, err
	}
	query := atLeast("")
	query.Set("limit", "1")
	c.lists.Add(1)
	resp, err := c.send(ctx, query, c.decoder.acceptList)
	if err != nil {
		return "", one, fmt.Errorf("list: %w", err)
	}
	defer resp.Close()
	list := decode.NewList(resp, resp.Format)
	for {
		switch raw, err := list.Next(); err {
		case nil:
			id := resp.Format.Glance(raw)
			one = objectID{keyOf(id), string(id.UID), string(id.ResourceVersion)}
		case decode.ErrMore:
			if err := list.Fill(); err != nil {
				return "", one, fmt.Errorf("read list: %w", err)
			}
		case io.EOF:
			return list.Info.ResourceVersion, one, nil
		default:
			return "", one, err
		}
	}
}

// isTooLarge reports whether err means that the server has not reached the requested resource version.
func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// isRefusal reports whether the server rejected the form of the request, and not the client, the resource or the
// resource version.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}
