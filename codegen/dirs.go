package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// groupDirs are the directories of -group-dir, by group.
type groupDirs map[string]string

// parse adds the directory of one -group-dir.
func (g groupDirs) parse(text string) error {
	group, dir, ok := strings.Cut(text, "=")
	if !ok || group == "" || module.CheckImportPath(dir) != nil || dir != strings.ToLower(dir) {
		return fmt.Errorf("%q: want group=directory, such as network.example.com=network, in lower case", text)
	}
	if other := g[group]; other != "" && other != dir {
		return fmt.Errorf("%q: the group also has the directory %s", text, other)
	}
	g[group] = dir
	return nil
}

// FullGroup returns the name of the group. That of Kubernetes' core group is "core".
func (a *api) FullGroup() string { return cmp.Or(a.Group, "core") }

// place makes the directories of apis distinct. It never changes a directory of -group-dir or +groupGoName. A directory
// that the output has already stays with its group and package. Other groups that would share a directory are named in
// full, in all versions. Packages of one group version are named by their import paths. So other groups affect only
// whether a new directory has the short or the full name.
func (g groupDirs) place(apis []*api, have outputDir) error {
	groups, kept := map[string]map[string]bool{}, map[*api]bool{} // groups by directory
	for _, a := range apis {
		dir, version := path.Dir(a.Dir), path.Base(a.Dir)
		switch given := g[a.FullGroup()]; {
		case given != "":
			dir, a.DirGiven = given, true
		case a.DirGiven:
		case have.hasGroup(dir, a.Group):
			kept[a] = true
		case have.hasGroup(a.FullGroup(), a.Group):
			dir, kept[a] = a.FullGroup(), true
		}
		if a.Dir = path.Join(dir, version); groups[dir] == nil {
			groups[dir] = map[string]bool{}
		}
		groups[dir][a.FullGroup()] = true
	}
	for _, a := range apis {
		if !a.DirGiven && !kept[a] && len(groups[path.Dir(a.Dir)]) > 1 {
			a.Dir = path.Join(a.FullGroup(), path.Base(a.Dir))
		}
	}
	used, fixed := map[string]int{}, map[string]bool{}
	for _, a := range apis {
		used[a.Dir]++
		fixed[a.Dir] = fixed[a.Dir] || a.DirGiven || a.Path == ""
	}
	for _, a := range apis {
		long := strings.ToLower(a.Path)
		if !fixed[a.Dir] && (have.isFrom(long, a) || used[a.Dir] > 1 && !have.isFrom(a.Dir, a)) {
			a.Dir = long
		}
	}
	return g.check(apis)
}

// check returns an error if two apis would be written to one directory, or if a group is unknown.
func (g groupDirs) check(apis []*api) error {
	seen, known := map[string]*api{}, map[string]bool{}
	for _, a := range apis {
		if other := seen[a.Dir]; other != nil {
			advice := "generate them in separate runs, each with its own -output-dir"
			if other.Group != a.Group {
				advice = "give their groups different directories by -group-dir"
			}
			return fmt.Errorf("%s and %s would both be written to %s: %s", other.From, a.From, a.Dir, advice)
		}
		seen[a.Dir], known[a.FullGroup()] = a, true
	}
	for _, group := range slices.Sorted(maps.Keys(g)) {
		if !known[group] {
			return fmt.Errorf("-group-dir %s=%s: no group has this name; the groups are %s", group, g[group],
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}

// resourceGroup matches the group of a generated package's first resource. The core group is not written.
var resourceGroup = regexp.MustCompile(`schema[0-9]*\.Group(?:Version)?Resource\{(?:Group: "([^"]*)")?`)

// hasGroup reports whether codegen has written a package of a group to a directory below dir.
func (d outputDir) hasGroup(dir, group string) bool {
	files, _ := filepath.Glob(filepath.Join(d.path(dir), "*", "*.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		found := resourceGroup.FindSubmatch(text)
		return err == nil && isGenerated(text) && found != nil && string(found[1]) == group
	})
}

// isFrom reports whether codegen has written a package to dir from the source of a.
func (d outputDir) isFrom(dir string, a *api) bool {
	files, _ := filepath.Glob(filepath.Join(d.path(dir), "*.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && isGenerated(text) && bytes.Contains(head(text), []byte(generatedBy+" from "+a.From+". DO NOT EDIT."))
	})
}
