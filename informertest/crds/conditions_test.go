package crds_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/crds"
)

// conditions returns conditions with the given expressions.
func conditions(expressions ...string) (all []registrationv1.MatchCondition) {
	for _, expression := range expressions {
		all = append(all, registrationv1.MatchCondition{Name: "c", Expression: expression})
	}
	return all
}

func TestMatchConditions(t *testing.T) {
	evaluate := crds.NewMatchConditions()
	request := &admissionv1.AdmissionRequest{
		Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: "ns",
		Name:      "a",
		Operation: admissionv1.Update,
		UserInfo:  authenticationv1.UserInfo{Username: "alice", Groups: []string{"g"}},
		Options:   runtime.RawExtension{Raw: []byte(`{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"me"}`)},
		Object:    runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"n"}}`)},
	}
	for _, c := range []struct {
		expressions []string
		want        bool
		err         string
	}{
		{[]string{"true"}, true, ""},
		{[]string{"true", "false"}, false, ""},
		{[]string{"object.spec.nodeName == 'n'"}, true, ""},
		{[]string{"object.spec.nodeName == 'm'"}, false, ""},
		{[]string{"oldObject == null"}, true, ""},
		{[]string{"request.userInfo.username == 'alice' && 'g' in request.userInfo.groups"}, true, ""},
		{[]string{"request.operation == 'UPDATE' && request.resource.resource == 'pods' && request.namespace == 'ns'"}, true, ""},
		{[]string{"request.options.fieldManager == 'me' && request.options.kind == 'UpdateOptions'"}, true, ""},
		{[]string{"object.spec.nosuch == 'n'"}, false, "no such key: nosuch"},
		{[]string{"object.spec.nosuch == 'n'", "false"}, false, ""}, // as in kube-apiserver: a false condition decides
		{[]string{"this is no CEL"}, false, "Syntax error"},
		{[]string{"authorizer.group('').resource('pods').check('get').allowed()"}, false, "undeclared reference to 'authorizer'"},
	} {
		for range 2 { // the second time, they are compiled
			got, err := evaluate(conditions(c.expressions...), request)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v, %v, want %v, %q", c.expressions, got, err, c.want, c.err)
			}
		}
	}
}

// The webhook cannot be reached, so a write fails if the conditions are met.
func TestWebhooksAreCalledIfTheirConditionsAreMet(t *testing.T) {
	server := informertest.NewServer(informertest.Options{MatchConditions: crds.NewMatchConditions()})
	defer server.Close()
	configMaps := informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")}
	informertest.Register[*corev1.ConfigMap](server, configMaps)
	hooks := informertest.Register[*registrationv1.ValidatingWebhookConfiguration](server, informertest.Resource{
		GroupVersionResource: registrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"),
		ClusterScoped:        true})
	nowhere := "https://127.0.0.1:0/"
	_, err := hooks.Create(&registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "v"},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name:         "v.example.com",
			ClientConfig: registrationv1.WebhookClientConfig{URL: &nowhere},
			Rules: []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{registrationv1.OperationAll},
				Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"*"}}}},
			MatchConditions: conditions("object.metadata.name == 'asked'"),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"asked": "failed calling webhook", "other": ""} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := clients.CoreV1().ConfigMaps("default").Create(t.Context(), obj, metav1.CreateOptions{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
