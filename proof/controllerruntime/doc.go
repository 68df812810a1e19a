// Package controllerruntime runs controller-runtime's own tests with the cache of package crcache in place of
// controller-runtime's, against a real kube-apiserver and etcd:
//
//	go test ./controllerruntime
//	go test ./controllerruntime -args -cache=theirs
//	go test ./controllerruntime -args -options='Layout: informer.LayoutCompact'
//
// The test takes controller-runtime's sources from the module cache, copies them to a temporary folder, and changes the
// copy where it creates caches. The second command leaves the copy unchanged, which shows what controller-runtime's own
// cache passes on the same servers. The third one tests a cache with options.
//
// Every spec must pass, except those that the list different has for some options.
package controllerruntime
