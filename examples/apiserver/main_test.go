package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer/informertest"
)

// inCluster runs test with a simulated cluster in a bubble.
func inCluster(t *testing.T, test func(t *testing.T, clients *kubernetes.Clientset)) {
	synctest.Test(t, func(t *testing.T) {
		server, err := newCluster(informertest.Options{InMemory: true}, 2, "testdata")
		must(t, err)
		defer server.Close()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- simulate(ctx, server) }()
		clients, err := kubernetes.NewForConfig(server.Config())
		must(t, err)
		test(t, clients)
		stop()
		must(t, <-ended)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deployment is a Deployment of an image.
func deployment(image string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
			},
		},
	}
}

func TestADeploymentHasRunningPods(t *testing.T) {
	inCluster(t, func(t *testing.T, clients *kubernetes.Clientset) {
		api := clients.AppsV1().Deployments("default")
		_, err := api.Create(t.Context(), deployment("one", 3), metav1.CreateOptions{})
		must(t, err)
		wantPods(t, clients, "one", 3)
		web, err := api.Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		if web.Status.ReadyReplicas != 3 || web.Status.UpdatedReplicas != 3 || web.Status.ObservedGeneration != 1 {
			t.Errorf("the status is %+v", web.Status)
		}
		web.Spec = deployment("two", 2).Spec
		_, err = api.Update(t.Context(), web, metav1.UpdateOptions{})
		must(t, err)
		wantPods(t, clients, "two", 2)
		must(t, api.Delete(t.Context(), "web", metav1.DeleteOptions{}))
		wantPods(t, clients, "", 0)
	})
}

// wantPods checks that there are so many pods, and that they run an image on nodes.
func wantPods(t *testing.T, clients *kubernetes.Clientset, image string, want int) {
	t.Helper()
	time.Sleep(time.Minute) // of virtual time: all is settled after that
	list, err := clients.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	must(t, err)
	if len(list.Items) != want {
		t.Errorf("there are %d pods, want %d", len(list.Items), want)
	}
	for _, pod := range list.Items {
		if pod.Status.Phase != corev1.PodRunning || !strings.HasPrefix(pod.Spec.NodeName, "node-") ||
			pod.Spec.Containers[0].Image != image {
			t.Errorf("pod %s is %s with image %s on node %q", pod.Name, pod.Status.Phase, pod.Spec.Containers[0].Image,
				pod.Spec.NodeName)
		}
	}
}

func TestAPodThatIsDeletedStops(t *testing.T) {
	inCluster(t, func(t *testing.T, clients *kubernetes.Clientset) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one"}}}}
		_, err := clients.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		must(t, err)
		wantPods(t, clients, "one", 1)
		must(t, clients.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}))
		pod, err = clients.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		must(t, err)
		if pod.DeletionTimestamp == nil {
			t.Error("the pod does not stop gracefully")
		}
		wantPods(t, clients, "", 0)
	})
}

func TestRunWritesAKubeconfigForKubectl(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"-kubeconfig", path, "-nodes", "1", "-crds", "testdata"}, in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "serving at https://") {
		t.Fatalf("it printed %q, %v", line, err)
	}
	go io.Copy(io.Discard, out)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	nodes, err := clients.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(nodes.Items) != 1 {
		t.Errorf("there are %d nodes", len(nodes.Items))
	}
	widgets, err := clients.Discovery().ServerResourcesForGroupVersion("example.com/v1")
	must(t, err)
	if widgets.APIResources[0].Name != "widgets" {
		t.Errorf("the definition is served as %+v", widgets.APIResources)
	}
	stop()
	must(t, <-ended)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
}
