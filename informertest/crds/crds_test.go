package crds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/crds"
)

var (
	definitionResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	widgets            = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	alphaWidgets       = schema.GroupVersionResource{Group: "example.com", Version: "v1alpha1", Resource: "widgets"}
)

// world is a server in a bubble that serves definitions, and its client.
type world struct {
	t           *testing.T
	server      *informertest.Server
	definitions *crds.Definitions
	client      dynamic.Interface
}

// inBubble runs test in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		w := &world{t: t, server: server, definitions: crds.Serve(server)}
		var err error
		w.client, err = dynamic.NewForConfig(server.Config())
		w.must(err)
		test(t, w)
	})
}

// withWidgets runs test in a bubble with the definition of widgets.
func withWidgets(t *testing.T, test func(t *testing.T, w *world)) {
	inBubble(t, func(t *testing.T, w *world) {
		w.must(w.definitions.InstallCRDs("testdata/widgets.yaml"))
		test(t, w)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) in(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	return w.client.Resource(gvr).Namespace("default")
}

// create creates an object, given in YAML, in the namespace default.
func (w *world) create(gvr schema.GroupVersionResource, text string) (*unstructured.Unstructured, error) {
	w.t.Helper()
	return w.in(gvr).Create(w.t.Context(), w.parse(text), metav1.CreateOptions{})
}

func (w *world) parse(text string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	w.must(yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

// widget returns a widget with the given spec, in YAML.
func widget(name, spec string) string {
	return fmt.Sprintf("{apiVersion: example.com/v1, kind: Widget, metadata: {name: %s}, spec: %s}", name, spec)
}

// definition returns the definition of widgets.
func (w *world) definition() *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	content, err := os.ReadFile("testdata/widgets.yaml")
	w.must(err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	first, _, _ := strings.Cut(string(content), "\n---\n")
	w.must(yaml.Unmarshal([]byte(first), crd))
	return crd
}

// submit creates or updates a definition as a client, and returns its error.
func (w *world) submit(crd *apiextensionsv1.CustomResourceDefinition) error {
	w.t.Helper()
	body, err := json.Marshal(crd)
	w.must(err)
	u := w.parse(string(body))
	u.SetAPIVersion("apiextensions.k8s.io/v1")
	u.SetKind("CustomResourceDefinition")
	api := w.client.Resource(definitionResource)
	if _, err = api.Create(w.t.Context(), u, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		current, err := api.Get(w.t.Context(), crd.Name, metav1.GetOptions{})
		w.must(err)
		u.SetResourceVersion(current.GetResourceVersion())
		_, err = api.Update(w.t.Context(), u, metav1.UpdateOptions{})
		return err
	}
	return err
}

// conditions returns the conditions of a definition, as TYPE=STATUS:REASON.
func (w *world) conditions(name string) (conditions []string) {
	w.t.Helper()
	u, err := w.client.Resource(definitionResource).Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range list {
		c := c.(map[string]any)
		conditions = append(conditions, fmt.Sprintf("%s=%s:%s", c["type"], c["status"], c["reason"]))
	}
	return conditions
}

func equal[T comparable](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func TestDefinitionIsServedAtOnceAndDisappears(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.must(w.submit(w.definition()))
		equal(t, "conditions", w.conditions("widgets.example.com"), "NamesAccepted=True:NoConflicts",
			"Established=True:InitialNamesAccepted")
		equal(t, "discovery", w.discovered(), "v1 widgets widget Widget true [wd] [all]", "v1 widgets/scale  Scale true [] []", "v1 widgets/status  Widget true [] []",
			"v1alpha1 widgets widget Widget true [wd] [all]", "v1alpha1 widgets/status  Widget true [] []")
		_, err := w.create(widgets, widget("a", "{color: red}"))
		w.must(err)
		events, err := w.in(widgets).Watch(t.Context(), metav1.ListOptions{})
		w.must(err)
		w.must(w.client.Resource(definitionResource).Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
		if event := <-events.ResultChan(); event.Type != watch.Added {
			t.Errorf("got the event %s", event.Type)
		}
		var rest []watch.EventType
		for event := range events.ResultChan() { // until the watch ends, because the resource is gone
			rest = append(rest, event.Type)
		}
		equal(t, "the last events", rest, watch.Deleted)
		if _, err := w.in(widgets).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a list returned %v, want 404", err)
		}
		if _, err := w.client.Resource(definitionResource).Get(t.Context(), "widgets.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the definition: %v, want 404", err)
		}
		w.must(w.submit(w.definition()))
		list, err := w.in(widgets).List(t.Context(), metav1.ListOptions{})
		w.must(err)
		if len(list.Items) != 0 {
			t.Errorf("the objects of the former definition are back: %v", list.Items)
		}
	})
}

// discovered returns what discovery says about the group of widgets.
func (w *world) discovered() (lines []string) {
	w.t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(w.server.Config())
	w.must(err)
	for _, version := range []string{"v1", "v1alpha1"} {
		list, err := client.ServerResourcesForGroupVersion("example.com/" + version)
		w.must(err)
		for _, r := range list.APIResources {
			lines = append(lines, fmt.Sprint(version, " ", r.Name, " ", r.SingularName, " ", r.Kind, " ", r.Namespaced, " ",
				r.ShortNames, " ", r.Categories))
		}
	}
	return lines
}

func TestSchemaPrunesDefaultsAndValidates(t *testing.T) {
	for _, c := range []struct{ name, spec, want, err string }{
		{"pruned and defaulted", "{color: red, nosuch: 1, parts: [{name: a, nosuch: 1}]}",
			`{"color":"red","parts":[{"count":1,"name":"a"}],"size":3}`, ""},
		{"null of what has no default", "{color: red, replicas: null, size: null}", `{"color":"red","size":3}`, ""},
		{"preserved", "{color: red, anything: {at: [all]}}", `{"anything":{"at":["all"]},"color":"red","size":3}`, ""},
		{"required", "{}", "", `spec.color: Required value`},
		{"no rules for a wrong type", "{}", "", `some validation rules were not checked because the object was invalid`},
		{"enum", "{color: pink}", "", `spec.color: Unsupported value: "pink": supported values: "red", "green", "blue"`},
		{"maximum", "{color: red, size: 11}", "", `Widget.example.com "a" is invalid: spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10`},
		{"type", "{color: red, size: big}", "", `spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"`},
		{"rule", "{color: red, min: 2, max: 1}", "", `min must not exceed max`},
		{"list map", "{color: red, parts: [{name: a}, {name: a}]}", "", `spec.parts[1]: Duplicate value: {"name":"a"}`},
		{"replicas", "{color: red, replicas: -1}", "", `.spec.replicas: Invalid value: -1: should be a non-negative integer`},
	} {
		t.Run(c.name, func(t *testing.T) {
			withWidgets(t, func(t *testing.T, w *world) {
				obj, err := w.create(widgets, widget("a", c.spec))
				if c.err != "" {
					if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.err) {
						t.Errorf("got %v\nwant 422 with %s", err, c.err)
					}
					return
				}
				w.must(err)
				if got, _ := json.Marshal(obj.Object["spec"]); string(got) != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestSchemaHoldsForUpdatesPatchesAndStatus(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		_, err := w.create(widgets, widget("a", "{color: red, fixed: x}"))
		w.must(err)
		patch := func(kind types.PatchType, body string, subresources ...string) (*unstructured.Unstructured, error) {
			return w.in(widgets).Patch(t.Context(), "a", kind, []byte(body), metav1.PatchOptions{}, subresources...)
		}
		for _, c := range []struct {
			kind        types.PatchType
			body        string
			subresource []string
			want        string
		}{
			{types.MergePatchType, `{"spec":{"color":"pink"}}`, nil, "spec.color: Unsupported value"},
			{types.JSONPatchType, `[{"op":"remove","path":"/spec/color"}]`, nil, "spec.color: Required value"},
			{types.MergePatchType, `{"spec":{"fixed":"y"}}`, nil, "fixed cannot change"},
			{types.MergePatchType, `{"status":{"phase":"Odd"}}`, []string{"status"}, "status.phase: Unsupported value"},
		} {
			if _, err := patch(c.kind, c.body, c.subresource...); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", c.body, err, c.want)
			}
		}
		obj, err := patch(types.MergePatchType, `{"spec":{"size":null,"nosuch":1},"status":{"phase":"Ready"}}`)
		w.must(err)
		if got, _ := json.Marshal(obj.Object["spec"]); string(got) != `{"color":"red","fixed":"x","size":3}` || obj.Object["status"] != nil {
			t.Errorf("got %s, status %v", got, obj.Object["status"])
		}
		obj, err = patch(types.MergePatchType, `{"spec":{"size":5},"status":{"phase":"Ready","nosuch":1}}`, "status")
		w.must(err)
		if got, _ := json.Marshal(obj.Object["status"]); string(got) != `{"phase":"Ready"}` || obj.GetGeneration() != 1 {
			t.Errorf("got status %s, generation %d", got, obj.GetGeneration())
		}
	})
}

// An object that a new schema no longer allows can be changed elsewhere.
func TestSchemaIsRatcheting(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		_, err := w.create(widgets, widget("a", "{color: red, size: 9}"))
		w.must(err)
		crd := w.definition()
		properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
		size := properties["size"]
		size.Maximum = new(float64)
		*size.Maximum = 5
		properties["size"] = size
		w.must(w.submit(crd))
		_, err = w.in(widgets).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"color":"blue"}}`), metav1.PatchOptions{})
		w.must(err)
		_, err = w.in(widgets).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"size":8}}`), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("got %v, want 422", err)
		}
	})
}

