// Package condition reads the conditions in the status of an object of any type.
package condition

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Has reports whether obj, a pointer that is not nil, has a condition of that type with that status, as
// informer.HasCondition defines it.
func Has(obj any, conditionType, status string) bool {
	if u, ok := obj.(*unstructured.Unstructured); ok {
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
		if meta, ok := obj.(interface{ GetGeneration() int64 }); ok && observed.CanInt() && observed.Int() != 0 &&
			observed.Int() != meta.GetGeneration() {
			return false
		}
		return text(field(c, "Status")) == status
	}
	return false
}

// field returns the named field of the struct that v is or points to. It returns the zero Value if there is none.
func field(v reflect.Value, name string) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// text returns v if it is a string, and otherwise "".
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
