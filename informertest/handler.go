package informertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// maxBody is the size limit of a request's body, as in kube-apiserver.
const maxBody = 3 << 20

// serve answers a request for this collection.
func (c *Collection[T]) serve(w http.ResponseWriter, r *http.Request, req Request) {
	across := !c.resource.ClusterScoped && req.Namespace == "" // all namespaces support only list and watch
	known := !(across && req.Name != "") && (req.Subresource == "" || req.Subresource == "status" &&
		c.resource.StatusSubresource)
	if !known || c.resource.ClusterScoped && req.Namespace != "" {
		http.NotFound(w, r)
		return
	}
	opts := writeOptions{status: req.Subresource == "status", manager: managerOf(r, req)}
	var err error
	if across && req.Verb != "list" && req.Verb != "watch" {
		watchcache.WriteError(w, r, apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb))
		return
	}
	switch req.Verb {
	case "list", "watch":
		c.cache.ServeList(w, r, req.Namespace)
	case "get":
		c.cache.ServeObject(w, r, req.key())
	case "create":
		err = c.serveCreate(w, r, req, opts)
	case "update":
		err = c.serveUpdate(w, r, req, opts)
	case "patch":
		err = c.servePatch(w, r, req, opts)
	case "delete":
		err = c.serveDelete(w, r, req, opts)
	case "deletecollection":
		err = c.serveDeleteCollection(w, r, req, opts)
	default:
		err = apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	if err != nil {
		watchcache.WriteError(w, r, err)
	}
}

func (c *Collection[T]) serveCreate(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	if req.Name != "" {
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	var options metav1.CreateOptions
	err := metav1.Convert_url_Values_To_v1_CreateOptions(&req.Query, &options, nil)
	if err := checkOptions("CreateOptions", err, validation.ValidateCreateOptions(&options)); err != nil {
		return err
	}
	opts.dryRun = len(options.DryRun) > 0
	obj, err := c.readObject(r, req)
	if err != nil {
		return err
	}
	if obj, err = c.create(obj, opts); err != nil {
		return err
	}
	c.cache.WriteObject(w, r, http.StatusCreated, obj)
	return nil
}

func (c *Collection[T]) serveUpdate(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	if req.Name == "" {
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	var options metav1.UpdateOptions
	err := metav1.Convert_url_Values_To_v1_UpdateOptions(&req.Query, &options, nil)
	if err := checkOptions("UpdateOptions", err, validation.ValidateUpdateOptions(&options)); err != nil {
		return err
	}
	opts.dryRun = len(options.DryRun) > 0
	obj, err := c.readObject(r, req)
	if err != nil {
		return err
	}
	if err := c.named(obj, req); err != nil {
		return err
	}
	if obj, err = c.update(obj, opts); err != nil {
		return err
	}
	c.cache.WriteObject(w, r, http.StatusOK, obj)
	return nil
}

func (c *Collection[T]) serveDelete(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	if opts.status {
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	options, err := deleteOptions(r, req)
	if err != nil {
		return err
	}
	opts.dryRun = len(options.DryRun) > 0
	obj, gone, err := c.delete(req.key(), options.Preconditions, opts)
	if err != nil {
		return err
	}
	if !gone {
		c.cache.WriteObject(w, r, http.StatusOK, obj)
		return nil
	}
	watchcache.WriteStatus(w, r, metav1.Status{
		Status: metav1.StatusSuccess,
		Code:   http.StatusOK,
		Details: &metav1.StatusDetails{
			Name:  obj.GetName(),
			Group: c.resource.Group,
			Kind:  c.resource.Resource,
			UID:   obj.GetUID(),
		},
	})
	return nil
}

func (c *Collection[T]) serveDeleteCollection(w http.ResponseWriter, r *http.Request, req Request,
	opts writeOptions) error {
	options, err := deleteOptions(r, req)
	if err != nil {
		return err
	}
	opts.dryRun = len(options.DryRun) > 0
	selected, err := c.cache.Selected(r, req.Namespace)
	if err != nil {
		return err
	}
	rv := c.cache.ResourceVersion()
	deleted := []T{}
	for _, obj := range selected {
		obj, _, err := c.delete(informer.KeyOf(obj), options.Preconditions, opts)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		deleted = append(deleted, obj)
	}
	c.cache.WriteList(w, r, rv, deleted)
	return nil
}

// deleteOptions returns the options of a DELETE: from the body or else from the query, as in kube-apiserver.
func deleteOptions(r *http.Request, req Request) (options metav1.DeleteOptions, err error) {
	body, mediaType, err := readBody(r)
	if err != nil {
		return options, err
	}
	if len(body) > 0 {
		if err := decode(body, mediaType, &options); err != nil {
			return options, err
		}
	} else {
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&req.Query, &options, nil)
	}
	return options, checkOptions("DeleteOptions", err, validation.ValidateDeleteOptions(&options))
}

// checkOptions returns the error of a request with unreadable or invalid options.
func checkOptions(kind string, err error, errs field.ErrorList) error {
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	return nil
}

// readObject decodes the object of a create or update request.
func (c *Collection[T]) readObject(r *http.Request, req Request) (T, error) {
	var none T
	body, mediaType, err := readBody(r)
	if err != nil {
		return none, err
	}
	obj := c.newObject()
	if err := c.decode(body, mediaType, obj, req); err != nil {
		return none, err
	}
	if typed, ok := any(obj).(runtime.Object); ok {
		want := c.resource.GroupVersion().WithKind(c.resource.Kind)
		if got := typed.GetObjectKind().GroupVersionKind(); !got.Empty() && got != want {
			return none, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got, want))
		}
	}
	if obj.GetNamespace() == "" {
		obj.SetNamespace(req.Namespace)
	}
	if obj.GetNamespace() != req.Namespace {
		return none, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return obj, nil
}

// readBody returns the body of a request and its media type, by default application/json.
func readBody(r *http.Request) (body []byte, mediaType string, err error) {
	body, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, "", apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if err != nil {
		return nil, "", apierrors.NewBadRequest(err.Error())
	}
	mediaType, _, err = mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		mediaType = runtime.ContentTypeJSON
	}
	return body, mediaType, nil
}

