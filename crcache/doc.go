// Package crcache is a cache for controller-runtime that holds its objects in informers of package informer. A manager
// uses it by one line:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: crcache.New(crcache.Options{})})
//
// Nothing else changes: clients, controllers, sources and predicates work as before, and every field of cache.Options
// does what it does in controller-runtime, or creating the cache fails with an error that names the field.
//
// # Typed access
//
// [Get], [List] and [Index] read the same cache without deep copies. They return the objects that all readers share, so
// callers must not write to them. [WaitForObject] waits until the cache has what a write returned.
//
//	pod, err := crcache.Get[*corev1.Pod](ctx, mgr.GetCache(), key)
//
//	byNode, err := crcache.NewIndex(ctx, mgr.GetCache(), func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	for pod := range byNode.Lookup("node-7") { … }
//
// # Less memory
//
// [Options] and [ByObject] choose how objects are held. DropManagedFields saves a third of a typical object. Share
// makes objects share equal parts. Compact holds them compressed and decodes them when they are read.
//
// # Audits
//
// [Options.AuditEvery] makes each informer compare its objects with the server periodically, by a list of metadata. An
// object that differs is logged with its name, DefaultWatchErrorHandler of cache.Options receives an
// [*informer.AuditError], and one list repairs the cache.
//
// # Differences from controller-runtime's cache
//
//   - Reads return objects ordered by namespace, then name. A List of several configured namespaces returns one
//     namespace after the other, and then all others if cache.AllNamespaces is one of them.
//   - A Get, List or GetInformer that waits for a first list fails with an error that says what is missing and why.
//   - A handler that receives a deletion which the cache missed receives it as such, even if an object of the same name
//     exists again: a deletion with toolscache.DeletedFinalStateUnknown, then an addition.
//   - A relist delivers no events for objects that did not change.
//   - An object that cannot be decoded does not keep the cache from syncing. Get of such an object returns an
//     [*informer.DecodeError], never NotFound, unless the cache has an older version of it. A List that may lack such
//     an object, which is any List of its namespace or of all, returns the other objects and an error: the labels and
//     fields of the object are not known, so no selector rules it out.
//   - cache.Options.NewInformer cannot be supported: it hides what to list in functions. So cannot
//     EnableWatchBookmarks: false, because the informers resume their watches from bookmarks.
//
// Handlers receive every change that the cache saw, in order, as in controller-runtime: the changes that wait for a
// slow handler take memory and are not folded. controller-runtime's own client needs that: it waits for the deletion of
// each object that it deletes, also of one that was created a moment before.
//
// # Metrics
//
// The requests of the cache count in the rest_client metrics of controller-runtime. Its registry also gets the metrics
// of client-go's reflectors and informers, under client-go's names; see metrics.go.
package crcache
