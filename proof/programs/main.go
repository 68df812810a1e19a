package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/typedinformer/informer/proof/internal/choice"
)

func main() {
	// Without cgo, as the kube-apiserver of e2e, so that packages are shared.
	if err := os.Setenv("CGO_ENABLED", "0"); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	worse, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(2)
	}
	if worse {
		os.Exit(1)
	}
}

// run runs the command that the arguments name. worse reports whether a step fails with our informers that passes with
// client-go's.
func run(ctx context.Context, args []string) (worse bool, err error) {
	if len(args) == 0 || args[0] != "script" && args[0] != "measure" {
		return false, errors.New("the first argument must be script or measure")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	bin := flags.String("bin", "", "the `folder` with programs that an earlier run compiled; those that lack are compiled")
	keep := flags.String("keep", "", "the `folder` that gets logs and heap profiles")
	chosen := flags.String("informers", strings.Join(choice.Names(kinds), ","), "the `kinds` of informers")
	m := measuring{programs: programs}
	if args[0] == "measure" {
		flags.IntVar(&m.objects, "objects", 12_000, "the `number` of pods")
		flags.IntVar(&m.rounds, "rounds", 3, "how often each program runs")
		flags.DurationVar(&m.idle, "idle", 15*time.Second, "how long a program runs after its informers have synced")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return false, err
	}
	if m.kinds, err = choice.Of(kinds, strings.Split(*chosen, ",")); err != nil {
		return false, fmt.Errorf("-informers: %w", err)
	}
	if flags.NArg() > 0 {
		if args[0] == "script" {
			return false, errors.New("script runs no other programs than the two of Kubernetes")
		}
		if m.programs, err = choice.Of(programs, flags.Args()); err != nil {
			return false, err
		}
	}
	needed := programs[:2]
	if args[0] == "measure" {
		needed = append([]program{programs[0]}, m.programs...) // the first creates objects at the beginning
	}
	temporary, err := os.MkdirTemp("", "proof-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(temporary)
	if m.bin, m.keep = *bin, *keep; m.bin == "" {
		m.bin = temporary
	}
	if m.keep == "" {
		m.keep = temporary
	}
	if err := build(ctx, needed, m.bin); err != nil {
		return false, err
	}
	if args[0] == "measure" {
		all, err := m.run(ctx)
		if err == nil {
			fmt.Print(measured(all))
		}
		return false, err
	}
	var outcomes [][]outcome
	for _, k := range m.kinds {
		all, err := runScript(ctx, k, m.bin, m.keep)
		if err != nil {
			return false, fmt.Errorf("script with %s: %w", k, err)
		}
		outcomes = append(outcomes, all)
	}
	fmt.Print(scripted(m.kinds, outcomes))
	return worseThanTheirs(m.kinds, outcomes), nil
}

// worseThanTheirs reports whether a step fails with our informers that does not fail with client-go's.
func worseThanTheirs(with []kind, outcomes [][]outcome) bool {
	fails := map[string]bool{} // with client-go's
	if i := slices.Index(with, kinds[0]); i >= 0 {
		for _, o := range outcomes[i] {
			fails[o.step] = o.err != nil
		}
	}
	for _, all := range outcomes {
		if slices.ContainsFunc(all, func(o outcome) bool { return o.err != nil && !fails[o.step] }) {
			return true
		}
	}
	return false
}
