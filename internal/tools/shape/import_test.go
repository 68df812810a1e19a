package shape

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// global are the names of functions that change the state of a process. No variable of a package may call them.
var global = map[string]bool{
	"MustRegister": true, "Register": true, "Publish": true, "Handle": true, "HandleFunc": true, "SetLogger": true,
	"SetDefault": true, "Setenv": true, "SetProvider": true, "SetReflectorMetricsProvider": true, "AfterFunc": true,
	"NewTicker": true, "SetFinalizer": true, "AddCleanup": true, "Notify": true,
}

// effects returns what importing a package with a file does: the functions init, and the calls of global functions and
// the goroutines in the values of variables.
func effects(f *ast.File) (all []string) {
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // it runs only if it is called
		case *ast.GoStmt:
			all = append(all, "a variable starts a goroutine")
		case *ast.CallExpr:
			switch function := n.Fun.(type) {
			case *ast.FuncLit:
				ast.Inspect(function.Body, visit)
			case *ast.Ident:
				if global[function.Name] {
					all = append(all, "a variable calls "+function.Name)
				}
			case *ast.SelectorExpr:
				if global[function.Sel.Name] {
					all = append(all, "a variable calls "+function.Sel.Name)
				}
			}
		}
		return true
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				all = append(all, "it has a function init")
			}
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				ast.Inspect(d, visit)
			}
		}
	}
	return all
}

// Importing a package of any of the modules registers nothing and starts nothing. A command may do that, since nobody
// imports it.
// Guarantees: P4
func TestImportHasNoEffect(t *testing.T) {
	files := 0
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && name != ".."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		if f.Name.Name == "main" {
			return nil
		}
		for _, effect := range effects(f) {
			t.Errorf("importing %s has an effect: %s", path, effect)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if files < 200 {
		t.Errorf("only %d files were found", files)
	}
}

// Each effect is found, and nothing else.
func TestEffectsAreFound(t *testing.T) {
	for source, want := range map[string]int{
		"func init() {}":                                       1,
		"func (t T) init() {}":                                 0,
		"var _ = prometheus.MustRegister(c)":                   1,
		"var x, y = f(), func() int { return 1 }()":            0,
		"var x = func() int { go f(); return 1 }()":            1,
		"var x = func() int { http.Handle(p, h); return 1 }()": 1,
		"var x = sync.OnceFunc(func() { expvar.Publish() })":   0,
		"var x = map[string]any{`a`: expvar.Publish()}":        1,
		"var f = func() { prometheus.MustRegister(c) }":        0,
		"const c = 1":                      0,
		"var x = errors.New(`x`)":          0,
		"var x = map[string]int{}":         0,
		"func f() { flag.Register(g) }":    0,
		"var x = Register(2)":              1,
		"type T struct{ Register func() }": 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package p\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := effects(f); len(got) != want {
			t.Errorf("%s: %v, want %d", source, got, want)
		}
	}
}
