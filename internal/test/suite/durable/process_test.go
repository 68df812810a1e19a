//go:build unix

package durable

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// The environment of a process of TestKilledProcessLosesNothing.
const (
	processURL  = "DURABLE_TEST_URL"
	processDir  = "DURABLE_TEST_DIR"
	processMode = "DURABLE_TEST_MODE"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(processURL); url != "" {
		err := ship(url, os.Getenv(processDir), os.Getenv(processMode), os.NewFile(3, "events"))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	leak.Main(m)
}

// ship is a program that writes each event of pods as a line, until it is killed.
func ship(url, dir, mode string, out io.Writer) error {
	client, err := informer.NewClient(&rest.Config{Host: url, QPS: -1})
	if err != nil {
		return err
	}
	storage := informer.WarmStartDir(dir)
	config := informer.Config[*corev1.Pod]{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if strings.Contains(mode, "warm") {
		config.WarmStart = informer.WarmStartConfig{Storage: storage, Interval: 50 * time.Millisecond}
	}
	if strings.Contains(mode, "compact") {
		config.Layout = informer.LayoutCompact
	}
	inf := informer.New(client, pods, config)
	line := func(what string, pod *corev1.Pod) {
		fmt.Fprintln(out, what, pod.Name, pod.UID, pod.ResourceVersion) // in one write, so that no line is cut
	}
	sub := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod, _ bool) { line("add", pod) },
		UpdateFunc: func(_, pod *corev1.Pod) { line("update", pod) },
		DeleteFunc: func(last *corev1.Pod, _ bool) { line("delete", last) },
	}, informer.SubscriptionConfig[*corev1.Pod]{
		Durable: informer.DurableConfig{Name: "ship", Storage: storage, Objects: strings.Contains(mode, "objects"), Interval: 5 * time.Millisecond},
	})
	go func() {
		<-sub.Done()
		fmt.Fprintln(out, "error", sub.Err())
	}()
	return inf.Run(context.Background())
}

// harbor is a server whose pods change while a process is killed again and again.
type harbor struct {
	*testing.T
	rand     *rand.Rand
	server   *informertest.Server
	pods     *informertest.Collection[*corev1.Pod]
	tick     int
	versions map[string]string // of the objects that the processes have, by UID, according to their lines
	seen     map[string]bool   // lines
	lines    int
	repeats  int
}

// change creates, changes or deletes a pod.
func (h *harbor) change() {
	key := informer.Key{Namespace: "ns", Name: fmt.Sprint("p", h.rand.IntN(40))}
	_, exists := h.pods.Get(key)
	switch {
	case !exists:
		h.create(key.Name)
	case h.rand.IntN(2) == 0:
		h.check(h.pods.Delete(key))
	default:
		h.update(key)
	}
}

func (h *harbor) check(_ *corev1.Pod, err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harbor) create(name string) { h.check(h.pods.Create(world.NewPod("ns", name, "v=0"))) }

func (h *harbor) update(key informer.Key) {
	pod, _ := h.pods.Get(key)
	pod = pod.DeepCopy()
	h.tick++
	pod.Labels["v"] = fmt.Sprint(h.tick)
	h.check(h.pods.Update(pod))
}

// take checks and counts a line.
func (h *harbor) take(line string) (name string) {
	h.Helper()
	fields := strings.Fields(line)
	if len(fields) != 4 || fields[0] == "error" {
		h.Fatalf("the process wrote %q", line)
	}
	h.lines++
	if h.seen[line] {
		h.repeats++
	}
	h.seen[line] = true
	if uid := fields[2]; fields[0] == "delete" {
		delete(h.versions, uid)
	} else {
		h.versions[uid] = fields[3]
	}
	return fields[1]
}

// run runs a process, and kills it when enough returns true for a line. After each other line, it calls next.
func (h *harbor) run(dir string, enough func(name string) bool, next func()) {
	h.Helper()
	events, out, err := os.Pipe()
	if err != nil {
		h.Fatal(err)
	}
	defer events.Close()
	mode := []string{"", "warm", "compact", "objects", "warm objects", "compact objects warm"}[h.rand.IntN(6)]
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processURL+"="+h.server.URL, processDir+"="+dir, processMode+"="+mode)
	cmd.ExtraFiles = []*os.File{out}
	cmd.Stderr = h.Output()
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	out.Close()
	killed := false
	lines := bufio.NewScanner(events)
	for lines.Scan() {
		if name := h.take(lines.Text()); killed {
			continue
		} else if enough(name) {
			killed = true
			h.check(nil, cmd.Process.Kill())
			continue
		}
		next()
	}
	if err := cmd.Wait(); !killed {
		h.Fatalf("the process ended: %v", err)
	}
}

// A process is killed again and again, at any moment. Its lines, together with those of the next ones, have each change of
// each pod: they end with the pods of the server, and every pod that a line has added and that is gone has been deleted.
// Guarantees: H15, H16
func TestKilledProcessLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	h := &harbor{
		T: t, rand: rand.New(rand.NewPCG(seed, 0)), server: server, versions: map[string]string{}, seen: map[string]bool{},
		pods: informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: world.PodGVR}),
	}
	h.create("tick")
	dir := t.TempDir()
	rounds := testkit.Rounds(20, 200)
	for range rounds {
		h.update(informer.Key{Namespace: "ns", Name: "tick"})
		for range h.rand.IntN(20) {
			h.change()
		}
		if h.rand.IntN(5) == 0 {
			server.Compact()
		}
		left := h.rand.IntN(40)
		h.run(dir, func(string) bool { left--; return left < 0 }, func() {
			h.change()
			h.update(informer.Key{Namespace: "ns", Name: "tick"}) // so that there is always another line to come
		})
	}
	h.create("zz") // its line comes last
	h.run(dir, func(name string) bool { return name == "zz" }, func() {})
	for pod := range h.pods.All() {
		if got := h.versions[string(pod.UID)]; got != pod.ResourceVersion {
			t.Errorf("%s: the lines have version %q, the server %s", pod.Name, got, pod.ResourceVersion)
		}
		delete(h.versions, string(pod.UID))
	}
	for uid := range h.versions {
		t.Errorf("the lines have the deleted pod %s", uid)
	}
	t.Logf("%d kills, %d lines, %d of them repeated", rounds+1, h.lines, h.repeats)
}
