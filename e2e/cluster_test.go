package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/e2e/cluster"
)

// server is the cluster for all tests of this package. Each test has its own namespace. A test that kills the API server must
// not run in parallel with others, and must restart it.
var server *cluster.Cluster

// kubernetesVersion is for docs/versions.md. The tests of what only the newest server has fail with an older one.
var kubernetesVersion = flag.String("kubernetes", "", "the `version` of kube-apiserver, such as 1.36, if an older one")

// startCluster starts a cluster of the version that is asked for.
func startCluster(ctx context.Context, config cluster.Config) (*cluster.Cluster, error) {
	config.Kubernetes = *kubernetesVersion
	return cluster.Start(ctx, config)
}

func TestMain(m *testing.M) {
	if config := os.Getenv(replicaEnv); config != "" { // a process of TestReplicas
		if err := replicaMain(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if job := os.Getenv(warmEnv); job != "" {
		os.Exit(runWarmJob(job))
	}
	flag.Parse()
	os.Exit(runWithServer(m))
}

func runWithServer(m *testing.M) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	if server, err = startCluster(ctx, cluster.Config{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The servers would end with this process anyway; this also removes their data.
	disarm := context.AfterFunc(ctx, func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	})
	defer disarm() // runs before cancel, which would otherwise trigger it
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// newNamespace returns a namespace that only this test uses.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace, err := cluster.CreateNamespace(t.Context(), server.Config(), "e2e")
	if err != nil {
		t.Fatal(err)
	}
	return namespace
}

func createPods(t *testing.T, namespace string, n int) {
	t.Helper()
	if err := cluster.CreatePods(t.Context(), server.Config(), cluster.Pods(namespace, n), 0); err != nil {
		t.Fatal(err)
	}
}

func clientset(t *testing.T, contentType string) *kubernetes.Clientset {
	t.Helper()
	config := server.Config()
	config.ContentType = contentType
	config.AcceptContentTypes = contentType
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func metadataClient(t *testing.T) metadata.Interface {
	t.Helper()
	config := server.Config()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func listPods(t *testing.T, contentType, namespace string) []corev1.Pod {
	t.Helper()
	list, err := clientset(t, contentType).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list pods of %s as %s: %v", namespace, contentType, err)
	}
	return list.Items
}

func TestListIsTheSameInJSONAndProtobufAndAfterACrash(t *testing.T) {
	const n = 100
	namespace := newNamespace(t)
	createPods(t, namespace, n)

	before := listPods(t, runtime.ContentTypeJSON, namespace)
	if len(before) != n {
		t.Fatalf("listed %d pods, want %d", len(before), n)
	}
	check := func(when, contentType string) {
		t.Helper()
		got := listPods(t, contentType, namespace)
		if !apiequality.Semantic.DeepEqual(got, before) {
			t.Errorf("%s, the list as %s differs from the first one as JSON: %d pods, want %d", when, contentType, len(got), len(before))
		}
	}
	check("before the crash", runtime.ContentTypeProtobuf)

	if err := server.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	_, err := clientset(t, runtime.ContentTypeJSON).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("list while the API server is down: %v, want connection refused", err)
	}
	if err := server.KillAPIServer(); err == nil {
		t.Error("killed the API server twice without an error")
	}
	if err := server.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.StartAPIServer(t.Context()); err == nil {
		t.Error("started the API server twice without an error")
	}
	check("after the crash", runtime.ContentTypeJSON)
	check("after the crash", runtime.ContentTypeProtobuf)
}

func TestListAfterEtcdCrash(t *testing.T) {
	const n = 10
	namespace := newNamespace(t)
	createPods(t, namespace, n)
	if err := server.KillEtcd(); err != nil {
		t.Fatal(err)
	}
	if err := server.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	var list *corev1.PodList
	pods := clientset(t, runtime.ContentTypeJSON).CoreV1().Pods(namespace)
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, patience, true, func(ctx context.Context) (_ bool, err error) {
		list, err = pods.List(ctx, metav1.ListOptions{})
		return err == nil, nil // an error until the API server has connected to etcd again
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(list.Items); got != n {
		t.Errorf("listed %d pods, want %d", got, n)
	}
}

// watch is a raw watch of pods: it yields the server's events without client-go's interpretation.
type watch struct {
	body    io.Closer
	decoder *json.Decoder
}

type watchEvent struct {
	Type   string
	Object corev1.Pod // for a bookmark, only the metadata
}

func openWatch(t *testing.T, config *rest.Config, namespace string, query url.Values) *watch {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("%s/api/v1/namespaces/%s/pods?%s", config.Host, namespace, query.Encode())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		var body bytes.Buffer
		_, _ = body.ReadFrom(resp.Body)
		t.Fatalf("watch: %s: %s", resp.Status, &body)
	}
	return &watch{body: resp.Body, decoder: json.NewDecoder(resp.Body)}
}

func (w *watch) next() (watchEvent, error) {
	var event watchEvent
	err := w.decoder.Decode(&event)
	return event, err
}

func TestStreamingListEndsWithBookmarkAndGoesOnAsWatch(t *testing.T) {
	const n = 100
	namespace := newNamespace(t)
	createPods(t, namespace, n)
	w := openWatch(t, server.Config(), namespace, url.Values{
		"watch":                {"1"},
		"sendInitialEvents":    {"true"},
		"resourceVersionMatch": {"NotOlderThan"},
		"allowWatchBookmarks":  {"true"},
	})

	initial := map[string]bool{}
	for {
		event, err := w.next()
		if err != nil {
			t.Fatalf("after %d initial events: %v", len(initial), err)
		}
		if event.Type == "BOOKMARK" {
			if got := event.Object.Annotations[metav1.InitialEventsAnnotationKey]; got != "true" {
				t.Fatalf("first bookmark has %s %q, want \"true\"", metav1.InitialEventsAnnotationKey, got)
			}
			break
		}
		if event.Type != "ADDED" {
			t.Fatalf("initial event of type %s, want ADDED", event.Type)
		}
		initial[event.Object.Name] = true
	}
	var want []string
	for pod := range cluster.Pods(namespace, n) {
		want = append(want, pod.Name)
	}
	if got := slices.Sorted(maps.Keys(initial)); !slices.Equal(got, want) {
		t.Errorf("initial events for %v, want %v", got, want)
	}

	pods := clientset(t, runtime.ContentTypeProtobuf).CoreV1().Pods(namespace)
	pod, err := pods.Get(t.Context(), want[7], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	if err := pods.Delete(t.Context(), want[7], metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	// The API server marks a pod as deleted in a separate write, even with a grace period of zero.
	for _, want := range []struct {
		typ      string
		deleting bool
	}{{"MODIFIED", false}, {"MODIFIED", true}, {"DELETED", true}} {
		event, err := w.next()
		if err != nil {
			t.Fatalf("wait for %s: %v", want.typ, err)
		}
		if got := event.Object.DeletionTimestamp != nil; event.Type != want.typ || got != want.deleting {
			t.Errorf("got %s with deletionTimestamp %t, want %s with %t", event.Type, got, want.typ, want.deleting)
		}
		if event.Object.Name != pod.Name || event.Object.Status.Phase != corev1.PodRunning {
			t.Errorf("got %s of %s in phase %s, want %s in phase %s",
				event.Type, event.Object.Name, event.Object.Status.Phase, pod.Name, corev1.PodRunning)
		}
	}

	if err := server.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if event, err := w.next(); err == nil {
		t.Errorf("the watch outlived the API server: %s of %s", event.Type, event.Object.Name)
	}
	if err := server.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCustomResourceIsServedFromInstallToDelete(t *testing.T) {
	namespace := newNamespace(t)
	// The group has the namespace's name, so that a second run in the same cluster installs another resource.
	resource := schema.GroupVersionResource{Group: namespace + ".example.com", Version: "v1", Resource: "widgets"}
	crd := cluster.NewCRD(resource, "Widget")
	if err := cluster.InstallCRD(t.Context(), server.Config(), crd); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Resource(resource).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := list.GetKind(); got != "WidgetList" {
		t.Errorf("listed a %s, want a WidgetList", got)
	}
	if err := cluster.InstallCRD(t.Context(), server.Config(), crd); err == nil {
		t.Error("installed the same definition twice without an error")
	}

	// Deleting the definition needs only controllers of the API server itself.
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	watcher, err := definitions.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + crd.GetName()})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if err := definitions.Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range watcher.ResultChan() {
		if event.Type == apiwatch.Deleted {
			return
		}
	}
	t.Error("the watch ended before the definition was gone")
}
