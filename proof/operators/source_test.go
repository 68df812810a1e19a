package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where controller-runtime creates and starts the cache of a cluster, it creates ours, and measures the heap. Sources
// that are not as expected are an error.
func TestCreateOurs(t *testing.T) {
	const creates = "package cluster\n\nfunc f() { x = cache.New }\n"
	const starts = "package cluster\n\nfunc g() { return c.cache.Start(ctx) }\n"
	for _, test := range []struct {
		cluster, internal string
		ok                bool
	}{
		{creates, starts, true},
		{"package cluster\n\nfunc f() { x = other }\n", starts, false},
		{"package cluster\n\nfunc f() { x(cache.New, cache.New)}\n", starts, false},
		{creates, "package cluster\n", false},
	} {
		dir := t.TempDir()
		folder := filepath.Join(dir, "pkg", "cluster")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "cluster.go"), test.cluster)
		write(t, filepath.Join(folder, "internal.go"), test.internal)
		err := createOurs(dir, cache{"separate", "Layout: informer.LayoutSeparate"})
		if (err == nil) != test.ok {
			t.Errorf("%q, %q: %v", test.cluster, test.internal, err)
		}
		if !test.ok {
			continue
		}
		for file, want := range map[string]string{
			"cluster.go":  "x = NewCache",
			"internal.go": "return startMeasured(ctx, c.cache)",
			"zz_proof.go": "crcache.New(crcache.Options{Layout: informer.LayoutSeparate})",
		} {
			if got := read(t, filepath.Join(folder, file)); !strings.Contains(got, want) {
				t.Errorf("%s lacks %q:\n%s", file, want, got)
			}
		}
	}
}

// What is added for controller-runtime's own cache does not mention ours.
func TestTheirs(t *testing.T) {
	if src := added(cache{name: theirs}); strings.Contains(src, "crcache") || !strings.Contains(src, "= cache.New\n") {
		t.Error(src)
	}
}

// A file that calls cache.New itself takes the function that createOurs adds.
func TestCreateByCluster(t *testing.T) {
	for _, call := range []string{"cache.New(1)", "ctrlcache.New(1)"} {
		file := filepath.Join(t.TempDir(), "a.go")
		write(t, file, "package a\n\nimport \"cache\"\n\nvar c = "+call+"\n")
		if err := createByCluster(file); err != nil {
			t.Fatal(err)
		}
		const want = "package a\n\nimport proofcluster \"sigs.k8s.io/controller-runtime/pkg/cluster\"\n\nimport \"cache\"\n\n" +
			"var c = proofcluster.NewCache(1)\n"
		if got := read(t, file); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := createByCluster(file); err == nil {
			t.Errorf("a file without %s gives no error", call)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Wrong names in the command line are errors that say which names there are.
func TestWrongNamesAreErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"name a program: trust-manager":                                          nil,
		`"x" is none of trust-manager`:                                           {"x"},
		`-caches: "y" is none of controller-runtime, crcache, separate, Compact`: {"-caches", "y", "trust-manager"},
	} {
		if _, err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
