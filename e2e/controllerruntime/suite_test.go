package controllerruntime

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/typedinformer/informer/e2e/cluster"
)

var (
	whose = flag.String("cache", "ours", "`whose` cache the specs test: ours or theirs")
	how   = flag.String("options", "", "the `fields` of crcache.Options, in Go, such as 'Compact: true'")
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
	if err := copySource(ctx, crcache, dir); err != nil {
		t.Fatal(err)
	}
	if *whose == "ours" {
		if err := useOurs(ctx, crcache, *how, dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range suites {
		t.Run(s.dir, func(t *testing.T) {
			check(t, s, run(t.Context(), t, s, dir, assets))
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

// run runs the tests of s in the copy of controller-runtime's sources in dir.
func run(ctx context.Context, t *testing.T, s suite, dir, assets string) []outcome {
	report := filepath.Join(t.TempDir(), "report.json")
	args := []string{"test", "-mod=mod", "-json", "-count=1", "-timeout=15m", "./" + s.dir, "-args"}
	if *only != "" {
		args = append(args, "-ginkgo.focus="+*only)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-ginkgo.json-report="+report, "-ginkgo.v")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "KUBEBUILDER_ASSETS="+assets)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	data, err := os.ReadFile(report)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	all, err := outcomes(data, output)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("no tests ran:\n%s", output)
	}
	return all
}

// check compares the outcomes of s with what they should be.
func check(t *testing.T, s suite, all []outcome) {
	listed := map[string]string{} // by spec, why it fails
	for _, d := range different {
		if d.suite == s.dir && *whose == "ours" && *how != "" {
			listed[d.spec] = d.why
		}
	}
	var passed, failed, skipped, expected int
	for _, o := range all {
		_, differs := listed[o.spec]
		switch {
		case o.skipped:
			skipped++
			continue
		case o.passed && differs:
			t.Errorf("passes, but is listed as different: %s", o.spec)
		case o.passed:
			passed++
		case differs:
			expected++
		default:
			failed++
			t.Errorf("fails: %s\n%s", o.spec, o.message)
		}
		delete(listed, o.spec)
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
