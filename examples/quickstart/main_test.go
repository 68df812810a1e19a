package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/informertest"
)

// outsideCluster makes the program simulate a cluster, wherever the test runs.
func outsideCluster(t *testing.T) { t.Setenv("KUBERNETES_SERVICE_HOST", "") }

func TestSimulation(t *testing.T) {
	outsideCluster(t)
	ctx, shown := untilShown(t, "lag: p50") // after an event, however slow the machine is
	if err := run(ctx, []string{"-pods", "300", "-namespaces", "5", "-rate", "200"}, shown); err != nil {
		t.Fatalf("run: %v\n%s", err, shown)
	}
	out := &shown.buf
	for _, want := range []string{
		`\Afollowing v1 pods at http://127\.0\.0\.1:\d+\n`,
		`\n  0s  (start|sync|pods): `,
		`\n +\d+s  pods: \d+ at resourceVersion \d+  sync: took \S+  state: Watching for \S+  ` +
			`events: [1-9]\d* \(\+\d+ ~\d+ -\d+\) per second, [1-9]\d* so far  lag: p50 \S+, p99 \S+, max \S+  ` +
			`memory: heap \d+ MiB.*  Running: \d+ .*  nodes: 10 with up to \d+\n`,
		`\nstore equals server: \d+ pods\n\d+ pods; [1-9]\d* \(\+\d+ ~\d+ -\d+\) events in \S+; initial sync \S+; lag p50 \S+.*\n\z`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no match for %q", want)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("output:\n%s", out)
	}
}

// untilShown returns a context that ends once text was written to out, like a user who interrupts the program then.
func untilShown(t *testing.T, text string) (ctx context.Context, out *watchedBuffer) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, &watchedBuffer{text: text, shown: cancel}
}

type watchedBuffer struct {
	buf   bytes.Buffer // not embedded, since io.WriteString would call its WriteString
	text  string
	shown func()
}

func (b *watchedBuffer) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(b.text)) {
		b.shown()
	}
	return b.buf.Write(p)
}

func (b *watchedBuffer) String() string { return b.buf.String() }

func TestInterrupted(t *testing.T) {
	outsideCluster(t)
	t.Run("in the live phase", func(t *testing.T) {
		ctx, out := untilShown(t, "events: ")
		if err := run(ctx, []string{"-pods", "100"}, out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "store equals server: ") {
			t.Errorf("output:\n%s", out)
		}
	})
	t.Run("while the simulation is being filled", func(t *testing.T) {
		ctx, out := untilShown(t, "following ")
		if err := run(ctx, nil, out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "interrupted before the initial sync was complete: ") {
			t.Errorf("output:\n%s", out)
		}
	})
}

// kubeconfig writes a kubeconfig for the server at url.
func kubeconfig(t *testing.T, url string) string {
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: u}]}`, url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCluster(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
	for _, namespace := range []string{"a", "b", "c"} {
		for _, app := range []string{"web", "db"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, Labels: map[string]string{"app": app}}}
			if _, err := pods.Create(pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, out := untilShown(t, "events: ")
	if err := run(ctx, []string{"-kubeconfig", kubeconfig(t, server.URL), "-namespace", "a,c", "-selector", "app=web"}, out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"v1 pods in a,c with labels app=web at " + server.URL, "pods: 2 at ", "state: a Watching ", "state: c Watching ", "lag: n/a"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
	for _, request := range server.Requests() {
		if request.Verb != "list" && request.Verb != "watch" {
			t.Errorf("request: %s %s", request.Verb, request.Path)
		}
	}
}

func TestErrors(t *testing.T) {
	outsideCluster(t)
	server := informertest.NewServer(informertest.Options{})
	server.Close()
	gone := kubeconfig(t, server.URL)
	for _, test := range []struct {
		name, args, want string
	}{
		{"unknown flag", "-nodes 3", "-nodes"},
		{"argument", "pods", `unexpected argument "pods"`},
		{"no pods", "-pods 0", "-pods and -namespaces must be between 1 and 1000000"},
		{"negative rate", "-rate -1", "-rate and -for must not be negative"},
		{"simulation of a cluster", "-simulate -kubeconfig x", "exclude each other"},
		{"part of a simulation", "-namespace a", "need a real cluster"},
		{"kubeconfig", "-kubeconfig /does/not/exist", "no such file"},
		{"selector", "-kubeconfig " + gone + " -selector a=(", "LabelSelector"},
		{"namespace", "-kubeconfig " + gone + " -namespace a,a", "repeats"},
		{"server", "-kubeconfig " + gone + " -for 3s", "refused"},
		{"time", "-for 1ms", errTimeIsUp.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), strings.Fields(test.args), &out)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, &out); err != nil || !strings.Contains(out.String(), "-kubeconfig path") {
		t.Errorf("error %v, output:\n%s", err, &out)
	}
}
