package generated

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	shopac "github.com/typedinformer/informer/codegen/testdata/apply/out/applyconfiguration/shop/v1"
	crdac "github.com/typedinformer/informer/codegen/testdata/crdapply/out/applyconfiguration/shop/v1"
)

// clients of others accept the configurations.
var _, _ runtime.ApplyConfiguration = &shopac.WidgetApplyConfiguration{}, &crdac.WidgetApplyConfiguration{}

// A configuration has the fields that were set, and no others.
func TestApplyConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		config any
		want   string
	}{
		"nothing": {shopac.Widget("car", "shop"), `{"kind": "Widget", "apiVersion": "shop.example.com/v1",
			"metadata": {"name": "car", "namespace": "shop"}}`},
		"a cluster-scoped object": {shopac.Depot("north").WithLabels("a", "b").WithAnnotations(map[string]string{"a": "b"}),
			`{"kind": "Depot", "apiVersion": "shop.example.com/v1", "metadata": {"name": "north", "annotations": {"a": "b"}}, "tags": ["a", "b"]}`},
		"zero values": {shopac.WidgetSpec().WithName("").WithReplicas(0).WithInner(shopac.Inner()),
			`{"name": "", "replicas": 0, "inner": {}}`},
		"values of each kind": {shopac.WidgetSpec().
			WithColor("red").WithLabels(map[string]string{"a": "b"}).WithLabels(map[string]string{"c": "d"}).WithTags("a").WithTags("b").
			WithInners(shopac.Inner().WithValue("x"), nil).WithPointers(shopac.Inner()).
			WithByName(map[string]shopac.InnerApplyConfiguration{"a": *shopac.Inner().WithMore(shopac.Inner())}).
			WithParts(shopac.PartsPart().WithName("wheel")).
			WithTemplate(corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithNodeName("n"))).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{"a": "b"})).
			WithSize(resource.MustParse("2")).WithResources(corev1.ResourceList{"cpu": resource.MustParse("1")}).
			WithRaw(runtime.RawExtension{Raw: []byte(`[1]`)}).WithAny("any").WithNote("n").
			WithOwn(shopac.Own().WithLabels(map[string]string{"a": "b"}).WithValue("v")),
			`{"color": "red", "labels": {"a": "b", "c": "d"}, "tags": ["a", "b"], "inners": [{"value": "x"}], "pointers": [{}],
			"byName": {"a": {"more": [{}]}}, "parts": [{"name": "wheel"}], "template": {"spec": {"nodeName": "n"}},
			"selector": {"matchLabels": {"a": "b"}}, "size": "2", "resources": {"cpu": "1"}, "raw": [1], "any": "any", "note": "n",
			"own": {"metadata": {"labels": {"a": "b"}}, "value": "v"}}`},
		"of a CRD": {crdac.Widget("car", "shop").WithFinalizers("a", "b").
			WithSpec(crdac.WidgetSpec2().WithFactory("").WithParts(crdac.WidgetSpec2Parts().WithName("wheel").WithCount(0))),
			`{"kind": "Widget", "apiVersion": "shop.example.com/v1", "metadata": {"name": "car", "namespace": "shop", "finalizers": ["a", "b"]},
			"spec": {"factory": "", "parts": [{"name": "wheel", "count": 0}]}}`},
	} {
		text, err := json.Marshal(test.config)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(mustDecode[any](t, test.want), mustDecode[any](t, string(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The client of a kind sends a configuration to the object that it names.
func TestApplyByClient(t *testing.T) {
	var request string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request = r.Method + " " + r.URL.Path + "?" + r.URL.RawQuery + " " + r.Header.Get("Content-Type") + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind": "Widget", "apiVersion": "shop.example.com/v1", "metadata": {"name": "car", "namespace": "shop", "uid": "1", "resourceVersion": "2"}}`)
	}))
	defer server.Close()
	client, err := informer.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	widgets := shopac.NewWidgetClient(client)
	owner := metav1.ApplyOptions{FieldManager: "me"}
	got, err := widgets.Apply(t.Context(), shopac.Widget("car", "shop").WithSpec(shopac.WidgetSpec().WithReplicas(2)), owner)
	if err != nil || got.ResourceVersion != "2" {
		t.Fatal(got, err)
	}
	want := `PATCH /apis/shop.example.com/v1/namespaces/shop/widgets/car?fieldManager=me&force=false application/apply-patch+yaml ` +
		`{"kind":"Widget","apiVersion":"shop.example.com/v1","metadata":{"name":"car","namespace":"shop"},"spec":{"replicas":2}}`
	if diff := cmp.Diff(want, request); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, b := range map[string]*shopac.WidgetApplyConfiguration{"nil": nil, "empty": {}} {
		if _, err := widgets.Apply(t.Context(), b, owner); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
