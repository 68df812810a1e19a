package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// Whoever writes an object in two steps, of which each adds half of what the limit allows, does not get more than the limit: the
// second version is rejected, as it is when it is decoded alone. Otherwise it would be held, and could not be decoded again.
// Guarantees: D4
func TestLimitCountsWhatIsTakenOver(t *testing.T) {
	texts := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("k%03d", i)] = "v"
		}
		return m
	}
	const many = 100
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{NodeName: "n"}}
		change(p)
		return p
	}
	// Each has one large value in the version before; the next version has a second one.
	for name, c := range map[string]struct {
		before, after func(*corev1.Pod)
	}{
		"an equal part": {
			func(p *corev1.Pod) { p.Spec.Containers = make([]corev1.Container, many) },
			func(p *corev1.Pod) { p.Status.ContainerStatuses = make([]corev1.ContainerStatus, many) },
		},
		"an equal slice in a part that changed": {
			func(p *corev1.Pod) { p.Spec.Containers = make([]corev1.Container, many) },
			func(p *corev1.Pod) { p.Spec.InitContainers = make([]corev1.Container, many) },
		},
		"an equal map": {
			func(p *corev1.Pod) { p.Labels = texts(many) },
			func(p *corev1.Pod) { p.Annotations = texts(many) },
		},
		"an equal map in a part that changed": {
			func(p *corev1.Pod) { p.Spec.NodeSelector = texts(many) },
			func(p *corev1.Pod) { p.Spec.Overhead = corev1.ResourceList{}; p.Annotations = texts(many) },
		},
		"equal pointers": {
			func(p *corev1.Pod) {
				p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: slices.Repeat([]int64{7}, many)}
			},
			func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: make([]corev1.PreferredSchedulingTerm, many)}}
			},
		},
	} {
		first := pod(c.before)
		second := pod(func(p *corev1.Pod) { c.before(p); c.after(p) })
		for _, f := range []Format{JSON, Protobuf} {
			for _, byLibrary := range []bool{false, true} {
				var raw [2][]byte
				for i, p := range []*corev1.Pod{first, second} {
					var err error
					if raw[i], err = json.Marshal(p); f == Protobuf {
						raw[i], err = p.Marshal()
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if byLibrary && f == JSON { // our decoders reject these
					raw[1] = append([]byte(`{"\u0069tems":1,`), raw[1][1:]...)
				} else if byLibrary {
					raw[1] = append(raw[1], "\x0a\x03\x0a\x01a"...)
				}
				t.Run(fmt.Sprintf("%s/format=%d/byLibrary=%t", name, f, byLibrary), func(t *testing.T) {
					checkLimit(t, newUpdates(t, reflect.TypeFor[*corev1.Pod](), f), raw[0], raw[1])
				})
				if f == JSON {
					t.Run(fmt.Sprintf("%s/unstructured/byLibrary=%t", name, byLibrary), func(t *testing.T) {
						checkLimit(t, newUpdates(t, reflect.TypeFor[*unstructured.Unstructured](), f), raw[0], raw[1])
					})
				}
			}
		}
	}
}

// checkLimit checks that exactly the memory that after needs, decoded alone, is needed for it as the version after before, and with Share.
func checkLimit(t *testing.T, u *updates, before, after []byte) {
	old := u.decode(before, nil)
	first, both := u.spent(before), u.spent(after)
	if old == nil || first <= 0 || both < first+first/2 {
		t.Fatalf("the first version takes %d, the second one %d", first, both)
	}
	for range 3 { // then the decoder knows values to share
		if _, err := u.d.Decode(u.f, before, Origin{Share: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []Origin{{}, {Before: old}, {Before: old, Made: true}, {Share: true}} {
		u.limit(both)
		if obj, err := u.d.Decode(u.f, after, from); err != nil {
			t.Errorf("the memory that it needs is not enough with %+v: %v", from, err)
		} else if from.Made {
			old = obj
			if _, err := u.d.Decode(u.f, after, Origin{Before: obj, Made: true}); err != nil {
				t.Errorf("the memory that it needs is not enough if nothing changed: %v", err)
			}
		}
		u.limit(both - 1)
		if _, err := u.d.Decode(u.f, after, from); !errors.Is(err, ErrTooLarge) {
			t.Errorf("one byte less is enough with %+v: %v", from, err)
		}
		if from.Made {
			if _, err := u.d.Decode(u.f, after, Origin{Before: old, Made: true}); !errors.Is(err, ErrTooLarge) {
				t.Errorf("one byte less is enough if nothing changed: %v", err)
			}
		}
	}
}

// small is a message that takes less memory than the decoder counts for an element of a list.
type small struct {
	N int32 `protobuf:"varint,1,opt,name=n"`
}

func (s *small) Unmarshal(raw []byte) error {
	return proto.Fields(raw, func(proto.Field) bool { return true })
}

type smalls struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	List              []small `json:"list" protobuf:"bytes,2,rep,name=list"`
}

func (s *smalls) Unmarshal(raw []byte) (err error) {
	_ = proto.Fields(raw, func(f proto.Field) bool {
		if f.Number == 1 {
			err = s.ObjectMeta.Unmarshal(f.Bytes)
		} else {
			s.List = append(s.List, small{})
		}
		return err == nil
	})
	return err
}

// An object that only its own method decodes needs no less memory than our decoder needs for it without its managedFields: LayoutCompact
// holds the object without them.
// Guarantees: D4
func TestLimitHoldsWithoutManagedFields(t *testing.T) {
	meta := proto.AppendBytes(nil, metaName, []byte("a"))
	meta = proto.AppendBytes(meta, metaManaged, proto.AppendBytes(nil, 1, []byte("m")))
	meta = proto.AppendBytes(meta, 14, []byte("finalizer")) // our decoder rejects this order
	raw := proto.AppendBytes(nil, objectMetadata, meta)
	raw = append(raw, strings.Repeat("\x12\x00", 100)...)
	u := newUpdates(t, reflect.TypeFor[*smalls](), Protobuf)
	if !u.d.typ.Protobuf() {
		t.Fatal("the type cannot be decoded from protobuf")
	}
	u.follow(raw, raw, true)
}

// The metadata of an object are never shared: they lack the managedFields, which other metadata in an object keep.
// Guarantees: D2
func TestMetadataAreNotShared(t *testing.T) {
	type object struct {
		Metadata *metav1.ObjectMeta `json:"metadata"`
		Template *metav1.ObjectMeta `json:"template"`
	}
	raw := []byte(`{"metadata":{"name":"a","managedFields":[{"manager":"m"}]},"template":{"name":"a","managedFields":[{"manager":"m"}]}}`)
	c := codec[any]{element: reflect.TypeFor[object]()}
	for range 3 {
		got := new(object)
		if err := c.typed(got, JSON, raw, true); err != nil {
			t.Fatal(err)
		}
		if got.Metadata.ManagedFields != nil || len(got.Template.ManagedFields) != 1 {
			t.Errorf("decoded %v and %v", got.Metadata, got.Template)
		}
	}
}
