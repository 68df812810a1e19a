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
//     [DeliverEvery], the handler receives each change, within a limit.
//   - A subscription at any time begins with what is there; nothing is missed or told twice.
//   - After [Subscription.Close] has returned, no call of the handler begins. Close waits for nothing, so any handler may
//     call it; Subscription.Done tells when the last call has returned.
//   - An object that cannot be decoded is reported, and holds up no other; its last good version stays.
//   - After a failure a watch goes on where it was. The collection is listed again only when the server no longer has
//     the changes since: see [Reflector].
//   - Memory is bounded. For each namespace that Resource names, or for all of them: a read buffer and at most five
//     batches of encoded objects, each of 64 KiB and one object, and what those batches were decoded into. For an
//     informer: four objects in decoding at once, and a thousand changes between the network and the store. For a
//     handler: one entry a key.
//   - No content of an object is in a log, a status or an error, unless Transform, a handler or the server puts it into an
//     error of its own. Config.OnDecodeError alone gets the bytes of an object that cannot be decoded.
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
// Do not assume that a handler sees every version: it sees the last one, and what it was told before; with [DeliverEvery] it sees
// those that the informer saw. Nor that the store
// is as it was when the change was made: it may be ahead of the handler, never behind.
//
// Order is kept for each key, and for one handler. There is none between handlers or informers.
//
// Do not block in a function that the informer calls. An index's function holds up the store. Config.Transform, Filter and
// OnDecodeError are called between the network and the store, one at a time for the whole informer. So a slow one holds up
// every namespace of that informer. Decoding goes on meanwhile, on up to four goroutines, with Filter or without. A type's
// own UnmarshalJSON is called by all of them at once, for different objects.
//
// Do not end the goroutine in such a function by runtime.Goexit, which is what FailNow and Fatal of a test do. In a
// function of Config, or in UnmarshalJSON, it fails the list or watch, which is tried again after a backoff. In an index's
// function it ends the informer. In a handler it ends the subscription. A panic crashes the program, except where an
// OnPanic takes it.
//
// metadata.managedFields are dropped unless Config.KeepManagedFields says otherwise. Do not send an object from the store
// back by Update if that matters to you; a patch or server-side apply does not mind.
//
// # From change to reconcile
//
// A [Controller] calls your function for each key, one worker a key, and again after a failure. [Controller.Watch] tells
// it where the keys come from: [EnqueueObject], [EnqueueOwner] and [Enqueue] choose them, and a [Predicate] says which
// events matter. The controller reconciles nothing before all that it watches has synced. A [Queue] holds the keys, each
// once, by priority, with delays and a rate limit: the initial list and a resync yield to changes as they happen. A
// [TypedClient] writes.
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
// [Informer.WaitForObject] waits until the store has the object that a write returned; [Informer.WaitForResourceVersion] until it has
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
// The way of one watch event, file by file. A file knows those above it in this list, and none below.
//
//	client.go      sends the request; progress.go limits how long each part of the response may take
//	watch.go       reads frame after frame (internal/decode), and gives the encoded object of each to an intake
//	intake.go      adds it to a batch; decoder.go looks whether the sink holds that version already
//	pipeline.go    runs the batch on a worker, or on the reader if only one event came, and keeps the order
//	decoder.go     asks Config.Filter, makes a T of the bytes (internal/decode), and calls Config.Transform
//	reflector.go   puts a Delta into its Sink, which then has everything up to the event's resource version
//	fifo.go        queues the delta; a full queue stops the reader, and so the server
//	informer.go    takes what came together, on the reader if that is little, and edit.go applies it in one step to store.go and
//	               index.go (internal/cow)
//	listener.go    adds the change to the backlog of each handler (backlog.go), whose goroutine calls the handler
//	enqueue.go     as a handler, adds keys to queue.go, from which controller.go reconciles; typedclient.go writes back
//
// A list takes the same way: list.go reads its pages, and the reflector puts them into the sink as one Replaced. reflector.go is
// the state machine that decides what to ask for next. wait.go has what callers wait for, group.go shares informers, and
// lister.go reads them as client-go's listers do; package k8s and the generator in codegen build on these.
package informer
