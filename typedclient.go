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
	"github.com/typedinformer/informer/internal/transport"
)

// TypedClient reads and writes objects at the API server, not in a cache. It returns the objects of the response, with
// managedFields; they belong to the caller. To read a write from the [Informer] that follows the objects, wait for it:
//
//	updated, err := client.Update(ctx, changed, metav1.UpdateOptions{})
//	…
//	err = websites.WaitForObject(ctx, updated)
//
// If the watch is down, this blocks until it recovers. A reconciler should pass a context that ends soon and retry
// later, or set Controller.Timeout.
//
// Errors of the server are those of k8s.io/apimachinery/pkg/api/errors: IsNotFound, IsConflict and so on. A response of
// 429 or 5xx with Retry-After means that the server did nothing. The client then waits and retries, up to ten tries in
// all.
//
// Copy objects from the cache before you change them. Do not send an object that lacks fields by Update, for example
// because a Config.Transform dropped them or T does not have them: the server would remove these fields. Use Patch or
// Apply instead. All methods are safe for concurrent use.
//
// For Get, List, Patch, Apply and Delete, T only needs to be an [Object]. For Create, Update and UpdateStatus it must
// also be a runtime.Object, which shows that it has all fields of the object: embed metav1.TypeMeta, and generate
// DeepCopyObject. *metav1.PartialObjectMetadata has only metadata, so these methods reject it.
//
// A call that can never succeed sends nothing and returns a [TerminalError], which a [Controller] does not retry.
// Reasons are a wrong T or resource, a nil object, an object without a kind, and an invalid name.
type TypedClient[T Object] struct {
	client   *Client
	resource schema.GroupVersionResource
	invalid  error // the error of every call; nil if client, T and resource are valid
	partial  error // the error of a call that sends a T; nil if T has all fields of the object

	decoders *decode.Pool
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
		c.decoders, err = decode.NewPool(reflect.TypeFor[T](), client.http.Accept, true)
	}
	if err != nil {
		c.invalid = TerminalError(err)
	}
	if err := isWhole[T](); err != nil {
		c.partial = TerminalError(err)
	}
	return c
}

// isWhole returns an error that says what T lacks to be sent as a whole object. It returns nil if T lacks nothing.
func isWhole[T Object]() error {
	var none T
	if _, metadataOnly := any(none).(*metav1.PartialObjectMetadata); metadataOnly {
		return fmt.Errorf("%T has only metadata, and the API server would remove the rest of the object: use Patch or Apply",
			none)
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

// Get reads an object from the server.
func (c *TypedClient[T]) Get(ctx context.Context, key Key, o metav1.GetOptions) (T, error) {
	q := url.Values{}
	if o.ResourceVersion != "" {
		q.Set("resourceVersion", o.ResourceVersion)
	}
	return c.one(ctx, objectRequest{method: http.MethodGet, key: key, query: q})
}

// Create creates obj, and returns the object that the server stored. If obj has metadata.generateName and no name, the
// server chooses a name. The response may have no name, like that to a TokenReview, which the server does not store.
func (c *TypedClient[T]) Create(ctx context.Context, obj T, o metav1.CreateOptions) (T, error) {
	return c.whole(ctx, objectRequest{method: http.MethodPost,
		query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}, obj)
}

// Update replaces an object with obj, if the server has it at obj's resource version; otherwise the error is a
// conflict. For types with a status subresource the server ignores the status.
func (c *TypedClient[T]) Update(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	return c.whole(ctx, objectRequest{method: http.MethodPut,
		query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}, obj)
}

// UpdateStatus replaces the status of an object with that of obj. The API server ignores the spec of obj and, for
// custom resources, the metadata. For many built-in kinds it also updates labels, annotations, finalizers and owner
// references.
func (c *TypedClient[T]) UpdateStatus(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	r := objectRequest{method: http.MethodPut, subresource: []string{"status"},
		query: writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)}
	return c.whole(ctx, r, obj)
}

// Patch applies a patch of type pt to an object: a JSON merge patch (types.MergePatchType, RFC 7386), a JSON patch
// (types.JSONPatchType, RFC 6902), a strategic merge patch (built-in types only), or a server-side apply. With
// subresource "status" it changes the status.
func (c *TypedClient[T]) Patch(ctx context.Context, key Key, pt types.PatchType, patch []byte, o metav1.PatchOptions,
	subresource ...string) (T, error) {
	q := writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)
	if o.Force != nil {
		q.Set("force", strconv.FormatBool(*o.Force))
	}
	return c.one(ctx, objectRequest{method: http.MethodPatch, key: key, subresource: subresource, query: q,
		contentType: string(pt), body: patch})
}

// Apply declares the fields of an object that the caller owns, by server-side apply (KEP-555). The server sets the
// fields of configuration, and removes those that the previous configuration had and this one lacks. configuration is
// encoded as JSON. It may be one of client-go's apply configurations, a map, or a struct whose unset fields have
// omitempty or omitzero. o.FieldManager names the caller and must be set.
func (c *TypedClient[T]) Apply(ctx context.Context, key Key, configuration any, o metav1.ApplyOptions,
	subresource ...string) (T, error) {
	var none T
	if o.FieldManager == "" {
		return none, c.refuse("apply", key, errors.New("ApplyOptions.FieldManager is empty"))
	}
	body, err := c.encode(configuration)
	if err != nil {
		return none, c.refuse("apply", key, err)
	}
	return c.Patch(ctx, key, types.ApplyPatchType, body,
		metav1.PatchOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, Force: &o.Force}, subresource...)
}

