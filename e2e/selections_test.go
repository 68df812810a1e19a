package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// An informer of several selections has what a kube-apiserver lists for them, while objects move between them, leave all
// of them and come back. No object is deleted that only moves.
func TestSelections(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutCompact} {
			t.Run(fmt.Sprintf("%s/%s", contentType, layout), func(t *testing.T) { testSelections(t, contentType, layout) })
		}
	}
}

func testSelections(t *testing.T, contentType string, layout informer.Layout) {
	namespace := newNamespace(t)
	configMaps := clientset(t, contentType).CoreV1().ConfigMaps(namespace)
	resource := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Selections: []informer.Selection{
		{Namespace: namespace, LabelSelector: "part=one"},
		{LabelSelector: "part in (two," + namespace + ")"}, // all namespaces
		{Namespace: namespace, LabelSelector: "part", FieldSelector: "metadata.name=cm-0"},
	}}
	inf := informer.New(newClient(t, contentType, nil), resource, informer.Config[*corev1.ConfigMap]{Layout: layout})
	rec := &testkit.Recorder[*corev1.ConfigMap]{}
	inf.Subscribe(rec)
	start(t, inf)
	for i := range 10 {
		writeConfigMap(t, configMaps, i, "one")
	}
	for range 100 { // moves, each between the first two
		writeConfigMap(t, configMaps, rand.IntN(10), []string{"one", "two"}[rand.IntN(2)])
	}
	equalsServer(t, inf, configMaps, namespace)
	for _, line := range rec.Take() {
		if line[:3] == "del" {
			t.Errorf("told %s, although nothing was deleted", line)
		}
	}
	for range 100 { // moves into others and into none, and deletions
		i := rand.IntN(10)
		if part := []string{"one", "two", "none", ""}[rand.IntN(4)]; part != "" {
			writeConfigMap(t, configMaps, i, part)
		} else if err := configMaps.Delete(t.Context(), fmt.Sprint("cm-", i), metav1.DeleteOptions{}); err != nil {
			writeConfigMap(t, configMaps, i, "two")
		}
	}
	equalsServer(t, inf, configMaps, namespace)
	if err := inf.SetSelections(within(t, patience), informer.Selection{Namespace: namespace}); err != nil {
		t.Fatal(err)
	}
	equalsServer(t, inf, configMaps, namespace)
	if rec.Broken() > 0 {
		t.Errorf("%d events do not follow", rec.Broken())
	}
}

// writeConfigMap writes the ConfigMap with number i, whether it exists or not.
func writeConfigMap(t *testing.T, configMaps v1.ConfigMapInterface, i int, part string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("cm-", i), Labels: map[string]string{"part": part}}}
	if _, err := configMaps.Update(t.Context(), cm, metav1.UpdateOptions{}); err == nil {
		return
	}
	if _, err := configMaps.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// equalsServer waits until the store has the ConfigMaps of namespace that the selections of inf have on the server.
func equalsServer(t *testing.T, inf *informer.Informer[*corev1.ConfigMap], configMaps v1.ConfigMapInterface, namespace string) {
	t.Helper()
	has := func(cm *corev1.ConfigMap) bool {
		return len(inf.Status().Resource.Selections) == 1 && cm.Name != "kube-root-ca.crt" || cm.Labels["part"] == "one" || cm.Labels["part"] == "two" || cm.Name == "cm-0" && cm.Labels["part"] != ""
	}
	list, err := configMaps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range list.Items {
		if cm := &list.Items[i]; has(cm) {
			want = append(want, cm.Name+" at "+cm.ResourceVersion)
		}
	}
	slices.Sort(want)
	var got []string
	if err := waitUntil(within(t, patience), func() bool {
		got = nil
		for cm := range inf.Store().Namespace(namespace) {
			if has(cm) {
				got = append(got, cm.Name+" at "+cm.ResourceVersion)
			}
		}
		return slices.Equal(got, want)
	}); err != nil {
		t.Errorf("the store has %q, the server %q", got, want)
	}
}

// waitUntil waits until met returns true.
func waitUntil(ctx context.Context, met func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !met() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
