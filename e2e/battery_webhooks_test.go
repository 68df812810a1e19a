package e2e

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// hookAnswers are the JSON of the responses of webhooks, without the uid, by name. A webhook without one allows everything.
var hookAnswers = map[string]string{
	"deny":         `{"allowed":false}`,
	"deny-message": `{"allowed":false,"status":{"message":"not today"}}`,
	"deny-reason":  `{"allowed":false,"status":{"reason":"Invalid"}}`,
	"deny-code":    `{"allowed":false,"status":{"code":422,"reason":"Invalid","message":"not so","details":{"name":"n","causes":[{"reason":"FieldValueInvalid","message":"m","field":"f"}]}}}`,
	"deny-success": `{"allowed":false,"status":{"status":"Success","code":200,"message":"well"}}`,
	"deny-warning": `{"allowed":false,"warnings":["beware"],"status":{"message":"not today"}}`,
	"warn":         `{"allowed":true,"warnings":["beware","of this"],"auditAnnotations":{"a":"b"}}`,
	"other-uid":    `{"allowed":true,"uid":"x"}`,
	"v-patch":      `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"add","path":"/data/v","value":"1"}]}`,
	"no-type":      `{"allowed":true,"patch":[{"op":"add","path":"/data/v","value":"1"}]}`,
	"no-patch":     `{"allowed":true,"patchType":"JSONPatch"}`,
	"bad-patch":    `{"allowed":true,"patchType":"JSONPatch","patch":"x"}`,
	"bad-test":     `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"test","path":"/data/k","value":"other"}]}`,
	"bad-path":     `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"remove","path":"/data/none"}]}`,
	"bad-kind":     `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"replace","path":"/data","value":3}]}`,
	"invalid":      `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"add","path":"/data/a b","value":"1"}]}`,
	"rename":       `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"replace","path":"/metadata/name","value":"other"}]}`,
	"first":        `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"add","path":"/data/order","value":"first"}]}`,
	"second":       `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"add","path":"/data/order","value":"second"}]}`,
	"third":        `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"add","path":"/data/order","value":"third"}]}`,
	"m-delete":     `{"allowed":true,"patchType":"JSONPatch","patch":[{"op":"add","path":"/data/order","value":"third"}]}`,
}

// hookServer is a server of webhooks. A path is /SIDE/NAME: who asks, and the name of the answer.
type hookServer struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex // protects asked
	asked map[string][]string
}

func newHookServer(t *testing.T) *hookServer {
	h := &hookServer{t: t, asked: map[string][]string{}}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var content map[string]any
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err == nil {
		err = json.Unmarshal(body, &content)
	}
	if err != nil || review.Request == nil {
		h.t.Errorf("%s: not a review: %s, %v", r.URL, body, err)
		return
	}
	side, name := path.Split(r.URL.Path)
	h.mu.Lock()
	h.asked[side] = append(h.asked[side], fmt.Sprintf("asked %s?%s: %s", name, r.URL.RawQuery, describeReview(content)))
	h.mu.Unlock()
	if name == "broken" {
		http.Error(w, "broken", http.StatusTeapot)
		return
	}
	var response map[string]any
	if err := json.Unmarshal([]byte(cmp.Or(hookAnswers[name], `{"allowed":true}`)), &response); err != nil {
		h.t.Errorf("the answer of %s: %v", name, err)
	}
	if response["uid"] == nil {
		response["uid"] = review.Request.UID
	}
	if patch, ok := response["patch"]; ok {
		response["patch"] = encoded(patch) // in base64
	}
	w.Write(encoded(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

// describeReview returns what is compared of an AdmissionReview.
func describeReview(review map[string]any) string {
	request := review["request"].(map[string]any)
	delete(request, "uid")
	delete(request["userInfo"].(map[string]any), "uid") // only a user with a token has one
	for _, field := range []string{"object", "oldObject"} {
		if obj, ok := request[field].(map[string]any); ok {
			new(talker).neutral(obj)
		}
	}
	return string(encoded(review))
}

// take returns what a side has asked since the last call.
func (h *hookServer) take(side string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked[side]
	delete(h.asked, side)
	return asked
}

// attach makes the answers of a talker contain what its server asks the webhooks meanwhile.
func (h *hookServer) attach(k *talker, name string) {
	side := "/" + name + "/"
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	k.names = append(k.names, "{hooks}", h.URL+strings.TrimSuffix(side, "/"),
		"{authority}", base64.StdEncoding.EncodeToString(authority))
	k.meanwhile = func() []string { return h.take(side) }
}

// hookConfiguration returns the JSON of a configuration with webhooks. Each line has the name of an answer and JSON that is
// added to a webhook for the ConfigMaps in the namespace with that name in the label "case".
func hookConfiguration(t *testing.T, name, lines string) string {
	t.Helper()
	var all []any
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		name, more, _ := strings.Cut(strings.TrimSpace(line), " ")
		webhook := map[string]any{
			"name":                    name + ".example.com",
			"clientConfig":            map[string]any{"url": "{hooks}/" + name, "caBundle": "{authority}"},
			"admissionReviewVersions": []any{"v1"},
			"sideEffects":             "None",
			"namespaceSelector":       map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "{namespace}"}},
			"objectSelector":          map[string]any{"matchLabels": map[string]any{"case": name}},
			"rules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"*"},
				"resources": []any{"configmaps"}}},
		}
		if err := json.Unmarshal([]byte(cmp.Or(more, "{}")), &webhook); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, webhook)
	}
	return string(encoded(map[string]any{"metadata": map[string]any{"name": name}, "webhooks": all}))
}

