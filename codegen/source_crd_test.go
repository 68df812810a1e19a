package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// crdOf returns a CRD of shop.example.com/v1 without fields.
func crdOf(kind, plural, scope string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.shop.example.com}
spec:
  group: shop.example.com
  scope: %[3]s
  names: {kind: %[1]s, plural: %[2]s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, kind, plural, scope)
}

// The URL has the plural of a CRD. Names in Go have the plural of the kind, as those of client-gen.
func TestPluralsOfCRDs(t *testing.T) {
	for name, test := range map[string]struct{ crd, flags, want string }{
		"usual":     {crdOf("Policy", "policies", "Namespaced"), "", "Policies policies namespaced"},
		"another":   {crdOf("NodePool", "karpenterpools", "Cluster"), "", "NodePools karpenterpools"},
		"singular":  {crdOf("Shelf", "shelf", "Cluster"), "", "Shelves shelf"},
		"by a flag": {crdOf("Staff", "staff", "Namespaced"), "-plural-exceptions Staff:Staff", "Staff staff namespaced"},
	} {
		t.Run(name, func(t *testing.T) {
			k := kindsOf(t, test.crd, test.flags)
			if len(k) != 1 || fmt.Sprint(k[0].Plural, " ", k[0].Resource, map[bool]string{true: " namespaced"}[k[0].Namespaced]) != test.want {
				t.Errorf("%+v, want %s", k, test.want)
			}
		})
	}
}

// Only definitions of apiextensions.k8s.io are CRDs: another group may have a kind of that name.
func TestDefinitionsOfOtherGroups(t *testing.T) {
	crd := crdOf("Policy", "policies", "Cluster")
	other := strings.Replace(crdOf("Gear", "gears", "Cluster"), "apiextensions.k8s.io/v1", "apis.example.com/v1", 1)
	if kinds := kindsOf(t, other+"---\n"+crd, ""); len(kinds) != 1 || kinds[0].Name != "Policy" {
		t.Errorf("%+v", kinds)
	}
}

// kindsOf returns the kinds of a file of CRDs, which are all of one version.
func kindsOf(t *testing.T, text, flags string) []kind {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	apis, err := loaded(t, append(strings.Fields(flags), "-crd", file)...)
	if err != nil || len(apis) != 1 {
		t.Fatalf("%d groups, %v", len(apis), err)
	}
	return apis[0].Kinds
}
