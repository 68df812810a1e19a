package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer/e2e/cluster"
)

// stepTimeout bounds a step.
const stepTimeout = time.Minute

// step is one step of the script.
type step struct {
	name  string
	do    func(context.Context) error
	until func(context.Context) error // nil once the observed state is right; called again and again
}

// runScript runs kube-controller-manager and kube-scheduler with informers of kind k, and the steps of the script.
func runScript(ctx context.Context, k kind, bin, keep string) (outcomes []outcome, err error) {
	c, err := cluster.Start(ctx, cluster.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	client, err := clientset.NewForConfig(c.Config())
	if err != nil {
		return nil, err
	}
	s := &script{client: client, cluster: c}
	for i := range 4 {
		if err := createNode(ctx, client, fmt.Sprintf("node-%d", i)); err != nil {
			return nil, err
		}
	}
	for _, p := range programs[:2] {
		run, err := start(p, k, bin, keep, c.Config())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, run.stop()) }()
		if _, _, err := run.synced(ctx); err != nil {
			return nil, err
		}
	}
	var group errgroup.Group
	defer func() { _ = group.Wait() }() // no function returns an error
	working, stop := context.WithCancel(ctx)
	defer stop()
	group.Go(func() error {
		(&kubelet{client: client}).run(working)
		return nil
	})
	for _, step := range s.steps() {
		began := time.Now()
		err := step.run(ctx)
		outcomes = append(outcomes, outcome{step.name, time.Since(began), err})
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", k, step.name, err)
	}
	return outcomes, context.Cause(ctx)
}

// run does the step, and waits until the observed state is right.
func (s step) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := s.do(ctx); err != nil {
		return err
	}
	for {
		last := s.until(ctx)
		if last == nil {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return errors.Join(err, last)
		}
	}
}
