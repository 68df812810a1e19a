package informer

import (
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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/decode"
)

// TypedClient reads and writes single objects at the API server, beside the [Informer] that follows them. What it
// returns is what the server answered, with managedFields; it belongs to the caller. To read a write from the cache,
// wait for it:
//
//	updated, err := client.Update(ctx, changed, metav1.UpdateOptions{})
//	…
//	err = websites.WaitForObject(ctx, updated)
//
// If the watch is down, this blocks until it recovers: a reconciler should give it a context that ends soon, and come back
// later, or set Controller.Timeout.
//
// Errors of the server are those of k8s.io/apimachinery/pkg/api/errors: IsNotFound, IsConflict and so on. An answer of
// 429 or 5xx with Retry-After, which says that nothing was done, is waited for, ten times at most.
//
// Objects from the cache must be copied before they are changed. One that lacks fields, because a Config.Transform
// dropped them or because T has only some, must not be sent by Update, which would remove them at the server: use Patch
// or Apply. It is safe for concurrent use.
//
// T needs nothing but [Object] for Get, Patch, Apply and Delete. For Create, Update and UpdateStatus it must be a
// runtime.Object too, which says that it has all fields of the object: embed metav1.TypeMeta, and have DeepCopyObject
// generated. *metav1.PartialObjectMetadata is one, but has only metadata.
//
// A call that cannot succeed, whatever the server has, sends nothing and returns a [TerminalError], which a [Controller]
// does not try again: because of T or the resource, a nil object, an object without a kind or a name that is none.
type TypedClient[T Object] struct {
	client   *Client
	resource schema.GroupVersionResource
	invalid  error // of each call; nil if T and resource are right
	partial  error // of a call that sends a T; nil if T has all fields of the object

	decoders *decoders[T]
}

// NewTypedClient returns a client for one resource. If client, T or resource is wrong, each call returns a
// [TerminalError] that says so.
func NewTypedClient[T Object](client *Client, resource schema.GroupVersionResource) *TypedClient[T] {
	c := &TypedClient[T]{client: client, resource: resource}
	err := (Resource{GroupVersionResource: resource}).validate()
	switch {
	case err != nil:
	case client == nil:
		err = errNoClient
	default:
		c.decoders, err = newDecoders[T](client.accept, true)
	}
	if err != nil {
		c.invalid = TerminalError(err)
	}
	if err := isWhole[T](); err != nil {
		c.partial = TerminalError(err)
	}
	return c
}

// isWhole returns an error that says what T lacks to be sent as the whole object, nil if it lacks nothing.
func isWhole[T Object]() error {
	var none T
	if _, metadataOnly := any(none).(*metav1.PartialObjectMetadata); metadataOnly {
		return fmt.Errorf("%T has only metadata, and the API server would remove the rest of the object: use Patch or Apply", none)
	}
	var missing, remedy string
	if _, ok := any(none).(interface{ DeepCopyObject() runtime.Object }); !ok {
		missing = "the method DeepCopyObject() runtime.Object"
		remedy = "have controller-gen or deepcopy-gen generate it (marker +kubebuilder:object:root=true, or " +
			"+k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object)"
	} else if _, ok := any(none).(runtime.Object); !ok {
		missing = "the method GetObjectKind() schema.ObjectKind"
		remedy = "embed metav1.TypeMeta"
	} else {
		return nil
	}
	return fmt.Errorf("%T lacks %s, which a type with all of the object's fields has: %s. If it has only some fields, "+
		"the API server would remove the others: use Patch or Apply", none, missing, remedy)
}

// Get reads an object, not from a cache.
func (c *TypedClient[T]) Get(ctx context.Context, key Key, o metav1.GetOptions) (T, error) {
	q := url.Values{}
	if o.ResourceVersion != "" {
		q.Set("resourceVersion", o.ResourceVersion)
	}
	return c.one(ctx, objectRequest{method: http.MethodGet, key: key, query: q})
}

// Create creates obj, and returns it as the server has it. With metadata.generateName and no name, the server chooses
// one.
func (c *TypedClient[T]) Create(ctx context.Context, obj T, o metav1.CreateOptions) (T, error) {
	return c.whole(ctx, objectRequest{method: http.MethodPost, query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}, obj)
}

// Update replaces an object by obj, if the server has it at obj's resource version; otherwise the error is a conflict.
// For types with a status subresource the status is ignored.
func (c *TypedClient[T]) Update(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	return c.whole(ctx, objectRequest{method: http.MethodPut, query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}, obj)
}

