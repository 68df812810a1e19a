package decode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// writes are what programs write to a cached pod, and the field that is reported. Metadata is not in the list: the next
// version of the object has its own.
var writes = map[string]func(*corev1.Pod){
	"spec.nodeName":            func(p *corev1.Pod) { p.Spec.NodeName = "written" },
	"spec.containers[0].image": func(p *corev1.Pod) { p.Spec.Containers[0].Image = "written" },
	"spec.containers":          func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "written"}) },
	"spec.nodeSelector":        func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"secret": "written"} },
	"spec.containers[0].resources.requests": func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("77")
	},
	"spec.terminationGracePeriodSeconds": func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 77 },
}

// versions returns n encoded versions of pod that differ in their status.
func versions(t *testing.T, f Format, pod *corev1.Pod, n int) (raws [][]byte) {
	t.Helper()
	for i := range n {
		pod.Status.Message = fmt.Sprint("version ", i)
		raw := encodePod(t, f, pod)
		raws = append(raws, raw)
	}
	return raws
}

func typeOf[T any](t *testing.T) *Type {
	t.Helper()
	typ, err := TypeOf(reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func encodePod(t *testing.T, f Format, pod *corev1.Pod) []byte {
	t.Helper()
	return encoded(t, f, pod)
}

// encoded returns obj in format f.
func encoded(t *testing.T, f Format, obj interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	if f == Protobuf {
		raw, err := obj.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// soon is after how many objects the tests have the first one verified.
const soon = 20

func verifySoon(d *Decoder) { d.doubt.taken.Store(verifyEvery - soon) }

// One of verifyEvery objects is verified, and after a finding each of verifyAfter.
func TestVerifyTakesItsTurn(t *testing.T) {
	var doubt doubt
	count := func(objects int) (due int) {
		for range objects {
			if doubt.due() {
				due++
			}
		}
		return due
	}
	if got := count(10 * verifyEvery); got != 10 {
		t.Errorf("%d of %d", got, 10*verifyEvery)
	}
	doubt.objects.Store(verifyAfter)
	if got := count(verifyAfter + verifyEvery); got != verifyAfter+1 {
		t.Errorf("%d after a finding", got)
	}
}

// Objects take turns also if no decoder lives long: the garbage collector frees idle ones.
//
// Guarantees: D6
func TestVerifyOutlastsDecoders(t *testing.T) {
	pool := poolOf[*corev1.Pod](t, nil)
	raws := versions(t, JSON, fleet.New(fleet.Config{Pods: 1}).Pod(0), 2)
	before, err := pool.Decode(JSON, raws[0], Origin{})
	if err != nil {
		t.Fatal(err)
	}
	before.(*corev1.Pod).Spec.Containers[0].Image = "written by mistake"
	found := 0
	for range verifyEvery {
		d := pool.Get() // and it is lost
		if _, err := d.Decode(JSON, raws[1], Origin{Before: before, Made: true}); err != nil {
			t.Fatal(err)
		}
		if d.Modified() != "" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("found %d times in %d objects, want once", found, verifyEvery)
	}
}

// A write to an object that is read stays in its next versions, until one of them is verified.
//
// Guarantees: D6
func TestVerifyFindsAWriteToTheVersionBefore(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		for field, write := range writes {
			t.Run(fmt.Sprint(f, "/", field), func(t *testing.T) {
				raws := versions(t, f, fleet.New(fleet.Config{Pods: 1}).Pod(0), 2*soon)
				d := NewDecoder(typeOf[*corev1.Pod](t), false)
				verifySoon(d)
				first, err := d.Decode(f, raws[0], Origin{})
				if err != nil {
					t.Fatal(err)
				}
				write(first.(*corev1.Pod))
				before, found := first, 0
				for i, raw := range raws[1:] {
					obj, err := d.Decode(f, raw, Origin{Before: before, Made: true})
					if err != nil {
						t.Fatal(err)
					}
					if got := d.Modified(); got != "" {
						if found++; got != field || i > soon {
							t.Errorf("version %d: found %q", i, got)
						}
					}
					before = obj
				}
				if found != 1 {
					t.Errorf("found %d times", found)
				}
				if want, err := d.Decode(f, raws[len(raws)-1], Origin{}); err != nil || !reflect.DeepEqual(before, want) {
					t.Errorf("the write has stayed: %v", err)
				}
			})
		}
	}
}

// A write to a part that objects share is in each of them, and in new ones, until one of those is verified.
//
// Guarantees: D6
func TestVerifyFindsAWriteToASharedPart(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			const warm = 100 // objects until a decoder knows what is worth sharing
			pods := fleet.New(fleet.Config{Pods: warm + 2*soon})
			d := NewDecoder(typeOf[*corev1.Pod](t), false)
			tolerations := []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
			remembered := d.shared[f].get(nil) // the garbage collector ends the harm, too
			found := 0
			for i := range warm + 2*soon {
				pod := pods.Pod(i)
				pod.Spec.Tolerations = tolerations
				obj, err := d.Decode(f, encodePod(t, f, pod), Origin{Share: true})
				if err != nil {
					t.Fatal(err)
				}
				got := obj.(*corev1.Pod)
				if d.Modified() != "" {
					if found++; d.Modified() != "spec.tolerations[0].key" {
						t.Errorf("pod %d: found %q", i, d.Modified())
					}
				}
				if found > 0 && got.Spec.Tolerations[0].Key != "gpu" {
					t.Fatalf("pod %d has what was written after that was found", i)
				}
				if i == warm {
					verifySoon(d)
					got.Spec.Tolerations[0].Key = "written"
				}
			}
			if found != 1 {
				t.Errorf("found %d times", found)
			}
			runtime.KeepAlive(remembered)
		})
	}
}

