package informertest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
)

// immortalNamespaces cannot be deleted.
var immortalNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

var errImmortal = errors.New("this namespace may not be deleted")

// finalizeSubresource changes the finalizers in the spec of a namespace, and nothing else.
var finalizeSubresource = subresource{
	name:  "finalize",
	verbs: []string{"update"},
	part: func(c *collection, old, obj object) (object, error) {
		namespace := c.namespace(old)
		namespace.Spec.Finalizers = c.namespace(obj).Spec.Finalizers
		return c.from(namespace)
	},
}

// hasLifecycle reports whether the objects are namespaces with a lifecycle.
func (c *collection) hasLifecycle() bool {
	return c.server.options.Controllers.Namespaces && c.resource.GroupVersionResource == namespaces
}

// namespace returns a copy of an object as a namespace.
func (c *collection) namespace(obj object) *corev1.Namespace {
	namespace := &corev1.Namespace{}
	if c.into(obj, namespace) != nil {
		return &corev1.Namespace{} // an unstructured object with other fields
	}
	return namespace
}

// openNamespaceLocked returns why a client cannot create an object in its namespace.
func (c *collection) openNamespaceLocked(obj object) error {
	all := c.server.collections[namespaces]
	if !c.server.options.Controllers.Namespaces || c.resource.ClusterScoped || all == nil {
		return nil
	}
	name := obj.GetNamespace()
	stored, exists := all.cache.Get(informer.Key{Name: name})
	if !exists {
		return apierrors.NewNotFound(namespaces.GroupResource(), name)
	}
	if all.namespace(stored).Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	err := apierrors.NewForbidden(c.resource.GroupResource(), cmp.Or(obj.GetName(), obj.GetGenerateName(), "Unknown"),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", name))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", name),
		Field:   "metadata.namespace",
	})
	return err
}

