// Package witness shows the objects of all informers of the process to a test, before anybody else sees them. Outside
// of tests, it does nothing.
package witness

import "sync/atomic"

var watching atomic.Pointer[func(obj any)]

// Watch makes see receive each object that an informer which is created from now on is about to hold. see must be safe
// for concurrent use. It returns a function that ends that. ok is false if somebody watches already.
func Watch(see func(obj any)) (end func(), ok bool) {
	if !watching.CompareAndSwap(nil, &see) {
		return nil, false
	}
	return func() { watching.Store(nil) }, true
}

// Watcher returns the function of Watch, or nil if nobody watches.
func Watcher() func(obj any) {
	if see := watching.Load(); see != nil {
		return *see
	}
	return nil
}
