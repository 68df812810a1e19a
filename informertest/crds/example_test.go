package crds_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/crds"
)

func createWidget(ctx context.Context) error {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	definitions := crds.Serve(server)
	if err := definitions.InstallCRDs("testdata"); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		return err
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": "a"},
		"spec":       map[string]any{"color": "red"},
	}}
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget, err = client.Resource(resource).Namespace("default").Create(ctx, widget, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Println(widget.Object["spec"])
	return nil
}

// The schema has a default for the size.
func Example() {
	if err := createWidget(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: map[color:red size:3]
}
