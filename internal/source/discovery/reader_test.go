package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"

	"github.com/typedinformer/informer/status"
)

// read reads everything from s, which has discovery documents by path, and returns also what it was asked for.
func read(r *Reader, s server) (d status.Discovery, asked []string, err error) {
	var mu sync.Mutex // protects asked
	d, err = r.Read(context.Background(), "https://server", func(_ context.Context, req Request) (Document, error) {
		mu.Lock()
		defer mu.Unlock()
		path := req.Path
		if req.ETag != "" {
			path += " unless " + req.ETag
		}
		asked = append(asked, path)
		body, ok := s[req.Path]
		tag, isTagged := s[req.Path+" tag"]
		switch {
		case s[req.Path+" unchanged"] != "":
			return Document{NotModified: true}, nil
		case !ok:
			return Document{}, errNoDocument
		case isTagged && tag == req.ETag:
			return Document{ETag: tag, NotModified: true}, nil
		}
		return Document{Body: []byte(body), ETag: tag}, nil
	})
	slices.Sort(asked)
	return d, asked, err
}

// text describes a discovery in one line.
func text(d status.Discovery) string {
	var b strings.Builder
	for _, group := range d.Groups {
		fmt.Fprintf(&b, "[%s", group.Name)
		if group.Err != nil {
			fmt.Fprintf(&b, " ERROR %v", group.Err)
		}
		for _, version := range group.Versions {
			fmt.Fprintf(&b, " %s(%v", version.Version, version.Freshness)
			if version.Err != nil {
				fmt.Fprintf(&b, " ERROR %v", version.Err)
			}
			for _, r := range version.Resources {
				fmt.Fprintf(&b, " %s=%s", r.Resource, r.Kind)
				if r.Namespaced {
					b.WriteString("/ns")
				}
				for _, list := range [][]string{r.Verbs, r.ShortNames, r.Categories} {
					if len(list) > 0 {
						b.WriteString(":" + strings.Join(list, ","))
					}
				}
				if r.Group != group.Name || r.Version != version.Version {
					fmt.Fprintf(&b, " of %v", r.GroupVersionResource)
				}
			}
			b.WriteString(")")
		}
		b.WriteString("]")
	}
	return b.String()
}

// items returns an aggregated document with these items.
func items(all ...string) string {
	return `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[` + strings.Join(all, ",") + `]}`
}

// item returns the entry of a group in an aggregated document.
func item(name string, versions ...string) string {
	return `{"metadata":{"name":"` + name + `","creationTimestamp":null},"versions":[` + strings.Join(versions, ",") + `]}`
}

// ofVersion returns the entry of a version in an aggregated document.
func ofVersion(version, freshness string, resources ...string) string {
	return `{"version":"` + version + `","freshness":"` + freshness + `","resources":[` + strings.Join(resources, ",") + `]}`
}

// kindEntry returns the entry of a resource in an aggregated document.
func kindEntry(name, kind, more string) string {
	return `{"resource":"` + name + `","responseKind":{"group":"","version":"","kind":"` + kind + `"},"scope":"Namespaced","singularResource":"x"` + more + `}`
}

var podEntry = kindEntry("pods", "Pod", `,"verbs":["get","list"],"shortNames":["po"],"categories":["all"],"subresources":[{"subresource":"status"}]`)

