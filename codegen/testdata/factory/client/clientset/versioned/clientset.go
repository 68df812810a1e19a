// Package versioned has as much of a clientset as generated factories use.
package versioned

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

type Interface interface {
	Discovery() discovery.DiscoveryInterface
	ShopV1() ShopV1Interface
	ShopV1beta1() ShopV1beta1Interface
	SparePartsV1() SparePartsV1Interface
}

type ShopV1Interface interface {
	Widgets(namespace string) CollectionInterface
	Warehouses() CollectionInterface
	Tickets(namespace string) CollectionInterface
	Depots(namespace string) CollectionInterface
	Shipments(namespace string) CollectionInterface
}

type ShopV1beta1Interface interface {
	Widgets(namespace string) CollectionInterface
}

type SparePartsV1Interface interface {
	Factories(namespace string) CollectionInterface
	Widgets(namespace string) CollectionInterface
}

type CollectionInterface interface {
	List(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

type Clientset struct{ Interface }

func NewForConfigAndClient(c *rest.Config, httpClient *http.Client) (*Clientset, error) {
	return &Clientset{}, nil
}
