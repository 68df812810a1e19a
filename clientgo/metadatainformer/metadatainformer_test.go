package metadatainformer_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"
	clientgo "k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/clientgo/metadatainformer"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start starts the informers of f until the test ends, and waits until they have synced.
func start(t *testing.T, f metadatainformer.SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(f.Shutdown)
	t.Cleanup(cancel)
	f.Start(ctx.Done())
	for resource, synced := range f.WaitForCacheSync(t.Context().Done()) {
		if !synced {
			t.Errorf("%s has not synced", resource)
		}
	}
}

// A factory has the same objects as that of client-go, and delivers the same events. It requests metadata only.
// Guarantees: P1
func TestSameAsClientGo(t *testing.T) {
	for name, storage := range map[string]cache.Options{
		"Plain": {}, "Shared": {Layout: new(informer.LayoutShared)}, "Compact": {Layout: new(informer.LayoutCompact)},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t)
			w.Pod("a", "one")
			w.Pod("b", "two")
			client, err := metadata.NewForConfig(w.Server.Config())
			if err != nil {
				t.Fatal(err)
			}
			peer := clientgo.NewSharedInformerFactory(client, time.Hour)
			ours, err := metadatainformer.NewSharedInformerFactoryWithOptions(w.Server.Config(), time.Hour,
				metadatainformer.WithStorage(storage))
			if err != nil {
				t.Fatal(err)
			}
			var theirs, mine world.Recorder
			for f, events := range map[metadatainformer.SharedInformerFactory]*world.Recorder{peer: &theirs, ours: &mine} {
				if _, err := f.ForResource(world.Pods).Informer().AddEventHandler(events); err != nil {
					t.Fatal(err)
				}
				start(t, f)
			}
			first, also := theirs.Next(2), mine.Next(2)
			slices.Sort(first)
			slices.Sort(also)
			if !slices.Equal(first, also) {
				t.Errorf("client-go:\n%q\nhere:\n%q", first, also)
			}
			w.Pod("a", "three")
			w.Relabel("a", "three", "x", "y")
			w.Delete("b", "two")
			if theirs, mine := theirs.Next(3), mine.Next(3); !slices.Equal(theirs, mine) {
				t.Errorf("client-go:\n%q\nhere:\n%q", theirs, mine)
			}
			for _, name := range []string{"one", "three"} {
				want, err := peer.ForResource(world.Pods).Lister().ByNamespace("a").Get(name)
				if err != nil {
					t.Fatal(err)
				}
				got, err := ours.ForResource(world.Pods).Lister().ByNamespace("a").Get(name)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("client-go:\n%v\nhere:\n%v, %v", want, got, err)
				}
			}
		})
	}
}

// Namespace, selectors and transform apply.
// Guarantees: P1
func TestOptions(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	w.Pod("a", "two")
	w.Pod("b", "one")
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = "name=one" }
	filtered, err := metadatainformer.NewFilteredSharedInformerFactory(w.Server.Config(), 0, "a", tweak)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := metadatainformer.NewSharedInformerFactoryWithOptions(w.Server.Config(), 0,
		metadatainformer.WithTransform(func(obj any) (any, error) {
			obj.(*metav1.PartialObjectMetadata).Labels = map[string]string{"changed": "yes"}
			return obj, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	for f, want := range map[metadatainformer.SharedInformerFactory]int{filtered: 1, whole: 3} {
		i := f.ForResource(world.Pods)
		start(t, f)
		list, err := i.Lister().List(labels.Everything())
		if err != nil || len(list) != want {
			t.Errorf("%d objects, %v; want %d", len(list), err, want)
		}
	}
	list, err := whole.ForResource(world.Pods).Lister().List(labels.SelectorFromSet(labels.Set{"changed": "yes"}))
	if err != nil || len(list) != 3 {
		t.Errorf("%d objects that the transform changed, %v", len(list), err)
	}
	if _, err := metadatainformer.NewSharedInformerFactory(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: "none"}}, 0); err == nil {
		t.Error("no error for a certificate that does not exist")
	}
}

// The informers of a factory with a shard selector have the objects of the shard only.
// Guarantees: P1, S1
func TestShardSelector(t *testing.T) {
	w := world.New(t)
	want := w.Spread("one")
	f, err := metadatainformer.NewSharedInformerFactoryWithOptions(w.Server.Config(), 0,
		metadatainformer.WithShardSelector(world.Half()))
	if err != nil {
		t.Fatal(err)
	}
	lister := f.ForResource(world.Pods).Lister()
	start(t, f)
	if list, err := lister.List(labels.Everything()); err != nil || !slices.Equal(world.Namespaces(list), want) {
		t.Errorf("pods of %q, %v; want %q", world.Namespaces(list), err, want)
	}
}
