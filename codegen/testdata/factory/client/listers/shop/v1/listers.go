// Package v1 has as much of listers as generated factories use.
package v1

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"

	api "github.com/typedinformer/informer/codegen/testdata/factory/api/shop/v1"
)

type WidgetLister interface {
	List(selector labels.Selector) (ret []*api.Widget, err error)
}

func NewWidgetLister(indexer cache.Indexer) WidgetLister {
	return listers.New[*api.Widget](indexer, schema.GroupResource{})
}

type WarehouseLister interface {
	List(selector labels.Selector) (ret []*api.Warehouse, err error)
}

func NewWarehouseLister(indexer cache.Indexer) WarehouseLister {
	return listers.New[*api.Warehouse](indexer, schema.GroupResource{})
}

type DepotLister interface {
	List(selector labels.Selector) (ret []*api.Depot, err error)
}

func NewDepotLister(indexer cache.Indexer) DepotLister {
	return listers.New[*api.Depot](indexer, schema.GroupResource{})
}

type ShipmentLister interface {
	List(selector labels.Selector) (ret []*api.Shipment, err error)
}

func NewShipmentLister(indexer cache.Indexer) ShipmentLister {
	return listers.New[*api.Shipment](indexer, schema.GroupResource{})
}
