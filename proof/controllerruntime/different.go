package controllerruntime

// difference is a spec that fails with the cache of crcache, for a reason.
type difference struct {
	suite string
	spec  string // the texts of its containers and its own, or the name of a Go test
	why   string
}

// different are all specs that fail with the cache of crcache. A spec that passes must not be here.
var different = []difference{
	{"pkg/cache", "Informer Cache non-blocking get test as an Informer should be able to get informer for the object without blocking", newInformer},
	{"pkg/cache", "Informer Cache without global DeepCopy non-blocking get test as an Informer should be able to get informer for the object without blocking", newInformer},
	{"pkg/cache", "Multi-Namespace Informer Cache non-blocking get test as an Informer should be able to get informer for the object without blocking", newInformer},
	{"pkg/cache", "TestIndexFieldDoesNotBlock", newInformer},
	{"pkg/cache", "TestReaderWaitsForCacheSync", newInformer},
	{"pkg/cache", "TestReaderWaitsForCacheSync/ReaderFailOnMissingInformer=false", newInformer},
	{"pkg/cache", "TestReaderWaitsForCacheSync/ReaderFailOnMissingInformer=true", newInformer},
}

// newInformer is why specs fail that replace the informers of the cache by fakes. Tests of crcache check the same with
// a fake server.
const newInformer = "cache.Options.NewInformer is not supported: it makes an informer from functions that list and watch, " +
	"but the informers of crcache need the resource and its selectors. crcache.New returns an error that names the field."