// A group or version that cannot be read has an error. The result has all other groups and versions.
func TestReader(t *testing.T) {
	node := `{"resource":"nodes","responseKind":null,"scope":"Cluster"}`
	coreDocument := items(item("", ofVersion("v1", "Current", podEntry, node)))
	const corePods = "[ v1(Current pods=Pod/ns:get,list:po:all nodes=)]"
	manyVersions := make([]string, maxVersions+1)
	for i := range manyVersions {
		manyVersions[i] = ofVersion(fmt.Sprintf("v%d", i), "Current")
	}
	widgets := kindEntry("widgets", "Widget", "")
	versions := func(group string, versions ...string) string {
		var all []string
		for _, v := range versions {
			all = append(all, `{"groupVersion":"`+group+"/"+v+`","version":"`+v+`"}`)
		}
		return `"name":"` + group + `","versions":[` + strings.Join(all, ",") + `]`
	}
	plainGroups := func(groups ...string) string {
		return `{"kind":"APIGroupList","groups":[{` + strings.Join(groups, "},{") + `}]}`
	}
	resources := func(gv, list string) string {
		return `{"kind":"APIResourceList","groupVersion":"` + gv + `","resources":` + list + `}`
	}
	for name, c := range map[string]struct {
		api, apis string // documents
		more      server // other documents
		want      string // a part of the error, or the result without the core group
	}{
		"two groups in order":       {apis: items(item("b", ofVersion("v2", "Current", widgets), ofVersion("v1", "Current", widgets)), item("a", ofVersion("v1", "Current"))), want: "[b v2(Current widgets=Widget/ns) v1(Current widgets=Widget/ns)][a v1(Current)]"},
		"v2beta1":                   {apis: strings.Replace(items(item("b", ofVersion("v2", "Current", widgets))), "io/v2", "io/v2beta1", 1), want: "[b v2(Current widgets=Widget/ns)]"},
		"stale":                     {apis: items(item("b", ofVersion("v2", "Stale", widgets))), want: "[b v2(Stale widgets=Widget/ns)]"},
		"stale and never read":      {apis: items(item("b", `{"version":"v1","freshness":"Stale"}`)), want: "[b v1(Stale)]"},
		"another freshness":         {apis: items(item("b", ofVersion("v2", "Fresh"))), want: "[b v2(Stale)]"},
		"no groups":                 {apis: items(), want: ""},
		"a version twice":           {apis: items(item("b", ofVersion("v2", "Current", widgets), ofVersion("v2", "Stale"))), want: "[b v2(Current widgets=Widget/ns)]"},
		"a page":                    {apis: "<html>hello</html>", want: "/apis: the document is not JSON"},
		"empty":                     {apis: "", want: "/apis: the document is not JSON"},
		"another kind":              {apis: `{"kind":"Status"}`, want: `/apis: the document is of the kind "Status", not APIGroupList`},
		"the document of the core":  {apis: coreDocument, want: `/apis: "" is not the name of a group`},
		"another API version":       {apis: strings.Replace(items(), "apidiscovery", "another", 1), want: `of the API version "another.k8s.io/v2"`},
		"more after the document":   {apis: items() + "{}", want: "not JSON"},
		"items are missing":         {apis: `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"}`, want: "has no items"},
		"items are an object":       {apis: `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":{}}`, want: "has no items"},
		"an item is a number":       {apis: items("7"), want: "items of another type"},
		"a path as group":           {apis: items(item("a/../b", ofVersion("v1", "Current"))), want: "is not the name of a group"},
		"a group twice":             {apis: items(item("a", ofVersion("v1", "Current")), item("a", ofVersion("v1", "Current"))), want: `the group "a" is listed twice`},
		"too large":                 {apis: items() + strings.Repeat(" ", maxAggregated), want: "exceeds 16 MiB"},
		"too many groups":           {apis: items(many(maxGroups+1, func(i int) string { return item(fmt.Sprint("g", i), ofVersion("v1", "Current")) })...), want: "more than 2000 groups"},
		"too many resources":        {apis: items(item("b", ofVersion("v1", "Current", many(maxResources+1, func(int) string { return `{"scope":"Cluster","resource":"x"}` })...))), want: "more than 20000 resources"},
		"a group without a version": {apis: items(item("b"), item("a", ofVersion("v1", "Current"))), want: "[b ERROR it is listed without a version][a v1(Current)]"},
		"versions are missing":      {apis: items(`{"metadata":{"name":"b"}}`, item("a", ofVersion("v1", "Current"))), want: "[b ERROR the document has no versions][a v1(Current)]"},
		"a path as version":         {apis: items(item("b", ofVersion("../x", "Current")), item("a", ofVersion("v1", "Current"))), want: `[b ERROR "../x" is not the name of a version][a v1(Current)]`},
		"too many versions":         {apis: items(item("b", manyVersions...), item("a", ofVersion("v1", "Current"))), want: `[b ERROR the group "b" has more than 32 versions][a v1(Current)]`},
		"a path as resource":        {apis: items(item("b", ofVersion("v1", "Current", kindEntry("../x", "X", "")), ofVersion("v2", "Current", widgets))), want: `[b v1(Stale ERROR "../x" is not the name of a resource) v2(Current widgets=Widget/ns)]`},
		"a resource without a name": {apis: items(item("b", ofVersion("v1", "Current", kindEntry("", "X", "")))), want: `[b v1(Stale ERROR "" is not the name of a resource)]`},
		"another scope":             {apis: items(item("b", ofVersion("v1", "Current", `{"resource":"x","scope":"World"}`))), want: `[b v1(Stale ERROR the resource "x" has the scope "World")]`},
		"too many verbs":            {apis: items(item("b", ofVersion("v1", "Current", kindEntry("x", "X", `,"verbs":["`+strings.Repeat(`x","`, maxVerbs)+`y"]`)))), want: "[b v1(Stale ERROR a resource has more than 64 verbs)]"},
		"too many short names":      {apis: items(item("b", ofVersion("v1", "Current", kindEntry("x", "X", `,"shortNames":["`+strings.Repeat(`x","`, maxVerbs)+`y"]`)))), want: "more than 64 short names"},
		"categories are numbers":    {apis: items(item("b", ofVersion("v1", "Current", kindEntry("x", "X", `,"categories":[7]`)))), want: "categories of another type"},
		"core is no document":       {api: "<html>", apis: items(item("a", ofVersion("v1", "Current"))), want: "[ ERROR /api: the document is not JSON][a v1(Current)]"},
		"core has another group":    {api: items(item("a", ofVersion("v1", "Current"))), apis: items(), want: `[ ERROR /api: "a" is not the name of a group]`},
		"unchanged but never sent":  {more: server{"apis unchanged": "yes"}, want: "that it never sent"},
		"no document":               {want: "no document"},
		"plain":                     {apis: plainGroups(versions("b", "v2", "v1")), more: server{"apis/b/v2": resources("b/v2", `[{"name":"widgets","kind":"Widget","namespaced":true,"verbs":["list"],"shortNames":["w"],"categories":["all"]},{"name":"widgets/status","kind":"Widget"}]`), "apis/b/v1": resources("b/v1", "[]")}, want: "[b v2(Current widgets=Widget/ns:list:w:all) v1(Current)]"},
		"plain, preferred first":    {apis: plainGroups(versions("b", "v2", "v1") + `,"preferredVersion":{"version":"v1"}`), more: server{"apis/b/v2": resources("b/v2", "[]"), "apis/b/v1": resources("b/v1", "[]")}, want: "[b v1(Current) v2(Current)]"},
		"plain, prefers another":    {apis: plainGroups(versions("b", "v2") + `,"preferredVersion":{"version":"../v1"}`), more: server{"apis/b/v2": resources("b/v2", "[]")}, want: "[b v2(Current)]"},
		"plain, a version fails":    {apis: plainGroups(versions("b", "v1"), versions("a", "v1")), more: server{"apis/a/v1": resources("a/v1", "[]")}, want: "[b v1(Stale ERROR no document)][a v1(Current)]"},
		"plain, another version":    {apis: plainGroups(versions("b", "v1")), more: server{"apis/b/v1": resources("a/v1", "[]")}, want: `[b v1(Stale ERROR /apis/b/v1: the APIResourceList is of the version "a/v1")]`},
		"plain, no versions":        {apis: plainGroups(versions("b"), versions("a", "v1")), more: server{"apis/a/v1": resources("a/v1", "[]")}, want: "[b ERROR the group b is listed without a version][a v1(Current)]"},
		"plain, an invalid name":    {apis: plainGroups(versions("b", "v1")), more: server{"apis/b/v1": resources("b/v1", `[{"name":""}]`)}, want: `[b v1(Stale ERROR /apis/b/v1: "" is not the name of a resource)]`},
		"plain, a group twice":      {apis: plainGroups(versions("b", "v1"), versions("b", "v1")), want: `the group "b" is listed twice`},
		"plain, too many documents": {apis: plainGroups(many(maxDocuments/20+1, func(i int) string {
			return versions(fmt.Sprint("g", i), many(20, func(i int) string { return fmt.Sprint("v", i) })...)
		})...), want: "2020 versions of groups"},
		"core is plain":                {api: core, apis: items(), more: server{"api/v1": pods}, want: "[ v1(Current pods=Pod/ns nodes=)]"},
		"core is plain, without more":  {api: `{"kind":"APIVersions","versions":[]}`, apis: items(), want: ""},
		"core is plain, version fails": {api: core, apis: items(), want: "[ v1(Stale ERROR no document)]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := server{"api": coreDocument}
			for path, body := range c.more {
				s[path] = body
			}
			if c.api != "" {
				s["api"] = c.api
			}
			if name != "no document" {
				s["apis"] = c.apis
			}
			d, _, err := read(new(Reader), s)
			got := strings.TrimPrefix(text(d), corePods)
			if err != nil {
				got = err.Error()
				if len(d.Groups) > 0 {
					t.Errorf("an error with %s", text(d))
				}
			}
			isPart := err != nil || strings.Contains(got, "ERROR") || strings.Contains(got, "more than")
			if got != c.want && !(isPart && c.want != "" && strings.Contains(got, c.want)) {
				t.Errorf("got %.300s, want %s", got, c.want)
			}
			if strings.Contains(got, "hello") {
				t.Errorf("the error has content: %s", got)
			}
			if failed := d.Err() != nil; failed != strings.Contains(text(d), "ERROR") {
				t.Errorf("Err returns %v for %s", d.Err(), text(d))
			}
		})
	}
}

