package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/typedinformer/informer/informertest"
	inprocess "github.com/typedinformer/informer/informertest/cluster"
)

// schemaOf is what kubectl explain reads of a schema, and what leads to others.
type schemaOf struct {
	Description string                                  `json:"description"`
	Type        string                                  `json:"type"`
	Format      string                                  `json:"format"`
	Properties  map[string]schemaOf                     `json:"properties"`
	Items       *schemaOf                               `json:"items"`
	Values      any                                     `json:"additionalProperties"`
	Ref         string                                  `json:"$ref"`
	AllOf       []schemaOf                              `json:"allOf"`
	Kinds       []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

// document is an OpenAPI v3 document.
type document struct {
	Paths      map[string]any
	Components struct{ Schemas map[string]schemaOf }
}

// shape returns the type of a field as text.
func (s schemaOf) shape() string {
	switch {
	case len(s.AllOf) == 1:
		return s.AllOf[0].shape()
	case s.Ref != "":
		return path.Base(s.Ref)
	case s.Items != nil:
		return "[]" + s.Items.shape()
	case s.Values != nil:
		var values schemaOf
		if err := json.Unmarshal(encoded(s.Values), &values); err != nil {
			return err.Error()
		}
		return "map of " + values.shape()
	}
	return strings.TrimSuffix(s.Type+" "+s.Format, " ")
}

// kinds returns the names of the schemas of the objects of a group version, by kind. Those without metadata, such as options,
// are left out, and lists.
func (d document) kinds(groupVersion string) map[string]string {
	all := map[string]string{}
	for name, s := range d.Components.Schemas {
		if !strings.HasSuffix(s.Properties["metadata"].shape(), ".ObjectMeta") {
			continue
		}
		for _, kind := range s.Kinds {
			if path.Join("apis", kind.Group, kind.Version) == groupVersion || kind.Group == "" && "api/"+kind.Version == groupVersion {
				all[kind.Kind] = name
			}
		}
	}
	return all
}

// document decodes the document at a path below /openapi/v3 into d.
func (k *talker) document(path string, d any) error {
	response, err := k.client.Get(k.config.Host + "/openapi/v3" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.Unmarshal(body, d)
}

// documents returns the documents at a path from both sides.
func documents(t *testing.T, ours, theirs *talker, path string) (got, want document) {
	t.Helper()
	if err := errors.Join(ours.document(path, &got), theirs.document(path, &want)); err != nil {
		t.Fatal(err)
	}
	return got, want
}

// compareKinds compares the kinds that the documents of a group version describe, and the schemas to which their fields lead. The
// types of informertest may be newer than kube-apiserver, and have more fields and other descriptions. Which fields are
// required differs too: informertest lists those that Go always encodes.
func compareKinds(t *testing.T, groupVersion string, got, want document, exceptions map[string]string) {
	t.Helper()
	gotKinds, wantKinds := got.kinds(groupVersion), want.kinds(groupVersion)
	for kind := range gotKinds {
		if wantKinds[kind] == "" {
			t.Errorf("%s: kube-apiserver does not describe %s", groupVersion, kind)
		}
	}
	used, seen := map[string]bool{}, map[string]bool{}
	differ := func(what, format string, args ...any) {
		if exceptions[what] == "" {
			t.Errorf("%s %s: "+format, append([]any{groupVersion, what}, args...)...)
		}
		used[what] = true
	}
	var visit func(name string, got, want schemaOf)
	visit = func(name string, gotSchema, wantSchema schemaOf) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, field := range slices.Sorted(maps.Keys(wantSchema.Properties)) {
			what := name + "." + field
			a, there := gotSchema.Properties[field]
			b := wantSchema.Properties[field]
			switch {
			case !there:
				differ(what, "informertest does not describe the field")
				continue
			case a.shape() != b.shape():
				differ(what, "informertest: %s, kube-apiserver: %s", a.shape(), b.shape())
			case a.Description == "" && b.Description != "":
				differ(what, "informertest has no description; kube-apiserver: %q", b.Description)
			}
			next := strings.TrimPrefix(strings.TrimPrefix(b.shape(), "[]"), "map of ")
			if s, ok := want.Components.Schemas[next]; ok {
				visit(next, got.Components.Schemas[next], s)
			} else if len(b.Properties) > 0 {
				visit(what, a, b)
			}
		}
	}
	for kind, name := range wantKinds {
		if gotKinds[kind] == "" {
			differ(kind, "informertest does not describe the kind")
			continue
		}
		visit(kind, got.Components.Schemas[gotKinds[kind]], want.Components.Schemas[name])
	}
	for what := range exceptions {
		if !used[what] {
			t.Errorf("%s: %s does not differ; remove it from the exceptions", groupVersion, what)
		}
	}
}

// documentsElsewhere are the group versions that kube-apiserver alone has a document of, with the reasons.
var documentsElsewhere = map[string]string{
	"apis/apiextensions.k8s.io/v1":   "informertest/crds serves it",
	"apis/apiregistration.k8s.io/v1": "informertest aggregates no other servers",
	"apis/autoscaling/v1":            "informertest/cluster serves HorizontalPodAutoscalers of v2 only",
}

// TestSameOpenAPIAsKubeAPIServer compares what kubectl explain needs of the OpenAPI v3 documents: the group versions, the kinds, and
// their fields.
// Guarantees: W10
func TestSameOpenAPIAsKubeAPIServer(t *testing.T) {
	inProcess := inprocess.New(informertest.Options{Auth: &informertest.Auth{}})
	defer inProcess.Close()
	ours, theirs := newTalkers(t, inProcess)
	stable := regexp.MustCompile(`^apis?/(.*/)?v\d+$`)
	index, want := documents(t, ours, theirs, "")
	for path := range index.Paths {
		if err := ours.document("/"+path, &document{}); err != nil {
			t.Errorf("a document that the index has: %v", err)
		}
	}
	for path := range want.Paths {
		if strings.Contains(path, ".example.com/") {
			continue // of a definition that another test has installed
		}
		if reason := documentsElsewhere[path]; stable.MatchString(path) && (index.Paths[path] != nil) != (reason == "") {
			t.Errorf("%s: informertest has a document: %v, but the exception says %q", path, index.Paths[path] != nil, reason)
		}
	}
	for path, exceptions := range map[string]map[string]string{
		"api/v1": {
			"Binding":         "no objects of informertest have the kind",
			"ComponentStatus": "no objects of informertest have the kind",
		},
		"apis/apps/v1":                  nil,
		"apis/batch/v1":                 nil,
		"apis/authentication.k8s.io/v1": nil,
	} {
		got, want := documents(t, ours, theirs, "/"+path)
		compareKinds(t, path, got, want, exceptions)
	}
}

// gizmos is a definition with what a schema can have.
const gizmos = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gizmos.openapi.example.com"},"spec":{
"group":"openapi.example.com","scope":"Namespaced","names":{"plural":"gizmos","kind":"Gizmo"},"versions":[
{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","description":"A gizmo.","required":["spec"],"properties":{
"spec":{"type":"object","description":"What is wanted.","required":["color"],"x-kubernetes-validations":[{"rule":"self.color != 'red'","message":"not red"}],"properties":{
"color":{"type":"string","description":"The color.","enum":["red","green"],"default":"green"},"size":{"type":"integer","format":"int32","minimum":1,"maximum":10},
"share":{"type":"number","multipleOf":0.5},"name":{"type":"string","pattern":"^[a-z]*$","maxLength":5},"until":{"type":"string","format":"date-time","nullable":true},
"amount":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},"labels":{"type":"object","additionalProperties":{"type":"string"}},
"anything":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"object":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
"objects":{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true,"required":["kind"],"properties":{"data":{"type":"string"}}}},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"atomic":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"boolean"}}},
"parts":{"type":"array","maxItems":3,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"count":{"type":"integer","default":1}}}}}},
"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// TestSameOpenAPIOfDefinitionsAsKubeAPIServer compares the OpenAPI v3 documents of custom resources: what kubectl explain needs,
// and the whole schemas of the fields that a definition has.
// Guarantees: W10
func TestSameOpenAPIOfDefinitionsAsKubeAPIServer(t *testing.T) {
	ours, theirs := newTalkersOf(t, startExample(t))
	t.Cleanup(func() {
		theirs.discard("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gizmos.openapi.example.com")
	})
	for _, k := range []*talker{ours, theirs} {
		if answer := k.say(scripted{method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", as: "json",
			body: gizmos}); !strings.HasPrefix(answer, "201") {
			t.Fatal(answer)
		}
	}
	for _, version := range []string{"v1", "v2"} {
		path := "apis/openapi.example.com/" + version
		for _, k := range []*talker{ours, theirs} { // kube-apiserver makes the document later
			answer := k.say(scripted{method: "GET", path: "/openapi/v3/" + path, until: "Gizmo"})
			if !strings.HasPrefix(answer, "200") {
				t.Fatal(answer)
			}
		}
		got, want := documents(t, ours, theirs, "/"+path)
		compareKinds(t, path, got, want, nil)
		a, b := ours.fieldsOf(t, path, "Gizmo"), theirs.fieldsOf(t, path, "Gizmo")
		if diff := gocmp.Diff(b, a); diff != "" {
			t.Errorf("%s: -kube-apiserver +informertest:\n%s", path, diff)
		}
	}
}

// fieldsOf returns the schema of a kind in a document, without the fields that all kinds have.
func (k *talker) fieldsOf(t *testing.T, path, kind string) map[string]any {
	t.Helper()
	var d struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := k.document("/"+path, &d); err != nil {
		t.Fatal(err)
	}
	for name, schema := range d.Components.Schemas {
		if strings.HasSuffix(name, "."+kind) {
			if fields, ok := schema["properties"].(map[string]any); ok {
				for _, field := range []string{"apiVersion", "kind", "metadata"} {
					delete(fields, field)
				}
			}
			return schema
		}
	}
	t.Fatalf("%s: there is no schema of %s", path, kind)
	return nil
}
