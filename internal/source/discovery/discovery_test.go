package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errNoDocument = errors.New("no document")

// server has discovery documents by path.
type server map[string]string

// get is for Find. asked has the paths so far.
func (s server) get(asked *[]string) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		*asked = append(*asked, path)
		body, ok := s[path]
		if !ok {
			return nil, errNoDocument
		}
		return []byte(body), nil
	}
}

const (
	core     = `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}`
	pods     = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod"},{"name":"pods/status","namespaced":true},{"name":"nodes"}]}`
	apps     = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"batch","versions":[{"groupVersion":"batch/v1","version":"v1"}]},{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"},{"groupVersion":"apps/v1beta1","version":"v1beta1"}]}]}`
	noGroups = `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`
)

// ofApps returns the document of a version of the group apps.
func ofApps(version string, resources ...string) string {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "apps/" + version, APIResources: []metav1.APIResource{}}
	for _, name := range resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Namespaced: true})
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// Guarantees: R14
func TestFind(t *testing.T) {
	manyVersions := make([]string, maxVersions+1)
	for i := range manyVersions {
		manyVersions[i] = fmt.Sprintf(`{"groupVersion":"apps/v%d","version":"v%[1]d"}`, i)
	}
	listed := func(versions ...string) string {
		return `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[` + strings.Join(versions, ",") + `]}]}`
	}
	verbs := func(list string) string {
		return `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"verbs":` + list + `}]}`
	}
	for name, c := range map[string]struct {
		resource string // group/version/resource
		server   server
		want     string
		asked    string
	}{
		"served":                         {"/v1/pods", server{"api": core, "api/v1": pods}, "{v1 true} true", "api api/v1"},
		"cluster-scoped":                 {"/v1/nodes", server{"api": core, "api/v1": pods}, "{v1 false} true", "api api/v1"},
		"with the verb list":             {"/v1/pods", server{"api": core, "api/v1": verbs(`["create","list","watch"]`)}, "{v1 true} true", "api api/v1"},
		"without the verb list":          {"/v1/pods", server{"api": core, "api/v1": verbs(`["create","watchlist"]`)}, "{v1 true} true without lists", "api api/v1"},
		"without a verb":                 {"/v1/pods", server{"api": core, "api/v1": verbs(`[]`)}, "{v1 true} true without lists", "api api/v1"},
		"verbs are null":                 {"/v1/pods", server{"api": core, "api/v1": verbs(`null`)}, "{v1 true} true", "api api/v1"},
		"too many verbs":                 {"/v1/pods", server{"api": core, "api/v1": verbs(`[` + strings.Repeat(`"get",`, maxVerbs) + `"list"]`)}, "more than 64 verbs", "api api/v1"},
		"verbs are no list":              {"/v1/pods", server{"api": core, "api/v1": verbs(`"list"`)}, "has no verbs", "api api/v1"},
		"verbs are numbers":              {"/v1/pods", server{"api": core, "api/v1": verbs(`[7]`)}, "verbs of another type", "api api/v1"},
		"a subresource is no resource":   {"/v1/status", server{"api": core, "api/v1": pods}, "{ false} false", "api api/v1"},
		"core resource absent":           {"/v1/secrets", server{"api": core, "api/v1": pods}, "{ false} false", "api api/v1"},
		"core version absent":            {"/v2/secrets", server{"api": core, "api/v1": pods}, "{ false} false", "api api/v1"},
		"core version has moved":         {"/v2/pods", server{"api": core, "api/v1": pods}, "{v1 true} true", "api api/v1"},
		"no core versions":               {"/v1/pods", server{"api": `{"kind":"APIVersions","versions":[]}`}, "{ false} false", "api"},
		"group absent":                   {"none.io/v1/pods", server{"apis": apps}, "{ false} false", "apis"},
		"no groups":                      {"apps/v1/deployments", server{"apis": noGroups}, "{ false} false", "apis"},
		"own version first":              {"apps/v1beta1/deployments", server{"apis": apps, "apis/apps/v1": ofApps("v1", "deployments"), "apis/apps/v1beta1": ofApps("v1beta1", "deployments")}, "{v1beta1 true} true", "apis apis/apps/v1beta1"},
		"another version":                {"apps/v1beta1/deployments", server{"apis": apps, "apis/apps/v1": ofApps("v1", "deployments"), "apis/apps/v1beta1": ofApps("v1beta1")}, "{v1 true} true", "apis apis/apps/v1beta1 apis/apps/v1"},
		"version is not listed":          {"apps/v2/deployments", server{"apis": apps, "apis/apps/v1": ofApps("v1"), "apis/apps/v1beta1": ofApps("v1beta1", "deployments")}, "{v1beta1 true} true", "apis apis/apps/v1 apis/apps/v1beta1"},
		"in no version":                  {"apps/v1/deployments", server{"apis": apps, "apis/apps/v1": ofApps("v1"), "apis/apps/v1beta1": ofApps("v1beta1", "others")}, "{ false} false", "apis apis/apps/v1 apis/apps/v1beta1"},
		"a version of another group":     {"apps/v1/deployments", server{"apis": strings.Replace(apps, `"batch"`, `"apps"`, 1)}, "the version \"v1\" of the group apps is listed as \"batch/v1\"", "apis"},
		"a group is listed twice":        {"apps/v1/deployments", server{"apis": strings.ReplaceAll(apps, "batch", "apps"), "apis/apps/v1": ofApps("v1"), "apis/apps/v1beta1": ofApps("v1beta1")}, "{ false} false", "apis apis/apps/v1 apis/apps/v1beta1"},
		"names are numbers":              {"apps/v1/deployments", server{"apis": `{"kind":"APIGroupList","groups":[7]}`}, "groups of another type", "apis"},
		"lists are objects":              {"apps/v1/deployments", server{"apis": `{"kind":"APIGroupList","groups":{}}`}, "has no groups", "apis"},
		"nothing":                        {"apps/v1/deployments", server{}, "no document", "apis"},
		"no core documents":              {"/v1/pods", server{"apis": apps}, "no document", "api"},
		"a version without document":     {"apps/v1/deployments", server{"apis": apps, "apis/apps/v1": ofApps("v1")}, "no document", "apis apis/apps/v1 apis/apps/v1beta1"},
		"only other versions' documents": {"apps/v1/deployments", server{"apis": apps, "apis/apps/v1beta1": ofApps("v1beta1")}, "no document", "apis apis/apps/v1"},
		"a page":                         {"apps/v1/deployments", server{"apis": "<html>hello</html>"}, "not an APIGroupList in JSON", "apis"},
		"a page as version":              {"apps/v1/deployments", server{"apis": apps, "apis/apps/v1": "<html>"}, "not an APIResourceList in JSON", "apis apis/apps/v1"},
		"empty":                          {"apps/v1/deployments", server{"apis": ""}, "not an APIGroupList in JSON", "apis"},
		"null":                           {"apps/v1/deployments", server{"apis": "null"}, "of the kind \"\"", "apis"},
		"JSON of another kind":           {"apps/v1/deployments", server{"apis": `{"status":"ok","groups":[]}`}, "of the kind \"\", not APIGroupList", "apis"},
		"a Status":                       {"apps/v1/deployments", server{"apis": `{"kind":"Status","groups":[]}`}, "of the kind \"Status\"", "apis"},
		"core document of groups":        {"/v1/pods", server{"api": noGroups}, "of the kind \"APIGroupList\", not APIVersions", "api"},
		"group document of core":         {"apps/v1/deployments", server{"apis": core}, "of the kind \"APIVersions\"", "apis"},
		"aggregated discovery":           {"apps/v1/deployments", server{"apis": `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}`}, "of the kind \"APIGroupDiscoveryList\"", "apis"},
		"groups are missing":             {"apps/v1/deployments", server{"apis": `{"kind":"APIGroupList"}`}, "has no groups", "apis"},
		"groups are null":                {"apps/v1/deployments", server{"apis": `{"kind":"APIGroupList","groups":null}`}, "has no groups", "apis"},
		"versions are missing":           {"/v1/pods", server{"api": `{"kind":"APIVersions"}`}, "has no versions", "api"},
		"resources are missing":          {"/v1/pods", server{"api": core, "api/v1": `{"kind":"APIResourceList","groupVersion":"v1"}`}, "has no resources", "api api/v1"},
		"the document of another group":  {"apps/v1/deployments", server{"apis": apps, "apis/apps/v1": `{"kind":"APIResourceList","groupVersion":"batch/v1","resources":[]}`}, "is of the version \"batch/v1\"", "apis apis/apps/v1"},
		"a group without a version":      {"apps/v1/deployments", server{"apis": listed()}, "listed without a version", "apis"},
		"a path as version":              {"apps/v1/deployments", server{"apis": listed(`{"groupVersion":"apps/../../secret","version":"../../secret"}`)}, "not the name of a version", "apis"},
		"an empty version":               {"apps/v1/deployments", server{"apis": listed(`{"groupVersion":"apps/","version":""}`)}, "not the name of a version", "apis"},
		"too many versions":              {"apps/v1/deployments", server{"apis": listed(manyVersions...)}, "more than 32 versions", "apis"},
		"too large":                      {"apps/v1/deployments", server{"apis": noGroups + strings.Repeat(" ", MaxBytes)}, "exceeds 4 MiB", "apis"},
		"more after the document":        {"apps/v1/deployments", server{"apis": noGroups + "<html>"}, "not an APIGroupList in JSON", "apis"},
	} {
		t.Run(name, func(t *testing.T) {
			parts := strings.Split(c.resource, "/")
			var asked []string
			in, ok, err := Find(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}, c.server.get(&asked))
			got := fmt.Sprintf("{%s %t} %t", in.Version, in.Namespaced, ok)
			if in.NoList {
				got += " without lists"
			}
			if err != nil {
				got = err.Error()
			}
			if err != nil && (ok || in != Served{}) {
				t.Errorf("an error with %v, %t", in, ok)
			}
			if err == nil && got != c.want || !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if strings.Contains(got, "hello") {
				t.Errorf("the error has content: %s", got)
			}
			if strings.Join(asked, " ") != c.asked {
				t.Errorf("asked for %q, want %s", asked, c.asked)
			}
		})
	}
}

