package readme

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// likeLink is text that would be a link, if its name existed. A single letter is an index or a type parameter.
var likeLink = regexp.MustCompile(`\[\*?[a-zA-Z]\w+(\.\w+)*\]`)

// brokenDoc returns what pkg.go.dev would not render as its writer meant, in the documentation of the package in a folder:
// links to names that do not exist or are not imported, and lists and code that became part of a paragraph.
func brokenDoc(dir string) (broken []string, comments int, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, 0, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, 0, err
		}
		files = append(files, file)
	}
	if len(files) == 0 || files[0].Name.Name == "main" {
		return nil, 0, nil // pkg.go.dev shows only the package comment of a program
	}
	pkg, err := doc.NewFromFiles(fset, files, dir)
	if err != nil {
		return nil, 0, err
	}
	look := func(name, text string) {
		if text == "" {
			return
		}
		comments++
		for _, wrong := range brokenBlocks(pkg.Parser().Parse(text).Content) {
			broken = append(broken, fmt.Sprintf("%s: %s: %s", dir, name, wrong))
		}
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			look(strings.Join(v.Names, ", "), v.Doc)
		}
	}
	funcs := func(prefix string, all []*doc.Func) {
		for _, f := range all {
			look(prefix+f.Name, f.Doc)
		}
	}
	look("package", pkg.Doc)
	values(pkg.Consts)
	values(pkg.Vars)
	funcs("", pkg.Funcs)
	for _, t := range pkg.Types {
		look(t.Name, t.Doc)
		values(t.Consts)
		values(t.Vars)
		funcs("", t.Funcs)
		funcs(t.Name+".", t.Methods)
	}
	return broken, comments, nil
}

func brokenBlocks(blocks []comment.Block) (broken []string) {
	for _, block := range blocks {
		switch block := block.(type) {
		case *comment.Paragraph:
			broken = append(broken, brokenText(block.Text)...)
		case *comment.Heading:
			broken = append(broken, brokenText(block.Text)...)
		case *comment.List:
			for _, item := range block.Items {
				broken = append(broken, brokenBlocks(item.Content)...)
			}
		}
	}
	return broken
}

func brokenText(texts []comment.Text) (broken []string) {
	for _, text := range texts {
		plain, ok := text.(comment.Plain)
		if !ok {
			continue
		}
		broken = append(broken, likeLink.FindAllString(string(plain), -1)...)
		for line := range strings.Lines(string(plain)) {
			if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.Contains(line, "](") || strings.Contains(line, "`") {
				broken = append(broken, strings.TrimSpace(line))
			}
		}
	}
	return broken
}

// The links of doc comments lead to names that exist, and no list is part of a paragraph. So pkg.go.dev shows them as they
// are meant.
func TestDocCommentsRender(t *testing.T) {
	comments := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); name == "testdata" || name != ".." && strings.HasPrefix(name, ".") && path != root {
			return fs.SkipDir
		}
		broken, found, err := brokenDoc(path)
		comments += found
		for _, b := range broken {
			t.Error(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if comments < 1000 {
		t.Errorf("only %d comments were found", comments)
	}
}

func TestBrokenDocCommentsAreFound(t *testing.T) {
	dir := t.TempDir()
	source := "// Package p is [nobody.Nothing], [Object], [Object.Field] and []string.\n//\n//   - [Object.Nothing]\npackage p\n\n" +
		"// Object is like [None]:\n// - one\n// - [two](x)\ntype Object struct {\n\tField int\n}\n\n" +
		"// String is `code`.\nfunc (Object) String() string { return \"\" }\n"
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	broken, comments, err := brokenDoc(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range broken {
		got = append(got, strings.TrimPrefix(b, dir+": "))
	}
	want := []string{
		"package: [nobody.Nothing]", "package: [Object.Nothing]",
		"Object: [None]", "Object: [two]", "Object: - one", "Object: - [two](x)", "Object.String: String is `code`.",
	}
	if comments != 3 || !slices.Equal(got, want) {
		t.Errorf("%d comments, got %q\nwant %q", comments, got, want)
	}
}
