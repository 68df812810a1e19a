// Package typedclient reads and writes the objects of one resource at an API server, as informer.TypedClient
// documents it. It builds requests, sends them again if the server asks for that, and decodes the responses. Objects
// are of any type. It notes writes in the context; see package ownwrites.
package typedclient

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

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/queue/ownwrites"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
)

// Config describes a Client.
type Config struct {
	HTTP     *transport.Client
	Resource schema.GroupVersionResource
	Path     func(namespace string) string // the path of the collection
	Type     reflect.Type                  // of the objects, a pointer
	Terminal func(error) error             // wraps the error of a call that cannot succeed
	// Undecodable wraps the error of an object that was read, alone or in a list, and cannot be decoded.
	Undecodable func(key object.Key, err error) error
}

// Client reads and writes the objects of one resource. It is safe for concurrent use.
type Client struct {
	config   Config
	decoders *decode.Pool
	kind     *decode.Kind // of the objects
	invalid  error        // the error of every call; nil if the configuration is valid
	partial  error        // the error of a call that sends an object; nil if the type has all fields
}

// New returns a client. Each call returns invalid if that is not nil, or says what is wrong with the type.
func New(config Config, invalid error) *Client {
	c := &Client{config: config}
	if invalid == nil {
		c.decoders, invalid = decode.NewPool(config.Type, config.HTTP.Accept, true, nil)
	}
	if invalid != nil {
		c.invalid = config.Terminal(invalid)
	} else {
		c.kind = decode.NewKind(config.Type, config.Resource.Resource)
	}
	if err := isWhole(config.Type); err != nil {
		c.partial = config.Terminal(err)
	}
	return c
}

// isWhole returns an error that says what t lacks to be sent as a whole object. It returns nil if t lacks nothing.
func isWhole(t reflect.Type) error {
	if t == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		return fmt.Errorf("%v has only metadata, and the API server would remove the rest of the object: use Patch or Apply", t)
	}
	var missing, remedy string
	switch {
	case !t.Implements(reflect.TypeFor[interface{ DeepCopyObject() runtime.Object }]()):
		missing = "the method DeepCopyObject() runtime.Object"
		remedy = "run codegen with -deepcopy, or have controller-gen or deepcopy-gen generate it (marker +kubebuilder:object:root=true, or " +
			"+k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object)"
	case !t.Implements(reflect.TypeFor[runtime.Object]()):
		missing = "the method GetObjectKind() schema.ObjectKind"
		remedy = "embed metav1.TypeMeta"
	default:
		return nil
	}
	return fmt.Errorf("%v lacks %s, which a type with all of the object's fields has: %s. If it has only some fields, "+
		"the API server would remove the others: use Patch or Apply", t, missing, remedy)
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, key object.Key, o metav1.GetOptions) (any, error) {
	q := url.Values{}
	if o.ResourceVersion != "" {
		q.Set("resourceVersion", o.ResourceVersion)
	}
	return c.one(ctx, request{method: http.MethodGet, key: key, query: q})
}

// Create creates obj.
func (c *Client) Create(ctx context.Context, obj object.Object, o metav1.CreateOptions) (any, error) {
	q := writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)
	return c.whole(ctx, request{method: http.MethodPost, query: q}, obj)
}

// Update replaces an object, or its subresource, with obj.
func (c *Client) Update(ctx context.Context, obj object.Object, o metav1.UpdateOptions,
	subresource ...string) (any, error) {
	q := writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)
	return c.whole(ctx, request{method: http.MethodPut, subresource: subresource, query: q}, obj)
}

// Patch applies a patch of type pt to an object, or to its subresource.
func (c *Client) Patch(ctx context.Context, key object.Key, pt types.PatchType, patch []byte, o metav1.PatchOptions,
	subresource ...string) (any, error) {
	q := writeOptions(o.DryRun, o.FieldManager, o.FieldValidation)
	if o.Force != nil {
		q.Set("force", strconv.FormatBool(*o.Force))
	}
	r := request{method: http.MethodPatch, key: key, subresource: subresource, query: q,
		contentType: string(pt), body: patch}
	if ownwrites.Recorded(ctx) {
		if base := ownwrites.BaseOf(pt, patch); base != "" {
			return c.exclusive(ctx, r, base)
		}
	}
	return c.one(ctx, r)
}

