package newest

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/clientgo/informers"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/informertest"
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

// The typed accessors work: handlers and indexes receive pods.
// Guarantees: P1
func TestTypedInformer(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	f := informers.NewSharedInformerFactory(w.Clientset(), 0)
	i := f.Core().V1().Pods().TypedInformer()
	if err := i.AddTypedIndexers(coreinformers.PodIndexers{"node": func(pod *corev1.Pod) ([]string, error) {
		return []string{pod.Spec.NodeName}, nil
	}}); err != nil {
		t.Fatal(err)
	}
	added, deleted := make(chan *corev1.Pod, 2), make(chan coreinformers.DeletedPod, 2)
	handle, err := i.AddTypedEventHandler(coreinformers.PodHandlerFuncs{
		AddFunc:    func(pod *corev1.Pod) { added <- pod },
		DeleteFunc: func(pod coreinformers.DeletedPod) { deleted <- pod },
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, f)
	if pod := <-added; pod.Name != "one" {
		t.Errorf("added %v", pod)
	}
	if pods, err := i.GetTypedIndexer().ByTypedIndex("node", "node-one"); err != nil || len(pods) != 1 {
		t.Errorf("pods %v, %v", pods, err)
	}
	w.Delete("a", "one")
	if pod := <-deleted; pod.OptionalObj.Name != "one" || pod.FinalStateUnknown != nil {
		t.Errorf("deleted %v", pod)
	}
	if err := clientcache.ShutDownEventHandler(i, handle); err != nil {
		t.Error(err)
	}
}

// A group that client-go 0.36 lacks has one informer for each type, whichever method returns it. Start,
// WaitForCacheSync and Shutdown include it, and the options of the factory apply.
// Guarantees: P1
func TestGroupOfNewerVersion(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	resource := lifecyclev1alpha1.SchemeGroupVersion.WithResource("evictionrequests")
	requests := informertest.Register[*lifecyclev1alpha1.EvictionRequest](w.Server,
		informertest.Resource{GroupVersionResource: resource})
	for _, namespace := range []string{"a", "b"} {
		if _, err := requests.Create(&lifecyclev1alpha1.EvictionRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	f := informers.NewSharedInformerFactoryWithOptions(w.Clientset(), 0, informers.WithNamespace("a"),
		informers.WithTransform(func(obj any) (any, error) {
			obj.(metav1.Object).SetLabels(map[string]string{"transformed": "yes"})
			return obj, nil
		}))
	typed := f.Lifecycle().V1alpha1().EvictionRequests()
	generic, err := f.ForResource(resource)
	if err != nil {
		t.Fatal(err)
	}
	f.Core().V1().Pods().Informer()
	start(t, f)
	if synced := f.WaitForCacheSync(t.Context().Done()); len(synced) != 2 {
		t.Errorf("synced %v", synced)
	}
	selector := labels.SelectorFromSet(labels.Set{"transformed": "yes"})
	list, err := typed.Lister().List(selector)
	if err != nil || len(list) != 1 || list[0].Namespace != "a" {
		t.Errorf("List: %v, %v", list, err)
	}
	if obj, err := generic.Lister().ByNamespace("a").Get("one"); err != nil || obj != list[0] {
		t.Errorf("Get: %v, %v", obj, err)
	}
	if i := f.InformerFor(&lifecyclev1alpha1.EvictionRequest{}, nil); i.GetStore() != generic.Informer().GetStore() {
		t.Errorf("InformerFor returns another informer, a %T", i)
	}
}

// An informer of a group that client-go 0.36 lacks only asks the server for the shard. The objects of a server that does
// not know shards are not checked.
// Guarantees: P1, S6
func TestGroupOfNewerVersionAsksForTheShard(t *testing.T) {
	w := world.New(t)
	resource := lifecyclev1alpha1.SchemeGroupVersion.WithResource("evictionrequests")
	requests := informertest.Register[*lifecyclev1alpha1.EvictionRequest](w.Server,
		informertest.Resource{GroupVersionResource: resource})
	for n := range 20 {
		if _, err := requests.Create(&lifecyclev1alpha1.EvictionRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(n)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	f := informers.NewSharedInformerFactoryWithOptions(w.Clientset(), 0, informers.WithShardSelector(world.Half()))
	lister := f.Lifecycle().V1alpha1().EvictionRequests().Lister()
	start(t, f)
	if list, err := lister.List(labels.Everything()); err != nil || len(list) != 20 {
		t.Errorf("%d objects, %v", len(list), err)
	}
	for _, r := range w.Server.Requests() {
		if r.Resource == resource && r.Query.Get("shardSelector") != world.Half().String() {
			t.Errorf("request %v", r.Query)
		}
	}
}
