// Package kubernetes runs Kubernetes' own integration tests with the informers of package clientgo in place of
// client-go's. Each test starts a kube-apiserver in its process, and the controllers under test:
//
//	go test ./kubernetes -timeout 3h
//	go test ./kubernetes -args -suites=deployment,job -run=TestRollingUpdate
//	go test ./kubernetes -args -informers=theirs
//	go test ./kubernetes -args -storage='Layout: new(informer.LayoutShared), DropManagedFields: true'
//
// Everything in k8s.io/kubernetes that makes a factory of informers imports ours instead: tests, controllers and
// kube-apiserver. The other modules of Kubernetes keep client-go's. Without -informers, each suite runs with both. A test
// that passes with client-go's informers must pass with ours, except those in the list different.
//
// It also runs tests of controllers over fake clientsets, in a copy of client-go whose informers are ours. Those of
// cloud-provider and descheduler are among them:
//
//	go test ./kubernetes -run=TestUnit
package kubernetes
