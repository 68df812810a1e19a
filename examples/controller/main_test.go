package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/typedinformer/informer/examples/controller/website"
)

// shown is what a program writes. It calls found once it matches want, as a user interrupts the program then.
type shown struct {
	want  *regexp.Regexp
	found func()
	text  []byte
}

func (s *shown) Write(p []byte) (int, error) {
	if s.text = append(s.text, p...); s.want.Match(s.text) {
		s.found()
	}
	return len(p), nil
}

func TestRun(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for args, want := range map[string]string{
		"-for 5m -websites 3": `(?m)^  0s  websites: .*\n(.*\n)* +\d+s  websites: [1-3], .* leader: [0-9a-f]{12}\n`,
		"-for 1ms":            `^  0s  websites: |^$`,
		"-crd":                `(?s)\A` + regexp.QuoteMeta(string(website.CRD)) + `\z`,
		"-h":                  `-kubeconfig path`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &shown{want: regexp.MustCompile(want), found: cancel}
		if err := run(ctx, strings.Fields(args), out); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if !out.want.Match(out.text) {
			t.Errorf("%s: no match for %s in\n%s", args, want, out.text)
		}
		cancel()
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
