package decode

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"unsafe"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// poolOf returns a pool of Ts with parts.
func poolOf[T any](t *testing.T, parts *Parts) *Pool {
	t.Helper()
	pool, err := NewPool(reflect.TypeFor[T](), "", false, parts)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// decodeAll returns what pool decodes from raws.
func decodeAll[T any](t *testing.T, pool *Pool, f Format, raws [][]byte) (all []T) {
	t.Helper()
	for _, raw := range raws {
		obj, err := pool.Decode(f, raw, Origin{Share: true})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, obj.(T))
	}
	return all
}

// clusterPods returns the encoded pods of a cluster; all clusters have the same workloads.
func clusterPods(t *testing.T, f Format, cluster uint64, n int) (raws [][]byte) {
	for pod := range fleet.New(fleet.Config{Pods: n, Cluster: cluster}).All() {
		raws = append(raws, encodePod(t, f, pod))
	}
	return raws
}

// environments counts the environments of main containers by the memory that they take.
func environments(pods ...*corev1.Pod) (arrays map[*corev1.EnvVar]bool, total int) {
	arrays = map[*corev1.EnvVar]bool{}
	for _, pod := range pods {
		if env := pod.Spec.Containers[0].Env; len(env) > 0 {
			arrays[&env[0]] = true
			total++
		}
	}
	return arrays, total
}

// The objects of several pools share equal parts, also after garbage collections, and equal objects that share nothing.
func TestPartsAreThoseOfAllPools(t *testing.T) {
	const clusters, pods = 4, 200
	for _, f := range []Format{JSON, Protobuf} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			var parts Parts
			var first, later []*corev1.Pod
			for i := range uint64(clusters) {
				raws := clusterPods(t, f, i, pods)
				all := decodeAll[*corev1.Pod](t, poolOf[*corev1.Pod](t, &parts), f, raws)
				alone := NewDecoder(typeOf[*corev1.Pod](t), false)
				for n, raw := range raws {
					if want, err := alone.Decode(f, raw, Origin{}); err != nil || !reflect.DeepEqual(all[n], want) {
						t.Fatalf("pod %d of cluster %d differs: %v", n, i, err)
					}
				}
				if i == 0 {
					first = all
				} else {
					later = append(later, all...)
				}
				runtime.GC() // what a decoder remembers by itself is gone
			}
			before, _ := environments(first...)
			all, total := environments(append(later, first...)...)
			// Each decoder shares a field once it has seen that this pays, so each cluster adds some: without Parts, as many as
			// the first one has.
			if added := len(all) - len(before); len(before) == 0 || added > (clusters-1)*len(before)/2 {
				t.Errorf("%d pods of the first cluster have %d environments, and %d others have %d more", len(first), len(before),
					total, added)
			}
		})
	}
}

// The same bytes are other values in the other format: objects of both formats share nothing.
// Guarantees: D6
func TestPartsOfTwoFormatsAreDifferent(t *testing.T) {
	pod := func(class string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}, Spec: corev1.PodSpec{RuntimeClassName: &class}}
	}
	for name, pair := range map[string][2]Format{"JSON first": {JSON, Protobuf}, "protobuf first": {Protobuf, JSON}} {
		classes := map[Format]string{JSON: "gvisor", Protobuf: `"gvisor"`} // with the same bytes
		for how, parts := range map[string]*Parts{"with Parts": {}, "one decoder": nil} {
			pool := poolOf[*corev1.Pod](t, parts)
			for _, f := range pair {
				raws := [][]byte{encodePod(t, f, pod(classes[f])), encodePod(t, f, pod(classes[f]))}
				for _, got := range decodeAll[*corev1.Pod](t, pool, f, raws) {
					if class := *got.Spec.RuntimeClassName; class != classes[f] {
						t.Errorf("%s, %s: the class is %q, want %q", name, how, class, classes[f])
					}
				}
			}
		}
	}
}

