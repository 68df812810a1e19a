// Package multicluster runs multicluster-runtime's own tests with the caches of package crcache in place of
// controller-runtime's, against real kube-apiservers and etcds. All caches are given one informer.Parts, so clusters
// share equal parts of their objects:
//
//	go test ./multicluster
//	go test ./multicluster -args -cache=theirs
//
// The test takes the sources of multicluster-runtime, and those of the version of controller-runtime that it requires,
// from the module cache. It copies them to temporary folders, and changes the copy of controller-runtime where clusters
// and managers create their cache: so the tests, and the providers of clusters that they test, are unchanged. The second
// command changes nothing.
//
// Every spec must pass.
package multicluster
