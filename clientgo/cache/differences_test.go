package cache_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/informertest"
)

// An object that cannot be decoded does not keep the informer from syncing. A read of it is an error, never "not found".
// Guarantees: P3
func TestUndecodable(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "bad")
	w.Pod("a", "good")
	w.Pod("b", "good")
	defer w.Server.Inject(informertest.Fault{Corrupt: []informer.Key{{Namespace: "a", Name: "bad"}}})()
	c := config(w)
	c.Indexers[clientcache.NamespaceIndex] = clientcache.MetaNamespaceIndexFunc
	i := create(t, c)
	defer run(t, i)()
	indexer := i.GetIndexer()
	var undecodable *informer.DecodeError
	if _, exists, err := indexer.GetByKey("a/bad"); exists || !errors.As(err, &undecodable) {
		t.Errorf("GetByKey: %t %v", exists, err)
	}
	if _, exists, err := indexer.GetByKey("a/none"); exists || err != nil {
		t.Errorf("GetByKey of one that does not exist: %t %v", exists, err)
	}
	if list := indexer.List(); len(list) != 2 {
		t.Errorf("%d objects", len(list))
	}
	if list, err := indexer.ByIndex(clientcache.NamespaceIndex, "a"); len(list) != 1 || !errors.As(err, &undecodable) {
		t.Errorf("ByIndex of its namespace: %v %v", list, err)
	}
	if list, err := indexer.ByIndex(clientcache.NamespaceIndex, "b"); len(list) != 1 || err != nil {
		t.Errorf("ByIndex of another namespace: %v %v", list, err)
	}
	if _, err := indexer.IndexKeys("node", "node-good"); !errors.As(err, &undecodable) {
		t.Errorf("IndexKeys: %v", err)
	}
}

// A relist delivers no events for objects that did not change. Objects that a test added before Run disappear without
// an event.
// Guarantees: R19
func TestNoEventsWithoutChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.Server.Close()
		w.Pod("a", "same")
		w.Pod("a", "other")
		i := create(t, config(w))
		if err := i.GetStore().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "of", Name: "test"}}); err != nil {
			t.Fatal(err)
		}
		var events world.Recorder
		add(t, i, &events)
		defer run(t, i)()
		events.Next(2)
		w.Server.Stop()
		w.Relabel("a", "other", "x", "y")
		w.Server.Compact()
		w.Server.Start()
		if got := events.Next(1); got[0] != "update a/other@3 to a/other@4" {
			t.Errorf("events %q", got)
		}
		synctest.Wait()
		if more := events.Waiting(); len(more) > 0 {
			t.Errorf("events %q", more)
		}
		if keys := i.GetStore().ListKeys(); len(keys) != 2 {
			t.Errorf("keys %q", keys)
		}
	})
}

// A transform is called once for each version. If it fails for an object, the others do not wait. If it renames an
// object, the object stays under the key of the server.
// Guarantees: P2, R20
func TestTransforms(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	w.Pod("a", "rejected")
	w.Pod("a", "renamed")
	calls := map[string]int{}
	i := create(t, config(w))
	if err := i.SetTransform(func(obj any) (any, error) {
		pod := obj.(*corev1.Pod)
		calls[pod.Name]++
		switch pod.Name {
		case "rejected":
			return nil, errors.New("rejected")
		case "renamed":
			pod.Name = "new"
		}
		return pod, nil
	}); err != nil {
		t.Fatal(err)
	}
	defer run(t, i)()
	for key, want := range map[string]bool{"a/one": true, "a/rejected": false, "a/renamed": true, "a/new": false} {
		obj, exists, err := i.GetStore().GetByKey(key)
		if exists != want || (key == "a/rejected") != (err != nil) {
			t.Errorf("%s: %v %t %v", key, obj, exists, err)
		}
	}
	for name, n := range calls {
		if n != 1 {
			t.Errorf("%d calls for %s", n, name)
		}
	}
	if len(calls) != 3 {
		t.Errorf("calls %v", calls)
	}
}

// A watch that ends cleanly is not a failure, so the watch error handler is not called.
func TestCleanEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.Server.Close()
		i := create(t, config(w))
		if err := i.SetWatchErrorHandler(func(_ *clientcache.Reflector, err error) { t.Errorf("failure: %v", err) }); err != nil {
			t.Fatal(err)
		}
		var events world.Recorder
		add(t, i, &events)
		defer run(t, i)()
		synctest.Wait()
		w.Server.EndWatches()
		w.Pod("a", "one")
		events.Next(1)
	})
}

// The options of storage apply.
func TestStorage(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	for name, options := range map[string]cache.Options{
		"Plain": {}, "Shared": {Layout: new(informer.LayoutShared)}, "Compact": {Layout: new(informer.LayoutCompact)},
		"DropManagedFields": {DropManagedFields: true},
	} {
		c := config(w)
		c.Options = options
		i := create(t, c)
		run(t, i)()
		obj, _, err := i.GetStore().GetByKey("a/one")
		if err != nil {
			t.Fatal(err)
		}
		if kept := len(obj.(*corev1.Pod).ManagedFields) > 0; kept == options.DropManagedFields {
			t.Errorf("%s: managedFields %v", name, obj.(*corev1.Pod).ManagedFields)
		}
	}
}

// Programs for client-go's informers may write to cached objects. Unless they choose another layout, such a write changes no other
// object.
// Guarantees: P1
func TestObjectsAreSeparateByDefault(t *testing.T) {
	const pods = 200 // a decoder starts to share after some dozen
	w := world.New(t)
	for n := range pods {
		w.Pod("a", fmt.Sprint(n))
	}
	for name, test := range map[string]struct {
		layout   *informer.Layout
		separate bool
	}{"default": {nil, true}, "separate": {new(informer.LayoutSeparate), true}, "shared": {new(informer.LayoutShared), false}} {
		c := config(w)
		c.Options.Layout = test.layout
		i := create(t, c)
		run(t, i)()
		objects := i.GetStore().List()
		containers := map[*corev1.Container]bool{}
		for _, obj := range objects {
			containers[&obj.(*corev1.Pod).Spec.Containers[0]] = true
		}
		if n := len(containers); len(objects) != pods || test.separate && n != pods || !test.separate && n > pods/2 {
			t.Errorf("%s: %d objects have %d containers", name, len(objects), n)
		}
		if !test.separate {
			continue
		}
		written := objects[0].(*corev1.Pod)
		written.Spec.Containers[0].Image = "written"
		for _, obj := range objects[1:] {
			if obj.(*corev1.Pod).Spec.Containers[0].Image == "written" {
				t.Errorf("%s: a write to %s changed %s", name, written.Name, obj.(*corev1.Pod).Name)
			}
		}
	}
}
