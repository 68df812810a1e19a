package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/proof/internal/copied"
)

const (
	informer          = "github.com/typedinformer/informer"
	clientgo          = informer + "/clientgo"
	crcache           = informer + "/crcache"
	controllerRuntime = "sigs.k8s.io/controller-runtime"
)

// goTest runs go test -json, whose failure is no error if it ran tests.
func goTest(ctx context.Context, dir, assets string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "KUBEBUILDER_ASSETS="+assets, "NO_COLOR=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch failed := (*exec.ExitError)(nil); {
	case errors.As(err, &failed) && ctx.Err() == nil && bytes.Contains(out, []byte(`"Test":`)):
		return out, nil
	case err != nil:
		return nil, fmt.Errorf("go %s in %q: %w\n%s", strings.Join(args, " "), dir, err, stderr.String())
	}
	return out, nil
}

// servers compiles kube-apiserver and etcd, unless that is done, and returns their folder.
func servers(ctx context.Context) (string, error) {
	bin, err := cluster.Build(ctx)
	return filepath.Dir(bin.Etcd), err
}

// replace makes the module in dir take modules from folders.
func replace(ctx context.Context, dir string, by map[string]string) error {
	args := []string{"mod", "edit"}
	for module, folder := range by {
		args = append(args, "-replace="+module+"="+folder)
	}
	_, err := copied.Go(ctx, dir, args...)
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
