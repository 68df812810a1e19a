package realapis

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goTypes are the Go types of the published definitions, by the name of the set. The Go types of external-secrets v1.3.2
// are in a module that no proxy has, so those of v0.16.2 are compared with the definitions of that release.
var goTypes = map[string]struct {
	module  string // with the types; "" means that of the definitions
	args    string // of codegen: packages, and types that no server has any more
	same    int    // the number of resources in versions that both have
	defined string // the module with the definitions; "" means that of the set
}{
	"argo-rollouts":        {args: "github.com/argoproj/argo-rollouts/pkg/apis/...", same: 5},
	"cert-manager":         {args: "github.com/cert-manager/cert-manager/pkg/apis/...", same: 6},
	"cluster-api":          {module: "sigs.k8s.io/cluster-api/api@v1.14.2", args: "sigs.k8s.io/cluster-api/api/...", same: 28},
	"cluster-api, kubeadm": {module: "sigs.k8s.io/cluster-api/api@v1.14.2", args: "sigs.k8s.io/cluster-api/api/...", same: 8},
	"crossplane":           {args: "github.com/crossplane/crossplane/apis/...", same: 21},
	"external-secrets": {module: "github.com/external-secrets/external-secrets@v0.16.2", args: "github.com/external-secrets/external-secrets/apis/...",
		same: 24, defined: "github.com/external-secrets/external-secrets@v0.16.2"},
	"flux":                    {module: "github.com/fluxcd/kustomize-controller/api@v1.6.0", args: "github.com/fluxcd/kustomize-controller/api/...", same: 3},
	"gateway-api":             {args: "sigs.k8s.io/gateway-api/apis/... sigs.k8s.io/gateway-api/apisx/...", same: 19},
	"istio":                   {module: "istio.io/client-go@v1.32.0", args: "istio.io/client-go/pkg/apis/...", same: 33},
	"jobset":                  {args: "sigs.k8s.io/jobset/api/...", same: 1},
	"karpenter":               {args: "sigs.k8s.io/karpenter/pkg/apis/...", same: 3},
	"keda":                    {args: "github.com/kedacore/keda/v2/apis/...", same: 6},
	"knative serving":         {args: "knative.dev/serving/pkg/apis/...", same: 7},
	"kueue":                   {args: "sigs.k8s.io/kueue/apis/kueue/...", same: 22},
	"open-cluster-management": {args: "open-cluster-management.io/api/...", same: 16},
	"prometheus-operator": {module: "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring@v0.85.0",
		args: "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/...", same: 11},
	"tekton": {same: 14, args: "-exclude github.com/tektoncd/pipeline/pkg/apis/pipeline/v1alpha1.Run,github.com/tektoncd/pipeline/pkg/apis/resource/v1alpha1.PipelineResource " +
		"github.com/tektoncd/pipeline/pkg/apis/..."},
	"velero": {args: "github.com/vmware-tanzu/velero/pkg/apis/...", same: 13},
	"volume snapshots": {module: "github.com/kubernetes-csi/external-snapshotter/client/v8@v8.2.0",
		args: "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/...", same: 3},
}

// Resources that are generated from Go types have the names, kinds and scopes of the definitions that their authors publish.
func TestGoTypesOfPublishedCRDs(t *testing.T) {
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	codegen := filepath.Join(t.TempDir(), "codegen")
	run(t, "go", "build", "-o", codegen, "github.com/typedinformer/informer/codegen")
	for _, p := range published {
		if !chosen.MatchString(p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			from, ok := goTypes[p.name]
			if !ok {
				t.Fatal("goTypes does not have the set")
			}
			module, defined := p.module, p.module
			if from.module != "" {
				module = from.module
			}
			if from.defined != "" {
				defined = from.defined
			}
			dir := probe(t, module)
			generate := exec.CommandContext(t.Context(), codegen, strings.Fields(from.args)...)
			inProbe(t, dir, generate)
			compare(t, generated(t, filepath.Join(dir, "informers")), crds(t, filepath.Join(moduleDir(t, defined), p.pattern)), from.same)
		})
	}
}

var kubernetesModule = regexp.MustCompile(`(?m)^\tk8s\.io/\S+ v0\.\d+\.\d+( // indirect)?\n`)

// probe returns the directory of a new module that requires another. It requires the same k8s.io/* as this module, so
// that these are compiled once for all.
func probe(t *testing.T, module string) string {
	t.Helper()
	own, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := "module example.com/probe\n\ngo 1.26.0\n\nrequire (\n" + strings.Join(kubernetesModule.FindAllString(string(own), -1), "") + ")\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(module, "@") { // a requirement of this module
		module += "@" + strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Version}}", module))
	}
	inProbe(t, dir, exec.CommandContext(t.Context(), "go", "get", module))
	return dir
}

// inProbe runs a command in the directory of a probe, where the go command adds requirements that are missing.
func inProbe(t *testing.T, dir string, command *exec.Cmd) {
	t.Helper()
	command.Dir = dir
	command.Env = append(command.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -mod=mod"))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}
