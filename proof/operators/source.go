package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/proof/internal/copied"
)

const (
	informer          = "github.com/typedinformer/informer"
	clientgo          = informer + "/clientgo"
	crcache           = informer + "/crcache"
	controllerRuntime = "sigs.k8s.io/controller-runtime"
)

// servers compiles kube-apiserver and etcd, unless that is done, and returns their folder.
func servers(ctx context.Context) (string, error) {
	bin, err := cluster.Build(ctx)
	return filepath.Dir(bin.Etcd), err
}

// replace makes the module in dir take modules from folders.
func replace(ctx context.Context, dir string, folders map[string]string) error {
	args := []string{"mod", "edit"}
	for module, folder := range folders {
		args = append(args, "-replace="+module+"="+folder)
	}
	_, err := copied.Go(ctx, dir, args...)
	return err
}

var (
	cacheNew      = regexp.MustCompile(`\b(ctrl)?cache\.New\b`) // Cluster API imports the package as ctrlcache
	cacheStart    = regexp.MustCompile(`\bc\.cache\.Start\(ctx\)`)
	packageClause = regexp.MustCompile(`(?m)^package \w+$`)
)

// createByCluster changes a Go file, so that it creates caches by what createOurs adds to controller-runtime.
func createByCluster(file string) error {
	if err := substitute(file, cacheNew, "proofcluster.NewCache"); err != nil {
		return err
	}
	return substitute(file, packageClause, "$0\n\nimport proofcluster \"sigs.k8s.io/controller-runtime/pkg/cluster\"")
}

// createOurs changes the sources of controller-runtime in dir, so that clusters and managers create caches of the kind
// c, and write the size of the heap from time to time.
func createOurs(dir string, c cache) error {
	cluster := filepath.Join(dir, "pkg", "cluster")
	if err := substitute(filepath.Join(cluster, "cluster.go"), cacheNew, "NewCache"); err != nil {
		return err
	}
	if err := substitute(filepath.Join(cluster, "internal.go"), cacheStart, "startMeasured(ctx, c.cache)"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cluster, "zz_proof.go"), []byte(added(c)), 0o644)
}

// substitute changes the one place of a file that matches.
func substitute(file string, what *regexp.Regexp, text string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := len(what.FindAllIndex(src, -1)); n != 1 {
		return fmt.Errorf("%s has %s %d times: this version is not known", file, what, n)
	}
	return os.WriteFile(file, what.ReplaceAll(src, []byte(text)), 0o644)
}

// heapFile is the environment variable with the name of the file to which the live heap is written.
const heapFile = "PROOF_HEAP"

// added returns the source that is added to the package cluster of controller-runtime. startMeasured writes the live
// heap every five seconds and at the end, while the cache still has all its objects: some tests never stop a manager.
func added(c cache) string {
	newCache, use, unused := "cache.New", "", ""
	if c.name != theirs {
		newCache = "crcache.New(crcache.Options{" + c.options + "})"
		use = `"` + informer + `"` + "\n\t" + `"` + crcache + `"` + "\n"
		unused = "\nvar _ informer.Layout\n"
	}
	return `package cluster

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	` + use + `
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var NewCache cache.NewCacheFunc = ` + newCache + `
` + unused + `
func startMeasured(ctx context.Context, c cache.Cache) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				writeHeap()
			case <-ctx.Done():
				writeHeap()
				stop()
				return
			case <-running.Done():
				return
			}
		}
	}()
	return c.Start(running)
}

var writing sync.Mutex // a process can have several clusters

func writeHeap() {
	writing.Lock()
	defer writing.Unlock()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f, err := os.OpenFile(os.Getenv("` + heapFile + `"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, m.HeapAlloc); err != nil {
		panic(err)
	}
}
`
}
