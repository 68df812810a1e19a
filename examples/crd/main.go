// Command crd follows widgets, a custom resource, with an informer and a lister that codegen generated from their Go
// type.
//
//	go run ./examples/crd                              # needs no cluster: runs a server in the process
//	go run ./examples/crd -kubeconfig ~/.kube/config   # a real cluster, after kubectl apply -f examples/crd/crd.yaml
//
// The type is in shop/v1; the code generated from it is in informers/shop/v1. Read run to see how little code remains.
// Leave out simulate. The other two generated packages are for programs without a Go type: fromcrd/shop/v1 has one
// generated from crd.yaml, and slim/shop/v1 one with only the labels and two fields.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // login methods that a kubeconfig may need
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	shopinformers "github.com/typedinformer/informer/examples/crd/informers/shop/v1"
	shopv1 "github.com/typedinformer/informer/examples/crd/shop/v1"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/manager"
)

//go:generate go run -C ../../codegen . -C ../examples/crd ./shop/...
//go:generate go run -C ../../codegen . -C ../examples/crd -output-dir fromcrd -index Widget:Factory=spec.factory -index Widget:Part=spec.parts[*].name -index Widget:Phase=status.phase -crd crd.yaml
//go:generate go run -C ../../codegen . -C ../examples/crd -output-dir slim -fields Widget:metadata.labels,spec.factory,status.phase -index Widget:Factory=spec.factory -crd crd.yaml

func main() {
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crd:", err)
		os.Exit(1)
	}
}

// run is the program. On a real cluster it runs until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("crd", flag.ContinueOnError)
	flags.SetOutput(out)
	kubeconfig := flags.String("kubeconfig", "",
		"`path` of a kubeconfig: follow the widgets of its current context's cluster")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	var config *rest.Config
	var err error
	if *kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", *kubeconfig)
	} else {
		server := informertest.NewServer(informertest.Options{})
		defer server.Close()
		config, err = server.Config(), simulate(server)
	}
	if err != nil {
		return err
	}
	client, err := informer.NewClient(config)
	if err != nil {
		return err
	}

	widgets := shopinformers.NewWidgetInformer(client, informer.Config[*shopv1.Widget]{})
	lister := shopinformers.NewWidgetLister(widgets)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { widgets.Run(ctx) }) // ends with ctx
	if err := widgets.WaitSynced(ctx); err != nil {
		return err
	}

	for w := range lister.ByFactory("north") {
		fmt.Fprintf(out, "made in the north: %s\n", w.Name)
	}
	for w := range lister.ByPart("wheel") {
		fmt.Fprintf(out, "has wheels: %s\n", w.Name)
	}
	fmt.Fprintf(out, "%d ordered\n", len(slices.Collect(lister.ByPhase(shopv1.Ordered))))
	if _, err := lister.Namespace("shop").Get("plane"); err != nil {
		fmt.Fprintln(out, "error:", err)
	}
	if *kubeconfig == "" {
		return nil
	}
	for change := range widgets.Changes(ctx) {
		fmt.Fprintf(out, "%v %s: %s\n", change.Type, informer.KeyOf(change.Object), change.Object.Status.Phase)
	}
	return nil
}

// simulate makes server serve some widgets.
func simulate(server *informertest.Server) error {
	widgets := informertest.Register[*shopv1.Widget](server,
		informertest.Resource{GroupVersionResource: shopinformers.WidgetResource})
	for _, w := range []shopv1.Widget{
		{ObjectMeta: metav1.ObjectMeta{Name: "car"}, Spec: shopv1.WidgetSpec{Factory: "north",
			Parts: []shopv1.Part{{Name: "wheel", Count: 4}, {Name: "engine",
				Count: 1}}}, Status: shopv1.WidgetStatus{Phase: shopv1.Made}},
		{ObjectMeta: metav1.ObjectMeta{Name: "bicycle"}, Spec: shopv1.WidgetSpec{Factory: "south",
			Parts: []shopv1.Part{{Name: "wheel", Count: 2}}}, Status: shopv1.WidgetStatus{Phase: shopv1.Ordered}},
		{ObjectMeta: metav1.ObjectMeta{Name: "sledge"}, Spec: shopv1.WidgetSpec{Factory: "north"},
			Status: shopv1.WidgetStatus{Phase: shopv1.Ordered}},
	} {
		w.Namespace = "shop"
		if _, err := widgets.Create(&w); err != nil {
			return err
		}
	}
	return nil
}