func TestFieldValidation(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		body := func(name string) string {
			b, err := json.Marshal(w.parse(widget(name, "{color: red, nosuch: 1}")))
			w.must(err)
			return string(b)
		}
		for _, c := range []struct{ directive, want string }{
			{"", `201 [299 - "unknown field \"spec.nosuch\""]`},
			{"Warn", `201 [299 - "unknown field \"spec.nosuch\""]`},
			{"Ignore", `201 []`},
			{"Strict", `400 []`},
		} {
			path := "/apis/example.com/v1/namespaces/default/widgets?fieldValidation=" + c.directive
			response, _ := w.send(http.MethodPost, path, body("w"+strings.ToLower(c.directive)))
			if got := fmt.Sprint(response.StatusCode, " ", response.Header.Values("Warning")); got != c.want {
				t.Errorf("%q: got %s, want %s", c.directive, got, c.want)
			}
		}
		response, _ := w.send(http.MethodGet, "/apis/example.com/v1alpha1/namespaces/default/widgets", "")
		equal(t, "warnings", response.Header.Values("Warning"),
			`299 - "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget"`)
	})
}

// send sends a request, and returns the response and its body.
func (w *world) send(method, path, body string) (response *http.Response, answer string) {
	w.t.Helper()
	client, err := rest.HTTPClientFor(w.server.Config())
	w.must(err)
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	w.must(err)
	request.Header.Set("Content-Type", "application/json")
	response, err = client.Do(request)
	w.must(err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	w.must(err)
	return response, string(content)
}

func TestVersionsHaveTheSameObjects(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		events, err := w.in(alphaWidgets).Watch(ctx, metav1.ListOptions{})
		w.must(err)
		defer events.Stop()
		created, err := w.create(widgets, widget("a", "{color: red}"))
		w.must(err)
		event := <-events.ResultChan()
		obj := event.Object.(*unstructured.Unstructured)
		if obj.GetAPIVersion() != "example.com/v1alpha1" || obj.GetResourceVersion() != created.GetResourceVersion() {
			t.Errorf("got %s at %s, want that of %s", obj.GetAPIVersion(), obj.GetResourceVersion(), created.GetResourceVersion())
		}
		obj.SetLabels(map[string]string{"l": "m"})
		obj.Object["extra"] = "dropped" // the schema of this version allows it, but not the one in which objects are stored
		updated, err := w.in(alphaWidgets).Update(t.Context(), obj, metav1.UpdateOptions{})
		w.must(err)
		got, err := w.in(widgets).Get(t.Context(), "a", metav1.GetOptions{})
		w.must(err)
		if got.GetAPIVersion() != "example.com/v1" || got.GetLabels()["l"] != "m" || got.Object["extra"] != nil ||
			updated.Object["extra"] != nil {
			t.Errorf("got %v, and %v from the update", got.Object, updated.Object)
		}
		w.must(w.in(alphaWidgets).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		if _, err := w.in(widgets).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want 404", err)
		}
	})
}

