package factory

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	clientcache "k8s.io/client-go/tools/cache"
)

// settings are the settings of an informer of client-go that none of its methods returns.
type settings struct {
	resync      time.Duration
	description string
	transforms  bool // it has a transform
}

// settingsOf returns the settings of an informer of client-go that does not run. It returns an error for settings that
// it cannot read, because another informer would lack them.
//
// It only reads fields, by package reflect. It returns an error if a field is missing, as in another version of
// client-go.
func settingsOf(i clientcache.SharedIndexInformer) (settings, error) {
	v, err := informerStruct(i)
	if err != nil {
		return settings{}, err
	}
	transform, handler := v.FieldByName("transform"), v.FieldByName("watchErrorHandler")
	if transform.Kind() != reflect.Func || handler.Kind() != reflect.Func {
		return settings{}, fmt.Errorf("%v has other fields than in client-go 0.36 to 0.38", v.Type())
	}
	if !handler.IsNil() {
		return settings{}, errors.New("its function sets a watch error handler: " +
			"set it on the informer that the factory returns")
	}
	if processor := v.FieldByName("processor"); processor.Kind() != reflect.Pointer || processor.IsNil() ||
		processor.Elem().FieldByName("listeners").Kind() != reflect.Map {
		return settings{}, fmt.Errorf("%v has other fields than in client-go 0.36 to 0.38", v.Type())
	} else if processor.Elem().FieldByName("listeners").Len() > 0 {
		return settings{}, errors.New("its function adds a handler: add it to the informer that the factory returns")
	}
	resync, description := v.FieldByName("defaultEventHandlerResyncPeriod"), v.FieldByName("objectDescription")
	if resync.Kind() != reflect.Int64 || description.Kind() != reflect.String {
		return settings{}, fmt.Errorf("%v has other fields than in client-go 0.36 to 0.38", v.Type())
	}
	return settings{time.Duration(resync.Int()), description.String(), !transform.IsNil()}, nil
}

// informerStruct returns the struct of an informer of client-go, even inside client-go's own typed wrapper.
func informerStruct(i clientcache.SharedIndexInformer) (reflect.Value, error) {
	const home = "k8s.io/client-go/tools/cache"
	v := reflect.ValueOf(i)
	for v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct && v.Elem().Type().PkgPath() == home {
		v = v.Elem()
		inner := v.FieldByName("SharedIndexInformer")
		if inner.Kind() != reflect.Interface {
			return v, nil
		}
		v = inner.Elem()
	}
	return v, fmt.Errorf("the function of the informer returns a %T, which is not client-go's", i)
}
