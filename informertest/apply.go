package informertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/yaml"

	"github.com/typedinformer/informer/watchcache"
)

// Server-side apply uses kube-apiserver's code (apimachinery's FieldManager), here on unstructured objects. The fields of an object
// have managers from its creation by a client on.

// canApply reports whether the resource supports server-side apply.
func (c *collection) canApply() bool { return c.custom || c.typeConverter() != nil }

// typeConverter returns what knows the lists of the objects that apply merges, or nil.
func (c *collection) typeConverter() managedfields.TypeConverter {
	if c.resource.TypeConverter != nil {
		return c.resource.TypeConverter
	}
	return c.server.options.TypeConverter
}

// fieldManager returns the manager of metadata.managedFields for the resource or a subresource. All requests share it.
func (c *collection) fieldManager(subresource string) (*managedfields.FieldManager, error) {
	if manager, ok := c.managers.Load(subresource); ok {
		return manager.(*managedfields.FieldManager), nil
	}
	manager, err := c.newFieldManager(subresource)
	if err == nil {
		c.managers.Store(subresource, manager)
	}
	return manager, err
}

func (c *collection) newFieldManager(subresource string) (*managedfields.FieldManager, error) {
	kind := c.resource.GroupVersion().WithKind(c.resource.Kind)
	converter, build := c.typeConverter(), managedfields.NewDefaultFieldManager
	if c.custom {
		converter, build = c.resource.TypeConverter, managedfields.NewDefaultCRDFieldManager
		if converter == nil { // like a CustomResourceDefinition whose lists have no x-kubernetes-list-type
			converter = managedfields.NewDeducedTypeConverter()
		}
	}
	return newFieldManager(build, converter, kind, subresource, c.owned(subresource))
}

// sameVersion implements the conversions and defaulting that a FieldManager needs: there are none.
type sameVersion struct{}

