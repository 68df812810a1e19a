package generated

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer"
	oddv2beta1 "github.com/typedinformer/informer/codegen/testdata/crd/out/odd/v2beta1"
	shopv1 "github.com/typedinformer/informer/codegen/testdata/crd/out/shop/v1"
	slimv1 "github.com/typedinformer/informer/codegen/testdata/crdfields/out/shop/v1"
	"github.com/typedinformer/informer/informertest"
)

// fullWidget sets every field of the schema, some of them to zero.
const fullWidget = `{
	"apiVersion": "shop.example.com/v1", "kind": "Widget",
	"metadata": {"namespace": "shop", "name": "car", "labels": {"app": "web"}},
	"spec": {
		"anyValues": {"a": 1, "b": "two", "c": {"d": [null, true]}},
		"anything": [1, {"x": 9007199254740993}],
		"bare": {"apiVersion": "v1", "kind": "Bare", "metadata": {"name": "bare"}},
		"capacity": "1500m",
		"color": "",
		"day": "2026-01-15",
		"digest": "aGVsbG8gPz8/",
		"empty": {},
		"enabled": false,
		"factory": "north",
		"free": {"any": {"thing": [1, 2.5, "<&>"]}},
		"greeting": "",
		"group": "",
		"items": [1, "two", {"three": 3}],
		"large": 9007199254740993,
		"level": 0,
		"lists": {"none": [], "two": ["a", "b"]},
		"matrix": [[{"x": 1, "y": [1, 2]}, {}], []],
		"mode": "!=",
		"named": {"one": {"paths": ["/a"]}, "none": {}},
		"none": {},
		"note": "some <text> & «more»",
		"nullableObjects": {"null": null, "a": {"a": "b"}},
		"nullables": [null, "", "x"],
		"optionalNullable": {"a": "b"},
		"parts": [{"name": "wheel", "count": 0, "tags": ["light"]}, {"name": "engine", "tags": []}],
		"paused": false,
		"plain": {"a": "x", "b": true},
		"port": "http",
		"ratio": 0.1,
		"replicas": 0,
		"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"z": 1}},
		"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
		"serial": -1,
		"since": "2026-01-15T09:00:00Z",
		"single": 0,
		"some": {"known": "a"},
		"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"l": "m"}}, "spec": {"image": "i"}},
		"until": "2026-01-15T10:00:00Z",
		"version": "v2",
		"weight": 9007199254740993
	},
	"status": {
		"phase": "Made",
		"message": "done",
		"conditions": [{"type": "Ready", "status": "True", "reason": "Built", "message": "", "lastTransitionTime": "2026-01-15T09:00:00Z", "observedGeneration": 2}]
	}
}`

// leanWidget sets as little as the schema allows, and some explicitly empty values.
const leanWidget = `{
	"apiVersion": "shop.example.com/v1", "kind": "Widget",
	"metadata": {"namespace": "shop", "name": "bicycle"},
	"spec": {"factory": "", "parts": [], "mode": null, "since": null, "lists": {}, "matrix": [], "named": {}, "port": 80, "capacity": "1Gi", "digest": "", "plain": {}}
}`

func mustDecode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func mustEncode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withoutNoise removes the fields that every encoder of metav1.ObjectMeta writes.
func withoutNoise(m map[string]any) map[string]any {
	for name, value := range m {
		if inner, ok := value.(map[string]any); ok {
			withoutNoise(inner)
			if created, ok := inner["creationTimestamp"]; ok && created == nil {
				delete(inner, "creationTimestamp")
			}
			if name == "metadata" && len(inner) == 0 {
				delete(m, name)
			}
		}
	}
	return m
}

// Every encoder restores the JSON from which a generated type was decoded.
func TestCRDTypesLoseNothing(t *testing.T) {
	for _, text := range []string{fullWidget, leanWidget} {
		want := mustDecode[map[string]any](t, text)
		widget := mustDecode[*shopv1.Widget](t, text)
		if diff := cmp.Diff(want, withoutNoise(mustDecode[map[string]any](t, mustEncode(t, widget)))); diff != "" {
			t.Errorf("encoding/json (-want +got):\n%s", diff)
		}
		converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(widget)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, withoutNoise(mustDecode[map[string]any](t, mustEncode(t, converted)))); diff != "" {
			t.Errorf("ToUnstructured (-want +got):\n%s", diff)
		}
	}
	full := reflect.ValueOf(mustDecode[*shopv1.Widget](t, fullWidget).Spec)
	for i := range full.NumField() {
		if name := full.Type().Field(i).Name; full.Field(i).IsZero() {
			t.Errorf("fullWidget has nothing in %s", name)
		}
	}
}

