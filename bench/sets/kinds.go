package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// kindsFigures are those of a process that follows kinds.
type kindsFigures struct {
	Kinds               int     // that it follows before others are defined
	Sync, CPU           float64 // seconds
	Each                usage   // of a kind
	Peak                float64
	First               float64 // requests to discovery before others are defined
	Late                []float64
	Discovery, Log, New float64 // requests to discovery, lines of log and processor time while kinds are defined
}

// kindsFollower follows the metadata of all kinds, also of later ones, by one of the libraries, and calls add for each
// object that comes. count returns the number of its kinds, and of those that have synced.
type kindsFollower func(ctx context.Context, config *rest.Config, logger *slog.Logger,
	add func(metav1.Object)) (count func() (all, synced int), err error)

var kindsFollowers = map[string]kindsFollower{
	"client-go, metadata": followByMonitors,
	"client-go, dynamic":  followByDefinitions,
	"controller-runtime":  followByCache,
	"kinds":               followBySet,
}

// discoveryCounter counts the requests to discovery.
type discoveryCounter struct {
	next http.RoundTripper
	n    *atomic.Int64
}

func (c discoveryCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if path[0] == "api" && len(path) <= 2 || path[0] == "apis" && len(path) <= 3 {
		c.n.Add(1)
	}
	return c.next.RoundTrip(r)
}

// followKinds does a job.
func followKinds(j job) (f kindsFigures, err error) {
	dir, control, _ := strings.Cut(j.Server, "@")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return f, err
	}
	config.QPS = -1
	var discovery atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return discoveryCounter{next, &discovery} })
	var lines lineCounter
	logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelInfo}))
	klog.SetSlogLogger(logger)
	ctrllog.SetLogger(klog.Background())

	var seen arrivals
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	before, cpu, began := usageNow(), measure.CPU(), time.Now()
	count, err := kindsFollowers[j.Program](ctx, config, logger, seen.add)
	if err != nil {
		return f, err
	}
	if err := until(ctx, func() bool {
		all, synced := count()
		f.Kinds = all
		return all >= j.Options.Kinds && synced == all
	}); err != nil {
		all, synced := count()
		return f, fmt.Errorf("%d of %d kinds, of which %d were to come: %w", synced, all, j.Options.Kinds, err)
	}
	f.Sync, f.CPU = time.Since(began).Seconds(), (measure.CPU() - cpu).Seconds()
	f.Peak = float64(measure.PeakMemory())
	time.Sleep(3 * time.Second) // for what ends after the start
	f.First = float64(discovery.Load())
	f.Each = usageNow().perEach(before, f.Kinds)
	if j.Options.Definitions == 0 {
		return f, nil
	}
	asked, logged, cpu := discovery.Load(), lines.n.Load(), measure.CPU()
	form := url.Values{"n": {strconv.Itoa(j.Options.Definitions)}, "over": {j.Options.Over.String()}}
	if err := command(ctx, control+"/define?"+form.Encode()); err != nil {
		return f, err
	}
	if err := until(ctx, func() bool { return seen.len() == j.Options.Definitions }); err != nil {
		return f, fmt.Errorf("%d of %d new kinds: %w", seen.len(), j.Options.Definitions, err)
	}
	f.Late = seen.all()
	f.Discovery, f.Log, f.New = float64(discovery.Load()-asked), float64(lines.n.Load()-logged), (measure.CPU() - cpu).Seconds()
	cancel()
	return f, nil
}

// until waits until done returns true.
func until(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// arrivals are the seconds from the definition of a kind to the arrival of its object, by the names of the kinds.
type arrivals struct {
	mu    sync.Mutex
	times map[string]float64
}

func (a *arrivals) add(obj metav1.Object) {
	defined, err := strconv.ParseInt(obj.GetAnnotations()[definedAt], 10, 64)
	if err != nil {
		return // an object of another kind
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.times == nil {
		a.times = map[string]float64{}
	}
	uid := string(obj.GetUID())
	if _, ok := a.times[uid]; !ok {
		a.times[uid] = time.Duration(measure.Now() - defined).Seconds()
	}
}

func (a *arrivals) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

func (a *arrivals) all() []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.times))
}

// compareKinds compares the programs.
func compareKinds(o options) error {
	dir, err := os.MkdirTemp("", "sets")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // after the server has ended
	control, stop, err := measure.Serve("-as=kinds-server", "-job="+dir, "-kinds="+strconv.Itoa(o.Kinds))
	if err != nil {
		return err
	}
	defer stop()
	programs := []string{"client-go, metadata", "client-go, dynamic", "controller-runtime", "kinds"}
	all := map[string][]kindsFigures{}
	turns := o.Runs
	o.Runs = 1
	for range turns {
		for _, program := range programs {
			runs, err := byTurns[kindsFigures]("kinds", []string{program}, dir+"@"+control, o)
			if err != nil {
				return err
			}
			all[program] = append(all[program], runs[program]...)
			if err := command(context.Background(), control+"/undefine"); err != nil {
				return err
			}
		}
	}
	printKinds(o, programs, all)
	return nil
}

func printKinds(o options, programs []string, all map[string][]kindsFigures) {
	fmt.Printf("\nThe metadata of all kinds, of which %d have no object. Medians of the runs; heap, stacks and goroutines are the growth for each kind. "+
		"The definitions are objects too: client-go, dynamic, holds each twice and whole, controller-runtime once.\n\n", o.Kinds)
	fmt.Println("| | kinds | sync | CPU | heap | stacks | goroutines | sockets | peak | requests to discovery |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, program := range programs {
		runs := all[program]
		fmt.Printf("| %s | %d | %s | %s | %s | %s | %.1f | %.0f | %s | %.0f |\n", program, runs[0].Kinds,
			measure.Seconds(median(runs, func(f kindsFigures) float64 { return f.Sync })),
			measure.Seconds(median(runs, func(f kindsFigures) float64 { return f.CPU })),
			measure.Bytes(median(runs, func(f kindsFigures) float64 { return f.Each.Heap })),
			measure.Bytes(median(runs, func(f kindsFigures) float64 { return f.Each.Stacks })),
			median(runs, func(f kindsFigures) float64 { return f.Each.Goroutines }),
			median(runs, func(f kindsFigures) float64 { return f.Each.Sockets }),
			measure.Bytes(median(runs, func(f kindsFigures) float64 { return f.Peak })),
			median(runs, func(f kindsFigures) float64 { return f.First }))
	}
	if o.Definitions == 0 {
		return
	}
	fmt.Printf("\n%d definitions in %v, each with an object: the time until the object arrives, and what the program did meanwhile.\n\n", o.Definitions, o.Over)
	fmt.Println("| | median | 99% | worst | requests to discovery | lines of log | CPU |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, program := range programs {
		runs := all[program]
		quantile := func(q float64) string {
			return measure.Seconds(median(runs, func(f kindsFigures) float64 {
				sorted := slices.Sorted(slices.Values(f.Late))
				return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
			}))
		}
		fmt.Printf("| %s | %s | %s | %s | %.0f | %.0f | %s |\n", program, quantile(0.5), quantile(0.99), quantile(1),
			median(runs, func(f kindsFigures) float64 { return f.Discovery }),
			median(runs, func(f kindsFigures) float64 { return f.Log }),
			measure.Seconds(median(runs, func(f kindsFigures) float64 { return f.New })))
	}
}
