package clientgo

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// extraction takes tests out of a package, so that they compile outside of it.
type extraction struct {
	from     string            // the import path of the package
	replaced map[string]string // what to write in place of an identifier of the package, such as "ours.NewSharedInformer"
	imports  map[string]string // what the replacements import, by name
	own      map[string]bool   // functions of the tests that the caller writes anew
	asserted string            // an unexported type of the package, asserted of shared informers

	set   *token.FileSet
	files map[string]*ast.File // by name
	info  *types.Info
	known map[token.Pos]string // identifiers that the tests do not declare, by position
	decls map[types.Object]declared
	names map[string]bool // fields and methods that the tests declare
}

// declared is a declaration of the tests, with the file that has it.
type declared struct {
	file string
	decl ast.Decl
}

// read reads the tests of the package in dir.
func (x *extraction) read(dir string) error {
	x.set, x.files = token.NewFileSet(), map[string]*ast.File{}
	x.known, x.decls, x.names = map[token.Pos]string{}, map[types.Object]declared{}, map[string]bool{}
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return err
	}
	pkg := path.Base(x.from)
	for _, p := range paths {
		f, err := parser.ParseFile(x.set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if f.Name.Name == pkg {
			f.Comments = nil // their places are those of the whole file
			x.files[filepath.Base(p)] = f
		}
	}
	if len(x.files) == 0 {
		return fmt.Errorf("%s has no tests of package %s: %w", dir, pkg, fs.ErrNotExist)
	}
	x.resolve()
	for name, f := range x.files {
		for _, d := range f.Decls {
			x.declare(name, d)
		}
	}
	return nil
}

var undefined = regexp.MustCompile(`^undefined: (\w+)$`)

// resolve finds out what each identifier of the tests stands for.
func (x *extraction) resolve() {
	x.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{
		Importer: empty{},
		Error: func(err error) { // all others come from the empty packages
			if e := err.(types.Error); undefined.MatchString(e.Msg) {
				x.known[e.Pos] = undefined.FindStringSubmatch(e.Msg)[1]
			}
		},
	}
	files := slices.SortedFunc(maps.Values(x.files), func(a, b *ast.File) int { return cmp.Compare(a.Pos(), b.Pos()) })
	_, _ = config.Check(x.from, x.set, files, x.info)
}

// empty imports packages without content.
type empty struct{}

var versioned = regexp.MustCompile(`^v\d+$`)

// Import implements types.Importer.
func (empty) Import(importPath string) (*types.Package, error) {
	name := path.Base(importPath)
	if parent := path.Base(path.Dir(importPath)); versioned.MatchString(name) && strings.Contains(path.Dir(importPath), "/") && parent != "core" {
		name = parent
	}
	p := types.NewPackage(importPath, strings.ReplaceAll(name, "-", "_"))
	p.MarkComplete()
	return p, nil
}

// declare notes what d, a declaration of file, declares.
func (x *extraction) declare(file string, d ast.Decl) {
	if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
		x.names[f.Name.Name] = true
	}
	ast.Inspect(d, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					x.names[name.Name] = true
				}
			}
		}
		return true
	})
	note := func(id *ast.Ident) {
		if obj := x.info.Defs[id]; obj != nil {
			x.decls[obj] = declared{file, d}
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		note(d.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				note(s.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					note(name)
				}
			}
		}
	}
}

// tests returns the names of the tests of a file, in order.
func (x *extraction) tests(file string) (names []string) {
	for _, d := range x.files[file].Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// internal returns the name of an unexported part of the package that a test uses, or an empty string if it uses none.
func (x *extraction) internal(test string) string {
	for obj, d := range x.decls {
		if obj.Name() == test {
			return x.needs(d, map[ast.Decl]string{})
		}
	}
	return ""
}

// needs adds to all what d needs. It returns the name of an unexported part of the package that d uses, or an empty
// string if there is none.
func (x *extraction) needs(d declared, all map[ast.Decl]string) (internal string) {
	if _, ok := all[d.decl]; ok {
		return ""
	}
	all[d.decl] = d.file
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			if x.isAsserted(n) {
				ast.Inspect(n.X, visit)
				return false
			}
		case *ast.SelectorExpr:
			if name := n.Sel.Name; unicode.IsLower([]rune(name)[0]) && !x.names[name] {
				internal = cmp.Or(internal, name)
			}
		case *ast.Ident:
			internal = cmp.Or(internal, x.needsOf(n, all))
		}
		return internal == ""
	}
	ast.Inspect(d.decl, visit)
	return internal
}

