//go:build !race

package informer

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fleet"
)

// TestAllocations checks the allocation counts in BENCHMARKS.md. The race detector adds allocations of its own.
func TestAllocations(t *testing.T) {
	pods := fleet.New(fleet.Config{Pods: 500})
	var all []*corev1.Pod
	for pod := range pods.All() {
		all = append(all, pod)
	}
	store := filledStore(all)
	byNode := NewIndex(store, nodeOf)
	key, node := KeyOf(all[100]), all[100].Spec.NodeName
	n := 0
	for _, c := range []struct {
		name string
		most float64
		do   func()
	}{
		{"Get", 0, func() { store.Get(key) }},
		{"Get of an absent key", 0, func() { store.Get(Key{Namespace: "a", Name: "b"}) }},
		{"Snapshot", 0, func() { store.Snapshot() }},
		{"All", 0, func() {
			for range store.All() {
				n++
			}
		}},
		{"Namespace", 0, func() {
			for range store.Namespace(key.Namespace) {
				n++
			}
		}},
		{"List", 1, func() { n += len(store.List()) }},
		{"Lookup", 0, func() {
			for range byNode.Lookup(node) {
				n++
			}
		}},
		{"Index.List", 1, func() { n += len(byNode.List(node)) }},
	} {
		if got := testing.AllocsPerRun(100, c.do); got > c.most {
			t.Errorf("%s: %v allocations, %v at most", c.name, got, c.most)
		}
	}
	for _, f := range []decode.Format{decode.JSON, decode.Protobuf} {
		var list bytes.Buffer
		write := fleet.WriteListJSON
		if f == decode.Protobuf {
			write = fleet.WriteListProtobuf
		}
		if err := write(&list, metav1.ListMeta{ResourceVersion: "1"}, pods.All()); err != nil {
			t.Fatal(err)
		}
		r := reflectorFor(t, Config[*corev1.Pod]{})
		one := r.decoder.Get()
		read := func() float64 {
			return testing.AllocsPerRun(3, func() {
				items := decode.NewList(bytes.NewReader(list.Bytes()), f)
				for {
					raw, err := items.Next()
					switch err {
					case nil:
						var e encoded[*corev1.Pod]
						r.decoder.find(f, raw, &asked{}, &e)
						if r.decoder.decode(one, f, raw, nil, &e); e.err != nil {
							t.Fatal(e.err)
						}
					case decode.ErrMore:
						if err := items.Fill(); err != nil {
							t.Fatal(err)
						}
					case io.EOF:
						return
					default:
						t.Fatal(err)
					}
				}
			}) / float64(len(all))
		}
		if got := read(); got > 90 {
			t.Errorf("format %d: a pod has %.1f allocations, 90 at most", f, got)
		}
		r.decoder.config.Share = true
		if got := read(); got > 40 {
			t.Errorf("format %d: a pod that shares has %.1f allocations, 40 at most", f, got)
		}
		r.decoder.held = store.Get
		if got := read(); got > 2.1 {
			t.Errorf("format %d: an unchanged pod has %.1f allocations, 2 at most for its key", f, got)
		}
	}
}

// With r readers that only list, the writer keeps 0.7 of its fair share of c cores: its rate alone, times min(1, c/(r+1)).
// The readers iterate. A reader that lists into slices also keeps the garbage collector busy, and
// BenchmarkStoreWritesWithReaders shows that cost.
//
// Two busy cores share memory and cache, so on some machines readers of anything slow a writer down. Therefore the test also
// measures the writer with readers of another store, which cannot take this store's lock. If that rate is below the fair
// share, it counts as the share.
//
// The test measures time, so other work on the machine can spoil an attempt, but not all of them. With the race detector, it
// would measure the detector.
// Guarantees: C2
func TestWriterKeepsItsShare(t *testing.T) {
	const objects, attempts = 20_000, 6
	store, w := NewStore[*thing]()
	var versions [2][]*thing
	for i := range objects {
		o := thing{namespace: "ns" + strconv.Itoa(i%100), name: strconv.Itoa(i), uid: strconv.Itoa(i), rv: "1"}
		other := o
		other.rv = "2"
		versions[0], versions[1] = append(versions[0], &o), append(versions[1], &other)
	}
	w.Apply(Delta[*thing]{Type: Replaced, Items: versions[0]})
	another, anotherWriter := NewStore[*thing]()
	anotherWriter.Apply(Delta[*thing]{Type: Replaced, Items: versions[0]})
	at := 0
	writesPerSecond := func(window time.Duration) float64 {
		batch := make([]Delta[*thing], 1)
		began, n := time.Now(), 0
		for ; time.Since(began) < window; n++ {
			at = (at + 7919) % (2 * objects)
			batch[0] = Delta[*thing]{Type: Upserted, Object: versions[(at/objects+1)%2][at%objects]}
			w.Apply(batch...)
		}
		return float64(n) / time.Since(began).Seconds()
	}
	for _, readers := range []int{10, 1, 40}[:Short(1, 3)] {
		t.Run(fmt.Sprint(readers), func(t *testing.T) {
			window := time.Duration(readers+10) * 30 * time.Millisecond // time for several turns of each goroutine
			best := 0.0
			for range attempts {
				alone := writesPerSecond(window)
				apart := besideReaders(t, another, readers, func() float64 { return writesPerSecond(window) })
				beside := besideReaders(t, store, readers, func() float64 { return writesPerSecond(window) })
				share := beside / min(apart, alone*min(1, float64(runtime.GOMAXPROCS(0))/float64(readers+1)))
				t.Logf("%.0f writes/s alone, %.0f with %d readers, %.0f with readers of another store: %.2f of the fair share", alone, beside, readers, apart, share)
				if best = max(best, share); best >= 0.7 {
					return
				}
			}
			t.Errorf("the writer got at most %.2f of its fair share in %d attempts, want 0.7", best, attempts)
		})
	}
}

// besideReaders returns the result of work, done while this many readers list store in a loop. It waits until all have begun.
func besideReaders(t *testing.T, store *Store[*thing], readers int, work func() float64) float64 {
	var lists atomic.Int64
	var ended atomic.Bool
	var running sync.WaitGroup
	defer running.Wait()
	defer ended.Store(true)
	want := store.Len()
	for range readers {
		running.Go(func() {
			for !ended.Load() {
				n := 0
				for range store.All() {
					n++
				}
				if n != want {
					t.Errorf("listed %d objects of %d", n, want)
				}
				lists.Add(1)
			}
		})
	}
	for lists.Load() < int64(readers) {
		runtime.Gosched()
	}
	return work()
}
