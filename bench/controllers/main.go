// Controllers measures the same controller on controller-runtime, on client-go and on informer. Each runs in its own
// process, against an API server in another one, with realistic pods.
//
//	go run ./controllers -pods 10000 -runs 6
//	go run ./controllers -pods 30000 -runs 3 -changes 100000 -rate 10000
//
// The controller follows the pods. For each key, it reads the pod from its cache and looks at its containers. It writes
// nothing, so only the way from change to reconcile counts. The program measures the time until each pod was reconciled
// once, the reconciles per second when all keys are added repeatedly, the total processor time, the live heap
// afterwards, and the peak of resident memory.
//
// With -rate, the server instead sends changes of random pods at that rate, and the program measures the time from the
// server's write to the call of Reconcile that reads the change.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// peers are the compared controllers.
var peers = map[string]func(ctx context.Context, config *rest.Config,
	reconciled func(*corev1.Pod)) (add func(informer.Key), err error){
	"informer":           startInformer,
	"client-go":          startClientGo,
	"controller-runtime": startControllerRuntime,
}

const (
	workers = 4
	rounds  = 20 // number of times that all keys are added again
)

// result has the measurements of one process.
type result struct {
	Synced           float64 // s
	Reconciles       float64 // a second
	CPU              float64 // s
	Heap, PeakMemory float64 // MB
}

func main() {
	pods := flag.Int("pods", 10000, "number of pods")
	runs := flag.Int("runs", 6, "number of runs of each controller")
	rate := flag.Int("rate", 0, "measure the time from write to reconcile at this number of changes a second")
	changes := flag.Int("changes", 50_000, "number of changes for -rate")
	names := flag.String("peers", "controller-runtime,client-go,informer", "the controllers")
	server := flag.String("server", "", "the API server; used by the program itself")
	as := flag.String("as", "", "the role of this process; used by the program itself")
	flag.Parse()
	var err error
	switch wanted := strings.Split(*names, ","); {
	case *as == "" && *rate > 0:
		err = compareDelays(wanted, *pods, *runs, *changes, *rate)
	case *as == "":
		err = compare(wanted, *pods, *runs)
	case *as == "server":
		err = serve(*pods)
	case *as == "canned":
		err = canned.Serve(canned.Config{Pods: *pods, Changes: *changes, Formats: []string{canned.Protobuf}})
	case *rate > 0:
		err = workAtRate(*as, *server, *pods, *changes, *rate)
	default:
		err = work(*as, *server, *pods)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// compare starts a server, then runs the controllers alternately, and prints the medians.
func compare(names []string, pods, runs int) error {
	url, stop, err := measure.Serve("-as=server", fmt.Sprint("-pods=", pods))
	if err != nil {
		return err
	}
	defer stop()
	results := map[string][]result{}
	for range runs {
		for _, name := range names {
			var r result
			if err := measure.Run(&r, 0, nil, "-as="+name, "-server="+url, fmt.Sprint("-pods=", pods)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			results[name] = append(results[name], r)
		}
	}
	fmt.Printf("%d pods, %d workers, medians of %d runs, %s, %d cores\n\n", pods, workers, runs, runtime.Version(),
		runtime.NumCPU())
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tall reconciled once s\treconciles/s\tCPU s\tlive heap MB\tpeak memory MB\t")
	for _, name := range names {
		median := func(value func(result) float64) float64 {
			var values []float64
			for _, r := range results[name] {
				values = append(values, value(r))
			}
			return measure.Median(values)
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.0f\t%.2f\t%.1f\t%.1f\t\n", name,
			median(func(r result) float64 { return r.Synced }),
			median(func(r result) float64 { return r.Reconciles }),
			median(func(r result) float64 { return r.CPU }),
			median(func(r result) float64 { return r.Heap }),
			median(func(r result) float64 { return r.PeakMemory }))
	}
	return w.Flush()
}

// serve serves the pods until the process is killed.
func serve(pods int) error {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	collection := informertest.Register[*corev1.Pod](server,
		informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
	for pod := range fleet.New(fleet.Config{Pods: pods}).All() {
		if _, err := collection.Create(pod); err != nil {
			return err
		}
	}
	fmt.Println(server.Config().Host)
	select {}
}

// work runs a controller in this process, and prints its result.
func work(name, server string, pods int) error {
	start := peers[name]
	if start == nil {
		return fmt.Errorf("no controller is named %q", name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	keys := make(map[informer.Key]bool, pods)
	all := make(chan struct{})
	var calls atomic.Int64
	var containers atomic.Int64 // makes use of the reads
	began := time.Now()
	add, err := start(ctx, &rest.Config{Host: server, QPS: -1}, func(pod *corev1.Pod) {
		containers.Add(int64(len(pod.Spec.Containers)))
		calls.Add(1)
		select {
		case <-all:
			return
		default:
		}
		mu.Lock()
		defer mu.Unlock()
		if keys[informer.KeyOf(pod)] = true; len(keys) == pods {
			close(all)
		}
	})
	if err != nil {
		return err
	}
	<-all
	var r result
	r.Synced = time.Since(began).Seconds()
	again := make([]informer.Key, 0, pods)
	mu.Lock()
	for key := range keys {
		again = append(again, key)
	}
	mu.Unlock()
	for calls.Load() < int64(pods) {
		time.Sleep(time.Millisecond)
	}
	calls.Store(0)
	began = time.Now()
	for round := range rounds {
		for _, key := range again {
			add(key)
		}
		for calls.Load() < int64((round+1)*pods) { // each key once a round, so that none is deduplicated
			time.Sleep(100 * time.Microsecond)
		}
	}
	r.Reconciles = float64(rounds*pods) / time.Since(began).Seconds()
	r.CPU = measure.CPU().Seconds()
	clear(keys)
	again = nil
	r.Heap = float64(measure.LiveHeap()) / 1e6
	r.PeakMemory = float64(measure.PeakMemory()) / 1e6
	return json.NewEncoder(os.Stdout).Encode(r)
}
