package informertest

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// writeOptions are the options of a write.
type writeOptions struct {
	whole       bool                                  // a write of the cluster itself, which also sets status and system metadata
	status      bool                                  // a write to the status subresource
	subresource string                                // what the write is to; empty means the object itself
	part        func(old, obj object) (object, error) // of another subresource: returns old with the part of obj that it writes
	dryRun      bool
	uncounted   bool // a change of the spec leaves the generation alone
	// unchecked stores an object that may be invalid, for a controller of the cluster that changes only its metadata.
	unchecked bool
	// manager is the field manager of a client's creation or update. It is empty for an apply and for a write to the scale,
	// which set metadata.managedFields themselves.
	manager   string
	admission *admission // asks the webhooks; nil if there is none to ask
}

// create stores a copy of obj.
func (c *collection) create(obj object, opts writeOptions) (_ object, err error) {
	if err := c.open(obj, opts); err != nil {
		return nil, err
	}
	if obj, err = c.track(c.newObject(), c.own(obj), opts); err != nil {
		return nil, err
	}
	write := write{operation: admissionv1.Create, obj: c.own(obj), dryRun: opts.dryRun}
	if obj, err = mutated(write, opts); err != nil {
		return nil, err
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(obj.GetGenerateName() + rand.String(5))
	}
	if err := c.validate(obj); err != nil {
		return nil, err
	}
	if !opts.whole {
		obj.SetDeletionTimestamp(nil)
		obj.SetDeletionGracePeriodSeconds(nil)
		c.copyStatus(obj, nil)
	}
	if obj, err = c.prepared(obj); err != nil {
		return nil, err
	}
	if !opts.whole {
		if err := c.invalid(obj.GetName(), c.check(obj, nil, opts)); err != nil {
			return nil, err
		}
	}
	if !opts.whole || obj.GetUID() == "" {
		obj.SetUID(uuid.NewUUID())
	}
	if created := obj.GetCreationTimestamp(); !opts.whole || created.IsZero() {
		obj.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	}
	if c.counted() && (!opts.whole || obj.GetGeneration() == 0) {
		obj.SetGeneration(1)
	}

	// as in kube-apiserver, whose storage reports this; a dry run does not reach it
	if versionOf(obj) != "" && !opts.whole && !opts.dryRun {
		return nil, internal("resourceVersion should not be set on objects to be created")
	}

	write.obj = obj
	if err := opts.admission.validate(write); err != nil {
		return nil, err
	}
	obj = c.read(obj)
	defer func() { c.changed(informer.KeyOf(obj), opts, false, err) }()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if !opts.whole { // again, because it may have gone meanwhile
		if err := c.openNamespaceLocked(obj); err != nil {
			return nil, err
		}
	}
	if _, exists := c.cache.Get(informer.KeyOf(obj)); exists {
		return nil, apierrors.NewAlreadyExists(c.resource.GroupResource(), obj.GetName())
	}
	c.storeLocked(informer.Upserted, obj, opts.dryRun)
	return obj, nil
}

// unchanged reports whether obj, which is to replace old, differs at most in the times of its field managers.
func unchanged(old, obj object) bool {
	managers := old.GetManagedFields()
	if !slices.EqualFunc(managers, obj.GetManagedFields(), func(a, b metav1.ManagedFieldsEntry) bool {
		a.Time, b.Time = nil, nil
		return equality.Semantic.DeepEqual(a, b)
	}) {
		return false
	}
	obj = watchcache.ShallowCopy(obj)
	obj.SetManagedFields(managers)
	return equality.Semantic.DeepEqual(obj, old)
}

// replace stores obj in the place of old, and reports whether that removed the object. It returns false if old is not the
// stored object any more.
func (c *collection) replace(old, obj object, opts writeOptions) (stored, removed bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if current, exists := c.cache.Get(informer.KeyOf(old)); !exists || current != old {
		return false, false
	}
	// The object is removed with its last finalizer. The cluster itself may also store an object that is being deleted
	// and has no finalizers.
	waited := !opts.whole || len(old.GetFinalizers()) > 0
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && waited && !c.keeps(obj) {
		c.storeLocked(informer.Removed, watchcache.ShallowCopy(obj), opts.dryRun) // the client gets the version before
		return true, true
	}
	c.storeLocked(informer.Upserted, obj, opts.dryRun)
	return true, false
}

// changed calls the hooks after a write that succeeded. removed says that the write removed the object.
func (c *collection) changed(key informer.Key, opts writeOptions, removed bool, err error) {
	if err != nil || opts.dryRun {
		return
	}
	if !opts.whole && c.resource.Hooks.Changed != nil {
		c.resource.Hooks.Changed(key)
	}
	if removed && c.resource.Hooks.Removed != nil {
		c.resource.Hooks.Removed(key)
	}
}

