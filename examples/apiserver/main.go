// Command apiserver is an API server in one process, with a small simulated cluster behind it, to try kubectl and
// controllers on. It needs neither containers nor etcd, starts in milliseconds, and forgets everything at the end.
//
//	cd examples/apiserver && go run . -kubeconfig /tmp/cluster.yaml
//	export KUBECONFIG=/tmp/cluster.yaml    # in another terminal
//	kubectl create deployment web --image=nginx --replicas=3
//	kubectl get pods -o wide --watch
//
// Package informertest is the server. simulate.go plays the nodes, and the controllers of Deployments and ReplicaSets.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/cluster"
	"github.com/typedinformer/informer/informertest/crds"
	"github.com/typedinformer/informer/manager"
)

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

// run is the program. It returns when ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("apiserver", flag.ContinueOnError)
	flags.SetOutput(out)
	path := flags.String("kubeconfig", filepath.Join(os.TempDir(), "apiserver.kubeconfig"),
		"`file` to write the kubeconfig to")
	definitions := flags.String("crds", "", "`files` and folders with CustomResourceDefinitions, separated by commas")
	nodes := flags.Int("nodes", 3, "`number` of nodes")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	server, err := newCluster(informertest.Options{Auth: &informertest.Auth{}}, *nodes, *definitions)
	if err != nil {
		return err
	}
	defer server.Close()
	kubeconfig, err := informertest.Kubeconfig(server.Config())
	if err != nil {
		return err
	}
	if err := os.WriteFile(*path, kubeconfig, 0o600); err != nil {
		return err
	}
	defer os.Remove(*path)
	fmt.Fprintf(out, "serving at %s until Ctrl-C; in another terminal:\n\n\texport KUBECONFIG=%s\n\tkubectl get nodes\n",
		server.URL, *path)
	return simulate(ctx, server)
}

// newCluster starts a server that serves every built-in type and definitions, with the controllers of a cluster and with
// nodes.
func newCluster(options informertest.Options, nodes int, definitions string) (*informertest.Server, error) {
	options.Controllers = informertest.Controllers{Namespaces: true, GarbageCollection: true, GracefulPods: true}
	options.MatchConditions = crds.NewMatchConditions()
	server := cluster.New(options)
	crd := crds.Serve(server)
	var err error
	if definitions != "" {
		err = crd.InstallCRDs(strings.Split(definitions, ",")...)
	}
	for i := 0; i < nodes && err == nil; i++ {
		err = addNode(server, fmt.Sprint("node-", i))
	}
	if err != nil {
		server.Close()
		return nil, err
	}
	return server, nil
}

// simulate runs the pods of a server, and the controllers of what has pods, until ctx ends.
func simulate(ctx context.Context, server *informertest.Server) error {
	client, err := informer.NewClient(server.Config())
	if err != nil {
		return err
	}
	m := manager.New(manager.Config{})
	if err := newSimulation(server).add(m, client); err != nil {
		return err
	}
	return m.Run(ctx)
}
