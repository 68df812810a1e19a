package informertest_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: applied, labels: {color: COLOR}}
spec:
  containers: [{name: c, image: i}]
`

// TestKubectl runs kubectl if it is installed. Otherwise it checks nothing, and says so. TestKubectl_Requests sends the same
// requests without it.
func TestKubectl(t *testing.T) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Logf("NOT CHECKED, because kubectl is not installed (%v): that the commands get, get --watch, explain, label, annotate, "+
			"patch, apply, create and delete of a real kubectl work. TestKubectl_Requests checks their requests.", err)
		return
	}
	server := informertest.NewServer(informertest.Options{TypeConverter: applyconfigurations.NewTypeConverter(scheme.Scheme)})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, podResource)
	_, err = registerWidgets(server).Create(widget("w"))
	must(t, err)
	_, err = pods.Create(newPod("ns", "a"))
	must(t, err)

	home := t.TempDir()
	for _, color := range []string{"red", "blue"} {
		must(t, os.WriteFile(filepath.Join(home, color+".yaml"), []byte(strings.ReplaceAll(manifest, "COLOR", color)), 0o600))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kubectl := func(args ...string) *exec.Cmd {
		command := exec.CommandContext(ctx, path, append([]string{"--server=" + server.URL, "--kubeconfig=", "--namespace=ns"}, args...)...)
		command.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=")
		command.Dir = home
		return command
	}

	watch := kubectl("get", "pods", "--watch", "--output-watch-events")
	stdout, err := watch.StdoutPipe()
	must(t, err)
	must(t, watch.Start())
	defer func() { cancel(); watch.Wait() }()
	seen := bufio.NewScanner(stdout)
	last := ""
	next := func(want ...string) { // kubectl decides how many changes a command makes, so repetitions do not count
		t.Helper()
		for _, w := range want {
			got := last
			for got == last && seen.Scan() {
				got = strings.Join(strings.Fields(seen.Text())[:2], " ")
			}
			if last = got; got != w {
				t.Fatalf("kubectl get --watch: %q, want %q", got, w)
			}
		}
	}
	next("EVENT NAME", "ADDED a")

	for _, step := range []struct{ command, want string }{
		{"get pods", `(?s)NAME +AGE\na +\d+s`},
		{"get po a -o yaml", `(?s)kind: Pod.*resourceVersion: "3".*image: <i&>`},
		{"get widgets.example.com -A -o name", `^widget.example.com/w\n$`},
		{"get all -o name", `^pod/a\n$`},
		{"api-resources --no-headers", `(?s)pods +po +v1 +true +Pod\n.*widgets +example.com/v1 +true +Widget`},
		{"explain pods.spec.nodeName", `(?s)KIND: +Pod.*FIELD: nodeName <string>`},
		{"explain pods.spec.containers", `(?s)FIELD: containers <\[\]Container>.*image\s+<string>`},
		{"get nodes", `the server doesn't have a resource type "nodes"`},
		{"label pod a k=v", `^pod/a labeled\n$`},
		{"annotate pod a k=v", `^pod/a annotated\n$`},
		{"get pods -l k=v -o name", `^pod/a\n$`},
		{`patch pod a -p {"spec":{"nodeName":"n2"}}`, `^pod/a patched\n$`},
		{`patch widget w --type=merge -p {"spec":{"size":5}}`, `^widget.example.com/w patched\n$`},
		{"get widget w -o jsonpath={.spec.size}", `^5$`},
		{"apply -f red.yaml", `^pod/applied created\n$`},
		{"apply -f red.yaml", `^pod/applied unchanged\n$`},
		{"apply -f blue.yaml", `^pod/applied configured\n$`},
		{"apply --server-side --force-conflicts -f red.yaml", `^pod/applied serverside-applied\n$`},
		{"get pod applied -o jsonpath={.metadata.labels.color}", `^red$`},
		{"delete pod applied", `^pod "applied" deleted`},
		{"create -f blue.yaml", `^pod/applied created\n$`},
		{"delete pods --all", `(?s)^pod "a" deleted.*pod "applied" deleted`},
		{"get pods", `^No resources found in ns namespace`},
	} {
		out, err := kubectl(strings.Fields(step.command)...).CombinedOutput()
		if !regexp.MustCompile(step.want).Match(out) {
			t.Errorf("kubectl %s: %v\n%s\nwant %s", step.command, err, out, step.want)
		}
	}
	next("MODIFIED a", "ADDED applied", "MODIFIED applied", "DELETED applied", "ADDED applied", "DELETED a", "DELETED applied")
}

