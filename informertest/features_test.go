package informertest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// TestMain fails if a server, closed by its test, has left a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leftBehind(); left != "" {
			fmt.Printf("a goroutine is left behind:\n%s", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leftBehind returns the stacks of all goroutines if any of them belongs to a server.
func leftBehind() string {
	stacks := make([]byte, 1<<20)
	n := 0
	for range 1000 { // goroutines that are about to end get a chance
		n = runtime.Stack(stacks, true)
		if !slices.ContainsFunc([]string{"informertest.(*", "watchcache.(*", "net/http.(*Server)", "net/http.(*conn)"}, func(own string) bool {
			return strings.Contains(string(stacks[:n]), own)
		}) {
			return ""
		}
		runtime.Gosched()
	}
	return string(stacks[:n])
}

func TestServer_OverTCP(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, podResource)
	_, err := pods.Create(newPod("ns", "a"))
	must(t, err)
	events, err := clientset(t, server, apiruntime.ContentTypeProtobuf).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	wantEvents(t, events, "ADDED a 2")
	_, err = pods.Delete(informer.Key{Namespace: "ns", Name: "a"})
	must(t, err)
	wantEvents(t, events, "DELETED a 3")
	server.Close()
	if e, ok := <-events.ResultChan(); ok {
		t.Errorf("an event after Close: %v", e)
	}
}

func TestServer_MetadataOnly(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, _ *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		widgets := registerWidgets(server)
		_, err := widgets.Create(widget("w"))
		must(t, err)
		_, err = pods.Create(newPod("ns", "a"))
		must(t, err)
		client, err := metadata.NewForConfig(server.Config()) // accepts protobuf, then JSON
		must(t, err)
		for gvr, name := range map[schema.GroupVersionResource]string{podResource.GroupVersionResource: "a", widgetResource.GroupVersionResource: "w"} {
			list, err := client.Resource(gvr).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			if len(list.Items) != 1 || list.Items[0].Name != name || list.ResourceVersion != "3" {
				t.Errorf("list: %+v", list)
			}
			got, err := client.Resource(gvr).Namespace("ns").Get(t.Context(), name, metav1.GetOptions{})
			must(t, err)
			if got.Name != name {
				t.Errorf("got: %+v", got)
			}
			events, err := client.Resource(gvr).Watch(t.Context(), metav1.ListOptions{})
			must(t, err)
			wantEvents(t, events, "ADDED "+name+" "+got.ResourceVersion)
			events.Stop()
		}
	})
}

var widgetResource = informertest.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
	Kind:                 "Widget",
	StatusSubresource:    true,
	SelectableFields:     []string{"spec.color"},
}

func registerWidgets(server *informertest.Server) *informertest.Collection[*unstructured.Unstructured] {
	return informertest.Register[*unstructured.Unstructured](server, widgetResource)
}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "ns", "name": name},
		"spec":     map[string]any{"color": "red", "size": int64(3)},
		"status":   map[string]any{"ready": true},
	}}
}

func TestServer_CustomResource(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		widgets := registerWidgets(server)
		client, err := dynamic.NewForConfig(server.Config())
		must(t, err)
		api := client.Resource(widgetResource.GroupVersionResource).Namespace("ns")
		given := widget("w")
		created, err := api.Create(ctx, given, metav1.CreateOptions{})
		must(t, err)
		if _, ok := created.Object["status"]; ok || created.GetGeneration() != 1 || created.GetKind() != "Widget" {
			t.Errorf("created: %v", created)
		}
		created.Object["status"] = map[string]any{"ready": true}
		unstructured.SetNestedField(created.Object, "blue", "spec", "color")
		status, err := api.UpdateStatus(ctx, created, metav1.UpdateOptions{})
		must(t, err)
		if color, _, _ := unstructured.NestedString(status.Object, "spec", "color"); color != "red" || status.Object["status"] == nil || status.GetGeneration() != 1 {
			t.Errorf("status updated: %v", status)
		}
		unstructured.SetNestedField(status.Object, "blue", "spec", "color")
		delete(status.Object, "status")
		updated, err := api.Update(ctx, status, metav1.UpdateOptions{})
		must(t, err)
		if updated.GetGeneration() != 2 || updated.Object["status"] == nil {
			t.Errorf("updated: %v", updated)
		}
		for color, n := range map[string]int{"blue": 1, "red": 0} {
			list, err := api.List(ctx, metav1.ListOptions{FieldSelector: "spec.color=" + color})
			must(t, err)
			if len(list.Items) != n || list.GetKind() != "WidgetList" {
				t.Errorf("%s: %v", color, list)
			}
		}
		if stored, ok := widgets.Get(informer.Key{Namespace: "ns", Name: "w"}); !ok || stored.GetResourceVersion() != updated.GetResourceVersion() {
			t.Errorf("stored: %v", stored)
		}
		must(t, api.Delete(ctx, "w", metav1.DeleteOptions{}))
	})
}

func TestServer_Finalizers(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		api := clients.CoreV1().Pods("ns")
		pod := newPod("ns", "a")
		pod.Finalizers = []string{"example.com/wait"}
		_, err := api.Create(ctx, pod, metav1.CreateOptions{})
		must(t, err)
		events, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: "2"})
		must(t, err)
		defer events.Stop()
		must(t, api.Delete(ctx, "a", metav1.DeleteOptions{}))
		must(t, api.Delete(ctx, "a", metav1.DeleteOptions{})) // again, without effect
		pod, err = api.Get(ctx, "a", metav1.GetOptions{})
		must(t, err)
		if pod.DeletionTimestamp == nil || pod.Generation != 2 {
			t.Errorf("marked for deletion: %+v", pod.ObjectMeta)
		}
		pod.Finalizers = nil
		pod.DeletionTimestamp = nil // a client cannot undo it
		_, err = api.Update(ctx, pod, metav1.UpdateOptions{})
		must(t, err)
		wantEvents(t, events, "MODIFIED a 3", "DELETED a 4")
	})
}

