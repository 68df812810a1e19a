package crds_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each Go snippet of the README is part of an example, so it compiles.
func TestSnippetsOfTheReadmeAreExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	flat := func(text string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "") }
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(snippets) == 0 {
		t.Error("the README has no snippet")
	}
	for _, snippet := range snippets {
		if !strings.Contains(flat(string(examples)), flat(snippet[1])) {
			t.Errorf("not in example_test.go:\n%s", snippet[1])
		}
	}
}
