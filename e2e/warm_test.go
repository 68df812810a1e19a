package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
)

var warmPods = flag.Int("pods", 2000, "number of pods of TestWarmStart")

// warmEnv is set in the process that TestWarmStart kills: its warmJob.
const warmEnv = "E2E_WARM_JOB"

// warmJob is the work of that process: an informer of pods that saves its state.
type warmJob struct {
	Host, Token, Namespace, Dir string
	CA                          []byte
	Layout                      informer.Layout
}

// warmStart is a start of an informer of pods.
type warmStart struct {
	*informer.Informer[*corev1.Pod]
	synced   time.Duration
	received int64 // the bytes from the server until then, encrypted and with headers
	stop     func()
}

// startWarm starts an informer, and waits until it has synced.
func startWarm(ctx context.Context, config *rest.Config, namespace string, settings informer.Config[*corev1.Pod]) (warmStart, error) {
	var received atomic.Int64
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return receiving{conn, &received}, err
	}
	client, err := informer.NewClient(config)
	if err != nil {
		return warmStart{}, err
	}
	s := warmStart{Informer: informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Namespaces: []string{namespace}}, settings)}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.stop = func() { cancel(); <-ended }
	began := time.Now()
	go func() { defer close(ended); _ = s.Run(running) }()
	if err := s.WaitSynced(ctx); err != nil {
		s.stop()
		return s, err
	}
	s.synced, s.received = time.Since(began), received.Load()
	return s, nil
}

// receiving is a connection that counts the bytes that it receives.
type receiving struct {
	net.Conn
	received *atomic.Int64
}

func (c receiving) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// runWarmJob runs an informer until the process is killed, and prints the resource version of each save.
func runWarmJob(spec string) int {
	var j warmJob
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config := &rest.Config{Host: j.Host, BearerToken: j.Token, TLSClientConfig: rest.TLSClientConfig{CAData: j.CA}}
	s, err := startWarm(context.Background(), config, j.Namespace, informer.Config[*corev1.Pod]{
		Layout:    j.Layout,
		WarmStart: informer.WarmStartConfig{Storage: informer.WarmStartDir(j.Dir), Interval: 2 * time.Second},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for last := ""; ; time.Sleep(50 * time.Millisecond) {
		status := s.Status().Reflectors[0].WarmStart
		if status.SaveError != nil {
			fmt.Fprintln(os.Stderr, status.SaveError)
			return 1
		}
		if status.SavedVersion != last {
			last = status.SavedVersion
			fmt.Println(last)
		}
	}
}

// A process with an informer is killed, and pods change. The next start resumes from the last saved state: the server
// sends a small part of the bytes of a list, both without compression, and the store equals that of an informer that lists.
//
//	go test -run TestWarmStart . -v -args -pods 30000
//
// Guarantees: S4
func TestWarmStart(t *testing.T) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutCompact} {
			t.Run(fmt.Sprintf("%s,%s", media, layout), func(t *testing.T) { testWarmStart(t, media, layout) })
		}
	}
}

func testWarmStart(t *testing.T, media string, layout informer.Layout) {
	ctx := within(t, patience+time.Duration(*warmPods)*20*time.Millisecond)
	namespace, err := cluster.CreateNamespace(ctx, server.Config(), "warm")
	if err != nil {
		t.Fatal(err)
	}
	config := server.Config()
	config.ContentType = media
	config.DisableCompression = true // kube-apiserver from 1.37 on compresses streaming lists, and no other watches
	pods := func(yield func(*corev1.Pod) bool) {
		for pod := range cluster.Pods(namespace, *warmPods) {
			pod.Annotations = map[string]string{"description": strings.Repeat(pod.Name+" ", 100)}
			if !yield(pod) {
				return
			}
		}
	}
	if err := cluster.CreatePods(ctx, server.Config(), pods, 0); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	settings := informer.Config[*corev1.Pod]{Layout: layout}
	cold, err := startWarm(ctx, config, namespace, settings)
	if err != nil {
		t.Fatal(err)
	}
	cold.stop()
	objects := cold.Store().List()

	// The process that is killed.
	spec, err := json.Marshal(warmJob{config.Host, config.BearerToken, namespace, dir, config.CAData, layout})
	if err != nil {
		t.Fatal(err)
	}
	process := exec.CommandContext(ctx, os.Args[0])
	process.Env = append(os.Environ(), warmEnv+"="+string(spec))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	saved := bufio.NewScanner(out)
	if !saved.Scan() {
		t.Fatal("the process has saved nothing")
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	typed := informer.NewTypedClient[*corev1.Pod](client, corev1.SchemeGroupVersion.WithResource("pods"))
	change := func(from int) {
		t.Helper()
		for i := from; i < from+50; i++ {
			pod := objects[i%len(objects)].DeepCopy()
			pod.ResourceVersion = ""
			pod.Annotations["changed"] = fmt.Sprint(i)
			switch i % 10 {
			case 8:
				err = typed.Delete(ctx, informer.KeyOf(pod), metav1.DeleteOptions{})
			case 9:
				_, err = typed.Create(ctx, cluster.NewPod(namespace, fmt.Sprint("new-", i)), metav1.CreateOptions{})
			default:
				_, err = typed.Update(ctx, pod, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	change(0)
	if !saved.Scan() {
		t.Fatal("the process has saved only once")
	}
	change(50)
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	change(100)

	settings.WarmStart.Storage = informer.WarmStartDir(dir)
	warm, err := startWarm(ctx, config, namespace, settings)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := startWarm(ctx, config, namespace, informer.Config[*corev1.Pod]{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := warm.Store().List(), fresh.Store().List(); !reflect.DeepEqual(got, want) {
		t.Errorf("warm start (-fresh +warm):\n%.2000s", cmp.Diff(want, got))
	}
	s := warm.Status().Reflectors[0]
	if !s.WarmStart.Loaded || s.WarmStart.LoadError != nil || s.Failures > 0 || len(s.Traffic.ListsBy) > 0 {
		t.Errorf("the start was not warm: %+v, lists %v", s.WarmStart, s.Traffic.ListsBy)
	}
	if warm.received > cold.received/10 {
		t.Errorf("the warm start received %d bytes, the cold one %d", warm.received, cold.received)
	}
	fresh.stop()
	warm.stop()

	// Only another resource changes: the version of the server moves, and no event of a pod shows that.
	if _, err := informer.NewTypedClient[*corev1.ConfigMap](client, corev1.SchemeGroupVersion.WithResource("configmaps")).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := startWarm(ctx, config, namespace, settings)
	if err != nil {
		t.Fatal(err)
	}
	again.stop()
	if s := again.Status().Reflectors[0]; !s.WarmStart.Loaded || len(s.Traffic.ListsBy) > 0 || again.Store().Len() != warm.Store().Len() {
		t.Errorf("the start without changes was not warm: %+v, lists %v", s.WarmStart, s.Traffic.ListsBy)
	}
	t.Logf("%d pods: cold start %d bytes, %v; warm start %d bytes, %v, of them %v to load; %d watches; without changes of pods %d bytes, %v",
		len(objects), cold.received, cold.synced, warm.received, warm.synced, s.WarmStart.LoadTime, s.Traffic.Watches, again.received, again.synced)
}