// many returns n texts.
func many(n int, text func(i int) string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = text(i)
	}
	return all
}

// Discovery that has not changed costs no body.
func TestReaderCachesByETag(t *testing.T) {
	var r Reader
	s := server{
		"api": items(item("", ofVersion("v1", "Current", podEntry))), "api tag": "core",
		"apis": items(item("a", ofVersion("v1", "Current"))), "apis tag": "first",
	}
	first, asked, err := read(&r, s)
	if err != nil || strings.Join(asked, " ") != "api apis" {
		t.Fatalf("asked for %q, %v", asked, err)
	}
	second, asked, err := read(&r, s)
	if err != nil || text(second) != text(first) || strings.Join(asked, " ") != "api unless core apis unless first" {
		t.Errorf("got %s, %v after %q", text(second), err, asked)
	}
	s["apis"], s["apis tag"] = items(item("b", ofVersion("v1", "Current"))), "second"
	third, _, err := read(&r, s)
	if want := strings.Replace(text(first), "[a ", "[b ", 1); err != nil || text(third) != want {
		t.Errorf("got %s, %v, want %s", text(third), err, want)
	}
	s["apis"] = "<html>"
	delete(s, "apis tag")
	if _, _, err := read(&r, s); err == nil {
		t.Error("no error for a page")
	}
	s["apis"], s["apis tag"] = "not read", "second"
	if d, _, err := read(&r, s); err != nil || text(d) != text(third) {
		t.Errorf("after an error: %s, %v", text(d), err)
	}
	var paths []string
	_, _ = r.Read(t.Context(), "https://another", func(_ context.Context, req Request) (Document, error) {
		if req.ETag != "" {
			paths = append(paths, req.Path)
		}
		return Document{}, errNoDocument
	})
	if len(paths) > 0 {
		t.Errorf("another server is asked with the ETags of %q", paths)
	}
}

