package conformance

// difference is a spec that fails with a server of package informertest, for a reason.
type difference struct {
	suite string
	spec  string // the texts of its containers and its own, or the name of a Go test
	why   string
}

// different are all specs that fail with a server of package informertest. A spec that passes must not be here.
var different = []difference{}

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
