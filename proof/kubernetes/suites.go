package kubernetes

// suite is a folder of Kubernetes' integration tests.
type suite struct {
	name    string // below test/integration
	atLeast int    // the number of tests in the version that suites are for; shows when tests disappear
}

// suites are the integration tests of what lives on informers.
var suites = []suite{
	{"deployment", 17},
	{"replicaset", 14},
	{"garbagecollector", 15},
	{"statefulset", 9},
	{"scheduler", 9},
	{"job", 40},
	{"daemonset", 12},
	{"endpointslice", 6},
	{"namespace", 2},
	{"quota", 3},
	{"serviceaccount", 7},
	{"cronjob", 1},
}

// difference is a test that fails with our informers, and passes with client-go's.
type difference struct{ suite, test, why string }

// different are all of them. A test that passes must not be here.
var different = []difference{}
