package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

var (
	chainRounds = flag.Int("chain.rounds", 1, "how often TestKilledFanOuts kills each server; 10 before a release")
	chainRate   = flag.Int("chain.rate", 100, "changes a second in TestKilledFanOuts")
)

const (
	chainObjects = 500
	chainLast    = 16 // objects that are written last, so that each shard has some
)

// chainFollower is one way to follow the config maps behind a fan-out.
type chainFollower struct {
	name, fanOut, library string
	shard                 informer.Shard
	wait                  func(informer.Key, uint64) <-chan struct{}
	world                 func() map[informer.Key]*corev1.ConfigMap
	check                 func() []string // what it received wrongly
	lists                 func() map[status.Reason]int
}

// TestKilledFanOuts runs two fan-outs in a row in front of the API server. Each of them, both, and the API server are killed while
// objects change, and start again. Those behind the first and behind the second one lose nothing, receive nothing twice and never go
// back in time: our informers and reflectors, those of shards, and client-go's. A list of everything without a resource version has
// all that was written before.
func TestKilledFanOuts(t *testing.T) {
	l := newLedger(t, []string{newNamespace(t), newNamespace(t)})
	l.fill(chainObjects)
	near := newFanOut(t, server.Config(), "v1/configmaps")
	far := newFanOut(t, near.config(), "v1/configmaps")
	var followers []chainFollower
	for name, f := range map[string]*fanOut{"near": near, "far": far} {
		readFresh(t, l, name, f.config()) // waits until the fan-out serves
		followers = append(followers, followChain(t, l, name, f.config())...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	churn := func(d time.Duration) {
		l.churn(d, *chainRate, random, func() informer.Key { return l.key(random.IntN(chainObjects)) })
	}
	for round := range *chainRounds {
		for _, fault := range []struct {
			name        string
			kill, start func()
		}{
			{"nothing", func() {}, func() {}},
			{"near", near.kill, near.start},
			{"far", far.kill, far.start},
			{"both", func() { near.kill(); far.kill() }, func() { near.start(); far.start() }},
			{"the API server", func() { mustDo(t, server.KillAPIServer) }, func() { mustDo(t, func() error { return server.StartAPIServer(t.Context()) }) }},
		} {
			var writes sync.WaitGroup
			writes.Go(func() { churn(4 * time.Second) })
			<-time.After(time.Second)
			fault.kill()
			<-time.After(time.Second)
			fault.start()
			writes.Wait()
			for name, f := range map[string]*fanOut{"near": near, "far": far} {
				readFresh(t, l, name, f.config())
			}
			settleChain(t, l, followers, fmt.Sprintf("round %d, killed %s", round, fault.name))
		}
	}
	var lists []map[status.Reason]int // of each follower
	for _, f := range followers {
		for _, fault := range f.check() {
			t.Errorf("%s: %s", f.name, fault)
		}
		if f.lists == nil {
			lists = append(lists, nil)
			continue
		}
		lists = append(lists, f.lists())
		t.Logf("%s: lists %v", f.name, lists[len(lists)-1])
	}
	// A fan-out that was killed no longer has the changes since then, nor has one that is behind it. So those behind it list. The
	// same happens when the API server is killed after a write, and before near has received that: the new API server does not have
	// the change either.
	missed := *chainRounds
	for i, f := range followers {
		if f.fanOut == "near" && lists[i] != nil {
			missed = min(missed, max(lists[i][status.ReasonExpired]-2**chainRounds, 0))
		}
	}
	for i, f := range followers {
		if lists[i] == nil {
			continue
		}
		least := 2**chainRounds + missed
		most := least
		if f.fanOut == "far" {
			most += *chainRounds
		}
		n := lists[i][status.ReasonExpired]
		for reason := range lists[i] {
			if reason != status.ReasonFirst && reason != status.ReasonExpired && reason != status.ReasonFailed { // the next try
				n = -1
			}
		}
		if lists[i][status.ReasonFirst] != 1 || n < least || n > most {
			t.Errorf("%s has listed because of %v, want once first, and %d to %d times because of 410 Expired", f.name, lists[i], least, most)
		}
	}
}

func mustDo(t *testing.T, do func() error) {
	t.Helper()
	if err := do(); err != nil {
		t.Fatal(err)
	}
}

// followChain starts the followers of one fan-out.
func followChain(t *testing.T, l *ledger, fanOut string, config *rest.Config) (followers []chainFollower) {
	t.Helper()
	as := func(contentType string) *rest.Config {
		c := rest.CopyConfig(config)
		c.ContentType, c.AcceptContentTypes = contentType, contentType
		return c
	}
	client := func(contentType string) *informer.Client {
		c, err := informer.NewClient(as(contentType))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const JSON, protobuf = runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	inform := func(name, contentType string, shard informer.Shard, settings informer.Config[*corev1.ConfigMap]) {
		settings.KeepManagedFields = true
		inf := informer.New(client(contentType), informer.Resource{GroupVersionResource: configMapsResource, Shard: shard}, soakConfig(t, settings))
		told := newMirror[*corev1.ConfigMap]()
		inf.Subscribe(told)
		start(t, inf)
		followers = append(followers, chainFollower{
			name: fanOut + ", " + name, fanOut: fanOut, library: "informer", shard: shard, wait: told.wait,
			world: func() map[informer.Key]*corev1.ConfigMap {
				world := map[informer.Key]*corev1.ConfigMap{}
				for obj := range inf.Store().All() {
					world[informer.KeyOf(obj)] = obj
				}
				return world
			},
			check: func() []string {
				told.mu.Lock()
				defer told.mu.Unlock()
				if digest(slices.Collect(maps.Values(told.world))) != digest(inf.Store().List()) {
					told.fault("the received objects differ from the store")
				}
				return told.faults
			},
			lists: func() map[status.Reason]int { return inf.Status().Reflectors[0].Traffic.ListsBy },
		})
	}
	inform("JSON", JSON, informer.Shard{}, informer.Config[*corev1.ConfigMap]{})
	inform("paged protobuf", protobuf, informer.Shard{}, informer.Config[*corev1.ConfigMap]{PagedList: true})
	inform("first half", protobuf, informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1<<63 - 1}}}, informer.Config[*corev1.ConfigMap]{})
	inform("second half", JSON, informer.Shard{Ranges: []informer.HashRange{{First: 1 << 63, Last: 1<<64 - 1}}}, informer.Config[*corev1.ConfigMap]{})
	return append(followers, recordChain(t, l, fanOut, client(protobuf)), followClientGo(t, fanOut, as(protobuf)))
}