// The same of unstructured objects. What is reported has two names at most.
//
// Guarantees: D6
func TestVerifyOfUnstructuredObjects(t *testing.T) {
	raws := versions(t, JSON, fleet.New(fleet.Config{Pods: 1}).Pod(0), 2*soon)
	d := NewDecoder(typeOf[*unstructured.Unstructured](t), false)
	verifySoon(d)
	before, err := d.Decode(JSON, raws[0], Origin{})
	if err != nil {
		t.Fatal(err)
	}
	spec := before.(*unstructured.Unstructured).Object["spec"].(map[string]any)
	spec["containers"].([]any)[0].(map[string]any)["image"] = "written"
	var found []string
	for _, raw := range raws[1:] {
		if before, err = d.Decode(JSON, raw, Origin{Before: before, Made: true}); err != nil {
			t.Fatal(err)
		}
		if field := d.Modified(); field != "" {
			found = append(found, field)
		}
	}
	if !reflect.DeepEqual(found, []string{"spec.containers"}) {
		t.Errorf("found %q", found)
	}
}

// After a write was found, the decoders of the pool verify each object for a while: other objects of the program's
// loop have been written to as well.
func TestVerifyEachAfterAFinding(t *testing.T) {
	const objects = 50
	pods := fleet.New(fleet.Config{Pods: objects})
	pool, err := NewPool(reflect.TypeFor[*corev1.Pod](), "", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var before [objects]any
	for i := range objects {
		if before[i], err = pool.Decode(JSON, encodePod(t, JSON, pods.Pod(i)), Origin{}); err != nil {
			t.Fatal(err)
		}
		before[i].(*corev1.Pod).Spec.NodeName = "written"
	}
	d := pool.Get()
	verifySoon(d)
	pool.Put(d)
	found := 0
	for round := 0; found < objects; round++ {
		if round > 2 {
			t.Fatalf("found %d of %d", found, objects)
		}
		for i := range objects {
			pod := pods.Pod(i)
			pod.Status.Message = fmt.Sprint("round ", round)
			d := pool.Get()
			if before[i], err = d.Decode(JSON, encodePod(t, JSON, pod), Origin{Before: before[i], Made: true}); err != nil {
				t.Fatal(err)
			}
			if d.Modified() != "" {
				found++
			}
			pool.Put(d)
		}
	}
}

// What only reads an object is no write: methods of quantities change their receiver.
//
// Guarantees: D6
func TestVerifyAcceptsReaders(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		raws := versions(t, f, fleet.New(fleet.Config{Pods: 1}).Pod(0), 10)
		d := NewDecoder(typeOf[*corev1.Pod](t), false)
		var before any
		for _, raw := range raws {
			d.doubt.objects.Store(1)
			obj, err := d.Decode(f, raw, Origin{Before: before, Made: before != nil})
			if err != nil {
				t.Fatal(err)
			}
			if field := d.Modified(); field != "" {
				t.Errorf("found %s", field)
			}
			pod := obj.(*corev1.Pod)
			for name, q := range pod.Spec.Containers[0].Resources.Requests {
				_ = q.AsDec().String()
				pod.Spec.Containers[0].Resources.Requests[name] = q
			}
			_ = pod.CreationTimestamp.UTC()
			before = obj
		}
	}
}

// A type with a method: what the method sets counts, whatever its tags say.
func TestDifferenceOfTypesWithMethods(t *testing.T) {
	a := struct{ Raw apiruntime.RawExtension }{apiruntime.RawExtension{Raw: []byte("{}")}}
	b := struct{ Raw apiruntime.RawExtension }{apiruntime.RawExtension{Raw: []byte("[]")}}
	if path, differ := difference(reflect.ValueOf(a), reflect.ValueOf(b), 0); path != "Raw.Raw" || !differ {
		t.Errorf("%q %v", path, differ)
	}
	if path, differ := difference(reflect.ValueOf(a), reflect.ValueOf(a), 0); differ {
		t.Errorf("%q", path)
	}
}

// moody is a type whose method gives another object for equal bytes.
type moody struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              moodySpec `json:"spec"`
}

type moodySpec struct{ Number int }

var moods int

func (s *moodySpec) UnmarshalJSON([]byte) error {
	moods++
	s.Number = moods
	return nil
}

// Nothing is reported of a type whose method gives another object for equal bytes.
func TestVerifyOfAMethodThatDoesAsItLikes(t *testing.T) {
	d := NewDecoder(typeOf[*moody](t), false)
	before, err := d.Decode(JSON, []byte(`{"metadata":{"name":"a"},"spec":{}}`), Origin{})
	for i := range 3 * soon {
		if err != nil {
			t.Fatal(err)
		}
		d.doubt.objects.Store(1)
		raw := fmt.Appendf(nil, `{"metadata":{"name":"a","resourceVersion":"%d"},"spec":{}}`, i)
		if before, err = d.Decode(JSON, raw, Origin{Before: before, Made: true}); d.Modified() != "" {
			t.Fatalf("found %q", d.Modified())
		}
	}
	if !d.doubt.useless.Load() {
		t.Error("it is verified for ever")
	}
}
