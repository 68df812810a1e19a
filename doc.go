// Package informer keeps typed local copies of Kubernetes collections and delivers their changes. It offers client-go's
// informers, stores and indexers with a type parameter that reaches from the HTTP body to your handler.
//
//	client, err := informer.NewClient(restConfig)
//	resource := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
//	pods := informer.New(client, resource, informer.Config[*corev1.Pod]{})
//	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
//		UpdateFunc: func(old, new *corev1.Pod) { … },
//	})
//	go pods.Run(ctx)
//	err = pods.WaitSynced(ctx)
//
//	pod, ok := pods.Store().Get(informer.Key{Namespace: "default", Name: "web-0"})
//	for pod := range byNode.Lookup("node-7") { … }
//
// # Types
//
// The type parameter is a pointer to a struct that is an [Object]: a type of k8s.io/api, the Go type of a custom
// resource, *unstructured.Unstructured, or a struct of your own with JSON tags. The informer decodes and holds only the
// fields that the struct has. For *metav1.PartialObjectMetadata it requests metadata only. It requests protobuf for a
// type with generated protobuf code, and JSON for others.
//
// # Guarantees
//
//   - Reads are consistent. Each read sees one [Snapshot], in which the objects, every index and the resource version
//     belong together. A list replaces the contents of the store in one step.
//   - Readers take no lock. They never delay the writer, regardless of their number and of how long they iterate.
//   - A handler receives changes one at a time, after the store has them. The changes of each key form a chain: old is
//     exactly the object that this handler received last. If an object is deleted and recreated under the same name,
//     the handler receives a deletion and an addition, even if the informer missed the deletion.
//   - A slow handler does not delay other handlers, nor does a panicking one if SubscriptionConfig.OnPanic is set.
//     Unread changes of one key fold into one, so the backlog has at most one entry for each key. With [DeliverEvery],
//     the handler receives each change, within a limit.
//   - A subscription may begin at any time. It starts with the objects in the store. No change is missed or delivered
//     twice.
//   - After [Subscription.Close] has returned, no call of the handler begins. Close does not wait for handlers, so any
//     handler may call it. The channel of Subscription.Done is closed when the last call has returned.
//   - If an object cannot be decoded, the informer reports it, keeps its last good version and continues with the
//     others. The store knows that the object exists: see Store.Undecodable. A Lister returns an error for it, never
//     NotFound.
//   - After a failure, a watch resumes at its resource version. The informer lists the collection again only when the
//     server no longer has the changes since that version; see [Reflector].
//   - Memory is bounded. Each list or watch has a read buffer and at most five batches of encoded objects, plus the
//     objects decoded from them. A batch has at most 64 KiB plus one object. An informer decodes at most four objects
//     at once, and holds at most a thousand changes between the network and the store. The backlog of a handler has at
//     most one entry for each key, plus those of DeliverEvery.
//   - No log, status or error contains content of an object, unless Transform, a handler or the server puts it into an
//     error of its own. Only Config.OnDecodeError receives the bytes of an object that cannot be decoded.
//   - At most one worker of a [Queue] has a key at a time, even if the key is added meanwhile. No key starves.
//   - Run returns after everything that it started has ended. It waits for the handler calls under way.
//
// GUARANTEES.md lists each rule, and compares it with client-go.
//
// # Rules for callers
//
// Do not write to an object that came from the package: every reader shares it, and other objects share parts of it.
// Copy it first. A controller that writes to cached objects needs [LayoutSeparate] until it does not.
//
// With [LayoutCompact], each read decodes objects from compressed bytes, which takes microseconds for each. So do not
// read the whole collection where an [Index] or a [Lister] finds what you need.
//
// Do not assume that a handler sees every version. It sees the latest one, and the version that it received before.
// With [DeliverEvery] it sees each version that the informer saw. The store may be ahead of the handler, never behind.
//
// Each handler receives the changes of a key in order. Calls of different handlers or informers have no order.
//
// Do not block in a function that the informer calls. A slow index function blocks writes to the store. The informer
// calls Config.Transform, Filter, OnDecodeError and OnFailure between the network and the store, one at a time. So a
// slow function delays every namespace of that informer. Up to four goroutines decode meanwhile. They call a type's own
// UnmarshalJSON concurrently, for different objects.
//
// Do not call runtime.Goexit in such a function, as FailNow and Fatal of a test do. In a function of Config, or in
// UnmarshalJSON, it fails the list or watch, which the informer retries after a backoff. In an index function it ends
// the informer. In a handler it ends the subscription. A panic crashes the program, unless an OnPanic recovers it.
//
// The informer drops metadata.managedFields unless Config.KeepManagedFields is set. After an Update with such an
// object, the server keeps those that it has, and adds the change.
//
// # From change to reconcile
//
// A [Controller] calls your function for each key, one worker per key, and again after a failure. [Controller.Watch]
// adds a source of keys: [EnqueueObject], [EnqueueOwner], [EnqueueSelecting] and [Enqueue] choose the keys, and a
// [Predicate] selects events. The controller starts when all its sources have synced. A [Queue] holds each key once, by
// priority, with delays and a rate limit: the initial list and a resync yield to changes as they happen. A
// [TypedClient] writes. Package leader elects one of several replicas, which then runs the controller.
//
//	ctl := &informer.Controller[informer.Key]{
//		MaxConcurrentReconciles: 4,
//		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) { … },
//	}
//	ctl.Watch(informer.EnqueueObject(websites, informer.GenerationChanged))
//	ctl.Watch(informer.EnqueueOwner(deployments, informer.Owner{GroupKind: websiteKind}))
//	err := ctl.Run(ctx)
//
// # Reading your own writes
//
// [Informer.WaitForObject] waits until the store has the object that a write returned.
// [Informer.WaitForResourceVersion] waits until it has every change up to a resource version. [Informer.Await] waits
// until an object meets a condition, such as [HasCondition].
//
// # Testing
//
// Package informertest is an API server in the process. With its in-memory listener, the whole path, including HTTP,
// runs in a bubble of testing/synctest, where an hour of backoff takes no time. Its DetectMutations finds code that
// writes to cached objects. With the build tag assert, the store checks its invariants after each change.
//
// # Memory on demand
//
// Package readthrough watches only the metadata of a collection and fetches whole objects on demand. Use it for large
// collections that are rarely read, such as Secrets.
//
// # Shards
//
// Replicas can share a large collection: with Resource.Shard, each holds only a part of it, and [Informer.SetShard]
// changes the part while the informer runs. [Controller.Own] makes a controller reconcile only some keys. Package shard
// does both: replicas announce themselves through Leases and divide the objects, and at most one replica reconciles a
// key at a time.
//
// # Many clusters
//
// Package fleet follows one kind in many clusters, as if they were one. Informers that have the same [Config].Parts
// share equal parts of their objects.
//
// # Warm start
//
// With [Config].WarmStart, an informer saves its objects, and the next start resumes the watch from there instead of
// listing the collection. If it cannot, it lists and says why; see [WarmStartConfig].
//
//	config.WarmStart.Storage = informer.WarmStartDir("/var/cache/my-controller")
//
// # Audit
//
// [Informer.Audit] proves that a store equals the server: it compares UID and resource version of each object with a
// list of metadata at exactly the version of the store. The informer audits by itself after a warm start, after a
// minute without a watch, and every Config.AuditEvery. It reports a difference and repairs it by a list.
//
// # Diagnosis
//
// [Informer.Status] returns what each watch does and waits for, the last failure, the resource version, and the backlog
// and the times of each handler. Queues, controllers and clients have a status too. If [Informer.WaitSynced] fails, its
// error names what is missing. The log has one line for each state that a watch enters, and no lines while all is well.
//
// Other packages build on these: health has handlers for readiness and liveness probes, debugpage a page for the
// browser, module informerprom metrics for Prometheus, and module informerotel spans for OpenTelemetry. Package manager
// runs a whole program. In profiles, goroutines have labels that name their informer, handler or controller.
//
// # Reading the source
//
// The root has the nouns and their contracts, one file for each; internal has their engines. Follow one of these walks.
// Each step passes on by a call, through a queue, or as a result.
//
// An event of a watch:
//
//	reflector.go             makes the loop of internal/source/reflector, which watches from the version that the sink has
//	internal/source/fetch    sends the request (internal/source/transport), and reads the frames of the response
//	internal/source/intake   collects objects in batches, which workers of internal/run take: they skip versions that the
//	                         store has, call Config.Filter, decode the bytes into a T (internal/source/decode), and call
//	                         Config.Transform
//	internal/store/compact   with LayoutCompact only: compresses the bytes instead
//	internal/source/reflector makes a Delta of the result, and puts it into its sink, which is at that version then
//	internal/informer        is the sink: a feed queues the delta in a buffer (internal/deliver/fifo), which blocks the
//	                         reader, and so the server, if it is full. The mirror takes a batch, on the goroutine of the
//	                         reader if it is small. An edit (internal/informer/edits) applies it to the store and its
//	                         indexes in one step (internal/store/table)
//	internal/deliver         adds the change to the backlog of each handler, whose goroutine calls the handler
//	internal/store/compact   with LayoutCompact only: decodes what the handler receives
//
// A read of the store, which takes no lock:
//
//	lister.go                is a view of a store as client-go's listers have it
//	store.go                 finds objects by key in the snapshot that internal/informer has published
//	internal/store/table     has the objects by key and each index, in trees of internal/store/cow that versions share
//	index.go                 finds objects by a key of an index; orderedindex.go finds them in an order, and
//	                         selectorindex.go by the labels that they select
//
// A key of a queue:
//
//	enqueue.go               has handlers that add keys; those of enqueueselecting.go follow label selectors
//	queue.go                 holds each key once, by priority (internal/queue/queue)
//	controller.go            takes keys and reconciles them (internal/queue/controller), while its gate.go is open
//	ownwrites.go             delays a key until the stores have what its last reconcile wrote (internal/queue/ownwrites)
//
// A write:
//
//	typedclient.go           reads and writes single objects
//	internal/typedclient     sends the request, decodes the answer, and notes the writes of a reconcile
//	internal/source/transport has the connection, the limits of requests, and what is known of the server; see client.go
//
// A start:
//
//	informer.go              checks the Config, and ties the parts together; group.go shares informers (internal/group)
//	wait.go                  waits until the store has all objects, and says what is missing if it does not
//	internal/informer        has the store and the handlers, and a mirror with a feed for each namespace or selection
//	internal/source/reflector loads a saved state in place of the first list (internal/source/warmstart), or lists
//
// A list takes the path of an event, and arrives as one Replaced. After a failure, internal/source/fetch finds out
// what a 404 means, and chooses the next request. internal/source/reshard changes the shard of all reflectors of an
// informer. In internal/informer, selections merge several mirrors into one store (internal/informer/selections), and
// audit compares a store with the server. A [Reflector] of your own has the same engine, and converts its deltas for a
// [Sink]; a [StoreWriter] converts them back. All use the words of internal/object for an object, its key and
// its versions, and those of internal/shardset for a shard. What a room reports is a value of package status, which the
// room makes and a user reads. Package k8s and the generator in codegen build on the root, and so do leader and shard,
// which hold their Leases with internal/lease.
//
// The test of a file stands beside it. Tests of whole informers, through their exported API only, are in
// internal/test/suite, one folder or file for each subject. internal/tools/guarantees prints the tests of a rule.
package informer
