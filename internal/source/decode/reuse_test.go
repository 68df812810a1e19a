package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer/internal/source/decode/proto"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// updates decodes new versions of objects with and without the version before, and compares the results.
type updates struct {
	*testing.T
	d *Decoder
	f Format
}

func newUpdates(t *testing.T, typ reflect.Type, f Format) *updates {
	t.Helper()
	known, err := TypeOf(typ)
	if err != nil {
		t.Fatal(err)
	}
	return &updates{t, NewDecoder(known, false), f}
}

// decode decodes raw with the version before, if that is not nil. It fails the test if the result differs from decoding raw
// alone. It returns nil if raw cannot be decoded.
func (u *updates) decode(raw []byte, before any) any {
	u.Helper()
	want, wantErr := u.d.Decode(u.f, raw, Origin{})
	u.check(raw, want, wantErr)
	var got any
	for _, made := range []bool{false, true} {
		var err error
		u.d.recent = recent{} // read the version before ahead
		if got, err = u.d.Decode(u.f, raw, Origin{Before: before, Made: made && before != nil}); (err == nil) != (wantErr == nil) {
			u.Fatalf("%q: with the version before: %v; without: %v", raw, err, wantErr)
		}
		if err == nil {
			u.alone(raw)
		}
		if err == nil && !identicalValues(got, want) {
			u.Fatalf("%q (made: %t): the version before changes the result (-without +with):\n%s", raw, made, cmp.Diff(want, got))
		}
	}
	if wantErr != nil {
		return nil
	}
	return got
}

// limit sets the memory that an object may take.
func (u *updates) limit(n budget) { u.d.json.limit, u.d.wire.limit = n, n }

// spent decodes raw alone, and returns the memory that it takes of the limit. It returns -1 if raw cannot be decoded.
func (u *updates) spent(raw []byte) budget {
	if _, err := u.d.Decode(u.f, raw, Origin{}); err != nil {
		return -1
	}
	if u.f == JSON {
		return u.d.json.limit - u.d.json.left
	}
	return u.d.wire.limit - u.d.wire.left
}

// limits decodes raw with limits around the memory that it needs. It fails the test unless raw is accepted with the version before, and
// while it shares with other objects, exactly if it is accepted alone. What is accepted is accepted again without managedFields, as
// LayoutCompact keeps it.
func (u *updates) limits(raw []byte, before any) {
	u.Helper()
	spent := u.spent(raw)
	if spent < 0 {
		return
	}
	defer u.limit(maxDecoded)
	_, checks := u.d.Check(u.f, raw)
	for _, limit := range []budget{spent, spent - 1, spent / 2} {
		u.limit(limit)
		want, wantErr := u.d.Decode(u.f, raw, Origin{})
		if taken := u.check(raw, want, wantErr); taken != (checks && wantErr == nil) {
			u.Fatalf("%q with a limit of %d of %d bytes: checked %t, decoded with %v", raw, limit, spent, taken, wantErr)
		}
		for _, from := range []Origin{{Before: before}, {Before: before, Made: before != nil}, {Share: true}, {Share: true}} {
			if _, err := u.d.Decode(u.f, raw, from); !errors.Is(err, wantErr) {
				u.Fatalf("%q with a limit of %d of %d bytes: %v with %+v, %v alone", raw, limit, spent, err, from, wantErr)
			}
		}
		if _, err := u.d.Decode(u.f, withoutManaged(u.f, raw), Origin{}); wantErr == nil && err != nil {
			u.Fatalf("%q with a limit of %d of %d bytes: rejected when it is decoded again: %v", raw, limit, spent, err)
		}
	}
}

// follow decodes after as the version that follows before, and then before as the version that follows after. With limits, it calls
// limits, too.
func (u *updates) follow(before, after []byte, limits bool) {
	u.Helper()
	first := u.decode(before, nil)
	if first == nil {
		return
	}
	second := u.decode(after, first)
	if limits {
		u.limits(after, first)
	}
	if untouched, _ := u.d.Decode(u.f, before, Origin{}); !identicalValues(first, untouched) {
		u.Fatalf("%q: decoding changed the version before (-was +is):\n%s", after, cmp.Diff(untouched, first))
	}
	if second != nil {
		u.decode(before, second)
	}
}

