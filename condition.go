package informer

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// HasCondition returns a function for [Informer.Await] that is met by an object whose status.conditions has that type
// with that status, as it is for the object's present generation: ("Ready", "True") of a Pod or a Node, ("Available",
// "True") of a Deployment, ("Established", "True") of a CustomResourceDefinition. If the condition, or else the status,
// tells an observedGeneration that is not metadata.generation, it is of an older spec and does not count. T must have
// these fields under the names that Go types of the API give them, or be *unstructured.Unstructured; otherwise it is
// never met.
func HasCondition[T Object](conditionType, status string) func(obj T) bool {
	return func(obj T) bool {
		var none T
		if obj == none {
			return false
		}
		if u, ok := any(obj).(*unstructured.Unstructured); ok {
			return hasUnstructuredCondition(u, conditionType, status)
		}
		objStatus := field(reflect.ValueOf(obj), "Status")
		conditions := field(objStatus, "Conditions")
		if conditions.Kind() != reflect.Slice {
			return false
		}
		for i := range conditions.Len() {
			c := conditions.Index(i)
			if text(field(c, "Type")) != conditionType {
				continue
			}
			observed := field(c, "ObservedGeneration")
			if !observed.CanInt() || observed.Int() == 0 {
				observed = field(objStatus, "ObservedGeneration")
			}
			if meta, ok := any(obj).(interface{ GetGeneration() int64 }); ok && observed.CanInt() && observed.Int() != 0 && observed.Int() != meta.GetGeneration() {
				return false
			}
			return text(field(c, "Status")) == status
		}
		return false
	}
}

// IsDeleted is met by the absence of an object: for [Informer.Await].
func IsDeleted[T Object](obj T) bool {
	var none T
	return obj == none
}

// field returns the field with that name of a struct, or of one that v points to; the zero Value if there is none.
func field(v reflect.Value, name string) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// text returns the string that v has, if it has one.
func text(v reflect.Value) string {
	if v.Kind() != reflect.String {
		return ""
	}
	return v.String()
}

func hasUnstructuredCondition(u *unstructured.Unstructured, conditionType, status string) bool {
	conditions, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, entry := range list {
		c, _ := entry.(map[string]any)
		if c["type"] != conditionType {
			continue
		}
		observed, found := c["observedGeneration"]
		if !found {
			observed, found, _ = unstructured.NestedFieldNoCopy(u.Object, "status", "observedGeneration")
		}
		return c["status"] == status && (!found || observed == u.GetGeneration())
	}
	return false
}