// Parts that no two objects of a cluster have in common are shared with other clusters.
func TestPartsOfSingleObjectsAreShared(t *testing.T) {
	const clusters, maps = 6, 1800
	for _, f := range []Format{JSON, Protobuf} {
		var parts Parts
		arrays, held := map[unsafe.Pointer]int{}, []*corev1.ConfigMap{}
		for cluster := range clusters {
			var raws [][]byte
			for i := range maps {
				raws = append(raws, encoded(t, f, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("settings-", i), UID: types.UID(fmt.Sprint(cluster, "-", i))},
					Data:       map[string]string{"file": fmt.Sprint("content of ", i)},
				}))
			}
			all := decodeAll[*corev1.ConfigMap](t, poolOf[*corev1.ConfigMap](t, &parts), f, raws)
			for _, obj := range all {
				arrays[reflect.ValueOf(obj.Data).UnsafePointer()]++
			}
			held = append(held, all...)
		}
		if len(arrays) > maps*17/5 { // which parts are samples depends on chance: 2.8 to 3.1 times maps, and 3.7 at least if each part may be one
			t.Errorf("%v: %d config maps of %d clusters have %d maps", f, len(held), clusters, len(arrays))
		}
		runtime.KeepAlive(held)
	}
}

// A part is freed with the last object that has it.
func TestPartsHoldWeakly(t *testing.T) {
	var parts Parts
	pool := poolOf[*corev1.Pod](t, &parts)
	raws := clusterPods(t, Protobuf, 0, 100)
	env := func() weak.Pointer[corev1.EnvVar] {
		for _, pod := range decodeAll[*corev1.Pod](t, pool, Protobuf, raws) {
			if env := pod.Spec.Containers[0].Env; len(env) > 0 {
				return weak.Make(&env[0])
			}
		}
		t.Fatal("no pod has an environment")
		return weak.Pointer[corev1.EnvVar]{}
	}()
	runtime.GC()
	runtime.GC()
	if env.Value() != nil {
		t.Error("the environment is not freed")
	}
	runtime.KeepAlive(pool)
}

// The memory of the table is limited, whatever number of parts is alive, and the last ones are found.
func TestPartsAreLimited(t *testing.T) {
	var parts Parts
	typ := reflect.TypeFor[*int]()
	const n = 2 * partShards * maxSets * setParts
	alive := make([]*int, n)
	for i := range alive {
		alive[i] = new(int)
		parts.put(0, partIDOf(fmt.Append(nil, i)), typ, words{data: unsafe.Pointer(alive[i])}, 8)
	}
	var table uintptr
	found := 0
	for i := range parts.shards {
		table += uintptr(cap(parts.shards[i].sets)) * unsafe.Sizeof([setParts]remembered{})
	}
	for i := n - 1000; i < n; i++ {
		if value, cost, ok := parts.find(partIDOf(fmt.Append(nil, i)), typ); ok {
			if found++; value.data != unsafe.Pointer(alive[i]) || cost != 8 {
				t.Fatalf("part %d is another one", i)
			}
		}
	}
	if table > 17<<20 || found < 900 {
		t.Errorf("the table takes %d bytes, and finds %d of the last 1000 parts", table, found)
	}
	runtime.KeepAlive(alive)
}

// A new version of an object has its changed parts from others.
func TestPartsOfANewVersion(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		var parts Parts
		version := func(cluster, version int) []byte {
			return encoded(t, f, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "settings", UID: types.UID(fmt.Sprint(cluster)), ResourceVersion: fmt.Sprint(version)},
				Data:       map[string]string{"file": fmt.Sprint("version ", version), "other": "same"},
			})
		}
		var now [3]*corev1.ConfigMap
		for v := range 20 {
			for cluster := range now {
				from := Origin{Share: true, Before: now[cluster], Made: now[cluster] != nil}
				obj, err := poolOf[*corev1.ConfigMap](t, &parts).Decode(f, version(cluster, v), from)
				if err != nil {
					t.Fatal(err)
				}
				now[cluster] = obj.(*corev1.ConfigMap)
				if got, want := now[cluster].Data["file"], fmt.Sprint("version ", v); got != want {
					t.Fatalf("%v: %q, want %q", f, got, want)
				}
			}
		}
		if a, b := reflect.ValueOf(now[1].Data).UnsafePointer(), reflect.ValueOf(now[2].Data).UnsafePointer(); a != b {
			t.Errorf("%v: two clusters have their own data", f)
		}
	}
}

