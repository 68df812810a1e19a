package informer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// TypedClient reads and writes single objects at the API server, beside the [Informer] that follows them. What it
// returns is what the server answered, with managedFields; it belongs to the caller. To read a write from the cache,
// wait for it:
//
//	updated, err := client.Update(ctx, changed, metav1.UpdateOptions{})
//	…
//	err = websites.WaitForObject(ctx, updated)
//
// While the watch is down that takes as long as it is: a reconciler should give it a context that ends soon, and come back
// later, or set Controller.Timeout.
//
// Errors of the server are those of k8s.io/apimachinery/pkg/api/errors: IsNotFound, IsConflict and so on. An answer of
// 429 or 5xx with Retry-After, which says that nothing was done, is waited for, ten times at most.
//
// Objects from the cache must be copied before they are changed. One that lacks fields, because a Config.Transform
// dropped them or because T has only some, must not be sent by Update, which would remove them at the server: use Patch
// or Apply. It is safe for concurrent use.
type TypedClient[T Object] struct {
	client   *Client
	resource schema.GroupVersionResource
	invalid  error

	mu    sync.Mutex // makes those who decode take turns
	codec *codec[T]
}

// NewTypedClient returns a client for one resource. What is wrong with T or resource is the error of each call.
func NewTypedClient[T Object](client *Client, resource schema.GroupVersionResource) *TypedClient[T] {
	c := &TypedClient[T]{client: client, resource: resource}
	c.codec, c.invalid = newCodec[T](client.accept, true)
	if err := (Resource{GroupVersionResource: resource}).validate(); err != nil {
		c.invalid = err
	}
	return c
}

// Get reads an object, not from a cache.
func (c *TypedClient[T]) Get(ctx context.Context, key Key, o metav1.GetOptions) (T, error) {
	q := url.Values{}
	if o.ResourceVersion != "" {
		q.Set("resourceVersion", o.ResourceVersion)
	}
	return c.one(ctx, request{method: http.MethodGet, key: key, query: q})
}

// Create creates obj, and returns it as the server has it. With metadata.generateName and no name, the server chooses
// one.
func (c *TypedClient[T]) Create(ctx context.Context, obj T, o metav1.CreateOptions) (T, error) {
	r := request{method: http.MethodPost, key: Key{Namespace: obj.GetNamespace()}, query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}
	return c.whole(ctx, r, obj)
}

// Update replaces an object by obj, if the server has it at obj's resource version; otherwise the error is a conflict.
// For types with a status subresource the status is ignored.
func (c *TypedClient[T]) Update(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	r := request{method: http.MethodPut, key: KeyOf(obj), query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}
	return c.whole(ctx, r, obj)
}

// UpdateStatus replaces the status of an object by that of obj, and nothing else.
func (c *TypedClient[T]) UpdateStatus(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	r := request{method: http.MethodPut, key: KeyOf(obj), subresource: []string{"status"}, query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}
	return c.whole(ctx, r, obj)
}

// Patch changes an object by a patch of that type: a JSON merge patch (types.MergePatchType, RFC 7386), a JSON patch
// (types.JSONPatchType, RFC 6902), a strategic merge patch (built-in types only), or a server-side apply. With
// subresource "status" it changes the status.
func (c *TypedClient[T]) Patch(ctx context.Context, key Key, pt types.PatchType, patch []byte, o metav1.PatchOptions, subresource ...string) (T, error) {
	q := writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)
	if o.Force != nil {
		q.Set("force", strconv.FormatBool(*o.Force))
	}
	return c.one(ctx, request{method: http.MethodPatch, key: key, subresource: subresource, query: q, contentType: string(pt), body: patch})
}

// Apply declares the fields of an object that the caller owns, by server-side apply (KEP-555): those that configuration
// has are set, and those that it had at the last call and no longer has are removed. configuration is encoded as JSON;
// give it as one of client-go's apply configurations, a map, or a struct in which fields that are not meant are left
// out when they are zero. o.FieldManager names the caller and must be set.
func (c *TypedClient[T]) Apply(ctx context.Context, key Key, configuration any, o metav1.ApplyOptions, subresource ...string) (T, error) {
	var none T
	if o.FieldManager == "" {
		return none, c.errorf("apply", key, errors.New("ApplyOptions.FieldManager is empty"))
	}
	body, err := c.encode(configuration)
	if err != nil {
		return none, c.errorf("apply", key, err)
	}
	return c.Patch(ctx, key, types.ApplyPatchType, body, metav1.PatchOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, Force: &o.Force}, subresource...)
}

// Delete deletes an object, or begins to, if it has finalizers or a grace period.
func (c *TypedClient[T]) Delete(ctx context.Context, key Key, o metav1.DeleteOptions) error {
	body, err := json.Marshal(&o)
	if err != nil {
		return c.errorf("delete", key, err)
	}
	_, _, err = c.do(ctx, request{method: http.MethodDelete, key: key, contentType: mediaJSON, body: body})
	return err
}

func writeOptions(dryRun []string, fieldManager, fieldValidation string) url.Values {
	q := url.Values{}
	for _, d := range dryRun {
		q.Add("dryRun", d)
	}
	if fieldManager != "" {
		q.Set("fieldManager", fieldManager)
	}
	if fieldValidation != "" {
		q.Set("fieldValidation", fieldValidation)
	}
	return q
}

