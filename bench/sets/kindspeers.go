package main

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/kinds"
)

// followBySet follows by this library.
func followBySet(ctx context.Context, config *rest.Config, logger *slog.Logger,
	add func(metav1.Object)) (count func() (all, synced int), err error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	set := kinds.New(client, kinds.Config[*metav1.PartialObjectMetadata]{Logger: logger})
	set.Subscribe(kinds.HandlerFuncs[*metav1.PartialObjectMetadata]{
		AddFunc: func(_ schema.GroupResource, obj *metav1.PartialObjectMetadata, _ bool) { add(obj) },
	}, kinds.SubscriptionConfig{})
	go func() { _ = set.Run(ctx) }()
	var synced atomic.Int64
	go func() {
		if set.WaitSynced(ctx) == nil {
			synced.Store(int64(len(set.Kinds())))
		}
	}()
	return func() (int, int) { return int(synced.Load()), int(synced.Load()) }, nil
}

// peerKinds are the kinds of a program on another library. Programs serialize their calls of follow.
type peerKinds struct {
	discovery discovery.DiscoveryInterface
	start     func(ctx context.Context, kind schema.GroupVersionResource) (toolscache.SharedInformer, error)
	add       func(metav1.Object)

	mu   sync.Mutex
	have map[schema.GroupVersionResource]*peerKind
}

type peerKind struct {
	synced func() bool
	stop   context.CancelFunc
}

// objectOf returns what a handler of client-go has received.
func objectOf(obj any) metav1.Object {
	o, err := meta.Accessor(obj)
	if err != nil {
		panic(err) // informers have objects only
	}
	return o
}

// follow asks discovery, starts an informer of each kind that is new, and stops those of kinds that are gone.
func (k *peerKinds) follow(ctx context.Context) error {
	lists, err := k.discovery.ServerPreferredResources()
	if len(lists) == 0 && err != nil {
		return err
	}
	able := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, lists)
	present, err := discovery.GroupVersionResources(able)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for kind, running := range k.have {
		if _, ok := present[kind]; !ok {
			running.stop()
			delete(k.have, kind)
		}
	}
	for kind := range present {
		if k.have[kind] != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		inf, err := k.start(own, kind)
		if err != nil {
			stop()
			return err
		}
		if _, err := inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { k.add(objectOf(obj)) }}); err != nil {
			stop()
			return err
		}
		k.have[kind] = &peerKind{inf.HasSynced, stop}
	}
	return nil
}

// has reports whether it follows the kind with that name of a definition.
func (k *peerKinds) has(definition string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for kind := range k.have {
		if kind.GroupResource().String() == definition {
			return true
		}
	}
	return false
}

func (k *peerKinds) count() (all, synced int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kind := range k.have {
		if kind.synced() {
			synced++
		}
	}
	return len(k.have), synced
}

// startStripped starts an informer without managedFields, which ours drop by default.
func startStripped(ctx context.Context, inf toolscache.SharedIndexInformer) error {
	err := inf.SetTransform(cache.TransformStripManagedFields())
	if err == nil {
		go inf.RunWithContext(ctx)
	}
	return err
}

// followByMonitors does as Kubernetes' garbage collector: metadata informers, and discovery each 30 s.
func followByMonitors(ctx context.Context, config *rest.Config, _ *slog.Logger,
	add func(metav1.Object)) (count func() (all, synced int), err error) {
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	k := &peerKinds{discovery: asking, add: add, have: map[schema.GroupVersionResource]*peerKind{}}
	k.start = func(ctx context.Context, kind schema.GroupVersionResource) (toolscache.SharedInformer, error) {
		inf := metadatainformer.NewFilteredMetadataInformer(client, kind, "", 0, toolscache.Indexers{}, nil).Informer()
		return inf, startStripped(ctx, inf)
	}
	if err := k.follow(ctx); err != nil {
		return nil, err
	}
	go func() {
		for {
			select {
			case <-time.After(30 * time.Second):
				_ = k.follow(ctx) // the next round tries again
			case <-ctx.Done():
				return
			}
		}
	}()
	return k.count, nil
}

