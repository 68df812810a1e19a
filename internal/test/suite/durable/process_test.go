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
	"slices"
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
	var onPanic func(any)
	if strings.Contains(mode, "recovers") {
		onPanic = func(any) {}
	}
	sub := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod, _ bool) { line("add", pod) },
		UpdateFunc: func(_, pod *corev1.Pod) { line("update", pod) },
		DeleteFunc: func(last *corev1.Pod, _ bool) {
			if line("delete", last); strings.Contains(mode, "panics") {
				panic(last.Name)
			}
		},
	}, informer.SubscriptionConfig[*corev1.Pod]{
		OnPanic: onPanic,
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

// begin begins a process, which writes its events to the file.
func (h *harbor) begin(dir, mode string) (*exec.Cmd, *os.File) {
	h.Helper()
	events, out, err := os.Pipe()
	if err != nil {
		h.Fatal(err)
	}
	cmd := exec.CommandContext(h.Context(), os.Args[0]) // ends with the test if a line is lost
	cmd.Env = append(os.Environ(), processURL+"="+h.server.URL, processDir+"="+dir, processMode+"="+mode)
	cmd.ExtraFiles = []*os.File{out}
	cmd.Stderr = h.Output()
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	out.Close()
	return cmd, events
}

// run runs a process, and kills it when enough returns true for a line. After each other line, it calls next.
func (h *harbor) run(dir string, enough func(name string) bool, next func()) {
	h.Helper()
	mode := []string{"", "warm", "compact", "objects", "warm objects", "compact objects warm"}[h.rand.IntN(6)]
	cmd, events := h.begin(dir, mode)
	defer events.Close()
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

// until runs a process until it ends, or has a line about the pod mark. It calls next after the first line, and returns
// what was done to which object, apart from marks, and from the error of a subscription whose process ends.
func (h *harbor) until(mark, dir, mode string, next func()) (done []string) {
	h.Helper()
	cmd, events := h.begin(dir, mode)
	defer events.Close()
	for scanner := bufio.NewScanner(events); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if fields[0] == "error" {
			continue
		}
		if fields[1] == mark {
			h.check(nil, cmd.Process.Kill())
		}
		if !strings.HasPrefix(fields[1], "z") {
			done = append(done, fields[0]+" "+fields[2])
			next()
			next = func() {}
		}
	}
	_ = cmd.Wait()
	return done
}

// newHarbor returns a server with a pod.
func newHarbor(t *testing.T, seed uint64, name string) *harbor {
	server := informertest.NewServer(informertest.Options{})
	t.Cleanup(server.Close)
	h := &harbor{
		T: t, rand: rand.New(rand.NewPCG(seed, 0)), server: server, versions: map[string]string{}, seen: map[string]bool{},
		pods: informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: world.PodGVR}),
	}
	h.create(name)
	return h
}

// A process is killed again and again, at any moment. Its lines, together with those of the next ones, have each change of
// each pod: they end with the pods of the server, and every pod that a line has added and that is gone has been deleted.
// Guarantees: H15, H16
func TestKilledProcessLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	h := newHarbor(t, seed, "tick")
	dir := t.TempDir()
	rounds := testkit.Rounds(20, 200)
	for range rounds {
		h.update(informer.Key{Namespace: "ns", Name: "tick"})
		for range h.rand.IntN(20) {
			h.change()
		}
		if h.rand.IntN(5) == 0 {
			h.server.Compact()
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

// A panic without OnPanic ends the process, and no call of the handler begins meanwhile. The next process repeats it.
// Guarantees: H10, H16
func TestPanicEndsTheCalls(t *testing.T) {
	h, dir := newHarbor(t, 0, "a"), t.TempDir()
	key := informer.Key{Namespace: "ns", Name: "a"}
	old, _ := h.pods.Get(key)
	var pod *corev1.Pod
	got := h.until("z1", dir, "panics recovers", func() {
		h.check(h.pods.Delete(key))
		h.create("a")
		pod, _ = h.pods.Get(key)
		h.create("z1")
	})
	if pod == nil {
		t.Fatal("the first process wrote nothing")
	}
	deletions := []string{"delete " + string(old.UID), "delete " + string(pod.UID)}
	if want := []string{"add " + string(old.UID), deletions[0], "add " + string(pod.UID)}; !slices.Equal(got, want) {
		t.Fatalf("the first process wrote %q, want %q", got, want)
	}
	h.check(h.pods.Delete(key)) // the next handler has both objects of this name
	h.create("z2")
	got = h.until("z2", dir, "panics", func() {})
	if len(got) != 1 || !slices.Contains(deletions, got[0]) {
		t.Errorf("the process that panicked wrote %q", got)
	}
	got = h.until("z2", dir, "", func() {})
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(deletions))) {
		t.Errorf("the last process wrote %q, want %q", got, deletions)
	}
}
