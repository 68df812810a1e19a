package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// clientGos are the versions of client-go whose types package k8s shares.
var clientGos = []string{"v0.35.0", "v0.36.3", "v0.37.2"}

var newLister = regexp.MustCompile(`(?m)^func New([A-Za-z0-9]+)Lister\(`)

// listersBelow returns the listers of the packages below dir, such as "core/v1.Pod".
func listersBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, filepath.Dir(file))
		for _, m := range newLister.FindAllStringSubmatch(string(text), -1) {
			found[filepath.ToSlash(name)+"."+m[1]] = true
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %d listers, %v", dir, len(found), err)
	}
	return found
}

// The packages below k8s/compat have every lister that all versions of client-go have with which the library works, and
// no other.
func TestEveryListerOfClientGo(t *testing.T) {
	common := map[string]bool{}
	for i, version := range clientGos {
		download := exec.Command("go", "mod", "download", "-json", "k8s.io/client-go@"+version)
		download.Stderr = t.Output()
		out, err := download.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out) // the error is in out
		}
		var m struct{ Dir string }
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatal(err)
		}
		listers := listersBelow(t, filepath.Join(m.Dir, "listers"))
		if i == 0 {
			common = listers
		}
		maps.DeleteFunc(common, func(name string, _ bool) bool { return !listers[name] })
	}
	ours := listersBelow(t, "../k8s/compat")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(common)), slices.Sorted(maps.Keys(ours))); diff != "" {
		t.Errorf("listers differ (-client-go +k8s/compat):\n%s", diff)
	}
}
