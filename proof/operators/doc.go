// Command operators runs test suites that others wrote, with the caches of controller-runtime and of this project, and
// prints what passed:
//
//	go run ./operators trust-manager approver-policy
//	go run ./operators -caches controller-runtime,Compact -run TestReconcile cluster-api
//
// It fetches the sources of a program from the module proxy, copies them to a temporary folder, and changes only where
// its controller-runtime, or the program itself, creates and starts caches. The project keeps nothing of these sources.
// Each suite runs once with each cache:
//
//	controller-runtime  cache.New
//	crcache             crcache.New(crcache.Options{})
//	separate, Compact   crcache.New with that layout, and IgnoreNewInformer
//
// All caches run with the same versions of modules: those of the program, or of the module crcache where these are
// newer. The column heap is the live heap of the whole test process, after two garbage collections. It is measured every
// five seconds while a cache runs, and when its context ends: the largest of all these values.
//
// -caches chooses some of the caches, and -run the tests, as in go test. The command prints a table, then each test that
// failed, also those that fail with controller-runtime's own cache. A test counts, and so does each of its subtests and
// specs. It ends with status 1 if a test fails with one of our caches that passes with controller-runtime's.
//
// It needs the go command, the network, kube-apiserver and etcd. It compiles the last two from the
// module e2e at first, which takes minutes.
//
// proof/results has the tables.
package main
