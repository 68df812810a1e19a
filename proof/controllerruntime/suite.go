package controllerruntime

// suite is a package of controller-runtime whose tests run with the cache of crcache.
type suite struct {
	dir string // in controller-runtime's module
	// external keeps only the test files of the external test package. The others test unexported functions of
	// controller-runtime's own cache.
	external bool
	// atLeast is the number of specs of the suite in the version of controller-runtime that crcache/go.newest.mod has. It
	// shows when a change of controller-runtime, or of this package, makes specs disappear.
	atLeast int
}

// suites are the packages whose tests create caches, directly or with a manager.
var suites = []suite{
	{dir: "pkg/cache", external: true, atLeast: 276},
	{dir: "pkg/builder", atLeast: 72},
	{dir: "pkg/manager", atLeast: 108},
	{dir: "pkg/controller", atLeast: 32},
	{dir: "pkg/internal/controller", atLeast: 75},
	{dir: "pkg/source", atLeast: 19},
	{dir: "pkg/cluster", atLeast: 15},
	{dir: "pkg/client", atLeast: 352},
}
