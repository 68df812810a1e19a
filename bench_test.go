package informer

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// The benchmarks measure this package beside client-go, on the pods of internal/test/fleet. Both implementations share a name,
// with impl=informer and impl=client-go, so that benchstat -col /impl compares them; see BENCHMARKS.md.
//
// This file has the benchmarks of stores. Those of handlers are in bench_notify_test.go, those of decoding, memory, whole
// informers and queues in internal/test/suite/bench.

var podResource = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}

// trimmed returns the part of pod that the benchmarks of stores and handlers need: neither store reads more of an object,
// and 100,000 whole pods take a gigabyte.
func trimmed(pod *corev1.Pod) *corev1.Pod {
	small := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	small.ManagedFields = nil
	small.Spec.NodeName = pod.Spec.NodeName
	small.Status.Phase = pod.Status.Phase
	return small
}

// manyPods returns 100,000 trimmed pods in 50 namespaces and on 50 nodes, so some nodes and namespaces have about 2,000
// of them.
var manyPods = sync.OnceValue(func() []*corev1.Pod {
	var pods []*corev1.Pod
	for pod := range fleet.New(fleet.Config{Pods: 100_000, Namespaces: 50, Nodes: 50}).All() {
		pods = append(pods, trimmed(pod))
	}
	return pods
})

// otherVersions returns the same pods with another resourceVersion.
func otherVersions(pods []*corev1.Pod) []*corev1.Pod {
	others := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		other := *pod
		other.ResourceVersion = "9" + pod.ResourceVersion
		others[i] = &other
	}
	return others
}

func nodeOf(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }

const byNode = "node"

// nodeIndexers has the namespace index of client-go's factories, and one by node.
var nodeIndexers = cache.Indexers{
	cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	byNode:               func(obj any) ([]string, error) { return nodeOf(obj.(*corev1.Pod)), nil },
}

// filledStore returns a store filled by one list of pods.
func filledStore(pods []*corev1.Pod) *Store[*corev1.Pod] {
	s, w := NewStore[*corev1.Pod]()
	w.Apply(Delta[*corev1.Pod]{Type: Replaced, Items: pods, ResourceVersion: "1"})
	return s
}

func filledIndexer(b *testing.B, pods []*corev1.Pod, indexers cache.Indexers) cache.Indexer {
	b.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
	items := make([]any, len(pods))
	for i, pod := range pods {
		items[i] = pod
	}
	if err := indexer.Replace(items, "1"); err != nil {
		b.Fatal(err)
	}
	return indexer
}

// readers has client-go's store and ours, both with manyPods.
type readers struct {
	indexer cache.Indexer
	lister  corelisters.PodLister
	store   *Store[*corev1.Pod]
	byNode  *Index[*corev1.Pod, string]
}

func newReaders(b *testing.B) readers {
	b.Helper()
	indexer := filledIndexer(b, manyPods(), nodeIndexers)
	store := filledStore(manyPods())
	return readers{indexer, corelisters.NewPodLister(indexer), store, NewIndex(store, nodeOf)}
}

func BenchmarkGet(b *testing.B) {
	r := newReaders(b)
	pods := manyPods()
	keys := make([]Key, 1<<16)
	joined := make([]string, len(keys))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		key := KeyOf(pods[random.IntN(len(pods))])
		keys[i] = Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)} // keys that share no memory with the store
		joined[i] = key.String()
	}
	measure := func(b *testing.B, get func(i int) *corev1.Pod) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if get(i%len(keys)) == nil {
				b.Fatal("not found")
			}
		}
	}
	b.Run("impl=client-go", func(b *testing.B) {
		measure(b, func(i int) *corev1.Pod {
			pod, _ := r.lister.Pods(keys[i].Namespace).Get(keys[i].Name)
			return pod
		})
	})
	b.Run("impl=informer", func(b *testing.B) {
		measure(b, func(i int) *corev1.Pod {
			pod, _ := r.store.Get(keys[i])
			return pod
		})
	})
	b.Run("impl=client-go-raw", func(b *testing.B) { // for callers that have the key as one string
		measure(b, func(i int) *corev1.Pod {
			obj, _, _ := r.indexer.GetByKey(joined[i])
			pod, _ := obj.(*corev1.Pod)
			return pod
		})
	})
}

