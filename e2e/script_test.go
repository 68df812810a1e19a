package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/informertest"
)

// scripted is one request of a script. A script is a text of requests with empty lines between them:
//
//	NAME: METHOD PATH [OPTION=VALUE]...
//	BODY
//
// It may have {namespace}, a name that only this run uses. The options are the Content-Type of the body or what the client
// accepts (as), the impersonated user (by), and the fields of an object to compare in place of all (show). With show=errors,
// only the code, reason and fields of an error are compared. A request is repeated until its answer has a text (until).
type scripted struct {
	name, method, path, body string
	as, user, until          string
	show                     []string
}

// parseScript returns the requests of a script.
func parseScript(t *testing.T, script string) (all []scripted) {
	t.Helper()
	for _, text := range strings.Split(strings.TrimSpace(script), "\n\n") {
		head, body, _ := strings.Cut(strings.TrimSpace(text), "\n")
		name, rest, _ := strings.Cut(head, ": ")
		words := strings.Fields(rest)
		if len(words) < 2 {
			t.Fatalf("not a request: %q", head)
		}
		e := scripted{name: name, method: words[0], path: words[1], body: body, as: "json"}
		for _, word := range words[2:] {
			option, value, _ := strings.Cut(word, "=")
			switch option {
			case "as":
				if e.as = value; bodies[value] == "" && accepts[value] == "" {
					t.Fatalf("%s: unknown encoding %q", name, value)
				}
			case "by":
				e.user = value
			case "until":
				e.until = value
			case "show":
				e.show = strings.Split(value, ",")
			default:
				t.Fatalf("%s: unknown option %q", name, word)
			}
		}
		all = append(all, e)
	}
	return all
}

// bodies are the Content-Types of a script.
var bodies = map[string]string{
	"json":      "application/json",
	"apply":     string(types.ApplyYAMLPatchType),
	"merge":     string(types.MergePatchType),
	"patch":     string(types.JSONPatchType),
	"strategic": string(types.StrategicMergePatchType),
}

// talker sends the requests of a script to one server.
type talker struct {
	*testing.T
	config    *rest.Config
	client    *http.Client
	namespace string
	rv        string // of the object in the latest answer that has one

	names     []string        // more texts to replace, and with what
	meanwhile func() []string // returns what the answer has to tell besides; may be nil
}

func newTalker(t *testing.T, config *rest.Config, namespace string) *talker {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &talker{T: t, config: config, client: client, namespace: namespace}
}

// say sends one request and returns its answer as text.
func (k *talker) say(e scripted) string {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		answer := k.once(ctx, e)
		if e.until == "" || strings.Contains(answer, e.until) {
			return answer
		}
		select {
		case <-ctx.Done():
			return answer
		case <-tick.C:
		}
	}
}

func (k *talker) once(ctx context.Context, e scripted) string {
	k.Helper()
	fill := strings.NewReplacer(append(k.names, "{namespace}", k.namespace)...).Replace
	request, err := http.NewRequestWithContext(ctx, e.method, k.config.Host+fill(e.path), strings.NewReader(fill(e.body)))
	if err != nil {
		k.Fatal(err)
	}
	if strings.Contains(bodies[e.as], "/") {
		request.Header.Set("Content-Type", bodies[e.as])
	} else {
		request.Header.Set("Accept", accepts[e.as])
	}
	request.Header.Set("User-Agent", "battery/1.0")
	if e.user != "" {
		request.Header.Set("Impersonate-User", e.user)
	}
	response, err := k.client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	head := fmt.Sprint(response.StatusCode)
	for _, warning := range response.Header.Values("Warning") {
		head += "\n\t" + warning
	}
	var obj map[string]any
	if err := json.Unmarshal(content, &obj); err != nil {
		return head + "\n\t" + strings.TrimSpace(string(content))
	}
	answer := append([]string{head, k.describe(obj, e.show)}, k.told()...)
	return strings.ReplaceAll(strings.Join(answer, "\n\t"), k.namespace, "{namespace}")
}

// told returns what happened meanwhile.
func (k *talker) told() []string {
	if k.meanwhile == nil {
		return nil
	}
	return k.meanwhile()
}

// discard deletes the object at path at the end of a test, if it still exists.
func (k *talker) discard(path string) {
	request, err := http.NewRequest(http.MethodDelete, k.config.Host+strings.ReplaceAll(path, "{namespace}", k.namespace), nil)
	if err != nil {
		k.Error(err)
		return
	}
	if response, err := k.client.Do(request); err == nil { // a server in the process may be closed already
		response.Body.Close()
	}
}

// describe returns what is compared of an object, in a form that is equal on both sides for equal content.
func (k *talker) describe(obj map[string]any, show []string) string {
	if obj["kind"] == "Status" && obj["status"] == metav1.StatusFailure {
		return describeError(obj, slices.Contains(show, "errors"))
	}
	if details, ok := obj["details"].(map[string]any); ok { // of what was deleted
		delete(details, "uid")
	}
	k.neutral(obj)
	if len(show) == 0 || slices.Equal(show, []string{"errors"}) {
		if len(show) > 0 {
			return "accepted"
		}
		return string(encoded(obj))
	}
	var texts []string
	for _, path := range show {
		var value any = obj
		for name := range strings.SplitSeq(path, ".") {
			fields, _ := value.(map[string]any)
			value = fields[name]
		}
		texts = append(texts, path+"="+string(encoded(value)))
	}
	return strings.Join(texts, "\n\t")
}

