package informer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/typedclient"
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
type TypedClient[T Object] struct{ client *typedclient.Client }

// NewTypedClient returns a client for one resource. If client, T or resource is wrong, each call returns a
// [TerminalError] that says so.
func NewTypedClient[T Object](client *Client, resource schema.GroupVersionResource) *TypedClient[T] {
	var none T
	return NewTypedClientOf(client, resource, none)
}

// NewTypedClientOf is like [NewTypedClient] for a T that is an interface type. prototype is a pointer of the type to
// decode, as in Config.Prototype. The zero T means T itself.
func NewTypedClientOf[T Object](client *Client, resource schema.GroupVersionResource, prototype T) *TypedClient[T] {
	typed := Config[T]{Prototype: prototype}
	collection := Resource{GroupVersionResource: resource}
	config := typedclient.Config{
		Resource:    resource,
		Path:        func(namespace string) string { return fetch.Path(resource, namespace) },
		Type:        typed.goType(),
		Terminal:    TerminalError,
		Undecodable: func(key Key, err error) error { return &DecodeError{Resource: collection, Key: key, Err: err} },
	}
	invalid := collection.validate()
	if client != nil {
		config.HTTP = client.http
	} else if invalid == nil {
		invalid = errNoClient
	}
	return &TypedClient[T]{typedclient.New(config, invalid)}
}

// typed returns obj as a T.
func typed[T Object](obj any, err error) (T, error) {
	t, _ := obj.(T)
	return t, err
}

// Get reads an object from the server. If the object cannot be decoded, the error wraps a [*DecodeError].
func (c *TypedClient[T]) Get(ctx context.Context, key Key, o metav1.GetOptions) (T, error) {
	return typed[T](c.client.Get(ctx, key, o))
}

// Create creates obj, and returns the object that the server stored. If obj has metadata.generateName and no name, the
// server chooses a name. The response may have no name, like that to a TokenReview, which the server does not store.
func (c *TypedClient[T]) Create(ctx context.Context, obj T, o metav1.CreateOptions) (T, error) {
	return typed[T](c.client.Create(ctx, obj, o))
}

// Update replaces an object with obj, if the server has it at obj's resource version; otherwise the error is a
// conflict. For types with a status subresource the server ignores the status.
func (c *TypedClient[T]) Update(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	return typed[T](c.client.Update(ctx, obj, o))
}

// UpdateStatus replaces the status of an object with that of obj. The API server ignores the spec of obj and, for
// custom resources, the metadata. For many built-in kinds it also updates labels, annotations, finalizers and owner
// references.
func (c *TypedClient[T]) UpdateStatus(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error) {
	return typed[T](c.client.Update(ctx, obj, o, "status"))
}

// Patch applies a patch of type pt to an object: a JSON merge patch (types.MergePatchType, RFC 7386), a JSON patch
// (types.JSONPatchType, RFC 6902), a strategic merge patch (built-in types only), or a server-side apply. With
// subresource "status" it changes the status.
func (c *TypedClient[T]) Patch(ctx context.Context, key Key, pt types.PatchType, patch []byte, o metav1.PatchOptions,
	subresource ...string) (T, error) {
	return typed[T](c.client.Patch(ctx, key, pt, patch, o, subresource...))
}

// Apply declares the fields of an object that the caller owns, by server-side apply (KEP-555). The server sets the
// fields of configuration, and removes those that the previous configuration had and this one lacks. configuration is
// encoded as JSON. It may be one of client-go's apply configurations, a map, or a struct whose unset fields have
// omitempty or omitzero. o.FieldManager names the caller and must be set.
func (c *TypedClient[T]) Apply(ctx context.Context, key Key, configuration any, o metav1.ApplyOptions,
	subresource ...string) (T, error) {
	return typed[T](c.client.Apply(ctx, key, configuration, o, subresource...))
}

// Delete deletes an object. If the object has finalizers or a grace period, Delete only begins the deletion.
func (c *TypedClient[T]) Delete(ctx context.Context, key Key, o metav1.DeleteOptions) error {
	return c.client.Delete(ctx, key, o)
}

// List reads the objects of a namespace from the server, or of all namespaces if namespace is empty. o may have
// selectors, a resource version and, for pages, Limit and Continue. The Continue of the result is that of the next
// page, and empty on the last one. List returns an error for o.Watch and o.SendInitialEvents; use an [Informer] to
// watch. If objects cannot be decoded, List returns the others, and an error that wraps a [*DecodeError] of each. Any
// other error comes without objects.
func (c *TypedClient[T]) List(ctx context.Context, namespace string,
	o metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	var items typedclient.Items[T]
	meta, err := c.client.List(ctx, namespace, o, items.Add)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	return items.Objects, meta, items.Err()
}

// DeleteCollection deletes the objects of a namespace that match o's selectors. An empty namespace means all
// namespaces.
func (c *TypedClient[T]) DeleteCollection(ctx context.Context, namespace string, d metav1.DeleteOptions,
	o metav1.ListOptions) error {
	return c.client.DeleteCollection(ctx, namespace, d, o)
}
