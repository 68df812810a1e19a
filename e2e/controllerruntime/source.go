package controllerruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const module = "sigs.k8s.io/controller-runtime"

// goCommand runs the go command in dir, or in the current folder if that is empty, and returns its standard output.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
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

// copySource copies the sources of controller-runtime to dir, at the newest version that crcache is tested with, without
// the tests of its cache's unexported functions.
func copySource(ctx context.Context, crcache, dir string) error {
	out, err := goCommand(ctx, crcache, "mod", "download", "-modfile=go.newest.mod", "-json", module)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(downloaded.Dir)); err != nil {
		return err
	}
	// Files of the module cache are read-only, and so are their copies.
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755)
	})
	if err != nil {
		return err
	}
	for _, s := range suites {
		if s.external {
			if err := dropInternal(dir, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// useOurs changes the copy of controller-runtime's sources in dir, so that clusters, managers and the tests of suites
// create caches of the module crcache. options are the fields of a crcache.Options, in Go.
func useOurs(ctx context.Context, crcache, options, dir string) error {
	_, err := goCommand(ctx, dir, "mod", "edit",
		"-require=github.com/typedinformer/informer@v0.0.0", "-replace=github.com/typedinformer/informer="+filepath.Dir(crcache),
		"-require=github.com/typedinformer/informer/crcache@v0.0.0", "-replace=github.com/typedinformer/informer/crcache="+crcache)
	if err != nil {
		return err
	}
	cluster := filepath.Join(dir, "pkg", "cluster")
	n, err := replaceNew(filepath.Join(cluster, "cluster.go"))
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("pkg/cluster/cluster.go mentions cache.New %d times: its default is where managers get their cache",
			n)
	}
	if err := writeNew(cluster, "zz_crcache.go", "cluster", options); err != nil {
		return err
	}
	for _, s := range suites {
		if err := useOursInTests(dir, s, options); err != nil {
			return fmt.Errorf("%s: %w", s.dir, err)
		}
	}
	return nil
}

// useOursInTests changes the test files of s that create a cache.
func useOursInTests(root string, s suite, options string) error {
	have := map[string]bool{"cluster": true} // the packages with newCache
	return eachTestFile(root, s, func(file, pkg string) error {
		n, err := replaceNew(file)
		if err != nil || n == 0 || have[pkg] {
			return err
		}
		have[pkg] = true
		return writeNew(filepath.Dir(file), "zz_crcache_"+pkg+"_test.go", pkg, options)
	})
}

// dropInternal removes the test files of s that are not in its external test package.
func dropInternal(root string, s suite) error {
	return eachTestFile(root, s, func(file, pkg string) error {
		if strings.HasSuffix(pkg, "_test") {
			return nil
		}
		return os.Remove(file)
	})
}

var packageClause = regexp.MustCompile(`(?m)^package (\w+)$`)

// eachTestFile calls do with the path and the package of each test file of s.
func eachTestFile(root string, s suite, do func(file, pkg string) error) error {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(s.dir), "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pkg := packageClause.FindSubmatch(src)
		if pkg == nil {
			return fmt.Errorf("%s has no package clause", file)
		}
		if err := do(file, string(pkg[1])); err != nil {
			return err
		}
	}
	return nil
}

var cacheNew = regexp.MustCompile(`\bcache\.New\b`)

// replaceNew makes a Go file use newCache of its package in place of cache.New, and returns how often it used that.
func replaceNew(file string) (int, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n := len(cacheNew.FindAllIndex(src, -1))
	if n == 0 {
		return 0, nil
	}
	src = cacheNew.ReplaceAll(src, []byte("newCache"))
	src = append(src, "\nvar _ cache.Options // the import may have no other use\n"...)
	return n, os.WriteFile(file, src, 0o644)
}

// writeNew writes a Go file that declares newCache.
func writeNew(dir, file, pkg, options string) error {
	src := `package ` + pkg + `

import (
	"github.com/typedinformer/informer/crcache"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var newCache cache.NewCacheFunc = crcache.New(crcache.Options{` + options + `})
`
	return os.WriteFile(filepath.Join(dir, file), []byte(src), 0o644)
}