// The webhooks of the battery. The last of each kind is called for every ConfigMap with the label "ready".
const (
	mutatingHooks = `
no-type
no-patch
bad-patch
bad-test
bad-path
bad-kind
invalid
rename
m-delete
m-refused {"clientConfig":{"url":"https://127.0.0.1:1/"},"failurePolicy":"Fail"}
m-ignored {"clientConfig":{"url":"https://127.0.0.1:1/"},"failurePolicy":"Ignore"}
second {"reinvocationPolicy":"IfNeeded","objectSelector":{"matchLabels":{"order":"x"}}}
third {"objectSelector":{"matchLabels":{"order":"x"}}}
m-ready {"objectSelector":{"matchLabels":{"ready":"x"}}}
`
	earlierHooks = `
first {"objectSelector":{"matchLabels":{"order":"x"}}}
`
	validatingHooks = `
allow
deny
deny-message
deny-reason
deny-code
deny-success
deny-warning
warn
broken
broken-ignored {"clientConfig":{"url":"{hooks}/broken","caBundle":"{authority}"},"failurePolicy":"Ignore"}
other-uid
v-patch
refused {"clientConfig":{"url":"https://127.0.0.1:1/x"},"failurePolicy":"Fail","timeoutSeconds":3}
ignored {"clientConfig":{"url":"https://127.0.0.1:1/x"},"failurePolicy":"Ignore"}
effects {"sideEffects":"NoneOnDryRun"}
labels {"objectSelector":{"matchExpressions":[{"key":"either","operator":"In","values":["a","b"]}]}}
namespaces {"objectSelector":{},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"{namespace}","no":"such"}}}
creates {"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],"resources":["*"]}]}
deletes {"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["DELETE"],"resources":["*/*"],"scope":"Namespaced"}]}
cluster {"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"],"scope":"Cluster"}]}
status {"rules":[{"apiGroups":["policy"],"apiVersions":["v1"],"operations":["*"],"resources":["poddisruptionbudgets/status"],"scope":"*"}]}
exact {"matchPolicy":"Exact","rules":[{"apiGroups":["autoscaling"],"apiVersions":["v1"],"operations":["*"],"resources":["horizontalpodautoscalers"]}]}
equivalent {"rules":[{"apiGroups":["autoscaling"],"apiVersions":["v1"],"operations":["*"],"resources":["horizontalpodautoscalers"]}]}
namespace {"namespaceSelector":{"matchLabels":{"of":"{namespace}"}},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["namespaces"],"scope":"Cluster"}]}
v-ready {"objectSelector":{"matchLabels":{"ready":"x"}}}
`
)