// describeError returns a Status. If brief, the code, the reason and the fields of the causes.
func describeError(status map[string]any, brief bool) string {
	details, _ := status["details"].(map[string]any)
	delete(details, "uid")
	causes, _ := details["causes"].([]any)
	slices.SortFunc(causes, func(a, b any) int { return bytes.Compare(encoded(a), encoded(b)) }) // some come from maps
	if !brief {
		return string(encoded(status))
	}
	fields := map[string]bool{}
	for _, cause := range causes {
		cause := cause.(map[string]any)
		fields[fmt.Sprint(cause["reason"], " ", cause["field"])] = true
	}
	return fmt.Sprint(status["code"], " ", status["reason"], " ", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
}

// neutral replaces what differs between any two servers.
func (k *talker) neutral(obj map[string]any) {
	for _, list := range []string{"items", "rows"} {
		items, _ := obj[list].([]any)
		for _, item := range items {
			k.neutral(item.(map[string]any))
		}
	}
	if object, ok := obj["object"].(map[string]any); ok { // of a row of a Table
		k.neutral(object)
	}
	neutralResources(obj)
	metadata, ok := obj["metadata"].(map[string]any)
	if !ok {
		return
	}
	if status, ok := obj["status"].(map[string]any); ok {
		conditions, _ := status["conditions"].([]any)
		for _, condition := range conditions {
			delete(condition.(map[string]any), "lastTransitionTime")
		}
	}
	same := false
	if rv, ok := metadata["resourceVersion"].(string); ok && obj["items"] == nil && obj["rows"] == nil {
		same, k.rv = rv == k.rv, rv
	}
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp", "resourceVersion"} {
		if metadata[field] != nil {
			metadata[field] = field
		}
	}
	if same {
		metadata["resourceVersion"] = "that of the previous answer"
	}
	managers, _ := metadata["managedFields"].([]any)
	for _, manager := range managers {
		delete(manager.(map[string]any), "time")
	}
	slices.SortFunc(managers, func(a, b any) int { return bytes.Compare(encoded(a), encoded(b)) }) // they were sorted by time
}

// neutralResources sorts the resources in an APIResourceList and their verbs, and drops the hashes of their storage, which
// informertest does not have.
func neutralResources(list map[string]any) {
	resources, _ := list["resources"].([]any)
	byText := func(a, b any) int { return bytes.Compare(encoded(a), encoded(b)) }
	for _, resource := range resources {
		resource := resource.(map[string]any)
		delete(resource, "storageVersionHash")
		if verbs, ok := resource["verbs"].([]any); ok {
			slices.SortFunc(verbs, byText)
		}
	}
	slices.SortFunc(resources, byText)
}

func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

// newTalkers returns talkers to a server in the process and to kube-apiserver, with a new namespace.
func newTalkers(t *testing.T, inProcess *informertest.Server) (ours, theirs *talker) {
	t.Helper()
	admin := authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters"}}
	return newTalkersOf(t, inProcess.ConfigFor(admin))
}

// newTalkersOf is newTalkers for a server that runs already.
func newTalkersOf(t *testing.T, config *rest.Config) (ours, theirs *talker) {
	t.Helper()
	namespace := "battery-" + rand.String(5)
	ours, theirs = newTalker(t, config, namespace), newTalker(t, server.Config(), namespace)
	for _, k := range []*talker{ours, theirs} {
		answer := k.say(scripted{method: "POST", path: "/api/v1/namespaces", as: "json", body: `{"metadata":{"name":"{namespace}"}}`})
		if !strings.HasPrefix(answer, "201") {
			t.Fatal(answer)
		}
	}
	return ours, theirs
}

// converse sends a script to a server in the process and to kube-apiserver, and compares the answers. The exceptions are the names
// of the requests that are answered differently, with the reasons. If both answer alike, the test fails.
func converse(t *testing.T, inProcess *informertest.Server, script string, exceptions map[string]string) {
	t.Helper()
	ours, theirs := newTalkers(t, inProcess)
	compare(t, ours, theirs, script, exceptions)
}

// compare is converse for talkers that exist.
func compare(t *testing.T, ours, theirs *talker, script string, exceptions map[string]string) {
	t.Helper()
	said := map[string]bool{}
	for _, e := range parseScript(t, script) {
		if said[e.name] {
			t.Errorf("two requests are called %q", e.name)
		}
		said[e.name] = true
		got, want := ours.say(e), theirs.say(e)
		reason, known := exceptions[e.name]
		switch {
		case got != want && !known:
			t.Errorf("%s: %s %s\n%s\n   informertest: %s\n kube-apiserver: %s", e.name, e.method, e.path, e.body, got, want)
		case got != want:
			t.Logf("%s: differs, since %s", e.name, reason)
		case known:
			t.Errorf("%s: both sides answer alike; remove it from the exceptions", e.name)
		}
	}
	for name := range exceptions {
		if !said[name] {
			t.Errorf("the exception %q is not a request", name)
		}
	}
}
