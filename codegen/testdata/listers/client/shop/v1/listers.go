// Package v1 has listers in the form of lister-gen.
package v1

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"

	api "github.com/typedinformer/informer/codegen/testdata/listers/api/shop/v1"
)

type WidgetLister interface {
	List(selector labels.Selector) (ret []*api.Widget, err error)
	Widgets(namespace string) WidgetNamespaceLister
	WidgetListerExpansion
}

type WidgetListerExpansion interface {
	GetPodWidget(pod *corev1.Pod) (*api.Widget, error)
}

type WidgetNamespaceLister interface {
	List(selector labels.Selector) (ret []*api.Widget, err error)
	Get(name string) (*api.Widget, error)
}

type widgetLister struct {
	listers.ResourceIndexer[*api.Widget]
}

func NewWidgetLister(indexer cache.Indexer) WidgetLister {
	return &widgetLister{listers.New[*api.Widget](indexer, schema.GroupResource{})}
}

func (l *widgetLister) Widgets(namespace string) WidgetNamespaceLister {
	return listers.NewNamespaced(l.ResourceIndexer, namespace)
}

func (l *widgetLister) GetPodWidget(pod *corev1.Pod) (*api.Widget, error) {
	list, err := l.Widgets(pod.Namespace).List(labels.Everything())
	if len(list) == 0 {
		return nil, fmt.Errorf("no widget for %s: %v", pod.Name, err)
	}
	return list[0], nil
}

type WarehouseLister interface {
	List(selector labels.Selector) (ret []*api.Warehouse, err error)
	Get(name string) (*api.Warehouse, error)
}

func NewWarehouseLister(indexer cache.Indexer) WarehouseLister {
	return listers.New[*api.Warehouse](indexer, schema.GroupResource{})
}

type ReviewLister interface {
	List(selector labels.Selector) (ret []*api.Review, err error)
	Get(name string) (*api.Review, error)
}

func NewReviewLister(indexer cache.Indexer) ReviewLister {
	return listers.New[*api.Review](indexer, schema.GroupResource{})
}

type StatusLister interface {
	List(selector labels.Selector) (ret []*api.Status, err error)
	Statuses(namespace string) StatusNamespaceLister
}

type StatusNamespaceLister interface {
	List(selector labels.Selector) (ret []*api.Status, err error)
	Get(name string) (*api.Status, error)
}

type statusLister struct {
	listers.ResourceIndexer[*api.Status]
}

func NewStatusLister(indexer cache.Indexer) StatusLister {
	return &statusLister{listers.New[*api.Status](indexer, schema.GroupResource{})}
}

func (l *statusLister) Statuses(namespace string) StatusNamespaceLister {
	return listers.NewNamespaced(l.ResourceIndexer, namespace)
}
