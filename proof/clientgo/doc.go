// Package clientgo runs client-go's own tests of shared informers with those of package clientgo/cache:
//
//	go test ./clientgo
//	go test ./clientgo -args -informers=theirs
//	go test ./clientgo -args -focus='TestSharedInformer.*'
//
// It copies the tests from the module cache to a package of its own, which uses client-go's package cache from outside,
// but for the functions that make an informer. Tests of unexported parts of client-go's informers do not compile there,
// and are left out; the log has their names and the part.
//
// It also runs client-go's tests of the informers of its dynamic and its metadata client in a copy of client-go whose
// informers are ours.
package clientgo