// Apply applies configuration to an object, or to its subresource, by server-side apply.
func (c *Client) Apply(ctx context.Context, key object.Key, configuration any, o metav1.ApplyOptions,
	subresource ...string) (any, error) {
	if o.FieldManager == "" {
		return nil, c.refuse("apply", key, errors.New("ApplyOptions.FieldManager is empty"))
	}
	body, err := c.encode(configuration)
	if err != nil {
		return nil, c.refuse("apply", key, err)
	}
	return c.Patch(ctx, key, types.ApplyPatchType, body,
		metav1.PatchOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, Force: &o.Force}, subresource...)
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, key object.Key, o metav1.DeleteOptions) error {
	body, err := json.Marshal(&o)
	if err != nil {
		return c.refuse("delete", key, err)
	}
	r := request{method: http.MethodDelete, key: key, contentType: decode.MediaJSON, body: body}
	if !ownwrites.Wanted(ctx) || len(o.DryRun) > 0 {
		return c.discard(ctx, r)
	}
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Close()
	answer, err := io.ReadAll(io.LimitReader(resp, decode.MaxObjectBytes))
	if err != nil {
		return c.errorf(r.method, key, err)
	}
	c.noteDeletion(ctx, key, resp.Format, answer)
	return nil
}

// List calls yield with each object of a namespace, or of all namespaces if that is empty, as o selects them. In place
// of an object that cannot be decoded, yield receives an error.
func (c *Client) List(ctx context.Context, namespace string, o metav1.ListOptions,
	yield func(obj any, err error)) (metav1.ListMeta, error) {
	key := object.Key{Namespace: namespace}
	query, err := listQuery(o)
	if err != nil {
		return metav1.ListMeta{}, c.refuse("list", key, err)
	}
	resp, err := c.do(ctx, request{method: http.MethodGet, key: key, collection: true, query: query})
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer resp.Close()
	list := decode.NewList(resp, resp.Format, c.kind, nil)
	for {
		raw, err := list.Next()
		switch err {
		case nil:
			obj, failed := c.decoders.Decode(resp.Format, raw, decode.Origin{List: &list.Info})
			if failed != nil {
				failed = c.undecodable(key, resp.Format.Peek(raw), failed)
			}
			yield(obj, failed)
		case decode.ErrMore:
			err = list.Fill()
		case io.EOF:
			return list.Info.ListMeta, nil
		default:
			if large := decode.Large(err); large != nil {
				yield(nil, c.undecodable(key, large.ID, large))
				continue
			}
		}
		if err != nil {
			return metav1.ListMeta{}, c.errorf("list", key, err)
		}
	}
}

// undecodable returns the error for an item of the list of key that cannot be decoded.
func (c *Client) undecodable(key object.Key, id decode.Identity, err error) error {
	return c.errorf("list", key, c.config.Undecodable(object.Key{Namespace: string(id.Namespace), Name: string(id.Name)}, err))
}