// These are the losses named in codegen/README.md, and similar values that are kept.
func TestRoundTripLosesWhatTheREADMESays(t *testing.T) {
	const condition = `{"conditions": [{"type": "Ready", "status": "True", "reason": "Built", "message": "", "lastTransitionTime": "2026-01-15T09:00:00Z"`
	for name, c := range map[string]struct{ in, want string }{
		"empty string":                   {`{"spec": {"note": "", "greeting": ""}}`, `{"spec": {"greeting": ""}}`}, // greeting has a default
		"status of zero values":          {`{"status": {"phase": ""}, "spec": {"plain": {}}}`, `{"spec": {"plain": {}}}`},
		"status with something":          {`{"status": {"conditions": []}}`, `{"status": {"conditions": []}}`},
		"null":                           {`{"spec": {"replicas": null, "optionalNullable": null, "lists": null, "anything": null, "until": null}, "status": null}`, `{}`},
		"null that is required":          {`{"spec": {"mode": null, "since": null}}`, `{"spec": {"mode": null, "since": null}}`},
		"null in a list, a map, free":    {`{"spec": {"nullables": [null], "nullableObjects": {"a": null}, "free": {"a": null}}}`, `{"spec": {"nullables": [null], "nullableObjects": {"a": null}, "free": {"a": null}}}`},
		"empty selector":                 {`{"spec": {"selector": {}}}`, `{"spec": {"selector": {}}}`},
		"empty parts of a selector":      {`{"spec": {"selector": {"matchLabels": {}, "matchExpressions": []}}}`, `{"spec": {"selector": {}}}`},
		"no values in a selector":        {`{"spec": {"selector": {"matchExpressions": [{"key": "k", "operator": "Exists", "values": []}]}}}`, `{"spec": {"selector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}}`},
		"observedGeneration 0":           {`{"status": ` + condition + `, "observedGeneration": 0}]}}`, `{"status": ` + condition + `}]}}`},
		"observedGeneration 1":           {`{"status": ` + condition + `, "observedGeneration": 1}]}}`, `{"status": ` + condition + `, "observedGeneration": 1}]}}`},
		"fraction of a second":           {`{"spec": {"until": "2026-01-15T09:00:00.5Z"}}`, `{"spec": {"until": "2026-01-15T09:00:00Z"}}`},
		"empty parts of metadata":        {`{"metadata": {"name": "a", "labels": {}, "finalizers": [], "generation": 0}}`, `{"metadata": {"name": "a"}}`},
		"empty parts of template's":      {`{"spec": {"template": {"metadata": {"name": "a", "labels": {}}}}}`, `{"spec": {"template": {"metadata": {"name": "a"}}}}`},
		"quantity, written another way":  {`{"spec": {"capacity": "1000m"}}`, `{"spec": {"capacity": "1"}}`},
		"field beside x-preserve-fields": {`{"spec": {"some": {"known": "a", "other": "b"}}}`, `{"spec": {"some": {"known": "a"}}}`},
	} {
		got := withoutNoise(mustDecode[map[string]any](t, mustEncode(t, mustDecode[*shopv1.Widget](t, c.in))))
		want := mustDecode[map[string]any](t, c.want)
		spec, _ := want["spec"].(map[string]any)
		for _, required := range []string{"factory", "mode", "parts", "since"} { // they are always set
			if _, ok := spec[required]; !ok {
				delete(got["spec"].(map[string]any), required)
			}
		}
		if spec == nil {
			delete(got, "spec")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// sharedMemory returns the path to mutable memory that a and b share, or "".
func sharedMemory(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || a.Type().Elem().String() == "time.Location" {
			return ""
		}
		if a.Pointer() == b.Pointer() && a.Type().Elem().Size() > 0 {
			return path
		}
		return sharedMemory(a.Elem(), b.Elem(), path)
	case reflect.Interface:
		if a.IsNil() {
			return ""
		}
		return sharedMemory(a.Elem(), b.Elem(), path)
	case reflect.Slice:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return path
		}
		for i := range a.Len() {
			if shared := sharedMemory(a.Index(i), b.Index(i), path+"[]"); shared != "" {
				return shared
			}
		}
	case reflect.Map:
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			return path
		}
		for _, key := range a.MapKeys() {
			if shared := sharedMemory(a.MapIndex(key), b.MapIndex(key), path+"[*]"); shared != "" {
				return shared
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if shared := sharedMemory(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); shared != "" {
				return shared
			}
		}
	}
	return ""
}

func TestDeepCopyIsEqualAndSharesNothing(t *testing.T) {
	check := func(original, copied any) {
		t.Helper()
		if !reflect.DeepEqual(original, copied) {
			t.Errorf("the copy differs:\n%s\n%s", mustEncode(t, original), mustEncode(t, copied))
		}
		if path := sharedMemory(reflect.ValueOf(original), reflect.ValueOf(copied), "obj"); path != "" {
			t.Errorf("the copy shares %s", path)
		}
	}
	for _, text := range []string{fullWidget, leanWidget} {
		widget := mustDecode[*shopv1.Widget](t, text)
		check(widget, widget.DeepCopy())
		check(widget, widget.DeepCopyObject())
		list := &shopv1.WidgetList{ListMeta: metav1.ListMeta{RemainingItemCount: new(int64(3))}, Items: []shopv1.Widget{*widget, *widget}}
		check(list, list.DeepCopyObject())
		slim := mustDecode[*slimv1.Widget](t, text)
		check(slim, slim.DeepCopy())
	}
	var none *shopv1.Widget
	if none.DeepCopy() != nil || none.DeepCopyObject() != nil {
		t.Error("the copy of nil is not nil")
	}
}

func TestAddToScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := shopv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]runtime.Object{"Widget": &shopv1.Widget{}, "WidgetList": &shopv1.WidgetList{}, "ListOfWidgetSpecs": &shopv1.ListOfWidgetSpecs{}} {
		if obj, err := scheme.New(shopv1.GroupVersion.WithKind(kind)); err != nil || reflect.TypeOf(obj) != reflect.TypeOf(want) {
			t.Errorf("%s is %T, %v", kind, obj, err)
		}
	}
}