// variants returns copies of raw in which one field is missing, null, empty, of another type, equal to that of other, repeated,
// or last; and copies with an unknown field. It varies the object, and its fields down to depth.
func variants(f Format, raw, other []byte, depth int) [][]byte {
	if f == JSON {
		return jsonVariants(raw, other, depth)
	}
	return protobufVariants(raw, other, depth)
}

func jsonVariants(raw, other []byte, depth int) (all [][]byte) {
	type member struct{ name, value []byte }
	members := func(b []byte) (found []member) {
		c := cursor{b: b}
		c.members(func(key []byte, _ int) bool {
			value := c.value(0)
			found = append(found, member{slices.Clone(key), value})
			return value != nil
		})
		return found
	}
	mine, theirs := members(raw), members(other)
	write := func(some ...member) []byte {
		var b []byte
		for _, m := range some {
			b = fmt.Appendf(b, ",%q:%s", m.name, m.value)
		}
		if len(b) == 0 {
			return []byte("{}")
		}
		return append(append([]byte("{"), b[1:]...), '}')
	}
	unknown := member{[]byte("nobody"), []byte(`[{"knows":"this"},1]`)}
	all = append(all, write(append([]member{unknown}, mine...)...), bytes.ReplaceAll(raw, []byte(`":`), []byte("\" :\n ")))
	for i, m := range mine {
		rest := slices.Delete(slices.Clone(mine), i, i+1)
		all = append(all, write(rest...), write(append(rest, m)...), write(append(rest, m, m)...), write(append(rest, m, unknown)...))
		with := func(value []byte) {
			changed := slices.Clone(mine)
			changed[i].value = value
			all = append(all, write(changed...), write(append(slices.Clone(mine), changed[i])...))
		}
		for _, value := range []string{"null", "{}", "[]", `""`, `"a"`, "1", "true", `{"a":"b"}`, `[{}]`} {
			with([]byte(value))
		}
		for _, o := range theirs {
			if bytes.Equal(o.name, m.name) {
				with(o.value)
				if depth > 1 && m.value[0] == '{' && o.value[0] == '{' {
					for _, value := range jsonVariants(m.value, o.value, depth-1) {
						with(value)
					}
				}
			}
		}
	}
	return all
}

func protobufVariants(raw, other []byte, depth int) (all [][]byte) {
	fields := func(b []byte) (found []proto.Field) {
		_ = proto.Fields(b, func(f proto.Field) bool {
			found = append(found, f)
			return true
		})
		return found
	}
	mine, theirs := fields(raw), fields(other)
	write := func(some []proto.Field, more ...[]byte) []byte {
		var b []byte
		for _, f := range some {
			b = append(b, raw[f.From:f.To]...)
		}
		return append(b, bytes.Join(more, nil)...)
	}
	unknown := proto.AppendBytes(nil, 999, []byte("nobody knows this"))
	all = append(all, append(slices.Clone(unknown), raw...), append(slices.Clone(raw), unknown...))
	for i, m := range mine {
		rest := slices.Delete(slices.Clone(mine), i, i+1)
		field := raw[m.From:m.To]
		all = append(all, write(rest), write(rest, field), write(rest, field, field), write(mine[:i+1], write(mine[i:])))
		if m.Wire != proto.Bytes {
			continue
		}
		with := func(body []byte) {
			changed := proto.AppendBytes(nil, m.Number, body)
			all = append(all, write(mine[:i], changed, write(mine[i+1:])), write(mine, changed))
		}
		with(nil)
		with([]byte("a"))
		for _, o := range theirs {
			if o.Number == m.Number && o.Wire == proto.Bytes {
				with(o.Bytes)
				if depth > 1 {
					for _, body := range protobufVariants(m.Bytes, o.Bytes, depth-1) {
						with(body)
					}
				}
				break
			}
		}
	}
	return all
}

