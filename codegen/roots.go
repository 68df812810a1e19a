package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The marker +kubebuilder:object:root=true says that a type is a runtime.Object. Most of them are resources, and some
// are not: parts of other objects, answers of an aggregated API, or types of an API that is gone. This file tells them
// apart by the code and the CRDs around the type.

// resourceMarkers are the markers that only the type of a resource has.
var resourceMarkers = []string{"kubebuilder:subresource", "kubebuilder:printcolumn", "kubebuilder:storageversion",
	"kubebuilder:selectablefield", "kubebuilder:deprecatedversion", "kubebuilder:metadata"}

// ofResource reports whether one of the markers is only for resources.
func (ms markers) ofResource() bool {
	return slices.ContainsFunc(ms, func(m marker) bool {
		return slices.ContainsFunc(resourceMarkers, func(name string) bool {
			return m.name == name || strings.HasPrefix(m.name, name+":")
		})
	})
}

// leaveOut removes the kinds that are objects, but not resources, and notes why.
func (p *apiPackage) leaveOut(a *api, why func(k *kind) string) {
	a.Kinds = slices.DeleteFunc(a.Kinds, func(k kind) bool {
		if !k.RootOnly {
			return false
		}
		reason := why(&k)
		if reason != "" {
			p.source.notes = append(p.source.notes, fmt.Sprintf("%s: type %s is left out: %s. If it is a resource, add the "+
				"marker +kubebuilder:resource", position(k.pos), k.Name, reason))
		}
		return reason != ""
	})
}

// outside returns why the package shows that a kind is not a resource, or "" if it may be one.
func (p *apiPackage) outside(k *kind) string {
	if !isList(p.Types.Scope().Lookup(k.Name + "List")) {
		return fmt.Sprintf("it has no list type %sList", k.Name)
	}
	if registered := p.registered(); len(registered) > 0 && !registered[k.Name] {
		return "it is not registered with the types of the package"
	}
	return ""
}

// undefined returns a function that returns why the CRDs of a kind's module show that the kind is not a resource, or ""
// if it may be one.
func (p *apiPackage) undefined(group string) func(k *kind) string {
	return func(k *kind) string {
		if p.Module == nil || p.Module.Dir == "" {
			return ""
		}
		if defined := p.source.definedIn(p.Module.Dir); len(defined) > 0 && !defined[group+"/"+k.Name] {
			return "the module has CRDs, but none for it"
		}
		return ""
	}
}

// isList reports whether an object is the type of a list: a struct with Items.
func isList(obj types.Object) bool {
	if obj == nil {
		return false
	}
	u, ok := obj.Type().Underlying().(*types.Struct)
	return ok && slices.ContainsFunc(slices.Collect(u.Fields()), func(f *types.Var) bool { return f.Name() == "Items" })
}

// registered returns the marked types that the package adds to a scheme: by a call of Register or AddKnownTypes with
// &Widget{}, or by a list of runtime.Object. It is empty if the types are registered elsewhere.
func (p *apiPackage) registered() map[string]bool {
	found := map[string]bool{}
	add := func(list []ast.Expr) {
		for _, e := range list {
			if name := pointedTo(e); p.roots[name] {
				found[name] = true
			}
		}
	}
	for _, file := range p.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				name := calledName(n.Fun)
				if strings.HasPrefix(name, "Register") || strings.HasPrefix(name, "AddKnownType") ||
					name == "append" && isObjects(p.TypesInfo.TypeOf(n)) {
					add(n.Args)
				}
			case *ast.CompositeLit:
				if isObjects(p.TypesInfo.TypeOf(n)) {
					add(n.Elts)
				}
			}
			return true
		})
	}
	return found
}

// pointedTo returns the T of an expression &T{}, or "".
func pointedTo(e ast.Expr) string {
	unary, ok := e.(*ast.UnaryExpr)
	if !ok {
		return ""
	}
	literal, ok := unary.X.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	name, _ := literal.Type.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

// calledName returns the name of a called function or method.
func calledName(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// isObjects reports whether t is a []runtime.Object.
func isObjects(t types.Type) bool {
	slice, ok := t.(*types.Slice)
	return ok && types.TypeString(slice.Elem(), nil) == runtimePath+".Object"
}

var definesCRD = regexp.MustCompile(`CustomResourceDefinition\b`)

// definedIn returns the kinds for which the files below the directory of a module have CRDs, as "group/Kind". Folders
// of other modules, hidden folders and test data do not count.
func (s *goSource) definedIn(dir string) map[string]bool {
	if found, ok := s.defined[dir]; ok {
		return found
	}
	found := map[string]bool{}
	filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // skip unreadable files and folders
		case entry.IsDir():
			if file != dir && isForeign(file) {
				return filepath.SkipDir
			}
			return nil
		case !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			return nil
		}
		text, err := os.ReadFile(file)
		if err == nil && definesCRD.Match(text) {
			for _, name := range kindsIn(file, text) {
				found[name] = true
			}
		}
		return nil
	})
	if s.defined == nil {
		s.defined = map[string]map[string]bool{}
	}
	s.defined[dir] = found
	return found
}

// isForeign reports whether files of a folder do not describe the API of the module around it.
func isForeign(dir string) bool {
	name := filepath.Base(dir)
	if name == "vendor" || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

var (
	crdDocument = regexp.MustCompile(`(?m)^kind:\s*CustomResourceDefinition\s*$`)
	crdGroup    = regexp.MustCompile(`(?m)^  group:\s*["']?([-a-z0-9.]+)`)
	crdKind     = regexp.MustCompile(`(?m)^    kind:\s*["']?([A-Za-z0-9]+)`)
)

// kindsIn returns the kinds that a file defines. It also understands most templates of Helm.
func kindsIn(file string, text []byte) (names []string) {
	if definitions, err := readDefinitions(file); err == nil {
		for _, d := range definitions {
			names = append(names, d.Spec.Group+"/"+d.Spec.Names.Kind)
		}
		return names
	}
	for _, document := range bytes.Split(text, []byte("\n---")) {
		group, kind := crdGroup.FindSubmatch(document), crdKind.FindSubmatch(document)
		if crdDocument.Match(document) && group != nil && kind != nil {
			names = append(names, string(group[1])+"/"+string(kind[1]))
		}
	}
	return names
}
