package informertest_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// hooks is a server with webhooks: each path has a function that answers.
type hooks struct {
	t        *testing.T
	server   *informertest.Server
	pods     *informertest.Collection[*corev1.Pod]
	clients  *kubernetes.Clientset
	endpoint *httptest.Server

	mu      sync.Mutex
	answers map[string]func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
	asked   []string // path, operation, resource/subresource and name of each request
}

func newHooks(t *testing.T) *hooks { return newHooksOf(t, informertest.Options{}) }

func newHooksOf(t *testing.T, options informertest.Options) *hooks {
	h := &hooks{t: t, answers: map[string]func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse{}}
	h.endpoint = httptest.NewTLSServer(h)
	t.Cleanup(h.endpoint.Close)
	h.server = informertest.NewServer(options)
	t.Cleanup(h.server.Close)
	h.pods = informertest.Register[*corev1.Pod](h.server, podResource)
	informertest.Register[*registrationv1.MutatingWebhookConfiguration](h.server, informertest.Resource{
		GroupVersionResource: registrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"), ClusterScoped: true})
	informertest.Register[*registrationv1.ValidatingWebhookConfiguration](h.server, informertest.Resource{
		GroupVersionResource: registrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"), ClusterScoped: true})
	h.clients = clientsetFor(t, h.server.Config())
	return h
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		h.t.Error(err)
		return
	}
	request := review.Request
	h.mu.Lock()
	h.asked = append(h.asked, strings.TrimSuffix(fmt.Sprint(r.URL.Path, " ", request.Operation, " ", request.Resource.Resource, "/",
		request.SubResource), "/")+" "+request.Name)
	answer := h.answers[r.URL.Path]
	h.mu.Unlock()
	if answer == nil {
		http.Error(w, "broken", http.StatusTeapot)
		return
	}
	review.Request, review.Response = nil, answer(request)
	if review.Response.UID == "" {
		review.Response.UID = request.UID
	}
	json.NewEncoder(w).Encode(review)
}

// told returns what the webhooks have been asked since the last call.
func (h *hooks) told() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = nil
	return asked
}

func (h *hooks) wantTold(what string, want ...string) {
	h.t.Helper()
	if got := h.told(); !slices.Equal(got, want) {
		h.t.Errorf("%s: the webhooks were asked\n got %q\nwant %q", what, got, want)
	}
}

func (h *hooks) client(path string) registrationv1.WebhookClientConfig {
	url := h.endpoint.URL + path
	return registrationv1.WebhookClientConfig{URL: &url,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.endpoint.Certificate().Raw})}
}

var (
	noEffects   = registrationv1.SideEffectClassNone
	ignore      = registrationv1.Ignore
	ifNeeded    = registrationv1.IfNeededReinvocationPolicy
	allPods     = registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}
	podsAndMore = registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"pods/*"}}
)

func anyOf(rule registrationv1.Rule) []registrationv1.RuleWithOperations {
	return []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{registrationv1.OperationAll}, Rule: rule}}
}

// mutating registers a mutating webhook for pods, at the path of its name.
func (h *hooks) mutating(name string, answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse,
	change ...func(*registrationv1.MutatingWebhook)) {
	h.t.Helper()
	h.answers["/"+name] = answer
	hook := registrationv1.MutatingWebhook{Name: name + ".example.com", ClientConfig: h.client("/" + name), Rules: anyOf(allPods), SideEffects: &noEffects}
	for _, c := range change {
		c(&hook)
	}
	_, err := h.clients.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(context.Background(), &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []registrationv1.MutatingWebhook{hook}}, metav1.CreateOptions{})
	must(h.t, err)
}

// validating registers a validating webhook likewise.
func (h *hooks) validating(name string, answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse,
	change ...func(*registrationv1.ValidatingWebhook)) {
	h.t.Helper()
	h.answers["/"+name] = answer
	hook := registrationv1.ValidatingWebhook{Name: name + ".example.com", ClientConfig: h.client("/" + name), Rules: anyOf(allPods), SideEffects: &noEffects}
	for _, c := range change {
		c(&hook)
	}
	_, err := h.clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(context.Background(), &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []registrationv1.ValidatingWebhook{hook}}, metav1.CreateOptions{})
	must(h.t, err)
}

func (h *hooks) create(name string, options metav1.CreateOptions) error {
	_, err := h.clients.CoreV1().Pods("default").Create(context.Background(), newPod("default", name), options)
	return err
}