// Unusual names can be decoded.
func TestOddNames(t *testing.T) {
	const text = `{
		"apiVersion": "odd.example.com/v2beta1", "kind": "Name", "metadata": {"namespace": "n", "name": "o"},
		"name": "a", "labels": "b", "typeMeta": "c", "deepCopy": "d", "getName": "e",
		"spec": {
			"$ref": "f", "--": "g", "3scale": "h", "URL": "i", "url": "j", "a.b/c": "k", "größe": "l", "日本": "m", "with space": "n", "x-foo": "o",
			"apiVersion": "p", "kind": "q", "metadata": {"name": "r"}, "a": {"bC": {"x": "s"}}, "aB": {"c": {"y": "t"}}, "enum": "«»", "missing": [1]
		}
	}`
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	obj := &unstructured.Unstructured{Object: mustDecode[map[string]any](t, text)}
	if _, err := informertest.Register[*unstructured.Unstructured](server, informertest.Resource{GroupVersionResource: oddv2beta1.NameResource, Kind: "Name"}).Create(obj); err != nil {
		t.Fatal(err)
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	odd := oddv2beta1.NewNameInformer(client, informer.Config[*oddv2beta1.Name]{})
	start(t, odd)
	got, ok := odd.Store().Get(informer.Key{Namespace: "n", Name: "o"})
	if !ok {
		t.Fatal("there is no such object")
	}
	want, have := mustDecode[map[string]any](t, text), mustDecode[map[string]any](t, mustEncode(t, got))
	for _, m := range []map[string]any{want, have} {
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(m, name)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// serveWidgets returns a client of a server with the two widgets.
func serveWidgets(t *testing.T) *informer.Client {
	server := informertest.NewServer(informertest.Options{})
	t.Cleanup(server.Close)
	widgets := informertest.Register[*unstructured.Unstructured](server, informertest.Resource{GroupVersionResource: shopv1.WidgetResource, Kind: "Widget"})
	for _, text := range []string{fullWidget, leanWidget} {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := widgets.Create(obj); err != nil {
			t.Fatal(err)
		}
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func start[T informer.Object](t *testing.T, i *informer.Informer[T]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- i.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if err := i.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
}

// namesOf returns the names of objects.
func namesOf[T informer.Object](objects []T) string {
	var names []string
	for _, obj := range objects {
		names = append(names, obj.GetName())
	}
	return strings.Join(names, " ")
}

func TestListerOfTypesFromCRD(t *testing.T) {
	client := serveWidgets(t)
	widgets := shopv1.NewWidgetInformer(client, informer.Config[*shopv1.Widget]{})
	lister := shopv1.NewWidgetLister(widgets)
	start(t, widgets)
	car, err := lister.Namespace("shop").Get("car")
	if err != nil {
		t.Fatal(err)
	}
	want, got := mustDecode[map[string]any](t, fullWidget), mustDecode[map[string]any](t, mustEncode(t, car))
	if diff := cmp.Diff([]any{want["spec"], want["status"]}, []any{withoutNoise(got)["spec"], got["status"]}); diff != "" {
		t.Errorf("spec and status (-want +got):\n%s", diff)
	}
	for name, list := range map[string][]*shopv1.Widget{
		"bicycle car": lister.List(labels.Everything()),
		"car":         lister.List(labels.SelectorFromSet(labels.Set{"app": "web"})),
	} {
		if got := namesOf(list); got != name {
			t.Errorf("listed %q, want %q", got, name)
		}
	}
	for what, list := range map[string][]*shopv1.Widget{
		"phase":   slices.Collect(lister.ByPhase(shopv1.WidgetStatusPhaseMade)),
		"part":    slices.Collect(lister.ByPart("wheel")),
		"app":     slices.Collect(lister.ByApp("web")),
		"nothing": append(slices.Collect(lister.ByPart("wing")), car),
	} {
		if got := namesOf(list); got != "car" {
			t.Errorf("by %s: %q, want the car", what, got)
		}
	}

	// A client of the same type writes it, with its kind.
	written := car.DeepCopy()
	written.Spec.Factory = "south"
	updated, err := informer.NewTypedClient[*shopv1.Widget](client, shopv1.WidgetResource).Update(t.Context(), written, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := widgets.WaitForObject(t.Context(), updated); err != nil {
		t.Fatal(err)
	}
	if now, _ := lister.Namespace("shop").Get("car"); now.Spec.Factory != "south" || car.Spec.Factory != "north" {
		t.Errorf("the lister has %q, the old object %q", now.Spec.Factory, car.Spec.Factory)
	}
}

func TestListerOfSomeFields(t *testing.T) {
	client := serveWidgets(t)
	widgets := slimv1.NewWidgetInformer(client, informer.Config[*slimv1.Widget]{})
	lister := slimv1.NewWidgetLister(widgets)
	start(t, widgets)
	if got := namesOf(slices.Collect(lister.ByPart("engine"))); got != "car" {
		t.Errorf("by part: %q", got)
	}
	car, err := lister.Namespace("shop").Get("car")
	if err != nil {
		t.Fatal(err)
	}
	// It has the chosen fields, and only these.
	const want = `{
		"metadata": {"namespace": "shop", "name": "car", "labels": {"app": "web"}},
		"spec": {
			"factory": "north", "mode": "!=", "parts": [{"name": "wheel"}, {"name": "engine"}],
			"named": {"one": {"paths": ["/a"]}, "none": {}},
			"template": {"metadata": {"labels": {"l": "m"}}}
		},
		"status": {
			"phase": "Made",
			"conditions": [{"type": "Ready", "status": "True", "reason": "Built", "message": "", "lastTransitionTime": "2026-01-15T09:00:00Z", "observedGeneration": 2}]
		}
	}`
	got := mustDecode[map[string]any](t, mustEncode(t, car))
	metadata := got["metadata"].(map[string]any)
	if metadata["uid"] != string(car.GetUID()) || metadata["resourceVersion"] != car.GetResourceVersion() || car.GetUID() == "" || car.GetResourceVersion() == "" {
		t.Errorf("metadata is %v", metadata)
	}
	delete(metadata, "uid")
	delete(metadata, "resourceVersion")
	if diff := cmp.Diff(mustDecode[map[string]any](t, want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// It cannot be mistaken for the full object.
	_, err = informer.NewTypedClient[*slimv1.Widget](client, slimv1.WidgetResource).Update(t.Context(), car, metav1.UpdateOptions{})
	if err == nil || !strings.Contains(err.Error(), "use Patch or Apply") {
		t.Errorf("update: %v", err)
	}
}

// Fields that a slim type lacks cost no allocation, whatever their size.
func TestSomeFieldsAllocateNothingElse(t *testing.T) {
	decode := func(text string) float64 {
		return testing.AllocsPerRun(100, func() {
			var widget slimv1.Widget
			if err := jsonv2.Unmarshal([]byte(text), &widget, jsonv1.DefaultOptionsV1()); err != nil || widget.Spec.Factory != "north" {
				t.Fatal(err)
			}
		})
	}
	const lean = `{"metadata": {"name": "car"}, "spec": {"factory": "north", "parts": [{"name": "wheel"}]}}`
	list := `["` + strings.Repeat(`light", "`, 1000) + `heavy"]`
	rich := strings.NewReplacer(
		`{"name": "car"`, `{"finalizers": `+list+`, "name": "car"`,
		`"factory"`, `"nullables": `+list+`, "lists": {"a": `+list+`}, "factory"`,
		`{"name": "wheel"`, `{"tags": `+list+`, "name": "wheel"`,
	).Replace(lean)
	if few, many := decode(lean), decode(rich); many > few+3 {
		t.Errorf("%v allocations, without the rest %v", many, few)
	}
}
