// Package realapis runs codegen on popular APIs, and compares the resources with those of the servers. It is a separate
// module because of its dependencies.
package realapis

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	_ "github.com/typedinformer/informer"
	_ "github.com/typedinformer/informer/compat"
	_ "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	_ "sigs.k8s.io/gateway-api/apis/v1"
)

// resource is a resource of a server.
type resource struct{ group, version, name string }

type described struct {
	kind       string
	namespaced bool
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

var (
	resourceLine    = regexp.MustCompile(`(?m)^var (\w+)Resource = schema\.GroupVersionResource\{(?:Group: "(.*?)", )?Version: "(.*?)", Resource: "(.*?)"\}`)
	constructorLine = regexp.MustCompile(`(?m)^func New(\w+)Informer\(.*namespaces \.\.\.string\)`)
)

// generated returns the resources in the generated files below dir.
func generated(t *testing.T, dir string) map[resource]described {
	files, err := filepath.Glob(filepath.Join(dir, "*/*/informers.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	found := map[resource]described{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		namespaced := map[string]bool{}
		for _, m := range constructorLine.FindAllStringSubmatch(string(text), -1) {
			namespaced[m[1]] = true
		}
		for _, m := range resourceLine.FindAllStringSubmatch(string(text), -1) {
			found[resource{m[2], m[3], m[4]}] = described{m[1], namespaced[m[1]]}
		}
	}
	return found
}

// moduleDir returns the directory of a module. It downloads the module if needed.
func moduleDir(t *testing.T, module string) string {
	var m struct{ Dir string }
	if err := json.Unmarshal([]byte(run(t, "go", "mod", "download", "-json", module)), &m); err != nil {
		t.Fatal(err)
	}
	return m.Dir
}

// crds returns the resources that the custom resource definitions in files define.
func crds(t *testing.T, patterns ...string) map[resource]described {
	found := map[resource]described{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, crd := range definitions(t, files...) {
			for _, v := range crd.Spec.Versions {
				if v.Served {
					namespaced := crd.Spec.Scope == apiextensionsv1.NamespaceScoped
					found[resource{crd.Spec.Group, v.Name, crd.Spec.Names.Plural}] = described{crd.Spec.Names.Kind, namespaced}
				}
			}
		}
	}
	return found
}

// compare reports resources that are generated but not served, or served but not generated, in the versions that have
// both.
func compare(t *testing.T, got, want map[resource]described, atLeast int) {
	t.Helper()
	versions := map[string]int{}
	version := func(r resource) string { return r.group + "/" + r.version }
	for r := range got {
		versions[version(r)] |= 1
	}
	for r := range want {
		versions[version(r)] |= 2
	}
	same := 0
	for r, d := range want {
		have, ok := got[r]
		switch {
		case versions[version(r)] != 3:
		case !ok:
			t.Errorf("%v, a %s, is served and not generated", r, d.kind)
		case have != d:
			t.Errorf("%v is %+v, want %+v", r, have, d)
		default:
			same++
		}
	}
	for r, d := range got {
		if _, ok := want[r]; versions[version(r)] == 3 && !ok {
			t.Errorf("%v, a %s, is generated and not served", r, d.kind)
		}
	}
	t.Logf("%d resources are the same", same)
	if same < atLeast {
		t.Errorf("only %d resources are the same, want %d", same, atLeast)
	}
}

// What codegen writes for popular APIs compiles. TestGoTypesOfPublishedCRDs compares the resources.
func TestRealAPIs(t *testing.T) {
	dir, err := os.MkdirTemp(".", "generated-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run(t, "go", "tool", "codegen", "-output-dir", dir,
		"github.com/cert-manager/cert-manager/pkg/apis/...",
		"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1",
		"k8s.io/api/apps/v1",
		"k8s.io/api/networking/v1",
		"sigs.k8s.io/gateway-api/apis/v1",
	)
	run(t, "go", "tool", "codegen", "-compat", "-output-dir", dir+"/compat", "sigs.k8s.io/gateway-api/apis/v1")
	run(t, "go", "build", "./"+dir+"/...")
	run(t, "go", "tool", "codegen", "-compat", "-check", "-output-dir", dir+"/compat", "sigs.k8s.io/gateway-api/apis/v1")
}

// This compares the library's packages for Kubernetes itself with the discovery in kube-apiserver's source.
func TestBuiltinResources(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleDir(t, "k8s.io/kubernetes@v1.36.3"), "api/discovery/aggregated_v2.json"))
	if err != nil {
		t.Fatal(err)
	}
	var discovery struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct {
				Version   string
				Resources []struct {
					Resource     string
					Scope        string
					Verbs        []string
					ResponseKind struct{ Kind string }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &discovery); err != nil {
		t.Fatal(err)
	}
	got := generated(t, "../../../k8s")
	served := map[resource]described{}
	for _, group := range discovery.Items {
		for _, v := range group.Versions {
			for _, r := range v.Resources {
				if strings.Contains(fmt.Sprint(r.Verbs), "watch") {
					served[resource{group.Metadata.Name, v.Version, r.Resource}] = described{r.ResponseKind.Kind, r.Scope == "Namespaced"}
				}
			}
		}
	}
	for r := range got { // a type of k8s.io/api may be older or newer than that server
		if _, ok := served[r]; !ok {
			delete(got, r)
		}
	}
	// The library's packages have the types of the oldest k8s.io/api that it works with, v0.35. These came later.
	for _, r := range []resource{
		{"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies"},
		{"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings"},
		{"resource.k8s.io", "v1alpha3", "resourcepoolstatusrequests"},
		{"resource.k8s.io", "v1beta2", "devicetaintrules"},
	} {
		if _, ok := got[r]; ok {
			t.Errorf("%v is generated, so it is no exception", r)
		}
		delete(served, r)
	}
	compare(t, got, served, 64)
}
