package informer

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

const middle = math.MaxUint64 / 2

var (
	lower = informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: middle}}}
	upper = informer.Shard{Ranges: []informer.HashRange{{First: middle + 1, Last: math.MaxUint64}}}
	// most overlaps with lower and upper.
	most = informer.Shard{Ranges: []informer.HashRange{{First: math.MaxUint64 / 4, Last: middle}, {First: middle + 1, Last: math.MaxUint64}}}
)

// The hash is that of KEP-5866, and the selector has its form: the end of a range is exclusive, and may be 2^64.
// Guarantees: S1
func TestShardIsAsTheServerDefinesIt(t *testing.T) {
	for _, value := range []string{"", "a", "default", "2f1b2c3d-0000-4444-8888-abcdef012345", "ü"} {
		h := fnv.New64a()
		h.Write([]byte(value))
		if got := informer.HashOf(value); got != h.Sum64() || informer.HashOf([]byte(value)) != got {
			t.Errorf("the hash of %q is %#x, want %#x", value, got, h.Sum64())
		}
	}
	for _, c := range []struct {
		shard informer.Shard
		want  string
	}{
		{informer.Shard{}, ""},
		{informer.Shard{Field: informer.ShardByNamespace}, ""},
		{lower, "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"},
		{upper, "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"},
		{informer.Shard{Field: informer.ShardByNamespace, Ranges: []informer.HashRange{{First: 1, Last: 1}, {First: 0xff, Last: math.MaxUint64 - 1}}},
			"shardRange(object.metadata.namespace, '0x0000000000000001', '0x0000000000000002') || " +
				"shardRange(object.metadata.namespace, '0x00000000000000ff', '0xffffffffffffffff')"},
	} {
		if got := c.shard.String(); got != c.want {
			t.Errorf("selector %s, want %s", got, c.want)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", UID: types.UID("u")}}
	byUID, byNamespace := informer.HashOf("u"), informer.HashOf("default")
	for _, r := range []informer.HashRange{{First: byUID, Last: byUID}, {First: byNamespace, Last: byNamespace}} {
		for field, hash := range map[informer.ShardField]uint64{informer.ShardByUID: byUID, informer.ShardByNamespace: byNamespace} {
			s := informer.Shard{Field: field, Ranges: []informer.HashRange{{First: 0, Last: 0}, r}}
			if s.Has(pod) != (r.First == hash) {
				t.Errorf("Has is %v for %v by %v", s.Has(pod), r, field)
			}
		}
	}
	if !(informer.Shard{}).Has(pod) {
		t.Error("the zero Shard does not have each object")
	}
}

// manyPods creates pods named p0, p1 and so on in two namespaces. Their UIDs are random, but of four in a row, each has its hash in
// another quarter of all hashes: with four pods or more, no half is empty.
func manyPods(w world.World, n int) {
	for i := range n {
		w.Create(world.InQuarter(i%4, world.NewPod([]string{"a", "b"}[i%2], fmt.Sprintf("p%d", i), "v=1")))
	}
}

// holdsShard checks that the store has exactly the server's objects of shard.
func holdsShard(w world.World, when string, inf *informer.Informer[*corev1.Pod], shard informer.Shard) {
	w.Helper()
	synctest.Wait()
	var want []string
	outside := 0
	for pod := range w.Pods.All() {
		if shard.Has(pod) {
			want = append(want, pod.Namespace+"/"+pod.Name+"@"+pod.ResourceVersion)
		} else {
			outside++
		}
	}
	var got []string
	for pod := range inf.Store().All() {
		got = append(got, pod.Namespace+"/"+pod.Name+"@"+pod.ResourceVersion)
	}
	if !slices.Equal(got, want) {
		w.Errorf("%s: the store has\n%q, want\n%q", when, got, want)
	}
	if len(shard.Ranges) > 0 && (len(want) == 0 || outside == 0) {
		w.Errorf("%s: %d objects in the shard and %d outside: the test tests nothing", when, len(want), outside)
	}
}

// changeMany deletes every seventh pod, and changes the others.
func changeMany(w world.World, label string) {
	w.Helper()
	for i, pod := range slices.Collect(w.Pods.All()) {
		if i%7 == 0 {
			w.Delete(pod.Namespace, pod.Name)
		} else {
			w.Relabel(pod.Namespace, pod.Name, label)
		}
	}
}

// toldAll checks that a handler has what the store has.
func toldAll(w world.World, inf *informer.Informer[*corev1.Pod], rec *testkit.Recorder[*corev1.Pod], when string) {
	w.Helper()
	var stored, told []string
	for pod := range inf.Store().All() {
		stored = append(stored, pod.Name+"@"+pod.ResourceVersion)
	}
	for _, pod := range rec.Has() {
		told = append(told, pod.Name+"@"+pod.ResourceVersion)
	}
	slices.Sort(stored)
	if slices.Sort(told); !slices.Equal(stored, told) || rec.Broken() > 0 {
		w.Errorf("%s: the handler has\n%q, the store\n%q (%d calls break the order)", when, told, stored, rec.Broken())
	}
}

// A sharded informer has exactly the objects of its shard, whatever the server sends. It decodes no other object.
// Guarantees: S1
func TestShardedInformerHasItsShardOnly(t *testing.T) {
	for _, shard := range []informer.Shard{lower, {Field: informer.ShardByNamespace, Ranges: []informer.HashRange{{First: informer.HashOf("b"), Last: informer.HashOf("b")}}}} {
		t.Run(shard.String(), func(t *testing.T) {
			world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
				manyPods(w, 30)
				filtered := map[string]bool{}
				config.Filter = func(meta *metav1.PartialObjectMetadata) bool {
					filtered[meta.Name] = true
					return true
				}
				inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR, Shard: shard}, config)
				rec := &testkit.Recorder[*corev1.Pod]{}
				inf.Subscribe(rec)
				defer world.Start(w.T, inf)()
				holdsShard(w, "after the list", inf, shard)
				for i := range 40 {
					namespace, name := []string{"a", "b"}[i%2], fmt.Sprintf("p%d", i)
					switch {
					case i >= 30:
						w.Create(world.NewPod(namespace, name, "v=1"))
					case i%3 == 0:
						w.Relabel(namespace, name, "2")
					case i%3 == 1:
						w.Delete(namespace, name)
						w.Create(world.NewPod(namespace, name, "v=3")) // has another UID
					default:
						w.Delete(namespace, name)
					}
				}
				holdsShard(w, "after changes", inf, shard)
				w.Server.Stop()
				for i := range 10 {
					w.Create(world.NewPod("a", fmt.Sprintf("q%d", i), "v=1"))
				}
				w.Server.Compact()
				w.Server.Start()
				<-time.After(5 * time.Minute)
				holdsShard(w, "after an outage", inf, shard)
				if has := rec.Has(); len(has) != inf.Store().Len() {
					w.Errorf("the handler has %d objects, the store %d", len(has), inf.Store().Len())
				}
				for name := range filtered {
					everIn := false
					for pod := range w.Pods.All() {
						everIn = everIn || pod.Name == name && shard.Has(pod)
					}
					if !everIn && shard.Field == informer.ShardByNamespace && strings.HasPrefix(name, "q") {
						w.Errorf("%s is outside the shard, but was decoded", name)
					}
				}
				s := inf.Status()
				if s.Reflectors[0].OutsideShard < 15 || s.Resource.Shard.String() != shard.String() {
					w.Errorf("%d objects from outside, shard %v", s.Reflectors[0].OutsideShard, s.Resource.Shard)
				}
				for _, r := range w.Server.Requests() {
					if got := r.Query.Get("shardSelector"); got != shard.String() && !r.Query.Has("continue") {
						w.Errorf("a request for the shard %q", got)
					}
				}
			})
		})
	}
}

