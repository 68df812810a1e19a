package clientgo

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/typedinformer/informer/proof/internal/copied"
	"github.com/typedinformer/informer/proof/internal/outcome"
)

var (
	whose = flag.String("informers", "both", "`whose` informers the tests use: ours, theirs or both")
	only  = flag.String("focus", "", "run only the tests that match this `regexp`, and expect nothing of others")
)

const (
	theirs  = "k8s.io/client-go/tools/cache"
	ours    = "github.com/typedinformer/informer/clientgo/cache"
	tests   = "shared_informer_test.go"
	atLeast = 18 // tests that compile outside of client-go's package
)

// own is what the tests read from unexported fields of client-go's informers, asked of ours.
const own = `package cachetests

import (
	"slices"

	"k8s.io/client-go/tools/cache"
)

type asked interface {
	Handlers() []cache.ResourceEventHandlerRegistration
	IsStarted() bool
}

func eventHandlerCount(i cache.SharedInformer) int { return len(i.(asked).Handlers()) }

func isStarted(i cache.SharedInformer) bool { return i.(asked).IsStarted() }

func isRegistered(i cache.SharedInformer, h cache.ResourceEventHandlerRegistration) bool {
	return slices.Contains(i.(asked).Handlers(), h)
}
`

// different are tests that pass with client-go's informers and fail with ours, with the reason. A test that passes must
// not be here.
var different = map[string]string{}

// client-go's own tests of shared informers pass with ours.
//
// Guarantees: P1
func TestSharedInformers(t *testing.T) {
	ctx := t.Context()
	root, err := copied.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	version, err := copied.Version(ctx, filepath.Join(root, "clientgo"), "k8s.io/client-go", "-modfile=go.newest.mod")
	if err != nil {
		t.Fatal(err)
	}
	client, err := copied.Copy(ctx, "k8s.io/client-go", version, filepath.Join(t.TempDir(), "client-go"))
	if err != nil {
		t.Fatal(err)
	}
	x := extraction{
		from: theirs,
		replaced: map[string]string{
			"NewSharedInformer": "ours.NewSharedInformer", "NewSharedIndexInformer": "ours.NewSharedIndexInformer",
			"NewSharedIndexInformerWithOptions": "ours.NewSharedIndexInformerWithOptions",
		},
		imports:  map[string]string{"ours": ours},
		own:      map[string]bool{"eventHandlerCount": true, "isStarted": true, "isRegistered": true},
		asserted: "sharedIndexInformer",
	}
	names, err := x.outside(filepath.Join(client.Dir, "tools", "cache"), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	run := copied.Run{Flags: []string{"-timeout=10m", "-run=^(" + strings.Join(names, "|") + ")$"}}
	fails := map[string]bool{}
	if *whose != "ours" {
		run.Packages = []string{"./tools/cache"}
		for _, o := range all(t, client, run, "client-go's") {
			fails[o.Test] = !o.Passed
		}
	}
	if *whose == "theirs" {
		return
	}
	m, err := x.module(ctx, root, client.Dir, filepath.Join(t.TempDir(), "cachetests"), names)
	if err != nil {
		t.Fatal(err)
	}
	run.Packages = []string{"."}
	results := all(t, m, run, "our")
	for _, o := range results {
		switch why := different[o.Test]; {
		case o.Skipped, o.Passed && why == "":
		case o.Passed:
			t.Errorf("passes, but is listed as different: %s", o.Test)
		case fails[o.Test]:
			t.Logf("fails with both: %s", o.Test)
		case why != "":
			t.Logf("fails as listed: %s: %s", o.Test, why)
		default:
			t.Errorf("fails: %s\n%s", o.Test, o.Message)
		}
	}
	if *only == "" && len(names) < atLeast {
		t.Errorf("%d tests ran, want at least %d", len(names), atLeast)
	}
}

// all runs tests of m, and logs how many passed and failed.
func all(t *testing.T, m copied.Module, run copied.Run, informers string) []outcome.Outcome {
	t.Helper()
	began := time.Now()
	results, err := m.Test(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	n := outcome.CountOf(results)
	t.Logf("%s informers: %d passed, %d failed, %d skipped, %.0f s", informers, n.Passed, n.Failed, n.Skipped,
		time.Since(began).Seconds())
	return results
}

// outside reads the tests in dir, and returns the names of those that compile outside of it. It logs the others.
func (x *extraction) outside(dir string, logf func(string, ...any)) (names []string, err error) {
	if err := x.read(dir); err != nil {
		return nil, err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return nil, err
	}
	for _, name := range x.tests(tests) {
		internal := x.internal(name)
		switch {
		case internal != "":
			logf("left out: %s uses %s", name, internal)
		case match.MatchString(name):
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no test of %s compiles outside of its package", tests)
	}
	return names, nil
}

// module writes a module with tests to dir. client is the folder of client-go.
func (x *extraction) module(ctx context.Context, root, client, dir string, tests []string) (copied.Module, error) {
	m := copied.Module{Dir: dir}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return m, err
	}
	files, err := x.write("cachetests", tests)
	if err != nil {
		return m, err
	}
	files["own_test.go"] = []byte(own)
	files["go.mod"] = []byte("module cachetests\n\ngo 1.26.0\n")
	for name, src := range files {
		if err := os.WriteFile(filepath.Join(dir, name), src, 0o644); err != nil {
			return m, err
		}
	}
	err = m.Require(ctx, map[string]string{
		"github.com/typedinformer/informer":          root,
		"github.com/typedinformer/informer/clientgo": filepath.Join(root, "clientgo"),
		"k8s.io/client-go":                           client,
	})
	if err != nil {
		return m, err
	}
	_, err = copied.Go(ctx, dir, "mod", "tidy")
	return m, err
}