// A hostile document of many small items needs no more memory than another.
func TestReaderMemoryIsLimited(t *testing.T) {
	for name, c := range map[string]struct{ head, unit, tail string }{
		"groups":    {strings.TrimSuffix(items(), "]}"), `{"metadata":{"name":"g#"},"versions":[]}`, "]}"},
		"versions":  {strings.TrimSuffix(items(), "]}") + `{"metadata":{"name":"a"},"versions":[`, `{"version":"v#","freshness":"Current","resources":[]}`, "]}]}"},
		"resources": {strings.TrimSuffix(items(), "]}") + `{"metadata":{"name":"a"},"versions":[{"version":"v1","resources":[`, podEntry, "]}]}]}"},
		"verbs":     {strings.TrimSuffix(items(), "]}") + `{"metadata":{"name":"a"},"versions":[{"version":"v1","resources":[{"scope":"Cluster","resource":"a","verbs":[`, `""`, "]}]}]}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 1 << 20 / (len(c.unit) + 1)
			var units []string
			for i := range n {
				units = append(units, strings.ReplaceAll(c.unit, "#", strconv.Itoa(i)))
			}
			s := server{"api": items(), "apis": c.head + strings.Join(units, ",") + c.tail}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := read(new(Reader), s)
			runtime.ReadMemStats(&after)
			if needs := after.TotalAlloc - before.TotalAlloc; needs > 40<<20 {
				t.Errorf("%d bytes for a document of %d", needs, len(s["apis"]))
			} else {
				t.Logf("%.1f times the document; %v", float64(needs)/float64(len(s["apis"])), err)
			}
			if tooMany := n > maxGroups && name == "groups"; (err != nil) != tooMany {
				t.Errorf("%d %s: %v", n, name, err)
			}
		})
	}
}