// A shard that cannot be is an error at once, and informers of different shards are not shared.
// Guarantees: S1
func TestShardOfAResource(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for _, shard := range []informer.Shard{
			{Field: 7},
			{Ranges: []informer.HashRange{{First: 0, Last: 1}, {First: 3, Last: 2}}},
			{Ranges: make([]informer.HashRange, 65)},
		} {
			inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Shard: shard}, world.Quiet[*corev1.Pod]())
			if err := inf.WaitSynced(w.Context()); err == nil || !strings.Contains(err.Error(), "Resource.Shard.") {
				w.Errorf("%v: %v", shard, err)
			}
		}
		g := informer.NewGroup(w.Client())
		var all []*informer.Informer[*corev1.Pod]
		for _, shard := range []informer.Shard{{}, lower, upper} {
			inf, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: world.PodGVR, Shard: shard}, world.Quiet[*corev1.Pod]())
			if err != nil || slices.Contains(all, inf) {
				w.Errorf("%v: %v", shard, err)
			}
			all = append(all, inf)
		}
	})
}

// An object whose UID cannot be read counts as one that cannot be decoded: the last good version stays. When the shard changes, what
// is outside goes all the same, even if the name of an object cannot be read.
// Guarantees: S1, S2, R17
func TestShardWithObjectsThatCannotBeRead(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		manyPods(w, 30)
		client := w.Client(func(c *rest.Config) { c.ContentType = "application/json" })
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR, Shard: lower}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		var broken, nameless informer.Key
		for pod := range inf.Store().All() {
			broken = informer.KeyOf(pod)
		}
		for pod := range w.Pods.All() {
			if upper.Has(pod) {
				nameless = informer.KeyOf(pod)
			}
		}
		defer w.Server.Inject(informertest.Fault{Resource: "pods", Rewrite: func(key informer.Key, object []byte) []byte {
			switch key {
			case broken:
				return []byte(`{"metadata":{"namespace":"` + key.Namespace + `","name":"` + key.Name + `","uid":7,"resourceVersion":"1000"}}`)
			case nameless:
				return []byte(`{"metadata":{"name":7}}`)
			}
			return object
		}})()
		w.Server.EndWatches()
		<-time.After(time.Minute)
		before := inf.Store().Len()
		w.Relabel(broken.Namespace, broken.Name, "2")
		synctest.Wait()
		if _, ok := inf.Store().Get(broken); !ok || inf.Store().Len() != before {
			w.Errorf("%v has gone", broken)
		}
		if s := inf.Status().Reflectors[0]; s.DecodeErrors == 0 || s.Stale == 0 || s.LastError == nil {
			w.Errorf("the failure is not reported: %+v", s)
		}
		if err := inf.SetShard(w.Context(), upper); err != nil {
			w.Fatal(err)
		}
		for pod := range inf.Store().All() {
			if !upper.Has(pod) {
				w.Errorf("%s of the shard before has stayed", pod.Name)
			}
		}
		if n := inf.Store().Len(); n < 5 {
			w.Errorf("%d objects", n)
		}
	})
}
