package kubernetes

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/typedinformer/informer/proof/internal/copied"
	"github.com/typedinformer/informer/proof/internal/outcome"
)

// unit are packages whose own tests run controllers over fake clientsets. Those of Kubernetes' modules run in the
// version of e2e.
//
// TestPodEvictorReset of descheduler does not run. It waits for nodes and needs pods, so it fails now and then with
// client-go's informers, too.
var unit = []struct {
	suite
	packages string
	project  string // the module with the tests and its version; empty for Kubernetes
}{
	{suite{"replicaset", 31}, "k8s.io/kubernetes/pkg/controller/replicaset", ""},
	{suite{"cloud-provider", 30}, "k8s.io/cloud-provider/controllers/...", ""},
	{suite{"descheduler", 138}, "./pkg/...", "sigs.k8s.io/descheduler@v0.36.0"},
}

// Unit tests of controllers pass when the informers of their fake clientsets are ours, if they pass with client-go's.
//
// Guarantees: P1, P5
func TestUnit(t *testing.T) {
	for _, s := range unit {
		if *which != "" && !slices.Contains(strings.Split(*which, ","), s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			results := map[string][]outcome.Outcome{}
			for _, kind := range kinds(t) {
				m, env, err := tested(t.Context(), t.TempDir(), s.project)
				if err == nil && kind == "ours" {
					err = useOursOverFakes(t.Context(), m)
				}
				if err != nil {
					t.Fatal(err)
				}
				r := run(s.suite, kind, append([]string{"CGO_ENABLED=0"}, env...))
				r.Packages = []string{s.packages}
				r.Flags = append(r.Flags, "-skip=^TestPodEvictorReset$")
				all, err := m.Test(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				n := outcome.CountOf(all)
				t.Logf("informers %s: %d passed, %d failed, %d skipped", kind, n.Passed, n.Failed, n.Skipped)
				results[kind] = all
				checkEnough(t, s.suite, kind, all)
			}
			check(t, s.suite, results["ours"], results["theirs"])
		})
	}
}

// tested returns a module in dir that can run the tests of project, and their environment.
func tested(ctx context.Context, dir, project string) (m copied.Module, env []string, err error) {
	if module, version, ok := strings.Cut(project, "@"); ok {
		m, err = copied.Copy(ctx, module, version, filepath.Join(dir, "copy"))
		return m, nil, err
	}
	k, err := copySource(ctx, dir)
	return k.Module, k.env(), err
}

// useOursOverFakes makes m use a copy of client-go whose informers are ours.
func useOursOverFakes(ctx context.Context, m copied.Module) error {
	root, err := copied.Root(ctx)
	if err != nil {
		return err
	}
	version, err := copied.Version(ctx, m.Dir, "k8s.io/client-go")
	if err != nil {
		return err
	}
	client, err := copied.Copy(ctx, "k8s.io/client-go", version, filepath.Join(filepath.Dir(m.Dir), "client-go"))
	if err != nil {
		return err
	}
	if err := client.UseInformers(ctx, root); err != nil {
		return err
	}
	return m.Require(ctx, map[string]string{
		"github.com/typedinformer/informer":          root,
		"github.com/typedinformer/informer/clientgo": filepath.Join(root, "clientgo"),
		"k8s.io/client-go":                           client.Dir,
	})
}
