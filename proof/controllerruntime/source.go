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

// copySource copies the sources of controller-runtime to dir, at the newest version that crcache is tested with, without
// the tests of its cache's unexported functions.
func copySource(ctx context.Context, crcache, dir string) (copied.Module, error) {
	version, err := copied.Version(ctx, crcache, copied.ControllerRuntime, "-modfile=go.newest.mod")
	if err != nil {
		return copied.Module{}, err
	}
	m, err := copied.Copy(ctx, copied.ControllerRuntime, version, dir)
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
	if err := m.UseCache(ctx, crcache, options); err != nil {
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
		n, err := copied.ReplaceCache(file)
		if err != nil || n == 0 || have[pkg] {
			return err
		}
		have[pkg] = true
		return copied.WriteCache(filepath.Dir(file), "zz_crcache_"+pkg+"_test.go", pkg, options)
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
