// Package proof runs the tests of other projects, and their programs, with the informers of this one. It downloads the
// sources of these projects, changes a copy by the line that creates informers, and keeps nothing of them. Each test
// prints how many tests passed and failed, and in how many seconds, with either kind of informers:
//
//	go test ./clientgo                              client-go's own tests of shared informers
//	go test ./kubernetes -timeout 3h                Kubernetes' integration tests, with a kube-apiserver in the process
//	go test ./controllerruntime -timeout 1h         controller-runtime's own tests, with crcache
//	go test ./multicluster -timeout 1h              multicluster-runtime's own tests, with crcache and shared parts
//	go test ./conformance -timeout 1h               controller-runtime's own tests, with informertest for kube-apiserver
//	go run ./operators trust-manager                the tests of an operator, with crcache in each mode
//	go run ./programs script                        kube-controller-manager and kube-scheduler, with clientgo
//	go run ./programs measure                       what these and other programs need, with clientgo in each mode
//
// See each package for its flags, and folder results for what they print.
package proof
