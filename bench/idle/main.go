// Idle measures what an informer takes while its collection is empty and nothing changes.
//
//	go run ./idle -informers 100,400
//
// Each client process follows the pods of as many namespaces, by this library or by client-go's dynamic factory, from a
// kube-apiserver, over HTTP/2 with TLS. The figures are the growth from a process with one informer to one
// with as many, for each informer: of the live heap, of the memory of stacks, and of goroutines.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/informertest"
)

func main() {
	log.SetFlags(log.Ltime)
	counts := flag.String("informers", "100,400", "numbers of informers")
	runs := flag.Int("runs", 3, "number of runs of each process")
	stacks := flag.Bool("stacks", false, "print where the goroutines of our process are")
	profile := flag.String("profile", "", "write a heap profile of our process to this file, with each allocation")
	as := flag.String("as", "", "server, or a peer; used by the program itself")
	kubeconfig := flag.String("kubeconfig", "", "used by the program itself")
	dir := flag.String("dir", "", "the folder of the server; used by the program itself")
	flag.Parse()
	var err error
	switch {
	case *as == "server":
		err = serve(*dir)
	case *as != "":
		var n int
		if n, err = strconv.Atoi(*counts); err == nil {
			err = work(*as, *kubeconfig, n, *stacks, *profile)
		}
	default:
		err = compare(*counts, *runs, *stacks, *profile)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve serves empty collections by a kube-apiserver with its files in dir until the process ends, and prints the path of
// a kubeconfig.
func serve(dir string) error {
	on, err := cluster.Start(context.Background(), cluster.Config{Dir: dir})
	if err != nil {
		return err
	}
	kubeconfig, err := informertest.Kubeconfig(on.Config())
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return err
	}
	fmt.Println(file)
	select {}
}

// figures are those of a process.
type figures struct {
	Sync             float64 // seconds
	Heap, Stacks     float64 // bytes
	Goroutines, Peak float64
}

// peer starts n informers, and returns when they have synced.
type peer func(ctx context.Context, config *rest.Config, n int) error

var peers = map[string]peer{
	"client-go, dynamic": func(ctx context.Context, config *rest.Config, n int) error {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		return factories(ctx, n, func(namespace string) cache.SharedIndexInformer {
			return dynamicinformer.NewFilteredDynamicInformer(client, pods, namespace, 0, cache.Indexers{}, nil).Informer()
		})
	},
	"client-go, metadata": func(ctx context.Context, config *rest.Config, n int) error {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return err
		}
		return factories(ctx, n, func(namespace string) cache.SharedIndexInformer {
			return metadatainformer.NewFilteredMetadataInformer(client, pods, namespace, 0, cache.Indexers{}, nil).Informer()
		})
	},
	"informer, metadata": func(ctx context.Context, config *rest.Config, n int) error {
		client, err := informer.NewClient(config)
		if err != nil {
			return err
		}
		logger := slog.New(slog.NewTextHandler(io.Discard, nil))
		var all []*informer.Informer[*metav1.PartialObjectMetadata]
		for i := range n {
			resource := informer.Resource{GroupVersionResource: pods, Namespaces: []string{namespace(i)}}
			inf := informer.New(client, resource, informer.Config[*metav1.PartialObjectMetadata]{Logger: logger})
			inf.Subscribe(informer.HandlerFuncs[*metav1.PartialObjectMetadata]{})
			go func() { _ = inf.Run(ctx) }()
			all = append(all, inf)
		}
		for _, inf := range all {
			if err := inf.WaitSynced(ctx); err != nil {
				return err
			}
		}
		return nil
	},
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

func namespace(i int) string { return fmt.Sprint("ns-", i) }

// factories starts an informer of client-go with a handler for each namespace.
func factories(ctx context.Context, n int, create func(namespace string) cache.SharedIndexInformer) error {
	var synced []cache.InformerSynced
	for i := range n {
		inf := create(namespace(i))
		if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
			return err
		}
		go inf.RunWithContext(ctx)
		synced = append(synced, inf.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	return nil
}

// work runs a peer with n informers, and prints its figures.
func work(name, kubeconfig string, n int, stacks bool, profile string) error {
	if profile != "" {
		runtime.MemProfileRate = 1
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	began := time.Now()
	if err := peers[name](ctx, config, n); err != nil {
		return err
	}
	f := figures{Sync: time.Since(began).Seconds()}
	time.Sleep(3 * time.Second) // for what ends after the start
	f.Heap = float64(measure.LiveHeap())
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	f.Stacks, f.Goroutines, f.Peak = float64(memory.StackInuse), float64(runtime.NumGoroutine()), float64(measure.PeakMemory())
	if stacks {
		if err := pprof.Lookup("goroutine").WriteTo(os.Stderr, 1); err != nil {
			return err
		}
	}
	if profile != "" {
		file, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.Lookup("heap").WriteTo(file, 0); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func compare(counts string, runs int, stacks bool, profile string) error {
	dir, err := os.MkdirTemp("", "idle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // after the server has ended
	kubeconfig, stop, err := measure.Serve("-as=server", "-dir="+dir)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("| informers | | sync | heap each | stacks each | goroutines each | peak of the process |")
	fmt.Println("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
	for count := range strings.SplitSeq(counts, ",") {
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		all := map[string][]figures{}
		names := []string{"client-go, dynamic", "client-go, metadata", "informer, metadata"}
		for range runs {
			for _, name := range names {
				var single, many figures
				run := func(f *figures, n int) error {
					args := []string{"-as=" + name, "-kubeconfig=" + kubeconfig, fmt.Sprint("-informers=", n)}
					if n > 1 && name == "informer, metadata" {
						args = append(args, fmt.Sprint("-stacks=", stacks), "-profile="+profile)
					}
					return measure.Run(f, 0, nil, args...)
				}
				if err := run(&single, 1); err != nil {
					return err
				}
				if err := run(&many, n); err != nil {
					return err
				}
				share := func(few, most float64) float64 { return (most - few) / float64(n-1) }
				many.Heap, many.Stacks = share(single.Heap, many.Heap), share(single.Stacks, many.Stacks)
				many.Goroutines = share(single.Goroutines, many.Goroutines)
				all[name] = append(all[name], many)
			}
		}
		for _, name := range names {
			median := func(figure func(figures) float64) float64 {
				var values []float64
				for _, f := range all[name] {
					values = append(values, figure(f))
				}
				return measure.Median(values)
			}
			fmt.Printf("| %d | %s | %s | %s | %s | %.1f | %s |\n", n, name,
				measure.Seconds(median(func(f figures) float64 { return f.Sync })),
				measure.Bytes(median(func(f figures) float64 { return f.Heap })),
				measure.Bytes(median(func(f figures) float64 { return f.Stacks })),
				median(func(f figures) float64 { return f.Goroutines }),
				measure.Bytes(median(func(f figures) float64 { return f.Peak })))
		}
	}
	return nil
}
