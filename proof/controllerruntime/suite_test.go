package controllerruntime

import (
	"context"
	"flag"
	"path/filepath"
	"testing"

	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/proof/internal/copied"
	"github.com/typedinformer/informer/proof/internal/outcome"
)

var (
	whose = flag.String("cache", "ours", "`whose` cache the specs test: ours or theirs")
	how   = flag.String("options", "", "the `fields` of crcache.Options, in Go, such as 'Layout: informer.LayoutCompact'")
	only  = flag.String("focus", "", "run only specs that match this `regexp`, and expect nothing of others")
)

// The specs of controller-runtime pass with the cache of crcache.
func TestSpecs(t *testing.T) {
	if testing.Short() {
		t.Log("runs a real kube-apiserver, for minutes")
		return
	}
	ctx := t.Context()
	assets := serverAssets(t)
	crcache, err := filepath.Abs("../../crcache")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "controller-runtime")
	m, err := copySource(ctx, crcache, dir)
	if err != nil {
		t.Fatal(err)
	}
	if *whose == "ours" {
		if err := useOurs(ctx, m, crcache, *how); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range suites {
		t.Run(s.dir, func(t *testing.T) {
			check(t, s, run(t.Context(), t, s, m, assets))
		})
	}
}

// serverAssets builds the servers, and returns the folder where controller-runtime's test environment finds them.
func serverAssets(t *testing.T) string {
	bin, err := cluster.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(bin.KubeAPIServer)
}

// run runs the tests of s in m, the copy of controller-runtime's sources.
func run(ctx context.Context, t *testing.T, s suite, m copied.Module, assets string) []outcome.Outcome {
	r := copied.Run{
		Packages: []string{"./" + s.dir},
		Flags:    []string{"-timeout=15m"},
		Args:     []string{"-ginkgo.v"},
		Env:      []string{"KUBEBUILDER_ASSETS=" + assets},
		Report:   filepath.Join(t.TempDir(), "report.json"),
	}
	if *only != "" {
		r.Args = append(r.Args, "-ginkgo.focus="+*only)
	}
	all, err := m.Test(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// check compares the outcomes of s with what they should be.
func check(t *testing.T, s suite, all []outcome.Outcome) {
	listed := map[string]string{} // by spec, why it fails
	for _, d := range different {
		if d.suite == s.dir && *whose == "ours" && *how != "" {
			listed[d.spec] = d.why
		}
	}
	var passed, failed, skipped, expected int
	for _, o := range all {
		_, differs := listed[o.Test]
		switch {
		case o.Skipped:
			skipped++
			continue
		case o.Passed && differs:
			t.Errorf("passes, but is listed as different: %s", o.Test)
		case o.Passed:
			passed++
		case differs:
			expected++
		default:
			failed++
			t.Errorf("fails: %s\n%s", o.Test, o.Message)
		}
		delete(listed, o.Test)
	}
	t.Logf("%d passed, %d failed, %d failed as listed, %d skipped", passed, failed, expected, skipped)
	if *only != "" {
		return
	}
	for spec := range listed {
		t.Errorf("is listed as different, but did not run: %s", spec)
	}
	if passed+expected < s.atLeast {
		t.Errorf("%d specs ran, want at least %d", passed+expected, s.atLeast)
	}
}
