package watchcache

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
)

const (
	asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	columns = `[{"name":"Name","type":"string","format":"name","description":"","priority":0},` +
		`{"name":"Node","type":"string","format":"","description":"","priority":1}]`
)

// tables is a cache of two pods whose Tables have the columns Name and Node.
func tables(t *testing.T) *Cache[*corev1.Pod] {
	t.Helper()
	cache := New[*corev1.Pod](Config{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		Kind:                 "Pod",
		Table: &Table{
			Columns: []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"},
				{Name: "Node", Type: "string", Priority: 1}},
			Cells: func(obj metav1.Object) []any { return []any{obj.GetName(), obj.(*corev1.Pod).Spec.NodeName} },
		},
	})
	pods := []*corev1.Pod{tablePod("a", "2"), tablePod("b", "3")}
	err := cache.Put(t.Context(), informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: pods, ResourceVersion: "3"})
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

func tablePod(name, rv string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: rv},
		Spec: corev1.PodSpec{NodeName: "n-" + name}}
}

// table is a Table of the cache of tables, with columns and rows.
func table(metadata, columns, rows string) string {
	return `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":` + metadata + `,"columnDefinitions":` + columns +
		`,"rows":[` + rows + `]}`
}

// row is the row of a pod with an object.
func row(name, object string) string {
	return `{"cells":["` + name + `","n-` + name + `"],"object":` + object + `}`
}

func metadataRow(name, rv string) string {
	return row(name, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"`+name+
		`","namespace":"ns","resourceVersion":"`+rv+`"}}`)
}

func TestTablesHaveRowsWithTheObjectsThatTheRequestAsksFor(t *testing.T) {
	cache := tables(t)
	whole := row("a", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","resourceVersion":"2"},`+
		`"spec":{"containers":null,"nodeName":"n-a"},"status":{}}`)
	for _, c := range []struct {
		query string
		code  int
		want  string
	}{
		{"", 200, table(`{"resourceVersion":"3"}`, columns, metadataRow("a", "2")+","+metadataRow("b", "3"))},
		{"includeObject=Metadata", 200, table(`{"resourceVersion":"3"}`, columns,
			metadataRow("a", "2")+","+metadataRow("b", "3"))},
		{"includeObject=None", 200, table(`{"resourceVersion":"3"}`, columns, row("a", "null")+","+row("b", "null"))},
		{"includeObject=Object&fieldSelector=metadata.name%3Da", 200, table(`{"resourceVersion":"3"}`, columns, whole)},
		{"fieldSelector=metadata.name%3Dc", 200, table(`{"resourceVersion":"3"}`, columns, "")},
		{"includeObject=All", 400, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":` +
			`"Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', ` +
			`'None', or empty","reason":"BadRequest","code":400}`},
	} {
		response := httptest.NewRecorder()
		cache.ServeList(response, tableRequest("?"+c.query), "ns")
		if got := strings.TrimSpace(response.Body.String()); response.Code != c.code || got != c.want {
			t.Errorf("%s: %d\n%s\nwant %d\n%s", c.query, response.Code, got, c.code, c.want)
		}
		if got := response.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: Content-Type %s", c.query, got)
		}
	}
}

func TestTablesOfPagesContinue(t *testing.T) {
	response := httptest.NewRecorder()
	tables(t).ServeList(response, tableRequest("?limit=1"), "ns")
	var page metav1.Table
	if err := json.Unmarshal(response.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	if page.Continue == "" || page.RemainingItemCount == nil || *page.RemainingItemCount != 1 || len(page.Rows) != 1 {
		t.Errorf("got %s", response.Body)
	}
}

func TestTablesOfOneObject(t *testing.T) {
	cache := tables(t)
	want := table(`{"resourceVersion":"2"}`, columns, metadataRow("a", "2"))
	for name, serve := range map[string]func(w http.ResponseWriter, r *http.Request){
		"get": func(w http.ResponseWriter, r *http.Request) {
			cache.ServeObject(w, r, informer.Key{Namespace: "ns", Name: "a"})
		},
		"write": func(w http.ResponseWriter, r *http.Request) {
			cache.WriteObject(w, r, http.StatusOK, tablePod("a", "2"))
		},
	} {
		response := httptest.NewRecorder()
		serve(response, tableRequest("/a"))
		if got := strings.TrimSpace(response.Body.String()); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Only the first event contains the columns. A bookmark is a row, too, and the one after the initial events contains
// its annotation even if the client wants no objects.
func TestTablesOfAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		response := httptest.NewRecorder()
		tables(t).ServeList(deadlines{response}, tableRequest("?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&"+
			"resourceVersionMatch=NotOlderThan&includeObject=None&timeoutSeconds=1"), "ns")
		bookmark := `{"cells":["",""],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":` +
			`{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}}}`
		want := []string{
			`{"type":"ADDED","object":` + table(`{"resourceVersion":"2"}`, columns, row("a", "null")) + `}`,
			`{"type":"ADDED","object":` + table(`{"resourceVersion":"3"}`, "null", row("b", "null")) + `}`,
			`{"type":"BOOKMARK","object":` + table(`{"resourceVersion":"3"}`, "null", bookmark) + `}`,
		}
		if got := strings.Split(strings.TrimSpace(response.Body.String()), "\n"); strings.Join(got, "\n") !=
			strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// deadlines is a recorder that takes deadlines.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

func TestTablesWithoutColumnsOfTheirOwnHaveNameAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := podCache()
		pod := tablePod("a", "2")
		pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-90 * time.Minute))
		items := []*corev1.Pod{pod, tablePod("b", "3")}
		err := cache.Put(t.Context(), informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: items, ResourceVersion: "3"})
		if err != nil {
			t.Fatal(err)
		}
		response := httptest.NewRecorder()
		cache.ServeList(response, tableRequest("?includeObject=None"), "")
		got := response.Body.String()
		for _, want := range []string{`{"name":"Age","type":"date","format":"",`, `"cells":["a","90m"]`,
			`"cells":["b","\u003cunknown\u003e"]`} {
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s in it", got, want)
			}
		}
	})
}

func TestListsHaveTheKindOfTheConfig(t *testing.T) {
	config := Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", ListKind: "Pods"}
	for accept, want := range map[string]string{"application/json": `"kind":"Pods"`,
		"application/vnd.kubernetes.protobuf": "\x0a\x02v1\x12\x04Pods"} {
		cache := New[*corev1.Pod](config)
		if err := cache.Put(t.Context(), informer.Delta[*corev1.Pod]{Type: informer.Replaced, ResourceVersion: "3"}); err != nil {
			t.Fatal(err)
		}
		request, response := tableRequest(""), httptest.NewRecorder()
		request.Header.Set("Accept", accept)
		cache.ServeList(response, request, "")
		if got := response.Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %q", accept, got)
		}
	}
}

// tableRequest is a GET request of pods that accepts Tables.
func tableRequest(rest string) *http.Request {
	request := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/ns/pods"+rest, nil)
	request.Header.Set("Accept", asTable)
	return request
}
