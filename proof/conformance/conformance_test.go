package conformance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/proof/internal/choice"
	"github.com/typedinformer/informer/proof/internal/copied"
	"github.com/typedinformer/informer/proof/internal/outcome"
)

var (
	whose = flag.String("server", "ours", "`whose` server the suites start: ours or binaries")
	which = flag.String("suites", strings.Join(choice.Names(suites), ","), "the `packages` whose suites run")
	only  = flag.String("focus", "", "run only specs that match this `regexp`, and expect nothing of others")
	flags = flag.String("flags", "", "the `flags` of go test for the suites, such as -race")
	keep  = flag.String("keep", "", "the `folder` that gets the output of each suite")
)

// controller-runtime's suites pass with a server of package informertest.
func TestSuites(t *testing.T) {
	if testing.Short() {
		t.Log("compiles and runs controller-runtime's suites, for minutes")
		return
	}
	ctx := t.Context()
	chosen, err := choice.Of(suites, strings.Split(*which, ","))
	if err != nil {
		t.Fatal(err)
	}
	project, err := copied.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := copySource(ctx, project, filepath.Join(t.TempDir(), "controller-runtime"))
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	if *whose == "ours" {
		err = useOurs(ctx, m, project)
	} else {
		env, err = binaries(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []result
	for _, s := range chosen {
		t.Run(s.dir, func(t *testing.T) {
			r := run(t.Context(), t, s, m, env)
			all = append(all, r)
			if *whose == "ours" {
				check(t, r)
			}
		})
	}
	t.Logf("\n%s", table(all))
}

// binaries builds kube-apiserver and etcd, and returns the environment in which controller-runtime finds them.
func binaries(ctx context.Context) ([]string, error) {
	bin, err := cluster.Build(ctx)
	return []string{"KUBEBUILDER_ASSETS=" + filepath.Dir(bin.KubeAPIServer)}, err
}

// run runs the tests of s in m, the copy of controller-runtime's sources.
func run(ctx context.Context, t *testing.T, s suite, m copied.Module, env []string) result {
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	processes := s.processes()
	if *only != "" {
		processes = [][]string{{"-ginkgo.focus=" + *only}}
	}
	all := result{suite: s}
	for i, args := range processes {
		file := filepath.Join(dir, fmt.Sprintf("%s-%d", strings.ReplaceAll(s.dir, "/", "-"), i+1))
		part, err := runProcess(ctx, m, s, env, args, file)
		if err != nil {
			t.Fatal(err)
		}
		all.add(part)
	}
	return all
}

// runProcess runs the tests of s with flags of Ginkgo. It writes files whose names begin with file.
func runProcess(ctx context.Context, m copied.Module, s suite, env, args []string, file string) (result, error) {
	if err := os.RemoveAll(file + ".starts"); err != nil {
		return result{}, err
	}
	r := copied.Run{
		Packages: []string{"./" + s.dir},
		Flags:    append(strings.Fields(*flags), "-timeout=15m"),
		Env:      append(env[:len(env):len(env)], "CONFORMANCE_STARTS="+file+".starts"),
		Args:     append([]string{"-ginkgo.v"}, args...),
		Log:      file + ".log",
		Report:   file + ".report",
	}
	outcomes, err := m.Test(ctx, r)
	if err != nil {
		return result{}, err
	}
	output, err := os.ReadFile(r.Log)
	if err != nil {
		return result{}, err
	}
	starts, err := readStarts(file + ".starts")
	if err != nil {
		return result{}, err
	}
	return result{suite: s, outcomes: outcomes, took: outcome.Took(output), starts: starts}, nil
}

// check compares the outcomes of a suite with what they should be.
func check(t *testing.T, r result) {
	listed := r.suite.reasons()
	passed := 0
	for _, o := range r.outcomes {
		_, differs := listed[o.Test]
		switch {
		case o.Skipped:
			continue
		case o.Passed && differs:
			t.Errorf("passes, but is listed as different: %s", o.Test)
		case o.Passed:
			passed++
		case !differs:
			t.Errorf("fails: %s\n%s", o.Test, o.Message)
		}
		delete(listed, o.Test)
	}
	if *only != "" {
		return
	}
	for spec := range listed {
		t.Errorf("is listed as different, but did not run: %s", spec)
	}
	if passed < r.suite.atLeast {
		t.Errorf("%d specs passed, want at least %d", passed, r.suite.atLeast)
	}
}
