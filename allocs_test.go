//go:build !race

package informer

import (
	"bytes"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/fleet"
)

// What BENCHMARKS.md says of allocations holds: these are counted, not timed. The race detector makes some of its own.
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
		{"Get of what is not there", 0, func() { store.Get(Key{Namespace: "a", Name: "b"}) }},
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
	for _, f := range []format{formatJSON, formatProtobuf} {
		var list bytes.Buffer
		write := fleet.WriteListJSON
		if f == formatProtobuf {
			write = fleet.WriteListProtobuf
		}
		if err := write(&list, metav1.ListMeta{ResourceVersion: "1"}, pods.All()); err != nil {
			t.Fatal(err)
		}
		r := &Reflector[*corev1.Pod]{}
		d := newDecoder(&codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()})
		read := func() float64 {
			return testing.AllocsPerRun(3, func() {
				err := readList(bytes.NewReader(list.Bytes()), f, &listInfo{}, func(raw []byte) {
					var it piece[*corev1.Pod]
					r.find(f, raw, &it)
					if r.decode(d, f, raw, nil, &it); it.err != nil {
						t.Fatal(it.err)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}) / float64(len(all))
		}
		if got := read(); got > 90 {
			t.Errorf("format %d: a pod has %.1f allocations, 90 at most", f, got)
		}
		r.config.Share = true
		if got := read(); got > 40 {
			t.Errorf("format %d: a pod that shares has %.1f allocations, 40 at most", f, got)
		}
		r.held = store.Get
		if got := read(); got > 2.1 {
			t.Errorf("format %d: a pod that is held has %.1f allocations, its key's 2 at most", f, got)
		}
	}
}