func allow(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// label returns the answer that sets a label.
func label(key, value string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		patch := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, PatchType: &patch,
			Patch: fmt.Appendf(nil, `[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, key, value)}
	}
}

func TestWebhooks_MutateThenValidateEachWrite(t *testing.T) {
	h := newHooks(t)
	h.mutating("m", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Operation == admissionv1.Delete {
			return allow(r)
		}
		return label("by", "m")(r)
	})
	var seen []string
	h.validating("v", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		var obj, old corev1.Pod
		json.Unmarshal(r.Object.Raw, &obj)
		json.Unmarshal(r.OldObject.Raw, &old)
		seen = append(seen, fmt.Sprint(r.Kind.Kind, " ", r.UserInfo.Username, " ", obj.Labels["by"], " ", old.Name, " ", *r.DryRun))
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"beware"}}
	})
	must(t, h.create("a", metav1.CreateOptions{}))
	_, err := h.clients.CoreV1().Pods("default").Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"client"}}}`), metav1.PatchOptions{})
	must(t, err)
	if pod, ok := h.pods.Get(informer.Key{Namespace: "default", Name: "a"}); !ok || pod.Labels["by"] != "m" {
		t.Errorf("stored %+v", pod)
	}
	_, err = h.clients.CoreV1().Pods("default").UpdateStatus(t.Context(), newPod("default", "a"), metav1.UpdateOptions{})
	must(t, err)
	must(t, h.clients.CoreV1().Pods("default").Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	h.wantTold("four writes, one of the status", "/m CREATE pods a", "/v CREATE pods a", "/m UPDATE pods a", "/v UPDATE pods a",
		"/m DELETE pods a", "/v DELETE pods a")
	want := []string{"Pod system:anonymous m  false", "Pod system:anonymous m a false", "Pod system:anonymous  a true"}
	if !slices.Equal(seen, want) {
		t.Errorf("the validating webhook saw\n got %q\nwant %q", seen, want)
	}
}

// The texts are those of kube-apiserver 1.36.
// A webhook gets the options that the client sent.
func TestWebhooks_SeeTheOptions(t *testing.T) {
	h := newHooks(t)
	var seen []string
	h.validating("v", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		seen = append(seen, string(r.Options.Raw))
		return allow(r)
	})
	api := h.clients.CoreV1().Pods("default")
	must(t, h.create("a", metav1.CreateOptions{FieldManager: "me", FieldValidation: "Strict"}))
	_, err := api.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`),
		metav1.PatchOptions{FieldManager: "you", DryRun: []string{"All"}})
	must(t, err)
	must(t, api.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64(5))}))
	want := []string{
		`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"me","fieldValidation":"Strict"}`,
		`{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1","dryRun":["All"],"fieldManager":"you"}`,
		`{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":5}`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

func TestWebhooks_Refuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
		change func(h *hooks, hook *registrationv1.ValidatingWebhook)
		want   string // with a prefix, if it ends with an ellipsis
	}{
		{"message", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 403, Message: "not today"}}
		}, nil, `403 admission webhook "v.example.com" denied the request: not today`},
		{"reason", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 422, Reason: "Invalid"}}
		}, nil, `422 admission webhook "v.example.com" denied the request: Invalid`},
		{"nothing", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{}
		}, nil, `400 admission webhook "v.example.com" denied the request without explanation`},
		{"broken", nil, nil, `500 Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: the server responded with the status code 418 but did not return more information`},
		{"broken and ignored", nil, func(h *hooks, hook *registrationv1.ValidatingWebhook) { hook.FailurePolicy = &ignore }, ""},
		{"other response", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{UID: "x", Allowed: true}
		}, nil, `500 Internal error occurred: failed calling webhook "v.example.com": received invalid webhook response: expected response.uid=…`},
		{"patch", label("a", "b"), nil, `500 Internal error occurred: failed calling webhook "v.example.com": received invalid webhook response: validating webhook may not return response.patch`},
		{"other authority", allow, func(h *hooks, hook *registrationv1.ValidatingWebhook) {
			other := informertest.NewServer(informertest.Options{InMemory: true, Auth: &informertest.Auth{}})
			defer other.Close()
			hook.ClientConfig.CABundle = other.Config().CAData
		}, `500 Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: Post…`},
		{"service", allow, func(h *hooks, hook *registrationv1.ValidatingWebhook) { hook.ClientConfig.URL = nil },
			`500 Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: the clientConfig has no url…`},
		{"conditions", allow, func(h *hooks, hook *registrationv1.ValidatingWebhook) {
			hook.MatchConditions = []registrationv1.MatchCondition{{Name: "c", Expression: "true"}}
		}, `500 Internal error occurred: webhook "v.example.com" has matchConditions, and informertest.Options.MatchConditions is not set`},
		{"conditions and ignored", nil, func(h *hooks, hook *registrationv1.ValidatingWebhook) {
			hook.MatchConditions, hook.FailurePolicy = []registrationv1.MatchCondition{{Name: "c", Expression: "true"}}, &ignore
		}, `500 Internal error occurred: webhook "v.example.com" has matchConditions, and informertest.Options.MatchConditions is not set`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHooks(t)
			h.validating("v", c.answer, func(hook *registrationv1.ValidatingWebhook) {
				if c.change != nil {
					c.change(h, hook)
				}
			})
			got := answerOf(h.create("a", metav1.CreateOptions{}))
			if prefix, some := strings.CutSuffix(c.want, "…"); got != c.want && !(some && strings.HasPrefix(got, prefix)) {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if _, stored := h.pods.Get(informer.Key{Namespace: "default", Name: "a"}); stored != (c.want == "") {
				t.Errorf("stored: %v", stored)
			}
		})
	}
}

