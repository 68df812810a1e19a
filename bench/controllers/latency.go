package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// delays has the measurements of a process that reconciles changes which come at a rate. A change is reconciled when a
// call of Reconcile reads its version of the pod, or a later one.
type delays struct {
	P50, P99, Max float64 // s from the server's write to the first call that reads the change
	Rate          float64 // changes/s, from the first write to the last one
	Calls         float64 // of Reconcile for each change
	CPU           float64 // s for each change
	Server        float64 // s of the server's processor time for each change
}

// compareDelays starts a server whose answers are encoded beforehand, then runs the controllers alternately.
func compareDelays(names []string, pods, runs, changes, rate int) error {
	url, stop, err := measure.Serve("-as=canned", fmt.Sprint("-pods=", pods), fmt.Sprint("-changes=", changes))
	if err != nil {
		return err
	}
	defer stop()
	results := map[string][]delays{}
	for range runs {
		for _, name := range names {
			var d delays
			if err := measure.Run(&d, 0, nil, "-as="+name, "-server="+url, fmt.Sprint("-pods=", pods),
				fmt.Sprint("-changes=", changes), fmt.Sprint("-rate=", rate)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			results[name] = append(results[name], d)
		}
	}
	fmt.Printf("%d pods, %d changes, %d workers, medians of %d runs, %s, %d cores, which the server "+
		"shares, %s\n\n", pods, changes,
		workers, runs, runtime.Version(), runtime.NumCPU(), canned.HTTP2)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tchanges/s\tfrom write to reconcile: p50\tp99\tmost\tcalls for a change\tCPU for a change\tof "+
		"the server\t")
	for _, name := range names {
		median := func(value func(delays) float64) float64 {
			var values []float64
			for _, d := range results[name] {
				values = append(values, value(d))
			}
			return measure.Median(values)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%s\t%.2f\t%s\t%s\t\n", name,
			median(func(d delays) float64 { return d.Rate }),
			measure.Seconds(median(func(d delays) float64 { return d.P50 })),
			measure.Seconds(median(func(d delays) float64 { return d.P99 })),
			measure.Seconds(median(func(d delays) float64 { return d.Max })),
			median(func(d delays) float64 { return d.Calls }),
			measure.Seconds(median(func(d delays) float64 { return d.CPU })),
			measure.Seconds(median(func(d delays) float64 { return d.Server })))
	}
	return w.Flush()
}

// reads are the calls of Reconcile for one pod: the versions that they read, and when.
type reads []struct {
	version uint64
	time    int64
}

// workAtRate prints the delays of a controller.
func workAtRate(name, server string, pods, changes, rate int) error {
	d, err := reconcileAtRate(name, server, pods, changes, rate)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(d)
}

// reconcileAtRate runs a controller in this process, and has the server send changes at a rate.
func reconcileAtRate(name, server string, pods, changes, rate int) (d delays, err error) {
	start := peers[name]
	if start == nil {
		return d, fmt.Errorf("no controller is named %q", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	control := canned.Control{Server: server}
	info, err := control.Reset()
	if err != nil {
		return d, err
	}
	client, err := control.Client(info, canned.HTTP2, canned.Protobuf)
	if err != nil {
		return d, err
	}
	released, err := control.Released(0, changes)
	if err != nil {
		return d, err
	}
	versions := make([]uint64, changes)
	last := map[informer.Key]uint64{} // the last change of each pod that is still to be reconciled
	for i, text := range released.Versions {
		if versions[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return d, err
		}
		last[informer.Key(released.Keys[i])] = versions[i]
	}
	var (
		mu     sync.Mutex
		first  = map[informer.Key]bool{} // pods that were reconciled before the changes
		all    = make(chan struct{})     // closed when that is all of them
		calls  = map[informer.Key]reads{}
		n      int
		synced bool
		done   = make(chan struct{}) // closed when the last change of each pod was reconciled
	)
	_, err = start(ctx, client, func(pod *corev1.Pod) {
		now, key := measure.Now(), informer.KeyOf(pod)
		version, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
		if err != nil {
			panic(err) // the server sends numbers
		}
		mu.Lock()
		defer mu.Unlock()
		if !synced {
			if first[key] = true; len(first) == pods {
				synced = true
				close(all)
			}
			return
		}
		n++
		calls[key] = append(calls[key], struct {
			version uint64
			time    int64
		}{version, now})
		if until, ok := last[key]; ok && version >= until {
			if delete(last, key); len(last) == 0 {
				close(done)
			}
		}
	})
	if err != nil {
		return d, err
	}
	wait := func(reached <-chan struct{}) error {
		select {
		case <-reached:
			return nil
		case <-ctx.Done():
			mu.Lock()
			defer mu.Unlock()
			return fmt.Errorf("%d pods were reconciled, and the changes of %d are missing: %w", len(first), len(last), ctx.Err())
		}
	}
	if err := wait(all); err != nil {
		return d, err
	}
	runtime.GC()
	cpu := measure.CPU()
	serverCPU, err := control.CPU()
	if err != nil {
		return d, err
	}
	if _, err := control.Release(changes, rate); err != nil {
		return d, err
	}
	if err := wait(done); err != nil {
		return d, err
	}
	cpu = measure.CPU() - cpu
	serverAfter, err := control.CPU()
	if err != nil {
		return d, err
	}
	if released, err = control.Released(0, changes); err != nil {
		return d, err
	}
	mu.Lock()
	defer mu.Unlock()
	d = delays{Calls: float64(n) / float64(changes), CPU: cpu.Seconds() / float64(changes),
		Server: (serverAfter - serverCPU).Seconds() / float64(changes),
		Rate:   float64(changes-1) / time.Duration(released.Sent[changes-1]-released.Sent[0]).Seconds()}
	times := make([]float64, changes)
	for i, version := range versions {
		seen := calls[informer.Key(released.Keys[i])]
		first := slices.IndexFunc(seen, func(r struct {
			version uint64
			time    int64
		}) bool {
			return r.version >= version
		})
		if first < 0 || seen[first].time < released.Sent[i] {
			return d, fmt.Errorf("change %d of %s was reconciled before it was sent, or never", i, released.Keys[i])
		}
		times[i] = time.Duration(seen[first].time - released.Sent[i]).Seconds()
	}
	slices.SortFunc(times, cmp.Compare[float64])
	quantile := func(q float64) float64 { return times[int(math.Ceil(q*float64(changes)))-1] }
	d.P50, d.P99, d.Max = quantile(0.5), quantile(0.99), quantile(1)
	return d, nil
}
