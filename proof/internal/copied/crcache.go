package copied

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// ControllerRuntime is the path of controller-runtime's module.
const ControllerRuntime = "sigs.k8s.io/controller-runtime"

// CacheModules are the modules of the cache of package crcache and their folders, for [Module.Require]. crcache is the
// folder of its module.
func CacheModules(crcache string) map[string]string {
	return map[string]string{
		"github.com/typedinformer/informer":          filepath.Dir(crcache),
		"github.com/typedinformer/informer/clientgo": filepath.Join(filepath.Dir(crcache), "clientgo"),
		"github.com/typedinformer/informer/crcache":  crcache,
	}
}

// UseCache changes m, a copy of controller-runtime: clusters and managers that name no cache get one of the module
// crcache, which is in that folder. options are the fields of a crcache.Options, in Go. All caches get the same value.
func (m Module) UseCache(ctx context.Context, crcache, options string) error {
	if err := m.Require(ctx, CacheModules(crcache)); err != nil {
		return err
	}
	cluster := filepath.Join(m.Dir, "pkg", "cluster")
	n, err := ReplaceCache(filepath.Join(cluster, "cluster.go"))
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("pkg/cluster/cluster.go mentions cache.New %d times: its default is where managers get their cache",
			n)
	}
	return WriteCache(cluster, "zz_crcache.go", "cluster", options)
}

var cacheNew = regexp.MustCompile(`\bcache\.New\b`)

// ReplaceCache makes a Go file use newCache of its package in place of cache.New, and returns how often it used that.
func ReplaceCache(file string) (int, error) {
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

// WriteCache writes a Go file that declares newCache. options are the fields of a crcache.Options, in Go.
func WriteCache(dir, file, pkg, options string) error {
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
