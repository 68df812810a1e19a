package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/typedinformer/informer/proof/internal/choice"
	"github.com/typedinformer/informer/proof/internal/copied"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	worse, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "operators:", err)
		os.Exit(2)
	}
	if len(worse) > 0 {
		fmt.Fprintf(os.Stderr, "\n%s\n", strings.Join(worse, "\n"))
		os.Exit(1)
	}
}

// run runs the suites that the arguments name. worse lists what is worse with our caches.
func run(ctx context.Context, args []string) (worse []string, err error) {
	flags := flag.NewFlagSet("operators", flag.ContinueOnError)
	chosen := flags.String("caches", strings.Join(choice.Names(caches), ","), "the `caches` to run the suites with")
	only := flags.String("run", "", "run only Go tests that match this `regexp`")
	logs := flags.String("logs", "", "the `folder` that gets the output of each package")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	with, err := choice.Of(caches, strings.Split(*chosen, ","))
	if err != nil {
		return nil, fmt.Errorf("-caches: %w", err)
	}
	wanted := flags.Args()
	if len(wanted) == 0 {
		return nil, fmt.Errorf("name a program: %s", strings.Join(choice.Names(programs), ", "))
	}
	chosenPrograms, err := choice.Of(programs, wanted)
	if err != nil {
		return nil, err
	}
	project, err := copied.Root(ctx)
	if err != nil {
		return nil, err
	}
	assets, err := servers(ctx)
	if err != nil {
		return nil, err
	}
	var all []result
	for _, p := range chosenPrograms {
		for _, c := range with {
			r, err := p.test(ctx, setup{project: project, assets: assets, cache: c, only: *only, logs: *logs})
			if err != nil {
				return nil, fmt.Errorf("%s with %s: %w", p.name, c.name, err)
			}
			fmt.Fprintln(os.Stderr, r.line())
			all = append(all, r)
		}
	}
	fmt.Print(table(all))
	return worseThanTheirs(all), nil
}
