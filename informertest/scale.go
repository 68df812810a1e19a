package informertest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// ScalePaths say where the objects of a resource have what the scale subresource reads and writes, as paths such as
// .spec.replicas.
type ScalePaths struct {
	SpecReplicas   string
	StatusReplicas string
	// Selector is the path of a label selector, as a string or, in a kind of Kubernetes itself, as an object. Empty means
	// that the scale has none.
	Selector string
}

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

var scaleSubresource = subresource{
	name:  "scale",
	kind:  scaleKind,
	verbs: statusVerbs,
	serve: (*collection).serveScale,
}

// scalePaths returns the paths for the scale subresource, or nil if the resource does not have it.
func (r Resource) scalePaths() *ScalePaths {
	if r.Scale != nil {
		return r.Scale
	}
	switch r.GroupResource() {
	case schema.GroupResource{Resource: "replicationcontrollers"},
		schema.GroupResource{Group: "apps", Resource: "deployments"},
		schema.GroupResource{Group: "apps", Resource: "replicasets"},
		schema.GroupResource{Group: "apps", Resource: "statefulsets"}:
		return &ScalePaths{SpecReplicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".spec.selector"}
	}
	return nil
}

func (c *collection) serveScale(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions) error {
	scale := &autoscalingv1.Scale{}
	switch req.Verb {
	case "get":
		obj, ok := c.cache.Get(req.key())
		if !ok {
			return apierrors.NewNotFound(c.resource.GroupResource(), req.Name)
		}
		var err error
		if scale, err = c.scaleOf(obj); err != nil {
			return err
		}
	case "update", "patch":
		next, err := c.readScale(r, req, &opts)
		if err != nil {
			return err
		}
		obj, err := c.modify(req.key(), opts, func(old object) (object, error) { return c.scaled(old, req, next) })
		if err != nil {
			return err
		}
		if scale, err = c.scaleOf(obj); err != nil {
			return err
		}
	}
	writeTyped(w, r, http.StatusOK, scaleKind, scale)
	return nil
}

// nextScale returns the scale that a request wants an object to have. Its managedFields, if any, are those of the object.
type nextScale func(old object, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error)

// readScale returns what a request wants, and adds its options to opts.
func (c *collection) readScale(r *http.Request, req Request, opts *writeOptions) (next nextScale, err error) {
	body, mediaType, err := readBody(r)
	if err != nil {
		return nil, err
	}
	manager := opts.manager
	opts.manager = "" // the scale has the managers
	if req.Verb == "patch" {
		options, err := patchOptions(req, types.PatchType(mediaType), body)
		if err != nil {
			return nil, err
		}
		opts.dryRun = len(options.DryRun) > 0
		if mediaType == string(types.ApplyYAMLPatchType) {
			return c.applyScale(body, options)
		}
		return c.trackScale(func(scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
			patched := &autoscalingv1.Scale{}
			return patched, patchInto(scale, types.PatchType(mediaType), body, patched)
		}, manager)
	}
	var options metav1.UpdateOptions
	err = metav1.Convert_url_Values_To_v1_UpdateOptions(&req.Query, &options, nil)
	if err := checkOptions("UpdateOptions", err, validation.ValidateUpdateOptions(&options)); err != nil {
		return nil, err
	}
	opts.dryRun = len(options.DryRun) > 0
	scale := &autoscalingv1.Scale{}
	if err := decode(body, mediaType, scale); err != nil {
		return nil, err
	}
	return c.trackScale(func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return scale, nil }, manager)
}

// trackScale returns what a write other than an apply wants, with the managers after it.
func (c *collection) trackScale(write func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error),
	name string) (nextScale, error) {
	manager, err := scaleManager()
	if err != nil {
		return nil, err
	}
	return func(old object, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		next, err := write(scale)
		if err != nil {
			return nil, err
		}
		if !c.canApply() {
			next.ManagedFields = nil
			return next, nil
		}
		owners, err := c.scaleOwners(old)
		if err != nil {
			return nil, err
		}
		live, after := scale.DeepCopy(), next.DeepCopy()
		live.SetGroupVersionKind(scaleKind)
		after.SetGroupVersionKind(scaleKind)
		if live.ManagedFields, err = owners.ToSubresource(); err != nil {
			return nil, err
		}
		after.ManagedFields = live.ManagedFields
		after = manager.UpdateNoErrors(live, after, name).(*autoscalingv1.Scale)
		after.ManagedFields, err = owners.ToParent(after.ManagedFields)
		return after, err
	}, nil
}

// scaleManager returns the manager of the managedFields of scales.
var scaleManager = sync.OnceValues(func() (*managedfields.FieldManager, error) {
	return newFieldManager(managedfields.NewDefaultFieldManager, managedfields.NewDeducedTypeConverter(), scaleKind, "scale",
		ownedFields{})
})

