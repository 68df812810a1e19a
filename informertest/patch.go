package informertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"

	"github.com/typedinformer/informer/watchcache"
)

// patchTypes returns the media types of patches that the resource supports.
func (c *collection) patchTypes() []string {
	patchTypes := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if !c.custom {
		patchTypes = append(patchTypes, string(types.StrategicMergePatchType))
	}
	if c.canApply() {
		patchTypes = append(patchTypes, string(types.ApplyYAMLPatchType))
	}
	return patchTypes
}

func (c *collection) servePatch(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	if req.Name == "" {
		return apierrors.NewMethodNotSupported(c.resource.GroupResource(), req.Verb)
	}
	patch, mediaType, err := readBody(r)
	if err != nil {
		return err
	}
	if supported := c.patchTypes(); !slices.Contains(supported, mediaType) {
		return unsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " +
			strings.Join(supported, ", "))
	}
	options, err := patchOptions(req, types.PatchType(mediaType), patch)
	if err != nil {
		return err
	}
	opts.dryRun = len(options.DryRun) > 0
	if mediaType == string(types.ApplyYAMLPatchType) {
		return c.serveApply(w, r, req, opts, patch, options)
	}
	obj, err := c.modify(req.key(), opts, func(old object) (object, error) {
		obj, err := c.patched(w, old, types.PatchType(mediaType), patch, req)
		if err == nil {
			err = c.named(obj, req)
		}
		return obj, err
	})
	if err != nil {
		return err
	}
	c.cache.WriteObject(w, r, http.StatusOK, obj)
	return nil
}

// patchOptions returns the options of a request with a patch. It checks them, and that the patch is well-formed.
func patchOptions(req Request, patchType types.PatchType, patch []byte) (options metav1.PatchOptions, err error) {
	err = metav1.Convert_url_Values_To_v1_PatchOptions(&req.Query, &options, nil)
	if err := checkOptions("PatchOptions", err, validation.ValidatePatchOptions(&options, patchType)); err != nil {
		return options, err
	}
	return options, checkSyntax(patchType, patch)
}

// checkSyntax returns the error of kube-apiserver for a patch that is not JSON, or, for an apply, not YAML.
func checkSyntax(patchType types.PatchType, patch []byte) error {
	if patchType == types.ApplyYAMLPatchType {
		if _, err := yaml.ToJSON(patch); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("error encoding patch: %v", err))
		}
		return nil
	}
	if !json.Valid(patch) {
		return apierrors.NewBadRequest("invalid JSON patch")
	}
	return nil
}

// patched returns obj with a patch applied.
func (c *collection) patched(w http.ResponseWriter, obj object, patchType types.PatchType, patch []byte,
	req Request) (object, error) {
	duplicates, err := checkPatch(patchType, patch, req.fieldValidation())
	if err != nil {
		return nil, err
	}
	before, err := c.marshal(obj)
	if err != nil {
		return nil, err
	}
	after, err := patchJSON(before, patchType, patch, c.newObject())
	if err != nil {
		return nil, err
	}
	wrong := func(err error) error { return unpatchable(after, err) }
	if patchType == types.StrategicMergePatchType { // kube-apiserver shows the patch, not the result
		wrong = func(err error) error {
			var content map[string]any
			if err := kjson.UnmarshalCaseSensitivePreserveInts(patch, &content); err != nil {
				return undecoded(err)
			}
			return unpatchable(fmt.Appendf(nil, "%+v", content), err)
		}
	}
	patched := c.newObject()
	dropped, err := c.decode(after, runtime.ContentTypeJSON, patched, req.fieldValidation())
	if err != nil {
		return nil, wrong(err)
	}
	return patched, req.report(w, slices.Concat(duplicates, dropped), wrong)
}

// checkPatch returns the duplicate fields of a patch, and the words that are none of a JSON patch, unless the client ignores
// them.
func checkPatch(patchType types.PatchType, patch []byte, directive string) (dropped []error, err error) {
	if directive == metav1.FieldValidationIgnore {
		return nil, nil
	}
	switch patchType {
	case types.JSONPatchType:
		var operations []struct {
			Op    string `json:"op"`
			Path  string `json:"path"`
			From  string `json:"from"`
			Value any    `json:"value"`
		}
		if dropped, err = kjson.UnmarshalStrict(patch, &operations); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		for i, err := range dropped {
			dropped[i] = fmt.Errorf("json patch %w", err)
		}
	case types.MergePatchType:
		if dropped, err = kjson.UnmarshalStrict(patch, &map[string]any{}); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
	default:
		if dropped, err = kjson.UnmarshalStrict(patch, &map[string]any{}); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return dropped, nil
}

// patchInto patches an object of a generated type, into another of that type.
func patchInto(obj any, patchType types.PatchType, patch []byte, patched any) error {
	before, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	after, err := patchJSON(before, patchType, patch, patched)
	if err != nil {
		return err
	}
	if err := decode(after, runtime.ContentTypeJSON, patched); err != nil {
		return unpatchable(after, err)
	}
	return nil
}

// unpatchable returns the error of a patch whose result, after, cannot be decoded.
func unpatchable(after []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "",
		field.ErrorList{field.Invalid(field.NewPath("patch"), string(after), err.Error())})
}

// patchJSON returns the JSON of an object with a patch applied. typed is an object of the Go type.
func patchJSON(before []byte, patchType types.PatchType, patch []byte, typed any) (after []byte, err error) {
	switch patchType {
	case types.JSONPatchType:
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if n := len(operations); n > maxPatchOperations {
			return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, n))
		}
		if after, err = applyJSONPatch(before, operations); err != nil {
			return nil, unprocessable(err)
		}
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, patch)
		if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, patch, typed)
		switch {
		case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
			errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err,
				mergepatch.ErrBadPatchFormatForSetElementOrderList),
			errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
			return nil, apierrors.NewBadRequest(err.Error())
		case err != nil:
			return nil, unprocessable(err)
		}
	default:
		return nil, unsupportedMediaType("the body of the request was in an unknown format")
	}
	return after, err
}

// marshal returns obj in JSON, with its kind.
func (c *collection) marshal(obj object) ([]byte, error) {
	if _, ok := obj.(runtime.Object); ok {
		obj = watchcache.ShallowCopy(obj)
		obj.(runtime.Object).GetObjectKind().SetGroupVersionKind(c.resource.GroupVersion().WithKind(c.resource.Kind))
	}
	return json.Marshal(obj)
}

// named checks that obj is the object that the request names.
func (c *collection) named(obj object, req Request) error {
	if obj.GetName() == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be "+
			"provided", req.Name))
	}
	if obj.GetName() != req.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)",
			obj.GetName(), req.Name))
	}
	if obj.GetNamespace() != req.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(),
		0, false)
}

func unsupportedMediaType(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusUnsupportedMediaType,
		Reason:  metav1.StatusReasonUnsupportedMediaType,
		Message: text,
	}}
}