// BenchmarkList reads all 100,000 objects: form=slice into a slice, form=each one by one. client-go makes a slice in both
// cases.
func BenchmarkList(b *testing.B) {
	r := newReaders(b)
	want := len(manyPods())
	list := func() []*corev1.Pod {
		pods, _ := r.lister.List(labels.Everything())
		return pods
	}
	b.Run("form=slice/impl=client-go", func(b *testing.B) { countEach(b, want, func() int { return len(list()) }) })
	b.Run("form=slice/impl=informer", func(b *testing.B) { countEach(b, want, func() int { return len(r.store.List()) }) })
	b.Run("form=slice/impl=client-go-raw", func(b *testing.B) {
		countEach(b, want, func() int { return len(r.indexer.List()) })
	})
	b.Run("form=each/impl=client-go", func(b *testing.B) {
		countEach(b, want, func() int { return count(slices.Values(list())) })
	})
	b.Run("form=each/impl=informer", func(b *testing.B) {
		countEach(b, want, func() int { return count(r.store.All()) })
	})
}

// BenchmarkIndexLookup reads the objects of the node, and of the namespace, with nearly 2,000 objects: 1,997 and 1,865.
// Our store needs no index for namespaces.
func BenchmarkIndexLookup(b *testing.B) {
	r := newReaders(b)
	node, onNode := nearest(2000, nodeOf)
	namespace, inNamespace := nearest(2000, func(pod *corev1.Pod) []string { return []string{pod.Namespace} })
	byIndex := func(index, key string) []any {
		objs, _ := r.indexer.ByIndex(index, key)
		return objs
	}
	b.Run("by=node/form=slice/impl=client-go", func(b *testing.B) {
		countEach(b, onNode, func() int { return len(byIndex(byNode, node)) })
	})
	b.Run("by=node/form=slice/impl=informer", func(b *testing.B) {
		countEach(b, onNode, func() int { return len(r.byNode.List(node)) })
	})
	b.Run("by=node/form=each/impl=client-go", func(b *testing.B) {
		countEach(b, onNode, func() int {
			n := 0
			for _, obj := range byIndex(byNode, node) {
				if obj.(*corev1.Pod) != nil {
					n++
				}
			}
			return n
		})
	})
	b.Run("by=node/form=each/impl=informer", func(b *testing.B) {
		countEach(b, onNode, func() int { return count(r.byNode.Lookup(node)) })
	})
	b.Run("by=namespace/form=slice/impl=client-go", func(b *testing.B) {
		countEach(b, inNamespace, func() int {
			pods, _ := r.lister.Pods(namespace).List(labels.Everything())
			return len(pods)
		})
	})
	b.Run("by=namespace/form=slice/impl=informer", func(b *testing.B) {
		countEach(b, inNamespace, func() int { return len(slices.Collect(r.store.Namespace(namespace))) })
	})
	b.Run("by=namespace/form=each/impl=client-go", func(b *testing.B) {
		countEach(b, inNamespace, func() int {
			pods, _ := r.lister.Pods(namespace).List(labels.Everything())
			return count(slices.Values(pods))
		})
	})
	b.Run("by=namespace/form=each/impl=informer", func(b *testing.B) {
		countEach(b, inNamespace, func() int { return count(r.store.Namespace(namespace)) })
	})
}

// nearest returns the key in manyPods whose number of pods is nearest to want, and that number.
func nearest(want int, keys func(*corev1.Pod) []string) (key string, number int) {
	numbers := map[string]int{}
	for _, pod := range manyPods() {
		for _, k := range keys(pod) {
			numbers[k]++
		}
	}
	distance := func(n int) int { return max(n-want, want-n) }
	for k, n := range numbers {
		if d, best := distance(n), distance(number); d < best || d == best && k < key {
			key, number = k, n
		}
	}
	return key, number
}

func countEach(b *testing.B, want int, read func() int) {
	b.ReportAllocs()
	for b.Loop() {
		if got := read(); got != want {
			b.Fatalf("read %d objects instead of %d", got, want)
		}
	}
}

func count(pods iter.Seq[*corev1.Pod]) int {
	n := 0
	for pod := range pods {
		if pod != nil {
			n++
		}
	}
	return n
}

// history is a fleet of 30,000 pods and repeatable streams of changes.
type history struct {
	pods []*corev1.Pod
	// changes are the changes of each mix, twice with different resourceVersions: applied alternately, no event repeats.
	changes map[string][2][]fleet.Change
}

// The mixes of changes: rollouts, which also add and delete pods, and updates only.
var mixes = map[string]func(*fleet.Fleet) iter.Seq[fleet.Change]{
	"rollouts": func(f *fleet.Fleet) iter.Seq[fleet.Change] { return f.Changes(1) },
	"updates":  func(f *fleet.Fleet) iter.Seq[fleet.Change] { return f.Updates(1) },
}

// changesMade is a multiple of every batch's size.
const changesMade = 20_480

