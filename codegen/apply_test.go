package main

import (
	"io"
	"maps"
	"os"
	"strings"
	"testing"
)

// appliedModule is a module with an object that has a part of k8s.io/api, and stand-ins for the modules of Kubernetes.
func appliedModule() map[string]string {
	files := map[string]string{
		"go.mod": "module example.com/shop\n\ngo 1.26\n\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/client-go v0.0.0\n)\n\n" +
			"replace (\n\tk8s.io/api => ./fake/api\n\tk8s.io/client-go => ./fake/client-go\n)\n",
		"fake/api/go.mod":                                  "module k8s.io/api\n\ngo 1.26\n",
		"fake/api/core/v1/v1.go":                           "package v1\n\ntype Part struct{ Name string }\n",
		"fake/client-go/go.mod":                            "module k8s.io/client-go\n\ngo 1.26\n",
		"fake/client-go/applyconfigurations/meta/v1/v1.go": "package v1\n\ntype ObjectMetaApplyConfiguration struct{ Name *string }\n",
		"fake/client-go/applyconfigurations/core/v1/v1.go": "package v1\n\ntype PartApplyConfiguration struct{ Name *string }\n",
	}
	source := strings.Replace(objects("+genclient", "Widget"), "Widget struct{ Meta }",
		"Widget struct {\n\tMeta\n\tPart corev1.Part `json:\"part\"`\n}", 1)
	files["v1/types.go"] = strings.Replace(source, "package v1\n", "package v1\n\nimport corev1 \"k8s.io/api/core/v1\"\n", 1)
	return files
}

// The configuration of a part is client-go's if client-go has one. A package that cannot be loaded is an error: without
// it, the output would have another type.
func TestConfigurationsThatCannotBeLoaded(t *testing.T) {
	const configs = "fake/client-go/applyconfigurations/"
	broken := "package v1\n\nimport _ \"example.com/nowhere\"\n"
	for name, test := range map[string]struct {
		files     map[string]string
		has, fail string // the output has, and the error has
	}{
		"whole":                    {nil, "Part *corev1.PartApplyConfiguration", ""},
		"no such type":             {map[string]string{configs + "core/v1/v1.go": "package v1\n"}, "type Corev1PartApplyConfiguration struct", ""},
		"no such package":          {map[string]string{configs + "core/v1/v1.go": ""}, "type Corev1PartApplyConfiguration struct", ""},
		"an import is missing":     {map[string]string{configs + "core/v1/v1.go": broken}, "", "example.com/nowhere"},
		"metadata: import missing": {map[string]string{configs + "meta/v1/v1.go": broken}, "", "example.com/nowhere"},
		"metadata: no package": {map[string]string{configs + "meta/v1/v1.go": ""}, "",
			"-apply: no required module provides package k8s.io/client-go/applyconfigurations/meta/v1: run go get github.com/typedinformer/informer"},
		"metadata: no type": {map[string]string{configs + "meta/v1/v1.go": "package v1\n"}, "", "has no ObjectMetaApplyConfiguration"},
	} {
		t.Run(name, func(t *testing.T) {
			files := appliedModule()
			maps.Copy(files, test.files)
			maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
			inModule(t, files)
			err := run([]string{"-apply", "./v1"}, io.Discard, io.Discard)
			if test.fail != "" {
				if !strings.Contains(errorText(err), test.fail) || strings.Count(err.Error(), "\n") > 0 {
					t.Errorf("error %v, want %q", err, test.fail)
				}
				return
			}
			text, _ := os.ReadFile("informers/applyconfiguration/shop/v1/applyconfiguration.go")
			if err != nil || !strings.Contains(strings.Join(strings.Fields(string(text)), " "), test.has) {
				t.Errorf("%v, want %s in\n%s", err, test.has, text)
			}
		})
	}
}