// UpdateStatus replaces the status of an object by that of obj. The API server ignores the spec of obj and, of custom
// resources, the metadata. Of many kinds of Kubernetes it takes labels, annotations, finalizers and owner references too.
func (c *TypedClient[T]) UpdateStatus(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	r := objectRequest{method: http.MethodPut, subresource: []string{"status"}, query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}
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
	return c.one(ctx, objectRequest{method: http.MethodPatch, key: key, subresource: subresource, query: q, contentType: string(pt), body: patch})
}

// Apply declares the fields of an object that the caller owns, by server-side apply (KEP-555): those that configuration
// has are set, and those that it had at the last call and no longer has are removed. configuration is encoded as JSON;
// give it as one of client-go's apply configurations, a map, or a struct in which fields that are not meant are left
// out when they are zero. o.FieldManager names the caller and must be set.
func (c *TypedClient[T]) Apply(ctx context.Context, key Key, configuration any, o metav1.ApplyOptions, subresource ...string) (T, error) {
	var none T
	if o.FieldManager == "" {
		return none, c.refuse("apply", key, errors.New("ApplyOptions.FieldManager is empty"))
	}
	body, err := c.encode(configuration)
	if err != nil {
		return none, c.refuse("apply", key, err)
	}
	return c.Patch(ctx, key, types.ApplyPatchType, body, metav1.PatchOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, Force: &o.Force}, subresource...)
}

// Delete deletes an object, or begins to, if it has finalizers or a grace period.
func (c *TypedClient[T]) Delete(ctx context.Context, key Key, o metav1.DeleteOptions) error {
	body, err := json.Marshal(&o)
	if err != nil {
		return c.refuse("delete", key, err)
	}
	return c.discard(ctx, objectRequest{method: http.MethodDelete, key: key, contentType: decode.MediaJSON, body: body})
}

// discard sends r, and drops the response.
func (c *TypedClient[T]) discard(ctx context.Context, r objectRequest) error {
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp, decode.MaxObjectBytes)); err != nil { // to the end, so that the connection is used again
		return c.errorf(r.method, r.key, err)
	}
	return nil
}

// List reads the objects of a namespace, or of all namespaces if that is empty, not from a cache. o may have selectors, a resource
// version and, for pages, Limit and Continue; the result's Continue then begins the next page, and is empty on the last one.
// o.Watch and o.SendInitialEvents are errors: an [Informer] watches. An object that cannot be decoded is an error that names it.
func (c *TypedClient[T]) List(ctx context.Context, namespace string, o metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	key := Key{Namespace: namespace}
	query, err := listQuery(o)
	if err != nil {
		return nil, metav1.ListMeta{}, c.refuse("list", key, err)
	}
	resp, err := c.do(ctx, objectRequest{method: http.MethodGet, key: key, collection: true, query: query})
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	defer resp.Close()
	var items []T
	list := decode.NewList(resp, resp.format)
	for {
		raw, err := list.Next()
		switch err {
		case nil:
			var obj T
			if obj, err = c.decoders.decodeOne(resp.format, raw, &list.Info); err == nil {
				items = append(items, obj)
			} else {
				key := keyOf(resp.format.Peek(raw))
				err = &DecodeError{Resource: Resource{GroupVersionResource: c.resource}, Key: key, Err: err}
			}
		case decode.ErrMore:
			err = list.Fill()
		case io.EOF:
			return items, list.Info.ListMeta, nil
		}
		if err != nil {
			return nil, metav1.ListMeta{}, c.errorf("list", key, err)
		}
	}
}

// DeleteCollection deletes the objects of a namespace, or of all namespaces if that is empty, that o's selectors match.
func (c *TypedClient[T]) DeleteCollection(ctx context.Context, namespace string, d metav1.DeleteOptions, o metav1.ListOptions) error {
	key := Key{Namespace: namespace}
	body, err := json.Marshal(&d)
	if err != nil {
		return c.refuse("delete collection", key, err)
	}
	query, err := listQuery(o)
	if err != nil {
		return c.refuse("delete collection", key, err)
	}
	return c.discard(ctx, objectRequest{method: http.MethodDelete, key: key, collection: true, query: query, contentType: decode.MediaJSON, body: body})
}

// listQuery returns the parameters of a list.
func listQuery(o metav1.ListOptions) (url.Values, error) {
	if o.Watch || o.SendInitialEvents != nil {
		return nil, errors.New("ListOptions with Watch or SendInitialEvents: an Informer or a Reflector watches")
	}
	q := url.Values{}
	for name, value := range map[string]string{
		"labelSelector": o.LabelSelector, "fieldSelector": o.FieldSelector, "resourceVersion": o.ResourceVersion,
		"resourceVersionMatch": string(o.ResourceVersionMatch), "continue": o.Continue,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.FormatInt(o.Limit, 10))
	}
	if o.TimeoutSeconds != nil {
		q.Set("timeoutSeconds", strconv.FormatInt(*o.TimeoutSeconds, 10))
	}
	return q, nil
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

