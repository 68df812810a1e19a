// Package clientgo has no code. With the packages of this module, a program replaces client-go's informers by those of
// this library by changing one import. Handlers, listers, indexers and everything else stay as they are:
//
//   - clientgo/informers replaces k8s.io/client-go/informers.
//   - clientgo/dynamicinformer replaces k8s.io/client-go/dynamic/dynamicinformer, and clientgo/metadatainformer
//     k8s.io/client-go/metadata/metadatainformer. Their functions take a *rest.Config: a dynamic.Interface and a
//     metadata.Interface hide their REST clients.
//   - clientgo/factory makes the informers of any generated clientset, such as that of a custom resource. With its flag
//     -factory, codegen writes a package based on it, which replaces that of informer-gen.
//   - clientgo/cache has NewSharedInformer, NewSharedIndexInformer and NewListWatchFromClient of
//     k8s.io/client-go/tools/cache, and New, which they use. All other names of that package remain client-go's.
//
// The informers are of client-go's type cache.SharedIndexInformer. Each delivers every change in order, and deletions
// that it missed as cache.DeletedFinalStateUnknown. It has indexers, resyncs, transforms, a watch error handler, and
// the HasSynced of each handler, by the rules of client-go.
//
// # Versions of client-go
//
// The module works with client-go 0.36 to 0.38. From 0.37 on, its typed informers work too: its generated code wraps the
// informers of this library.
//
// A factory of clientgo/informers embeds one of client-go. It inherits groups that are newer than 0.36, so their
// informers are client-go's own: with 0.37, those of Lifecycle. Start, WaitForCacheSync, Shutdown and the options of
// the factory apply to them, except WithStorage and WithClient; WithShardSelector only asks the server.
//
// With 0.36 and 0.37, the informers and factories have the methods that 0.38 added, too: assert SetShardSelector of an
// informer, and WaitForCacheSyncWithContext of the dynamic and the metadata factory. client-go's own informers, such as
// those of a fake clientset, have no shards there: the factory logs an error.
//
// # Shards
//
// WithShardSelector, SetShardSelector and the field ShardSelector of list options restrict an informer to the objects
// of a shard. The informer requests the shard, and drops all other objects before it decodes them if the server ignores
// the request; see informer.Shard. A selector that kube-apiserver would refuse is an error. In client-go, these names
// exist since 0.38, and informers of older versions follow everything.
//
// # Less memory
//
// One more option chooses how objects are held:
//
//	factory := informers.NewSharedInformerFactoryWithOptions(clientset, resync,
//		informers.WithStorage(informers.Options{Layout: new(informer.LayoutShared), DropManagedFields: true}))
//
// LayoutShared makes objects share equal parts, which halves their memory; with a transform, they share the parts that
// it did not change. It is the default of an informer.Informer, and not here: a program that writes to an object of its
// cache would change others, too. LayoutCompact holds objects compressed, and decodes them when they are read.
// DropManagedFields replaces a transform that only drops managedFields, and costs nothing.
//
// # How the factories work
//
// An accessor of client-go's generated code passes the factory a function that makes the informer for a clientset. The
// factory calls this function with a clientset whose requests reach no server, and runs the informer until its first
// request. It reads resource, namespace and selectors from that request, and the indexers from the informer. So tweaks
// of the list options and hand-written functions work. The informer of this library then sends its requests with the
// transport and the rate limit of the program's clientset.
//
// A factory cannot replace three kinds of informers: those of a fake clientset; those whose function sets a transform,
// a watch error handler or a handler, because nothing can read these from an informer; and those that do not use the
// clientset that their function receives. The program then gets client-go's own informer. The factory logs the reason,
// except for a fake clientset. With DropManagedFields, the factory ignores a transform in the function that only drops
// managedFields from an example of the object.
//
// # Differences from client-go
//
// Deliveries:
//
//   - An object that was deleted and recreated while the watch was down is delivered as a deletion with
//     cache.DeletedFinalStateUnknown, then as an addition. client-go delivers an update.
//   - A relist delivers no events for objects that did not change. client-go delivers updates to handlers that
//     resync.
//   - If a transform drops the resource version, an update still counts as an update. client-go takes it for a resync:
//     after the first resync of the informer, only handlers that are due receive it.
//   - A resync begins between one and 1.1 periods after the previous one.
//
// The store:
//
//   - Lists are ordered by namespace, then name.
//   - After Run, its methods that write return an error: only the informer writes to it. Objects that a test added
//     before are gone after Run.
//   - An object that cannot be decoded does not keep the informer from syncing. A Get of it returns an
//     [*informer.DecodeError] instead of exists == false. Lookups in an index that may lack it return the other
//     objects and an error.
//
// Transforms:
//
//   - A transform is called once for each version of an object, and never for a cache.DeletedFinalStateUnknown. Its
//     error affects only that object, which counts as one that cannot be decoded. It may return any type that has
//     metadata.
//   - If it changes the name or the namespace, the object stays under the key of the server.
//
// Requests:
//
//   - A function that tweaks list options is called when an informer is made, not for each request. Its selectors
//     apply, and its limit applies to paged lists. Other options, such as a timeout, do not apply.
//   - A watch that follows another within a second waits for the rate limit of the clientset. Other watches do not, as
//     with client-go.
//   - The watch error handler receives each failure, not the clean end of a watch. client-go's feature gates and its
//     backoff do not apply: see informer.Reflector for the handling of failures. The default handler does nothing.
//   - An informer over a ListerWatcher that is not a ListWatch of package cache takes its objects as they are. A list has
//     no limit. It is a streaming list only if the ListerWatcher has a method IsWatchListSemanticsUnSupported that returns
//     false. The watch opens before the informer has synced, unless that takes more than a second. client-go opens it
//     afterwards, so a change in between is lost if the watch has no history.
//   - The module cannot read the warning handler and the content type of a clientset: see cache.ClientFor. WithClient
//     sets a client. The dynamic and the metadata factory read both from their *rest.Config.
//
// Diagnosis:
//
//   - The metrics of client-go's informers do not exist, and an informer name registers none.
//   - client-go's mutation detector, KUBE_CACHE_MUTATION_DETECTOR, has no effect, except on the informers of a fake
//     clientset.
//   - The logger is that of the context of Run. It receives states at V(2), failed requests at V(0) and objects that
//     cannot be decoded as errors. client-go logs failed requests as errors, and its own steps at V(2) to V(4).
//
// [*informer.DecodeError]: https://pkg.go.dev/github.com/typedinformer/informer#DecodeError
package clientgo
