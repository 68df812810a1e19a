package crds

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// collection holds the objects of one version of a definition.
type collection = informertest.Collection[*unstructured.Unstructured]

// served records what the server serves for a definition.
type served struct {
	spec     apiextensionsv1.CustomResourceDefinitionSpec
	names    apiextensionsv1.CustomResourceDefinitionNames
	versions map[string]*collection // by the name of the version
	objects  *collection            // one of them, or the last one if no version is served any more
}

// settle updates the served resources and the status of a definition after a change.
func (d *Definitions) settle(key informer.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settleLocked(key)
	for other := range d.crds.All() { // names may have become free
		if other.Name != key.Name && !apihelpers.IsCRDConditionTrue(other, apiextensionsv1.NamesAccepted) {
			d.settleLocked(informer.KeyOf(other))
		}
	}
}

func (d *Definitions) settleLocked(key informer.Key) {
	stored, exists := d.crds.Get(key)
	if !exists {
		d.removeLocked(key.Name)
		return
	}
	crd := stored.DeepCopy()
	if apihelpers.CRDHasFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer) && crd.DeletionTimestamp != nil {
		d.emptyLocked(crd)
		return
	}
	var accepted apiextensionsv1.CustomResourceDefinitionCondition
	crd.Status.StoredVersions = storedVersions(crd)
	crd.Status.AcceptedNames, accepted = d.takenLocked(crd).accept(crd.Spec.Names, crd.Status.AcceptedNames)
	setCondition(crd, accepted)
	established := apiextensionsv1.CustomResourceDefinitionCondition{
		Type:    apiextensionsv1.Established,
		Status:  apiextensionsv1.ConditionFalse,
		Reason:  "NotAccepted",
		Message: "not all names are accepted",
	}
	if accepted.Status == apiextensionsv1.ConditionTrue {
		established.Status, established.Reason = apiextensionsv1.ConditionTrue, "InitialNamesAccepted"
		established.Message = "the initial names have been accepted"
	}
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		setCondition(crd, established)
	}
	if apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		if err := d.serveLocked(crd); err != nil {
			established.Status, established.Reason = apiextensionsv1.ConditionFalse, "NotServed"
			established.Message = err.Error()
			setCondition(crd, established)
		}
	}
	d.writeLocked(crd, stored)
}

// writeLocked stores a definition with another status. If a client has changed it meanwhile, the server calls settle
// again.
func (d *Definitions) writeLocked(crd, stored *apiextensionsv1.CustomResourceDefinition) {
	if !equality.Semantic.DeepEqual(crd, stored) {
		d.crds.Update(crd)
	}
}

// setCondition sets a condition unless it is set already.
func setCondition(crd *apiextensionsv1.CustomResourceDefinition,
	condition apiextensionsv1.CustomResourceDefinitionCondition) {
	if !apihelpers.IsCRDConditionEquivalent(apihelpers.FindCRDCondition(crd, condition.Type), &condition) {
		apihelpers.SetCRDCondition(crd, condition)
	}
}

// takenLocked returns the names in the group of a definition that other definitions use, or resources that the program
// has registered itself.
func (d *Definitions) takenLocked(crd *apiextensionsv1.CustomResourceDefinition) taken {
	t := taken{resources: map[string]bool{}, kinds: map[string]bool{}}
	add := func(plural, singular, kind, listKind string, shortNames []string) {
		for _, name := range append([]string{plural, singular}, shortNames...) {
			t.resources[name] = true
		}
		t.kinds[kind], t.kinds[listKind] = true, true
	}
	defined := map[string]bool{}
	for other := range d.crds.All() {
		if names := other.Status.AcceptedNames; other.Spec.Group == crd.Spec.Group {
			defined[names.Plural] = true
			if other.Name != crd.Name {
				add(names.Plural, names.Singular, names.Kind, names.ListKind, names.ShortNames)
			}
		}
	}
	for _, r := range d.server.Resources() {
		if r.Group == crd.Spec.Group && !defined[r.Resource] {
			add(r.Resource, strings.ToLower(r.Kind), r.Kind, cmp.Or(r.ListKind, r.Kind+"List"), r.ShortNames)
		}
	}
	return t
}

