package cluster

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// unchanged reports whether two values agree in every field that both set. The server fills in no defaults, whereas
// kube-apiserver does before it compares: there an empty field equals its default. So only a change from one set value to
// another one counts, at any depth. The server thereby accepts that a client sets an empty field or clears one, which
// kube-apiserver refuses for fields without a default. Fields of type bool have none: they have to be equal.
//
// Lists are compared by position; lists with elements differ if their lengths do.
func unchanged[T any](now, before T) bool {
	return agree(reflect.ValueOf(&now).Elem(), reflect.ValueOf(&before).Elem())
}

// validateUnchanged refuses a change of a field that may have defaults.
func validateUnchanged[T any](now, before T, path *field.Path) field.ErrorList {
	if unchanged(now, before) {
		return nil
	}
	return apivalidation.ValidateImmutableField(now, before, path)
}

// agree compares two values of one type for unchanged.
func agree(now, before reflect.Value) bool {
	kind := now.Kind()
	if kind != reflect.Bool && (now.IsZero() || before.IsZero()) {
		return true
	}
	if _, scalar := now.Interface().(json.Marshaler); scalar { // such as a quantity
		return equality.Semantic.DeepEqual(now.Interface(), before.Interface())
	}
	switch kind {
	case reflect.Pointer:
		if now.Elem().Kind() == reflect.Struct {
			return agree(now.Elem(), before.Elem())
		}
	case reflect.Struct:
		for i := range now.NumField() {
			if !agree(now.Field(i), before.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if now.Len() == 0 || before.Len() == 0 {
			return true
		}
		if now.Len() != before.Len() {
			return false
		}
		for i := range now.Len() {
			if !agree(now.Index(i), before.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		for key, value := range now.Seq2() {
			if old := before.MapIndex(key); old.IsValid() && !agree(value, old) {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(now.Interface(), before.Interface()) // a pointer to 0 is a set value
}