var podHistory = sync.OnceValue(func() history {
	f := fleet.New(fleet.Config{Pods: 30_000})
	h := history{changes: map[string][2][]fleet.Change{}}
	for pod := range f.All() {
		h.pods = append(h.pods, trimmed(pod))
	}
	for mix, stream := range mixes {
		var changes [2][]fleet.Change
		for change := range stream(f) {
			change.Object = trimmed(change.Object)
			changes[0] = append(changes[0], change)
			change.Object = otherVersions([]*corev1.Pod{change.Object})[0]
			changes[1] = append(changes[1], change)
			if len(changes[0]) == changesMade {
				break
			}
		}
		h.changes[mix] = changes
	}
	return h
})

func deltasOf(changes []fleet.Change) []Delta[*corev1.Pod] {
	deltas := make([]Delta[*corev1.Pod], len(changes))
	for i, change := range changes {
		deltas[i] = Delta[*corev1.Pod]{Type: Upserted, Object: change.Object, ResourceVersion: change.Object.ResourceVersion}
		if change.Type == watch.Deleted {
			deltas[i].Type = Removed
		}
	}
	return deltas
}

func transactionsOf(changes []fleet.Change) []cache.Transaction {
	types := map[watch.EventType]cache.TransactionType{
		watch.Added:    cache.TransactionTypeAdd,
		watch.Modified: cache.TransactionTypeUpdate,
		watch.Deleted:  cache.TransactionTypeDelete,
	}
	txns := make([]cache.Transaction, len(changes))
	for i, change := range changes {
		txns[i] = cache.Transaction{Object: change.Object, Type: types[change.Type]}
	}
	return txns
}

// BenchmarkApply applies changes to a store of 30,000 pods, one by one and in batches; both implementations batch changes
// that arrive faster than they apply them. client-go's store has the index by namespace, which it needs to list one. Our
// store also returns what each change replaced; client-go's informer reads that from its store first, which is not counted.
func BenchmarkApply(b *testing.B) {
	for mix := range mixes {
		for _, index := range []string{"none", byNode} {
			for _, size := range []int{1, 64} {
				b.Run(fmt.Sprintf("mix=%s/index=%s/batch=%d", mix, index, size), func(b *testing.B) {
					benchmarkApply(b, mix, index, size)
				})
			}
		}
	}
}

