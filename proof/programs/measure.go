package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/typedinformer/informer/e2e/cluster"
)

// settle is the time between a garbage collection and the measurement of memory. The runtime returns memory to the
// system in the background.
const settle = 30 * time.Second

// usage is what a program has used with one kind of informers.
type usage struct {
	synced    time.Duration // from the start until all informers had synced
	processor time.Duration // used by then
	later     time.Duration // used from then to the end of the idle period
	resident  int64         // after the idle period and a garbage collection
	peak      int64         // of the resident memory, before that garbage collection
	heap      int64         // live, in bytes
}

// least returns the lesser value of each field.
func (u usage) least(v usage) usage {
	return usage{
		synced:    min(u.synced, v.synced),
		processor: min(u.processor, v.processor),
		later:     min(u.later, v.later),
		resident:  min(u.resident, v.resident),
		peak:      min(u.peak, v.peak),
		heap:      min(u.heap, v.heap),
	}
}

// result is what a program has used with one kind of informers, the least of all rounds.
type result struct {
	program, kind string
	empty, full   usage // with an empty cluster, and with objects
}

// measuring says what to measure.
type measuring struct {
	bin      string // the folder of the programs
	programs []program
	kinds    []kind
	objects  int
	rounds   int
	idle     time.Duration
	keep     string // the folder that gets logs and heap profiles
}

// run measures with an empty cluster, then with objects. In each round, the kinds of informers take turns.
func (m measuring) run(ctx context.Context) (all []result, err error) {
	c, err := cluster.Start(ctx, cluster.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	for _, p := range m.programs {
		for _, k := range m.kinds {
			all = append(all, result{program: p.name, kind: k.name})
		}
	}
	empty, err := m.measure(ctx, c)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "loading %d pods\n", m.objects)
	if err := load(ctx, c.Config(), m.objects); err != nil {
		return nil, err
	}
	full, err := m.measure(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].empty, all[i].full = empty[i], full[i]
	}
	n, err := countPods(ctx, c.Config())
	if err == nil && n != m.objects {
		err = fmt.Errorf("%d of %d pods are left: a program has deleted or created some", n, m.objects)
	}
	return all, err
}

// measure returns the usage of each program with each kind.
func (m measuring) measure(ctx context.Context, c *cluster.Cluster) (least []usage, err error) {
	// At first, kube-controller-manager creates objects, such as a service account in each namespace.
	if _, err := m.once(ctx, c, programs[0], kinds[0]); err != nil {
		return nil, err
	}
	for round := range m.rounds {
		i := 0
		for _, p := range m.programs {
			for _, k := range m.kinds {
				u, err := m.once(ctx, c, p, k)
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(os.Stderr, "round %d: %s with %s: %s\n", round+1, p, k, u)
				if round == 0 {
					least = append(least, u)
				}
				least[i] = least[i].least(u)
				i++
			}
		}
	}
	return least, nil
}

// once runs a program until it has synced and was idle.
func (m measuring) once(ctx context.Context, c *cluster.Cluster, p program, k kind) (u usage, err error) {
	run, err := start(p, k, m.bin, m.keep, c.Config())
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, run.stop()) }()
	if u.synced, u.processor, err = run.synced(ctx); err != nil {
		return u, err
	}
	if err := pause(ctx, m.idle); err != nil {
		return u, err
	}
	if u.later, err = processorOf(run.cmd.Process.Pid); err != nil {
		return u, err
	}
	u.later -= u.processor
	before, err := memoryOf(run.cmd.Process.Pid)
	if err != nil {
		return u, err
	}
	u.peak = before.peak
	if u.heap, err = run.collect(ctx); err != nil {
		return u, err
	}
	if err := pause(ctx, settle); err != nil {
		return u, err
	}
	after, err := memoryOf(run.cmd.Process.Pid)
	if err != nil {
		return u, err
	}
	u.resident = after.resident
	return u, run.profile(ctx, filepath.Join(m.keep, run.name+".pprof"))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
