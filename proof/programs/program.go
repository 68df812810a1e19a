package main

import (
	"fmt"
	"path/filepath"
	"regexp"
)

// kind is a kind of informers that programs run with.
type kind struct{ name, storage string }

func (k kind) String() string { return k.name }

// kinds are all of them. The first is client-go's. The others are ours, in one compiled program.
var kinds = []kind{{name: "client-go"}, {name: "clientgo"}, {"shared", "Shared"}, {"Compact", "Compact"}}

// program is a program of others that uses informers of client-go.
type program struct {
	name    string
	module  string
	version string // empty for Kubernetes, whose version e2e/apiserver chooses
	main    string // the folder of its command in the module
	equal   []edit // what makes client-go's informers drop what ours drop
	edits   []edit // what makes it use our informers
	flags   func(place) []string
	ready   readiness
}

func (p program) String() string { return p.name }

// binary returns the name of the file of p that runs with informers of kind k.
func (p program) binary(k kind) string {
	if k == kinds[0] {
		return p.name + "-theirs"
	}
	return p.name + "-ours"
}

// place is where a program runs.
type place struct {
	kubeconfig string
	port       int    // of 127.0.0.1, where it serves its own pages
	dir        string // a folder for it alone
}

// serves returns the flags of programs that have the server of k8s.io/apiserver.
func (p place) serves() []string {
	return []string{"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.port), "--cert-dir=" + p.dir}
}

// readiness says when all informers of a program have synced.
type readiness struct {
	// path is a page that answers 200 from then on. Empty means that the log tells.
	path string
	// waits matches a line of the log when a part of the program begins to wait for informers, and done one when a part
	// ends to. All have synced when there are as many of either, besides the parts that begin without a line.
	waits, done *regexp.Regexp
	silent      int
}

func replaceImport(file, module string) edit {
	return edit{file, informers, `"` + module + `/proofinformers"`}
}

const descheduler = "sigs.k8s.io/descheduler"

// factory is the function of client-go that makes a factory, to which "WithOptions" can be added.
const factory = "informers.NewSharedInformerFactory"

var programs = []program{
	{
		name: "kube-controller-manager", module: kubernetes, main: "cmd/kube-controller-manager",
		edits: []edit{
			replaceImport("cmd/kube-controller-manager/app/controllermanager.go", kubernetes),
			// trim only drops managedFields, as DropManagedFields does. The metadata informers keep it.
			{"cmd/kube-controller-manager/app/controllermanager.go", "informers.WithTransform(trim), informers.", "informers."},
		},
		flags: func(p place) []string {
			// No kubelet renews leases, and a node without them is not ready after the grace period.
			return append(p.serves(), "--kubeconfig="+p.kubeconfig, "--leader-elect=false",
				"--node-monitor-grace-period=24h")
		},
		// The garbage collector does not log that it begins to wait.
		ready: readiness{waits: regexp.MustCompile("Waiting for caches to sync"), silent: 1,
			done: regexp.MustCompile("Caches are synced|Garbage collector: all resource monitors have synced")},
	},
	{
		name: "kube-scheduler", module: kubernetes, main: "cmd/kube-scheduler",
		// The function of its informer of pods has a transform that only drops managedFields. It is left out because
		// DropManagedFields is set.
		// Its other informers keep them.
		equal: []edit{{"pkg/scheduler/scheduler.go", factory + "(cs, resyncPeriod)", factory + `WithOptions(cs, resyncPeriod,
		informers.WithTransform(func(obj any) (any, error) {
			if object, err := meta.Accessor(obj); err == nil {
				object.SetManagedFields(nil)
			}
			return obj, nil
		}))`}},
		edits: []edit{replaceImport("pkg/scheduler/scheduler.go", kubernetes)},
		flags: func(p place) []string {
			return append(p.serves(), "--kubeconfig="+p.kubeconfig, "--leader-elect=false")
		},
		ready: readiness{path: "/readyz"},
	},
	{
		name: "descheduler", module: descheduler, version: "v0.36.0", main: "cmd/descheduler",
		edits: []edit{
			replaceImport("pkg/descheduler/descheduler.go", descheduler),
			{"pkg/descheduler/descheduler.go", "rs.Client, 0, informers.WithTransform(trimManagedFields))", "rs.Client, 0)"},
		},
		flags: func(p place) []string {
			return append(p.serves(), "--kubeconfig="+p.kubeconfig, "--descheduling-interval=10h", "-v=1",
				"--policy-config-file="+filepath.Join(p.dir, policyFile))
		},
		ready: readiness{silent: 1, done: regexp.MustCompile("Number of evictions/requests|Skipping descheduling cycle")},
	},
}

// policyFile is the name of the file with the descheduler's policy, which evicts no pod.
const (
	policyFile = "policy.yaml"
	policy     = `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: none
  pluginConfig:
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 1000000000}
  plugins:
    deschedule: {enabled: [PodLifeTime]}
`
)
