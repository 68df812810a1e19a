package conformance

import "regexp"

// suite is a package of controller-runtime whose tests start a server.
type suite struct {
	dir string // in controller-runtime's module
	// atLeast is the number of specs and Go tests that pass, in the version of controller-runtime that
	// crcache/go.newest.mod has. It shows when a change of controller-runtime, or of this package, makes specs disappear.
	atLeast int
	// apart are specs that run in a process of their own each: they serve on the port of another spec, and nothing waits
	// until that server has left it.
	apart []string
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
	{
		dir: "pkg/webhook", atLeast: 8,
		apart: []string{
			"Webhook when running a webhook server with a manager " +
				"should reject create request for multi-webhook that rejects all requests",
			"Webhook when running a webhook server without a manager " +
				"should reject create request for webhook that rejects all requests",
		},
	},
}

// processes returns the flags of Ginkgo for each process that runs a part of s.
func (s suite) processes() [][]string {
	rest, all := []string{}, [][]string{nil}
	for _, spec := range s.apart {
		pattern := regexp.QuoteMeta(spec) + "$" // the name of the suite comes before
		rest = append(rest, "-ginkgo.skip="+pattern)
		all = append(all, []string{"-ginkgo.focus=" + pattern})
	}
	all[0] = rest
	return all
}