// recordChain starts a reflector that records every change.
func recordChain(t *testing.T, l *ledger, fanOut string, client *informer.Client) chainFollower {
	t.Helper()
	written := newTape[*corev1.ConfigMap](l.namespaces)
	l.listen(written.expect)
	r, err := informer.NewReflector(client, informer.Resource{GroupVersionResource: configMapsResource}, written, soakConfig(t, informer.Config[*corev1.ConfigMap]{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return chainFollower{
		name: fanOut + ", reflector", fanOut: fanOut, library: "informer", wait: written.wait, check: written.check,
		lists: func() map[status.Reason]int { return r.Status().Traffic.ListsBy },
	}
}

// followClientGo starts a client-go informer.
func followClientGo(t *testing.T, fanOut string, config *rest.Config) chainFollower {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	inf := factory.Core().V1().ConfigMaps().Informer()
	told := newMirror[*corev1.ConfigMap]()
	deleted := func(obj any) {
		final := true
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj, final = unknown.Obj, false
		}
		told.OnDelete(obj.(*corev1.ConfigMap), final)
	}
	_, err = inf.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { told.OnAdd(obj.(*corev1.ConfigMap), initial) },
		UpdateFunc: func(old, obj any) { told.OnUpdate(old.(*corev1.ConfigMap), obj.(*corev1.ConfigMap)) },
		DeleteFunc: deleted,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	factory.StartWithContext(ctx)
	t.Cleanup(func() { stop(); factory.Shutdown() })
	if !cache.WaitForCacheSync(within(t, patience).Done(), inf.HasSynced) {
		t.Fatalf("client-go behind %s does not sync", fanOut)
	}
	return chainFollower{
		name: fanOut + ", client-go", fanOut: fanOut, library: "client-go", wait: told.wait,
		world: func() map[informer.Key]*corev1.ConfigMap {
			world := map[informer.Key]*corev1.ConfigMap{}
			for _, obj := range inf.GetStore().List() {
				world[informer.KeyOf(obj.(*corev1.ConfigMap))] = obj.(*corev1.ConfigMap)
			}
			return world
		},
		// client-go reports an object that was deleted and created again as an update, and repeats versions after a list. So its
		// events are not checked, only what it holds.
		check: func() []string { return nil },
	}
}

// settleChain writes some last objects, waits until all followers have them, and compares what they hold with the API server.
func settleChain(t *testing.T, l *ledger, followers []chainFollower, when string) {
	t.Helper()
	ctx := within(t, soakPatience)
	var last []commit
	for i := range chainLast {
		key := informer.Key{Namespace: l.namespaces[i%len(l.namespaces)], Name: fmt.Sprintf("%s-%d", lastName, i)}
		l.set(key, "a")
		last = append(last, l.get(key))
	}
	server := map[informer.Key]*corev1.ConfigMap{}
	list, err := l.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range list.Items {
		server[informer.KeyOf(&obj)] = &obj
	}
	began, took := time.Now(), make([]time.Duration, len(followers))
	var waits sync.WaitGroup
	for i, f := range followers {
		waits.Go(func() {
			for _, c := range last {
				if !f.shard.Has(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.key.Namespace, UID: c.uid}}) {
					continue
				}
				select {
				case <-f.wait(c.key, c.version):
				case <-ctx.Done():
					t.Errorf("%s: %s did not get %+v within %v", when, f.name, c, soakPatience)
				}
			}
			took[i] = time.Since(began).Round(time.Millisecond)
		})
	}
	waits.Wait()
	if t.Failed() {
		t.FailNow()
	}
	slowest := map[string]time.Duration{}
	for i, f := range followers {
		slowest[f.library] = max(slowest[f.library], took[i])
	}
	t.Logf("%s: the slowest followers have the last write after %v", when, slowest)
	for _, f := range followers {
		if f.world == nil {
			continue
		}
		world := f.world()
		for key, want := range server {
			got, held := world[key]
			switch in := f.shard.Has(want); {
			case held != in:
				t.Errorf("%s: %s has %s: %v, want %v", when, f.name, key, held, in)
			case in && !apiequality.Semantic.DeepEqual(got, want):
				t.Errorf("%s: %s in %s differs: %v, want %v", when, key, f.name, got, want)
			}
			delete(world, key)
		}
		for key := range world {
			t.Errorf("%s: %s has %s, which does not exist", when, f.name, key)
		}
	}
}

// readFresh writes to the API server, and lists through a fan-out at once. The list has what was written.
func readFresh(t *testing.T, l *ledger, fanOut string, config *rest.Config) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		key := informer.Key{Namespace: l.namespaces[0], Name: fmt.Sprint("fresh-", fanOut)}
		l.set(key, "a")
		want, began := l.get(key).version, time.Now()
		list, err := client.CoreV1().ConfigMaps(key.Namespace).List(within(t, patience), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		position := slices.IndexFunc(list.Items, func(cm corev1.ConfigMap) bool { return cm.Name == key.Name })
		if position < 0 || versionOf(&list.Items[position]) < want || versionOf(list) < want {
			t.Errorf("list %d through %s is at %s, without %s at %d", i, fanOut, list.ResourceVersion, key, want)
		}
		if i == 0 {
			t.Logf("a list through %s took %v", fanOut, time.Since(began).Round(time.Millisecond))
		}
	}
}
