package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/typedinformer/informer/examples/controller/website"
)

func TestRun(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for args, want := range map[string]string{
		"-for 3s -websites 3": `(?m)^  0s  websites: .*\n(.*\n)* +\d+s  websites: [1-3], .* leader: [0-9a-f]{12}\n`,
		"-crd":                `(?s)\A` + regexp.QuoteMeta(string(website.CRD)) + `\z`,
		"-h":                  `-kubeconfig path`,
	} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(args), &out); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("%s: no match for %s in\n%s", args, want, &out)
		}
	}
	for args, want := range map[string]string{
		"-nodes":                           "-nodes",
		"pods":                             `unexpected argument "pods"`,
		"-websites 0":                      "must be positive",
		"-kubeconfig /does/not/exist":      "no such file",
		"-kubeconfig testdata/absent -crd": "",
	} {
		if err := run(t.Context(), strings.Fields(args), new(bytes.Buffer)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
}
