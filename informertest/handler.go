package informertest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// maxBody is the size limit of a request's body, as in kube-apiserver.
const maxBody = 3 << 20

// serve answers a request for this collection.
func (c *collection) serve(w http.ResponseWriter, r *http.Request, req Request) {
	across := !c.resource.ClusterScoped && req.Namespace == "" // all namespaces support only list and watch
	sub, hasSub := c.resource.subresource(req.Subresource)
	known := req.Subresource == "" || hasSub || req.Subresource == "status" && c.resource.StatusSubresource
	if across && req.Name != "" || c.resource.ClusterScoped && req.Namespace != "" || !known && !c.custom {
		http.NotFound(w, r)
		return
	}
	if c.resource.Warning != "" {
		warn(w, c.resource.Warning)
	}
	if !known { // only for a custom resource, kube-apiserver describes it
		watchcache.WriteError(w, r, apierrors.NewNotFound(c.resource.GroupResource(), req.Name))
		return
	}
	opts := writeOptions{status: req.Subresource == "status", subresource: req.Subresource, manager: managerOf(r, req)}
	if err := c.answer(w, r, req, opts, sub); err != nil {
		watchcache.WriteError(w, r, err)
	}
}

// answer serves a request for the collection, an object or a subresource, or returns the error to respond with.
func (c *collection) answer(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions,
	sub subresource) (err error) {
	if sub.serve == nil { // the others write no object of this kind
		if opts.admission, err = c.admission(w, r, req); err != nil {
			return err
		}
	}
	switch {
	case sub.name != "":
		return c.serveSubresource(w, r, req, opts, sub)
	case !c.resource.ClusterScoped && req.Namespace == "" && req.Verb != "list" && req.Verb != "watch":
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	return c.serveVerb(w, r, req, opts)
}

// serveVerb serves a request for an object, its status, or the collection.
func (c *collection) serveVerb(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) (err error) {
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
	return err
}

func (c *collection) serveCreate(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	if req.Name != "" {
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	var options metav1.CreateOptions
	err := metav1.Convert_url_Values_To_v1_CreateOptions(&req.Query, &options, nil)
	if err := checkOptions("CreateOptions", err, validation.ValidateCreateOptions(&options)); err != nil {
		return err
	}
	opts.dryRun = len(options.DryRun) > 0
	obj, err := c.readObject(w, r, req)
	if err != nil {
		return err
	}
	if obj, err = c.create(obj, opts); err != nil {
		return err
	}
	c.cache.WriteObject(w, r, http.StatusCreated, obj)
	return nil
}

func (c *collection) serveUpdate(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	if req.Name == "" {
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	var options metav1.UpdateOptions
	err := metav1.Convert_url_Values_To_v1_UpdateOptions(&req.Query, &options, nil)
	if err := checkOptions("UpdateOptions", err, validation.ValidateUpdateOptions(&options)); err != nil {
		return err
	}
	opts.dryRun = len(options.DryRun) > 0
	obj, err := c.readObject(w, r, req)
	if err != nil {
		return err
	}
	if err := c.named(obj, req); err != nil {
		return err
	}
	obj, code, err := c.updateOrCreate(obj, opts)
	if err != nil {
		return err
	}
	c.cache.WriteObject(w, r, code, obj)
	return nil
}

func (c *collection) serveDelete(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	if opts.status {
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	options, err := deleteOptions(r, req)
	if err != nil {
		return err
	}
	c.warnOrphaned(w, options)
	opts.dryRun = len(options.DryRun) > 0
	obj, gone, err := c.delete(req.key(), options, opts)
	if err != nil {
		return err
	}
	if !gone || slices.Contains(returned, c.resource.GroupResource()) {
		code := http.StatusOK
		if orphan := orphans(options); !gone && orphan != nil && !*orphan {
			code = http.StatusAccepted
		}
		c.cache.WriteObject(w, r, code, obj)
		return nil
	}
	watchcache.WriteStatus(w, r, metav1.Status{ // without a code, as in kube-apiserver
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name:  obj.GetName(),
			Group: c.resource.Group,
			Kind:  c.resource.Resource,
			UID:   obj.GetUID(),
		},
	})
	return nil
}

func (c *collection) serveDeleteCollection(w http.ResponseWriter, r *http.Request, req Request,
	opts writeOptions) error {
	options, err := deleteOptions(r, req)
	if err != nil {
		return err
	}
	c.warnOrphaned(w, options)
	opts.dryRun = len(options.DryRun) > 0
	selected, err := c.cache.Selected(r, req.Namespace)
	if err != nil {
		return err
	}
	rv := c.cache.ResourceVersion()
	deleted := []object{}
	for _, obj := range selected {
		obj, _, err := c.delete(informer.KeyOf(obj), options, opts)
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
func (c *collection) readObject(w http.ResponseWriter, r *http.Request, req Request) (object, error) {
	body, mediaType, err := readBody(r)
	if err != nil {
		return nil, err
	}
	obj := c.newObject()
	dropped, err := c.decode(body, mediaType, obj, req.fieldValidation())
	if err != nil {
		return nil, c.unrecognized(body, mediaType, err)
	}
	if err := req.report(w, dropped, c.unhandled); err != nil {
		return nil, err
	}
	if err := c.checkKind(obj, body); err != nil {
		return nil, err
	}
	if obj.GetNamespace() == "" {
		obj.SetNamespace(req.Namespace)
	}
	if obj.GetNamespace() != req.Namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return obj, nil
}

// checkKind returns the error of a body with another kind or version. Only a custom resource has to name its kind.
func (c *collection) checkKind(obj object, body []byte) error {
	typed, ok := obj.(runtime.Object)
	if !ok {
		return nil
	}
	want := c.resource.GroupVersion().WithKind(c.resource.Kind)
	got := typed.GetObjectKind().GroupVersionKind()
	if c.dynamic && got.Kind == "" {
		//lint:ignore ST1005 kube-apiserver begins it with a capital letter
		return c.mistaken(body, fmt.Errorf("Object 'Kind' is missing in '%s'", body))
	}
	got.Kind = cmp.Or(got.Kind, want.Kind)
	if got.GroupVersion().Empty() && !c.dynamic {
		got.Group, got.Version = want.Group, want.Version
	}
	switch {
	case got.GroupVersion() != want.GroupVersion():
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API "+
			"version (%s)", got.GroupVersion(), want.GroupVersion()))
	case got.Kind != want.Kind && c.dynamic:
		return apierrors.NewInvalid(got.GroupKind(), obj.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("kind"), got.Kind, "must be "+want.Kind)})
	case got.Kind != want.Kind:
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: they are different kinds",
			got.Kind, got.Version, want.Kind))
	}
	return nil
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

