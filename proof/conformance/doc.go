// Package conformance runs controller-runtime's own suites with a server of package informertest where they start
// kube-apiserver and etcd:
//
//	go test -v -timeout 1h ./conformance
//	go test -v -timeout 1h ./conformance -args -suites=pkg/client,pkg/cache
//	go test -v -timeout 1h ./conformance -args -server=binaries
//
// The test takes controller-runtime's sources from the module proxy, copies them to a temporary folder, and changes the
// copy where its test environment starts the servers. So package informertest and module crds are linked into each suite,
// and this module needs none of their dependencies. The third command leaves the copy unchanged, for a comparison: the
// suites then start the kube-apiserver and etcd that module e2e builds.
//
// Every spec must pass, except those in different.go. The test prints a table of the suites.
package conformance
