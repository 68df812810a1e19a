// Package cluster runs a real kube-apiserver and its etcd for tests: built by the Go toolchain from module
// dependencies, started on free ports of 127.0.0.1, with data that lives as long as the cluster does.
//
// One cluster serves all tests of a package, each in a namespace of its own:
//
//	var c *cluster.Cluster
//
//	func TestMain(m *testing.M) {
//		var err error
//		if c, err = cluster.Start(context.Background(), cluster.Config{}); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//		code := m.Run()
//		if err := c.Stop(); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			code = 1
//		}
//		os.Exit(code)
//	}
//
// # What is there
//
//   - every API that kube-apiserver serves by default, over JSON and protobuf, with RBAC, streaming lists
//     and custom resource definitions;
//   - one user, who may do everything: see [Cluster.Config];
//   - the end of the API server as a crash ends it, and its start on the same port, certificates and data.
//
// # What is not there
//
//   - no scheduler, no kubelet: a pod stays Pending on no node until the test writes its status or binding,
//     and a deleted pod that is bound to a node stays for ever unless GracePeriodSeconds is 0. Watchers see a
//     MODIFIED with a deletionTimestamp before the DELETED of a pod even then;
//   - no controller manager: a deleted namespace stays Terminating, owners do not take their dependents with
//     them, and a namespace gets no default service account (the admission plugin that asks for it is off);
//   - no CBOR, as the API server is by default.
//
// # The first start
//
// The first start compiles both servers, which takes minutes (see [Build]) and counts toward the timeout of
// go test: give it -timeout 20m on a slow machine. Later starts find the programs in the folder .bin of the
// module e2e, and take about four seconds on two free cores; kube-apiserver takes two to start again after a kill.
package cluster
