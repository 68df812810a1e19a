package compat_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appsv1listers "k8s.io/client-go/listers/apps/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	appsv1compat "github.com/typedinformer/informer/k8s/compat/apps/v1"
	corev1compat "github.com/typedinformer/informer/k8s/compat/core/v1"
)

// onNodes is code that takes client-go's listers.
func onNodes(pods corev1listers.PodLister, nodes corev1listers.NodeLister) (names []string, err error) {
	list, err := pods.Pods("default").List(labels.Everything())
	for _, pod := range list {
		if _, err := nodes.Get(pod.Spec.NodeName); err == nil {
			names = append(names, pod.Name)
		}
	}
	return names, err
}

// A unit test seeds client-go's listers by stores, without a server. A program makes them of informers.
func Example() {
	t := new(testing.T) // that of the test
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-1"}}
	pods, _ := informertest.NewStore(t, web)
	nodes, nodeWriter := informertest.NewStore[*corev1.Node](t)
	podLister, nodeLister := corev1compat.NewPodLister(pods), corev1compat.NewNodeLister(nodes)
	fmt.Println(onNodes(podLister, nodeLister))

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	if err := nodeWriter.Apply(informer.Delta[*corev1.Node]{Type: informer.Upserted, Object: node}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(onNodes(podLister, nodeLister))
	// Output:
	// [] <nil>
	// [web] <nil>
}

// Listers answer as client-go's do, also by the methods that client-go adds to some, and with the same errors.
func TestAnswersAsClientGo(t *testing.T) {
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}
	}
	web, db := map[string]string{"app": "web"}, map[string]string{"app": "db"}
	var sets []*appsv1.DaemonSet
	for _, s := range []struct {
		name     string
		selector *metav1.LabelSelector
	}{
		{"all", &metav1.LabelSelector{}},
		{"db", &metav1.LabelSelector{MatchLabels: db}},
		{"invalid", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Operator: "Like"}}}},
		{"none", nil},
	} {
		sets = append(sets, &appsv1.DaemonSet{ObjectMeta: meta(s.name, db), Spec: appsv1.DaemonSetSpec{Selector: s.selector}})
	}
	other := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "db"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: db}}}
	sets = append(sets, other)
	store, _ := informertest.NewStore(t, sets...)
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, set := range sets {
		if err := indexer.Add(set); err != nil {
			t.Fatal(err)
		}
	}
	names := func(sets []*appsv1.DaemonSet, err error) string {
		found := map[string]bool{}
		for _, set := range sets {
			found[set.Namespace+"/"+set.Name] = true
		}
		return fmt.Sprint(found, err)
	}
	answers := func(l appsv1listers.DaemonSetLister) (all []string) {
		for _, labels := range []map[string]string{nil, web, db} {
			all = append(all, names(l.GetPodDaemonSets(&corev1.Pod{ObjectMeta: meta("x", labels)})),
				names(l.GetHistoryDaemonSets(&appsv1.ControllerRevision{ObjectMeta: meta("x", labels)})))
		}
		for _, name := range []string{"db", "nowhere"} {
			set, err := l.DaemonSets("default").Get(name)
			all = append(all, fmt.Sprint(set, err))
		}
		return append(all, names(l.List(labels.SelectorFromSet(db))), names(l.DaemonSets("other").List(labels.Everything())))
	}
	got, want := answers(appsv1compat.NewDaemonSetLister(store)), answers(appsv1listers.NewDaemonSetLister(indexer))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("answer %d: %s, client-go: %s", i+1, got[i], want[i])
		}
	}
}

// If objects may be missing because they could not be decoded, the added methods say so, as lists do.
func TestAddedMethodsReportMissingObjects(t *testing.T) {
	store, writer := informertest.NewStore[*corev1.ReplicationController](t)
	key := informer.Key{Namespace: "default", Name: "broken"}
	failed := &informer.DecodeError{Key: key, Err: fmt.Errorf("no number")}
	err := writer.Apply(informer.Delta[*corev1.ReplicationController]{Type: informer.Bookmarked, Undecoded: []*informer.DecodeError{failed}})
	if err != nil {
		t.Fatal(err)
	}
	lister := corev1compat.NewReplicationControllerLister(store)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}}}
	_, listErr := lister.List(labels.Everything())
	if _, err := lister.GetPodControllers(pod); err == nil || listErr == nil || err.Error() != listErr.Error() {
		t.Errorf("got error %v, want that of the list: %v", err, listErr)
	}
}