func TestObjectsOutliveAChangeOfTheDefinition(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		created, err := w.create(widgets, widget("a", "{color: red}"))
		w.must(err)
		served := func(v1, v1alpha1 bool) {
			t.Helper()
			crd := w.definition()
			crd.Spec.Versions[0].Served, crd.Spec.Versions[1].Served = v1, v1alpha1
			w.must(w.submit(crd))
			for gvr, want := range map[schema.GroupVersionResource]bool{widgets: v1, alphaWidgets: v1alpha1} {
				obj, err := w.in(gvr).Get(t.Context(), "a", metav1.GetOptions{})
				switch {
				case !want && !apierrors.IsNotFound(err):
					t.Errorf("%s: got %v, want 404", gvr.Version, err)
				case want && err != nil:
					t.Errorf("%s: %v", gvr.Version, err)
				case want && (obj.GetUID() != created.GetUID() || obj.GetResourceVersion() != created.GetResourceVersion()):
					t.Errorf("%s: it is another object: %v", gvr.Version, obj.Object)
				}
			}
		}
		served(false, true)
		served(true, false)
		served(false, false)
		served(true, true)
	})
}

func TestNamesConflictUntilTheyAreFree(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		other := w.definition()
		other.Name = "others.example.com"
		other.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "others", Kind: "Widget", ShortNames: []string{"wd"}}
		w.must(w.submit(other))
		equal(t, "conditions", w.conditions(other.Name), "NamesAccepted=False:ListKindConflict", "Established=False:NotAccepted")
		others := widgets
		others.Resource = "others"
		if _, err := w.in(others).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want 404", err)
		}
		if err := w.definitions.Install(other); err == nil || !strings.Contains(err.Error(), "is already in use") {
			t.Errorf("Install returned %v", err)
		}
		w.must(w.client.Resource(definitionResource).Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
		equal(t, "conditions", w.conditions(other.Name), "NamesAccepted=True:NoConflicts", "Established=True:InitialNamesAccepted")
		_, err := w.in(others).List(t.Context(), metav1.ListOptions{})
		w.must(err)
	})
}

