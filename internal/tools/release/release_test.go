package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every go.mod in the repository requires one released version of the modules of this repository, and the published ones
// require nothing that has no tag.
func TestModulesRequireReleases(t *testing.T) {
	names, err := modFiles(t.Context(), top)
	if err != nil {
		t.Fatal(err)
	}
	tagged := map[string]bool{}
	for _, m := range published {
		tagged[m.path()] = true
	}
	all := map[string]string{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		isPublished := tagged[moduleOf(name).path()]
		for _, found := range required.FindAllSubmatch(content, -1) {
			path := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(found[1])), "require"))
			all[string(found[2])] = name
			if _, err := parseVersion(string(found[2])); err != nil || string(found[2]) == "v0.0.0" {
				t.Errorf("%s requires %s %s, which nobody can get", name, path, found[2])
			}
			if isPublished && !tagged[path] {
				t.Errorf("%s is published, but requires %s, which is not", name, path)
			}
		}
	}
	if len(all) != 1 {
		t.Errorf("the modules require several versions: %v", all)
	}
}

// A module that is not published has no README that tells users to get it.
func TestOnlyPublishedModulesAreAdvertised(t *testing.T) {
	known := map[string]bool{}
	for _, m := range published {
		known[m.path()] = true
	}
	for _, m := range published {
		for _, get := range readReadme(t, m).commands {
			path := get[strings.LastIndex(get, " ")+1:]
			path, _, _ = strings.Cut(path, "@")
			if !known[path] {
				t.Errorf("%s: %s is not published", m, path)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	ordered := []string{"v0.1.0-rc.1", "v0.1.0-rc.10", "v0.1.0", "v0.1.9", "v0.1.10", "v0.2.0", "v1.0.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			va, err := parseVersion(a)
			if err != nil {
				t.Fatal(err)
			}
			vb, err := parseVersion(b)
			if err != nil {
				t.Fatal(err)
			}
			if got := va.compare(vb); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%s compared with %s is %d", a, b, got)
			}
			if va.String() != a {
				t.Errorf("%s is printed as %s", a, va)
			}
		}
	}
	for _, wrong := range []string{"", "0.1.0", "v1", "v0.01.0", "v0.1.0-beta", "v2.0.0", "v0.1.0+x", "v0.99999999999999999999.0"} {
		if v, err := parseVersion(wrong); err == nil {
			t.Errorf("%q is taken for %s", wrong, v)
		}
	}
}

// repository makes a small repository with the names of the real one.
func repository(t *testing.T) *release {
	t.Helper()
	r := &release{
		root: t.TempDir(), version: version{0, 2, 0, math.MaxInt}, day: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC),
		out: t.Output(), test: func(context.Context, string, io.Writer) error { return nil },
	}
	for name, content := range map[string]string{
		changelogName:           "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## v0.1.0 - 2026-01-01\n\n- All.\n",
		"go.mod":                "module " + rootPath + "\n",
		"crcache/go.mod":        "module " + rootPath + "/crcache\n\nreplace " + rootPath + " => ../\n\nrequire (\n\t" + rootPath + " v0.1.0\n\t" + rootPath + "/clientgo v0.1.0 // indirect\n\tk8s.io/api v0.1.0\n)\n",
		"crcache/go.newest.mod": "module " + rootPath + "/crcache\n\nrequire " + rootPath + " v0.1.0\n",
	} {
		if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.path(name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{
		"init --quiet", "config user.name Somebody", "config user.email somebody@example.com", "config commit.gpgsign false",
		"config tag.gpgsign false", "add .", "commit --quiet --message first", "tag v0.1.0", "tag vendor-2",
	} {
		if _, err := output(t.Context(), r.root, "git", strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestReleaseWritesCommitsAndTags(t *testing.T) {
	r := repository(t)
	if err := r.plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if changed, err := output(t.Context(), r.root, "git", "status", "--porcelain"); err != nil || changed != "" {
		t.Errorf("a dry run changed %s (%v)", changed, err)
	}
	if err := r.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		changelogName:           "# Changelog\n\n## Unreleased\n\n## v0.2.0 - 2026-11-26\n\n### Added\n\n- A thing.\n\n## v0.1.0 - 2026-01-01\n\n- All.",
		"crcache/go.mod":        "module " + rootPath + "/crcache\n\nreplace " + rootPath + " => ../\n\nrequire (\n\t" + rootPath + " v0.2.0\n\t" + rootPath + "/clientgo v0.2.0 // indirect\n\tk8s.io/api v0.1.0\n)",
		"crcache/go.newest.mod": "module " + rootPath + "/crcache\n\nrequire " + rootPath + " v0.2.0",
	} {
		if got, err := output(t.Context(), r.root, "git", "show", "crcache/v0.2.0:"+name); err != nil || got != want {
			t.Errorf("%s is (%v)\n%s\nwant\n%s", name, err, got, want)
		}
	}
	tags, err := output(t.Context(), r.root, "git", "tag", "--points-at", "HEAD")
	if want := "clientgo/v0.2.0\ncodegen/v0.2.0\ncrcache/v0.2.0\ninformerotel/v0.2.0\ninformerprom/v0.2.0\ninformertest/crds/v0.2.0\nv0.2.0"; err != nil || tags != want {
		t.Errorf("the tags are (%v)\n%s\nwant\n%s", err, tags, want)
	}
}

// A release that is not possible changes nothing, and says why.
func TestReleaseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, r *release)
		want  string
	}{
		"an old version":    {func(t *testing.T, r *release) { r.version, _ = parseVersion("v0.1.0") }, "v0.1.0 is not newer than the tag v0.1.0"},
		"changed files":     {func(t *testing.T, r *release) { os.WriteFile(r.path("new.go"), nil, 0o644) }, "commit these files first"},
		"no changes to say": {func(t *testing.T, r *release) { commitChangelog(t, r, "## Unreleased\n\n## v0.1.0 - x\n\n- a\n") }, "no entry"},
		"no section":        {func(t *testing.T, r *release) { commitChangelog(t, r, "# Changelog\n") }, `no line is "## Unreleased"`},
		"a section twice": {func(t *testing.T, r *release) {
			commitChangelog(t, r, "## Unreleased\n\n- a\n\n## v0.2.0 - x\n")
		}, "v0.2.0 has a section already"},
		"tests that fail": {func(t *testing.T, r *release) {
			r.test = func(context.Context, string, io.Writer) error { return errors.New("a test says no") }
		}, "a test says no"},
	} {
		t.Run(name, func(t *testing.T) {
			r := repository(t)
			c.spoil(t, r)
			err := r.do(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
			if tags, err := output(t.Context(), r.root, "git", "tag", "--list", "*v0.2.0"); err != nil || tags != "" {
				t.Errorf("there are the tags %s (%v)", tags, err)
			}
		})
	}
}

func commitChangelog(t *testing.T, r *release, content string) {
	t.Helper()
	if err := os.WriteFile(r.path(changelogName), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := output(t.Context(), r.root, "git", "commit", "--all", "--quiet", "--message", "changelog"); err != nil {
		t.Fatal(err)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"v0.2.0", "v0.3.0"}, {"next"}, {"-unknown", "v0.2.0"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
