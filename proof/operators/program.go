package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/typedinformer/informer/proof/internal/copied"
)

// theirs is the name of controller-runtime's own cache.
const theirs = "controller-runtime"

// cache is a cache that programs run with.
type cache struct {
	name    string
	options string // the fields of crcache.Options, in Go
}

func (c cache) String() string { return c.name }

var caches = []cache{{name: theirs}, {name: "crcache"}, {"Share", "Share: true"}, {"Compact", "Compact: true"}}

// program is a module of others with tests.
type program struct {
	name     string
	module   string
	version  string
	packages []string // as arguments of go test
}

func (p program) String() string { return p.name }

var programs = []program{
	{name: "trust-manager", module: "github.com/cert-manager/trust-manager", version: "v0.25.0", packages: []string{"./..."}},
}

// setup says how to run a program.
type setup struct {
	project string // the folder of this project
	assets  string // the folder of kube-apiserver and etcd
	cache   cache
	only    string // a regular expression of Go tests; empty for all
}

// test runs the tests of p in a temporary folder.
func (p program) test(ctx context.Context, s setup) (result, error) {
	dir, err := os.MkdirTemp("", "proof-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "program")
	if _, err := copied.Copy(ctx, p.module, p.version, source); err != nil {
		return result{}, err
	}
	if s.cache.name != theirs {
		if err := p.useOurs(ctx, s, source, filepath.Join(dir, "controller-runtime")); err != nil {
			return result{}, fmt.Errorf("make it use crcache: %w", err)
		}
	}
	args := []string{"test", "-mod=mod", "-json", "-count=1", "-p=1", "-timeout=30m"}
	if s.only != "" {
		args = append(args, "-run="+s.only)
	}
	began := time.Now()
	output, err := goTest(ctx, source, s.assets, append(args, p.packages...)...)
	if err != nil {
		return result{}, err
	}
	all, err := outcomes(output)
	if err != nil {
		return result{}, err
	}
	return result{program: p.name, cache: s.cache.name, outcomes: all, took: time.Since(began)}, nil
}

// useOurs changes the copy of the program in source, so that its controller-runtime, of which a copy goes to folder,
// creates our caches.
func (p program) useOurs(ctx context.Context, s setup, source, folder string) error {
	version, err := copied.Version(ctx, source, controllerRuntime)
	if err != nil {
		return err
	}
	runtime, err := copied.Copy(ctx, controllerRuntime, version, folder)
	if err != nil {
		return err
	}
	own := map[string]string{
		informer: s.project,
		clientgo: filepath.Join(s.project, "clientgo"),
		crcache:  filepath.Join(s.project, "crcache"),
	}
	if err := runtime.Require(ctx, own); err != nil {
		return err
	}
	own[controllerRuntime] = folder
	if err := replace(ctx, source, own); err != nil {
		return err
	}
	return createOurs(folder, s.cache.options)
}
