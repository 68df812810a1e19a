// Command pages shows the pods of a cluster in the browser: sorted, filtered, page by page, and only those of namespaces
// that the user may list.
//
//	go run ./examples/pages                              # needs no cluster: simulates one in the process
//	go run ./examples/pages -pods 100000                 # a large one
//	go run ./examples/pages -kubeconfig ~/.kube/config   # a real one; requests need a bearer token of it
//
// A page reads only the pods that it shows. It takes O(log n) time for each of them, and for each namespace, because it
// shows the number of its pods. For a user who may not list the pods of all namespaces, it sends one review of access
// for each namespace, and package review remembers the answers for a while. To build on it, read list.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/review"
)

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

// run is the program. It returns when ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("pages", flag.ContinueOnError)
	flags.SetOutput(out)
	addr := flags.String("addr", "127.0.0.1:8080", "`address` to serve at")
	kubeconfig := flags.String("kubeconfig", "", "`path` of a kubeconfig; empty simulates a cluster")
	pods := flags.Int("pods", 2000, "`number` of pods of the simulation")
	rate := flags.Int("rate", 20, "changes a second of the simulation")
	compact := flags.Bool("compact", false, "hold the pods compressed")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *pods < 1 || *rate < 0 || *rate > 10_000:
		return errors.New("-pods must be positive, and -rate 0 to 10,000")
	}
	m := manager.New(manager.Config{})
	var config *rest.Config
	var err error
	if *kubeconfig == "" {
		sim := newSimulation(*pods)
		defer sim.server.Close()
		config = sim.server.Config()
		err = m.Add(manager.Runnable{Name: "simulation", Run: func(ctx context.Context) error { return sim.run(ctx, *rate) }})
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", *kubeconfig)
	}
	if err != nil {
		return err
	}
	client, err := informer.NewClient(config)
	if err != nil {
		return err
	}
	var settings informer.Config[*corev1.Pod]
	if *compact {
		settings.Layout = informer.LayoutCompact
	}
	inf := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}, settings)
	access := simulatedAccess
	if *kubeconfig != "" {
		reviews, err := informer.NewClient(config) // with a rate limit of its own
		if err != nil {
			return err
		}
		access = reviewed(review.New(reviews, review.Config{}))
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	if err := errors.Join(m.AddInformer(inf), m.AddServer(manager.Server{Listener: listener, Handler: newList(inf, access)})); err != nil {
		return err
	}
	return m.Run(ctx)
}

// access reports whether the sender of a request may list the pods of a namespace. Empty means all namespaces. It is
// called concurrently.
type access func(r *http.Request, namespace string) (bool, error)

// reviewed asks the API server.
func reviewed(reviewer *review.Reviewer) access {
	return func(r *http.Request, namespace string) (bool, error) {
		user, err := reviewer.User(r.Context(), review.Token(r))
		if user == nil || err != nil {
			return false, err
		}
		return reviewer.Allowed(r.Context(), user, authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Version: "v1", Namespace: namespace},
		})
	}
}
