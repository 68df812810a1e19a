// Command controller is a complete controller: each Website, a custom resource, gets a Deployment and a Service.
//
//	go run ./examples/controller                              # needs no cluster: simulates one in the process, for 2 replicas
//	go run ./examples/controller -kubeconfig ~/.kube/config   # a real cluster; in a pod, it finds its own
//	go run ./examples/controller -crd | kubectl apply -f -    # installs the CRD on a real cluster
//
// To build on it, read website (the controller), and then run. Leave out simulate.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // login methods that a kubeconfig may need
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/examples/controller/website"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/leader"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

// run is the program. It returns when ctx ends, or after the time of -for.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("controller", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors
	duration := flags.Duration("for", 0, "end after this `time`, like 10s; zero means run until Ctrl-C")
	kubeconfig := flags.String("kubeconfig", "", "`path` of a kubeconfig: its current context's cluster")
	namespace := flags.String("lease-namespace", "default", "real cluster: `namespace` of the lease that replicas contend for")
	probes := flags.String("probes", "", "real cluster: `address`, like :8081, of /readyz and /livez; empty means none")
	workers := flags.Int("workers", 4, "`number` of websites reconciled at the same time")
	websites := flags.Int("websites", 50, "simulation: `number` of websites")
	crd := flags.Bool("crd", false, "print the custom resource definition and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(out, "controller gives each Website a Deployment and a Service. The cluster is simulated unless -kubeconfig is given or the program runs in a pod.")
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w (-h explains the flags)", err)
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *workers < 1 || *websites < 1 || *duration < 0:
		return errors.New("-workers and -websites must be positive, -for not negative")
	case *crd:
		_, err := out.Write(website.CRD)
		return err
	}
	if *duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *duration)
		defer cancel()
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if *kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return simulate(ctx, *websites, *workers, log, out)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig) // or the pod's
	if err != nil {
		return err
	}
	r, err := newReplica(config, *namespace, *workers, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "replica %s at %s\n", r.elector.Status().Identity, config.Host)
	tasks, running := errgroup.WithContext(ctx)
	tasks.Go(func() error { return r.run(running) })
	if *probes != "" {
		tasks.Go(func() error { return r.serve(running, *probes) })
	}
	tasks.Go(func() error {
		for second(running) {
			s := r.controller.Status()
			fmt.Fprintf(out, "leading: %t  reconciles: %d ok, %d failed, %d to be retried  queue: %v ready, %d delayed\n",
				s.Running, s.Succeeded, s.Failed, s.BackedOff, s.Queue.Depth, s.Queue.Delayed)
		}
		return nil
	})
	if err := tasks.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// second waits for a second, and reports whether ctx is still alive.
func second(ctx context.Context) bool {
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// replica is one process of the controller.
type replica struct {
	controller *website.Controller
	elector    *leader.Elector
}

func newReplica(config *rest.Config, namespace string, workers int, log *slog.Logger) (*replica, error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	controller, err := website.New(client, website.Config{Workers: workers, Logger: log})
	if err != nil {
		return nil, err
	}
	leases, err := informer.NewClient(config) // with a rate limit of its own
	if err != nil {
		return nil, err
	}
	elector, err := leader.New(leases, leader.Config{Namespace: namespace, Name: "website-controller", Logger: log})
	if err != nil {
		return nil, err
	}
	return &replica{controller, elector}, nil
}

// run follows the cluster, and reconciles while this replica is the leader. The informers outlive the workers.
func (r *replica) run(ctx context.Context) error {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var tasks errgroup.Group
	tasks.Go(func() error {
		defer stop()
		return r.elector.Run(ctx, r.controller.Run)
	})
	tasks.Go(func() error {
		err := r.controller.Follow(following)
		if following.Err() != nil {
			return nil
		}
		return err
	})
	return tasks.Wait()
}

// serve answers the probes until ctx ends.
func (r *replica) serve(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.Handle("/readyz", health.Ready(r.controller.Health()))
	mux.Handle("/livez", health.Live(r.controller.Health()))
	server := &http.Server{Addr: address, Handler: mux, ReadTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	return server.ListenAndServe()
}

func (r *replica) name() string {
	identity := r.elector.Status().Identity
	return identity[strings.LastIndex(identity, "-")+1:]
}
