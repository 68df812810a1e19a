package informer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

type metadata = metav1.PartialObjectMetadata

// sized is a store of one implementation. put adds an object, or replaces the version before.
type sized struct {
	put func(*metadata)
	get func(namespace, name string) bool
}

// metadataOf returns n objects in 1,000 namespaces, in random order.
func metadataOf(n int, resourceVersion string) []*metadata {
	objects := make([]*metadata, n)
	for i, number := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		objects[i] = &metadata{ObjectMeta: metav1.ObjectMeta{
			Namespace:       fmt.Sprintf("team-%d", number%1000),
			Name:            fmt.Sprintf("web-7c9d8f-%d", number),
			UID:             types.UID(fmt.Sprintf("%032d", number)),
			ResourceVersion: resourceVersion,
		}}
	}
	return objects
}

// sizedStores makes the stores that BenchmarkSize compares. client-go's has the index by namespace, without which it
// cannot list one; ours needs none.
var sizedStores = map[string]func(b *testing.B, objects []*metadata) sized{
	"client-go": func(b *testing.B, objects []*metadata) sized {
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		items := make([]any, len(objects))
		for i, obj := range objects {
			items[i] = obj
		}
		if err := indexer.Replace(items, "1"); err != nil {
			b.Fatal(err)
		}
		return sized{
			put: func(obj *metadata) { _ = indexer.Update(obj) },
			get: func(namespace, name string) bool {
				_, ok, _ := indexer.GetByKey(namespace + "/" + name)
				return ok
			},
		}
	},
	"informer": func(b *testing.B, objects []*metadata) sized {
		store, w := NewStore[*metadata]()
		if err := w.Apply(Delta[*metadata]{Type: Replaced, Items: objects, ResourceVersion: "1"}); err != nil {
			b.Fatal(err)
		}
		return sized{
			put: func(obj *metadata) {
				_ = w.Apply(Delta[*metadata]{Type: Upserted, Object: obj, ResourceVersion: obj.ResourceVersion})
			},
			get: func(namespace, name string) bool {
				_, ok := store.Get(Key{Namespace: namespace, Name: name})
				return ok
			},
		}
	},
}

// BenchmarkSize reads, updates and adds one object after the other, in random order, in stores of several sizes. add
// lets a store grow by an eighth to that size. longest-ms is the longest time that one change took.
func BenchmarkSize(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		objects, newer := metadataOf(n, "1"), metadataOf(n, "2")
		order := rand.New(rand.NewPCG(3, 4)).Perm(n)
		for impl, fill := range sizedStores {
			run := func(op string, do func(b *testing.B) (count int)) {
				b.Run(fmt.Sprintf("objects=%d/op=%s/impl=%s", n, op, impl), func(b *testing.B) {
					count := 0
					for b.Loop() {
						count += do(b)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(count), "ns/object")
				})
			}
			run("get", func(b *testing.B) int {
				b.StopTimer()
				store := fill(b, objects)
				b.StartTimer()
				for _, position := range order {
					if obj := objects[position]; !store.get(obj.Namespace, obj.Name) {
						b.Fatalf("%s/%s is missing", obj.Namespace, obj.Name)
					}
				}
				return n
			})
			run("update", func(b *testing.B) int {
				b.StopTimer()
				store := fill(b, objects)
				b.StartTimer()
				changed := n / 4
				b.ReportMetric(longest(order[:changed], newer, store.put), "longest-ms")
				return changed
			})
			run("add", func(b *testing.B) int {
				b.StopTimer()
				have := n * 8 / 9
				store := fill(b, objects[:have])
				b.StartTimer()
				b.ReportMetric(longest(nil, objects[have:], store.put), "longest-ms")
				return n - have
			})
		}
	}
}

// longest calls put with the objects, in the given order or in their own, and returns the longest time of a call in
// milliseconds.
func longest(order []int, objects []*metadata, put func(*metadata)) float64 {
	var most time.Duration
	timed := func(obj *metadata) {
		began := time.Now()
		put(obj)
		most = max(most, time.Since(began))
	}
	if order == nil {
		for _, obj := range objects {
			timed(obj)
		}
	}
	for _, position := range order {
		timed(objects[position])
	}
	return float64(most.Microseconds()) / 1000
}
