// Package informer keeps typed local copies of Kubernetes collections and tells you what changes: client-go's informers,
// stores and indexers with a type parameter that reaches from the HTTP body to your handler.
//
//	client, err := informer.NewClient(restConfig)
//	pods := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}, informer.Config[*corev1.Pod]{})
//	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
//		Update: func(old, new *corev1.Pod) { … },
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
// resource, *unstructured.Unstructured, or a struct of your own with JSON tags and just the fields that you need, which
// then are all that is decoded and held. *metav1.PartialObjectMetadata asks the server for metadata only. A type with
// generated protobuf code is asked for in protobuf, others in JSON.
//
// # What is promised
//
//   - A store is never a mixture: each read is from one [Snapshot], in which the objects, every index and the resource
//     version belong together. A list that replaces the world does so in one step.
//   - Readers take no lock. However many list, and however slowly, the store is written to at its own pace.
//   - A handler is told of changes one after the other, after the store has them. For each key they form a chain: old
//     is exactly what this handler was last given. An object that was deleted and created anew under its name is a
//     deletion and an addition, also when the deletion itself was missed.
//   - A slow handler holds up nobody, nor does one that panics if SubscriptionConfig.OnPanic says so. Changes of one key
//     that it has not read fold into one, so that its backlog never has more entries than there are keys; or, with
//     [Every], each is told, within a limit.
//   - A subscription at any time begins with what is there; nothing is missed or told twice.
//   - An object that cannot be decoded is reported, and holds up no other; its last good version stays.
//   - After a failure a watch goes on where it was. The collection is listed again only when the server no longer has
//     the changes since: see [Reflector].
//   - Memory is bounded: while decoding by what a few goroutines have at hand, 64 KiB or one object each; by a thousand
//     changes between the network and the store; and by one entry a key for each handler.
//   - A key of a [Queue] is in work once at a time, whatever it is asked for meanwhile, and none starves.
//   - Run returns when everything that it started has ended, within the time of the handler call under way.
//
// GUARANTEES.md has each rule with the tests that hold it, and what client-go does there.
//
// # What is not
//
// Do not write to an object that came from the package: it is shared with every reader, and with Config.Share parts of it
// are parts of other objects. Copy it first.
//
// Do not assume that a handler sees every version: it sees the last one, and what it was told before; with [Every] it sees
// those that the informer saw. Nor that the store
// is as it was when the change was made: it may be ahead of the handler, never behind.
//
// Order is kept for each key, and for one handler. There is none between handlers or informers.
//
// Do not block in an index's function or in Config.Transform: they run where the store is written to, and between the
// network and there, for one object at a time. The same goes for Config.OnDecodeError.
//
// metadata.managedFields are dropped unless Config.KeepManagedFields says otherwise. Do not send an object from the store
// back by Update if that matters to you; a patch or server-side apply does not mind.
//
// # From change to reconcile
//
// A [Queue] holds the keys to be worked on, each once, by priority, with delays and a rate limit. [EnqueueObject],
// [EnqueueOwner] and [Enqueue] return handlers that fill it, a [Predicate] says which events matter, and a [Controller]
// calls your function for each key, one worker a key, and again after a failure. What was there at first, and a resync,
// yields to changes as they happen. A [TypedClient] writes.
//
//	queue := informer.NewQueue[informer.Key](informer.QueueConfig[informer.Key]{})
//	ctl := &informer.Controller[informer.Key]{
//		Queue: queue,
//		Sources: []informer.Source{
//			websites.Subscribe(informer.EnqueueObject(queue, informer.GenerationChanged[*Website])),
//			deployments.Subscribe(informer.EnqueueOwner[*appsv1.Deployment](queue, informer.Owner{GroupKind: websiteKind})),
//		},
//		MaxConcurrentReconciles: 4,
//		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) { … },
//	}
//	err := ctl.Run(ctx)
//
// # Reading your own writes
//
// [Informer.WaitForObject] waits until the store has the object that a write returned; [Informer.WaitFor] until it has
// everything up to a resource version; [Informer.Await] until an object meets a condition, such as [HasCondition].
//
// # Testing
//
// Package informertest is an API server in the process. With its in-memory listener the whole way, HTTP included, runs
// in a bubble of testing/synctest, where an hour of backoff takes no time. Its DetectMutations finds who writes to cached
// objects. With the build tag assert each change of a store is checked.
//
// # Looking inside
//
// [Informer.Status] tells the state of each watch, the last failure, the resource version and the backlog of each
// handler; [Informer.WaitSynced] says what it waited for in vain.
//
// # Reading the source
//
// The data's way, file by file: client.go asks; decode.go, with json.go and protobuf.go, takes lists and watches apart while
// they arrive, and makes objects of their bytes by json_decode.go and protobuf_decode.go, which share.go saves memory for,
// or by libraries, which library.go limits; pipeline.go has that done by several goroutines when much comes at once;
// reflector.go lists and watches; fifo.go is the bounded queue to informer.go, which applies each batch to store.go
// (persistent trees, tree.go, a persistent array, versions.go, and a way around the trees, names.go) and its indexes
// (index.go), and then tells the listeners (listener.go). enqueue.go fills queue.go, which controller.go works off; write.go
// writes back. group.go shares informers, lister.go reads them as client-go's listers do; package k8s and the generator in
// codegen build on these. A lower file knows nothing of a higher one.
package informer