func benchmarkApply(b *testing.B, mix, index string, size int) {
	h := podHistory()
	changes := h.changes[mix]
	report := func(b *testing.B, apply func(pass, from, to int)) {
		made := 0
		events, seconds, bytes := testkit.Counted(b, size, func() {
			from := made % changesMade
			apply(made/changesMade%2, from, from+size)
			made += size
		})
		b.ReportMetric(seconds*1e9/events, "ns/event")
		b.ReportMetric(bytes/events, "alloc-B/event")
	}
	b.Run("impl=client-go", func(b *testing.B) {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		if index == byNode {
			indexers = nodeIndexers
		}
		indexer := filledIndexer(b, h.pods, indexers)
		txns := [2][]cache.Transaction{transactionsOf(changes[0]), transactionsOf(changes[1])}
		if size > 1 {
			store := indexer.(cache.TransactionStore)
			report(b, func(pass, from, to int) {
				if err := store.Transaction(txns[pass][from:to]...); err != nil {
					b.Fatal(err)
				}
			})
			return
		}
		report(b, func(pass, from, _ int) {
			var err error
			switch t := &txns[pass][from]; t.Type {
			case cache.TransactionTypeAdd:
				err = indexer.Add(t.Object)
			case cache.TransactionTypeUpdate:
				err = indexer.Update(t.Object)
			case cache.TransactionTypeDelete:
				err = indexer.Delete(t.Object)
			}
			if err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("impl=informer", func(b *testing.B) {
		store := filledStore(h.pods)
		if index == byNode {
			NewIndex(store, nodeOf)
		}
		deltas := [2][]reflector.Delta[*corev1.Pod]{readAll(deltasOf(changes[0])), readAll(deltasOf(changes[1]))}
		var made []change[*corev1.Pod]
		report(b, func(pass, from, to int) {
			made = mustWrite(b, store, made, deltas[pass][from:to])
			clear(made)
			made = made[:0]
		})
	})
}

const writesFor = time.Second

// BenchmarkStoreWritesWithReaders updates random objects, one by one, in a store of 80,000, while readers list all of them in a
// loop: with List, which makes a slice as client-go's lister does, or with All, which makes none.
func BenchmarkStoreWritesWithReaders(b *testing.B) {
	pods := manyPods()[:80_000]
	versions := [2][]*corev1.Pod{otherVersions(pods), pods}
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(pods))
	for _, readers := range []int{0, 1, 10, 40} {
		report := func(b *testing.B, write func(*corev1.Pod), list func() int) {
			var lists atomic.Int64
			var ended atomic.Bool
			var running sync.WaitGroup
			for range readers {
				running.Go(func() {
					for !ended.Load() {
						if n := list(); n != len(pods) {
							b.Errorf("listed %d objects", n)
						}
						lists.Add(1)
					}
				})
			}
			for lists.Load() < int64(readers) && !b.Failed() { // every reader has started
				runtime.Gosched()
			}
			before := lists.Load()
			written := 0
			_, seconds, _ := testkit.Counted(b, 1, func() {
				// Write for a fixed time: b.Loop would derive the number of writes from the first one and could take minutes.
				for end := time.Now().Add(writesFor); time.Now().Before(end); written++ {
					write(versions[written/len(order)%2][order[written%len(order)]])
				}
			})
			b.ReportMetric(float64(written)/seconds, "writes/s")
			if readers > 0 {
				b.ReportMetric(float64(lists.Load()-before)/seconds, "lists/s")
			}
			ended.Store(true)
			running.Wait()
		}
		b.Run(fmt.Sprintf("readers=%d/impl=client-go", readers), func(b *testing.B) {
			indexer := filledIndexer(b, pods, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			lister := corelisters.NewPodLister(indexer)
			report(b, func(pod *corev1.Pod) {
				if err := indexer.Update(pod); err != nil {
					b.Fatal(err)
				}
			}, func() int {
				list, _ := lister.List(labels.Everything())
				return len(list)
			})
		})
		for _, reader := range []struct {
			impl string
			list func(*Store[*corev1.Pod]) int
		}{
			{"informer", func(s *Store[*corev1.Pod]) int { return len(s.List()) }},
			{"informer,All", func(s *Store[*corev1.Pod]) (n int) {
				for range s.All() {
					n++
				}
				return n
			}},
		} {
			b.Run(fmt.Sprintf("readers=%d/impl=%s", readers, reader.impl), func(b *testing.B) {
				store := filledStore(pods)
				batch := make([]reflector.Delta[*corev1.Pod], 1)
				var changes []change[*corev1.Pod]
				report(b, func(pod *corev1.Pod) {
					batch[0] = reflector.Delta[*corev1.Pod]{Type: reflector.Upserted, Object: pod, Version: pod.ResourceVersion}
					changes = mustWrite(b, store, changes[:0], batch)
				}, func() int { return reader.list(store) })
			})
		}
	}
}

// BenchmarkStoreOverhead measures the memory per object of a store of 100,000 objects, without the objects.
// index=namespace finds objects by namespace, which our store always can. index=unique adds an index in which each object
// has its own key. state=listed measures after a list, state=changed after one update of each object, in random order.
func BenchmarkStoreOverhead(b *testing.B) {
	pods := manyPods()
	updates := otherVersions(pods)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(updates), func(i, j int) { updates[i], updates[j] = updates[j], updates[i] })
	uids := func(pod *corev1.Pod) []string { return []string{string(pod.UID)} }
	byUID := func(obj any) ([]string, error) { return uids(obj.(*corev1.Pod)), nil }
	peerIndexers := map[string]cache.Indexers{
		"none":      {},
		"namespace": {cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		"unique":    {cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "uid": byUID},
	}
	for _, state := range []string{"listed", "changed"} {
		for _, index := range []string{"none", "namespace", "unique"} {
			if state == "changed" && index == "none" {
				continue
			}
			report := func(b *testing.B, make func() any) {
				var held int64
				runs := 0
				for b.Loop() {
					before := testkit.LiveMemory()
					made := make()
					held += testkit.LiveMemory() - before
					runtime.KeepAlive(made)
					runs++
				}
				b.ReportMetric(float64(held)/float64(runs*len(pods)), "heap-B/object")
				b.ReportMetric(0, "ns/op")
			}
			b.Run("state="+state+"/index="+index+"/impl=client-go", func(b *testing.B) {
				report(b, func() any {
					indexer := filledIndexer(b, pods, peerIndexers[index])
					for i := range updates {
						if state == "changed" {
							if err := indexer.Update(updates[i]); err != nil {
								b.Fatal(err)
							}
						}
					}
					return indexer
				})
			})
			b.Run("state="+state+"/index="+index+"/impl=informer", func(b *testing.B) {
				report(b, func() any {
					store, w := NewStore[*corev1.Pod]()
					if index == "unique" {
						NewIndex(store, uids)
					}
					w.Apply(Delta[*corev1.Pod]{Type: Replaced, Items: pods, ResourceVersion: "1"})
					for i := range updates {
						if state == "changed" {
							w.Apply(Delta[*corev1.Pod]{Type: Upserted, Object: updates[i], ResourceVersion: updates[i].ResourceVersion})
						}
					}
					return store
				})
			})
		}
	}
}
