// Command fanout follows collections of an API server, with one watch each, and serves them to any number of clients. To
// them it is a read-only API server that supports get, list and watch.
//
//	go run ./examples/fanout                                                         # needs no cluster: simulates one in the process
//	go run ./examples/fanout -kubeconfig ~/.kube/config -resources v1/pods,v1/nodes   # a real cluster; in a pod, it finds its own
//
// Clients see what fanout's own credentials may read, so these should allow get, list and watch of the followed resources,
// and nothing more. fanout never passes them on. It listens on loopback, where every program of the machine can reach it.
// It listens elsewhere only with TLS, and only if clients must present a token or a certificate.
//
// To build on it, read run, then proxy.go. Leave out simulate.go.
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
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // login methods that a kubeconfig may need
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer/manager"
)

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "fanout:", err)
		os.Exit(1)
	}
}

// Limits of the server, besides those of package manager. It disconnects a client that exceeds them.
const (
	listTimeout     = time.Minute // to write a list; a watch has no limit, but watchcache drops clients that do not read
	shutdownTimeout = 5 * time.Second
)

// run is the program. It returns when ctx ends, or if it cannot start. It prints its address to out, and logs to logs.
func run(ctx context.Context, args []string, out, logs io.Writer) error {
	opts, err := parseOptions(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("%w (-h explains the flags)", err)
	}
	logger := slog.New(slog.NewTextHandler(logs, nil))

	// Decide whom to serve before listening.
	guard, err := newGuard(opts)
	if err != nil {
		return err
	}

	// Decide what to serve.
	var config *rest.Config
	m := manager.New(manager.Config{GracefulShutdownTimeout: shutdownTimeout, Logger: logger})
	add := func(name string, phase manager.Phase, run func(context.Context) error) {
		_ = m.Add(manager.Runnable{Name: name, Run: run, Phase: phase}) // m.Run returns its error
	}
	switch {
	case opts.simulate:
		sim := newSimulation(opts.pods)
		defer sim.server.Close()
		add("simulation", manager.Caches, func(ctx context.Context) error { return sim.run(ctx, opts.rate) })
		config = sim.server.Config()
	case opts.kubeconfig != "":
		config, err = clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	default:
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return err
	}
	config.WarningHandler = rest.NoWarnings{}
	p, err := newProxy(ctx, config, opts.resources, opts.window, logger)
	if err != nil {
		return err
	}

	listener, err := guard.listen(ctx)
	if err != nil {
		return err
	}
	requests, endWatches := context.WithCancel(context.WithoutCancel(ctx)) // else the server would wait for them
	defer endWatches()
	_ = m.AddServer(manager.Server{Name: "proxy", Listener: listener, Handler: guard.handler(endWith(requests, p))})
	add("follow", manager.Caches, func(ctx context.Context) error {
		defer endWatches()
		return p.run(ctx)
	})
	if opts.report > 0 {
		add("report", manager.EveryReplica, func(ctx context.Context) error {
			ticker := time.NewTicker(opts.report)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					p.report(out)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	fmt.Fprintf(out, "serving %s of %s at %s\n", strings.Join(opts.names, ", "), config.Host, guard.url(listener.Addr()))
	return m.Run(ctx)
}

// endWith returns a handler whose requests end with ctx.
func endWith(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, end := context.WithCancel(r.Context())
		defer end()
		defer context.AfterFunc(ctx, end)()
		next.ServeHTTP(w, r.WithContext(request))
	})
}

// options are the flags.
type options struct {
	listen            string
	resources         []schema.GroupVersionResource
	names             []string // of the resources, as in the flag
	window            int
	tokenFile         string
	certFile, keyFile string
	clientCA          string
	kubeconfig        string
	simulate          bool
	pods, rate        int
	report            time.Duration
}

const usage = `fanout follows collections of an API server and serves them, read-only, to any number of clients.
The API server is simulated unless -kubeconfig is given or the program runs in a pod. Ctrl-C ends it.

`

func parseOptions(args []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("fanout", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors
	resources := flags.String("resources", "v1/pods", "what to serve: `[GROUP/]VERSION/RESOURCE`, separated by commas, like v1/pods,apps/v1/deployments")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8001", "`address` to listen on; other than loopback needs -tls-cert, and -token-file or -client-ca")
	flags.StringVar(&o.tokenFile, "token-file", "", "`path` of a file with the bearer token that clients must send")
	flags.StringVar(&o.certFile, "tls-cert", "", "`path` of the server's certificate, PEM: serve HTTPS")
	flags.StringVar(&o.keyFile, "tls-key", "", "`path` of its key, PEM")
	flags.StringVar(&o.clientCA, "client-ca", "", "`path` of the authority, PEM, whose certificates clients must present; needs -tls-cert")
	flags.IntVar(&o.window, "window", 0, "`changes` of each resource kept for clients that reconnect; zero means 8192")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`path` of a kubeconfig: follow its current context's cluster")
	flags.BoolVar(&o.simulate, "simulate", false, "simulate a cluster even in a pod")
	flags.IntVar(&o.pods, "pods", 2_000, "simulation: `number` of pods")
	flags.IntVar(&o.rate, "rate", 50, "simulation: `changes` per second")
	flags.DurationVar(&o.report, "report", 10*time.Second, "print the state at this `interval`; zero means never")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.simulate && o.kubeconfig != "":
		return o, errors.New("-simulate and -kubeconfig exclude each other")
	case (o.certFile == "") != (o.keyFile == ""):
		return o, errors.New("-tls-cert and -tls-key go together")
	case o.clientCA != "" && o.certFile == "":
		return o, errors.New("-client-ca needs -tls-cert and -tls-key")
	case o.pods < 1 || o.rate < 1 || o.rate > 10_000 || o.window < 0 || o.report < 0:
		return o, errors.New("-pods and -rate must be at least 1, -rate at most 10000, -window and -report not negative")
	}
	for text := range strings.SplitSeq(*resources, ",") {
		parts := strings.Split(text, "/")
		if len(parts) == 2 {
			parts = append([]string{""}, parts...)
		}
		if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
			return o, fmt.Errorf("-resources: %q is not [GROUP/]VERSION/RESOURCE", text)
		}
		o.resources = append(o.resources, schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
		o.names = append(o.names, text)
	}
	o.simulate = o.kubeconfig == "" && (o.simulate || os.Getenv("KUBERNETES_SERVICE_HOST") == "")
	return o, nil
}
