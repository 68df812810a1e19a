package kubernetes

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/proof/internal/copied"
	"github.com/typedinformer/informer/proof/internal/outcome"
)

var (
	whose   = flag.String("informers", "both", "`whose` informers the tests use: ours, theirs or both")
	which   = flag.String("suites", "", "the `suites` to run, such as deployment,job (default all; with -short deployment)")
	only    = flag.String("focus", "", "run only the tests that match this `regexp`, and expect nothing of others")
	storage = flag.String("storage", "", "the `fields` of informers.Options, in Go, such as 'Layout: new(informer.LayoutCompact)'")
	logs    = flag.String("logs", "", "the `folder` that gets the whole output of each suite")
	bound   = flag.Duration("bound", 30*time.Minute, "the time that a suite may take")
)

// Kubernetes' integration tests pass with our informers if they pass with client-go's.
//
// Guarantees: P1
func TestIntegration(t *testing.T) {
	bin, err := cluster.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Without cgo, as the kube-apiserver of e2e, so that packages are shared.
	env := []string{"CGO_ENABLED=0", "PATH=" + filepath.Dir(bin.Etcd) + string(filepath.ListSeparator) + os.Getenv("PATH")}
	chosen := strings.Split(*which, ",")
	if *which == "" && testing.Short() {
		chosen = []string{"deployment"}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-18s %-9s %7s %7s %7s %8s\n", "suite", "informers", "passed", "failed", "skipped", "seconds")
	var version string
	defer func() { t.Logf("Kubernetes %s\n%s", version, &table) }()

	copies := map[string]kubernetes{}
	for _, kind := range kinds(t) {
		k, err := copySource(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		version = k.version
		if kind == "ours" {
			if err := useOurs(t.Context(), k.Module, *storage); err != nil {
				t.Fatal(err)
			}
		}
		copies[kind] = k
	}
	for _, s := range suites {
		if chosen[0] != "" && !slices.Contains(chosen, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			results := map[string][]outcome.Outcome{}
			for _, kind := range kinds(t) {
				began := time.Now()
				all, err := copies[kind].Test(t.Context(), run(s, kind, append(env, copies[kind].env()...)))
				if err != nil {
					t.Fatal(err)
				}
				n := outcome.CountOf(all)
				fmt.Fprintf(&table, "%-18s %-9s %7d %7d %7d %8.0f\n", s.name, kind, n.Passed, n.Failed, n.Skipped,
					time.Since(began).Seconds())
				results[kind] = all
				checkEnough(t, s, kind, all)
			}
			check(t, s, results["ours"], results["theirs"])
		})
	}
}

// kinds returns the kinds of informers to test.
func kinds(t *testing.T) []string {
	switch *whose {
	case "both":
		return []string{"theirs", "ours"}
	case "ours", "theirs":
		return []string{*whose}
	}
	t.Fatalf("-informers=%s: want ours, theirs or both", *whose)
	return nil
}

func run(s suite, kind string, env []string) copied.Run {
	r := copied.Run{
		Packages: []string{module + "/test/integration/" + s.name},
		Flags:    []string{"-trimpath", "-timeout=" + bound.String()},
		Env:      env,
	}
	if *only != "" {
		r.Flags = append(r.Flags, "-run="+*only)
	}
	if *logs != "" {
		r.Log = filepath.Join(*logs, s.name+"-"+kind+".json")
	}
	return r
}

// check compares the outcomes with our informers with those with client-go's, if these are known.
func check(t *testing.T, s suite, ours, theirs []outcome.Outcome) {
	theyFail := map[string]bool{}
	for _, o := range theirs {
		theyFail[o.Test] = !o.Passed
	}
	why := map[string]string{}
	for _, d := range different {
		if d.suite == s.name {
			why[d.test] = d.why
		}
	}
	for _, o := range ours {
		switch {
		case o.Skipped:
		case o.Passed && why[o.Test] != "":
			t.Errorf("passes, but is listed as different: %s", o.Test)
		case o.Passed:
		case theyFail[o.Test]:
			t.Logf("fails with both: %s", o.Test)
		case why[o.Test] != "":
			t.Logf("fails as listed: %s: %s", o.Test, why[o.Test])
		default:
			t.Errorf("fails: %s\n%s", o.Test, o.Message)
		}
	}
}

// checkEnough fails if so few tests passed that the suite proves nothing about the kind of informers.
func checkEnough(t *testing.T, s suite, kind string, all []outcome.Outcome) {
	want := s.atLeast
	if *only != "" {
		want = 1
	}
	passed := 0
	for _, o := range all {
		if !strings.Contains(o.Test, "/") && o.Passed {
			passed++
		}
	}
	if passed < want {
		t.Errorf("informers %s: %d tests passed, want at least %d", kind, passed, want)
	}
}
