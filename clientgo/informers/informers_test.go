package informers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientgo "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/informers"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start starts the informers of f until the test ends, and waits until they have synced.
func start(t *testing.T, f informers.SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(f.Shutdown)
	t.Cleanup(cancel)
	f.StartWithContext(ctx)
	if err := f.WaitForCacheSyncWithContext(t.Context()).AsError(); err != nil {
		t.Fatal(err)
	}
}

// storages are the options of storage, each alone.
var storages = map[string]informers.Options{
	"Plain":             {},
	"Shared":            {Layout: new(informer.LayoutShared)},
	"Compact":           {Layout: new(informer.LayoutCompact)},
	"DropManagedFields": {DropManagedFields: true},
}

// A factory delivers the same events as that of client-go, and its listers and indexers give the same answers.
// Guarantees: P1
func TestSameAsClientGo(t *testing.T) {
	for name, storage := range storages {
		t.Run(name, func(t *testing.T) {
			w := world.New(t)
			w.Pod("a", "one")
			w.Pod("b", "two")
			client := w.Clientset()
			peer := clientgo.NewSharedInformerFactory(client, 0)
			ours := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithStorage(storage))
			var theirs, mine world.Recorder
			if _, err := peer.Core().V1().Pods().Informer().AddEventHandler(&theirs); err != nil {
				t.Fatal(err)
			}
			if _, err := ours.Core().V1().Pods().Informer().AddEventHandler(&mine); err != nil {
				t.Fatal(err)
			}
			start(t, peer)
			start(t, ours)
			wantSame(t, theirs.Next(2), mine.Next(2), true)

			w.Pod("a", "three")
			w.Relabel("a", "three", "x", "y")
			w.Relabel("b", "two", "x", "y")
			w.Delete("a", "one")
			wantSame(t, theirs.Next(4), mine.Next(4), false)
			wantSame(t, answers(t, peer, storage.DropManagedFields), answers(t, ours, false), false)
		})
	}
}

func wantSame(t *testing.T, theirs, mine []string, anyOrder bool) {
	t.Helper()
	if anyOrder {
		slices.Sort(theirs)
		slices.Sort(mine)
	}
	if !slices.Equal(theirs, mine) {
		t.Errorf("client-go:\n%q\nhere:\n%q", theirs, mine)
	}
}

// answers returns the answers of the lister and the indexer of pods.
func answers(t *testing.T, f informers.SharedInformerFactory, drop bool) (all []string) {
	t.Helper()
	lister, indexer := f.Core().V1().Pods().Lister(), f.Core().V1().Pods().Informer().GetIndexer()
	note := func(what string, objects ...any) {
		var list []string
		for _, obj := range objects {
			if pod, ok := obj.(*corev1.Pod); ok && drop {
				pod = pod.DeepCopy()
				pod.ManagedFields = nil
				obj = pod
			}
			encoded, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(encoded))
		}
		slices.Sort(list)
		all = append(all, fmt.Sprintf("%s: %q", what, list))
	}
	must := func(what string, list any, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		var objects []any
		for v := reflect.ValueOf(list); len(objects) < v.Len(); {
			objects = append(objects, v.Index(len(objects)).Interface())
		}
		note(what, objects...)
	}
	pods, err := lister.List(labels.Everything())
	must("List", pods, err)
	pods, err = lister.List(labels.SelectorFromSet(labels.Set{"name": "two"}))
	must("List name=two", pods, err)
	pods, err = lister.Pods("a").List(labels.Everything())
	must("List of a", pods, err)
	pod, err := lister.Pods("b").Get("two")
	must("Get", []*corev1.Pod{pod}, err)
	if _, err := lister.Pods("a").Get("one"); !apierrors.IsNotFound(err) {
		t.Errorf("Get of a deleted pod: %v", err)
	}
	must("indexer.List", indexer.List(), nil)
	keys := indexer.ListKeys()
	slices.Sort(keys)
	must("ListKeys", keys, nil)
	must("ListIndexFuncValues", slices.Sorted(slices.Values(indexer.ListIndexFuncValues("namespace"))), nil)
	objects, err := indexer.ByIndex("namespace", "b")
	must("ByIndex", objects, err)
	objects, err = indexer.Index("namespace", &metav1.ObjectMeta{Namespace: "a"})
	must("Index", objects, err)
	keys, err = indexer.IndexKeys("namespace", "a")
	must("IndexKeys", keys, err)
	obj, exists, err := indexer.Get(clientcache.DeletedFinalStateUnknown{Key: "b/two"})
	must(fmt.Sprintf("Get of a tombstone: %t", exists), []any{obj}, err)
	for _, key := range []string{"", "/", "two", "/two", "b/", "b/two/", "a/b/c", "b/none"} {
		obj, exists, err := indexer.GetByKey(key)
		must(fmt.Sprintf("GetByKey %q: %v %t", key, obj, exists), []any{}, err)
	}
	if _, _, err := indexer.Get("no object"); err == nil {
		t.Error("Get of a string returns no error")
	}
	must("ListIndexFuncValues of an unknown name", indexer.ListIndexFuncValues("unknown"), nil)
	if _, err := indexer.ByIndex("unknown", ""); err == nil {
		t.Error("ByIndex of an unknown name returns no error")
	}
	if err := indexer.AddIndexers(indexer.GetIndexers()); err == nil {
		t.Error("an index can be added twice")
	}
	return all
}

// A fake clientset gets the informers of client-go, so existing unit tests pass.
// Guarantees: P1
func TestFakeClientset(t *testing.T) {
	client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}})
	f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithStorage(informers.Options{Layout: new(informer.LayoutShared)}))
	var events world.Recorder
	if _, err := f.Core().V1().Pods().Informer().AddEventHandler(&events); err != nil {
		t.Fatal(err)
	}
	start(t, f)
	if got := events.Next(1)[0]; got != "initial a/one@" && got != "add a/one@" {
		t.Errorf("event %q", got)
	}
	if _, err := f.Core().V1().Pods().Lister().Pods("a").Get("one"); err != nil {
		t.Error(err)
	}
}