// storeLocked gives obj its resource version and puts it into the cache.
func (c *collection) storeLocked(kind informer.DeltaType, obj object, dryRun bool) {
	if dryRun {
		return
	}
	old, _ := c.cache.Get(informer.KeyOf(obj))
	c.server.commitLocked(func(rv uint64) {
		obj.SetResourceVersion(strconv.FormatUint(rv, 10))
		for _, member := range c.kin.members {
			converted := obj
			if member != c {
				converted = member.read(member.versioned(obj))
			}
			member.put(informer.Delta[object]{Type: kind, Object: converted}, rv)
		}
	})
	if kind == informer.Removed {
		obj = nil
	}
	c.server.controllers.noteLocked(change{c, old, obj})
}

// open returns why a client cannot create an object at present.
func (c *collection) open(obj object, opts writeOptions) error {
	if opts.whole {
		return nil
	}
	if c.resource.Hooks.Create != nil {
		if err := c.resource.Hooks.Create(obj); err != nil {
			return err
		}
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.openNamespaceLocked(obj)
}

// own returns a copy of obj with metadata that can be set, and with the kind that the server stores: none for a Go
// type.
func (c *collection) own(obj object) object {
	obj = watchcache.ShallowCopy(obj)
	if typed, ok := obj.(runtime.Object); ok {
		kind := schema.GroupVersionKind{}
		if c.dynamic { // the kind is part of the content
			kind = c.resource.GroupVersion().WithKind(c.resource.Kind)
		}
		typed.GetObjectKind().SetGroupVersionKind(kind)
	}
	return obj
}

// deepCopy returns a copy of obj that shares nothing with it.
func (c *collection) deepCopy(obj object) object {
	return obj.(runtime.Object).DeepCopyObject().(object)
}

// validate checks name and namespace.
func (c *collection) validate(obj object) error {
	switch {
	case obj.GetName() == "":
		return c.invalid("", field.ErrorList{field.Required(field.NewPath("metadata", "name"),
			"name or generateName is required")})
	case c.resource.ClusterScoped && obj.GetNamespace() != "":
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	case !c.resource.ClusterScoped && obj.GetNamespace() == "":
		return apierrors.NewBadRequest("an empty namespace may not be set during creation or update")
	}
	return nil
}

// check returns what is wrong with an object that a client sends: by the hook, or else in its metadata. old is nil for a
// new object.
func (c *collection) check(obj, old object, opts writeOptions) field.ErrorList {
	if c.resource.Hooks.Validate != nil {
		subresource := ""
		if opts.status || opts.part != nil {
			subresource = opts.subresource
		}
		return c.resource.Hooks.Validate(obj, old, subresource)
	}
	metadata := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMetaAccessor(obj, !c.resource.ClusterScoped,
		path.ValidatePathSegmentName, metadata)
	if old != nil {
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)...)
	}
	return errs
}

// invalid returns the error for an object of that name, or nil if errs is empty.
func (c *collection) invalid(name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(c.groupKind(), name, errs)
}

// internal returns kube-apiserver's error for a storage failure: code 500, without a reason.
func internal(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Message: text,
	}}
}

// conflict returns the error of a write that expects another version. The texts are kube-apiserver's.
func (c *collection) conflict(name, text string) error {
	return apierrors.NewConflict(c.resource.GroupResource(), name, errors.New(text))
}

// counted reports whether objects have a generation: custom resources, and built-in types with a spec.
func (c *collection) counted() bool { return c.dynamic || c.spec >= 0 }

// sameSpec reports whether a and b may have the same generation. For unstructured objects it compares everything except
// metadata and status.
func (c *collection) sameSpec(a, b object) bool {
	if !c.dynamic {
		return equality.Semantic.DeepEqual(fieldOf(a, c.spec).Addr().Interface(), fieldOf(b, c.spec).Addr().Interface())
	}
	status := "status"
	if !c.resource.StatusSubresource {
		status = "metadata" // the status is a field like any other
	}
	x, y := content(a), content(b)
	for key := range x {
		if _, both := y[key]; !both && key != status {
			return false
		}
	}
	for key, value := range y {
		if key != "metadata" && key != status && !equality.Semantic.DeepEqual(x[key], value) {
			return false
		}
	}
	return true
}

// copyStatus copies the status of from to to. If from is nil, it clears the status. Without a status subresource, it
// does nothing.
func (c *collection) copyStatus(to, from object) {
	switch {
	case !c.resource.StatusSubresource:
	case c.dynamic:
		delete(content(to), "status")
		if from != nil {
			if status, ok := content(from)["status"]; ok {
				content(to)["status"] = status
			}
		}
	case from == nil:
		fieldOf(to, c.status).SetZero()
	default:
		fieldOf(to, c.status).Set(fieldOf(from, c.status))
	}
}

func content(obj object) map[string]any {
	return obj.(*unstructured.Unstructured).Object
}

func fieldOf(obj object, index int) reflect.Value {
	return reflect.ValueOf(obj).Elem().Field(index)
}
