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
	"strings"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // login methods that a kubeconfig may need
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/examples/controller/website"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
)

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
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
	namespace := flags.String("lease-namespace", "default",
		"real cluster: `namespace` of the lease that replicas contend for")
	probes := flags.String("probes", "",
		"real cluster: `address`, like :8081, of /readyz, /livez and /debug/informers/; empty means none")
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
	r, err := newReplica(config, *namespace, *probes, *workers, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "replica %s at %s\n", r.elector.Status().Identity, config.Host)
	return r.Run(ctx)
}

// replica is one process of the controller.
type replica struct {
	*manager.Manager
	controller *website.Controller
	elector    *leader.Elector
}

func newReplica(config *rest.Config, namespace, probes string, workers int, log *slog.Logger) (*replica, error) {
	var clients [3]*informer.Client // each with a rate limit of its own
	for i := range clients {
		var err error
		if clients[i], err = informer.NewClient(config); err != nil {
			return nil, err
		}
	}
	// The replica survives an outage of the API server. Until it leads again, the gate is closed: the controller
	// reconciles nothing, and its client writes nothing but events.
	gate := new(informer.Gate)
	controller, err := website.New(clients[0].WithGate(gate), clients[1], website.Config{Workers: workers, Logger: log})
	if err != nil {
		return nil, err
	}
	elector, err := leader.New(clients[2], leader.Config{
		Namespace: namespace,
		Name:      "website-controller",
		Recover:   gate,
		Logger:    log,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/informers/", debugpage.New(controller.DebugPage()))
	m := manager.New(manager.Config{Probes: manager.Server{Addr: probes, Handler: mux}, Elector: elector, Logger: log})
	return &replica{m, controller, elector}, controller.AddTo(m)
}

func (r *replica) name() string {
	identity := r.elector.Status().Identity
	return identity[strings.LastIndex(identity, "-")+1:]
}