// TestKubectl_Requests sends the requests of kubectl 1.32 for get, label, apply and delete.
func TestKubectl_Requests(t *testing.T) {
	const (
		discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
		table     = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
		plain     = "application/json"
		apply     = "application/apply-patch+yaml"
	)
	bubble(t, informertest.Options{TypeConverter: applyconfigurations.NewTypeConverter(scheme.Scheme)}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		_, err := pods.Create(newPod("ns", "a"))
		must(t, err)
		client, err := rest.HTTPClientFor(server.Config())
		must(t, err)
		defer client.CloseIdleConnections()
		for _, step := range []struct {
			method, path, accept, contentType, body string
			code                                    int
			want                                    string
		}{
			{"GET", "/version?timeout=5s", plain + ", */*", "", "", 200, `"gitVersion":"v1.`},
			{"GET", "/api?timeout=32s", discovery, "", "", 200, `"resource":"pods"`},
			{"GET", "/apis?timeout=32s", discovery, "", "", 200, `"kind":"APIGroupDiscoveryList"`},
			{"GET", "/api/v1/namespaces/ns/pods?limit=500", table, "", "", 200, `"cells":["a",`},
			{"GET", "/api/v1/namespaces/ns/pods?resourceVersion=2&watch=true&timeoutSeconds=1", table, "", "", 200, ""},
			{"GET", "/api/v1/namespaces/ns/pods/a", plain, "", "", 200, `"name":"a"`},
			{"PATCH", "/api/v1/namespaces/ns/pods/a?fieldManager=kubectl-label", plain, "application/merge-patch+json", `{"metadata":{"labels":{"k":"v"}}}`, 200, `"k":"v"`},
			{"PATCH", "/api/v1/namespaces/ns/pods/a?fieldManager=kubectl-patch", plain, "application/strategic-merge-patch+json", `{"spec":{"nodeName":"n2"}}`, 200, `"nodeName":"n2"`},
			{"GET", "/openapi/v3?timeout=32s", plain + ", */*", "", "", 200, `"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1"}`},
			{"GET", "/openapi/v3/api/v1?timeout=32s", plain, "", "", 200, `"fieldValidation"`},
			{"GET", "/api/v1/namespaces/ns/pods/applied", plain, "", "", 404, `"reason":"NotFound"`},
			{"POST", "/api/v1/namespaces/ns/pods?fieldManager=kubectl-client-side-apply&fieldValidation=Strict", plain, plain,
				`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"applied","namespace":"ns"},"spec":{"containers":[{"image":"i","name":"c"}]}}`, 201, `"name":"applied"`},
			{"PATCH", "/api/v1/namespaces/ns/pods/applied?fieldManager=kubectl&fieldValidation=Strict&force=true", plain, apply, strings.ReplaceAll(manifest, "COLOR", "red"), 200, `"color":"red"`},
			{"DELETE", "/api/v1/namespaces/ns/pods/applied", plain, plain, `{"propagationPolicy":"Background"}`, 200, `"kind":"Pod"`},
		} {
			request, err := http.NewRequestWithContext(t.Context(), step.method, server.URL+step.path, strings.NewReader(step.body))
			must(t, err)
			request.Header.Set("Accept", step.accept)
			request.Header.Set("Content-Type", step.contentType)
			response, err := client.Do(request)
			must(t, err)
			body, err := io.ReadAll(response.Body)
			must(t, err)
			response.Body.Close()
			if response.StatusCode != step.code || !strings.Contains(string(body), step.want) {
				t.Errorf("%s %s: %d %s", step.method, step.path, response.StatusCode, body)
			}
		}
		if _, ok := pods.Get(informer.Key{Namespace: "ns", Name: "a"}); !ok || pods.Len() != 1 {
			t.Errorf("%d pods left", pods.Len())
		}
	})
}