func TestWebhooks_AreSelected(t *testing.T) {
	selector := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	namespaced, cluster := registrationv1.NamespacedScope, registrationv1.ClusterScope
	for name, c := range map[string]struct {
		change func(*registrationv1.ValidatingWebhook)
		asked  bool
	}{
		"all":               {func(*registrationv1.ValidatingWebhook) {}, true},
		"other resource":    {func(h *registrationv1.ValidatingWebhook) { h.Rules[0].Resources = []string{"nodes"} }, false},
		"subresource":       {func(h *registrationv1.ValidatingWebhook) { h.Rules[0].Resources = []string{"pods/status"} }, false},
		"with subresources": {func(h *registrationv1.ValidatingWebhook) { h.Rules = anyOf(podsAndMore) }, true},
		"other group":       {func(h *registrationv1.ValidatingWebhook) { h.Rules[0].APIGroups = []string{"apps"} }, false},
		"other version":     {func(h *registrationv1.ValidatingWebhook) { h.Rules[0].APIVersions = []string{"v2"} }, false},
		"other operation": {func(h *registrationv1.ValidatingWebhook) {
			h.Rules[0].Operations = []registrationv1.OperationType{registrationv1.Update}
		}, false},
		"namespaced":      {func(h *registrationv1.ValidatingWebhook) { h.Rules[0].Scope = &namespaced }, true},
		"cluster-scoped":  {func(h *registrationv1.ValidatingWebhook) { h.Rules[0].Scope = &cluster }, false},
		"labels":          {func(h *registrationv1.ValidatingWebhook) { h.ObjectSelector = selector("app", "a") }, true},
		"other labels":    {func(h *registrationv1.ValidatingWebhook) { h.ObjectSelector = selector("app", "b") }, false},
		"namespace":       {func(h *registrationv1.ValidatingWebhook) { h.NamespaceSelector = selector("team", "x") }, true},
		"other namespace": {func(h *registrationv1.ValidatingWebhook) { h.NamespaceSelector = selector("team", "y") }, false},
		"namespace by its name": {func(h *registrationv1.ValidatingWebhook) {
			h.NamespaceSelector = selector("kubernetes.io/metadata.name", "default")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			_, err := informertest.Register[*corev1.Namespace](h.server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), ClusterScoped: true}).
				Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "x"}}})
			must(t, err)
			h.validating("v", allow, c.change)
			must(t, h.create("a", metav1.CreateOptions{}))
			if asked := len(h.told()) == 1; asked != c.asked {
				t.Errorf("asked: %v", asked)
			}
		})
	}
}