func (sameVersion) Convert(in, out, context any) error {
	return fmt.Errorf("no conversion from %T to %T", in, out)
}
func (sameVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (sameVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (sameVersion) Default(runtime.Object) {}
func (sameVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

func (c *collection) serveApply(w http.ResponseWriter, r *http.Request, req Request, opts writeOptions, patch []byte,
	options metav1.PatchOptions) error {
	opts.manager = ""
	applied := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(patch, &applied.Object); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if want, got := c.resource.GroupVersion().WithKind(c.resource.Kind), applied.GroupVersionKind(); got != want {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", got))
	}
	manager, err := c.fieldManager(opts.subresource)
	if err != nil {
		return err
	}
	force := options.Force != nil && *options.Force
	merge := func(live *unstructured.Unstructured) (object, error) {
		merged, err := manager.Apply(live, applied, options.FieldManager, force)
		if err != nil && !isStatus(err) {
			return nil, internal(err.Error())
		}
		if err != nil {
			return nil, err
		}
		if err := checkYAML(w, req, patch); err != nil {
			return nil, err
		}
		obj, err := c.fromUnstructured(merged.(*unstructured.Unstructured))
		if err != nil {
			return nil, err
		}
		if c.resource.Hooks.Decode != nil {
			if _, err := c.resource.Hooks.Decode(obj); err != nil {
				return nil, undecoded(err)
			}
		}
		if obj.GetNamespace() == "" {
			obj.SetNamespace(req.Namespace)
		}
		return obj, c.named(obj, req)
	}
	code, obj, err := http.StatusOK, object(nil), error(nil)
	for range createTries {
		obj, err = c.modify(req.key(), opts, func(old object) (object, error) {
			live, err := c.toUnstructured(old)
			if err != nil {
				return old, err
			}
			return merge(live)
		})
		if _, exists := c.cache.Get(req.key()); exists || opts.status || !apierrors.IsNotFound(err) {
			break
		}
		fresh, _ := sameVersion{}.New(c.resource.GroupVersion().WithKind(c.resource.Kind))
		live := fresh.(*unstructured.Unstructured)
		live.SetName(req.Name)
		live.SetNamespace(req.Namespace)
		if obj, err = merge(live); err == nil && obj.GetUID() != "" {
			err = c.conflict(req.Name, fmt.Sprintf("uid mismatch: the provided object specified uid %s, and no existing object was found", obj.GetUID()))
		}
		if err == nil {
			obj.SetResourceVersion("") // as kube-apiserver does
			obj, err = c.create(obj, opts)
		}
		if !apierrors.IsAlreadyExists(err) { // otherwise somebody else was first
			code = http.StatusCreated
			break
		}
	}
	if err != nil {
		return err
	}
	c.cache.WriteObject(w, r, code, obj)
	return nil
}

// createTries is how often an apply or an update tries to create an object that others create at the same time.
const createTries = 5

// checkYAML warns of the duplicate fields of an applied object, or returns kube-apiserver's error if the client validates them
// strictly.
func checkYAML(w http.ResponseWriter, req Request, patch []byte) error {
	if req.fieldValidation() == metav1.FieldValidationIgnore {
		return nil
	}
	err := yaml.UnmarshalStrict(patch, &map[string]any{})
	if err == nil {
		return nil
	}
	if req.fieldValidation() == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
	}
	lines := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: yaml: unmarshal errors:\n")
	for line := range strings.Lines(lines) {
		warn(w, strings.TrimSpace(line))
	}
	return nil
}

// track records a write of a client in the managedFields of obj. For a creation, old is an empty object.
func (c *collection) track(old, obj object, opts writeOptions) (object, error) {
	if opts.whole || opts.manager == "" || !c.canApply() {
		return obj, nil
	}
	manager, err := c.fieldManager(opts.subresource)
	if err != nil {
		return obj, err
	}
	if _, ok := obj.(runtime.Object); ok {
		obj = c.own(manager.UpdateNoErrors(c.kinded(old), c.kinded(obj), opts.manager).(object))
		if !c.dynamic {
			wholeSeconds(obj)
		}
		return obj, nil
	}
	live, err := c.toUnstructured(old)
	if err != nil {
		return obj, err
	}
	changed, err := c.toUnstructured(obj)
	if err != nil {
		return obj, err
	}
	return c.fromUnstructured(manager.UpdateNoErrors(live, changed, opts.manager).(*unstructured.Unstructured))
}

// wholeSeconds drops the fractions from the times of the managers, which clients do not get and so do not send back.
func wholeSeconds(obj object) {
	managers := slices.Clone(obj.GetManagedFields())
	for i, manager := range managers {
		if manager.Time != nil {
			managers[i].Time = new(manager.Time.Rfc3339Copy())
		}
	}
	obj.SetManagedFields(managers)
}

// mutated returns the object of a write as the mutating webhooks want it. If they make metadata.managedFields invalid, it
// keeps the managers from before, with a warning, as kube-apiserver does.
func mutated(write write, opts writeOptions) (object, error) {
	obj, err := opts.admission.mutate(write)
	if err != nil || opts.admission == nil {
		return obj, err
	}
	if err := managedfields.ValidateManagedFields(obj.GetManagedFields()); err != nil {
		obj.SetManagedFields(write.obj.GetManagedFields())
		warn(opts.admission.w, fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; this could be caused "+
			"by an outdated mutating admission controller; please fix your requests: %v", err))
	}
	return obj, nil
}

// kinded returns a copy of an object with its kind.
func (c *collection) kinded(obj object) runtime.Object {
	kinded := watchcache.ShallowCopy(obj).(runtime.Object)
	kinded.GetObjectKind().SetGroupVersionKind(c.resource.GroupVersion().WithKind(c.resource.Kind))
	return kinded
}

func (c *collection) toUnstructured(obj object) (*unstructured.Unstructured, error) {
	b, err := c.marshal(obj)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, decode(b, runtime.ContentTypeJSON, u)
}

func (c *collection) fromUnstructured(u *unstructured.Unstructured) (object, error) {
	obj := c.newObject()
	b, err := json.Marshal(u.Object)
	if err != nil {
		return obj, err
	}
	return obj, decode(b, runtime.ContentTypeJSON, obj)
}

// managerOf returns the field manager of a write other than an apply.
func managerOf(r *http.Request, req Request) string {
	if name := req.Query.Get("fieldManager"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(r.UserAgent(), "/")
	return name
}
