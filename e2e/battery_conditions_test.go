package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// conditionalHooks are webhooks with matchConditions; see hookConfiguration.
const conditionalHooks = `
name {"matchConditions":[{"name":"a","expression":"object.metadata.name == 'name'"}]}
another-name {"matchConditions":[{"name":"a","expression":"object.metadata.name == 'name'"}]}
both {"matchConditions":[{"name":"a","expression":"true"},{"name":"b","expression":"request.operation == 'CREATE'"}]}
one {"matchConditions":[{"name":"a","expression":"true"},{"name":"b","expression":"request.operation == 'UPDATE'"}]}
fails {"matchConditions":[{"name":"a","expression":"object.data.nosuch == 'x'"}]}
ignored {"failurePolicy":"Ignore","matchConditions":[{"name":"a","expression":"object.data.nosuch == 'x'"}]}
fails-and-false {"matchConditions":[{"name":"a","expression":"object.data.nosuch == 'x'"},{"name":"b","expression":"false"}]}
user {"matchConditions":[{"name":"a","expression":"!('system:nodes' in request.userInfo.groups)"}]}
old {"matchConditions":[{"name":"a","expression":"oldObject == null"}]}
resource {"matchConditions":[{"name":"a","expression":"request.resource.resource == 'secrets'"}]}
dry {"matchConditions":[{"name":"a","expression":"!request.dryRun"}]}
label {"matchConditions":[{"name":"a","expression":"has(object.metadata.labels) && object.metadata.labels['case'].startsWith('la')"}]}
ready {"objectSelector":{"matchLabels":{"ready":"x"}}}
`

// conditionScript writes objects that these webhooks may be asked about.
const conditionScript = `
ready: POST /api/v1/namespaces/{namespace}/configmaps?dryRun=All show=metadata.name until=asked
{"metadata":{"name":"ready","labels":{"ready":"x"}}}

{each}

updated, another operation: PATCH /api/v1/namespaces/{namespace}/configmaps/one as=merge show=metadata.name
{"data":{"k":"w"}}

updated, an old object: PATCH /api/v1/namespaces/{namespace}/configmaps/old as=merge show=metadata.name
{"data":{"k":"w"}}

a dry run: PATCH /api/v1/namespaces/{namespace}/configmaps/dry?dryRun=All as=merge show=metadata.name
{"data":{"k":"w"}}

no dry run: PATCH /api/v1/namespaces/{namespace}/configmaps/dry as=merge show=metadata.name
{"data":{"k":"w"}}

deleted: DELETE /api/v1/namespaces/{namespace}/configmaps/name show=status

does not compile: POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All show=errors
{"metadata":{"name":"x-{namespace}"},"webhooks":[{"name":"a.example.com","clientConfig":{"url":"{hooks}/a"},"admissionReviewVersions":["v1"],"sideEffects":"None","matchConditions":[{"name":"a","expression":"nosuch"}]}]}
`

// TestSameMatchConditionsAsKubeAPIServer compares for which writes the matchConditions of webhooks let them be asked.
// Guarantees: W10
func TestSameMatchConditionsAsKubeAPIServer(t *testing.T) {
	ours, theirs := newTalkersOf(t, startExample(t))
	hooks := newHookServer(t)
	hooks.attach(ours, "ours")
	hooks.attach(theirs, "theirs")
	const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	for _, k := range []*talker{ours, theirs} {
		told := k.meanwhile
		k.meanwhile = func() (names []string) {
			for _, asked := range told() {
				name, _, _ := strings.Cut(asked, "?")
				names = append(names, name)
			}
			return names
		}
		answer := k.say(scripted{method: http.MethodPost, path: path, as: "json",
			body: hookConfiguration(t, "c-{namespace}", conditionalHooks)})
		if !strings.HasPrefix(answer, "201") {
			t.Fatal(answer)
		}
		t.Cleanup(func() { k.discard(path + "/c-{namespace}") })
	}
	var cases strings.Builder
	for line := range strings.Lines(strings.TrimSpace(conditionalHooks)) {
		name, _, _ := strings.Cut(line, " ")
		cases.WriteString("case " + name + ": POST /api/v1/namespaces/{namespace}/configmaps show=metadata.name\n" +
			`{"metadata":{"name":"` + name + `","labels":{"case":"` + name + `"}},"data":{"k":"v"}}` + "\n\n")
	}
	compare(t, ours, theirs, strings.ReplaceAll(conditionScript, "{each}", strings.TrimSpace(cases.String())), map[string]string{
		"does not compile": "informertest does not compile conditions before it evaluates them",
	})
}
