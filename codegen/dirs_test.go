package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ofGo returns an api from a Go package, before its directory is made distinct.
func ofGo(group, path string) *api {
	parts := strings.Split(path, "/")
	return &api{Group: group, Version: parts[len(parts)-1], From: path, Path: path, Dir: strings.Join(parts[len(parts)-2:], "/")}
}

// ofCRD returns an api from CRDs, before its directory is made distinct.
func ofCRD(group, version string) *api {
	first, _, _ := strings.Cut(group, ".")
	return &api{Group: group, Version: version, From: "the CRDs of " + group, Dir: first + "/" + version}
}

// Groups that would share a directory get different ones, which depend neither on the order nor on the other groups.
func TestDirsAreDistinct(t *testing.T) {
	given := ofGo("b.example.com", "example.com/apis/v2")
	given.Dir, given.DirGiven = "named/v2", true
	for name, test := range map[string]struct {
		flags groupDirs
		apis  []*api
		want  string
	}{
		"short": {nil, []*api{ofCRD("karpenter.kwok.sh", "v1"), ofCRD("karpenter.kwok.sh", "v2"), ofGo("", "k8s.io/api/core/v1")},
			"karpenter/v1 karpenter/v2 core/v1"},
		"CRDs": {nil, []*api{ofCRD("karpenter.kwok.sh", "v1"), ofCRD("karpenter.test.sh", "v1"), ofCRD("shop.example.com", "v1")},
			"karpenter.kwok.sh/v1 karpenter.test.sh/v1 shop/v1"},
		"of different versions": {nil, []*api{ofCRD("karpenter.kwok.sh", "v1"), ofCRD("karpenter.test.sh", "v2")},
			"karpenter.kwok.sh/v1 karpenter.test.sh/v2"},
		"Go": {nil, []*api{ofGo("bootstrap.x-k8s.io", "c/bootstrap/kubeadm/v1"), ofGo("control.x-k8s.io", "c/control/kubeadm/v1")},
			"bootstrap.x-k8s.io/v1 control.x-k8s.io/v1"},
		"core":         {nil, []*api{ofGo("", "a/core/v1"), ofGo("core.example.com", "b/core/v1")}, "core/v1 core.example.com/v1"},
		"a CRD and Go": {nil, []*api{ofGo("shop.a.com", "a/shop/v1"), ofCRD("shop.b.com", "v1")}, "shop.a.com/v1 shop.b.com/v1"},
		"one group in two packages": {nil, []*api{ofGo("a.com", "x.io/A/shop/v1"), ofGo("a.com", "x.io/b/shop/v1")},
			"x.io/a/shop/v1 x.io/b/shop/v1"},
		"+groupGoName": {nil, []*api{ofGo("a.example.com", "example.com/a/apis/v1"), given}, "apis/v1 named/v2"},
		"-group-dir": {groupDirs{"karpenter.test.sh": "test", "core": "k8s/core"},
			[]*api{ofCRD("karpenter.kwok.sh", "v1"), ofCRD("karpenter.test.sh", "v1"), ofGo("", "k8s.io/api/core/v1")},
			"karpenter/v1 test/v1 k8s/core/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				var got []string
				var apis []*api
				for _, a := range test.apis {
					again := *a
					apis = append(apis, &again)
				}
				if err := test.flags.place(apis, outputDir(t.TempDir())); err != nil {
					t.Fatal(err)
				}
				for _, a := range apis {
					got = append(got, a.Dir)
				}
				if diff := cmp.Diff(strings.Fields(test.want), got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				slices.Reverse(test.apis)
				test.want = strings.Join(reversed(strings.Fields(test.want)), " ")
			}
		})
	}
}

func reversed(list []string) []string {
	slices.Reverse(list)
	return list
}

