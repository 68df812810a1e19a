package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	informer          = "github.com/typedinformer/informer"
	crcache           = informer + "/crcache"
	controllerRuntime = "sigs.k8s.io/controller-runtime"
)

// goCommand runs the go command in dir, or in the current folder if that is empty, and returns its trimmed standard
// output.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := goOutput(ctx, dir, nil, args...)
	return strings.TrimSpace(string(out)), err
}

func goOutput(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("go %s in %q: %w\n%s", strings.Join(args, " "), dir, err, stderr.String())
	}
	return out, nil
}

// goTest runs go test -json, whose failure is no error if it ran tests.
func goTest(ctx context.Context, dir, assets string, args ...string) ([]byte, error) {
	env := []string{"KUBEBUILDER_ASSETS=" + assets, "NO_COLOR=1"}
	out, err := goOutput(ctx, dir, env, args...)
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && ctx.Err() == nil && bytes.Contains(out, []byte(`"Test":`)) {
		return out, nil
	}
	return out, err
}

// projectDir returns the folder of the project.
func projectDir(ctx context.Context) (string, error) {
	proof, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", informer+"/proof")
	return filepath.Dir(proof), err
}

// servers compiles kube-apiserver and etcd, unless that is done, and returns their folder.
func servers(ctx context.Context, project string) (string, error) {
	e2e := filepath.Join(project, "e2e")
	assets := filepath.Join(e2e, ".bin")
	// The tests of e2e build the servers before they run, even if none is to run.
	_, err := goCommand(ctx, e2e, "test", "-run=^$", "-timeout=60m", ".")
	return assets, err
}

// fetch downloads a module and copies it to dir.
func fetch(ctx context.Context, module, version, dir string) error {
	out, err := goOutput(ctx, os.TempDir(), nil, "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return fmt.Errorf("go mod download of %s: %w", module, err)
	}
	if err := os.CopyFS(dir, os.DirFS(downloaded.Dir)); err != nil {
		return err
	}
	// Files of the module cache are read-only, and so are their copies.
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// require makes the module in dir require modules of this project.
func require(ctx context.Context, dir string, modules ...string) error {
	args := []string{"mod", "edit"}
	for _, m := range modules {
		args = append(args, "-require="+m+"@v0.0.0")
	}
	_, err := goCommand(ctx, dir, args...)
	return err
}

// replace makes the module in dir take modules from folders.
func replace(ctx context.Context, dir string, by map[string]string) error {
	args := []string{"mod", "edit"}
	for module, folder := range by {
		args = append(args, "-replace="+module+"="+folder)
	}
	_, err := goCommand(ctx, dir, args...)
	return err
}

var cacheNew = regexp.MustCompile(`\bcache\.New\b`)

// createOurs changes the sources of controller-runtime in dir, so that clusters and managers create our caches, with
// the fields options of crcache.Options.
func createOurs(dir, options string) error {
	cluster := filepath.Join(dir, "pkg", "cluster")
	file := filepath.Join(cluster, "cluster.go")
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := len(cacheNew.FindAllIndex(src, -1)); n != 1 {
		return fmt.Errorf("%s mentions cache.New %d times: its default is where managers get their cache", file, n)
	}
	if err := os.WriteFile(file, cacheNew.ReplaceAll(src, []byte("newCache")), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cluster, "zz_crcache.go"), fmt.Appendf(nil, `package cluster

import (
	"github.com/typedinformer/informer/crcache"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var newCache cache.NewCacheFunc = crcache.New(crcache.Options{%s})
`, options), 0o644)
}