// serveLocked makes the server serve the versions of a definition.
func (d *Definitions) serveLocked(crd *apiextensionsv1.CustomResourceDefinition) error {
	s := d.served[crd.Name]
	if s == nil {
		s = &served{versions: map[string]*collection{}}
	} else if equality.Semantic.DeepEqual(s.spec, crd.Spec) &&
		equality.Semantic.DeepEqual(s.names, crd.Status.AcceptedNames) {
		return nil
	}
	resources, err := d.resources(crd)
	if err != nil {
		return err
	}
	d.served[crd.Name] = s
	s.spec, s.names = *crd.Spec.DeepCopy(), *crd.Status.AcceptedNames.DeepCopy()
	for _, resource := range resources {
		resource.ObjectsOf = s.objects
		s.objects = informertest.Register[*unstructured.Unstructured](d.server, resource)
		s.versions[resource.Version] = s.objects
	}
	for name, c := range s.versions {
		if !slices.ContainsFunc(resources, func(r informertest.Resource) bool { return r.Version == name }) {
			c.Unregister()
			delete(s.versions, name)
		}
	}
	return nil
}

// resources returns the resources to register for the served versions of a definition.
func (d *Definitions) resources(crd *apiextensionsv1.CustomResourceDefinition) (all []informertest.Resource, err error) {
	names := crd.Status.AcceptedNames
	schemas, storage, err := schemasOf(crd)
	if err != nil {
		return nil, err
	}
	for i, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		gv, schema := runtimeschema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}, schemas[i]
		converter, err := schema.converter(gv.WithKind(names.Kind))
		if err != nil {
			return nil, fmt.Errorf("the schema of version %s, for server-side apply: %w", v.Name, err)
		}
		columns, err := table(v)
		if err != nil {
			return nil, fmt.Errorf("the additionalPrinterColumns of version %s: %w", v.Name, err)
		}
		resource := informertest.Resource{
			GroupVersionResource: gv.WithResource(names.Plural),
			Kind:                 names.Kind,
			ListKind:             names.ListKind,
			ClusterScoped:        crd.Spec.Scope == apiextensionsv1.ClusterScoped,
			StatusSubresource:    v.Subresources != nil && v.Subresources.Status != nil,
			ShortNames:           names.ShortNames,
			Singular:             names.Singular,
			Categories:           names.Categories,
			TypeConverter:        converter,
			Warning:              deprecation(crd, v),
			Table:                columns,
			Schema:               schema.openAPI(),
			Hooks: informertest.Hooks{
				Decode:   schema.complete,
				Create:   func(obj metav1.Object) error { return d.open(crd.Name, obj, gv.WithResource(names.Plural)) },
				Validate: schema.validate,
				Read:     func(obj metav1.Object) metav1.Object { return schema.read(obj, storage) },
				Removed:  func(informer.Key) { d.objectRemoved(crd.Name) },
			},
		}
		if schema.scale != nil {
			resource.Scale = &informertest.ScalePaths{
				SpecReplicas:   schema.scale.SpecReplicasPath,
				StatusReplicas: schema.scale.StatusReplicasPath,
			}
			if schema.scale.LabelSelectorPath != nil {
				resource.Scale.Selector = *schema.scale.LabelSelectorPath
			}
		}
		for _, f := range v.SelectableFields {
			resource.SelectableFields = append(resource.SelectableFields, strings.TrimPrefix(f.JSONPath, "."))
		}
		all = append(all, resource)
	}
	return all, nil
}

