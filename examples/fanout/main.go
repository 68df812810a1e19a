// Command fanout follows collections of an API server, with one watch each, and serves them to any number of clients.
// To them it is a read-only API server that supports get, list and watch, including shards. The README says how to
// deploy it.
//
//	go run .                                                          # needs no cluster: simulates one in the process
//	go run . -kubeconfig ~/.kube/config -resources v1/pods,v1/nodes   # a real cluster; in a pod, it finds its own
//
// By default it listens on loopback, where every program of the machine can read everything that fanout's own
// credentials allow. It listens elsewhere only with TLS, and only if it authenticates and authorizes clients. It never
// passes on its credentials.
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
	"net"
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
	listTimeout = time.Minute // for the client to read a list
	// for the client to read the next part of a watch; watchcache drops clients that read too slowly
	writeTimeout    = time.Minute
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
	metrics := newMetrics()
	guard, err := newGuard(opts, logger, metrics)
	if err != nil {
		return err
	}

	// Decide what to serve.
	var config *rest.Config
	var sim *simulation
	switch {
	case opts.simulate:
		sim = newSimulation(opts.pods)
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
	config.WarningHandler = rest.NoWarnings{}
	p, err := newProxy(ctx, config, opts.resources, opts.window, logger, metrics)
	if err != nil {
		return err
	}
	if !guard.open() {
		if guard.reviewer, err = newReviewer(config, opts.audiences); err != nil {
			return err
		}
	}

	m := manager.New(manager.Config{
		Probes:                  manager.Server{Addr: opts.probes, Handler: metrics.handler()},
		Health:                  p.probes(),
		GracefulShutdownTimeout: shutdownTimeout,
		Logger:                  logger,
	})
	add := func(name string, phase manager.Phase, run func(context.Context) error) {
		_ = m.Add(manager.Runnable{Name: name, Run: run, Phase: phase}) // m.Run returns its error
	}
	if sim != nil {
		add("simulation", manager.Caches, func(ctx context.Context) error { return sim.run(ctx, opts.rate) })
	}
	tcp, err := (&net.ListenConfig{}).Listen(ctx, "tcp", guard.address.String())
	if err != nil {
		return err
	}
	listener := &limitedListener{Listener: tcp, limits: opts.limits,
		refused: func() { metrics.refused.WithLabelValues("connections").Inc() }}
	metrics.add(p, guard.reviewer, listener)
	requests, endWatches := context.WithCancel(context.WithoutCancel(ctx)) // else the server would wait for them
	defer endWatches()
	_ = m.AddServer(manager.Server{Name: "proxy", Listener: listener, TLS: guard.tls(),
		Handler: endWith(requests, guard.handler(p))})
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
	probes            string
	certFile, keyFile string
	clientCA          string
	tokenReview       bool
	audiences         []string
	accessReview      bool
	allowUsers        []string
	allowGroups       []string
	limits            limits
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
	resources := flags.String("resources", "v1/pods",
		"what to serve: `[GROUP/]VERSION/RESOURCE`, separated by commas, like v1/pods,apps/v1/deployments")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8001",
		"`address` to listen on; other than loopback needs -tls-cert, -client-ca or -token-review, and -access-review or -allow-users or -allow-groups")
	flags.StringVar(&o.probes, "probes", "",
		"`address` for /readyz, /livez and /metrics, plain HTTP for all who reach it; empty means none")
	flags.StringVar(&o.certFile, "tls-cert", "", "`path` of the server's certificate, PEM: serve HTTPS")
	flags.StringVar(&o.keyFile, "tls-key", "", "`path` of its key, PEM")
	flags.StringVar(&o.clientCA, "client-ca", "",
		"`path` of authorities, PEM: a client with a certificate of theirs is the user of its common name; needs -tls-cert")
	flags.BoolVar(&o.tokenReview, "token-review", false, "ask the API server whose bearer token a client sends")
	audiences := flags.String("token-audiences", "",
		"`audiences` of the tokens, separated by commas; empty means those of the API server")
	flags.BoolVar(&o.accessReview, "access-review", false, "ask the API server whether a client may read the resource")
	allowUsers := flags.String("allow-users", "", "`users` who may read everything, separated by commas")
	allowGroups := flags.String("allow-groups", "", "`groups` whose users may read everything, separated by commas")
	flags.IntVar(&o.limits.connections, "max-connections", 4_000, "`connections` of all clients together")
	flags.IntVar(&o.limits.connectionsPerIP, "max-connections-per-ip", 1_000, "`connections` from one address")
	flags.IntVar(&o.limits.requestsPerUser, "max-requests-per-user", 2_000,
		"`requests` of one user at a time, with watches")
	flags.Float64Var(&o.limits.userQPS, "user-qps", 100, "`requests` of one user per second, and twice as many at once")
	flags.Float64Var(&o.limits.ipQPS, "ip-qps", 200, "`requests` from one address per second, and twice as many at once")
	flags.Float64Var(&o.limits.bandwidth, "max-bandwidth", 1_000, "`MB/s` of responses to all clients together")
	flags.Float64Var(&o.limits.userBandwidth, "max-bandwidth-per-user", 250, "`MB/s` of responses to one user")
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
	case o.limits.connections < 1 || o.limits.connectionsPerIP < 1 || o.limits.requestsPerUser < 1 ||
		!(o.limits.userQPS > 0) || !(o.limits.ipQPS > 0) ||
		!(o.limits.bandwidth > 0) || !(o.limits.userBandwidth > 0):
		return o, errors.New("-max-connections, -max-connections-per-ip, -max-requests-per-user, -user-qps, -ip-qps, -max-bandwidth and -max-bandwidth-per-user must be positive")
	case *audiences != "" && !o.tokenReview:
		return o, errors.New("-token-audiences needs -token-review")
	case o.tokenReview && o.certFile == "":
		return o, errors.New("-token-review needs -tls-cert and -tls-key: without TLS the network can read the tokens")
	case o.pods < 1 || o.rate < 1 || o.rate > 10_000 || o.window < 0 || o.report < 0:
		return o, errors.New("-pods and -rate must be at least 1, -rate at most 10000, -window and -report not negative")
	}
	o.audiences, o.allowUsers, o.allowGroups = split(*audiences), split(*allowUsers), split(*allowGroups)
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

// split returns the parts of text between commas.
func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