// scaleOwners translates the managedFields of an object to those of its scale, and back.
func (c *collection) scaleOwners(obj object) (*managedfields.ScaleHandler, error) {
	version, path := c.resource.GroupVersion(), split(c.resource.scalePaths().SpecReplicas)
	replicas, err := replicasPath[managedfields.ResourcePathMappings](managedfields.NewDefaultFieldManager, version, path)
	return managedfields.NewScaleHandler(obj.GetManagedFields(), version, replicas), err
}

// applyScale returns what a server-side apply to a scale wants.
func (c *collection) applyScale(body []byte, options metav1.PatchOptions) (nextScale, error) {
	applied := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(body, &applied.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if kind := applied.GroupVersionKind(); kind != scaleKind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", kind))
	}
	manager, err := scaleManager()
	if err != nil {
		return nil, err
	}
	force := options.Force != nil && *options.Force
	return func(old object, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		owners, err := c.scaleOwners(old)
		if err != nil {
			return nil, err
		}
		fields, err := owners.ToSubresource()
		if err != nil {
			return nil, err
		}
		scale.ManagedFields = fields
		scale.SetGroupVersionKind(scaleKind)
		live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scale)
		if err != nil {
			return nil, err
		}
		merged, err := manager.Apply(&unstructured.Unstructured{Object: live}, applied, options.FieldManager, force)
		if err != nil {
			return nil, err
		}
		next := &autoscalingv1.Scale{}
		content := merged.(*unstructured.Unstructured).Object
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, next); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		next.ManagedFields, err = owners.ToParent(next.ManagedFields)
		return next, err
	}, nil
}

// scaled returns old with the replicas of the scale that a request wants.
func (c *collection) scaled(old object, req Request, next nextScale) (object, error) {
	scale, err := c.scaleOf(old)
	if err != nil {
		return nil, err
	}
	if scale, err = next(old, scale); err != nil {
		return nil, err
	}
	if scale.Namespace == "" {
		scale.Namespace = req.Namespace
	}
	if err := c.named(scale, req); err != nil {
		return nil, err
	}
	// the schema of a custom resource says what is wrong with the object
	if n := scale.Spec.Replicas; n < 0 && !(c.custom && c.resource.Hooks.Validate != nil) {
		return nil, apierrors.NewInvalid(scaleKind.GroupKind(), req.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), n, "must be greater than or equal to 0")})
	}
	if scale.UID != "" && scale.UID != old.GetUID() {
		return nil, c.conflict(req.Name, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v",
			scale.UID, old.GetUID()))
	}
	u, err := c.toUnstructured(old)
	if err != nil {
		return nil, err
	}
	err = unstructured.SetNestedField(u.Object, int64(scale.Spec.Replicas), split(c.resource.scalePaths().SpecReplicas)...)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	u.SetResourceVersion(scale.ResourceVersion)
	if scale.ManagedFields != nil {
		u.SetManagedFields(scale.ManagedFields)
	}
	return c.fromUnstructured(u)
}

// scaleOf returns the scale of an object.
func (c *collection) scaleOf(obj object) (*autoscalingv1.Scale, error) {
	u, err := c.toUnstructured(obj)
	if err != nil {
		return nil, err
	}
	paths := c.resource.scalePaths()
	replicas, _, err := unstructured.NestedInt64(u.Object, split(paths.SpecReplicas)...)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	current, _, err := unstructured.NestedInt64(u.Object, split(paths.StatusReplicas)...)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	selector, err := c.selectorAt(u, paths.Selector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name:              obj.GetName(),
			Namespace:         obj.GetNamespace(),
			UID:               obj.GetUID(),
			ResourceVersion:   obj.GetResourceVersion(),
			CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(replicas)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(current), Selector: selector},
	}, nil
}

// selectorAt returns the label selector at a path: a string, labels (as in a ReplicationController), or an object.
func (c *collection) selectorAt(u *unstructured.Unstructured, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	value, _, err := unstructured.NestedFieldNoCopy(u.Object, split(path)...)
	if err != nil {
		return "", err
	}
	switch value := value.(type) {
	case string:
		return value, nil
	case map[string]any:
		if c.resource.Kind == "ReplicationController" {
			set, _, err := unstructured.NestedStringMap(u.Object, split(path)...)
			return labels.SelectorFromSet(set).String(), err
		}
		object := &metav1.LabelSelector{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(value, object); err != nil {
			return "", err
		}
		selector, err := metav1.LabelSelectorAsSelector(object)
		if err != nil {
			return "", err
		}
		return selector.String(), nil
	}
	return "", nil
}

// split returns the names of a path such as .spec.replicas.
func split(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
