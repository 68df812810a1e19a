package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where controller-runtime creates the cache of a cluster, it creates ours. Sources that are not as expected are an error.
func TestCreateOurs(t *testing.T) {
	for source, ok := range map[string]bool{
		"package cluster\n\nfunc f() { x = cache.New }\n":          true,
		"package cluster\n\nfunc f() { x = other }\n":              false,
		"package cluster\n\nfunc f() { x(cache.New, cache.New)}\n": false,
	} {
		dir := t.TempDir()
		cluster := filepath.Join(dir, "pkg", "cluster")
		if err := os.MkdirAll(cluster, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(cluster, "cluster.go")
		if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		err := createOurs(dir, "Share: true")
		if (err == nil) != ok {
			t.Errorf("%q: %v", source, err)
		}
		if !ok {
			continue
		}
		changed, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(changed), "x = newCache") {
			t.Errorf("%s, %v", changed, err)
		}
		added, err := os.ReadFile(filepath.Join(cluster, "zz_crcache.go"))
		if err != nil || !strings.Contains(string(added), "crcache.New(crcache.Options{Share: true})") {
			t.Errorf("%s, %v", added, err)
		}
	}
}

// Wrong names in the command line are errors that say which names there are.
func TestWrongNamesAreErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"name a program: trust-manager":                                       nil,
		`"x" is none of trust-manager`:                                        {"x"},
		`-caches: "y" is none of controller-runtime, crcache, Share, Compact`: {"-caches", "y", "trust-manager"},
	} {
		if _, err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
