// Command fleet shows the replicas of a Deployment in all clusters, as a table that follows them.
//
//	go run ./examples/fleet                                          # needs no cluster: simulates three in the process
//	go run ./examples/fleet -folder ~/clusters -deployment shop/web  # a folder with a kubeconfig for each cluster
//
// In the simulation, one of the clusters hangs after a while, and another one is replaced by a new one.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/fleet"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/status"
)

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// run is the program. It returns when ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(out)
	folder := flags.String("folder", "", "`path` of a folder with a kubeconfig for each cluster; empty simulates clusters")
	deployment := flags.String("deployment", "shop/web", "the Deployment, as `namespace/name`")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	var key informer.Key
	var ok bool
	if key.Namespace, key.Name, ok = strings.Cut(*deployment, "/"); !ok {
		return fmt.Errorf("-deployment is %q: it must be namespace/name", *deployment)
	}
	clusters := fleet.Folder(fleet.FolderConfig{Dir: *folder})
	if *folder == "" {
		sim := newSimulation(key)
		defer sim.close()
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { sim.run(ctx) })
		clusters = sim.clusters
	}
	return show(ctx, clusters, key, out)
}

// show writes the table, and again each time that it has changed, but at most once a second.
func show(ctx context.Context, clusters fleet.Source, key informer.Key, out io.Writer) error {
	deployments, err := fleet.New(fleet.Config[*appsv1.Deployment]{
		Clusters: clusters,
		// The server sends only Deployments of that name.
		Resource: informer.Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments"),
			Namespaces: []string{key.Namespace}, FieldSelector: "metadata.name=" + key.Name},
		Logger: slog.New(slog.DiscardHandler), // the table has the state of each cluster
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		err := deployments.Run(ctx)
		cancel(err)
		ended <- err
	}()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := ""
	for {
		if table := tableOf(deployments, key); table != last {
			last = table
			fmt.Fprintln(out, table)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return <-ended
		}
	}
}

// tableOf returns the table: a line for each cluster.
func tableOf(deployments *fleet.Fleet[*appsv1.Deployment], key informer.Key) string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLUSTER\tREADY\tIMAGE\tSTATE")
	all, ready, wanted := deployments.Snapshot(), int32(0), int32(0)
	for _, c := range deployments.Status().Clusters {
		replicas, image := "-", "-"
		if snapshot, ok := all.Member(c.Name); ok {
			if d, ok := snapshot.Get(key); ok {
				want := int32(1)
				if d.Spec.Replicas != nil {
					want = *d.Spec.Replicas
				}
				ready, wanted = ready+d.Status.ReadyReplicas, wanted+want
				replicas = fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, want)
				if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
					image = containers[0].Image
				}
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, replicas, image, stateOf(c))
	}
	fmt.Fprintf(w, "all\t%d/%d\t\t\n", ready, wanted)
	w.Flush()
	return text.String()
}

// stateOf returns what is wrong with a cluster, or "ok".
func stateOf(c fleet.ClusterStatus) string {
	if c.ConfigErr != nil {
		return c.ConfigErr.Error()
	}
	var r status.Reflector
	if len(c.Informer.Reflectors) > 0 {
		r = c.Informer.Reflectors[0]
	}
	switch {
	case !c.Informer.Synced:
		return cmp.Or(strings.ToLower(c.State.String()), "no client")
	case !r.WatchOpen:
		return "as of " + r.NoWatchSince.UTC().Format(time.TimeOnly) + ": no watch since then"
	}
	return "ok"
}