// schemasOf returns the schemas of the versions of a definition, and that of the version in which objects are stored.
func schemasOf(crd *apiextensionsv1.CustomResourceDefinition) (all []*schema, storage *schema, err error) {
	for _, v := range crd.Spec.Versions {
		s, err := newSchema(v, crd.Spec.Scope == apiextensionsv1.ClusterScoped)
		if err != nil {
			return nil, nil, fmt.Errorf("the schema of version %s: %w", v.Name, err)
		}
		if all = append(all, s); v.Storage {
			storage = s
		}
	}
	return all, storage, nil
}

// open returns an error if an object cannot be created because its definition is being deleted.
func (d *Definitions) open(definition string, obj metav1.Object, resource runtimeschema.GroupVersionResource) error {
	crd, ok := d.crds.Get(informer.Key{Name: definition})
	if ok && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
		return apierrors.NewForbidden(resource.GroupResource(), obj.GetName(),
			errors.New("create not allowed while custom resource definition is terminating"))
	}
	return nil
}

// deprecation returns the warning in every response for a version, or nothing.
func deprecation(crd *apiextensionsv1.CustomResourceDefinition,
	v apiextensionsv1.CustomResourceDefinitionVersion) string {
	if !v.Deprecated {
		return ""
	}
	if v.DeprecationWarning != nil {
		return *v.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", crd.Spec.Group, v.Name, crd.Spec.Names.Kind)
	best := ""
	for _, other := range crd.Spec.Versions {
		if other.Served && !other.Deprecated && version.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 &&
			(best == "" || version.CompareKubeAwareVersionStrings(best, other.Name) < 0) {
			best = other.Name
		}
	}
	if best != "" {
		text += fmt.Sprintf("; use %s/%s %s", crd.Spec.Group, best, crd.Spec.Names.Kind)
	}
	return text
}

// terminate prepares the deletion of a definition: its objects go first.
func terminate(crd *apiextensionsv1.CustomResourceDefinition) {
	if !apihelpers.CRDHasFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer) {
		crd.Finalizers = append(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	setCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type:    apiextensionsv1.Terminating,
		Status:  apiextensionsv1.ConditionTrue,
		Reason:  "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	})
}

// emptyLocked deletes the objects of a definition that is being deleted. When none is left, it lets the definition go.
func (d *Definitions) emptyLocked(crd *apiextensionsv1.CustomResourceDefinition) {
	stored := crd.DeepCopy()
	if s := d.served[crd.Name]; s != nil {
		d.emptying.Store(&crd.Name)
		for obj := range s.objects.All() {
			s.objects.Delete(informer.KeyOf(obj))
		}
		d.emptying.Store(nil) // before the objects are counted, so that none goes unnoticed
		if s.objects.Len() > 0 {
			setCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
				Type:    apiextensionsv1.Terminating,
				Status:  apiextensionsv1.ConditionTrue,
				Reason:  "InstanceDeletionInProgress",
				Message: "CustomResource deletion is in progress",
			})
			d.writeLocked(crd, stored)
			return
		}
	}
	setCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type:    apiextensionsv1.Terminating,
		Status:  apiextensionsv1.ConditionFalse,
		Reason:  "InstanceDeletionCompleted",
		Message: "removed all instances",
	})
	apihelpers.CRDRemoveFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer)
	d.writeLocked(crd, stored)
	d.removeLocked(crd.Name)
}

// removeLocked unregisters the resources of a definition.
func (d *Definitions) removeLocked(name string) {
	if s := d.served[name]; s != nil {
		for _, c := range s.versions {
			c.Unregister()
		}
		delete(d.served, name)
	}
}

// objectRemoved completes the deletion of a definition whose last object has gone.
func (d *Definitions) objectRemoved(definition string) {
	if emptying := d.emptying.Load(); emptying != nil && *emptying == definition {
		return // emptyLocked completes its deletion
	}
	key := informer.Key{Name: definition}
	if crd, ok := d.crds.Get(key); ok && crd.DeletionTimestamp != nil {
		d.settle(key)
	}
}
