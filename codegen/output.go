package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// outputDir is a directory for generated files. It leaves other files in it alone.
type outputDir string

func (d outputDir) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// relative returns the name of a file relative to d. The file may be outside of d.
func (d outputDir) relative(file string) (string, error) {
	dir, err := filepath.Abs(string(d))
	if err != nil {
		return "", err
	}
	name, err := filepath.Rel(dir, file)
	return filepath.ToSlash(name), err
}

// has reports whether a file exists.
func (d outputDir) has(name string) bool {
	_, err := os.Stat(d.path(name))
	return err == nil
}

// write writes the files that are new or differ. It removes files that an earlier run of codegen wrote and that are not
// in files: those below d, and those that others names. It returns the paths of those.
func (d outputDir) write(files map[string][]byte, others ...string) (removed []string, err error) {
	stale, err := d.stale(files, others...)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(stale.missing, stale.differ, stale.left) {
		text, ok := files[name]
		if !ok {
			if err := os.Remove(d.path(name)); err != nil {
				return removed, err
			}
			removed = append(removed, d.path(name))
			continue
		}
		if err := os.MkdirAll(filepath.Dir(d.path(name)), 0o755); err != nil {
			return removed, err
		}
		if err := os.WriteFile(d.path(name), d.dated(name, text), 0o644); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// check returns an error that names the files that write would change.
func (d outputDir) check(files map[string][]byte, others ...string) error {
	stale, err := d.stale(files, others...)
	if err != nil {
		return err
	}
	var lines []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"out of date", stale.differ}, {"missing", stale.missing}, {"no longer generated", stale.left}} {
		for i, name := range part.names {
			part.names[i] = d.path(name)
		}
		if len(part.names) > 0 {
			lines = append(lines, part.what+": "+strings.Join(part.names, ", "))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	lines = append(lines, "run codegen with the same flags, but without -check")
	if len(stale.left) > 0 {
		lines = append(lines, "that removes what is no longer generated: to keep it, add the flag that wrote it, such as -apply")
	}
	return errors.New(strings.Join(lines, "\n"))
}

// staleFiles are the names of files that write would change.
type staleFiles struct {
	missing, differ []string
	left            []string // written by an earlier run, and not by this one
}

// stale returns the files that write would change. It returns an error if write would overwrite a file that codegen did
// not write.
func (d outputDir) stale(files map[string][]byte, others ...string) (stale staleFiles, err error) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		have, err := os.ReadFile(d.path(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stale.missing = append(stale.missing, name)
		case err != nil:
			return stale, err
		case len(have) > 0 && !isGenerated(have):
			what := "not generated"
			if generator := anyGenerated.FindSubmatch(head(have)); generator != nil {
				what = fmt.Sprintf("of another generator, %q", generator[1])
			}
			return stale, fmt.Errorf("%s is %s: move it away, or name another -output-dir", d.path(name), what)
		case !bytes.Equal(have, d.dated(name, files[name])):
			stale.differ = append(stale.differ, name)
		}
	}
	left := func(name string) error {
		if _, ok := files[name]; ok || slices.Contains(stale.left, name) {
			return nil
		}
		text, err := os.ReadFile(d.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && isGenerated(text) {
			stale.left = append(stale.left, name)
		}
		return err
	}
	for _, name := range others {
		if err := left(name); err != nil {
			return stale, err
		}
	}
	err = filepath.WalkDir(string(d), func(file string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && file == string(d):
			return nil
		case err != nil:
			return err
		case entry.IsDir() && file != string(d) && hasRunOfItsOwn(file):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(file) != ".go":
			return nil
		}
		name, err := filepath.Rel(string(d), file)
		if err != nil {
			return err
		}
		return left(filepath.ToSlash(name))
	})
	return stale, err
}

// runsCodegen matches a comment that runs codegen.
var runsCodegen = regexp.MustCompile(`(?m)^//go:generate .*\bcodegen\b`)

// hasRunOfItsOwn reports whether a file in a directory says how to run codegen there. The files in the directory then
// belong to that run.
func hasRunOfItsOwn(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && runsCodegen.Match(text) && !isGenerated(text)
	})
}

// anyGenerated matches the comment of a file that some generator wrote.
var anyGenerated = regexp.MustCompile(`(?m)^// (Code generated .* DO NOT EDIT\.)\r?$`)

// head returns the comments at the top of a Go file, after an empty line.
func head(text []byte) []byte {
	head, _, _ := bytes.Cut(append([]byte("\n"), text...), []byte("\npackage "))
	return head
}

// isGenerated reports whether codegen wrote a file.
func isGenerated(text []byte) bool {
	return bytes.Contains(head(text), []byte("\n"+generatedBy+" from "))
}

var anyYear = regexp.MustCompile(`\b(19|20)[0-9][0-9]\b`)

// dated replaces YEAR in the header of text by the year in the existing file, or else by the current year. So a file
// does not become stale at new year.
func (d outputDir) dated(name string, text []byte) []byte {
	header, rest, _ := bytes.Cut(text, []byte(generatedBy))
	if !bytes.Contains(header, []byte("YEAR")) {
		return text
	}
	year := []byte(time.Now().Format("2006"))
	if have, err := os.ReadFile(d.path(name)); err == nil && isGenerated(have) {
		old, _, _ := bytes.Cut(have, []byte(generatedBy))
		start := bytes.Index(header, []byte("YEAR"))
		if start+4 <= len(old) && bytes.Equal(old[:start], header[:start]) && anyYear.Match(old[start:start+4]) {
			year = old[start : start+4]
		}
	}
	return bytes.Join([][]byte{bytes.ReplaceAll(header, []byte("YEAR"), year), []byte(generatedBy), rest}, nil)
}
