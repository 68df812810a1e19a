package informertest

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// writeOptions are the options of a write.
type writeOptions struct {
	whole  bool // a write by the cluster itself: status and system metadata are taken as given
	status bool // a write to the status subresource
	dryRun bool
	// manager is the field manager of a client's update. It is empty for an apply, which keeps metadata.managedFields
	// itself.
	manager string
}

// create stores a copy of obj.
func (c *Collection[T]) create(obj T, opts writeOptions) (T, error) {
	var none T
	obj = c.own(obj)
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(obj.GetGenerateName() + rand.String(5))
	}
	if err := c.validate(obj); err != nil {
		return none, err
	}
	if !opts.whole {
		if err := c.invalid(obj.GetName(), c.validateMeta(obj)); err != nil {
			return none, err
		}
	}
	if !opts.whole || obj.GetUID() == "" {
		obj.SetUID(uuid.NewUUID())
	}
	if created := obj.GetCreationTimestamp(); !opts.whole || created.IsZero() {
		obj.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	}
	if !opts.whole {
		obj.SetDeletionTimestamp(nil)
		obj.SetDeletionGracePeriodSeconds(nil)
		c.copyStatus(obj, none)
	}
	if c.counted() && (!opts.whole || obj.GetGeneration() == 0) {
		obj.SetGeneration(1)
	}

	// as in kube-apiserver, whose storage reports this; a dry run does not reach it
	if obj.GetResourceVersion() != "" && !opts.whole && !opts.dryRun {
		return none, internal("resourceVersion should not be set on objects to be created")
	}

	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if _, exists := c.cache.Get(informer.KeyOf(obj)); exists {
		return none, apierrors.NewAlreadyExists(c.resource.GroupResource(), obj.GetName())
	}
	c.storeLocked(informer.Upserted, obj, opts.dryRun)
	return obj, nil
}

// update replaces the object with the key of obj by a copy of obj.
func (c *Collection[T]) update(obj T, opts writeOptions) (T, error) {
	obj = c.own(obj)
	if err := c.validate(obj); err != nil {
		var none T
		return none, err
	}
	return c.modify(informer.KeyOf(obj), opts, func(T) (T, error) { return obj, nil })
}

// modify replaces the object with that key by the result of change, a new object with the same key.
func (c *Collection[T]) modify(key informer.Key, opts writeOptions, change func(old T) (T, error)) (T, error) {
	var none T
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	old, exists := c.cache.Get(key)
	if !exists {
		return none, apierrors.NewNotFound(c.resource.GroupResource(), key.Name)
	}
	obj, err := change(old)
	if err != nil {
		return none, err
	}
	obj = c.own(obj)
	if obj.GetResourceVersion() == "" && c.custom && !opts.whole {
		return none, c.invalid(key.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	if rv := obj.GetResourceVersion(); rv != "" && rv != old.GetResourceVersion() {
		return none, c.conflict(key.Name,
			"the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
		return none, c.conflict(key.Name, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v",
			uid, old.GetUID()))
	}
	if opts.status {
		obj = c.statusWrite(old, obj, opts)
	} else if !opts.whole {
		c.copyStatus(obj, old)
	}
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	if !opts.whole && old.GetDeletionTimestamp() != nil { // otherwise, the validation rejects a new one
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if !opts.whole && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	obj.SetGeneration(old.GetGeneration())
	obj.SetResourceVersion(old.GetResourceVersion())
	if !opts.whole {
		errs := c.validateMeta(obj)
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))...)
		if err := c.invalid(key.Name, errs); err != nil {
			return none, err
		}
	}
	if obj, err = c.track(old, obj, opts); err != nil {
		return none, err
	}
	obj = c.own(obj)
	if equality.Semantic.DeepEqual(obj, old) {
		return old, nil // as in etcd, an update without changes is no write
	}
	if !opts.status && c.counted() && !c.sameSpec(obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	// The object is removed with its last finalizer. The cluster itself may also store an object that is being deleted
	// and has no finalizers.
	waited := !opts.whole || len(old.GetFinalizers()) > 0
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && waited {
		c.storeLocked(informer.Removed, obj, opts.dryRun)
	} else {
		c.storeLocked(informer.Upserted, obj, opts.dryRun)
	}
	return obj, nil
}

// delete removes an object, or marks it for deletion if it has finalizers. gone reports whether it was removed. pre may
// be nil.
func (c *Collection[T]) delete(key informer.Key, pre *metav1.Preconditions,
	opts writeOptions) (obj T, gone bool, err error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	old, exists := c.cache.Get(key)
	if !exists {
		return old, false, apierrors.NewNotFound(c.resource.GroupResource(), key.Name)
	}
	if pre != nil && pre.UID != nil && *pre.UID != old.GetUID() {
		return old, false, c.conflict(key.Name,
			fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *pre.UID, old.GetUID()))
	}
	if pre != nil && pre.ResourceVersion != nil && *pre.ResourceVersion != old.GetResourceVersion() {
		return old, false, c.conflict(key.Name,
			fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *pre.ResourceVersion, old.GetResourceVersion()))
	}
	obj = watchcache.ShallowCopy(old)
	if len(old.GetFinalizers()) == 0 {
		c.storeLocked(informer.Removed, obj, opts.dryRun)
		return obj, true, nil
	}
	if old.GetDeletionTimestamp() != nil {
		return old, false, nil
	}
	now, zero := metav1.Now().Rfc3339Copy(), int64(0)
	obj.SetDeletionTimestamp(&now)
	obj.SetDeletionGracePeriodSeconds(&zero)
	if c.counted() {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	c.storeLocked(informer.Upserted, obj, opts.dryRun)
	return obj, false, nil
}

