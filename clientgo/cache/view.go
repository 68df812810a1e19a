package cache

import (
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// store is the indexer that holds the objects of a [shared].
type store struct{ cache.Indexer }

// indexer is the [cache.Indexer] of a [shared]. Before Run, it is an indexer of client-go, in which tests may put
// objects. Run replaces it.
type indexer struct {
	informer *shared
	to       atomic.Pointer[store]
}

func (x *indexer) Add(obj any) error    { return x.to.Load().Add(obj) }
func (x *indexer) Update(obj any) error { return x.to.Load().Update(obj) }
func (x *indexer) Delete(obj any) error { return x.to.Load().Delete(obj) }
func (x *indexer) Replace(list []any, version string) error {
	return x.to.Load().Replace(list, version)
}
func (x *indexer) Resync() error           { return x.to.Load().Resync() }
func (x *indexer) Bookmark(version string) { x.to.Load().Bookmark(version) }
func (x *indexer) List() []any             { return x.to.Load().List() }
func (x *indexer) ListKeys() []string      { return x.to.Load().ListKeys() }
func (x *indexer) LastStoreSyncResourceVersion() string {
	return x.to.Load().LastStoreSyncResourceVersion()
}
func (x *indexer) Get(obj any) (item any, exists bool, err error) { return x.to.Load().Get(obj) }
func (x *indexer) GetByKey(key string) (item any, exists bool, err error) {
	return x.to.Load().GetByKey(key)
}
func (x *indexer) Index(name string, obj any) ([]any, error) { return x.to.Load().Index(name, obj) }
func (x *indexer) ByIndex(name, value string) ([]any, error) { return x.to.Load().ByIndex(name, value) }
func (x *indexer) IndexKeys(name, value string) ([]string, error) {
	return x.to.Load().IndexKeys(name, value)
}
func (x *indexer) ListIndexFuncValues(name string) []string {
	return x.to.Load().ListIndexFuncValues(name)
}
func (x *indexer) GetIndexers() cache.Indexers { return x.to.Load().GetIndexers() }

// AddIndexers adds indexes to the informer, so that none is lost while Run replaces the indexer.
func (x *indexer) AddIndexers(indexers cache.Indexers) error { return x.informer.AddIndexers(indexers) }
