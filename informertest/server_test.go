package informertest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

var podResource = informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}

func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "<i&>"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// bubble runs test in a synctest bubble, with an in-memory server that serves pods.
func bubble(t *testing.T, options informertest.Options, test func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod])) {
	synctest.Test(t, func(t *testing.T) {
		options.InMemory = true
		server := informertest.NewServer(options)
		defer server.Close()
		test(t, server, informertest.Register[*corev1.Pod](server, podResource))
	})
}

func clientset(t *testing.T, server *informertest.Server, contentType string) *kubernetes.Clientset {
	t.Helper()
	config := server.Config()
	config.ContentType = contentType
	config.AcceptContentTypes = contentType
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

// forEachEncoding runs test with JSON and with protobuf, each in a bubble with its own server.
func forEachEncoding(t *testing.T, test func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod])) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
				test(t, clientset(t, server, contentType), server, pods)
			})
		})
	}
}

func TestClientset_RoundTrip(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		api := clients.CoreV1().Pods("ns")
		events, err := api.Watch(ctx, metav1.ListOptions{})
		must(t, err)
		defer events.Stop()

		created, err := api.Create(ctx, newPod("ns", "a"), metav1.CreateOptions{})
		must(t, err)
		if created.UID == "" || created.ResourceVersion != "2" || created.Generation != 1 || created.CreationTimestamp.IsZero() {
			t.Errorf("created: %+v", created.ObjectMeta)
		}
		if created.Status.Phase != "" {
			t.Errorf("a client set the status on creation: %v", created.Status.Phase)
		}
		_, err = api.Create(ctx, newPod("ns", "a"), metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			t.Errorf("second create: %v", err)
		}

		changed := created.DeepCopy()
		changed.Spec.NodeName = "n2"
		changed.Status.Phase = corev1.PodFailed
		changed, err = api.Update(ctx, changed, metav1.UpdateOptions{})
		must(t, err)
		if changed.Spec.NodeName != "n2" || changed.Status.Phase != "" || changed.Generation != 2 || changed.ResourceVersion != "3" {
			t.Errorf("updated: %+v", changed)
		}
		_, err = api.Update(ctx, created, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			t.Errorf("update of an old version: %v", err)
		}
		same, err := api.Update(ctx, changed, metav1.UpdateOptions{})
		must(t, err)
		if same.ResourceVersion != changed.ResourceVersion {
			t.Errorf("an update without a change made version %s of %s", same.ResourceVersion, changed.ResourceVersion)
		}

		changed.Status.Phase = corev1.PodRunning
		changed.Spec.NodeName = "n3"
		changed.Labels = map[string]string{"with": "status"}
		changed, err = api.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		must(t, err)
		if changed.Status.Phase != corev1.PodRunning || changed.Spec.NodeName != "n2" || changed.Labels["with"] != "status" || changed.Generation != 2 {
			t.Errorf("status updated: %+v", changed)
		}

		got, err := api.Get(ctx, "a", metav1.GetOptions{})
		must(t, err)
		if got.ResourceVersion != "4" || got.Spec.Containers[0].Image != "<i&>" {
			t.Errorf("got: %+v", got)
		}
		list, err := api.List(ctx, metav1.ListOptions{})
		must(t, err)
		if len(list.Items) != 1 || list.ResourceVersion != "4" || list.Items[0].UID != created.UID {
			t.Errorf("list: %+v", list)
		}

		other := newPod("ns", "")
		other.GenerateName = "other-"
		other, err = api.Create(ctx, other, metav1.CreateOptions{})
		must(t, err)
		must(t, api.Delete(ctx, "a", metav1.DeleteOptions{}))
		_, err = api.Get(ctx, "a", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("get after delete: %v", err)
		}
		uid := created.UID
		err = api.Delete(ctx, other.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if !apierrors.IsConflict(err) {
			t.Errorf("delete with a false precondition: %v", err)
		}

		wantEvents(t, events, "ADDED a 2", "MODIFIED a 3", "MODIFIED a 4", "ADDED "+other.Name+" 5", "DELETED a 6")
	})
}

func TestCollection_SameObjectsAsOverHTTP(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		given := newPod("ns", "a")
		_, err := pods.Create(given)
		must(t, err)
		if given.UID != "" {
			t.Error("Create wrote to the object it was given")
		}
		got, err := clients.CoreV1().Pods("ns").Get(t.Context(), "a", metav1.GetOptions{})
		must(t, err)
		if got.Status.Phase != corev1.PodRunning {
			t.Errorf("status: %+v", got.Status)
		}
		_, err = clients.CoreV1().Pods("ns").Create(t.Context(), newPod("ns", "b"), metav1.CreateOptions{})
		must(t, err)
		if _, ok := pods.Get(informer.Key{Namespace: "ns", Name: "b"}); !ok || pods.Len() != 2 {
			t.Error("an object created over HTTP is not in the collection")
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantEvents reads the wanted number of events, each as "TYPE NAME RESOURCEVERSION".
func wantEvents(t *testing.T, events watch.Interface, want ...string) {
	t.Helper()
	for i, w := range want {
		var got string
		select {
		case e, ok := <-events.ResultChan():
			if !ok {
				t.Fatalf("the watch ended; want %v", want[i:])
			}
			got = describe(e)
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
		if got != w {
			t.Fatalf("event %d: got %q, want %q", i, got, w)
		}
	}
}

func describe(e watch.Event) string {
	if status, ok := e.Object.(*metav1.Status); ok {
		return fmt.Sprint(e.Type, " ", status.Code, " ", status.Reason)
	}
	obj := e.Object.(metav1.Object)
	s := fmt.Sprint(e.Type, " ", obj.GetName(), " ", obj.GetResourceVersion())
	if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
		s += " initial-events-end"
	}
	return s
}

// The cluster's own writes can delay the deletion of an object, as a kubelet does, and finally remove it.
func TestCollection_Terminating(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		created, err := pods.Create(newPod("ns", "a"))
		must(t, err)
		terminating := created.DeepCopy()
		now := metav1.Now()
		terminating.DeletionTimestamp = &now
		terminating, err = pods.Update(terminating)
		must(t, err)
		if stored, ok := pods.Get(informer.KeyOf(created)); !ok || stored.DeletionTimestamp == nil || stored.ResourceVersion == created.ResourceVersion {
			t.Errorf("stored %+v", stored)
		}
		held := terminating.DeepCopy()
		held.Finalizers = []string{"example.com/hold"}
		held, err = pods.Update(held)
		must(t, err)
		released := held.DeepCopy()
		released.Finalizers = nil
		_, err = pods.Update(released)
		must(t, err)
		if pods.Len() != 0 {
			t.Error("it is still there without its last finalizer")
		}
	})
}
