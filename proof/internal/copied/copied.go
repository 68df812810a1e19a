// Package copied makes changed copies of modules that other people publish, to run their tests. The project keeps
// nothing of their sources.
package copied

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/typedinformer/informer/proof/internal/outcome"
)

// Module is a copy of the sources of a module, in a folder of its own.
type Module struct{ Dir string }

// Version returns the version of module that the module in folder dir chooses. flags are those of go list, such as
// -modfile.
func Version(ctx context.Context, dir, module string, flags ...string) (string, error) {
	out, err := Go(ctx, dir, append(append([]string{"list", "-m", "-f", "{{.Version}}"}, flags...), module)...)
	return strings.TrimSpace(string(out)), err
}

// Copy downloads a version of a module, such as v1.36.3 of k8s.io/kubernetes, and copies it to dir, which must not
// exist.
func Copy(ctx context.Context, module, version, dir string) (Module, error) {
	out, err := Go(ctx, os.TempDir(), "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return Module{}, err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return Module{}, fmt.Errorf("go mod download -json %s@%s: %w", module, version, err)
	}
	if err := os.CopyFS(dir, os.DirFS(downloaded.Dir)); err != nil {
		return Module{}, err
	}
	// Files of the module cache are read-only, and so are their copies.
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755)
	})
	return Module{dir}, err
}

// Require makes the copy require modules, each replaced by a folder.
func (m Module) Require(ctx context.Context, folders map[string]string) error {
	args := []string{"mod", "edit"}
	for module, folder := range folders {
		args = append(args, "-require="+module+"@v0.0.0", "-replace="+module+"="+folder)
	}
	_, err := Go(ctx, m.Dir, args...)
	return err
}

// Rewrite makes all Go files of the copy import other packages. The keys are the import paths before. It returns how
// many files it changed.
func (m Module) Rewrite(paths map[string]string) (files int, err error) {
	var pairs []string
	for from, to := range paths {
		pairs = append(pairs, `"`+from+`"`, `"`+to+`"`)
	}
	replacer := strings.NewReplacer(pairs...)
	err = filepath.WalkDir(m.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after := replacer.Replace(string(before))
		if after == string(before) {
			return nil
		}
		files++
		return os.WriteFile(path, []byte(after), 0o644)
	})
	return files, err
}

// Run is a run of tests of a module.
type Run struct {
	Packages []string // such as ./pkg/cache
	Flags    []string // of go test
	Args     []string // of the test binary
	Env      []string // in addition to that of this process
	Report   string   // where the binary writes a JSON report of Ginkgo; empty for none
	Log      string   // the file that gets the output of go test -json; empty for none
}

// ErrNoTests indicates that no test ran, for example because none matches the flags of a [Run].
var ErrNoTests = errors.New("no tests ran")

// Test runs tests, and returns the outcome of each. The error says why none ran; it wraps ErrNoTests if go test itself
// worked.
func (m Module) Test(ctx context.Context, r Run) ([]outcome.Outcome, error) {
	args := append([]string{"test", "-mod=mod", "-vet=off", "-json", "-count=1"}, r.Flags...)
	args = append(args, r.Packages...)
	if r.Report != "" {
		r.Args = append(r.Args, "-ginkgo.json-report="+r.Report)
	}
	if len(r.Args) > 0 {
		args = append(append(args, "-args"), r.Args...)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.Dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), r.Env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	if r.Log != "" {
		if err := os.MkdirAll(filepath.Dir(r.Log), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(r.Log, output, 0o644); err != nil {
			return nil, err
		}
	}
	var report []byte
	if r.Report != "" {
		if report, err = os.ReadFile(r.Report); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	all, err := outcome.Of(report, output)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w:\n%s%s", strings.Join(r.Packages, " "), ErrNoTests, outcome.Text(output), stderr.String())
	}
	return all, nil
}

// Go runs the go command in folder dir, or in the current folder if dir is empty, and returns its standard output.
func Go(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s in %q: %w\n%s", strings.Join(args, " "), dir, err, stderr.String())
	}
	return out, nil
}

// Root returns the folder of the project.
func Root(ctx context.Context) (string, error) {
	out, err := Go(ctx, "", "list", "-m", "-f", "{{.Dir}}", "github.com/typedinformer/informer")
	return strings.TrimSpace(string(out)), err
}
