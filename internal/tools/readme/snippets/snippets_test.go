// Package snippets checks that the Go snippets of every README and of docs/ compile.
package snippets

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// packages are the packages that a snippet may use without an import, by their names in the snippet.
var packages = map[string]string{
	"cache":        "k8s.io/client-go/tools/cache",
	"cluster":      "github.com/typedinformer/informer/informertest/cluster",
	"context":      "context",
	"debugpage":    "github.com/typedinformer/informer/debugpage",
	"errors":       "errors",
	"fleet":        "github.com/typedinformer/informer/fleet",
	"fmt":          "fmt",
	"http":         "net/http",
	"informer":     "github.com/typedinformer/informer",
	"informers":    "k8s.io/client-go/informers",
	"informertest": "github.com/typedinformer/informer/informertest",
	"leader":       "github.com/typedinformer/informer/leader",
	"manager":      "github.com/typedinformer/informer/manager",
	"rest":         "k8s.io/client-go/rest",
	"review":       "github.com/typedinformer/informer/review",
	"shard":        "github.com/typedinformer/informer/shard",
	"status":       "github.com/typedinformer/informer/status",
	"testing":      "testing",
	"time":         "time",
	"appsv1":       "k8s.io/api/apps/v1",
	"corev1":       "k8s.io/api/core/v1",

	"authenticationv1": "k8s.io/api/authentication/v1",

	"clientinformers": "k8s.io/client-go/informers/core/v1",
	"corev1informers": "github.com/typedinformer/informer/k8s/core/v1",

	"apierrors":     "k8s.io/apimachinery/pkg/api/errors",
	"metav1":        "k8s.io/apimachinery/pkg/apis/meta/v1",
	"shopv1":        "github.com/typedinformer/informer/examples/crd/shop/v1",
	"shopinformers": "github.com/typedinformer/informer/examples/crd/informers/shop/v1",
}

const root = "../../../.." // the root of the repository, and of the module with all these packages

// snippet is a block of Go in a page.
type snippet struct {
	file string // absolute
	line int    // number of its first line
	text string
}

var fence = regexp.MustCompile("^([ \t]*)```[ \t]*(\\w*)")

// snippetsOf returns the Go snippets of a README.
func snippetsOf(file string, content []byte) (snippets []snippet, err error) {
	var indent string
	var open, isGo bool
	for i, line := range strings.Split(string(content), "\n") {
		match := fence.FindStringSubmatch(line)
		switch {
		case match != nil && !open:
			open, isGo, indent = true, match[2] == "go", match[1]
			if isGo {
				snippets = append(snippets, snippet{file: file, line: i + 2})
			}
		case match != nil:
			open, isGo = false, false
		case isGo:
			snippets[len(snippets)-1].text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open {
		return nil, fmt.Errorf("%s: the last block does not end", file)
	}
	return snippets, nil
}

// source returns the Go file for a snippet. A snippet with a package clause is a file. Others are declarations, or the body of
// a function that returns an error. They may use packages without an import, and the declarations in given.go.
func (s snippet) source() (source string, isFile bool, err error) {
	line := fmt.Sprintf("//line %s:%d\n", s.file, s.line)
	if whole := line + s.text; parses(whole) == nil {
		return whole, true, nil
	}
	const clause = "package snippet\n"
	body := line + s.text
	if parses(clause+body) != nil {
		body = "func _() error {\n" + line + s.text + "return nil\n}\n"
	}
	if err := parses(clause + body); err != nil {
		return "", false, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "", clause+body, 0)
	if err != nil {
		return "", false, err
	}
	imports := map[string]bool{}
	for _, name := range unresolved(parsed) {
		if path := packages[name]; path != "" {
			imports[fmt.Sprintf("import %s %q\n", name, path)] = true
		}
	}
	for i := range imports {
		body = i + body
	}
	return clause + body, false, nil
}

func parses(source string) error {
	_, err := parser.ParseFile(token.NewFileSet(), "snippet.go", source, parser.SkipObjectResolution)
	return err
}

// unresolved returns the names that a file uses but does not declare.
func unresolved(file *ast.File) (names []string) {
	for _, ident := range file.Unresolved {
		names = append(names, ident.Name)
	}
	return names
}

// check checks the types of each snippet as its own package, and returns the errors, with positions in the README. It compiles no
// snippet, as each would have its own copy of the generic code that it uses.
func check(t *testing.T, snippets []snippet) string {
	t.Helper()
	given, err := os.ReadFile("testdata/given.go")
	if err != nil {
		t.Fatal(err)
	}
	var failures strings.Builder
	fset := token.NewFileSet()
	imports := map[string]bool{}
	parse := func(name string, source any) *ast.File {
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			imports[strings.Trim(i.Path.Value, `"`)] = true
		}
		return file
	}
	var programs [][]*ast.File
	for _, s := range snippets {
		source, isFile, err := s.source()
		if err != nil {
			fmt.Fprintln(&failures, err)
			continue
		}
		program := []*ast.File{parse("snippet.go", source)}
		if !isFile {
			program = append(program, parse("given.go", given))
		}
		programs = append(programs, program)
	}
	compiled := importer.ForCompiler(fset, "gc", lookup(t, slices.Sorted(maps.Keys(imports))))
	for _, program := range programs {
		config := types.Config{Importer: compiled, Error: func(err error) { fmt.Fprintln(&failures, err) }}
		_, _ = config.Check(program[0].Name.Name, fset, program, nil) // its error was told
	}
	return failures.String()
}

// lookup compiles packages and what they import, with the newest versions of client-go: the README compares with its typed
// informers. It returns a function that opens the export data of one.
func lookup(t *testing.T, packages []string) importer.Lookup {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", "-modfile=go.newest.mod"}, buildFlags()...)
	list := exec.CommandContext(t.Context(), "go", append(args, packages...)...)
	list.Dir = root
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// buildFlags returns the flags with which this test was compiled, and so other packages that are cached.
func buildFlags() (flags []string) {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" || s.Key == "-tags" {
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return flags
}

// testsItself reports whether a folder is a module with packages that this one lacks, and with a test of its README.
func testsItself(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "readme_test.go"))
	return err == nil
}

