// Package v1 has as much of listers as generated factories use.
package v1

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"

	api "github.com/typedinformer/informer/codegen/testdata/factory/api/parts/v1"
)

type FactoryLister interface {
	List(selector labels.Selector) (ret []*api.Factory, err error)
}

func NewFactoryLister(indexer cache.Indexer) FactoryLister {
	return listers.New[*api.Factory](indexer, schema.GroupResource{})
}

type WidgetLister interface {
	List(selector labels.Selector) (ret []*api.Widget, err error)
}

func NewWidgetLister(indexer cache.Indexer) WidgetLister {
	return listers.New[*api.Widget](indexer, schema.GroupResource{})
}
