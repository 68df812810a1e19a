package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/status"
)

// gadget is a custom resource with every kind of field that such types have.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   gadgetSpec   `json:"spec"`
	Status gadgetStatus `json:"status,omitempty"`
}

type gadgetSpec struct {
	GadgetSize `json:",inline"`

	Replicas *int32                `json:"replicas,omitempty"` // defaulted
	Serial   int64                 `json:"serial,omitempty"`
	Ratio    float64               `json:"ratio,omitempty"`
	Digest   []byte                `json:"digest,omitempty"`
	Owner    *gadgetOwner          `json:"owner,omitempty"`
	Labels   map[string]string     `json:"labels,omitempty"`
	Parts    map[string]gadgetPart `json:"parts,omitempty"`
	Steps    []gadgetPart          `json:"steps,omitempty"`

	Capacity resource.Quantity   `json:"capacity,omitempty"`
	Reserve  *resource.Quantity  `json:"reserve,omitempty"`
	Limits   corev1.ResourceList `json:"limits,omitempty"`
	Port     intstr.IntOrString  `json:"port,omitempty"`
	Surge    *intstr.IntOrString `json:"surge,omitempty"`
	Since    metav1.Time         `json:"since,omitempty"`
	Until    *metav1.Time        `json:"until,omitempty"`
	Precise  *metav1.MicroTime   `json:"precise,omitempty"`
	Timeout  *metav1.Duration    `json:"timeout,omitempty"`

	Template runtime.RawExtension `json:"template,omitempty"`
	Raw      *rawJSON             `json:"raw,omitempty"`
	Free     map[string]any       `json:"free,omitempty"`
	Any      any                  `json:"any,omitempty"`

	Containers []corev1.Container    `json:"containers,omitempty"`
	Selector   *metav1.LabelSelector `json:"selector,omitempty"`
}

type GadgetSize struct {
	Width  int32 `json:"width,omitempty"`
	Height int32 `json:"height,omitempty"`
}

type gadgetOwner struct {
	Name string       `json:"name"`
	Mode string       `json:"mode,omitempty"` // defaulted
	Next *gadgetOwner `json:"next,omitempty"`
}

type gadgetPart struct {
	Name   string            `json:"name,omitempty"`
	Weight resource.Quantity `json:"weight,omitempty"`
	Tags   []string          `json:"tags,omitempty"`
}

type gadgetStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// rawJSON is like apiextensionsv1.JSON.
type rawJSON struct{ Raw []byte }

func (j *rawJSON) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && string(raw) != "null" {
		j.Raw = append([]byte(nil), raw...)
	}
	return nil
}

func (j rawJSON) MarshalJSON() ([]byte, error) { return j.Raw, nil }

