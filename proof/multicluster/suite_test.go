package multicluster

import (
	"context"
	"flag"
	"path/filepath"
	"testing"

	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/proof/internal/copied"
)

const (
	module  = "sigs.k8s.io/multicluster-runtime"
	version = "v0.24.1"
)

// suite is a package of multicluster-runtime.
type suite struct {
	dir     string
	atLeast int // the number of specs; it shows when a change of this package makes some disappear
}

// suites are the packages whose tests create clusters.
var suites = []suite{
	{"providers/kubeconfig", 11},
	{"providers/clusters", 2},
	{"providers/multi", 5},
	{"providers/namespace", 7},
	{"pkg/builder", 74},
	{"pkg/manager/coordinator/sharded", 10},
}

var whose = flag.String("cache", "ours", "`whose` caches the specs test: ours or theirs")

// The specs of multicluster-runtime pass with caches of crcache that share parts.
func TestSpecs(t *testing.T) {
	if testing.Short() {
		t.Log("runs real kube-apiservers, for minutes")
		return
	}
	ctx := t.Context()
	bin, err := cluster.Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := copySources(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		t.Run(s.dir, func(t *testing.T) {
			all, err := m.Test(t.Context(), copied.Run{
				Packages: []string{"./" + s.dir},
				Flags:    []string{"-timeout=15m"},
				Args:     []string{"-ginkgo.v"},
				Env:      []string{"KUBEBUILDER_ASSETS=" + filepath.Dir(bin.KubeAPIServer)},
				Report:   filepath.Join(t.TempDir(), "report.json"),
			})
			if err != nil {
				t.Fatal(err)
			}
			passed, failed, skipped := 0, 0, 0
			for _, o := range all {
				switch {
				case o.Skipped:
					skipped++
				case o.Passed:
					passed++
				default:
					failed++
					t.Errorf("fails: %s\n%s", o.Test, o.Message)
				}
			}
			t.Logf("%d passed, %d failed, %d skipped", passed, failed, skipped)
			if passed+failed < s.atLeast {
				t.Errorf("%d specs ran, want at least %d", passed+failed, s.atLeast)
			}
		})
	}
}

// copySources copies multicluster-runtime to a folder in dir. Unless the caches are to be theirs, it uses a changed
// copy of controller-runtime.
func copySources(ctx context.Context, dir string) (copied.Module, error) {
	m, err := copied.Copy(ctx, module, version, filepath.Join(dir, "multicluster-runtime"))
	if err != nil || *whose == "theirs" {
		return m, err
	}
	crcache, err := filepath.Abs("../../crcache")
	if err != nil {
		return m, err
	}
	required, err := copied.Version(ctx, m.Dir, copied.ControllerRuntime, "-mod=mod")
	if err != nil {
		return m, err
	}
	under, err := copied.Copy(ctx, copied.ControllerRuntime, required, filepath.Join(dir, "controller-runtime"))
	if err != nil {
		return m, err
	}
	if err := under.UseCache(ctx, crcache, "Parts: new(informer.Parts)"); err != nil {
		return m, err
	}
	folders := copied.CacheModules(crcache)
	folders[copied.ControllerRuntime] = under.Dir
	return m, m.Require(ctx, folders)
}