func (c *collection) newObject() object {
	return reflect.New(c.typ.Elem()).Interface().(object)
}

// decode decodes a body into obj and completes it by the hook. Unless the client ignores them, it returns the fields that the kind
// does not have, and the duplicates.
func (c *collection) decode(body []byte, mediaType string, obj object, directive string) (dropped []error, err error) {
	_, kinded := obj.(runtime.Object) // without this, apiVersion and kind would be unknown fields
	if kinded && mediaType == runtime.ContentTypeJSON && directive != metav1.FieldValidationIgnore {
		dropped, err = kjson.UnmarshalStrict(body, target(obj))
	} else {
		err = unmarshal(body, mediaType, obj)
	}
	if err != nil || c.resource.Hooks.Decode == nil {
		return dropped, err
	}
	paths, err := c.resource.Hooks.Decode(obj)
	for _, path := range paths {
		dropped = append(dropped, fmt.Errorf("unknown field %q", path))
	}
	return dropped, err
}

// unhandled returns the error of an object of this kind that cannot be decoded.
func (c *collection) unhandled(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %[1]s: %[3]v", c.resource.Kind,
		c.resource.Version, err))
}

// unrecognized returns kube-apiserver's error for a body that cannot be decoded.
func (c *collection) unrecognized(body []byte, mediaType string, err error) error {
	switch {
	case isStatus(err):
		return err
	case mediaType != runtime.ContentTypeJSON || json.Unmarshal(body, new(metav1.TypeMeta)) == nil:
		return c.unhandled(err)
	}
	return c.mistaken(body, fmt.Errorf("couldn't get version/kind; json parse error: %w", err))
}

// mistaken returns kube-apiserver's error for a body that is no object.
func (c *collection) mistaken(body []byte, err error) error {
	text := cmp.Or(string(body), "<empty>")
	if len(body) > bodySummary {
		text = string(body[:bodySummary]) + " ..."
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)",
		c.resource.Kind, err, text))
}

// bodySummary is how much of a body is in the error that says that it is unreadable, as in kube-apiserver.
const bodySummary = 30

// fieldValidation returns what the client wants to be done about fields that a kind does not have, and about duplicates.
func (r Request) fieldValidation() string {
	return cmp.Or(r.Query.Get("fieldValidation"), metav1.FieldValidationWarn)
}

// report warns the client of dropped fields. If it validates them strictly, report returns the error that refuse makes.
func (r Request) report(w http.ResponseWriter, dropped []error, refuse func(error) error) error {
	switch directive := r.fieldValidation(); {
	case len(dropped) == 0 || directive == metav1.FieldValidationIgnore:
	case directive == metav1.FieldValidationStrict:
		return refuse(runtime.NewStrictDecodingError(dropped))
	default:
		for _, err := range dropped {
			warn(w, err.Error())
		}
	}
	return nil
}

// warn adds a warning to a response, which kubectl and client-go print. Each text is sent once, even if a write was tried again.
// As in kube-apiserver, the warnings of a try that another write was ahead of remain.
func warn(w http.ResponseWriter, text string) {
	header, err := utilnet.NewWarningHeader(299, "-", text)
	if err == nil && !slices.Contains(w.Header()["Warning"], header) {
		w.Header().Add("Warning", header)
	}
}

// target returns what to decode JSON into for obj.
func target(obj any) any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return &u.Object
	}
	return obj
}

// decode decodes a body into obj, a pointer to a Kubernetes type with a kind.
func decode(body []byte, mediaType string, obj any) error {
	err := unmarshal(body, mediaType, obj)
	if err == nil || isStatus(err) {
		return err
	}
	return undecoded(err)
}

func undecoded(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the body cannot be decoded: %v", err))
}

// isStatus reports whether an error says what to respond with.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// unmarshal is decode with the errors of the encodings.
func unmarshal(body []byte, mediaType string, obj any) error {
	switch message, isMessage := obj.(interface{ Unmarshal([]byte) error }); {
	case mediaType == runtime.ContentTypeJSON:
		return json.Unmarshal(body, target(obj))
	case mediaType == runtime.ContentTypeProtobuf && isMessage:
		raw, isKubernetes := bytes.CutPrefix(body, []byte("k8s\x00"))
		if !isKubernetes {
			return apierrors.NewBadRequest("the body is not of Kubernetes' protobuf format")
		}
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(raw); err != nil {
			return err
		}
		return message.Unmarshal(unknown.Raw)
	}
	return unsupportedMediaType(fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s, %s", runtime.ContentTypeJSON, runtime.ContentTypeProtobuf))
}
