package main

import (
	"cmp"
	"fmt"
	"maps"
	"path"
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

// place makes the directories of apis distinct. A directory of -group-dir or +groupGoName stays. Groups that would
// share a directory are named in full, in all versions. Packages of one group version are named by their import paths.
// So other groups affect only whether the directory of a group has the short or the full name.
func (g groupDirs) place(apis []*api) error {
	groups := map[string]map[string]bool{} // by directory
	for _, a := range apis {
		if dir := g[a.FullGroup()]; dir != "" {
			a.Dir, a.DirGiven = path.Join(dir, path.Base(a.Dir)), true
		}
		dir := path.Dir(a.Dir)
		if groups[dir] == nil {
			groups[dir] = map[string]bool{}
		}
		groups[dir][a.FullGroup()] = true
	}
	for _, a := range apis {
		if !a.DirGiven && len(groups[path.Dir(a.Dir)]) > 1 {
			a.Dir = path.Join(a.FullGroup(), path.Base(a.Dir))
		}
	}
	used, fixed := map[string]int{}, map[string]bool{}
	for _, a := range apis {
		used[a.Dir]++
		fixed[a.Dir] = fixed[a.Dir] || a.DirGiven || a.Path == ""
	}
	for _, a := range apis {
		if used[a.Dir] > 1 && !fixed[a.Dir] {
			a.Dir = strings.ToLower(a.Path)
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
