// Package cluster runs a real kube-apiserver and its etcd for tests. The Go toolchain builds them from module
// dependencies. They run on free ports of 127.0.0.1, with data that lasts as long as the cluster.
//
// One cluster serves all tests of a package, each in its own namespace:
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
// # What a cluster has
//
//   - every API that kube-apiserver serves by default, over JSON and protobuf, with RBAC, streaming lists
//     and custom resource definitions;
//   - one user, who may do everything: see [Cluster.Config];
//   - a crash of the API server, and its restart with the same port, certificates and data;
//   - a copy of etcd's data, and a restore from it: see [Cluster.SaveEtcd].
//
// # What a cluster lacks
//
//   - no scheduler, no kubelet: a pod stays Pending without a node until the test writes its status or binding, and
//     a deleted pod that is bound to a node stays forever unless GracePeriodSeconds is 0. Even then, watchers see a
//     MODIFIED with a deletionTimestamp before the DELETED of a pod;
//   - no controller manager: a deleted namespace stays Terminating, owners do not take their dependents with
//     them, and a namespace gets no default service account (the admission plugin that requires one is off);
//   - no CBOR, which is off by default.
//
// # The first start
//
// The first start compiles both servers, which takes minutes (see [Build]) and counts toward the timeout of go test. On
// a slow machine, use -timeout 20m. Later starts find the programs in the folder .bin of the module e2e, and take about
// four seconds on two free cores; a restart of kube-apiserver takes two.
package cluster
