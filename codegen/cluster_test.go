package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// cluster starts a server that lists CRDs in pages of one. Clients need the token in the kubeconfig that it returns.
func cluster(t *testing.T, names ...string) (kubeconfig string) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind": "Status", "message": "no token"}`)
			return
		}
		if r.URL.Path != "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" {
			t.Errorf("request of %s", r.URL)
		}
		index := 0
		fmt.Sscan(r.URL.Query().Get("continue"), &index)
		next := ""
		if index+1 < len(names) {
			next = fmt.Sprint(index + 1)
		}
		plural, group, _ := strings.Cut(names[index], ".")
		fmt.Fprintf(w, `{"kind": "CustomResourceDefinitionList", "metadata": {"continue": %q}, "items": [{"metadata": {"name": %q}, "spec": {
			"group": %q, "scope": "Cluster", "names": {"kind": %q, "plural": %q}, "versions": [{"name": "v1", "served": true, "storage": true,
			"schema": {"openAPIV3Schema": {"type": "object"}}}]}}]}`, next, names[index], group, upperFirst(plural), plural)
	}))
	t.Cleanup(server.Close)
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"clusters": []any{map[string]any{"name": "a", "cluster": map[string]any{"server": server.URL, "insecure-skip-tls-verify": true}}},
		"users": []any{map[string]any{"name": "a", "user": map[string]any{"token": "secret"}},
			map[string]any{"name": "b", "user": map[string]any{"token": "wrong"}}},
		"contexts": []any{map[string]any{"name": "a", "context": map[string]any{"cluster": "a", "user": "a"}},
			map[string]any{"name": "b", "context": map[string]any{"cluster": "a", "user": "b"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// CRDs of a cluster are chosen by their names and by their groups.
func TestFromCluster(t *testing.T) {
	kubeconfig := cluster(t, "widgets.shop.example.com", "gears.shop.example.com", "racks.depot.example.com", "boxes.depot.example.com")
	for name, test := range map[string]struct{ args, want string }{
		"a CRD":              {"widgets.shop.example.com", "shop.example.com/v1: Widgets"},
		"a group":            {"shop.example.com", "shop.example.com/v1: Gears Widgets"},
		"both, and twice":    {"depot.example.com,racks.depot.example.com,widgets.shop.example.com", "depot.example.com/v1: Boxes Racks; shop.example.com/v1: Widgets"},
		"with one left out":  {"shop.example.com -exclude gears.shop.example.com", "shop.example.com/v1: Widgets"},
		"a group by another": {"depot.example.com -context a", "depot.example.com/v1: Boxes Racks"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(append([]string{"-kubeconfig", kubeconfig, "-from-cluster"}, strings.Fields(test.args)...), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			apis, err := o.load()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range apis {
				text := a.GroupVersion() + ":"
				for _, k := range a.Kinds {
					text += " " + k.Name
				}
				got = append(got, text)
			}
			if got := strings.Join(got, "; "); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Errors of a cluster contain the name that was requested, and the server's message.
func TestFromClusterErrors(t *testing.T) {
	kubeconfig := cluster(t, "widgets.shop.example.com")
	for args, want := range map[string]string{
		"-kubeconfig " + kubeconfig + " -from-cluster gears.shop.example.com":         "has neither a CRD nor a group with CRDs of this name",
		"-kubeconfig " + kubeconfig + " -context b -from-cluster shop.example.com":    "403 Forbidden: no token",
		"-kubeconfig " + kubeconfig + " -context none -from-cluster shop.example.com": `context "none" does not exist`,
		"-kubeconfig nowhere -from-cluster shop.example.com":                          "-from-cluster: stat nowhere: no such file or directory",
		"-from-cluster Shop":                             `"Shop": want names of CRDs`,
		"-kubeconfig x ./...":                            "-kubeconfig and -context need -from-cluster",
		"-from-cluster a -factory x/clientset/versioned": "excludes -crd",
	} {
		if err := run(strings.Fields(args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
}