// Directories that cannot be told apart, and unknown groups, are errors that say what to do.
func TestDirErrors(t *testing.T) {
	for want, test := range map[string]struct {
		flags groupDirs
		apis  []*api
	}{
		"a/shop/v1 and the CRDs of a.com would both be written to shop/v1: generate them in separate runs": {nil,
			[]*api{ofGo("a.com", "a/shop/v1"), {Group: "a.com", From: "the CRDs of a.com", Dir: "shop/v1"}}},
		"would both be written to x/v1: give their groups different directories by -group-dir": {
			groupDirs{"a.com": "x", "b.com": "x"}, []*api{ofCRD("a.com", "v1"), ofCRD("b.com", "v1")}},
		"-group-dir c.com=x: no group has this name; the groups are a.com, core": {groupDirs{"c.com": "x"},
			[]*api{ofCRD("a.com", "v1"), ofGo("", "a/core/v1")}},
	} {
		if err := test.flags.place(test.apis, outputDir(t.TempDir())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	flags := groupDirs{}
	for _, text := range []string{"a.com", "=x", "a.com=", "a.com=../x", "a.com=/x", "a.com=X", "a.com=x y"} {
		if err := flags.parse(text); err == nil || !strings.Contains(err.Error(), "want group=directory") {
			t.Errorf("%s: error %v", text, err)
		}
	}
	if err := flags.parse("a.com=x"); err != nil {
		t.Error(err)
	}
	if err := flags.parse("a.com=y"); err == nil || !strings.Contains(err.Error(), "the group also has the directory x") {
		t.Errorf("error %v", err)
	}
}

// A directory that the output has stays with its group and package, whatever is added or removed.
func TestDirsStay(t *testing.T) {
	kwok, kwok2, other := ofCRD("karpenter.kwok.sh", "v1"), ofCRD("karpenter.kwok.sh", "v2"), ofCRD("karpenter.test.sh", "v1")
	third, other2 := ofCRD("karpenter.third.sh", "v1"), ofCRD("karpenter.test.sh", "v2")
	first, two := ofGo("a.com", "x.io/a/shop/v1"), ofGo("a.com", "x.io/b/shop/v1")
	for name, runs := range map[string][]struct {
		apis []*api
		want string
	}{
		"a group is added": {{[]*api{kwok}, "karpenter/v1"}, {[]*api{kwok, other}, "karpenter/v1 karpenter.test.sh/v1"},
			{[]*api{kwok, kwok2, other, third}, "karpenter/v1 karpenter/v2 karpenter.test.sh/v1 karpenter.third.sh/v1"}},
		"the first group goes": {{[]*api{kwok}, "karpenter/v1"}, {[]*api{kwok, other}, "karpenter/v1 karpenter.test.sh/v1"},
			{[]*api{other}, "karpenter.test.sh/v1"}, {[]*api{other, other2}, "karpenter.test.sh/v1 karpenter.test.sh/v2"},
			{[]*api{other, kwok}, "karpenter.test.sh/v1 karpenter/v1"}, {[]*api{kwok, other, third}, "karpenter/v1 karpenter.test.sh/v1 karpenter.third.sh/v1"}},
		"another version comes with another group": {{[]*api{kwok}, "karpenter/v1"},
			{[]*api{kwok2, other2}, "karpenter/v2 karpenter.test.sh/v2"}},
		"both at once": {{[]*api{kwok, other}, "karpenter.kwok.sh/v1 karpenter.test.sh/v1"}, {[]*api{kwok}, "karpenter.kwok.sh/v1"}},
		"the core group": {{[]*api{ofGo("", "a/core/v1")}, "core/v1"},
			{[]*api{ofGo("core.example.com", "b/core/v1"), ofGo("", "a/core/v1")}, "core.example.com/v1 core/v1"}},
		"a package is added": {{[]*api{two}, "shop/v1"}, {[]*api{first, two}, "x.io/a/shop/v1 shop/v1"}, {[]*api{first}, "x.io/a/shop/v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := outputDir(t.TempDir())
			for i, run := range runs {
				files := map[string][]byte{}
				var got []string
				var apis []*api
				for _, a := range run.apis {
					again := *a
					again.Kinds = []kind{{Name: "Widget", Plural: "Widgets", Resource: "widgets", Type: "Widget"}}
					apis = append(apis, &again)
				}
				if err := (groupDirs{}).place(apis, dir); err != nil {
					t.Fatal(err)
				}
				for _, a := range apis {
					got = append(got, a.Dir)
					more, err := new(printer).files(a)
					if err != nil {
						t.Fatal(err)
					}
					maps.Copy(files, more)
				}
				if diff := cmp.Diff(strings.Fields(run.want), got); diff != "" {
					t.Errorf("run %d (-want +got):\n%s", i+1, diff)
				}
				if _, err := dir.write(files); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
