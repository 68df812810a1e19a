package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

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

// document returns the document at a path below /openapi/v3.
func (k *talker) document(path string) (d document, err error) {
	response, err := k.client.Get(k.config.Host + "/openapi/v3" + path)
	if err != nil {
		return d, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return d, err
	}
	if response.StatusCode != http.StatusOK {
		return d, fmt.Errorf("%s: %s", path, response.Status)
	}
	return d, json.Unmarshal(body, &d)
}

// documents returns the documents at a path from both sides.
func documents(t *testing.T, ours, theirs *talker, path string) (got, want document) {
	t.Helper()
	got, err := ours.document(path)
	if err == nil {
		want, err = theirs.document(path)
	}
	if err != nil {
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
		if _, err := ours.document("/" + path); err != nil {
			t.Errorf("a document that the index has: %v", err)
		}
	}
	for path := range want.Paths {
		if reason := documentsElsewhere[path]; stable.MatchString(path) && (index.Paths[path] != nil) != (reason == "") {
			t.Errorf("%s: informertest has a document: %v, but the exception says %q", path, index.Paths[path] != nil, reason)
		}
	}
	for path, exceptions := range map[string]map[string]string{
		"api/v1": {
			"Binding":         "no objects of informertest have the kind",
			"ComponentStatus": "no objects of informertest have the kind",
			"io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus.resources": "k8s.io/api 0.37 does not have the field any more",
		},
		"apis/apps/v1":                  nil,
		"apis/batch/v1":                 nil,
		"apis/authentication.k8s.io/v1": nil,
	} {
		got, want := documents(t, ours, theirs, "/"+path)
		compareKinds(t, path, got, want, exceptions)
	}
}