// A new version decodes to the same object with and without the version before, whatever changed. Whatever the limit for an object is,
// both accept it, or neither.
// Guarantees: D1, D4
func TestUpdateEqualsWholeDecode(t *testing.T) {
	for _, gvk := range builtinKinds() {
		t.Run(strings.ReplaceAll(gvk.GroupVersion().String(), "/", ".")+"."+gvk.Kind, func(t *testing.T) {
			t.Parallel()
			fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(int64(len(gvk.String()))), scheme.Codecs)
			typ := scheme.Scheme.AllKnownTypes()[gvk]
			depth, every := 1, testkit.Rounds(8, 1)
			switch gvk.GroupKind() {
			case corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), corev1.SchemeGroupVersion.WithKind("Service").GroupKind():
				if testkit.Whole() {
					depth, every = 2, 3
				}
			}
			for _, media := range []string{MediaJSON, MediaProtobuf} {
				f, _ := FormatOf(media)
				peer := newPeer(t, media, gvk.GroupVersion())
				var raw [3][]byte
				for i := range raw {
					obj := reflect.New(typ).Interface().(runtime.Object)
					fill.Fill(obj)
					obj.(metav1.Object).SetName("a")
					raw[i] = bytes.TrimSpace(peer.encode(t, obj))
					if f == Protobuf {
						raw[i], _ = Unwrap(raw[i])
					}
				}
				types := []reflect.Type{reflect.PointerTo(typ)}
				if f == JSON {
					types = append(types, reflect.TypeFor[*unstructured.Unstructured]())
				}
				for i, typ := range types {
					u, every := newUpdates(t, typ, f), every
					if i > 0 && !testkit.Whole() { // every kind is decoded by the same code
						every *= 8
					}
					u.follow(raw[0], raw[0], true)
					u.follow(raw[0], raw[1], true)
					u.follow(raw[1], raw[2], true)
					for i, changed := range variants(f, raw[0], raw[1], depth) {
						if i%every == 0 {
							u.follow(raw[0], changed, i%10 == 0)
						}
					}
				}
			}
		})
	}
}

// The same holds for consecutive versions of the pods of a fleet.
// Guarantees: D1
func TestUpdatesOfAFleet(t *testing.T) {
	pods := fleet.New(fleet.Config{Pods: 300})
	for _, f := range []Format{JSON, Protobuf} {
		u := newUpdates(t, reflect.TypeFor[*corev1.Pod](), f)
		held := map[types.NamespacedName]any{}
		n := 0
		for change := range pods.Changes(1) {
			key := types.NamespacedName{Namespace: change.Object.Namespace, Name: change.Object.Name}
			held[key] = u.decode(fleetFrame(t, f, change.Object), held[key])
			if n++; n == testkit.Rounds(500, 2000) {
				break
			}
		}
	}
}

// fleetFrame returns the encoded pod of a watch event.
func fleetFrame(t testing.TB, f Format, pod *corev1.Pod) []byte {
	t.Helper()
	write := fleet.AppendWatchEventJSON
	if f == Protobuf {
		write = fleet.AppendWatchEventProtobuf
	}
	b, err := write(nil, watch.Modified, pod)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := nextFrame(NewFrames(bytes.NewReader(b), f, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	return frame.Raw
}

// Unchanged parts take no memory: they are the values of the version before.
// Guarantees: D2
func TestUpdateKeepsWhatDidNotChange(t *testing.T) {
	for _, media := range []string{MediaJSON, MediaProtobuf} {
		t.Run(media, func(t *testing.T) {
			f, _ := FormatOf(media)
			peer := newPeer(t, media, corev1.SchemeGroupVersion)
			encode := func(pod *corev1.Pod) []byte {
				raw := bytes.TrimSpace(peer.encode(t, pod))
				if f == Protobuf {
					raw, _ = Unwrap(raw)
				}
				return raw
			}
			yes := true
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "a", ResourceVersion: "1", Labels: map[string]string{"app": "a", "tier": "b"}, Annotations: map[string]string{"c": "d"},
					OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "a", UID: "u", Controller: &yes}},
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				}}}},
				Status: corev1.PodStatus{
					Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "containers are not ready"}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
					ContainerStatuses: []corev1.ContainerStatus{{
						Name: "a", Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
						AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
					}},
				},
			}
			u := newUpdates(t, reflect.TypeFor[*corev1.Pod](), f)
			first := u.decode(encode(pod), nil).(*corev1.Pod)
			pod.ResourceVersion = "2"
			pod.Status.Conditions[0].Status = corev1.ConditionTrue
			second := u.decode(encode(pod), first).(*corev1.Pod)
			pod.ResourceVersion = "3"
			pod.Spec.Containers[0].Image = "b"
			third := u.decode(encode(pod), second).(*corev1.Pod)

			same := func(what string, want bool, part func(*corev1.Pod) any, a, b *corev1.Pod) {
				t.Helper()
				if got := reflect.ValueOf(part(a)).Pointer() == reflect.ValueOf(part(b)).Pointer(); got != want {
					t.Errorf("%s of versions %s and %s are shared: %t, want %t", what, a.ResourceVersion, b.ResourceVersion, got, want)
				}
			}
			for what, part := range map[string]func(*corev1.Pod) any{
				"labels":             func(p *corev1.Pod) any { return p.Labels },
				"annotations":        func(p *corev1.Pod) any { return p.Annotations },
				"owners":             func(p *corev1.Pod) any { return p.OwnerReferences },
				"resources":          func(p *corev1.Pod) any { return p.Spec.Containers[0].Resources.Limits },
				"container statuses": func(p *corev1.Pod) any { return p.Status.ContainerStatuses },
			} {
				same(what, true, part, first, second)
				same(what, true, part, second, third)
			}
			containers := func(p *corev1.Pod) any { return p.Spec.Containers }
			same("containers", true, containers, first, second)
			same("containers", false, containers, second, third)
			conditions := func(p *corev1.Pod) any { return p.Status.Conditions }
			same("conditions", false, conditions, first, second)
			same("conditions", true, conditions, second, third)
			message := func(p *corev1.Pod) any { return unsafe.StringData(p.Status.Conditions[0].Message) }
			same("messages of the condition that changed", true, message, first, second)
		})
	}
}