// DeleteCollection deletes the objects of a namespace, or of all namespaces if that is empty, as o selects them.
func (c *Client) DeleteCollection(ctx context.Context, namespace string, d metav1.DeleteOptions,
	o metav1.ListOptions) error {
	key := object.Key{Namespace: namespace}
	body, err := json.Marshal(&d)
	if err != nil {
		return c.refuse("delete collection", key, err)
	}
	query, err := listQuery(o)
	if err != nil {
		return c.refuse("delete collection", key, err)
	}
	return c.discard(ctx, request{method: http.MethodDelete, key: key, collection: true, query: query,
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

// request is a request for one object or a collection.
type request struct {
	method      string
	key         object.Key
	collection  bool // all objects of the key's namespace; of all namespaces if that is empty
	subresource []string
	query       url.Values
	contentType string
	body        []byte
}

func (c *Client) errorf(what string, key object.Key, err error) error {
	return fmt.Errorf("%s %s %s: %w", what, c.config.Resource.GroupResource(), key, err)
}

// refuse returns the error of a request that is not sent, because it cannot succeed.
func (c *Client) refuse(what string, key object.Key, err error) error {
	return c.config.Terminal(c.errorf(what, key, err))
}

// whole sends r for the key of obj, with obj as the body.
func (c *Client) whole(ctx context.Context, r request, obj object.Object) (any, error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	if obj == nil || reflect.ValueOf(obj).IsNil() {
		return nil, c.refuse(r.method, r.key, errors.New("the object is nil"))
	}
	r.key = object.KeyOf(obj)
	if c.partial != nil {
		return nil, c.errorf(r.method, r.key, c.partial)
	}
	var err error
	if r.body, err = c.encode(obj); err != nil {
		return nil, c.refuse(r.method, r.key, err)
	}
	r.contentType = decode.MediaJSON
	base := obj.GetResourceVersion()
	if r.method == http.MethodPut && base == "" { // the server replaces any version
		return c.one(ctx, r)
	}
	if r.method == http.MethodPost {
		base = ""
	}
	return c.exclusive(ctx, r, base)
}

// encode encodes obj as JSON. If obj is a Go struct without a kind, as objects of the cache are, encode sets the kind
// to the name of the type, as a runtime.Scheme does.
func (c *Client) encode(obj any) ([]byte, error) {
	if o, ok := obj.(runtime.Object); ok && o.GetObjectKind().GroupVersionKind().Kind == "" {
		if _, dynamic := obj.(runtime.Unstructured); dynamic {
			return nil, fmt.Errorf("the %T has no kind: set apiVersion and kind", obj)
		}
		if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
			named := reflect.New(v.Elem().Type()) // a flat copy: obj may be from the cache
			named.Elem().Set(v.Elem())
			o = named.Interface().(runtime.Object)
			o.GetObjectKind().SetGroupVersionKind(c.config.Resource.GroupVersion().WithKind(v.Elem().Type().Name()))
			obj = o
		}
	}
	return json.Marshal(obj)
}

// one sends r, and decodes the response.
func (c *Client) one(ctx context.Context, r request) (any, error) {
	resp, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	kind := c.kind
	if r.method != http.MethodGet { // a write may return another kind, like a Status
		kind = nil
	}
	body, err := read(resp, kind)
	var obj any
	if err == nil {
		obj, err = c.decoders.Decode(resp.Format, body, decode.Origin{Nameless: r.method == http.MethodPost})
		if err != nil && r.method == http.MethodGet {
			err = c.config.Undecodable(r.key, err)
		}
	}
	if err != nil {
		return nil, c.errorf(r.method, r.key, err)
	}
	if r.method != http.MethodGet && !r.query.Has("dryRun") {
		c.note(ctx, obj)
	}
	return obj, nil
}

// read reads the object in resp. In protobuf, it returns the message without its envelope.
func read(resp *transport.Response, kind *decode.Kind) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp, decode.MaxObjectBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > decode.MaxObjectBytes:
		return nil, decode.ErrTooLarge
	}
	return resp.Format.One(body, kind, nil)
}

// discard sends r, and discards the response.
func (c *Client) discard(ctx context.Context, r request) error {
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

// maxTries is the maximum number of times that a request is sent, the same as in client-go.
const maxTries = 10

// do sends r, and retries if the server reports that it did nothing.
func (c *Client) do(ctx context.Context, r request) (*transport.Response, error) {
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
	segments = []string{c.config.Path(r.key.Namespace)}
	if !r.collection && r.method != http.MethodPost {
		segments = append(segments, r.key.Name)
	}
	path := strings.Join(append(segments, r.subresource...), "/")
	accept := c.decoders.Accept()
	if r.collection {
		accept = c.decoders.AcceptList()
	}
	for try := 1; ; try++ {
		if err := c.config.HTTP.Wait(ctx); err != nil {
			return nil, c.errorf(r.method, r.key, err)
		}
		resp, err := c.config.HTTP.Send(ctx, transport.Request{
			Method: r.method, Path: path, Query: r.query, Accept: accept, ContentType: r.contentType, Body: r.body,
			Resource: c.config.Resource.GroupResource(), Name: r.key.Name,
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
		if stopped := run.Sleep(ctx, wait); stopped != nil {
			return nil, fmt.Errorf("%w, after: %w", stopped, err)
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
