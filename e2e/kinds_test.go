package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/kinds"
	"github.com/typedinformer/informer/status"
)

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	replicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// defineWidgets installs a definition of a group that only this test uses.
func defineWidgets(t *testing.T, group string) schema.GroupVersionResource {
	t.Helper()
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	if err := cluster.InstallCRD(t.Context(), server.Config(), cluster.NewCRD(resource, "Widget")); err != nil {
		t.Fatal(err)
	}
	return resource
}

func dynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// reference refers to an owner.
type reference struct {
	apiVersion, kind, name string
	uid                    types.UID
}

// createOwned creates an object with an owner; a zero owner means none.
func createOwned(t *testing.T, r schema.GroupVersionResource, kind, namespace, name string, owner reference) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion(r.GroupVersion().String())
	obj.SetKind(kind)
	obj.SetName(name)
	if owner != (reference{}) {
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.apiVersion, Kind: owner.kind, Name: owner.name, UID: owner.uid}})
	}
	if kind == "ReplicaSet" {
		labels := map[string]any{"app": name}
		obj.Object["spec"] = map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"containers": []any{map[string]any{"name": "main", "image": "example.invalid/main:1"}},
			}},
		}
	}
	created, err := dynamicClient(t).Resource(r).Namespace(namespace).Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// The example of a garbage collector names what no owner keeps, over built-in and custom kinds. No controller of the
// cluster deletes that.
func TestGarbageOfKubeAPIServer(t *testing.T) {
	namespace := newNamespace(t)
	widgets := defineWidgets(t, namespace+".example.com")
	widgetVersion := widgets.GroupVersion().String()
	kept := createOwned(t, widgets, "Widget", namespace, "kept", reference{})
	createOwned(t, configMaps, "ConfigMap", namespace, "of-kept", reference{widgetVersion, "Widget", "kept", kept.GetUID()})
	createOwned(t, configMaps, "ConfigMap", namespace, "of-gone", reference{widgetVersion, "Widget", "gone", "ffffffff-0000-0000-0000-000000000001"})
	old := createOwned(t, replicaSets, "ReplicaSet", namespace, "old", reference{"apps/v1", "Deployment", "gone", "ffffffff-0000-0000-0000-000000000002"})
	createOwned(t, configMaps, "ConfigMap", namespace, "of-old", reference{"apps/v1", "ReplicaSet", "old", old.GetUID()})
	createOwned(t, widgets, "Widget", namespace, "of-unknown", reference{"unknown.example.com/v1", "Unknown", "x", "ffffffff-0000-0000-0000-000000000003"})

	kubeconfig, err := informertest.Kubeconfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "github.com/typedinformer/informer/examples/garbage", "-kubeconfig", file)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " "+namespace+"/") {
			lines = append(lines, strings.ReplaceAll(strings.TrimSpace(line), namespace+"/", ""))
		}
	}
	slices.Sort(lines)
	want := []string{
		"configmaps of-gone: its owner Widget gone does not exist",
		"configmaps of-old: its owner ReplicaSet old is garbage",
		"replicasets.apps old: its owner Deployment gone does not exist",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the garbage is %q, want %q; the program printed\n%s", lines, want, out)
	}
}

// kindEvents records calls of a handler.
type kindEvents struct {
	mu  sync.Mutex
	all map[string]int
}

func (e *kindEvents) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[string]int{}
	}
	e.all[fmt.Sprintf(format, args...)]++
}

func (e *kindEvents) count(event string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[event]
}

// A set of kinds follows the definitions of a real server: a new kind is there within seconds, one that is deleted gives
// its deletions, and an API whose server is away is named, while the others go on.
// Guarantees: N2, N6
func TestKindsOfKubeAPIServer(t *testing.T) {
	namespace := newNamespace(t)
	group, away := namespace+".example.com", "away-"+namespace+".example.com"
	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	set := kinds.New(client, kinds.Config[*metav1.PartialObjectMetadata]{
		Select: func(r status.APIResource) bool {
			return r.Group == group || r.Group == "" && r.Resource == "configmaps"
		},
		Namespaces: []string{namespace},
		Logger:     slog.New(slog.NewTextHandler(&logged, nil)),
	})
	var events kindEvents
	set.Subscribe(kinds.HandlerFuncs[*metav1.PartialObjectMetadata]{
		AddFunc: func(kind schema.GroupResource, obj *metav1.PartialObjectMetadata, _ bool) {
			events.add("add %s %s", kind.Resource, obj.Name)
		},
		DeleteFunc: func(kind schema.GroupResource, obj *metav1.PartialObjectMetadata, final bool) {
			events.add("delete %s %s %t", kind.Resource, obj.Name, final)
		},
	}, kinds.SubscriptionConfig{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- set.Run(ctx) }()
	defer func() { stop(); <-ended }()
	if err := set.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	until := func(what string, done func() bool) {
		t.Helper()
		began := time.Now()
		for !done() {
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: not within a minute; the status of discovery is %+v", what, set.Status().Discovery)
			}
			<-time.After(50 * time.Millisecond)
		}
		t.Logf("%s: after %v", what, time.Since(began).Round(time.Millisecond))
	}

	widgets := defineWidgets(t, group)
	createOwned(t, widgets, "Widget", namespace, "a", reference{})
	until("the object of a new kind", func() bool { return events.count("add widgets a") == 1 })

	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1." + away},
		"spec": map[string]any{
			"group": away, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": namespace, "name": "nobody"},
		},
	}}
	services := dynamicClient(t).Resource(apiServices)
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	isUnknown := func() bool {
		for _, u := range set.Status().Discovery.Unknown {
			if u.GroupVersion.Group == away {
				return true
			}
		}
		return false
	}
	until("the group that is away is named", isUnknown)
	createOwned(t, configMaps, "ConfigMap", namespace, "c", reference{})
	until("another kind goes on", func() bool { return events.count("add configmaps c") == 1 })
	if err := services.Delete(t.Context(), service.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("the group is no longer named", func() bool { return !isUnknown() })

	if err := dynamicClient(t).Resource(definitions).Delete(t.Context(), widgets.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("the kind is gone", func() bool { _, ok := set.Kind(widgets.GroupResource()); return !ok })
	// the server deletes the objects of a kind before it is gone, so the set may see that
	until("its object is deleted", func() bool {
		return events.count("delete widgets a true")+events.count("delete widgets a false") == 1
	})
	stop()
	<-ended
	ended <- nil
	if n := bytes.Count(logged.Bytes(), []byte("\n")); n > 10 {
		t.Errorf("%d lines of log:\n%s", n, logged.String())
	}
}
