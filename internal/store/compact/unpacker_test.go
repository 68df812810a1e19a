package compact

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/source/decode"
)

// calls are those of a handler.
type calls []string

// text returns the version of a pod, and the node that only a whole one has.
func text(pod *corev1.Pod) string {
	if pod == nil {
		return "nil"
	}
	return fmt.Sprintf("%s@%s on %q", pod.Name, pod.ResourceVersion, pod.Spec.NodeName)
}

func (c *calls) OnAdd(pod *corev1.Pod, initial bool) {
	*c = append(*c, fmt.Sprint("add ", text(pod), " ", initial))
}

func (c *calls) OnUpdate(old, new *corev1.Pod) {
	*c = append(*c, fmt.Sprint("update ", text(old), " ", text(new)))
}

func (c *calls) OnDelete(last *corev1.Pod, final bool) {
	*c = append(*c, fmt.Sprint("delete ", text(last), " ", final))
}

// A handler receives a chain of changes even if some versions of the object cannot be decoded again.
// Guarantees: H2, R17
func TestUnpackerLeavesOutWhatCannotBeDecoded(t *testing.T) {
	k, err := NewPacker(reflect.TypeFor[*corev1.Pod](), false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := func(version int, damaged bool) *Object {
		raw := fmt.Appendf(nil, `{"metadata":{"name":"a","resourceVersion":"%d"},"spec":{"nodeName":"n"}}`, version)
		obj, err := k.pool.Decode(decode.JSON, raw, decode.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		p := k.PackBytes(obj, decode.JSON, raw, nil, nil)
		if damaged {
			p.fail(errors.New("test"))
		}
		return p
	}
	good := func(version int) *Object { return pod(version, false) }
	bad := func(version int) *Object { return pod(version, true) }
	for _, c := range []struct {
		name string
		do   func(u *Unpacker[*corev1.Pod])
		want calls
	}{
		{"good versions", func(u *Unpacker[*corev1.Pod]) {
			u.OnAdd(good(1), true)
			u.OnUpdate(good(1), good(2))
			u.OnUpdate(nil, good(3))
			u.OnDelete(good(3), true)
		}, calls{`add a@1 on "n" true`, `update a@1 on "n" a@2 on "n"`, `update nil a@3 on "n"`, `delete a@3 on "n" true`}},
		{"the first is damaged", func(u *Unpacker[*corev1.Pod]) {
			u.OnAdd(bad(1), true)
			u.OnUpdate(bad(1), bad(2))
			u.OnUpdate(bad(2), good(3))
			u.OnUpdate(good(3), good(4))
		}, calls{`add a@3 on "n" false`, `update a@3 on "n" a@4 on "n"`}},
		{"a later one is damaged", func(u *Unpacker[*corev1.Pod]) {
			u.OnAdd(good(1), false)
			u.OnUpdate(good(1), bad(2))
			u.OnUpdate(bad(2), good(3))
		}, calls{`add a@1 on "n" false`, `update a@2 on "" a@3 on "n"`}},
		{"the last is damaged", func(u *Unpacker[*corev1.Pod]) {
			u.OnAdd(good(1), false)
			u.OnDelete(bad(2), true)
		}, calls{`add a@1 on "n" false`, `delete a@2 on "" false`}},
		{"deleted before the handler had it", func(u *Unpacker[*corev1.Pod]) {
			u.OnAdd(bad(1), false)
			u.OnDelete(good(1), true)
			u.OnAdd(good(2), false)
			u.OnUpdate(good(2), good(3))
		}, calls{`add a@2 on "n" false`, `update a@2 on "n" a@3 on "n"`}},
		{"created again while it is damaged", func(u *Unpacker[*corev1.Pod]) {
			u.OnAdd(bad(1), false)
			u.OnAdd(good(2), false)
			u.OnDelete(good(2), true)
		}, calls{`add a@2 on "n" false`, `delete a@2 on "n" true`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got calls
			u := &Unpacker[*corev1.Pod]{Handler: &got}
			c.do(u)
			if !slices.Equal(got, c.want) {
				t.Errorf("the handler has %q, want %q", got, c.want)
			}
		})
	}
}