// webhookScript writes objects that webhooks are asked about.
const webhookScript = `
ready, mutating: POST /api/v1/namespaces/{namespace}/configmaps?dryRun=All show=metadata.name until=m-ready
{"metadata":{"name":"ready","labels":{"ready":"x"}},"data":{"k":"v"}}

ready, validating: POST /api/v1/namespaces/{namespace}/configmaps?dryRun=All show=metadata.name until=v-ready
{"metadata":{"name":"ready","labels":{"ready":"x"}},"data":{"k":"v"}}

ready, both: POST /api/v1/namespaces/{namespace}/configmaps?fieldManager=me&fieldValidation=Strict
{"metadata":{"name":"ready","labels":{"ready":"x"}},"data":{"k":"v"}}

another one: POST /api/v1/namespaces/{namespace}/configmaps
{"metadata":{"name":"another"},"data":{"k":"v"}}

updated: PUT /api/v1/namespaces/{namespace}/configmaps/ready?fieldManager=me
{"metadata":{"name":"ready","labels":{"ready":"x"}},"data":{"k":"w"}}

updated without the label: PUT /api/v1/namespaces/{namespace}/configmaps/ready?fieldManager=me
{"metadata":{"name":"ready"},"data":{"k":"w"}}

updated with the label: PATCH /api/v1/namespaces/{namespace}/configmaps/ready?fieldManager=me as=merge
{"metadata":{"labels":{"ready":"x"}}}

updated without a change: PATCH /api/v1/namespaces/{namespace}/configmaps/ready?fieldManager=me as=merge
{"metadata":{"labels":{"ready":"x"}}}

patched, dry: PATCH /api/v1/namespaces/{namespace}/configmaps/ready?dryRun=All&fieldManager=you as=patch
[{"op":"add","path":"/data/p","value":"1"}]

applied: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=you&force=true as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied","labels":{"ready":"x"}},"data":{"k":"v"}}

applied again: PATCH /api/v1/namespaces/{namespace}/configmaps/applied?fieldManager=you&force=true as=apply
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied","labels":{"ready":"x"}},"data":{"k":"w"}}

a missing one updated: PUT /api/v1/namespaces/{namespace}/configmaps/none
{"metadata":{"name":"none","labels":{"ready":"x"}},"data":{"k":"w"}}

a missing one deleted: DELETE /api/v1/namespaces/{namespace}/configmaps/none

deleted, dry: DELETE /api/v1/namespaces/{namespace}/configmaps/ready show=status
{"dryRun":["All"],"gracePeriodSeconds":3}

deleted: DELETE /api/v1/namespaces/{namespace}/configmaps/ready?propagationPolicy=Background show=status

deleted as a collection: DELETE /api/v1/namespaces/{namespace}/configmaps?labelSelector=ready show=kind

{each}

the order: POST /api/v1/namespaces/{namespace}/configmaps
{"metadata":{"name":"order","labels":{"order":"x"}},"data":{"k":"v"}}

a mutated deletion, created: POST /api/v1/namespaces/{namespace}/configmaps show=data
{"metadata":{"name":"m-deletion","labels":{"case":"m-delete"}},"data":{"k":"v"}}

a mutated deletion: DELETE /api/v1/namespaces/{namespace}/configmaps/m-deletion

effects, dry: POST /api/v1/namespaces/{namespace}/configmaps?dryRun=All show=metadata.name
{"metadata":{"name":"dry","labels":{"case":"effects"}}}

either label: POST /api/v1/namespaces/{namespace}/configmaps show=metadata.name
{"metadata":{"name":"either","labels":{"either":"b"}}}

neither label: POST /api/v1/namespaces/{namespace}/configmaps show=metadata.name
{"metadata":{"name":"neither","labels":{"either":"c"}}}

create a creation: POST /api/v1/namespaces/{namespace}/secrets show=metadata.name
{"metadata":{"name":"c","labels":{"case":"creates"}}}

delete a creation: DELETE /api/v1/namespaces/{namespace}/secrets/c show=status

create a deletion: POST /api/v1/namespaces/{namespace}/secrets show=metadata.name
{"metadata":{"name":"d","labels":{"case":"deletes"}},"type":"Opaque"}

delete a deletion: DELETE /api/v1/namespaces/{namespace}/secrets/d show=status

status, created: POST /apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets show=metadata.name
{"metadata":{"name":"status","labels":{"case":"status"}},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}

status, written: PATCH /apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/status/status as=merge show=status
{"status":{"currentHealthy":1}}

exact version: POST /apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers show=metadata.name
{"metadata":{"name":"exact","labels":{"case":"exact"}},"spec":{"maxReplicas":3,"minReplicas":1,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}

equivalent version: POST /apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers show=metadata.name
{"metadata":{"name":"equivalent","labels":{"case":"equivalent"}},"spec":{"maxReplicas":3,"minReplicas":1,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}

namespace: POST /api/v1/namespaces
{"metadata":{"name":"{namespace}-x","labels":{"case":"namespace","of":"{namespace}"}}}

namespace without the label: POST /api/v1/namespaces show=metadata.name
{"metadata":{"name":"{namespace}-y","labels":{"case":"namespace"}}}

scope Cluster: POST /api/v1/namespaces/{namespace}/configmaps show=metadata.name
{"metadata":{"name":"cluster","labels":{"case":"cluster"}}}

no configurations, mutating: DELETE /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace} show=status

no configurations, earlier: DELETE /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/a-{namespace} show=status

no configurations, validating: DELETE /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{namespace} show=status
`

