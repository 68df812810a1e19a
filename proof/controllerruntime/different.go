package controllerruntime

// difference is a spec that fails with the cache of crcache, for a reason.
type difference struct {
	suite string
	spec  string // the texts of its containers and its own, or the name of a Go test
	why   string
}

// different are all specs that fail with a cache of crcache with options. A spec that passes must not be here. Without
// options, every spec passes.
var different = []difference{
	{"pkg/cache", "Informer Cache non-blocking get test as an Informer should be able to get informer for the object without blocking", newInformer},
	{"pkg/cache", "Informer Cache without global DeepCopy non-blocking get test as an Informer should be able to get informer for the object without blocking", newInformer},
	{"pkg/cache", "Multi-Namespace Informer Cache non-blocking get test as an Informer should be able to get informer for the object without blocking", newInformer},
	{"pkg/cache", "TestIndexFieldDoesNotBlock", newInformer},
	{"pkg/cache", "TestReaderWaitsForCacheSync", newInformer},
	{"pkg/cache", "TestReaderWaitsForCacheSync/ReaderFailOnMissingInformer=false", newInformer},
	{"pkg/cache", "TestReaderWaitsForCacheSync/ReaderFailOnMissingInformer=true", newInformer},
}

// newInformer is why specs fail that replace the informers of the cache by fakes, if there are options.
const newInformer = "cache.Options.NewInformer makes the informers of these specs, and options have no effect on them. " +
	"crcache.New returns an error that names the fields."