// An object that our decoders leave to the library keeps the equal parts of the version before as well.
func TestUpdateByLibraryKeepsWhatDidNotChange(t *testing.T) {
	entry := func(key, value string) []byte {
		return proto.AppendBytes(proto.AppendBytes(nil, 1, []byte(key)), 2, []byte(value))
	}
	protobuf := func(value string) []byte { // the metadata stand at the end
		b := proto.AppendBytes(nil, 2, entry("changes", value))
		meta := proto.AppendBytes(proto.AppendBytes(nil, metaName, []byte("a")), 11, entry("app", "a"))
		return proto.AppendBytes(b, objectMetadata, meta)
	}
	asJSON := func(value string) []byte {
		return fmt.Appendf(nil, `{"\u0064ata":{"changes":%q},"metadata":{"name":"a","labels":{"app":"a"}}}`, value)
	}
	for f, encode := range map[Format]func(string) []byte{JSON: asJSON, Protobuf: protobuf} {
		u := newUpdates(t, reflect.TypeFor[*corev1.ConfigMap](), f)
		first := u.decode(encode("1"), nil).(*corev1.ConfigMap)
		second := u.decode(encode("2"), first).(*corev1.ConfigMap)
		if first.Data["changes"] != "1" || second.Data["changes"] != "2" {
			t.Fatalf("decoded %v, then %v", first, second)
		}
		if len(first.Labels) != 1 || reflect.ValueOf(first.Labels).Pointer() != reflect.ValueOf(second.Labels).Pointer() {
			t.Errorf("labels %v and %v are two maps", first.Labels, second.Labels)
		}
	}
}

// The same holds for unstructured objects.
func TestUnstructuredUpdateKeepsWhatDidNotChange(t *testing.T) {
	u := newUpdates(t, reflect.TypeFor[*unstructured.Unstructured](), JSON)
	decode := func(raw string, before any) *unstructured.Unstructured {
		return u.decode([]byte(raw), before).(*unstructured.Unstructured)
	}
	first := decode(`{"kind":"Gadget","metadata":{"name":"a","resourceVersion":"1","labels":{"b":"c"}},"spec":{"parts":[{"size":1}]},"status":{"ready":{"since":"now"},"parts":[1]}}`, nil)
	second := decode(`{"kind":"Gadget","metadata":{"name":"a","resourceVersion":"2","labels":{"b":"c"}},"spec":{"parts":[{"size":1}]},"status":{"ready":{"since":"now"},"parts":[2]}}`, first)
	for _, path := range [][]string{{"metadata", "labels"}, {"spec"}, {"spec", "parts"}, {"status", "ready"}} {
		a, _, _ := unstructured.NestedFieldNoCopy(first.Object, path...)
		b, found, _ := unstructured.NestedFieldNoCopy(second.Object, path...)
		if !found || reflect.ValueOf(a).Pointer() != reflect.ValueOf(b).Pointer() {
			t.Errorf("the new version does not share %s", strings.Join(path, "."))
		}
	}

	// A part that occurs twice does not match the old one.
	twice := decode(`{"metadata":{"name":"a"},"spec":{"a":1},"spec":{"b":2}}`, nil)
	decode(`{"metadata":{"name":"a"},"spec":{"a":1}}`, twice)
}