// webhookCases are the webhooks that are asked about one creation each.
var webhookCases = strings.Fields(`allow deny deny-message deny-reason deny-code deny-success deny-warning warn broken broken-ignored
	other-uid v-patch refused ignored effects no-type no-patch bad-patch bad-test bad-path bad-kind invalid rename m-refused m-ignored`)

// TestSameWebhookCallsAsKubeAPIServer compares which webhooks are asked about which writes, what they are asked, and what their
// answers do.
// Guarantees: W10
func TestSameWebhookCallsAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{Auth: &informertest.Auth{}, Controllers: informertest.Controllers{Namespaces: true}})
	defer inProcess.Close()
	ours, theirs := newTalkers(t, inProcess)
	hooks := newHookServer(t)
	hooks.attach(ours, "ours")
	hooks.attach(theirs, "theirs")
	const api = "/apis/admissionregistration.k8s.io/v1/"
	for _, k := range []*talker{ours, theirs} {
		for _, c := range []struct{ resource, name, lines string }{
			{"mutatingwebhookconfigurations", "a-{namespace}", earlierHooks},
			{"mutatingwebhookconfigurations", "{namespace}", mutatingHooks},
			{"validatingwebhookconfigurations", "{namespace}", validatingHooks},
		} {
			answer := k.say(scripted{method: http.MethodPost, path: api + c.resource, as: "json", body: hookConfiguration(t, c.name, c.lines)})
			if !strings.HasPrefix(answer, "201") {
				t.Fatal(answer)
			}
			t.Cleanup(func() { k.discard(api + c.resource + "/" + c.name) })
		}
	}
	var cases strings.Builder
	for _, name := range webhookCases {
		show := ""
		if name == "other-uid" { // the text has the uid of the request
			show = " show=errors"
		}
		fmt.Fprintf(&cases, "case %s: POST /api/v1/namespaces/{namespace}/configmaps%s\n"+
			`{"metadata":{"name":%[1]q,"labels":{"case":%[1]q}},"data":{"k":"v"}}`+"\n\n", name, show)
	}
	script := strings.ReplaceAll(webhookScript, "{each}", strings.TrimSpace(cases.String()))
	compare(t, ours, theirs, script, map[string]string{
		"case bad-path":      "500 too, but the text of a JSON patch that does not apply is informertest's own",
		"namespace":          "informertest gives a Namespace a generation",
		"equivalent version": "informertest serves HorizontalPodAutoscalers of autoscaling/v2 only, and converts no built-in kind",
	})
}
