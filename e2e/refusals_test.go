package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// refusals are requests in their order, and the field of the response that is compared. {namespace} is a namespace of the
// test. The object that is held keeps the namespace, which no controller empties in the real cluster.
var refusals = []struct{ request, body, field string }{
	{"POST /api/v1/namespaces", `{"metadata":{"name":"{namespace}"}}`, "status"},
	{"POST /api/v1/namespaces", `{"metadata":{"name":"{namespace}"}}`, ""},
	{"POST /api/v1/namespaces/nosuch-{namespace}/configmaps", `{"metadata":{"name":"a"}}`, ""},
	{"POST /api/v1/namespaces/{namespace}/configmaps", `{"metadata":{"name":"held","finalizers":["example.com/hold"]}}`, "data"},
	{"POST /api/v1/namespaces/{namespace}/pods", pendingPod, "kind"},
	{"DELETE /api/v1/namespaces/{namespace}/pods/pending", "", "kind"},
	{"POST /api/v1/namespaces/{namespace}/pods", runningPod, "kind"},
	{"DELETE /api/v1/namespaces/{namespace}/pods/running", "", "metadata.deletionGracePeriodSeconds"},
	{"DELETE /api/v1/namespaces/{namespace}/pods/running", `{"gracePeriodSeconds":60}`, "metadata.deletionGracePeriodSeconds"},
	{"DELETE /api/v1/namespaces/{namespace}/pods/running", `{"gracePeriodSeconds":20}`, "metadata.deletionGracePeriodSeconds"},
	{"GET /api/v1/namespaces/{namespace}/pods/running", "", "metadata.generation"},
	{"DELETE /api/v1/namespaces/{namespace}/pods/running", `{"gracePeriodSeconds":0}`, "kind"},
	{"GET /api/v1/namespaces/{namespace}/pods/running", "", ""},
	{"POST /api/v1/namespaces/{namespace}/configmaps", `{"metadata":{"name":"foreground"}}`, "data"},
	{"DELETE /api/v1/namespaces/{namespace}/configmaps/foreground", `{"propagationPolicy":"Sometimes"}`, ""},
	{"DELETE /api/v1/namespaces/default", "", ""},
	{"DELETE /api/v1/namespaces/{namespace}", "", "status.phase"},
	{"GET /api/v1/namespaces/{namespace}", "", "spec"},
	{"POST /api/v1/namespaces/{namespace}/configmaps", `{"metadata":{"name":"late"}}`, ""},
	{"POST /api/v1/namespaces/{namespace}/configmaps", `{"metadata":{"generateName":"late-"}}`, ""},
	{"PUT /api/v1/namespaces/{namespace}/finalize", `{"metadata":{"name":"{namespace}"},"spec":{"finalizers":["example.com/more"]}}`, "spec"},
}

const (
	pendingPod = `{"metadata":{"name":"pending"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	runningPod = `{"metadata":{"name":"running"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`
)

// TestSameLifecycleAsKubeAPIServer compares what informertest's controllers do while requests are served: refusals, graceful
// deletion, and namespaces that are being deleted.
func TestSameLifecycleAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{
		Controllers: informertest.Controllers{Namespaces: true, GarbageCollection: true, GracefulPods: true}})
	defer inProcess.Close()
	namespace := "lifecycle-" + rand.String(5)
	for _, r := range refusals {
		ours := lifecycleAnswer(t, inProcess.Config(), namespace, r.request, r.body, r.field)
		theirs := lifecycleAnswer(t, server.Config(), namespace, r.request, r.body, r.field)
		if ours != theirs {
			t.Errorf("%s %s\n   informertest: %s\n kube-apiserver: %s", r.request, r.body, ours, theirs)
		}
	}
}

// lifecycleAnswer sends a request and returns the code and a field of the response, or its whole Status.
func lifecycleAnswer(t *testing.T, config *rest.Config, namespace, request, body, field string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(text string) string { return strings.ReplaceAll(text, "{namespace}", namespace) }
	method, path, _ := strings.Cut(fill(request), " ")
	r, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, strings.NewReader(fill(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	if err := json.Unmarshal(content, &obj); err != nil {
		return fmt.Sprintf("%d %s", response.StatusCode, content)
	}
	if obj["kind"] == "Status" {
		var status metav1.Status
		if err := json.Unmarshal(content, &status); err != nil {
			t.Fatal(err)
		}
		if status.Details != nil {
			status.Details.UID = ""
		}
		text, _ := json.Marshal(status)
		return generated.ReplaceAllString(fmt.Sprintf("%d %s", response.StatusCode, text), "late-$$")
	}
	var value any = obj
	for name := range strings.SplitSeq(field, ".") {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	text, _ := json.Marshal(value)
	return fmt.Sprintf("%d %s %s", response.StatusCode, field, text)
}

// generated is a generated name.
var generated = regexp.MustCompile(`late-[a-z0-9]{5}\b`)
