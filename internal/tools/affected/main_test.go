package main

import (
	"slices"
	"strings"
	"testing"
)

// A change affects the packages with its files, what imports them, and tests that import one of these, but not what
// imports the package of such a test.
func TestAffected(t *testing.T) {
	const output = `
{"ImportPath": "m", "Dir": "/m", "Imports": ["m/room"]}
{"ImportPath": "m/room", "Dir": "/m/room"}
{"ImportPath": "m/other", "Dir": "/m/other", "TestImports": ["m"]}
{"ImportPath": "m/far", "Dir": "/m/far", "Imports": ["m/other"]}
{"ImportPath": "m/suite", "Dir": "/m/suite", "XTestImports": ["m"]}
`
	packages, err := read(strings.NewReader(output), "/m")
	if err != nil {
		t.Fatal(err)
	}
	for changed, want := range map[string]string{
		"room/a.go":              "m m/other m/room m/suite",
		"room/testdata/x/y.json": "m m/other m/room m/suite",
		"a.go":                   "m m/other m/suite",
		"other/a_test.go":        "m/far m/other",
		"README.md":              "",
		"suite/a_test.go":        "m/suite",
		"go.mod":                 "m m/far m/other m/room m/suite",
	} {
		if got := affected(packages, []string{changed}); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", changed, got, want)
		}
	}
	if _, err := read(strings.NewReader("{"), "/m"); err == nil {
		t.Error("half an object is accepted")
	}
}