// Delete deletes an object. If the object has finalizers or a grace period, Delete only begins the deletion.
func (c *TypedClient[T]) Delete(ctx context.Context, key Key, o metav1.DeleteOptions) error {
	body, err := json.Marshal(&o)
	if err != nil {
		return c.refuse("delete", key, err)
	}
	return c.discard(ctx, objectRequest{method: http.MethodDelete, key: key, contentType: decode.MediaJSON, body: body})
}

// discard sends r, and discards the response.
func (c *TypedClient[T]) discard(ctx context.Context, r objectRequest) error {
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp, decode.MaxObjectBytes)); err != nil { // EOF keeps the connection
		return c.errorf(r.method, r.key, err)
	}
	return nil
}

// List reads the objects of a namespace from the server, or of all namespaces if namespace is empty. o may have
// selectors, a resource version and, for pages, Limit and Continue. The Continue of the result is that of the next
// page, and empty on the last one. List returns an error for o.Watch and o.SendInitialEvents; use an [Informer] to
// watch. If an object cannot be decoded, it returns an error that names the object.
func (c *TypedClient[T]) List(ctx context.Context, namespace string,
	o metav1.ListOptions) ([]T, metav1.ListMeta, error) {
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
	list := decode.NewList(resp, resp.Format)
	for {
		raw, err := list.Next()
		switch err {
		case nil:
			var obj any
			if obj, err = c.decoders.Decode(resp.Format, raw, decode.Origin{List: &list.Info}); err == nil {
				items = append(items, obj.(T))
			} else {
				key := keyOf(resp.Format.Peek(raw))
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

// DeleteCollection deletes the objects of a namespace that match o's selectors. An empty namespace means all
// namespaces.
func (c *TypedClient[T]) DeleteCollection(ctx context.Context, namespace string, d metav1.DeleteOptions,
	o metav1.ListOptions) error {
	key := Key{Namespace: namespace}
	body, err := json.Marshal(&d)
	if err != nil {
		return c.refuse("delete collection", key, err)
	}
	query, err := listQuery(o)
	if err != nil {
		return c.refuse("delete collection", key, err)
	}
	return c.discard(ctx, objectRequest{method: http.MethodDelete, key: key, collection: true, query: query,
		contentType: decode.MediaJSON, body: body})
}

// listQuery returns the parameters of a list.
func listQuery(o metav1.ListOptions) (url.Values, error) {
	if o.Watch || o.SendInitialEvents != nil {
		return nil, errors.New("ListOptions with Watch or SendInitialEvents: use an Informer or a Reflector to watch")
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

// objectRequest is a request for one object or a collection.
type objectRequest struct {
	method      string
	key         Key
	collection  bool // all objects of the key's namespace; of all namespaces if that is empty
	subresource []string
	query       url.Values
	contentType string
	body        []byte
}

func (c *TypedClient[T]) errorf(what string, key Key, err error) error {
	return fmt.Errorf("%s %s %s: %w", what, c.resource.GroupResource(), key, err)
}

// refuse returns the error of a request that is not sent, because it cannot succeed.
func (c *TypedClient[T]) refuse(what string, key Key, err error) error {
	return TerminalError(c.errorf(what, key, err))
}

// whole sends r for the key of obj, with obj as the body.
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

// encode encodes obj as JSON. If obj is a Go struct without a kind, as objects of the cache are, encode sets the kind
// to the name of the type, as a runtime.Scheme does.
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
	if err == nil && resp.Format == decode.Protobuf {
		body, err = decode.Unwrap(body)
	}
	var obj any
	if err == nil {
		obj, err = c.decoders.Decode(resp.Format, body, decode.Origin{Nameless: r.method == http.MethodPost})
	}
	if err != nil {
		return none, c.errorf(r.method, r.key, err)
	}
	return obj.(T), nil
}

// maxTries is the maximum number of times that a request is sent, the same as in client-go.
const maxTries = 10

// do sends r, and retries if the server reports that it did nothing.
func (c *TypedClient[T]) do(ctx context.Context, r objectRequest) (*transport.Response, error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	var segments []string
	if r.key.Namespace != "" {
		segments = append(segments, r.key.Namespace)
	}
	if !r.collection && r.method != http.MethodPost {
		segments = append(segments, r.key.Name) // an empty name would delete the whole collection
	}
	for _, s := range append(segments, r.subresource...) {
		if reasons := rest.IsValidPathSegmentName(s); s == "" || len(reasons) > 0 {
			return nil, c.refuse(r.method, r.key, fmt.Errorf("%q in its path: %s", s,
				strings.Join(append(reasons, "it must be a name"), ", ")))
		}
	}
	u := c.client.http.Base.JoinPath(Resource{GroupVersionResource: c.resource}.path(r.key.Namespace))
	if !r.collection && r.method != http.MethodPost {
		u = u.JoinPath(r.key.Name)
	}
	u = u.JoinPath(r.subresource...)
	u.RawQuery = r.query.Encode()
	accept := c.decoders.Accept()
	if r.collection {
		accept = c.decoders.AcceptList()
	}
	for try := 1; ; try++ {
		if err := c.client.http.Wait(ctx); err != nil {
			return nil, c.errorf(r.method, r.key, err)
		}
		resp, err := c.client.http.Send(ctx, transport.Request{
			Method: r.method, URL: u, Accept: accept, ContentType: r.contentType, Body: r.body,
			Resource: c.resource.GroupResource(), Name: r.key.Name,
		})
		if err == nil {
			if err = c.decoders.Check(resp.Format); err != nil {
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

// retryAfter returns the Retry-After of a 429 or 5xx response, or zero if there is none.
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
