// Package crcache is a cache for controller-runtime that holds its objects in informers of package informer. One line
// makes a manager use it:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: crcache.New(crcache.Options{})})
//
// Nothing else changes: clients, controllers, sources and predicates work as before. Every field of cache.Options works
// as in controller-runtime. If the cache does not support a value, its creation fails with an error that names the
// field.
//
// # Typed access
//
// [Get], [List] and [Index] read the same cache without deep copies. They return the objects that all readers share, so
// callers must not write to them. [WaitForObject] waits until the cache has the object that a write returned.
//
//	pod, err := crcache.Get[*corev1.Pod](ctx, mgr.GetCache(), key)
//
//	byNode, err := crcache.NewIndex(ctx, mgr.GetCache(), func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	for pod := range byNode.Lookup("node-7") { … }
//
// # Less memory
//
// [Options] and [ByObject] choose how objects are held. Objects share equal parts, which halves their memory.
// LayoutSeparate is for programs that write to objects that they read without a copy. LayoutCompact holds objects
// compressed and decodes them when they are read. DropManagedFields saves a third of a typical object.
//
// [ByObject.OnDemand] suits large kinds that a program rarely reads, such as Secrets: the cache follows their metadata,
// and reads a whole object from the server when Get or List asks for it. It has the guarantees of package readthrough.
// Handlers and predicates of such a kind receive objects that have metadata only.
//
//	crcache.Options{ByObject: map[client.Object]crcache.ByObject{&corev1.Secret{}: {OnDemand: true}}}
//
// # Audits
//
// [Options.AuditEvery] makes each informer compare its objects with the server periodically, by a list of metadata;
// [ByObject.AuditEvery] changes the period for a kind. An object that differs is logged with its name,
// DefaultWatchErrorHandler of cache.Options receives an [*informer.AuditError], and one list repairs the cache.
//
// # Differences from controller-runtime's cache
//
//   - Order. Reads return objects ordered by namespace, then name. A List of several configured namespaces returns one
//     namespace after the other, and then all others if cache.AllNamespaces is one of them.
//   - First list. If a Get, List or GetInformer waits for a first list and fails, its error says what is missing and
//     why.
//   - Refused reads. A Get or List does not wait until its context ends for a first list that the server refuses. It
//     returns the error after the first retry if that is 401 or 403, and a NoMatch error if the server does not serve
//     the resource. For a resource without lists, such as that of TokenReviews, it returns informer.ErrNoList at once.
//     After any other failure, it returns when [Options.ReadTimeout] has passed. The informer keeps trying, so later
//     reads can succeed.
//   - Recreated objects. If the cache missed a deletion, handlers receive it even if an object of the same name exists
//     again: a deletion with toolscache.DeletedFinalStateUnknown, then an addition.
//   - Relists. A relist delivers no events for objects that did not change.
//   - Undecodable objects. An object that cannot be decoded does not keep the cache from syncing. Get of such an object
//     returns an [*informer.DecodeError], never NotFound, unless the cache has an older version of it. A List of its
//     namespace, or of all, that may lack such an object returns the other objects and an error. Selectors do not
//     matter, since the labels and fields of the object are unknown.
//   - Removed resources. If discovery shows that the server no longer serves a resource, the cache drops its objects,
//     and handlers receive deletions with toolscache.DeletedFinalStateUnknown. The cache of controller-runtime keeps
//     the objects.
//   - Failing transforms. A transform that fails for an object makes only that object undecodable. In a streamed list
//     or a watch, the cache of controller-runtime drops the object, and Get returns NotFound.
//   - Renaming transforms. If a transform changes namespace or name, the object stays under those of the server.
//   - Transforms that drop the resource version. Handlers receive each update. With controller-runtime's cache, a
//     handler without resync misses updates once a resync period has passed.
//   - Timeouts. The timeout of rest.Config or of HTTPClient limits lists, but does not end watches.
//   - Redirects. Unless HTTPClient has a CheckRedirect, the informers follow redirects to the same server only.
//   - Bookmarks. EnableWatchBookmarks must not be false, because the informers resume their watches from bookmarks.
//   - Several namespaces. An informer of several configured namespaces is a toolscache.SharedIndexInformer, too. Its
//     store has the objects of all of them.
//   - Writes. While the cache runs, the write methods of an informer's store return an error. Before the start they
//     work, for tests; Start then drops the written objects.
//   - Fields. An informer does not have the indexes of IndexField.
//   - Watch errors. DefaultWatchErrorHandler is called for each failure of a request or a watch, and for each
//     difference that an audit finds. Its toolscache.Reflector has only a name.
//
// The limits of [informer.Client] apply to the sizes of responses and to the time of a list without progress.
//
// If cache.Options.NewInformer is set, it makes the informers of all kinds, and controller-runtime's own cache holds
// these kinds. [Get] and [List] read them. [NewIndex] and [WaitForObject] return an error for them, and they have no
// metrics. Set IgnoreNewInformer of [Options] or [ByObject] to use the informers of this package for all or some kinds.
//
// An informer of the cache is a toolscache.SharedIndexInformer, as in controller-runtime. Programs that cast it get its
// store, its indexer and its settings before the start:
//
//	pods := i.(toolscache.SharedIndexInformer).GetIndexer()
//
// A transform may return an object without uid or resourceVersion, or of another type: readers and handlers receive
// what it returned. A typed read of an object of another type fails with an error that names both types. LayoutCompact
// does not compress such objects.
//
// As in controller-runtime, handlers receive every change that the cache saw, in order. Changes that wait for a slow
// handler do not fold, so they take memory. controller-runtime's own client relies on that: it waits for the deletion
// of each object that it deletes, even of one created a moment before.
//
// # Logs
//
// The cache logs failures with the logger of controller-runtime, and each state that a watch enters at V(1).
//
// # Metrics
//
// The requests of the cache count in the rest_client metrics of controller-runtime. Its registry also gets metrics of
// the informers, under the names that client-go's have in the components of Kubernetes: informer_queued_items,
// informer_store_resource_version, reflector_lists_total, reflector_watches_total and reflector_last_resource_version.
// They are registered when the first cache is created, not before. [Options] names another registry, or leaves them
// out.
package crcache
