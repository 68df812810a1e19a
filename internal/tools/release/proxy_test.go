package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const top = "../../.." // the root of the repository

// publish writes a module proxy for GOPROXY=file://dir with the published modules, as a release of the files in the
// repository would have them. https://go.dev/ref/mod#goproxy-protocol
func publish(t *testing.T, dir string, v version) {
	t.Helper()
	listed, err := output(t.Context(), top, "git", "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatal(err)
	}
	files := map[module][]string{} // also of modules that are not published
	for name := range strings.Lines(listed) {
		name = strings.TrimSpace(name)
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			continue // removed, but not in the index yet
		}
		owner := moduleOf(name)
		files[owner] = append(files[owner], name)
	}
	for _, m := range published {
		versions := filepath.Join(dir, m.path(), "@v")
		if err := os.MkdirAll(versions, 0o755); err != nil {
			t.Fatal(err)
		}
		write := func(name string, content []byte) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(versions, name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		info, err := json.Marshal(map[string]any{"Version": v.String(), "Time": time.Now().UTC()})
		if err != nil {
			t.Fatal(err)
		}
		write("list", []byte(v.String()+"\n"))
		write(v.String()+".info", info)
		write(v.String()+".mod", tagged(t, filepath.Join(string(m), "go.mod"), v))
		archive, err := os.Create(filepath.Join(versions, v.String()+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		zipped := zip.NewWriter(archive)
		if m != "." && !slices.Contains(files[m], string(m)+"/LICENSE") {
			files[m] = append(files[m], "LICENSE") // the go command adds that of the repository, too
		}
		for _, name := range files[m] {
			entry, err := zipped.Create(m.path() + "@" + v.String() + "/" + strings.TrimPrefix(name, string(m)+"/"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := entry.Write(tagged(t, name, v)); err != nil {
				t.Fatal(err)
			}
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// moduleOf returns the module of a file.
func moduleOf(name string) module {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(top, dir, "go.mod")); err == nil {
			return module(dir)
		}
	}
	return "."
}

// tagged returns the content of a file as a release has it.
func tagged(t *testing.T, name string, v version) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(name) == ".mod" {
		content = requireVersion(content, v)
	}
	return content
}

// consumer is a module of somebody who uses the published ones.
type consumer struct {
	t   *testing.T
	dir string
	env []string
}

// consumers returns a function that makes empty modules. They see the modules of this repository only through a proxy,
// and share a module cache that is empty at first. Modules of others come from the cache of this machine if it has them.
func consumers(t *testing.T, v version) func(t *testing.T) consumer {
	proxy, cache := t.TempDir(), t.TempDir()
	publish(t, proxy, v)
	known, err := output(t.Context(), ".", "go", "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	others, err := output(t.Context(), ".", "go", "env", "GOPROXY")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		clean := exec.Command("go", "clean", "-modcache") // its folders are read-only
		clean.Env = append(clean.Environ(), "GOMODCACHE="+cache, "GOFLAGS=")
		if out, err := clean.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return func(t *testing.T) consumer {
		c := consumer{t, t.TempDir(), []string{
			"GOMODCACHE=" + cache,
			fmt.Sprintf("GOPROXY=file://%s,file://%s/cache/download,%s", proxy, known, others),
			"GONOSUMDB=" + rootPath + "," + rootPath + "/*",
			"GOWORK=off",
		}}
		c.run("go", "mod", "init", "example.com/consumer")
		return c
	}
}

// try runs a command in the consumer's folder and returns what it prints.
func (c consumer) try(name string, args ...string) (string, error) {
	command := exec.CommandContext(c.t.Context(), name, args...)
	command.Dir, command.Env = c.dir, append(command.Environ(), c.env...)
	out, err := command.CombinedOutput()
	return string(out), err
}

// run does the same. A failure ends the test.
func (c consumer) run(name string, args ...string) string {
	c.t.Helper()
	began := time.Now()
	out, err := c.try(name, args...)
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	c.t.Logf("%s %s (%v)", name, strings.Join(args, " "), time.Since(began).Round(time.Millisecond))
	return out
}

func (c consumer) write(name, content string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
}
