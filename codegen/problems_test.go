package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An error in a package is reported once, with a file and a line where it has one.
func TestProblems(t *testing.T) {
	for name, test := range map[string]struct{ args, source, want string }{
		"a missing folder": {"./nowhere", "package v1\n", "directory not found"},
		"a missing package": {"example.com/nowhere/v1 example.com/nowhere/v2", "package v1\n",
			"no required module provides package example.com/nowhere/v1: run go get example.com/nowhere/v1\n" +
				"no required module provides package example.com/nowhere/v2: run go get example.com/nowhere/v2"},
		"a syntax error": {"./v1", objects("+genclient", "Widget") + "}\n",
			"v1/types.go:18: expected declaration, found '}'"},
		"no metadata, because of an import": {"./...",
			"// +groupName=a.b\npackage v1\n\nimport metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n\n// +genclient\ntype W struct{ metav1.ObjectMeta }\n",
			"v1/types.go:6: type W: +genclient: the type has no method GetNamespace: it does not embed metav1.ObjectMeta\n" +
				"v1/types.go:4: could not import k8s.io/apimachinery/pkg/apis/meta/v1: no required module provides package k8s.io/apimachinery/pkg/apis/meta/v1: run go get k8s.io/apimachinery/pkg/apis/meta/v1"},
		"no metadata of what may be a resource": {"./...",
			"// +groupName=a.b\npackage v1\n\nimport metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n\n// +kubebuilder:object:root=true\ntype W struct{ metav1.ObjectMeta }\n",
			"v1/types.go:6: type W: +kubebuilder:object:root=true: the type of an embedded field is not known\n" +
				"v1/types.go:4: could not import k8s.io/apimachinery/pkg/apis/meta/v1: no required module provides package k8s.io/apimachinery/pkg/apis/meta/v1: run go get k8s.io/apimachinery/pkg/apis/meta/v1"},
		"an undefined name": {"./v1", "// +groupName=a.b\npackage v1\n\n// +genclient\ntype W struct{ missing.ObjectMeta }\n",
			"v1/types.go:4: type W: +genclient: the type has no method GetNamespace: it does not embed metav1.ObjectMeta\n" +
				"v1/types.go:5: undefined: missing"},
		"an invalid group and version": {"./v1", strings.Replace(objects("+genclient", "Widget"), "shop.example.com\n", "A.b\n// +versionName=v1\"\n", 1),
			"v1/types.go:1: \"A.b\" is not a valid group name\nv1/types.go:2: \"v1\\\"\" is not a valid version name"},
		"names that clash": {"./v1", objects("+genclient", "Widget", "WidgetNamespace"),
			"v1/types.go:20: type WidgetNamespace: Widget also needs the name WidgetNamespaceLister\n" +
				"v1/types.go:20: type WidgetNamespace: Widget also needs the name WidgetNamespaceListerExpansion"},
		"CRDs without the library": {"-crd crd.yaml", "package v1\n",
			"no required module provides package k8s.io/apimachinery/pkg/apis/meta/v1: run go get github.com/typedinformer/informer"},
		"a pattern without a match": {"-crd crds/*.yaml -crd more/*.json", "package v1\n",
			"-crd crds/*.yaml: no file matches\n-crd more/*.json: no file matches"},
		"a missing file": {"-crd more.yaml", "package v1\n", "open more.yaml: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			inModule(t, map[string]string{"v1/types.go": test.source, "crd.yaml": shopCRD})
			err := run(strings.Fields(test.args), io.Discard, io.Discard)
			if name == "a missing folder" && err != nil && strings.HasSuffix(err.Error(), test.want) && !strings.HasPrefix(err.Error(), "-") {
				return // the rest is the name of a temporary folder
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("(-want +got):\n%s", cmp.Diff(test.want, errorText(err)))
			}
		})
	}
}

// If go.sum lacks lines, the error names the package that needs them, and the command that adds them.
func TestMissingSums(t *testing.T) {
	inModule(t, map[string]string{
		"go.mod":   "module example.com/shop\n\ngo 1.26\n\nrequire k8s.io/apimachinery v0.35.0\n",
		"crd.yaml": shopCRD,
		"v1/types.go": "// +groupName=a.b\npackage v1\n\nimport metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n\n" +
			"// +kubebuilder:object:root=true\ntype W struct{ metav1.ObjectMeta }\n",
	})
	for args, want := range map[string]string{
		"./...": "v1/types.go:4: could not import k8s.io/apimachinery/pkg/apis/meta/v1: missing go.sum entry for module providing package " +
			"k8s.io/apimachinery/pkg/apis/meta/v1 (imported by example.com/shop/v1): run go get example.com/shop/v1",
		"-crd crd.yaml": "missing go.sum entry for module providing package k8s.io/apimachinery/pkg/apis/meta/v1: " +
			"run go get github.com/typedinformer/informer",
	} {
		if err := run(strings.Fields(args), io.Discard, io.Discard); !strings.HasSuffix(errorText(err), want) {
			t.Errorf("%s: error %v, want %s", args, err, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
