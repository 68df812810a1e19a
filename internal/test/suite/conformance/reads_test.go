package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/world"
)

func (r *rig[T]) snapshotIsForEver() {
	var added []string
	for i := range 20 {
		name := fmt.Sprintf("p%02d", i)
		v := fmt.Sprint(i % 3)
		r.put("ab"[i%2:][:1], name, v)
		added = append(added, name)
	}
	r.start()
	snap := r.inf.Store().Snapshot()
	describe := func() (lines []string) {
		for obj := range snap.All() {
			lines = append(lines, fmt.Sprint(informer.KeyOf(obj), obj.GetResourceVersion(), obj.GetLabels()))
			if got, ok := snap.Get(informer.KeyOf(obj)); !ok || !object.Same(got, obj) {
				r.Errorf("Get of %v returns another object than All", informer.KeyOf(obj))
			}
		}
		for _, v := range slices.Sorted(r.byV.KeysIn(snap)) {
			for obj := range r.byV.LookupIn(snap, v) {
				lines = append(lines, fmt.Sprint(v, informer.KeyOf(obj)))
			}
		}
		return append(lines, snap.ResourceVersion(), fmt.Sprint(snap.Len()))
	}
	before := describe()
	for i, name := range added {
		ns := "ab"[i%2:][:1]
		switch i % 4 {
		case 0:
			r.Relabel(ns, name, "9")
		case 1:
			r.Delete(ns, name)
		case 2:
			r.put(ns, name+"x", "9")
		}
	}
	r.relist(func() { r.Delete("a", added[0]); r.put("b", "new", "1") })
	informer.NewIndex(r.inf, func(obj T) []string { return []string{obj.GetName()} })
	if diff := gocmp.Diff(before, describe()); diff != "" {
		r.Errorf("a snapshot has changed (-before +after):\n%s", diff)
	}
	r.main.Take()
	r.end()
}

func (r *rig[T]) indexAddedLate() {
	r.startWith()
	r.put("a", "three", "1")
	r.Relabel("b", "two", "2")
	synctest.Wait()
	calls := map[string]int{}
	late := informer.NewIndex(r.inf, func(obj T) []string {
		calls[obj.GetName()+"@"+obj.GetResourceVersion()]++
		v := obj.GetLabels()["v"]
		return []string{v, obj.GetNamespace(), v}
	})
	want := func(keys map[string]string) {
		r.Helper()
		synctest.Wait()
		got := map[string]string{}
		for key := range late.Keys() {
			var names []string
			for obj := range late.Lookup(key) {
				names = append(names, obj.GetName())
			}
			got[key] = strings.Join(names, " ")
			if n := late.Count(key); n != len(names) {
				r.Errorf("%d objects as %s, %d by Count", len(names), key, n)
			}
		}
		if diff := gocmp.Diff(keys, got); diff != "" {
			r.Errorf("index (-want +got):\n%s", diff)
		}
	}
	want(map[string]string{"a": "one three", "b": "two", "1": "one three", "2": "two"})
	r.Relabel("b", "two", "3")
	r.Delete("a", "three")
	want(map[string]string{"a": "one", "b": "two", "1": "one", "3": "two"})
	r.relist(func() { r.Delete("b", "two"); r.Relabel("a", "one", "4") })
	want(map[string]string{"a": "one", "4": "one"})
	for version, n := range calls {
		if n != 1 {
			r.Errorf("the index function was called %d times for %s", n, version)
		}
	}
	r.main.Take()
	r.end()
}

// A read after a wait returns the written object or a newer version. A wait for an object outside the scope ends too.
func (r *rig[T]) wait() {
	others := informertest.Register[*corev1.ConfigMap](r.Server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")})
	r.startWith()
	ctx := r.Context()
	waitFor := func(obj *corev1.Pod) {
		r.Helper()
		began := time.Now()
		if err := r.inf.WaitForObject(ctx, obj); err != nil || time.Since(began) != 0 {
			r.Errorf("%v after %v", err, time.Since(began))
		}
		have, ok := r.inf.Store().Get(informer.KeyOf(obj))
		pod, there := r.Pods.Get(informer.KeyOf(obj))
		if there && r.follows(pod) && !ok || ok && newer(obj, have) { // the store may still have an object deleted since
			r.Errorf("%v: in the store: %v, on the server: %v", informer.KeyOf(obj), ok, there)
		}
	}
	waitFor(r.put("a", "new", "1"))
	waitFor(r.Relabel("b", "two", "2"))
	waitFor(r.put("elsewhere", "new", "1"))
	waitFor(r.Create(world.NewPod("a", "other", "app=out", "v=1")))
	gone := r.Relabel("a", "new", "2")
	r.Delete("a", "new")
	waitFor(gone)
	waitFor(r.put("a", "new", "3"))
	waitFor(gone)

	// The version of another resource's change, or of a change that only the server can place outside the scope, arrives by
	// bookmark.
	away := world.NewPod("a", "away", "app=in", "v=1")
	away.Spec.NodeName = "n2"
	if err := r.inf.WaitForObject(ctx, r.Create(away)); err != nil {
		r.Error(err)
	}
	if _, err := others.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}}); err != nil {
		r.Fatal(err)
	}
	began := time.Now()
	if err := r.inf.WaitForResourceVersion(ctx, r.Server.ResourceVersion()); err != nil || time.Since(began) > 2*time.Minute {
		r.Errorf("WaitForResourceVersion: %v after %v", err, time.Since(began))
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := r.inf.WaitForResourceVersion(short, "1000"); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("WaitForResourceVersion of a future version: %v", err)
	}
	if err := r.inf.WaitForObject(short, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "new", ResourceVersion: "1000", Labels: map[string]string{"app": "in"}}}); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("WaitForObject of a future version: %v", err)
	}
	for _, rv := range []string{"", "0", "x", "01"} {
		if r.inf.WaitForResourceVersion(ctx, rv) == nil || r.inf.WaitForObject(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}) == nil {
			r.Errorf("waiting for version %q returned nil", rv)
		}
	}
	r.main.Take()
	r.end()
}