// If two parts have the same hash and size, the object keeps the old part: this is the effect of a collision. All other parts
// are decoded, including one of another size.
func TestCollidingPartStaysOld(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		u := newUpdates(t, reflect.TypeFor[*corev1.Pod](), f)
		u.d.hash = func([]byte) uint64 { return 7 }
		raw := func(version, node, phase string) []byte {
			if f == JSON {
				return fmt.Appendf(nil, `{"metadata":{"name":"a","resourceVersion":%q},"spec":{"nodeName":%q},"status":{"phase":%q}}`, version, node, phase)
			}
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodPhase(phase)}}
			b, err := pod.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		var pod *corev1.Pod
		for i, step := range []struct{ node, phase, wantNode, wantPhase string }{
			{"node-1", "Pending", "node-1", "Pending"},
			{"node-2", "Pending", "node-1", "Pending"},
			{"node-30", "Pending", "node-30", "Pending"},
		} {
			from := Origin{}
			if pod != nil {
				from = Origin{Before: pod, Made: true}
			}
			version := fmt.Sprint(i)
			obj, err := u.d.Decode(f, raw(version, step.node, step.phase), from)
			if err != nil {
				t.Fatal(err)
			}
			pod = obj.(*corev1.Pod)
			if pod.ResourceVersion != version || pod.Spec.NodeName != step.wantNode || string(pod.Status.Phase) != step.wantPhase {
				t.Errorf("version %d is %s on %s, %s; want %s, %s", i, pod.ResourceVersion, pod.Spec.NodeName, pod.Status.Phase, step.wantNode, step.wantPhase)
			}
		}
	}
}

// A part that the version before did not have is decoded, even if all hashes are equal.
func TestPartThatWasAbsentIsDecoded(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		u := newUpdates(t, reflect.TypeFor[*corev1.Pod](), f)
		u.d.hash = func([]byte) uint64 { return 0 }
		without, with := []byte(`{"metadata":{"name":"a"}}`), []byte(`{"metadata":{"name":"a"},"spec":{"nodeName":"b"}}`)
		if f == Protobuf {
			without = proto.AppendBytes(nil, objectMetadata, proto.AppendBytes(nil, metaName, []byte("a")))
			with = proto.AppendBytes(slices.Clone(without), 2, proto.AppendBytes(nil, 10, []byte("b")))
		}
		if pod := u.decode(with, u.decode(without, nil)).(*corev1.Pod); pod.Spec.NodeName != "b" {
			t.Errorf("the node is %q", pod.Spec.NodeName)
		}
	}
}

// A version whose part did not change remembers the part's bytes like the version before.
func TestMarksOfAnUnchangedPartStay(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		u := newUpdates(t, reflect.TypeFor[*corev1.ConfigMap](), f)
		raw := []byte(`{"metadata":{"name":"a"},"data":{"a":"b"}}`)
		if f == Protobuf {
			raw = proto.AppendBytes(nil, objectMetadata, proto.AppendBytes(nil, metaName, []byte("a")))
			raw = proto.AppendBytes(raw, 2, proto.AppendBytes(proto.AppendBytes(nil, 1, []byte("a")), 2, []byte("b")))
		}
		first := u.decode(raw, nil)
		second := u.decode(raw, first)
		marks := func(obj any) marks { return u.d.typ.layout.marksOf(reflect.ValueOf(obj).UnsafePointer()) }
		if now, was := marks(second), marks(first); !reflect.DeepEqual(now, was) || slices.Max(now.sizes) == 0 {
			t.Errorf("the marks are %v after %v", now, was)
		}
		for range 100 { // after some of them, the decoder finds that sharing is worth it
			obj, err := u.d.Decode(f, raw, Origin{Share: true})
			if err != nil {
				t.Fatal(err)
			}
			if now, was := marks(obj), marks(first); !reflect.DeepEqual(now, was) {
				t.Errorf("with Share, the marks are %v instead of %v", now, was)
			}
		}
	}
}

