// Package shape tests the shape of the repository: what packages export and import, how large they are, which names
// they give, and in which order a reader meets the files of the root package.
package shape

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	_ "github.com/typedinformer/informer" // so that go test compiles it before this test, whose time has a limit
)

var update = flag.Bool("update", false, "write the exported API to testdata")

// root is the directory of the tested package, relative to this one.
const root = "../../.."

// parse returns the files of the package in dir by name, without tests and without files of the assert tag.
func parse(t *testing.T, fset *token.FileSet, dir string) map[string]*ast.File {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_on.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = f
	}
	return files
}

// exportedOf returns the exported parts of a declaration, without comments and bodies. It returns nil if there are none.
func exportedOf(decl ast.Decl) []ast.Decl {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d)) {
			return nil
		}
		return []ast.Decl{&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}}
	case *ast.GenDecl:
		var all []ast.Decl
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					all = append(all, &ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{s}})
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						all = append(all, &ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{&ast.ValueSpec{Names: []*ast.Ident{name}, Type: s.Type}}})
					}
				}
			}
		}
		return all
	}
	return nil
}

func receiver(d *ast.FuncDecl) string {
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// exportedAPI returns the exported declarations of the package in dir, sorted, one after the other.
func exportedAPI(t *testing.T, dir string) string {
	var texts []string
	for _, file := range parse(t, token.NewFileSet(), dir) {
		ast.FileExports(file)
		for _, decl := range file.Decls {
			for _, d := range exportedOf(decl) {
				var text bytes.Buffer
				// An empty file set has no positions, so the layout of the source does not matter.
				if err := (&printer.Config{Mode: printer.TabIndent, Tabwidth: 8}).Fprint(&text, token.NewFileSet(), d); err != nil {
					t.Fatal(err)
				}
				texts = append(texts, text.String())
			}
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n") + "\n"
}

// The exported API changes only on purpose: a change must update the golden file, which shows in the commit.
func TestExportedAPIChangesOnlyOnPurpose(t *testing.T) {
	for name, dir := range map[string]string{"informer": root, "status": root + "/status", "informertest": root + "/informertest", "watchcache": root + "/watchcache", "compat": root + "/compat", "wire": root + "/wire", "leader": root + "/leader", "health": root + "/health", "manager": root + "/manager", "reconcile": root + "/reconcile", "debugpage": root + "/debugpage", "review": root + "/review", "readthrough": root + "/readthrough", "kinds": root + "/kinds", "fleet": root + "/fleet"} {
		golden := filepath.Join("testdata", name+".txt")
		got := exportedAPI(t, dir)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) == got {
			continue
		}
		had, has := strings.Split(string(want), "\n"), strings.Split(got, "\n")
		for _, line := range had {
			if !slices.Contains(has, line) {
				t.Errorf("%s no longer has: %s", name, line)
			}
		}
		for _, line := range has {
			if !slices.Contains(had, line) {
				t.Errorf("%s now has: %s", name, line)
			}
		}
		t.Errorf("the exported API of %s differs from %s: if that is intended, run go test ./internal/tools/shape -update", name, golden)
	}
}

// files are the files of the root package, from the lowest to the highest. Each may use only names of files before it.
var files = []string{
	"doc.go",
	"object.go",
	"shard.go",
	"resource.go",
	"errors.go",
	"warmstartconfig.go",
	"durableconfig.go",
	"layout.go",
	"config.go",
	"audit.go",
	"gate.go",
	"client.go",
	"typedclient.go",
	"delta.go",
	"fifo.go",
	"store.go",
	"reflector.go",
	"index.go",
	"orderedindex.go",
	"selectorindex.go",
	"listener.go",
	"engine.go",
	"compact.go",
	"informer.go",
	"informerstatus.go",
	"wait.go",
	"group.go",
	"lister.go",
	"limiter.go",
	"queue.go",
	"enqueue.go",
	"enqueueselecting.go",
	"ownwrites.go",
	"result.go",
	"controller.go",
}

// typeCheck returns the root package, and what its identifiers denote.
func typeCheck(t *testing.T) (*token.FileSet, *types.Package, *types.Info) {
	exports := map[string]string{}
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "-race" || s.Key == "-tags" { // with the same flags as this test, all is compiled already
				args = append(args, s.Key+"="+s.Value)
			}
		}
	}
	list := exec.Command("go", append(args, ".")...)
	list.Dir, list.Stderr = root, t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	fset := token.NewFileSet()
	parsed := slices.Collect(maps.Values(parse(t, fset, root)))
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	pkg, err := config.Check(module, fset, parsed, info)
	if err != nil {
		t.Fatal(err)
	}
	return fset, pkg, info
}

// base returns the name of the file at pos.
func base(fset *token.FileSet, pos token.Pos) string {
	return filepath.Base(fset.Position(pos).Filename)
}

// uses returns, for each file of the root package, the other files whose names it uses, with one such use each. It asks the
// type checker, so equal names do not count.
func uses(t *testing.T) map[string]map[string]string {
	fset, pkg, info := typeCheck(t)
	all := map[string]map[string]string{}
	for ident, object := range info.Uses {
		if object.Pkg() != pkg {
			continue
		}
		switch o := object.(type) { // map methods and fields of an instantiated type to the generic type
		case *types.Func:
			object = o.Origin()
		case *types.Var:
			object = o.Origin()
		}
		from, to := base(fset, ident.Pos()), base(fset, object.Pos())
		if from == to {
			continue
		}
		if all[from] == nil {
			all[from] = map[string]string{}
		}
		if use := fmt.Sprintf("%s:%d %s", from, fset.Position(ident.Pos()).Line, ident.Name); all[from][to] == "" || use < all[from][to] {
			all[from][to] = use
		}
	}
	return all
}

// owed has uses of a file above that are still to be removed. Delete an entry once its use is gone.
var owed = map[string][]string{}

// A file of the root package uses no name of a file above it.
func TestKnowledgeGoesDown(t *testing.T) {
	all := uses(t)
	order := map[string]int{}
	for i, file := range files {
		order[file] = i + 1
	}
	present := parse(t, token.NewFileSet(), root)
	for name := range present {
		if order[name] == 0 {
			t.Errorf("%s is missing in this test's list of files: add it where it belongs", name)
		}
	}
	for _, name := range files {
		if present[name] == nil {
			t.Errorf("%s is in this test's list of files, but there is no such file: remove it", name)
		}
	}
	for _, from := range files {
		var below, above []string
		for _, to := range slices.Sorted(maps.Keys(all[from])) {
			if order[to] <= order[from] {
				below = append(below, to)
				continue
			}
			above = append(above, to)
			if !slices.Contains(owed[from], to) {
				t.Errorf("%s uses %s, which is above it: %s", from, to, all[from][to])
			}
		}
		for _, to := range owed[from] {
			if !slices.Contains(above, to) {
				t.Errorf("%s no longer uses %s: remove it from owed", from, to)
			}
		}
		t.Logf("%-20s uses %s", from, strings.Join(append(below, above...), " "))
	}
}
