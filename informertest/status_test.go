package informertest_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer/informertest"
)

// statusMetadata are the metadata that kube-apiserver v1.36 accepts from a write to the status subresource, according
// to PrepareForUpdate of its strategies. Other kinds accept none.
var statusMetadata = map[schema.GroupKind]string{
	{Kind: "Namespace"}:                                               "annotations finalizers labels ownerReferences",
	{Kind: "Node"}:                                                    "annotations finalizers labels ownerReferences",
	{Kind: "PersistentVolume"}:                                        "annotations finalizers labels ownerReferences",
	{Kind: "PersistentVolumeClaim"}:                                   "annotations finalizers labels ownerReferences",
	{Kind: "Pod"}:                                                     "annotations finalizers labels",
	{Kind: "ReplicationController"}:                                   "annotations finalizers labels ownerReferences",
	{Kind: "ResourceQuota"}:                                           "annotations finalizers labels ownerReferences",
	{Kind: "Service"}:                                                 "annotations finalizers labels ownerReferences",
	{Group: "apps", Kind: "DaemonSet"}:                                "annotations finalizers labels ownerReferences",
	{Group: "apps", Kind: "Deployment"}:                               "annotations finalizers ownerReferences",
	{Group: "apps", Kind: "ReplicaSet"}:                               "annotations finalizers labels ownerReferences",
	{Group: "apps", Kind: "StatefulSet"}:                              "annotations finalizers labels ownerReferences",
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           "annotations finalizers labels ownerReferences",
	{Group: "batch", Kind: "CronJob"}:                                 "annotations finalizers labels ownerReferences",
	{Group: "batch", Kind: "Job"}:                                     "annotations finalizers labels ownerReferences",
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: "annotations finalizers labels ownerReferences",
	{Group: "networking.k8s.io", Kind: "Ingress"}:                     "annotations finalizers labels ownerReferences",
	{Group: "policy", Kind: "PodDisruptionBudget"}:                    "annotations finalizers labels ownerReferences",
}

// Guarantees: W10
func TestStatusWritesTakeTheMetadataThatKubeAPIServerTakes(t *testing.T) {
	kinds := slices.DeleteFunc(builtinKinds(), func(kind schema.GroupVersionKind) bool {
		_, status := scheme.Scheme.AllKnownTypes()[kind].FieldByName("Status")
		return !status
	})
	forEachRepresentation(t, kinds, func(t *testing.T, server *informertest.Server, _ map[schema.GroupVersionKind]func(runtime.Object) error) {
		client, err := dynamic.NewForConfig(server.Config())
		must(t, err)
		registerWidgets(server)
		for _, kind := range append(kinds, widgetResource.GroupVersion().WithKind("Widget")) {
			statusWrites(t, client.Resource(resourceOf(kind).GroupVersionResource).Namespace("ns"), kind)
		}
	})
}

// statusWrites writes metadata and a status to the status subresource, in every way.
func statusWrites(t *testing.T, api dynamic.ResourceInterface, kind schema.GroupVersionKind) {
	ctx := t.Context()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	obj.SetName("a")
	before, err := api.Create(ctx, obj, metav1.CreateOptions{})
	must(t, err)
	metadata := map[string]any{
		"annotations":     map[string]any{"x": "y"},
		"finalizers":      []any{"x.y/z"},
		"labels":          map[string]any{"x": "y"},
		"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}},
	}
	changed := before.DeepCopy()
	operations := []map[string]any{}
	for field, value := range metadata {
		changed.Object["metadata"].(map[string]any)[field] = value
		operations = append(operations, map[string]any{"op": "add", "path": "/metadata/" + field, "value": value})
	}
	merge, err := json.Marshal(map[string]any{"metadata": metadata})
	must(t, err)
	patch, err := json.Marshal(operations)
	must(t, err)
	dryRun := []string{metav1.DryRunAll}
	for _, write := range []struct {
		how string
		do  func() (*unstructured.Unstructured, error)
	}{
		{"merge patch", func() (*unstructured.Unstructured, error) {
			return api.Patch(ctx, "a", types.MergePatchType, merge, metav1.PatchOptions{DryRun: dryRun}, "status")
		}},
		{"JSON patch", func() (*unstructured.Unstructured, error) {
			return api.Patch(ctx, "a", types.JSONPatchType, patch, metav1.PatchOptions{DryRun: dryRun}, "status")
		}},
		{"dry-run update", func() (*unstructured.Unstructured, error) {
			return api.UpdateStatus(ctx, changed, metav1.UpdateOptions{DryRun: dryRun})
		}},
		{"update", func() (*unstructured.Unstructured, error) {
			return api.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		}},
	} {
		after, err := write.do()
		if err != nil {
			t.Errorf("%v: %s: %v", kind, write.how, err)
			continue
		}
		var taken []string
		for field, value := range metadata {
			if got, ok := after.Object["metadata"].(map[string]any)[field]; ok {
				taken = append(taken, field)
				if !reflect.DeepEqual(got, value) {
					t.Errorf("%v: %s of %s: %v", kind, write.how, field, got)
				}
			}
		}
		slices.Sort(taken)
		if got := strings.Join(taken, " "); got != statusMetadata[kind.GroupKind()] {
			t.Errorf("%v: %s took %q, want %q", kind, write.how, got, statusMetadata[kind.GroupKind()])
		}
		if after.GetGeneration() != before.GetGeneration() || after.GetUID() != before.GetUID() || after.GetCreationTimestamp() != before.GetCreationTimestamp() {
			t.Errorf("%v: %s: %v", kind, write.how, after)
		}
	}
}