func TestSnippetsCompile(t *testing.T) {
	var snippets []snippet
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "testdata" || entry.Name() == ".git" || testsItself(path) {
				return filepath.SkipDir
			}
			return nil
		}
		page := filepath.Base(filepath.Dir(path)) == "docs" && filepath.Ext(path) == ".md"
		if !page && !strings.EqualFold(entry.Name(), "README.md") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		found, err := snippetsOf(file, content)
		if blocks := bytes.Count(content, []byte("```go")); err == nil && len(found) != blocks {
			t.Errorf("%s: found %d snippets in %d blocks", file, len(found), blocks)
		}
		snippets = append(snippets, found...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(snippets) == 0 {
		t.Fatal("no page has a snippet")
	}
	if failures := check(t, snippets); failures != "" {
		t.Error(failures)
	}
}

// The error of a snippet that does not compile has its position in the README.
func TestWrongSnippetsAreFound(t *testing.T) {
	readme := "```go\nfor pod := range informer.New(client, informer.Resource{}, informer.Config[*corev1.Pod]{}).Store().All() {}\n```\n" +
		"1. a list\n\n   ```go\n   package v1\n\n   type T struct{ metav1.ObjectMeta }\n   ```\n" +
		"```go\nx := 1 +\n```\n```sh\nnot Go\n```\n```go\nfmt.Println(nobody)\n```\n```go\ntype T struct{ u unknown }\n```\n" +
		"```go\nreturn run(ctx, client)\n```\n"
	file := filepath.Join(t.TempDir(), "README.md")
	snippets, err := snippetsOf(file, []byte(readme))
	if err != nil {
		t.Fatal(err)
	}
	got := check(t, snippets)
	for _, want := range []string{
		"README.md:2: declared and not used: pod",
		"README.md:9: undefined: metav1", // a file must have its own imports
		"README.md:13: expected operand",
		"README.md:18: undefined: nobody",
		"README.md:21: undefined: unknown",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "README.md:24:") {
		t.Errorf("the last snippet compiles, but\n%s", got)
	}
	if _, err := snippetsOf(file, []byte("```go\nx\n")); err == nil {
		t.Error("no error for a block that does not end")
	}
}
