package conformance

// difference is a spec that fails with a server of package informertest, for a reason.
type difference struct {
	suite string
	spec  string // the texts of its containers and its own, or the name of a Go test
	why   string
}

// different are all specs that fail with a server of package informertest. A spec that passes must not be here.
var different = []difference{
	{
		suite: "pkg/manager/internal/integration",
		spec:  "manger.Manager Start should start all components without deadlock controller warmup enabled",
		why:   noConversion,
	},
	{
		suite: "pkg/manager/internal/integration",
		spec:  "manger.Manager Start should start all components without deadlock controller warmup not enabled",
		why:   noConversion,
	},
	{
		suite: "pkg/metrics/filters",
		spec:  "manger.Manager Start should start serving metrics with https and authn/authz should serve extra endpoints",
		why:   "it expects RBAC rules to count, but the server allows everything that Auth.Authorize does not refuse",
	},
}

const noConversion = "it counts calls of a conversion webhook, but module crds converts by strategy None only"

// reasons returns why specs of s fail, by spec.
func (s suite) reasons() map[string]string {
	why := map[string]string{}
	for _, d := range different {
		if d.suite == s.dir {
			why[d.spec] = d.why
		}
	}
	return why
}
