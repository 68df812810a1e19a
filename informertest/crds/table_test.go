package crds_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// table returns the Table at a path, as its columns and the cells of its rows.
func (w *world) table(path string) (columns, rows []string) {
	w.t.Helper()
	client, err := rest.HTTPClientFor(w.server.Config())
	w.must(err)
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.server.URL+path, nil)
	w.must(err)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	w.must(err)
	defer response.Body.Close()
	var table metav1.Table
	w.must(json.NewDecoder(response.Body).Decode(&table))
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, fmt.Sprintf("%s %s %d", c.Name, c.Type, c.Priority))
	}
	for _, row := range table.Rows {
		rows = append(rows, strings.TrimSpace(fmt.Sprintln(row.Cells...)))
	}
	return columns, rows
}

func TestTablesHaveTheColumnsOfTheDefinition(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		crd := w.definition()
		crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Color", Type: "string", JSONPath: ".spec.color"},
			{Name: "Size", Type: "integer", JSONPath: ".spec.size", Priority: 1},
			{Name: "Parts", Type: "string", JSONPath: ".spec.parts[*].name"},
			{Name: "Phase", Type: "string", JSONPath: ".status.phase"},
			{Name: "Made", Type: "date", JSONPath: ".metadata.creationTimestamp"},
		}
		w.must(w.definitions.Install(crd))
		_, err := w.create(widgets, widget("a", "{color: red, parts: [{name: x}, {name: z}]}"))
		w.must(err)
		columns, rows := w.table("/apis/example.com/v1/namespaces/default/widgets")
		equal(t, "columns", columns, "Name string 0", "Color string 0", "Size integer 1", "Parts string 0",
			"Phase string 0", "Made date 0")
		equal(t, "rows", rows, "a red 3 x <nil> 0s")
		columns, rows = w.table("/apis/example.com/v1/namespaces/default/widgets/a")
		equal(t, "rows of one", rows, "a red 3 x <nil> 0s")
		if len(columns) != 6 {
			t.Errorf("the columns of one are %v", columns)
		}
		columns, rows = w.table("/apis/example.com/v1alpha1/widgets")
		equal(t, "columns of a version without any", columns, "Name string 0", "Age date 0")
		equal(t, "rows of a version without any", rows, "a 0s")
	})
}

func TestListsHaveTheListKindOfTheDefinition(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		crd := w.definition()
		crd.Spec.Names.ListKind = "WidgetCollection"
		w.must(w.definitions.Install(crd))
		list, err := w.in(widgets).List(t.Context(), metav1.ListOptions{})
		w.must(err)
		if list.GetKind() != "WidgetCollection" {
			t.Errorf("the list is a %s", list.GetKind())
		}
		other := w.definition()
		other.Name = "collections.example.com"
		other.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "collections", Kind: "WidgetCollection"}
		w.must(w.submit(other))
		conditions := w.conditions(other.Name)
		if !slices.Contains(conditions, "NamesAccepted=False:KindConflict") {
			t.Errorf("a kind like that of the list: %v", conditions)
		}
	})
}

// An apply that would create an object is refused, too. Existing objects can still change. kube-apiserver does the same.
func TestNothingIsCreatedWhileTheDefinitionIsBeingDeleted(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		held := w.parse(widget("held", "{color: red}"))
		held.SetFinalizers([]string{"example.com/hold"})
		held, err := w.in(widgets).Create(t.Context(), held, metav1.CreateOptions{})
		w.must(err)
		definitions := w.client.Resource(definitionResource)
		w.must(definitions.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
		const refused = `widgets.example.com "new" is forbidden: ` +
			`create not allowed while custom resource definition is terminating`
		_, err = w.create(widgets, widget("new", "{color: red}"))
		if err == nil || err.Error() != refused {
			t.Errorf("a create returned %v", err)
		}
		_, err = w.in(widgets).Apply(t.Context(), "new", w.parse(widget("new", "{color: red}")),
			metav1.ApplyOptions{FieldManager: "m"})
		if err == nil || err.Error() != refused {
			t.Errorf("an apply returned %v", err)
		}
		held, err = w.in(widgets).Get(t.Context(), held.GetName(), metav1.GetOptions{})
		w.must(err)
		held.SetFinalizers(nil)
		_, err = w.in(widgets).Update(t.Context(), held, metav1.UpdateOptions{})
		w.must(err)
		if _, err := definitions.Get(t.Context(), "widgets.example.com", metav1.GetOptions{}); err == nil {
			t.Error("the definition is still there")
		}
	})
}

// kubectl explain reads it.
func TestOpenAPIHasTheSchemaOfTheDefinition(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		client, err := rest.HTTPClientFor(w.server.Config())
		w.must(err)
		defer client.CloseIdleConnections()
		response, err := client.Get(w.server.URL + "/openapi/v3/apis/example.com/v1")
		w.must(err)
		defer response.Body.Close()
		var document map[string]any
		w.must(json.NewDecoder(response.Body).Decode(&document))
		schema := []string{"components", "schemas", "apis.example.com.v1.Widget", "properties"}
		for _, c := range []struct {
			path []string
			want any
		}{
			{[]string{"spec", "properties", "size", "default"}, 3.0},
			{[]string{"spec", "properties", "color", "enum"}, []any{"red", "green", "blue"}},
			{[]string{"metadata", "allOf"}, []any{map[string]any{
				"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}},
			{[]string{"kind", "type"}, "string"},
		} {
			if got, _, err := unstructured.NestedFieldNoCopy(document, append(slices.Clone(schema), c.path...)...); err != nil ||
				!reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: got %v, %v, want %v", c.path, got, err, c.want)
			}
		}
	})
}
