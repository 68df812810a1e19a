// Command operators runs test suites that others wrote, with the caches of controller-runtime and of this project, and
// prints what passed:
//
//	go run ./operators trust-manager
//
// It fetches the sources of a program from the module proxy, copies them to a temporary folder, and changes only where
// its controller-runtime creates caches. The project keeps nothing of these sources. Each suite runs once with each
// cache:
//
//	controller-runtime  the sources as they are
//	crcache             crcache.New(crcache.Options{})
//	Share, Compact      crcache.New with that option
//
// -caches chooses some of them, and -run the tests, as in go test. The command prints a table, then each test that
// failed, also those that fail with controller-runtime's own cache. It ends with status 1 if a test fails with one of
// our caches that passes with controller-runtime's.
//
// It needs the go command, the network, kube-apiserver and etcd. It compiles the last two from the
// module e2e at first, which takes minutes.
package main