// A Reader agrees with the types of Kubernetes: each resource that it finds is there, and it finds each that is there,
// unless it returns an error for it.
func FuzzAggregated(f *testing.F) {
	f.Add([]byte(items(item("a", ofVersion("v1", "Current", podEntry), ofVersion("v2", "Stale")))))
	f.Add([]byte(items(item("a", ofVersion("v1", "Current", podEntry)), item("b", ofVersion("v1", "Fresh", podEntry, podEntry)))))
	f.Add([]byte(items(item("a/..", ofVersion("v1", "Current", podEntry)))))
	f.Add([]byte(items(item("a", ofVersion("../v1", "Current", podEntry)))))
	f.Add([]byte(items(`{"metadata":null,"versions":null}`)))
	f.Add([]byte(`{"kind":"APIGroupDiscoveryList","items":null}`))
	f.Add([]byte(`<html>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		groups, err := aggregated("apis", body)
		if err != nil {
			return
		}
		found := map[string]bool{} // by group, version and resource
		unknown := map[string]bool{}
		for _, g := range groups {
			unknown[g.Name] = g.Err != nil
			for _, v := range g.Versions {
				unknown[g.Name+"/"+v.Version] = v.Err != nil
				for _, r := range v.Resources {
					id := g.Name + "/" + v.Version + "/" + r.Resource
					if strings.Count(id, "/") != 2 || strings.Contains(id, "..") && bytes.Contains(body, []byte("/..")) {
						t.Fatalf("%q is no path", id)
					}
					found[id] = true
				}
			}
		}
		var list apidiscovery.APIGroupDiscoveryList
		if json.Unmarshal(body, &list) != nil {
			return // it reads more fields than a Reader
		}
		for _, g := range list.Items {
			for i, v := range g.Versions {
				id := g.Name + "/" + v.Version
				if unknown[g.Name] || unknown[id] || slices.ContainsFunc(g.Versions[:i], func(o apidiscovery.APIVersionDiscovery) bool { return o.Version == v.Version }) {
					continue
				}
				for _, r := range v.Resources {
					if !found[id+"/"+r.Resource] {
						t.Fatalf("%s/%s was not found", id, r.Resource)
					}
				}
			}
		}
		if len(list.Items) == 0 && len(found) > 0 {
			t.Fatal("resources of an empty document")
		}
	})
}
