package informer

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/internal/fleet"
)

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
		at := 0
		events, seconds, bytes := counted(b, size, func() {
			from := at % changesMade
			apply(at/changesMade%2, from, from+size)
			at += size
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
		deltas := [2][]Delta[*corev1.Pod]{deltasOf(changes[0]), deltasOf(changes[1])}
		var made []change[*corev1.Pod]
		report(b, func(pass, from, to int) {
			made = mustApply(b, store, made, deltas[pass][from:to]...)
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
			at := 0
			_, seconds, _ := counted(b, 1, func() {
				// Write for a fixed time: b.Loop would derive the number of writes from the first one and could take minutes.
				for end := time.Now().Add(writesFor); time.Now().Before(end); at++ {
					write(versions[at/len(order)%2][order[at%len(order)]])
				}
			})
			b.ReportMetric(float64(at)/seconds, "writes/s")
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
				batch := make([]Delta[*corev1.Pod], 1)
				var changes []change[*corev1.Pod]
				report(b, func(pod *corev1.Pod) {
					batch[0] = Delta[*corev1.Pod]{Type: Upserted, Object: pod, ResourceVersion: pod.ResourceVersion}
					changes = mustApply(b, store, changes[:0], batch...)
				}, func() int { return reader.list(store) })
			})
		}
	}
}
