// Command quickstart follows the pods of a cluster with an informer and shows their state: live in a terminal,
// elsewhere as one line a second.
//
//	go run ./examples/quickstart                              # needs no cluster: simulates one in the process
//	go run ./examples/quickstart -kubeconfig ~/.kube/config   # a real cluster; in a pod, it finds its own
//
// It only lists and watches. To build on it, read run and then monitor.go. Leave out simulate.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // login methods that a kubeconfig may need
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/manager"
)

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

var errTimeIsUp = errors.New("the time of -for is up")

// run is the program. It returns when ctx ends, or after the time of -for.
func run(ctx context.Context, args []string, out io.Writer) error {
	opts, err := parseOptions(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("%w (-h explains the flags)", err)
	case opts.duration > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.duration, errTimeIsUp)
		defer cancel()
	}
	screen := newScreen(out, os.Stderr)

	// Choose the cluster.
	var config *rest.Config
	var sim *simulation
	switch {
	case opts.simulate:
		sim = newSimulation(opts)
		defer sim.server.Close()
		config = sim.server.Config()
	case opts.kubeconfig != "":
		config, err = clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	default:
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return err
	}
	config.WarningHandler = rest.NewWarningWriter(screen.log, rest.WarningWriterOptions{Deduplicate: true})
	client, err := informer.NewClient(config)
	if err != nil {
		return err
	}
	m := newMonitor(client, opts.resource, sim, slog.New(slog.NewTextHandler(screen.log, nil)))
	m.source = fmt.Sprintf("%v at %s", m.pods.Resource(), config.Host)
	fmt.Fprintln(out, "following", m.source)

	// The informer outlives ctx: at the end of a simulation, it must see the last change.
	informing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var informers sync.WaitGroup
	defer informers.Wait()
	defer stop()
	tasks, taskCtx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return screen.show(taskCtx, m.frame) })
	tasks.Go(func() error {
		if sim != nil {
			if err := sim.load(taskCtx); err != nil {
				return err
			}
		}
		// Run returns when its context ends. If a flag is invalid, it returns at once, and waitSynced returns the error.
		informers.Go(func() { m.pods.Run(informing) })
		if err := m.waitSynced(taskCtx); err != nil {
			return err
		}
		if sim != nil {
			return sim.run(taskCtx)
		}
		<-taskCtx.Done()
		return nil
	})
	err = tasks.Wait()
	if ctx.Err() == context.Canceled && errors.Is(err, context.Cause(ctx)) { // no failure, but no summary either
		fmt.Fprintln(out, "interrupted before the initial sync was complete:", err)
		return nil
	}
	if err == nil && sim != nil {
		err = sim.check(informing, m.pods, out)
	}
	if err != nil {
		return err
	}
	stop()
	informers.Wait()
	fmt.Fprintln(out, m.summary())
	return nil
}

// options are the flags.
type options struct {
	duration               time.Duration
	simulate               bool
	pods, namespaces, rate int
	kubeconfig             string
	resource               informer.Resource // the pods, with namespaces and label selector
}

const usage = `quickstart follows the pods of a cluster and shows their state. It only lists and watches.
The cluster is simulated unless -kubeconfig is given or the program runs in a pod. Ctrl-C ends it.

`

func parseOptions(args []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors
	flags.DurationVar(&o.duration, "for", 0, "end after this `time`, like 10s; zero means run until Ctrl-C")
	flags.BoolVar(&o.simulate, "simulate", false, "simulate a cluster even in a pod")
	flags.IntVar(&o.pods, "pods", 20_000, "simulation: `number` of pods")
	flags.IntVar(&o.namespaces, "namespaces", 50, "simulation: `number` of namespaces")
	flags.IntVar(&o.rate, "rate", 500, "simulation: `changes` per second")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`path` of a kubeconfig: follow its current context's cluster")
	namespaces := flags.String("namespace", "", "real cluster: only these `namespaces`, separated by commas")
	flags.StringVar(&o.resource.LabelSelector, "selector", "", "real cluster: only pods with these `labels`, like app=web")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, err
	}
	if *namespaces != "" {
		o.resource.Namespaces = strings.Split(*namespaces, ",")
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.simulate && o.kubeconfig != "":
		return o, errors.New("-simulate and -kubeconfig exclude each other")
	case min(o.pods, o.namespaces) < 1 || max(o.pods, o.namespaces) > maxPods:
		return o, fmt.Errorf("-pods and -namespaces must be between 1 and %d", maxPods)
	case o.rate < 0 || o.duration < 0:
		return o, errors.New("-rate and -for must not be negative")
	}
	o.simulate = o.kubeconfig == "" && (o.simulate || os.Getenv("KUBERNETES_SERVICE_HOST") == "")
	if o.simulate && (*namespaces != "" || o.resource.LabelSelector != "") {
		return o, errors.New("-namespace and -selector need a real cluster")
	}
	return o, nil
}