// Find agrees with client-go's types: it says that a resource is absent only if the documents, read by those types, show it.
func FuzzFind(f *testing.F) {
	f.Add("apps", apps, ofApps("v1"), ofApps("v1beta1", "deployments"))
	f.Add("apps", apps, ofApps("v1"), ofApps("v1beta1"))
	f.Add("apps", noGroups, "", "")
	f.Add("", core, strings.Replace(pods, "pods", "deployments", 1), "")
	f.Add("", core, pods, "")
	f.Add("apps", `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"groupVersion":"apps/..","version":".."}]}]}`, "", "")
	f.Add("apps", `{"kind":"APIGroupList","groups":null}`, "null", "<html>")
	f.Fuzz(func(t *testing.T, group, root, first, second string) {
		if group != "" {
			group = "apps"
		}
		resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "deployments"}
		versions := []string{first, second}
		read := map[string]string{} // by version
		in, ok, err := Find(resource, func(path string) ([]byte, error) {
			if path == "api" || path == "apis" {
				return []byte(root), nil
			}
			version := path[strings.LastIndexByte(path, '/')+1:]
			if want := "api/" + version; group == "" && path != want || group != "" && path != "apis/apps/"+version {
				t.Fatalf("asked for %q", path)
			}
			if len(versions) == 0 {
				return nil, errNoDocument
			}
			read[version], versions = versions[0], versions[1:]
			return []byte(read[version]), nil
		})
		if err != nil {
			return
		}
		var listed []string
		if group == "" {
			var list metav1.APIVersions
			if err := json.Unmarshal([]byte(root), &list); err != nil || list.Kind != "APIVersions" {
				t.Fatalf("%v, kind %q", err, list.Kind)
			}
			listed = list.Versions
		} else {
			var list metav1.APIGroupList
			if err := json.Unmarshal([]byte(root), &list); err != nil || list.Kind != "APIGroupList" {
				return // metav1 reads more fields than Find
			}
			for _, g := range list.Groups {
				for _, v := range g.Versions {
					if g.Name == group {
						listed = append(listed, v.Version)
					}
				}
			}
		}
		found := false
		for _, version := range listed {
			body, asked := read[version]
			if !asked {
				if !ok {
					t.Fatalf("absent, but %q was not read", version)
				}
				continue
			}
			var list metav1.APIResourceList
			if err := json.Unmarshal([]byte(body), &list); err != nil {
				return
			}
			if list.Kind != "APIResourceList" || list.GroupVersion != (schema.GroupVersion{Group: group, Version: version}).String() {
				t.Fatalf("%s is a %s of %q", version, list.Kind, list.GroupVersion)
			}
			for _, r := range list.APIResources {
				found = found || r.Name == resource.Resource
			}
		}
		if found != ok || ok && !slices.Contains(listed, in.Version) {
			t.Fatalf("Find returns %v, %t; the documents have it: %t", in, ok, found)
		}
	})
}

// FindVersion asks for one document, which has the kind of the resource.
// Guarantees: R22
func TestKindInOneVersion(t *testing.T) {
	var asked []string
	core := server{"api/v1": pods}
	in, ok, err := FindVersion(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, core.get(&asked))
	if want := (Served{Version: "v1", Namespaced: true, Kind: "Pod"}); err != nil || !ok || in != want {
		t.Errorf("got %+v, %t, %v, want %+v", in, ok, err, want)
	}
	if _, ok, err := FindVersion(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, core.get(&asked)); ok || err != nil {
		t.Errorf("a resource that it lacks: %t, %v", ok, err)
	}
	if _, ok, err := FindVersion(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "pods"}, core.get(&asked)); ok || err == nil {
		t.Errorf("no document: %t, %v", ok, err)
	}
	if got := strings.Join(asked, " "); got != "api/v1 api/v1 apis/apps/v1" {
		t.Errorf("asked for %s", got)
	}
}
