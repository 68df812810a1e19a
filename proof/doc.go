// Package proof runs the tests of other projects with the informers of this one. It downloads the sources of these
// projects, changes a copy by the line that creates informers, and keeps nothing of them. Each test prints how many
// tests passed and failed, and in how many seconds, with either kind of informers:
//
//	go test ./clientgo                              client-go's own tests of shared informers
//	go test ./kubernetes -timeout 3h                Kubernetes' integration tests, with a kube-apiserver in the process
//	go test ./controllerruntime -timeout 1h         controller-runtime's own tests, with crcache
//	go run ./operators trust-manager                the tests of an operator, with crcache in each mode
//
// See each package for its flags, and docs/proofs.md for results.
package proof