func (c *Collection[T]) newObject() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// decode decodes a body into obj. With fieldValidation=Strict, it rejects JSON fields that T does not have.
func (c *Collection[T]) decode(body []byte, mediaType string, obj T, req Request) error {
	if err := decode(body, mediaType, obj); err != nil {
		return err
	}
	_, kinded := any(obj).(runtime.Object) // without this, apiVersion and kind would be unknown fields
	if !kinded || req.Query.Get("fieldValidation") != metav1.FieldValidationStrict ||
		mediaType != runtime.ContentTypeJSON || c.dynamic {
		return nil
	}
	if unknown, err := kjson.UnmarshalStrict(body, c.newObject()); err == nil && len(unknown) > 0 {
		return apierrors.NewBadRequest(runtime.NewStrictDecodingError(unknown).Error())
	}
	return nil
}

// decode decodes a body into obj, a pointer to a Kubernetes type with a kind.
func decode(body []byte, mediaType string, obj any) error {
	var err error
	switch message, isMessage := obj.(interface{ Unmarshal([]byte) error }); {
	case mediaType == runtime.ContentTypeJSON:
		if u, ok := obj.(*unstructured.Unstructured); ok {
			err = json.Unmarshal(body, &u.Object)
		} else {
			err = json.Unmarshal(body, obj)
		}
	case mediaType == runtime.ContentTypeProtobuf && isMessage:
		raw, isKubernetes := bytes.CutPrefix(body, []byte("k8s\x00"))
		if !isKubernetes {
			return apierrors.NewBadRequest("the body is not of Kubernetes' protobuf format")
		}
		var unknown runtime.Unknown
		if err = unknown.Unmarshal(raw); err == nil {
			err = message.Unmarshal(unknown.Raw)
		}
	default:
		return unsupportedMediaType(fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s, %s", runtime.ContentTypeJSON, runtime.ContentTypeProtobuf))
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the body cannot be decoded: %v", err))
	}
	return nil
}