// Resources that the program has registered itself keep their names, too.
func TestNamesConflictWithARegisteredResource(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		informertest.Register[*unstructured.Unstructured](w.server, informertest.Resource{GroupVersionResource: widgets, Kind: "Gadget"})
		w.must(w.submit(w.definition()))
		equal(t, "conditions", w.conditions("widgets.example.com"), "NamesAccepted=False:PluralConflict", "Established=False:NotAccepted")
	})
}

func TestFinalizersOfObjectsKeepTheDefinition(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		obj := w.parse(widget("a", "{color: red}"))
		obj.SetFinalizers([]string{"example.com/wait"})
		_, err := w.in(widgets).Create(t.Context(), obj, metav1.CreateOptions{})
		w.must(err)
		_, err = w.create(widgets, widget("b", "{color: red}"))
		w.must(err)
		w.must(w.client.Resource(definitionResource).Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
		equal(t, "conditions", w.conditions("widgets.example.com"), "NamesAccepted=True:NoConflicts",
			"Established=True:InitialNamesAccepted", "Terminating=True:InstanceDeletionInProgress")
		list, err := w.in(widgets).List(t.Context(), metav1.ListOptions{})
		w.must(err)
		if len(list.Items) != 1 || list.Items[0].GetDeletionTimestamp() == nil {
			t.Errorf("got %v, want a, which is being deleted", list.Items)
		}
		w.must(w.definitions.InstallCRDs("testdata/widgets.yaml")) // as a test does that reads its definitions again
		_, err = w.in(widgets).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		w.must(err)
		if _, err := w.client.Resource(definitionResource).Get(t.Context(), "widgets.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the definition: %v, want 404", err)
		}
	})
}

// A program that runs the server may let the last object go, as a controller in its test does.
func TestACollectionThatRemovesTheLastObjectCompletesTheDeletion(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		obj := w.parse(widget("a", "{color: red}"))
		obj.SetFinalizers([]string{"example.com/wait"})
		_, err := w.in(widgets).Create(t.Context(), obj, metav1.CreateOptions{})
		w.must(err)
		w.must(w.client.Resource(definitionResource).Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
		objects, _ := informertest.CollectionOf[*unstructured.Unstructured](w.server, widgets)
		stored, ok := objects.Get(informer.Key{Namespace: "default", Name: "a"})
		if !ok {
			t.Fatal("the finalizer does not keep the object")
		}
		stored = stored.DeepCopy()
		stored.SetFinalizers(nil)
		_, err = objects.Update(stored)
		w.must(err)
		if _, err := w.client.Resource(definitionResource).Get(t.Context(), "widgets.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the definition: %v, want 404", err)
		}
	})
}

func TestSelectableFields(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		for name, color := range map[string]string{"a": "red", "b": "blue", "c": "red"} {
			_, err := w.create(widgets, widget(name, "{color: "+color+"}"))
			w.must(err)
		}
		list, err := w.in(widgets).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=red"})
		w.must(err)
		var names []string
		for _, item := range list.Items {
			names = append(names, item.GetName())
		}
		equal(t, "red", names, "a", "c")
		_, err = w.in(widgets).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.size=3"})
		if !apierrors.IsBadRequest(err) || err.Error() != "field label not supported: spec.size" {
			t.Errorf("got %v", err)
		}
	})
}

