// Package indexer is for listers that codegen writes with -compat and -listers. It gives them the methods that somebody
// added to a lister of lister-gen by hand, such as GetPodJobs of client-go.
package indexer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/compat"
)

// Of returns a new indexer of client-go with the objects that l lists now, for one call of such a method. Later changes
// do not reach it. The error is that of the list, or names an object without metadata.
func Of[T informer.Labeled](l compat.ResourceLister[T]) (cache.Indexer, error) {
	list, err := l.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, obj := range list {
		if err := indexer.Add(obj); err != nil {
			return nil, fmt.Errorf("add %T %s to an indexer of client-go: %w", obj, informer.KeyOf(obj), err)
		}
	}
	return indexer, nil
}
