package controllerruntime

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/typedinformer/informer/proof/internal/copied"
)

const module = "sigs.k8s.io/controller-runtime"

// copySource copies the sources of controller-runtime to dir, at the newest version that crcache is tested with, without
// the tests of its cache's unexported functions.
func copySource(ctx context.Context, crcache, dir string) (copied.Module, error) {
	version, err := copied.Version(ctx, crcache, module, "-modfile=go.newest.mod")
	if err != nil {
		return copied.Module{}, err
	}
	m, err := copied.Copy(ctx, module, version, dir)
	if err != nil {
		return m, err
	}
	for _, s := range suites {
		if s.external {
			if err := dropInternal(dir, s); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// useOurs changes m, the copy of controller-runtime's sources, so that clusters, managers and the tests of suites
// create caches of the module crcache. options are the fields of a crcache.Options, in Go.
func useOurs(ctx context.Context, m copied.Module, crcache, options string) error {
	err := m.Require(ctx, map[string]string{
		"github.com/typedinformer/informer":          filepath.Dir(crcache),
		"github.com/typedinformer/informer/clientgo": filepath.Join(filepath.Dir(crcache), "clientgo"),
		"github.com/typedinformer/informer/crcache":  crcache,
	})
	if err != nil {
		return err
	}
	cluster := filepath.Join(m.Dir, "pkg", "cluster")
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
		if err := useOursInTests(m.Dir, s, options); err != nil {
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
	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var newCache cache.NewCacheFunc = crcache.New(crcache.Options{` + options + `})

var _ informer.Layout
`
	return os.WriteFile(filepath.Join(dir, file), []byte(src), 0o644)
}