// The memory behind an object that no Decoder made is not taken for marks.
func TestObjectMadeElsewhereHasNoMarks(t *testing.T) {
	raw := []byte(`{"metadata":{"name":"a"},"data":{"a":"new"}}`)
	u := newUpdates(t, reflect.TypeFor[*corev1.ConfigMap](), JSON)
	u.d.hash = func([]byte) uint64 { return 7 }
	l := newLayout(reflect.TypeFor[corev1.ConfigMap]())
	memory := reflect.New(l.memory)
	before := memory.Elem().Field(0).Addr().Interface().(*corev1.ConfigMap)
	before.Name, before.Data = "a", map[string]string{"a": "old"}
	marks := l.marksOf(memory.UnsafePointer())
	for i := range marks.hashes {
		marks.hashes[i], marks.sizes[i] = 7, uint32(len(`{"a":"new"}`))
	}
	obj, err := u.d.Decode(JSON, raw, Origin{Before: before})
	if err != nil || obj.(*corev1.ConfigMap).Data["a"] != "new" {
		t.Errorf("decoded %v, %v", obj, err)
	}
	if obj, err = u.d.Decode(JSON, raw, Origin{Before: before, Made: true}); err != nil || obj.(*corev1.ConfigMap).Data["a"] != "old" {
		t.Errorf("the marks of this test are wrong: decoded %v, %v", obj, err)
	}
}

// An entry that stands twice in an encoded map does not stand for another one of the map before.
func TestRepeatedEntryIsNotTheMapBefore(t *testing.T) {
	entry := func(key string) []byte {
		return proto.AppendBytes(nil, 2, proto.AppendBytes(proto.AppendBytes(nil, 1, []byte(key)), 2, []byte("1")))
	}
	meta := proto.AppendBytes(nil, objectMetadata, proto.AppendBytes(nil, metaName, []byte("x")))
	for f, raws := range map[Format][2][]byte{
		JSON:     {[]byte(`{"metadata":{"name":"x"},"data":{"a":"1","b":"1"}}`), []byte(`{"metadata":{"name":"x"},"data":{"a":"1","a":"1"}}`)},
		Protobuf: {slices.Concat(meta, entry("a"), entry("b")), slices.Concat(meta, entry("a"), entry("a"))},
	} {
		u := newUpdates(t, reflect.TypeFor[*corev1.ConfigMap](), f)
		if now := u.decode(raws[1], u.decode(raws[0], nil)).(*corev1.ConfigMap); len(now.Data) != 1 {
			t.Errorf("decoded %v", now.Data)
		}
	}
}

// The marks of an object take at most 64 bytes.
func TestMarksAreSmall(t *testing.T) {
	check := func(typ reflect.Type) (parts int) {
		l := newLayout(typ)
		if more := l.memory.Size() - typ.Size(); more > 64 {
			t.Errorf("the marks of %v take %d bytes", typ, more)
		}
		return len(l.parts)
	}
	for _, gvk := range builtinKinds() {
		check(scheme.Scheme.AllKnownTypes()[gvk])
	}
	if n := check(reflect.TypeFor[corev1.Pod]()); n != 2 {
		t.Errorf("a Pod has %d parts, want spec and status", n)
	}
	if n := check(reflect.TypeFor[metav1.PartialObjectMetadata]()); n != 0 {
		t.Errorf("metadata have %d parts, want none", n)
	}
}

// FuzzUpdate decodes the second of two objects as the version that follows the first, with limits around what it needs, too.
func FuzzUpdate(f *testing.F) {
	fuzzFormats(func(enc Format, pods [][]byte) {
		for i, pod := range pods {
			if enc == Protobuf {
				pod, _ = Unwrap(pod)
			}
			other := pods[(i+1)%len(pods)]
			if enc == Protobuf {
				other, _ = Unwrap(other)
			}
			f.Add(byte(enc), pod, other)
			for n, changed := range variants(enc, pod, other, 2) {
				if n%testkit.Rounds(290, 29) == 0 {
					f.Add(byte(enc), pod, changed)
				}
			}
		}
	})
	for name, values := range kindsJSON {
		object := func(value string) []byte { return fmt.Appendf(nil, `{"metadata":{"name":"a"},%q:%s}`, name, value) }
		for i, value := range values {
			f.Add(byte(JSON), object(value), object(values[(i+1)%len(values)]))
			f.Add(byte(JSON), object(value), slices.Concat([]byte(`{"any":[0.0],`), object(value)[1:]))
		}
	}
	f.Fuzz(func(t *testing.T, enc byte, before, after []byte) {
		for _, typ := range []reflect.Type{reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*unstructured.Unstructured](), reflect.TypeFor[*kinds]()} {
			if Format(enc%2) == Protobuf && typ != reflect.TypeFor[*corev1.Pod]() {
				continue
			}
			newUpdates(t, typ, Format(enc%2)).follow(before, after, true)
		}
	})
}
