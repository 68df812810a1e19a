package conformance

// suite is a package of controller-runtime whose tests start a server.
type suite struct {
	dir string // in controller-runtime's module
	// atLeast is the number of specs and Go tests that pass, in the version of controller-runtime that
	// crcache/go.newest.mod has. It shows when a change of controller-runtime, or of this package, makes specs disappear.
	atLeast int
}

func (s suite) String() string { return s.dir }

var suites = []suite{
	{dir: "pkg/client", atLeast: 352},
	{dir: "pkg/cache", atLeast: 310},
	{dir: "pkg/builder", atLeast: 72},
	{dir: "pkg/manager", atLeast: 108},
	{dir: "pkg/controller", atLeast: 32},
	{dir: "pkg/internal/controller", atLeast: 75},
	{dir: "pkg/client/apiutil", atLeast: 43},
	{dir: "pkg/cluster", atLeast: 15},
	{dir: "pkg/controller/controllerutil", atLeast: 60},
	{dir: "pkg/handler", atLeast: 96},
	{dir: "pkg/internal/recorder", atLeast: 5},
	{dir: "pkg/manager/internal/integration", atLeast: 0},
	{dir: "pkg/metrics/filters", atLeast: 1},
	{dir: "pkg/reconcile", atLeast: 10},
	{dir: "pkg/source", atLeast: 19},
	{dir: "pkg/webhook", atLeast: 8},
}
