package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/typedinformer/informer/proof/internal/copied"
)

// program is a module of others with tests.
type program struct {
	name     string
	module   string
	version  string
	packages []string            // those whose tests run, as arguments of go list
	require  map[string]string   // newer versions of modules, which crcache needs; all caches run with them
	replace  map[string]string   // modules that it replaces by folders which the module proxy does not have
	creates  []string            // its files that call cache.New of controller-runtime themselves
	folders  map[string][]string // by environment variable, a module and a folder in it
}

func (p program) String() string { return p.name }

var programs = []program{
	{
		name: "trust-manager", module: "github.com/cert-manager/trust-manager", version: "v0.25.0",
		packages: []string{"./..."},
	},
	{
		name: "approver-policy", module: "github.com/cert-manager/approver-policy", version: "v0.28.0",
		packages: []string{"./pkg/..."},
		folders:  map[string][]string{"CERT_MANAGER_CRDS": {"github.com/cert-manager/cert-manager", "deploy/crds"}},
	},
	{
		name: "cluster-api", module: "sigs.k8s.io/cluster-api", version: "v1.14.2",
		packages: []string{"./core/reconcilers/clusterresourceset", "./controllers/clustercache",
			"./core/reconcilers/machinedeployment", "./core/reconcilers/machineset"},
		replace: map[string]string{"sigs.k8s.io/cluster-api/api": "sigs.k8s.io/cluster-api/api@v1.14.2"},
		creates: []string{"controllers/clustercache/cluster_accessor_client.go"},
	},
	{
		name: "kuberay", module: "github.com/ray-project/kuberay/ray-operator", version: "v1.5.0",
		packages: []string{"./controllers/ray/..."},
		require: map[string]string{controllerRuntime: "v0.24.1", "k8s.io/api": "v0.36.3", "k8s.io/apimachinery": "v0.36.3",
			"k8s.io/client-go": "v0.36.3", "k8s.io/apiserver": "v0.36.3", "k8s.io/component-base": "v0.36.3"},
	},
}

// setup says how to run a program.
type setup struct {
	project string // the folder of this project
	assets  string // the folder of kube-apiserver and etcd
	cache   cache
	only    string // a regular expression of Go tests; empty for all
	logs    string // the folder that gets the output of each package; empty for none
}

// test runs the tests of p in a temporary folder.
func (p program) test(ctx context.Context, s setup) (result, error) {
	dir, err := os.MkdirTemp("", "proof-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	m, err := copied.Copy(ctx, p.module, p.version, filepath.Join(dir, "program"))
	if err != nil {
		return result{}, err
	}
	if err := p.prepare(ctx, m, s, filepath.Join(dir, "controller-runtime")); err != nil {
		return result{}, fmt.Errorf("make it use the cache: %w", err)
	}
	env, err := p.env(ctx, m)
	if err != nil {
		return result{}, err
	}
	packages, err := p.tested(ctx, m)
	if err != nil {
		return result{}, err
	}
	r := result{program: p.name, cache: s.cache.name}
	for i, pkg := range packages {
		if err := link(m.Dir, p.module, pkg.dir); err != nil {
			return result{}, err
		}
		heap := filepath.Join(dir, "heap")
		run := copied.Run{
			Packages: []string{pkg.path},
			Flags:    []string{"-timeout=30m"},
			Env:      append(env, "KUBEBUILDER_ASSETS="+s.assets, "NO_COLOR=1", heapFile+"="+heap),
		}
		if s.only != "" {
			run.Flags = append(run.Flags, "-run="+s.only)
		}
		if pkg.ginkgo {
			run.Report = filepath.Join(dir, fmt.Sprintf("report%d.json", i))
		}
		if s.logs != "" {
			run.Log = filepath.Join(s.logs, fmt.Sprintf("%s-%s-%s.json", p.name, s.cache, path.Base(pkg.path)))
		}
		began := time.Now()
		outcomes, err := m.Test(ctx, run)
		if err != nil && !errors.Is(err, copied.ErrNoTests) {
			return result{}, err
		}
		r.took += time.Since(began)
		r.outcomes = append(r.outcomes, outcomes...)
		if err := r.addHeap(heap); err != nil {
			return result{}, err
		}
	}
	if len(r.outcomes) == 0 {
		return result{}, fmt.Errorf("%w in any of its %d packages", copied.ErrNoTests, len(packages))
	}
	return r, nil
}

// prepare changes the copy m of the program and its modules, so that its controller-runtime, of which a changed copy
// goes to folder, creates the cache of s.
func (p program) prepare(ctx context.Context, m copied.Module, s setup, folder string) error {
	args := []string{"mod", "edit"}
	for module, version := range p.require {
		args = append(args, "-require="+module+"@"+version)
	}
	for module, replacement := range p.replace {
		args = append(args, "-replace="+module+"="+replacement)
	}
	if _, err := copied.Go(ctx, m.Dir, args...); len(args) > 2 && err != nil {
		return err
	}
	out, err := copied.Go(ctx, m.Dir, "list", "-mod=mod", "-m", "-f", "{{.Version}}", controllerRuntime)
	if err != nil {
		return err
	}
	runtime, err := copied.Copy(ctx, controllerRuntime, strings.TrimSpace(string(out)), folder)
	if err != nil {
		return err
	}
	own := map[string]string{informer: s.project, clientgo: filepath.Join(s.project, "clientgo"),
		crcache: filepath.Join(s.project, "crcache")}
	if err := runtime.Require(ctx, own); err != nil {
		return err
	}
	own[controllerRuntime] = folder
	if err := replace(ctx, m.Dir, own); err != nil {
		return err
	}
	for _, file := range p.creates {
		if err := createByCluster(filepath.Join(m.Dir, filepath.FromSlash(file))); err != nil {
			return err
		}
	}
	return createOurs(folder, s.cache)
}

// env returns the environment variables that the program's tests need.
func (p program) env(ctx context.Context, m copied.Module) (env []string, err error) {
	for variable, place := range p.folders {
		out, err := copied.Go(ctx, m.Dir, "list", "-mod=mod", "-m", "-f", "{{.Dir}}", place[0])
		if err != nil {
			return nil, err
		}
		env = append(env, variable+"="+filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(place[1])))
	}
	return env, nil
}

// tested is a package with tests.
type tested struct {
	path, dir string
	ginkgo    bool // it can write a report of Ginkgo
}

// tested returns the packages of p that have tests.
func (p program) tested(ctx context.Context, m copied.Module) (all []tested, err error) {
	const line = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}} {{join .TestImports ","}},{{join .XTestImports ","}}{{end}}`
	out, err := copied.Go(ctx, m.Dir, append([]string{"list", "-mod=mod", "-f", line}, p.packages...)...)
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(out)) {
		if fields := strings.Fields(l); len(fields) == 3 {
			all = append(all, tested{fields[0], fields[1], strings.Contains(fields[2], "github.com/onsi/ginkgo/v2")})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no package of %s has tests", strings.Join(p.packages, " "))
	}
	return all, nil
}

// link makes module the name of its folder root in dir, where the tests of a package run. With -trimpath,
// runtime.Caller returns such names of files, by which some tests find others.
func link(root, module, dir string) error {
	name := filepath.Join(dir, filepath.FromSlash(module))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.Symlink(root, name)
}