// storeLocked gives obj its resource version and puts it into the cache.
func (c *Collection[T]) storeLocked(change informer.DeltaType, obj T, dryRun bool) {
	if dryRun {
		return
	}
	c.server.commitLocked(func(rv uint64) {
		obj.SetResourceVersion(strconv.FormatUint(rv, 10))
		c.put(informer.Delta[T]{Type: change, Object: obj}, rv)
	})
}

// own returns a copy of obj with metadata that can be set, and with the kind that the server stores: none for a Go
// type.
func (c *Collection[T]) own(obj T) T {
	obj = watchcache.ShallowCopy(obj)
	if typed, ok := any(obj).(runtime.Object); ok {
		kind := schema.GroupVersionKind{}
		if c.dynamic { // the kind is part of the content
			kind = c.resource.GroupVersion().WithKind(c.resource.Kind)
		}
		typed.GetObjectKind().SetGroupVersionKind(kind)
	}
	return obj
}

// validate checks name and namespace.
func (c *Collection[T]) validate(obj T) error {
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

// validateMeta returns the errors in the metadata of obj.
func (c *Collection[T]) validateMeta(obj T) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(obj, !c.resource.ClusterScoped,
		apivalidation.ValidateNameFunc(pathSegment), field.NewPath("metadata"))
}

// pathSegment validates a name, for kinds without a rule of their own.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return rest.IsValidPathSegmentPrefix(name)
	}
	return rest.IsValidPathSegmentName(name)
}

// invalid returns the error for an object of that name, or nil if errs is empty.
func (c *Collection[T]) invalid(name string, errs field.ErrorList) error {
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
func (c *Collection[T]) conflict(name, text string) error {
	return apierrors.NewConflict(c.resource.GroupResource(), name, errors.New(text))
}

// counted reports whether objects have a generation: custom resources, and built-in types with a spec.
func (c *Collection[T]) counted() bool { return c.dynamic || c.spec >= 0 }

// sameSpec reports whether a and b may have the same generation. For unstructured objects it compares everything except
// metadata and status.
func (c *Collection[T]) sameSpec(a, b T) bool {
	if !c.dynamic {
		return equality.Semantic.DeepEqual(fieldOf(a, c.spec).Addr().Interface(), fieldOf(b, c.spec).Addr().Interface())
	}
	x, y := content(a), content(b)
	for key := range x {
		if _, both := y[key]; !both && key != "status" {
			return false
		}
	}
	for key, value := range y {
		if key != "metadata" && key != "status" && !equality.Semantic.DeepEqual(x[key], value) {
			return false
		}
	}
	return true
}

// copyStatus copies the status of from to to. If from is nil, it clears the status. Without a status subresource, it
// does nothing.
func (c *Collection[T]) copyStatus(to, from T) {
	var none T
	switch {
	case !c.resource.StatusSubresource:
	case c.dynamic:
		delete(content(to), "status")
		if from != none {
			if status, ok := content(from)["status"]; ok {
				content(to)["status"] = status
			}
		}
	case from == none:
		fieldOf(to, c.status).SetZero()
	default:
		fieldOf(to, c.status).Set(fieldOf(from, c.status))
	}
}

func content[T watchcache.Object](obj T) map[string]any {
	return any(obj).(*unstructured.Unstructured).Object
}

func fieldOf[T watchcache.Object](obj T, index int) reflect.Value {
	return reflect.ValueOf(obj).Elem().Field(index)
}