// prepared returns a new object with what the server adds to namespaces. A Collection may store one that is being
// deleted.
func (c *collection) prepared(obj object) (object, error) {
	if !c.hasLifecycle() {
		return obj, nil
	}
	namespace := c.namespace(obj)
	namespace.Status.Phase = cmp.Or(namespace.Status.Phase, corev1.NamespaceActive)
	if namespace.DeletionTimestamp != nil {
		namespace.Status.Phase = corev1.NamespaceTerminating
	} else if !slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes) {
		namespace.Spec.Finalizers = append(namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
	obj, err := c.from(namespace)
	if err != nil {
		return nil, err
	}
	obj = c.own(obj)
	c.labelName(obj)
	return obj, nil
}

// labelName gives a namespace the label with its name.
func (c *collection) labelName(obj object) {
	set := obj.GetLabels()
	if !c.hasLifecycle() || set[corev1.LabelMetadataName] == obj.GetName() {
		return
	}
	set = maps.Clone(set)
	if set == nil {
		set = map[string]string{}
	}
	set[corev1.LabelMetadataName] = obj.GetName()
	obj.SetLabels(set)
}

// retained returns an update by a client with the finalizers that a namespace has in its spec: only the subresource
// finalize changes them.
func (c *collection) retained(obj, old object) (object, error) {
	if !c.hasLifecycle() {
		return obj, nil
	}
	namespace := c.namespace(obj)
	namespace.Spec.Finalizers = c.namespace(old).Spec.Finalizers
	obj, err := c.from(namespace)
	if err != nil {
		return nil, err
	}
	return c.own(obj), nil
}

// terminateLocked begins or continues the deletion of a namespace. It returns nil if the namespace may go.
func (c *collection) terminateLocked(old object, options metav1.DeleteOptions, opts writeOptions) (object, error) {
	namespace := c.namespace(old)
	if old.GetDeletionTimestamp() != nil {
		if len(namespace.Spec.Finalizers) > 0 {
			return old, nil
		}
		return nil, nil
	}
	now := metav1.Now().Rfc3339Copy()
	namespace.DeletionTimestamp = &now
	namespace.Status.Phase = corev1.NamespaceTerminating
	obj, err := c.from(namespace)
	if err != nil {
		return nil, err
	}
	obj = c.own(obj)
	c.setPropagation(obj, options, opts)
	c.storeLocked(informer.Upserted, obj, opts.dryRun)
	return obj, nil
}

// emptyNamespaces deletes what is in namespaces that are being deleted, and then these.
func (k *controllers) emptyNamespaces(batch []change) {
	k.server.mu.Lock()
	all := k.server.collections[namespaces]
	k.server.mu.Unlock()
	if all == nil || !all.hasLifecycle() {
		return
	}
	for _, name := range concerned(batch) {
		if obj, ok := all.cache.Get(informer.Key{Name: name}); ok && obj.GetDeletionTimestamp() != nil {
			k.emptyNamespace(all, name)
		}
	}
}

// concerned returns the names of the namespaces that changes are about, or about what is in them.
func concerned(batch []change) (names []string) {
	for _, change := range batch {
		obj := change.obj
		if obj == nil {
			obj = change.old
		}
		name := obj.GetNamespace()
		if change.c.resource.GroupVersionResource == namespaces {
			name = obj.GetName()
		}
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// emptyNamespace deletes what is in a namespace, and lets the namespace go when nothing is left. As in kube-apiserver
// since 1.33 (KEP-5080), pods go first.
func (k *controllers) emptyNamespace(all *collection, name string) {
	kinds := k.collections()
	left := remains{finalizers: map[string]int{}}
	arePods := func(c *collection) bool { return c.resource.GroupVersionResource == pods }
	if i := slices.IndexFunc(kinds, arePods); i >= 0 && left.empty(kinds[i], name) {
		k.reportRemains(all, name, remains{}) // the conditions say nothing about the pods
		return
	}
	for _, c := range kinds {
		if !arePods(c) {
			left.empty(c, name)
		}
	}
	if _, err := k.reportRemains(all, name, left); err != nil || len(left.resources) > 0 {
		return
	}
	namespace, err := all.modify(informer.Key{Name: name}, writeOptions{whole: true}, func(old object) (object, error) {
		namespace := all.namespace(old)
		namespace.Spec.Finalizers = slices.DeleteFunc(namespace.Spec.Finalizers,
			func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return all.from(namespace)
	})
	if err == nil {
		uid := namespace.GetUID()
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
		all.delete(informer.Key{Name: name}, options, writeOptions{}) // an error means that it is gone
	}
}

// remains are what is left in a namespace.
type remains struct {
	resources  []string       // a text for each resource
	finalizers map[string]int // how many objects have each
}

// empty deletes the objects of a collection that are in a namespace, and reports whether any are left.
func (r *remains) empty(c *collection, namespace string) bool {
	count := 0
	for _, obj := range c.within(namespace) {
		if obj.GetDeletionTimestamp() == nil {
			uid, background := obj.GetUID(), metav1.DeletePropagationBackground
			options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background}
			c.delete(informer.KeyOf(obj), options, writeOptions{}) // an error means that it is gone
		}
		if obj, ok := c.cache.Get(informer.KeyOf(obj)); ok {
			count++
			for _, finalizer := range obj.GetFinalizers() {
				r.finalizers[finalizer]++
			}
		}
	}
	if count > 0 {
		r.resources = append(r.resources, fmt.Sprintf("%s.%s has %d resource instances", c.resource.Resource,
			c.resource.Group, count))
	}
	return count > 0
}

// reportRemains sets the conditions of a namespace.
func (k *controllers) reportRemains(all *collection, name string, left remains) (object, error) {
	return all.modify(informer.Key{Name: name}, writeOptions{whole: true}, func(old object) (object, error) {
		namespace := all.namespace(old)
		left.report(namespace)
		return all.from(namespace)
	})
}

// within returns the objects in a namespace.
func (c *collection) within(namespace string) (objects []object) {
	if c.resource.ClusterScoped {
		return nil
	}
	for obj := range c.cache.All() {
		if obj.GetNamespace() == namespace {
			objects = append(objects, obj)
		}
	}
	return objects
}

// report sets the conditions that say what is left in a namespace, as the namespace controller does.
func (r remains) report(namespace *corev1.Namespace) {
	var held []string
	for name, count := range r.finalizers {
		held = append(held, fmt.Sprintf("%s in %d resource instances", name, count))
	}
	left := slices.Sorted(slices.Values(r.resources))
	slices.Sort(held)
	set := func(kind corev1.NamespaceConditionType, reason, message string, status corev1.ConditionStatus) {
		condition := corev1.NamespaceCondition{Type: kind, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.Now().Rfc3339Copy()}
		all := namespace.Status.Conditions
		i := slices.IndexFunc(all, func(c corev1.NamespaceCondition) bool { return c.Type == kind })
		switch {
		case i < 0:
			namespace.Status.Conditions = append(all, condition)
		case all[i].Status != status || all[i].Reason != reason || all[i].Message != message:
			all[i] = condition
		}
	}
	set(corev1.NamespaceDeletionDiscoveryFailure, "ResourcesDiscovered", "All resources successfully discovered",
		corev1.ConditionFalse)
	set(corev1.NamespaceDeletionGVParsingFailure, "ParsedGroupVersions", "All legacy kube types successfully parsed",
		corev1.ConditionFalse)
	set(corev1.NamespaceDeletionContentFailure, "ContentDeleted",
		"All content successfully deleted, may be waiting on finalization", corev1.ConditionFalse)
	if len(left) > 0 {
		set(corev1.NamespaceContentRemaining, "SomeResourcesRemain",
			"Some resources are remaining: "+strings.Join(left, ", "), corev1.ConditionTrue)
	} else {
		set(corev1.NamespaceContentRemaining, "ContentRemoved", "All content successfully removed", corev1.ConditionFalse)
	}
	if len(held) > 0 {
		set(corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+strings.Join(held, ", "), corev1.ConditionTrue)
	} else {
		set(corev1.NamespaceFinalizersRemaining, "ContentHasNoFinalizers",
			"All content-preserving finalizers finished", corev1.ConditionFalse)
	}
}