// request is a request about one object.
type request struct {
	method      string
	key         Key
	subresource []string
	query       url.Values
	contentType string
	body        []byte
}

func (c *TypedClient[T]) errorf(what string, key Key, err error) error {
	return fmt.Errorf("%s %s %s: %w", what, c.resource.GroupResource(), key, err)
}

// whole sends obj, all of it.
func (c *TypedClient[T]) whole(ctx context.Context, r request, obj T) (T, error) {
	var none T
	var err error
	_, isWhole := any(obj).(runtime.Object)
	if _, metadataOnly := any(obj).(*metav1.PartialObjectMetadata); !isWhole || metadataOnly {
		return none, c.errorf(r.method, KeyOf(obj), fmt.Errorf("%T has not all of the object's fields; the others would be removed: use Patch or Apply", obj))
	}
	r.contentType = mediaJSON
	if r.body, err = c.encode(obj); err != nil {
		return none, c.errorf(r.method, KeyOf(obj), err)
	}
	return c.one(ctx, r)
}

// encode encodes obj as JSON. One of a Go type whose kind is not set, as those from the cache are, gets the name of the
// type for its kind, as it has in a runtime.Scheme.
func (c *TypedClient[T]) encode(obj any) ([]byte, error) {
	if o, ok := obj.(runtime.Object); ok && o.GetObjectKind().GroupVersionKind().Kind == "" {
		if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
			named := reflect.New(v.Elem().Type()) // a flat copy: obj may be from the cache
			named.Elem().Set(v.Elem())
			o = named.Interface().(runtime.Object)
			o.GetObjectKind().SetGroupVersionKind(c.resource.GroupVersion().WithKind(v.Elem().Type().Name()))
			obj = o
		}
	}
	return json.Marshal(obj)
}

// one sends r, and decodes the answer.
func (c *TypedClient[T]) one(ctx context.Context, r request) (T, error) {
	var none T
	body, f, err := c.do(ctx, r)
	if err != nil {
		return none, err
	}
	if f == formatProtobuf {
		if body, err = unwrapProtobuf(body); err != nil {
			return none, c.errorf(r.method, r.key, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	obj, err := c.codec.decode(f, body, nil, false)
	if err != nil {
		return none, c.errorf(r.method, r.key, err)
	}
	return obj, nil
}

// maxTries is how often a write is sent that the server does not take: as often as client-go does.
const maxTries = 10

// do sends r and returns the body of the answer.
func (c *TypedClient[T]) do(ctx context.Context, r request) ([]byte, format, error) {
	if c.invalid != nil {
		return nil, 0, c.invalid
	}
	segments := r.subresource
	if r.method != http.MethodPost {
		segments = append([]string{r.key.Name}, segments...) // without a name, a deletion would be of all
	}
	if r.key.Namespace != "" {
		segments = append(segments, r.key.Namespace)
	}
	for _, s := range segments {
		if reasons := rest.IsValidPathSegmentName(s); s == "" || len(reasons) > 0 {
			return nil, 0, c.errorf(r.method, r.key, fmt.Errorf("%q in its path: %s", s, strings.Join(append(reasons, "it must be a name"), ", ")))
		}
	}
	u := c.client.base.JoinPath(Resource{GroupVersionResource: c.resource}.path(r.key.Namespace))
	if r.method != http.MethodPost {
		u = u.JoinPath(r.key.Name)
	}
	u = u.JoinPath(r.subresource...)
	u.RawQuery = r.query.Encode()
	for try := 1; ; try++ {
		body, f, err := c.client.send(ctx, r, u, c.codec.accept, c.resource.GroupResource())
		wait := retryAfter(err)
		if wait == 0 || try == maxTries {
			return body, f, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, 0, fmt.Errorf("%w, after: %w", context.Cause(ctx), err)
		}
	}
}

// retryAfter returns how long the server wants us to wait that did not take a request, zero if it did not say so.
func retryAfter(err error) time.Duration {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return 0
	}
	status := answer.Status()
	if status.Code != http.StatusTooManyRequests && status.Code < 500 || status.Details == nil {
		return 0
	}
	return time.Duration(status.Details.RetryAfterSeconds) * time.Second
}

// send sends r once.
func (c *Client) send(ctx context.Context, r request, u *url.URL, accept string, resource schema.GroupResource) ([]byte, format, error) {
	failed := func(err error) ([]byte, format, error) {
		return nil, 0, fmt.Errorf("%s /%s: %w", r.method, strings.TrimPrefix(u.Path, "/"), err)
	}
	if err := c.wait(ctx); err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(maxSilence, func() { cancel(ErrSilent) }).Stop()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return failed(err)
	}
	req.Header.Set("Accept", accept)
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return failed(because(ctx, err))
	}
	defer resp.Body.Close()
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	for _, w := range warnings {
		c.warn(ctx, w.Code, w.Agent, w.Text)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, 0, responseError(resp, r.method, resource, r.key.Name)
	}
	f, err := formatOf(resp.Header.Get("Content-Type"))
	if err != nil {
		return failed(err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxObjectBytes+1))
	switch {
	case err != nil:
		return failed(because(ctx, err))
	case len(body) > maxObjectBytes:
		return failed(ErrTooLarge)
	}
	return body, f, nil
}
