package shape

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// functionWords read as grammar where a comment has them as names: a parameter or a field is called by a noun.
var functionWords = []string{"one", "by", "of", "is", "at", "called", "each", "whence"}

// functionWordsIn returns the function words that are names of parameters, results, receivers, fields or variables in a
// file.
func functionWordsIn(f *ast.File) (found []*ast.Ident) {
	look := func(exprs ...ast.Expr) {
		for _, expr := range exprs {
			if name, ok := expr.(*ast.Ident); ok && slices.Contains(functionWords, name.Name) {
				found = append(found, name)
			}
		}
	}
	names := func(idents []*ast.Ident) {
		for _, name := range idents {
			look(name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // also a method of an interface
			names(n.Names)
		case *ast.ValueSpec:
			names(n.Names)
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				look(n.Key, n.Value)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				look(n.Lhs...)
			}
		}
		return true
	})
	return found
}

// sourceFiles returns the paths of all Go files of the repository, of each module, that people write.
func sourceFiles(t *testing.T) (paths []string) {
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && path != root):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".go"):
			paths = append(paths, path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

// Parameters, results, fields and variables have nouns as names, in tests and in all modules, too.
func TestNamesAreNouns(t *testing.T) {
	fset := token.NewFileSet()
	for _, path := range sourceFiles(t) {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if generated.Match(source) {
			continue
		}
		file, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range functionWordsIn(file) {
			t.Errorf("%s: %s is not a noun", fset.Position(name.Pos()), name.Name)
		}
	}
}

// A function word is found wherever a name is declared, and not where it is used. Functions are called by verbs.
func TestFunctionWordsAreFound(t *testing.T) {
	for source, want := range map[string]string{
		"func f(of int) {}":                       "of",
		"func f() (at, to int) { return }":        "at",
		"func (by T) f() {}":                      "by",
		"type T struct { one, other int }":        "one",
		"var g = func(is func(each int) bool) {}": "is each",
		"func f() { for called := range 3 {} }":   "called",
		"func f() { one, err := g() }":            "one",
		"func f() { x.of = 1; of(2) }":            "",
		"func of(x int) (y int) { return x }":     "",
		"type I interface { Is(x error) bool }":   "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range functionWordsIn(file) {
			got = append(got, name.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: found %q, want %q", source, got, want)
		}
	}
}