// needsOf adds to all what an identifier needs. It returns what needs does.
func (x *extraction) needsOf(id *ast.Ident, all map[ast.Decl]string) (internal string) {
	if name, ok := x.known[id.Pos()]; ok && x.replaced[name] == "" && unicode.IsLower([]rune(name)[0]) {
		return name
	}
	obj := x.info.Uses[id]
	d, ok := x.decls[obj]
	if !ok || x.own[id.Name] {
		return ""
	}
	internal = x.needs(d, all)
	if t, ok := obj.(*types.TypeName); ok {
		internal = cmp.Or(internal, x.methods(t, all))
	}
	return internal
}

// methods adds to all what the methods of t need.
func (x *extraction) methods(t *types.TypeName, all map[ast.Decl]string) (internal string) {
	for file, f := range x.files {
		for _, d := range f.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil && receiver(m) == t.Name() {
				internal = cmp.Or(internal, x.needs(declared{file, d}, all))
			}
		}
	}
	return internal
}

// receiver returns the name of the type that m is a method of.
func receiver(m *ast.FuncDecl) string {
	t := m.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	id, _ := t.(*ast.Ident)
	return id.Name
}

// isAsserted reports whether a is an assertion that its value has the unexported type asserted.
func (x *extraction) isAsserted(a *ast.TypeAssertExpr) bool {
	star, ok := a.Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	id, ok := star.X.(*ast.Ident)
	return ok && id.Name == x.asserted
}

// write returns Go files with the tests, and what these need, in package pkg.
func (x *extraction) write(pkg string, tests []string) (map[string][]byte, error) {
	all := map[ast.Decl]string{}
	for obj, d := range x.decls {
		if slices.Contains(tests, obj.Name()) {
			x.needs(d, all)
		}
	}
	out := map[string][]byte{}
	for name, f := range x.files {
		var decls []ast.Decl
		for _, d := range f.Decls {
			if _, ok := all[d]; ok {
				decls = append(decls, d)
			}
		}
		if len(decls) == 0 {
			continue
		}
		src, err := x.print(pkg, f, decls)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = src
	}
	return out, nil
}

// print returns a Go file of package pkg with decls, which are of f.
func (x *extraction) print(pkg string, f *ast.File, decls []ast.Decl) ([]byte, error) {
	imports := map[string]string{} // by name
	for _, d := range decls {
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				if x.isAsserted(n) {
					n.Type = &ast.Ident{Name: "cache.SharedIndexInformer"}
					imports["cache"] = x.from
				}
			case *ast.Ident:
				if p, ok := x.info.Uses[n].(*types.PkgName); ok {
					imports[n.Name] = p.Imported().Path()
				}
				name, ok := x.known[n.Pos()]
				if !ok || !n.Pos().IsValid() {
					return true
				}
				n.Name = cmp.Or(x.replaced[name], "cache."+name)
				pkgName, _, _ := strings.Cut(n.Name, ".")
				imports[pkgName] = cmp.Or(x.imports[pkgName], x.from)
			}
			return true
		})
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "package %s\n\nimport (\n", pkg)
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(&b, "\t%s %s\n", name, strconv.Quote(imports[name]))
	}
	fmt.Fprintln(&b, ")")
	for _, d := range decls {
		fmt.Fprintln(&b)
		if err := format.Node(&b, x.set, d); err != nil {
			return nil, err
		}
		fmt.Fprintln(&b)
	}
	return format.Source(b.Bytes())
}
