package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

// fanOut is a process of examples/fanout.
type fanOut struct {
	*testing.T
	args   []string
	binary string
	listen string // a port of the system's choice, and from the first start on the same one
	url    string
	cmd    *exec.Cmd
}

// newFanOut builds examples/fanout, and starts it in front of an API server until the test ends.
func newFanOut(t *testing.T, upstream *rest.Config, resources string) *fanOut {
	t.Helper()
	dir := t.TempDir()
	f := &fanOut{T: t, binary: filepath.Join(dir, "fanout"), listen: "127.0.0.1:0"}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", f.binary, ".")
	build.Dir = "../examples/fanout" // a module of its own
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	kubeconfig, err := json.Marshal(map[string]any{ // JSON is valid YAML
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": upstream.Host, "certificate-authority-data": upstream.CAData}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": upstream.BearerToken}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "c", "user": "u"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	f.args = []string{"-kubeconfig", path, "-resources", resources, "-report", "0"}
	f.start()
	t.Cleanup(func() {
		if f.cmd == nil { // a start has failed
			return
		}
		if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := f.cmd.Wait(); err != nil {
			t.Errorf("fanout: %v", err)
		}
	})
	return f
}

// start starts the process. A connection of another process may have its port for a moment.
func (f *fanOut) start() {
	f.Helper()
	for tries := 1; ; tries++ {
		err := f.tryStart()
		if err == nil {
			return
		}
		if tries == 20 {
			f.Fatal(err)
		}
		<-time.After(250 * time.Millisecond)
	}
}

func (f *fanOut) tryStart() error {
	cmd := exec.Command(f.binary, append(f.args, "-listen", f.listen)...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = f.Output()
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	f.cmd = cmd
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		f.kill()
		return fmt.Errorf("fanout has ended: %w", err)
	}
	_, f.url, _ = strings.Cut(strings.TrimSpace(line), " at ")
	f.listen = strings.TrimPrefix(f.url, "http://")
	return nil
}

// kill ends the process like a crash.
func (f *fanOut) kill() {
	_ = f.cmd.Process.Kill() // an error can only mean that it has ended
	_ = f.cmd.Wait()
	f.cmd = nil
}

func (f *fanOut) config() *rest.Config { return &rest.Config{Host: f.url, QPS: -1} }

// downstream follows a namespace through fanout until the test ends.
func downstream[T informer.Object](t *testing.T, config *rest.Config, resource, namespace string) *informer.Informer[T] {
	t.Helper()
	client, err := informer.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	i := informer.New(client, informer.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource),
		Namespaces:           []string{namespace},
	}, informer.Config[T]{KeepManagedFields: true})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); i.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	if err := i.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestFanOutOfKubeAPIServer(t *testing.T) {
	const n = 50
	namespace := newNamespace(t)
	createPods(t, namespace, n)
	config := newFanOut(t, server.Config(), "v1/pods,v1/configmaps").config()
	client := clientset(t, runtime.ContentTypeProtobuf).CoreV1()
	var pods []*informer.Informer[*corev1.Pod]
	var maps []*informer.Informer[*corev1.ConfigMap]
	for range 5 {
		pods = append(pods, downstream[*corev1.Pod](t, config, "pods", namespace))
		maps = append(maps, downstream[*corev1.ConfigMap](t, config, "configmaps", namespace))
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	round := func(name string) {
		t.Helper()
		now := int64(0)
		list, err := client.Pods(namespace).List(t.Context(), metav1.ListOptions{Limit: 10})
		must(err)
		for i, pod := range list.Items {
			if i%2 == 0 {
				must(client.Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
				continue
			}
			pod.Status.Phase, pod.Status.Message = corev1.PodRunning, name
			_, err := client.Pods(namespace).UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{})
			must(err)
		}
		// The last change of each collection. A follower that has it has all earlier ones.
		lastPod, err := client.Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "last-" + name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.invalid/main:1"}}},
		}, metav1.CreateOptions{})
		must(err)
		lastMap, err := client.ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "last-" + name}, Data: map[string]string{"round": name},
		}, metav1.CreateOptions{})
		must(err)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantPods, err := client.Pods(namespace).List(ctx, metav1.ListOptions{})
		must(err)
		wantMaps, err := client.ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		must(err)
		for _, i := range pods {
			must(i.WaitForObject(ctx, lastPod))
			must(same(i, wantPods.Items))
		}
		for _, i := range maps {
			must(i.WaitForObject(ctx, lastMap))
			must(same(i, wantMaps.Items))
		}
	}
	round("first")
	must(server.KillAPIServer())
	must(server.StartAPIServer(t.Context()))
	round("after-a-crash")
}

// same returns an error if the store of an informer differs from a list of the API server.
func same[T any, P interface {
	*T
	informer.Object
}](i *informer.Informer[P], want []T) error {
	store := i.Store().Snapshot()
	if store.Len() != len(want) {
		return fmt.Errorf("%d objects downstream, want %d", store.Len(), len(want))
	}
	for n := range want {
		key := informer.KeyOf(P(&want[n]))
		got, ok := store.Get(key)
		if !ok || !apiequality.Semantic.DeepEqual((*T)(got), &want[n]) {
			return fmt.Errorf("%s differs downstream: %v, want %v", key, got, &want[n])
		}
	}
	return nil
}
