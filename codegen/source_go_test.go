package main

import (
	"strings"
	"testing"
)

// The group and version of a package are those of SchemeGroupVersion, else of GroupVersion, else of another variable,
// else of the markers. Markers that say something else are an error.
func TestGroupVersionOfAPackage(t *testing.T) {
	const (
		other       = "var Internal = schema.GroupVersion{Group: \"internal.com\", Version: \"v1\"}\n"
		usual       = "var GroupVersion = schema.GroupVersion{Group: \"usual.com\", Version: \"v2\"}\n"
		scheme      = "var SchemeGroupVersion = schema.GroupVersion{Group: \"scheme.com\", Version: \"v3\"}\n"
		notConstant = "var SchemeGroupVersion = schema.GroupVersion{Group: name(), Version: \"v3\"}\n\nfunc name() string { return \"\" }\n"
	)
	for name, test := range map[string]struct{ markers, variables, want, fail string }{
		"markers":                       {"+groupName=shop.com +versionName=v9", "", "shop.com/v9", ""},
		"a marker":                      {"+groupName=shop.com", "", "shop.com/v1", ""},
		"any variable":                  {"", other, "internal.com/v1", ""},
		"GroupVersion last":             {"", other + usual, "usual.com/v2", ""},
		"GroupVersion first":            {"", usual + other, "usual.com/v2", ""},
		"SchemeGroupVersion last":       {"", other + usual + scheme, "scheme.com/v3", ""},
		"SchemeGroupVersion first":      {"", scheme + usual + other, "scheme.com/v3", ""},
		"a variable without constants":  {"", usual + notConstant, "usual.com/v2", ""},
		"a variable and equal markers":  {"+groupName=usual.com +versionName=v2", usual, "usual.com/v2", ""},
		"a variable of another group":   {"+groupName=shop.com", usual, "", `v1/types.go:1: +groupName=shop.com: GroupVersion at v1/types.go:6 says "usual.com"`},
		"a variable of another version": {"+versionName=v1", usual, "", `v1/types.go:1: +versionName=v1: GroupVersion at v1/types.go:6 says "v2"`},
		"nothing":                       {"", "", "", "has no API group"},
	} {
		t.Run(name, func(t *testing.T) {
			source := "package v1\n\nimport _ \"k8s.io/apimachinery/pkg/runtime/schema\"\n\n"
			if test.variables != "" {
				source = strings.Replace(source, "_ ", "", 1)
			}
			for _, marker := range strings.Fields(test.markers) {
				source = "// " + marker + "\n" + source
			}
			_, types, _ := strings.Cut(objects("+genclient", "Widget"), "package v1\n")
			inModule(t, map[string]string{
				"go.mod": "module example.com/shop\n\ngo 1.26\n\nrequire k8s.io/apimachinery v0.0.0\n\n" +
					"replace k8s.io/apimachinery => ./fake\n",
				"fake/go.mod":                       "module k8s.io/apimachinery\n\ngo 1.26\n",
				"fake/pkg/runtime/schema/schema.go": "package schema\n\ntype GroupVersion struct{ Group, Version string }\n",
				"v1/types.go":                       source + test.variables + types,
			})
			apis, err := loaded(t, "./v1")
			switch {
			case test.fail != "":
				if !strings.Contains(errorText(err), test.fail) {
					t.Errorf("error %v, want %q", err, test.fail)
				}
			case err != nil || len(apis) != 1:
				t.Errorf("%d groups, %v", len(apis), err)
			case apis[0].GroupVersion() != test.want:
				t.Errorf("%s, want %s", apis[0].GroupVersion(), test.want)
			}
		})
	}
}