// gadgetSchema declares the spec. The status is a field whose content is preserved, whatever it is.
const gadgetSchema = `
type: object
properties:
  spec:
    type: object
    properties:
      width: {type: integer, format: int32}
      height: {type: integer, format: int32}
      replicas: {type: integer, format: int32, default: 3}
      serial: {type: integer, format: int64}
      ratio: {type: number}
      digest: {type: string, format: byte}
      owner:
        type: object
        required: [name]
        properties:
          name: {type: string}
          mode: {type: string, default: automatic}
          next: {type: object, x-kubernetes-preserve-unknown-fields: true}
      labels: {type: object, additionalProperties: {type: string}}
      parts:
        type: object
        additionalProperties: &part
          type: object
          properties:
            name: {type: string}
            weight: &quantity {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true, pattern: '^[0-9.]+[a-zA-Z]*$'}
            tags: {type: array, items: {type: string}}
      steps:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          <<: *part
          required: [name]
      capacity: *quantity
      reserve: *quantity
      limits: {type: object, additionalProperties: *quantity}
      port: {x-kubernetes-int-or-string: true}
      surge: {x-kubernetes-int-or-string: true}
      since: {type: string, format: date-time}
      until: {type: string, format: date-time, nullable: true}
      precise: {type: string, format: date-time}
      timeout: {type: string}
      template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
      raw: {x-kubernetes-preserve-unknown-fields: true}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
      any: {x-kubernetes-preserve-unknown-fields: true}
      containers: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
      selector: {type: object, x-kubernetes-preserve-unknown-fields: true}
  status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// gadgetSpecs are the written specs: some minimal, some as unusual as the schema allows.
var gadgetSpecs = []string{
	`{}`,
	`{
	  "width": 3, "height": -4, "replicas": 0, "serial": 9007199254740993, "ratio": 0.1, "digest": "aGVsbG8gPz8/",
	  "owner": {"name": "a", "next": {"name": "b", "mode": "manual", "next": {"name": "c"}}},
	  "labels": {"plain": "x", "escapes": "<a href=\"b\">&amp;\\\n\u2028\u0001</a>", "unicode": "héllo 🎉", "empty": ""},
	  "parts": {"one": {"weight": "1500m", "tags": ["a", "b"]}, "two": {"name": "2", "weight": 2, "tags": []}, "none": {}},
	  "steps": [{"name": "first", "weight": "1Gi"}, {"name": "second", "tags": [""]}],
	  "capacity": "0.5", "reserve": "12345678901234567890", "limits": {"cpu": "100m", "memory": "1.5Gi", "example.com/gpu": 2},
	  "port": 8080, "surge": "25%",
	  "since": "2026-01-15T09:00:00Z", "until": "2026-01-15T10:00:00+02:00", "precise": "2026-01-15T09:00:00.123456Z", "timeout": "1h2m3.5s",
	  "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "t"}, "spec": {"z": 1, "a": [1, 2.5, null, "<&>"]}},
	  "raw": [1, "two", {"three": 3.25}],
	  "free": {"integer": 42, "large": 9007199254740993, "float": 2.5, "exponent": 1e3, "whole": 7.0, "bool": true, "null": null, "list": [1, [2, {"x": 3}]], "map": {"y": {"z": -1}}, "empty": {}},
	  "any": [{"n": 1}, 2, "three", false],
	  "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {"httpGet": {"port": "http"}}}],
	  "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
	}`,
	`{"capacity": 1, "port": "http", "surge": 1, "until": null, "raw": "text", "any": 7, "labels": {}, "parts": {}, "steps": [], "free": {}, "timeout": "0s"}`,
	`{"reserve": "0", "raw": 12345678901234567, "any": {"deep": {"er": [{"s": 1}]}}, "template": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}, "ratio": 3}`,
	`{"raw": null, "any": 1.5, "ratio": 1e-7, "serial": -1, "free": {"null": null}}`,
}

// gadgets is a custom resource that only one test uses.
type gadgets struct {
	*testing.T
	resource  schema.GroupVersionResource
	namespace string // empty for cluster scope
	client    dynamic.ResourceInterface
}

func installGadgets(t *testing.T, scope string) gadgets {
	t.Helper()
	namespace := newNamespace(t)
	g := gadgets{T: t, resource: schema.GroupVersionResource{Group: namespace + ".example.com", Version: "v1", Resource: "gadgets"}}
	crd := cluster.NewCRD(g.resource, "Gadget")
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(gadgetSchema), &spec); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version := versions[0].(map[string]any)
	version["schema"] = map[string]any{"openAPIV3Schema": spec}
	version["subresources"] = map[string]any{"status": map[string]any{}}
	crd.Object["spec"].(map[string]any)["versions"] = versions
	crd.Object["spec"].(map[string]any)["scope"] = scope
	if err := cluster.InstallCRD(within(t, patience), server.Config(), crd); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	g.client = client.Resource(g.resource)
	if scope == "Namespaced" {
		g.namespace = namespace
		g.client = client.Resource(g.resource).Namespace(namespace)
	}
	return g
}

// convert converts an object like client-go.
func (g gadgets) convert(obj *unstructured.Unstructured, err error) *gadget {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
	converted := &gadget{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, converted); err != nil {
		g.Fatal(err)
	}
	return bare(converted)
}

func (g gadgets) create(name, spec string) *gadget {
	g.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": g.parse(spec)}}
	obj.SetAPIVersion(g.resource.GroupVersion().String())
	obj.SetKind("Gadget")
	obj.SetName(name)
	obj.SetFinalizers([]string{"example.com/hold"})
	return g.convert(g.client.Create(g.Context(), obj, metav1.CreateOptions{}))
}

// parse decodes like client-go: whole numbers become int64.
func (g gadgets) parse(text string) map[string]any {
	g.Helper()
	var obj unstructured.Unstructured
	if err := obj.UnmarshalJSON(fmt.Appendf(nil, `{"kind": "Gadget", "value": %s}`, text)); err != nil {
		g.Fatal(err)
	}
	return obj.Object["value"].(map[string]any)
}

// change replaces one field in the present object.
func (g gadgets) change(name string, value any, field ...string) (before, after *gadget) {
	g.Helper()
	obj, err := g.client.Get(g.Context(), name, metav1.GetOptions{})
	before = g.convert(obj, err)
	if err := unstructured.SetNestedField(obj.Object, value, field...); err != nil {
		g.Fatal(err)
	}
	var subresources []string
	if field[0] == "status" {
		subresources = field[:1]
	}
	return before, g.convert(g.client.Update(g.Context(), obj, metav1.UpdateOptions{}, subresources...))
}

func (g gadgets) delete(name string) *gadget {
	g.Helper()
	if err := g.client.Delete(g.Context(), name, metav1.DeleteOptions{}); err != nil {
		g.Fatal(err)
	}
	return g.convert(g.client.Get(g.Context(), name, metav1.GetOptions{}))
}

func (g gadgets) list() []*unstructured.Unstructured {
	g.Helper()
	list, err := g.client.List(g.Context(), metav1.ListOptions{})
	if err != nil {
		g.Fatal(err)
	}
	return sorted(pointers(list.Items))
}

func TestCustomResourceIntoItsGoType(t *testing.T) {
	for _, scope := range []string{"Namespaced", "Cluster"} {
		t.Run(scope, func(t *testing.T) {
			g := installGadgets(t, scope)
			for i, spec := range gadgetSpecs {
				created := g.create(fmt.Sprintf("gadget-%d", i), spec)
				if i == 0 && (created.Spec.Replicas == nil || *created.Spec.Replicas != 3) {
					t.Fatalf("the server set replicas to %v, want its default of 3", created.Spec.Replicas)
				}
			}
			now := metav1.NewTime(time.Now()).UTC().Format(time.RFC3339)
			condition := map[string]any{"type": "Ready", "status": "True", "reason": "Built", "message": "", "lastTransitionTime": now}
			g.change("gadget-1", map[string]any{"observedGeneration": int64(1), "conditions": []any{condition}}, "status")
			forEachMode(t, func(t *testing.T, m mode) {
				g := g
				g.T = t
				config := configOf[*gadget](t, m)
				config.PageSize = 2
				var record requests
				inf := informer.New(newClient(t, m.contentType, &record), informer.Resource{GroupVersionResource: g.resource}, config)
				told := newEvents[*gadget]()
				start(t, inf)
				list := g.list()
				want := make([]*gadget, len(list))
				for i, obj := range list {
					want[i] = g.convert(obj, nil)
				}
				storeEquals(t, inf, want)
				inf.Subscribe(told)
				for _, obj := range want {
					told.want(t, informer.Event[*gadget]{Type: informer.Added, Object: obj, Initial: true})
				}
				for _, r := range record.all() {
					if r.ContentType != runtime.ContentTypeJSON {
						t.Errorf("the server responded with %q", r.ContentType)
					}
				}

				for i, spec := range gadgetSpecs {
					name := fmt.Sprintf("new-%d", i)
					created := g.create(name, spec)
					told.want(t, informer.Event[*gadget]{Type: informer.Added, Object: created})
					for _, change := range []struct {
						value any
						field []string
					}{
						{"23", []string{"spec", "capacity"}},
						{g.parse(`{"changed": [9007199254740993, 0.5]}`), []string{"spec", "free"}},
						{int64(5), []string{"status", "observedGeneration"}},
					} {
						before, after := g.change(name, change.value, change.field...)
						told.want(t, informer.Event[*gadget]{Type: informer.Updated, Old: before, Object: after})
					}
					before, _ := inf.Store().Get(informer.Key{Namespace: g.namespace, Name: name})
					marked := g.delete(name)
					told.want(t, informer.Event[*gadget]{Type: informer.Updated, Old: before, Object: marked})
					g.change(name, nil, "metadata", "finalizers")
					if e := told.next(t); e.Type != informer.Deleted || !e.Final || e.Object.UID != marked.UID || !newer(e.Object, marked) {
						t.Errorf("the handler got %s of %s at %s, final=%v", e.Type, e.Object.Name, e.Object.ResourceVersion, e.Final)
					}
				}
				told.none(t)
				storeEquals(t, inf, want)
			})
		})
	}
}

// The same resource without a Go type.
func TestCustomResourceUnstructuredAndMetadataOnly(t *testing.T) {
	g := installGadgets(t, "Namespaced")
	for i, spec := range gadgetSpecs {
		g.create(fmt.Sprintf("gadget-%d", i), spec)
	}
	follow := func(t *testing.T, m mode) (informer.Resource, *informer.Client, *requests) {
		record := &requests{keepBodies: true}
		return informer.Resource{GroupVersionResource: g.resource}, newClient(t, m.contentType, record), record
	}
	forEachMode(t, func(t *testing.T, m mode) {
		resource, client, _ := follow(t, m)
		config := configOf[*unstructured.Unstructured](t, m)
		inf := informer.New(client, resource, config)
		start(t, inf)
		storeEquals(t, inf, g.list())
	})
	forEachMode(t, func(t *testing.T, m mode) {
		resource, client, record := follow(t, m)
		config := configOf[*metav1.PartialObjectMetadata](t, m)
		inf := informer.New(client, resource, config)
		start(t, inf)
		var want []*metav1.PartialObjectMetadata
		for _, obj := range g.list() {
			meta, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			partial := &metav1.PartialObjectMetadata{}
			if err := json.Unmarshal(meta, partial); err != nil {
				t.Fatal(err)
			}
			want = append(want, bare(partial))
		}
		storeEquals(t, inf, want)
		for _, r := range record.all() {
			if r.ContentType != m.contentType && r.ContentType != m.contentType+";stream=watch" {
				t.Errorf("the server responded with %q, want %s", r.ContentType, m.contentType)
			}
		}
	})
}

// Absence is what discovery shows, not a 404: a version that is switched off while another serves the resource keeps its objects, also
// if both change in one update. When the definition is deleted, the informer deletes what it holds; when it is back, it lists.
//
// Guarantees: R14
func TestVersionOfACustomResourceIsSwitchedOff(t *testing.T) {
	namespace := newNamespace(t)
	v1 := schema.GroupVersionResource{Group: namespace + ".example.com", Version: "v1", Resource: "widgets"}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	// repeat calls f again while its error is one that passes: the server takes over a change of a definition a little later.
	repeat := func(passes func(error) bool, f func() error) {
		t.Helper()
		for ctx := within(t, patience); ; {
			err := f()
			if err == nil {
				return
			}
			if !passes(err) || ctx.Err() != nil {
				t.Fatal(err)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	install := func() {
		t.Helper()
		crd := cluster.NewCRD(v1, "Widget")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		second := runtime.DeepCopyJSON(versions[0].(map[string]any))
		second["name"], second["served"], second["storage"] = "v2", false, false
		crd.Object["spec"].(map[string]any)["versions"] = append(versions, second)
		if err := cluster.InstallCRD(within(t, patience), server.Config(), crd); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(served ...bool) {
		t.Helper()
		repeat(apierrors.IsConflict, func() error {
			crd, err := definitions.Get(within(t, patience), v1.GroupResource().String(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
			for i, s := range served {
				versions[i].(map[string]any)["served"] = s
			}
			crd.Object["spec"].(map[string]any)["versions"] = versions
			_, err = definitions.Update(within(t, patience), crd, metav1.UpdateOptions{})
			return err
		})
	}
	create := func(name string) *unstructured.Unstructured {
		t.Helper()
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		obj.SetGroupVersionKind(v1.GroupVersion().WithKind("Widget"))
		obj.SetName(name)
		var created *unstructured.Unstructured
		repeat(apierrors.IsNotFound, func() (err error) {
			created, err = client.Resource(v1).Namespace(namespace).Create(within(t, patience), obj, metav1.CreateOptions{})
			return err
		})
		return bare(created)
	}
	install()
	want := []*unstructured.Unstructured{create("a"), create("b")}
	failures := make(chan error, 1000)
	config := logged[*unstructured.Unstructured](t)
	config.OnFailure = func(err error) {
		select {
		case failures <- err:
		default:
		}
	}
	inf := informer.New(newClient(t, "", nil), informer.Resource{GroupVersionResource: v1}, config)
	told := newEvents[*unstructured.Unstructured]()
	inf.Subscribe(told)
	start(t, inf)
	for _, obj := range want {
		told.want(t, informer.Event[*unstructured.Unstructured]{Type: informer.Added, Object: obj, Initial: true})
	}
	failsWith := func(text string) {
		t.Helper()
		for ctx := within(t, patience); ; {
			select {
			case err := <-failures:
				if strings.Contains(err.Error(), text) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("no failure with %q: %+v", text, inf.Status())
			}
		}
	}

	serve(false, true) // in one update: for a moment, discovery has neither
	failsWith("in version v2: use that as Resource.Version")
	told.none(t)
	storeEquals(t, inf, want)

	serve(true, true)
	added := create("c")
	told.want(t, informer.Event[*unstructured.Unstructured]{Type: informer.Added, Object: added})
	want = append(want, added)
	storeEquals(t, inf, want)

	if err := definitions.Delete(within(t, patience), v1.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := map[string]bool{}
	for range want {
		e := told.next(t)
		if e.Type != informer.Deleted {
			t.Fatalf("the handler got %s of %s", e.Type, e.Object.GetName())
		}
		gone[e.Object.GetName()] = true
	}
	failsWith("discovery shows that no version of the API group has the resource")
	if s := inf.Status().Reflectors[0]; len(gone) != len(want) || inf.Store().Len() != 0 || s.Traffic.ListsBy[status.ReasonRestored] != 0 {
		t.Errorf("deleted %v, %d objects are left, %+v", gone, inf.Store().Len(), s)
	}
	install()
	told.want(t, informer.Event[*unstructured.Unstructured]{Type: informer.Added, Object: create("again")})
}