// followByDefinitions does as the GitOps programs: dynamic informers, and discovery at each change of a definition.
func followByDefinitions(ctx context.Context, config *rest.Config, _ *slog.Logger,
	add func(metav1.Object)) (count func() (all, synced int), err error) {
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	k := &peerKinds{discovery: asking, add: add, have: map[schema.GroupVersionResource]*peerKind{}}
	k.start = func(ctx context.Context, kind schema.GroupVersionResource) (toolscache.SharedInformer, error) {
		inf := dynamicinformer.NewFilteredDynamicInformer(client, kind, "", 0, toolscache.Indexers{}, nil).Informer()
		return inf, startStripped(ctx, inf)
	}
	if err := k.follow(ctx); err != nil {
		return nil, err
	}
	definitions := dynamicinformer.NewFilteredDynamicInformer(client, definitionsResource, "", 0, toolscache.Indexers{}, nil).Informer()
	changes := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	changed := func(obj any) { changes.Add(objectOf(obj).GetName()) }
	registration, err := definitions.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) },
	})
	if err != nil {
		return nil, err
	}
	go definitions.RunWithContext(ctx)
	if err := until(ctx, registration.HasSynced); err != nil {
		return nil, err
	}
	for changes.Len() > 0 { // the first discovery had them
		name, _ := changes.Get()
		changes.Done(name)
	}
	go func() {
		for {
			name, shutdown := changes.Get()
			if shutdown {
				return
			}
			if err := k.follow(ctx); err != nil || !k.has(name) { // discovery may lag behind the definition
				changes.AddRateLimited(name)
			} else {
				changes.Forget(name)
			}
			changes.Done(name)
		}
	}()
	go func() {
		<-ctx.Done()
		changes.ShutDown()
	}()
	return k.count, nil
}

// followByCache has a cache of controller-runtime, whose informers start when a definition is established.
func followByCache(ctx context.Context, config *rest.Config, _ *slog.Logger,
	add func(metav1.Object)) (count func() (all, synced int), err error) {
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	c, err := cache.New(config, cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, err
	}
	kindsOf := map[schema.GroupVersionResource]schema.GroupVersionKind{}
	k := &peerKinds{discovery: asking, add: add, have: map[schema.GroupVersionResource]*peerKind{}}
	get := func(ctx context.Context, kind schema.GroupVersionKind) (cache.Informer, error) {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(kind)
		return c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	}
	lists, err := asking.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			kindsOf[gv.WithResource(r.Name)] = gv.WithKind(r.Kind)
		}
	}
	take := func(kind schema.GroupVersionResource, inf cache.Informer) error {
		k.have[kind] = &peerKind{synced: inf.HasSynced}
		_, err := inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { add(objectOf(obj)) }})
		return err
	}
	for kind := range discoveryKinds(lists) {
		inf, err := get(ctx, kindsOf[kind])
		if err != nil {
			return nil, err
		}
		if err := take(kind, inf); err != nil {
			return nil, err
		}
	}
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(definitionsResource.GroupVersion().WithKind("CustomResourceDefinition"))
	definitions, err := c.GetInformer(ctx, definition, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	established := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[schema.GroupVersionKind]())
	see := func(obj any) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok || !isEstablished(u) {
			return
		}
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		established.Add(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	}
	if _, err := definitions.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) },
	}); err != nil {
		return nil, err
	}
	go func() { _ = c.Start(ctx) }()
	go func() {
		for {
			kind, shutdown := established.Get()
			if shutdown {
				return
			}
			if err := k.takeNew(ctx, kind, get, take); err != nil {
				established.AddRateLimited(kind)
			} else {
				established.Forget(kind)
			}
			established.Done(kind)
		}
	}()
	go func() {
		<-ctx.Done()
		established.ShutDown()
	}()
	return k.count, nil
}

// takeNew starts the informer of a kind that a definition has established.
func (k *peerKinds) takeNew(ctx context.Context, kind schema.GroupVersionKind,
	get func(context.Context, schema.GroupVersionKind) (cache.Informer, error),
	take func(schema.GroupVersionResource, cache.Informer) error) error {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.have[plural] != nil {
		return nil
	}
	inf, err := get(ctx, kind)
	if err != nil {
		return err
	}
	return take(plural, inf)
}

func isEstablished(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// discoveryKinds returns the kinds that can be listed and watched.
func discoveryKinds(lists []*metav1.APIResourceList) map[schema.GroupVersionResource]struct{} {
	able := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, lists)
	present, err := discovery.GroupVersionResources(able)
	if err != nil {
		panic(err) // the versions were parsed before
	}
	return present
}