// objectRequest is a request for one object, or, without a name, for a collection.
type objectRequest struct {
	method      string
	key         Key
	collection  bool // all objects of the key's namespace, or of all of them if that is empty
	subresource []string
	query       url.Values
	contentType string
	body        []byte
}

func (c *TypedClient[T]) errorf(what string, key Key, err error) error {
	return fmt.Errorf("%s %s %s: %w", what, c.resource.GroupResource(), key, err)
}

// refuse returns the error of a request that is not sent, since it cannot succeed.
func (c *TypedClient[T]) refuse(what string, key Key, err error) error {
	return TerminalError(c.errorf(what, key, err))
}

// whole sends obj, all of it, at the key that it has.
func (c *TypedClient[T]) whole(ctx context.Context, r objectRequest, obj T) (T, error) {
	var none T
	if c.invalid != nil {
		return none, c.invalid
	}
	if obj == none {
		return none, c.refuse(r.method, r.key, errors.New("the object is nil"))
	}
	r.key = KeyOf(obj)
	if c.partial != nil {
		return none, c.errorf(r.method, r.key, c.partial)
	}
	var err error
	if r.body, err = c.encode(obj); err != nil {
		return none, c.refuse(r.method, r.key, err)
	}
	r.contentType = decode.MediaJSON
	return c.one(ctx, r)
}

// encode encodes obj as JSON. One of a Go type whose kind is not set, as those from the cache are, gets the name of the
// type for its kind, as it has in a runtime.Scheme.
func (c *TypedClient[T]) encode(obj any) ([]byte, error) {
	if o, ok := obj.(runtime.Object); ok && o.GetObjectKind().GroupVersionKind().Kind == "" {
		if _, dynamic := obj.(runtime.Unstructured); dynamic {
			return nil, fmt.Errorf("the %T has no kind: set apiVersion and kind", obj)
		}
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

// one sends r, and decodes the response.
func (c *TypedClient[T]) one(ctx context.Context, r objectRequest) (T, error) {
	var none T
	resp, err := c.do(ctx, r)
	if err != nil {
		return none, err
	}
	defer resp.Close()
	body, err := io.ReadAll(io.LimitReader(resp, decode.MaxObjectBytes+1))
	if err == nil && len(body) > decode.MaxObjectBytes {
		err = ErrTooLarge
	}
	if err == nil && resp.format == decode.Protobuf {
		body, err = decode.Unwrap(body)
	}
	var obj T
	if err == nil {
		obj, err = c.decoders.decodeOne(resp.format, body, nil)
	}
	if err != nil {
		return none, c.errorf(r.method, r.key, err)
	}
	return obj, nil
}

// maxTries is how often a write is sent that the server does not take: as often as client-go does.
const maxTries = 10

// do sends r, again if the server says that it did nothing.
func (c *TypedClient[T]) do(ctx context.Context, r objectRequest) (*response, error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	var segments []string
	if r.key.Namespace != "" {
		segments = append(segments, r.key.Namespace)
	}
	if !r.collection && r.method != http.MethodPost {
		segments = append(segments, r.key.Name) // without a name, a deletion would be of all
	}
	for _, s := range append(segments, r.subresource...) {
		if reasons := rest.IsValidPathSegmentName(s); s == "" || len(reasons) > 0 {
			return nil, c.refuse(r.method, r.key, fmt.Errorf("%q in its path: %s", s, strings.Join(append(reasons, "it must be a name"), ", ")))
		}
	}
	u := c.client.base.JoinPath(Resource{GroupVersionResource: c.resource}.path(r.key.Namespace))
	if !r.collection && r.method != http.MethodPost {
		u = u.JoinPath(r.key.Name)
	}
	u = u.JoinPath(r.subresource...)
	u.RawQuery = r.query.Encode()
	accept := c.decoders.accept
	if r.collection {
		accept = c.decoders.acceptList
	}
	for try := 1; ; try++ {
		if err := c.client.wait(ctx); err != nil {
			return nil, c.errorf(r.method, r.key, err)
		}
		resp, err := c.client.send(ctx, request{
			method: r.method, url: u, accept: accept, contentType: r.contentType, body: r.body,
			resource: c.resource.GroupResource(), name: r.key.Name,
		})
		if err == nil {
			if err = c.decoders.check(resp.format); err != nil {
				resp.Close()
				return nil, c.errorf(r.method, r.key, err)
			}
			return resp, nil
		}
		wait := retryAfter(err)
		if wait == 0 || try == maxTries {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w, after: %w", context.Cause(ctx), err)
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