// A write to a part is found by a decoder of another pool. All pools then take the right part.
//
// Guarantees: D6
func TestPartsFindAWriteOfAnotherPool(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			const warm = 100
			var parts Parts
			pods := fleet.New(fleet.Config{Pods: warm + 3*soon})
			tolerations := []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
			// Two decoders of one type, as if two informers decoded at once, and one of another type.
			var decoders [2]*Decoder
			pool := poolOf[*corev1.Pod](t, &parts)
			for i := range decoders {
				decoders[i] = pool.Get()
			}
			templates := poolOf[*corev1.PodTemplate](t, &parts).Get()
			next := 0
			decode := func(d *Decoder) *corev1.Pod {
				pod := pods.Pod(next)
				next++
				pod.Spec.Tolerations = tolerations
				obj, err := d.Decode(f, encodePod(t, f, pod), Origin{Share: true})
				if err != nil {
					t.Fatal(err)
				}
				return obj.(*corev1.Pod)
			}
			template := func() *corev1.PodTemplate {
				obj, err := templates.Decode(f, encoded(t, f, &corev1.PodTemplate{
					ObjectMeta: metav1.ObjectMeta{Name: "t"},
					Template:   corev1.PodTemplateSpec{Spec: corev1.PodSpec{Tolerations: tolerations}},
				}), Origin{Share: true})
				if err != nil {
					t.Fatal(err)
				}
				return obj.(*corev1.PodTemplate)
			}
			var held []*corev1.Pod // parts that no object has are freed
			for range warm / 2 {
				held = append(held, decode(decoders[0]), decode(decoders[1]))
			}
			held[0].Spec.Tolerations[0].Key = "written"
			if got := decode(decoders[1]).Spec.Tolerations[0].Key; got != "written" {
				t.Fatalf("the pools do not share tolerations: %q", got)
			}
			if got := template().Template.Spec.Tolerations[0].Key; got != "written" {
				t.Fatalf("the types do not share tolerations: %q", got)
			}
			verifySoon(decoders[1])
			found := ""
			for range soon + 1 {
				decode(decoders[1])
				if found = decoders[1].Modified(); found != "" {
					break
				}
			}
			if found != "spec.tolerations[0].key" {
				t.Fatalf("found %q", found)
			}
			if got := decode(decoders[1]).Spec.Tolerations[0].Key; got != "gpu" {
				t.Errorf("the decoder that found it has %q", got)
			}
			if got := decode(decoders[0]).Spec.Tolerations[0].Key; got != "gpu" {
				t.Errorf("another decoder has %q", got)
			}
			if got := template().Template.Spec.Tolerations[0].Key; got != "gpu" {
				t.Errorf("a decoder of another type has %q", got)
			}
			runtime.KeepAlive(held)
		})
	}
}

// What a decoder decodes while somebody finds a write is not passed on: it may contain what was written.
//
// Guarantees: D6
func TestPartsOfADistrustedGeneration(t *testing.T) {
	var parts Parts
	var w weakSharer
	s, typ, value := w.get(&parts), reflect.TypeFor[*int](), new(int)
	parts.distrust()
	s.put([]byte("raw"), typ, unsafe.Pointer(&value), 8)
	if _, _, ok := parts.find(partIDOf([]byte("raw")), typ); ok {
		t.Error("the part is passed on")
	}
	if w.get(&parts) == s {
		t.Error("the decoder remembers it")
	}
	w.get(&parts).put([]byte("raw"), typ, unsafe.Pointer(&value), 8)
	if _, _, ok := parts.find(partIDOf([]byte("raw")), typ); !ok {
		t.Error("a new part is not passed on")
	}
	runtime.KeepAlive(value)
}

// Many decoders may share parts at once, while they forget them and while the garbage collector frees them.
func TestPartsOfManyDecoders(t *testing.T) {
	const clusters, pods = 4, 100
	var parts Parts
	var running sync.WaitGroup
	for i := range uint64(clusters) {
		raws, pool := clusterPods(t, Protobuf, i, pods), poolOf[*corev1.Pod](t, &parts)
		running.Go(func() {
			alone := NewDecoder(typeOf[*corev1.Pod](t), false)
			for range 3 {
				for n, raw := range raws {
					got, err := pool.Decode(Protobuf, raw, Origin{Share: true})
					want, err2 := alone.Decode(Protobuf, raw, Origin{})
					if err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
						t.Errorf("pod %d of cluster %d differs: %v, %v", n, i, err, err2)
						return
					}
				}
				if i == 0 {
					parts.distrust()
					runtime.GC()
				}
			}
		})
	}
	running.Wait()
}