func TestServer_ClusterScopedAndGroups(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		_, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("list of a resource that is not registered: %v", err)
		}
		informertest.Register[*corev1.Node](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true})
		informertest.Register[*corev1.Namespace](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), ClusterScoped: true})
		informertest.Register[*appsv1.Deployment](server, informertest.Resource{
			GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")})
		_, err = clients.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		must(t, err)
		namespace, err := clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{})
		must(t, err)
		namespace.Status.Phase = corev1.NamespaceActive
		_, err = clients.CoreV1().Namespaces().UpdateStatus(ctx, namespace, metav1.UpdateOptions{})
		must(t, err)
		_, err = clients.AppsV1().Deployments("ns").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
		must(t, err)
		list, err := clients.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
		must(t, err)
		if len(list.Items) != 1 || list.Items[0].Namespace != "ns" {
			t.Errorf("deployments: %+v", list)
		}
		active, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Active"})
		must(t, err)
		if len(active.Items) != 1 || server.ResourceVersion() != "5" {
			t.Errorf("at %s, namespaces: %+v", server.ResourceVersion(), active)
		}
	})
}

func TestServer_Requests(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		api := clients.CoreV1().Pods("ns")
		pod, err := api.Create(ctx, newPod("ns", "a"), metav1.CreateOptions{})
		must(t, err)
		_, err = api.List(ctx, metav1.ListOptions{Limit: 500, ResourceVersion: "0"})
		must(t, err)
		events, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: "2"})
		must(t, err)
		events.Stop()
		_, err = api.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		must(t, err)
		must(t, api.Delete(ctx, "a", metav1.DeleteOptions{}))
		var got []string
		for _, r := range server.Requests() {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s/%s/%s/%s %s", r.Verb, r.Resource.Resource, r.Namespace, r.Name, r.Subresource, r.Query.Encode())))
		}
		want := []string{
			"create pods/ns//",
			"list pods/ns// limit=500&resourceVersion=0",
			"watch pods/ns// resourceVersion=2&watch=true",
			"update pods/ns/a/status",
			"delete pods/ns/a/",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
		server.ResetRequests()
		if n := len(server.Requests()); n != 0 {
			t.Errorf("%d requests after ResetRequests", n)
		}
	})
}

func TestServer_EndWatchesIsCleanAndCloseConnectionsIsNot(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		client, err := rest.HTTPClientFor(server.Config())
		must(t, err)
		for _, test := range []struct {
			do   func()
			want error
		}{
			{server.EndWatches, nil},
			{server.CloseConnections, io.ErrUnexpectedEOF},
		} {
			response, err := client.Get(server.URL + "/api/v1/pods?watch=1")
			must(t, err)
			synctest.Wait()
			if pods.Watchers() != 1 {
				t.Errorf("%d watches", pods.Watchers())
			}
			test.do()
			_, err = io.ReadAll(response.Body)
			response.Body.Close()
			if err != test.want {
				t.Errorf("%v, want %v", err, test.want)
			}
			synctest.Wait()
			if pods.Watchers() != 0 {
				t.Errorf("%d watches", pods.Watchers())
			}
		}
	})
}

func TestServer_Middleware(t *testing.T) {
	var refuse atomic.Bool
	options := informertest.Options{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refuse.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			<-time.After(time.Minute) // in the bubble's time
			next.ServeHTTP(w, r)
		})
	}}
	bubble(t, options, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		api := clientset(t, server, apiruntime.ContentTypeJSON).CoreV1().Pods("ns")
		start := time.Now()
		_, err := api.List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if time.Since(start) != time.Minute {
			t.Errorf("after %v", time.Since(start))
		}
		refuse.Store(true)
		_, err = api.List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsServiceUnavailable(err) {
			t.Error(err)
		}
		if n := len(server.Requests()); n != 2 {
			t.Errorf("%d requests in the log", n)
		}
	})
}

func TestServer_BadRequests(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		api := clientset(t, server, apiruntime.ContentTypeJSON).CoreV1().Pods("ns")
		_, err := api.Create(ctx, &corev1.Pod{}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("create without a name: %v", err)
		}
		_, err = api.Create(ctx, newPod("other", "a"), metav1.CreateOptions{})
		if !apierrors.IsBadRequest(err) {
			t.Errorf("create in another namespace: %v", err)
		}
		_, err = api.Update(ctx, newPod("ns", "a"), metav1.UpdateOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("update of nothing: %v", err)
		}
		if err := api.Delete(ctx, "a", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("delete of nothing: %v", err)
		}
		_, err = api.Create(ctx, newPod("ns", "a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		must(t, err)
		versioned := newPod("ns", "a")
		versioned.ResourceVersion = "7"
		tried, err := api.Create(ctx, versioned, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		must(t, err)
		if tried.ResourceVersion != "7" {
			t.Errorf("a dry run made version %s of 7", tried.ResourceVersion)
		}
		_, err = api.Create(ctx, versioned, metav1.CreateOptions{})
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) || status.Status().Code != 500 || status.Status().Reason != "" ||
			status.Status().Message != "resourceVersion should not be set on objects to be created" {
			t.Errorf("create with a resource version: %v", err)
		}
		if pods.Len() != 0 || server.ResourceVersion() != "1" {
			t.Error("a dry run wrote")
		}
		if a := ask(t, server, "/api/v1/pods", "Accept: application/yaml"); a.code != 406 {
			t.Errorf("YAML only: %d %s", a.code, a.body)
		}
	})
}