func TestScale(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		_, err := w.create(widgets, widget("a", "{color: red, replicas: 2}"))
		w.must(err)
		_, err = w.in(widgets).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":{"replicas":1,"selector":"app=a"}}`), metav1.PatchOptions{}, "status")
		w.must(err)
		scale, err := w.in(widgets).Get(t.Context(), "a", metav1.GetOptions{}, "scale")
		w.must(err)
		if got := fmt.Sprint(scale.GetKind(), scale.Object["spec"], scale.Object["status"]); got != "Scalemap[replicas:2] map[replicas:1 selector:app=a]" {
			t.Errorf("got %s", got)
		}
		w.must(unstructured.SetNestedField(scale.Object, int64(7), "spec", "replicas"))
		_, err = w.in(widgets).Update(t.Context(), scale, metav1.UpdateOptions{}, "scale")
		w.must(err)
		obj, err := w.in(widgets).Get(t.Context(), "a", metav1.GetOptions{})
		w.must(err)
		if replicas, _, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas"); replicas != 7 || obj.GetGeneration() != 2 {
			t.Errorf("got %v", obj.Object)
		}
		_, err = w.in(alphaWidgets).Get(t.Context(), "a", metav1.GetOptions{}, "scale")
		if !apierrors.IsNotFound(err) {
			t.Errorf("a version without scale: %v", err)
		}
	})
}

func TestApplyMergesListsByTheirKeys(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		apply := func(manager, spec string) (*unstructured.Unstructured, error) {
			return w.in(widgets).Apply(t.Context(), "a", w.parse(widget("a", spec)), metav1.ApplyOptions{FieldManager: manager})
		}
		_, err := apply("one", "{color: red, parts: [{name: a, count: 2}]}")
		w.must(err)
		obj, err := apply("two", "{color: red, parts: [{name: b}]}")
		w.must(err)
		if got, _ := json.Marshal(obj.Object["spec"]); string(got) != `{"color":"red","parts":[{"count":2,"name":"a"},{"count":1,"name":"b"}],"size":3}` {
			t.Errorf("got %s", got)
		}
		if _, err = apply("two", "{color: blue}"); !apierrors.IsConflict(err) {
			t.Errorf("got %v, want a conflict with the manager one", err)
		}
	})
}

func TestDefinitionsAreValidated(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for name, c := range map[string]struct {
			change func(crd *apiextensionsv1.CustomResourceDefinition)
			want   string
		}{
			"name": {func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Name = "x.example.com" },
				`metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group`},
			"storage": {func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Storage = false },
				"must have exactly one version marked as storage version"},
			"schema": {func(crd *apiextensionsv1.CustomResourceDefinition) {
				crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Type = ""
			},
				"must not be empty at the root"},
		} {
			crd := w.definition()
			c.change(crd)
			if err := w.submit(crd); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
			if err := w.definitions.Install(crd); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: Install returned %v, want %s", name, err, c.want)
			}
		}
		w.must(w.submit(w.definition()))
		crd := w.definition()
		crd.Spec.Scope = apiextensionsv1.ClusterScoped
		if err := w.submit(crd); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field is immutable") {
			t.Errorf("another scope: %v", err)
		}
	})
}

func TestInstallCRDs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.must(w.definitions.InstallCRDs("testdata"))
		w.must(w.definitions.InstallCRDs("testdata/widgets.yaml")) // again: it is replaced
		_, err := w.create(widgets, widget("a", "{color: red}"))
		w.must(err)
		folder := t.TempDir()
		write := func(name, content string) string {
			path := filepath.Join(folder, name)
			w.must(os.WriteFile(path, []byte(content), 0o600))
			return path
		}
		others, err := json.Marshal(w.another("example.com", names{}))
		w.must(err)
		write("others.yml", strings.Replace(string(others), "{", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`, 1))
		w.must(w.definitions.InstallCRDs(folder))
		equal(t, "a file .yml", w.conditions("others.example.com"), "NamesAccepted=True:NoConflicts", accepted)
		for path, want := range map[string]string{
			filepath.Join(folder, "none"): "no such file",
			write("a.yaml", "kind: [}"):   "a.yaml: ",
			write("b.yaml", "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1beta1}"):                 "only apiextensions.k8s.io/v1 is served",
			write("c.yaml", "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: x}}"): "definition x: ",
		} {
			if err := w.definitions.InstallCRDs(path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", path, err, want)
			}
		}
	})
}
