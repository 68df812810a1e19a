// Command garbage prints the objects that the garbage collector of a cluster would delete, and why: objects of any kind
// whose owners do not exist, and what goes with them. It only reads.
//
//	go run ./examples/garbage                              # needs no cluster: simulates one in the process
//	go run ./examples/garbage -kubeconfig ~/.kube/config   # a real one
//
// It follows the metadata of every kind that the cluster serves, and finds owners by UID over all kinds. A collector
// that deletes must ask the API server for the owner once more before that, because stores of different kinds are of
// different moments. To build on it, read garbage.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/kinds"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/status"
)

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "garbage:", err)
		os.Exit(1)
	}
}

// run is the program.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("garbage", flag.ContinueOnError)
	flags.SetOutput(out)
	kubeconfig := flags.String("kubeconfig", "", "`path` of a kubeconfig; empty simulates a cluster")
	timeout := flags.Duration("timeout", time.Minute, "`time` to wait for the lists of all kinds")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	var config *rest.Config
	var err error
	if *kubeconfig == "" {
		server := simulate()
		defer server.Close()
		config = server.Config()
	} else if config, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100 // a list for each kind
	client, err := informer.NewClient(config)
	if err != nil {
		return err
	}
	return report(ctx, client, *timeout, out)
}

// report follows all kinds until it has written what is garbage.
func report(ctx context.Context, client *informer.Client, timeout time.Duration, out io.Writer) error {
	set := kinds.New(client, kinds.Config[*metav1.PartialObjectMetadata]{
		// events are many, own nothing, and expire
		Select: func(r status.APIResource) bool { return r.Resource != "events" },
	})
	g := newGraph(set)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- set.Run(ctx) }()
	defer func() { stop(); <-ended }()

	limited, end := context.WithTimeout(ctx, timeout)
	defer end()
	var unknown *kinds.UnknownError
	var unsynced *kinds.NotSyncedError
	switch err := set.WaitSynced(limited); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &unknown), errors.As(err, &unsynced): // the others are complete
		fmt.Fprintln(out, "not known:", err)
	case err != nil:
		return err
	}
	n := 0
	for _, reason := range g.garbage() {
		fmt.Fprintln(out, reason)
		n++
	}
	fmt.Fprintf(out, "%d of %d objects of %d kinds are garbage\n", n, set.Snapshot().Len(), len(set.Kinds()))
	return nil
}
