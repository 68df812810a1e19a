package heapsize

import (
	"fmt"
	"math/bits"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/test/testkit"
)

type node struct {
	Name string
	Next *node
	Any  any
	own  []byte
}

// sizeOf returns the size of some objects together.
func sizeOf(objects ...any) int {
	var s Set
	for _, obj := range objects {
		s.Add(obj)
	}
	return s.Bytes()
}

func TestSizes(t *testing.T) {
	const word = bits.UintSize / 8
	header := rounded(int(reflect.TypeFor[node]().Size()))
	text, bytes := strings.Repeat("x", 100), make([]byte, 100, 200)
	loop := &node{}
	loop.Next = loop
	shared := &node{Name: text}
	for _, c := range []struct {
		name    string
		objects []any
		want    int
	}{
		{"nothing", nil, 0},
		{"nil", []any{nil}, 0},
		{"a nil pointer", []any{(*node)(nil)}, 0},
		{"a struct", []any{&node{}}, header},
		{"a string", []any{&node{Name: text}}, header + 112},
		{"a string without content", []any{&node{Name: ""}}, header},
		{"a pointer", []any{&node{Next: &node{}}}, 2 * header},
		{"a cycle", []any{loop}, header},
		{"the same twice", []any{shared, shared}, header + 112},
		{"two that share a string", []any{&node{Name: text}, &node{Name: text}}, 2*header + 112},
		{"two that share a pointer", []any{&node{Next: shared}, &node{Next: shared}}, 3*header + 112},
		{"the capacity of a slice", []any{&bytes}, rounded(3*word) + 224},
		{"an unexported field", []any{&node{own: bytes}}, header},
		{"a number in an interface", []any{&node{Any: int64(1 << 40)}}, header + 8},
		{"a string in an interface", []any{&node{Any: text}}, header + 2*word + 112},
		{"a pointer in an interface", []any{&node{Any: &node{}}}, 2 * header},
		{"an empty map", []any{&node{Any: map[string]string{}}}, header + 48},
		{"a channel and a function", []any{&struct {
			C chan int
			F func()
		}{make(chan int, 100), func() {}}}, 2 * word},
		{"an array", []any{&[2]*node{{}, {}}}, 2*word + 2*header},
	} {
		if got := sizeOf(c.objects...); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
	var s Set
	s.AddBytes(5)
	if s.Add(&node{}); s.Bytes() != 5+header {
		t.Errorf("%d bytes after 5 and a node", s.Bytes())
	}
}

// The estimate is close to the memory that the runtime allocates.
func TestSizesAreThoseOfTheRuntime(t *testing.T) {
	const n = 2000
	for name, create := range map[string]func(i int) any{
		"pod": func(i int) any {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{}}}
			for l := range 12 {
				pod.Labels[fmt.Sprintf("label-%d-%d", i, l)] = fmt.Sprintf("value-%d-%d", i, l)
			}
			for c := range 3 {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("container-%d-%d", i, c)})
			}
			return pod
		},
		"unstructured": func(i int) any {
			return &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": fmt.Sprintf("object-%d", i)},
				"spec":     map[string]any{"numbers": []any{int64(1000 + i), int64(2000 + i)}, "text": fmt.Sprintf("text-%d", i)},
			}}
		},
	} {
		objects := make([]any, n)
		before := testkit.LiveMemory()
		for i := range objects {
			objects[i] = create(i)
		}
		allocated := int(testkit.LiveMemory() - before)
		if got := sizeOf(objects...); got < allocated*8/10 || got > allocated*12/10 {
			t.Errorf("%s: %d bytes, but %d are allocated", name, got/n, allocated/n)
		}
		runtime.KeepAlive(objects)
	}
}