func TestWebhooks_DryRunsNeedThatThereAreNoSideEffects(t *testing.T) {
	h := newHooks(t)
	h.validating("v", allow, func(hook *registrationv1.ValidatingWebhook) { hook.SideEffects = nil })
	err := h.create("a", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	wantAnswer(t, "a dry run", err, `400 admission webhook "v.example.com" does not support dry run`)
	must(t, h.create("a", metav1.CreateOptions{}))
}

func TestWebhooks_AreCalledAgainIfNeeded(t *testing.T) {
	h := newHooks(t)
	h.mutating("a", allow, func(hook *registrationv1.MutatingWebhook) { hook.ReinvocationPolicy = &ifNeeded })
	h.mutating("b", allow)
	h.mutating("c", label("by", "c"), func(hook *registrationv1.MutatingWebhook) { hook.ReinvocationPolicy = &ifNeeded })
	must(t, h.create("x", metav1.CreateOptions{}))
	h.wantTold("a change by the last", "/a CREATE pods x", "/b CREATE pods x", "/c CREATE pods x", "/a CREATE pods x")
}

// A webhook may call the server, also about the object that is being written. The write then begins again.
func TestWebhooks_MayCallTheServer(t *testing.T) {
	h := newHooks(t)
	must(t, h.create("a", metav1.CreateOptions{}))
	calls := 0
	h.validating("v", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if calls++; calls == 1 {
			pod, _ := h.pods.Get(informer.Key{Namespace: "default", Name: "a"})
			pod = pod.DeepCopy()
			pod.Annotations = map[string]string{"by": "webhook"}
			if _, err := h.pods.Update(pod); err != nil {
				t.Error(err)
			}
		}
		_, err := h.clients.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{})
		return &admissionv1.AdmissionResponse{Allowed: err == nil}
	})
	_, err := h.clients.CoreV1().Pods("default").Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"client"}}}`), metav1.PatchOptions{})
	must(t, err)
	pod, _ := h.pods.Get(informer.Key{Namespace: "default", Name: "a"})
	if pod.Labels["by"] != "client" || pod.Annotations["by"] != "webhook" || calls != 2 {
		t.Errorf("after %d calls: %+v", calls, pod)
	}
}

// A webhook that refuses everything can be removed.
func TestWebhooks_AreNotAskedAboutThemselves(t *testing.T) {
	h := newHooks(t)
	everything := registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}
	h.validating("v", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{}
	}, func(hook *registrationv1.ValidatingWebhook) { hook.Rules = anyOf(everything) })
	if err := h.create("a", metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("got %v", err)
	}
	must(t, h.clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "v", metav1.DeleteOptions{}))
	must(t, h.create("a", metav1.CreateOptions{}))
}

// A webhook whose rules name another version gets the objects in that one. The client's own version comes first, and
// with matchPolicy Exact only that one counts.
func TestWebhooks_GetTheVersionOfTheirRules(t *testing.T) {
	h := newHooks(t)
	resource := func(version string) informertest.Resource {
		return informertest.Resource{Kind: "Widget", GroupVersionResource: schema.GroupVersionResource{
			Group: "example.com", Version: version, Resource: "widgets"}}
	}
	v1 := informertest.Register[*unstructured.Unstructured](h.server, resource("v1"))
	second := resource("v2")
	second.ObjectsOf = v1
	informertest.Register[*unstructured.Unstructured](h.server, second)
	var seen []string
	see := func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		var obj, old unstructured.Unstructured
		json.Unmarshal(r.Object.Raw, &obj.Object)
		json.Unmarshal(r.OldObject.Raw, &old.Object)
		seen = append(seen, fmt.Sprint(r.Operation, " ", r.Kind.Version, " ", r.Resource.Version, " ", r.RequestKind.Version, " ",
			r.RequestResource.Version, " ", obj.GetAPIVersion(), " ", old.GetAPIVersion()))
		return allow(r)
	}
	widgets := func(versions ...string) []registrationv1.RuleWithOperations {
		return anyOf(registrationv1.Rule{APIGroups: []string{"example.com"}, APIVersions: versions, Resources: []string{"widgets"}})
	}
	h.mutating("m", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		see(r)
		if r.Operation == admissionv1.Delete {
			return allow(r)
		}
		patch := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, PatchType: &patch,
			Patch: []byte(`[{"op":"add","path":"/spec","value":{"by":"m"}}]`)}
	}, func(w *registrationv1.MutatingWebhook) { w.Rules = widgets("v1") })
	h.validating("both", see, func(w *registrationv1.ValidatingWebhook) { w.Rules = widgets("v1", "v2") })
	exact := registrationv1.Exact
	h.validating("exact", see, func(w *registrationv1.ValidatingWebhook) { w.Rules, w.MatchPolicy = widgets("v1"), &exact })

	clients, err := dynamic.NewForConfig(h.server.Config())
	must(t, err)
	client := clients.Resource(second.GroupVersionResource).Namespace("default")
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v2", "kind": "Widget",
		"metadata": map[string]any{"name": "w"}}}
	stored, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
	must(t, err)
	if writer, _, _ := unstructured.NestedString(stored.Object, "spec", "by"); writer != "m" || stored.GetAPIVersion() != "example.com/v2" {
		t.Errorf("stored %v", stored)
	}
	must(t, client.Delete(t.Context(), "w", metav1.DeleteOptions{}))
	want := []string{
		"CREATE v1 v1 v2 v2 example.com/v1 ",
		"CREATE v2 v2 v2 v2 example.com/v2 ",
		"DELETE v1 v1 v2 v2  example.com/v1",
		"DELETE v2 v2 v2 v2  example.com/v2",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the webhooks saw\n got %q\nwant %q", seen, want)
	}
}
