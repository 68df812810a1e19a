package main

import (
	_ "embed"
	"fmt"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

//go:embed clientlisters.tmpl
var clientListersText string

// indexerPath is the package that generated listers use for methods that somebody added to lister-gen's.
const indexerPath = "github.com/typedinformer/informer/compat/indexer"

// clientLister is a lister of lister-gen, whose interfaces a generated one implements.
type clientLister struct {
	Path  string // the import path of its package
	Added []listerMethod
}

// listerMethod is a method that somebody added to a lister: it takes an object, and returns a value and an error.
type listerMethod struct {
	Name          string
	Param, Result goType
}

// findListers finds the listers of all kinds in the packages that lister-gen wrote below an import path. It leaves out
// kinds for which lister-gen writes none.
func findListers(above string, apis []*api) error {
	owners := map[string][]*api{}
	for _, a := range apis {
		a.Kinds = slices.DeleteFunc(a.Kinds, func(k kind) bool { return !k.CanGet || !k.Labeled })
		if len(a.Kinds) > 0 {
			in := path.Join(above, genDir(a.Path))
			owners[in] = append(owners[in], a)
		}
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports},
		slices.Sorted(maps.Keys(owners))...)
	if err != nil {
		return err
	}
	var errs errorList
	for _, pkg := range pkgs {
		if err := loadError(pkg); err != nil {
			errs = append(errs, fmt.Sprintf("-listers: %s: %s", pkg.PkgPath, err))
			continue
		}
		for _, a := range owners[pkg.PkgPath] {
			for i := range a.Kinds {
				k := &a.Kinds[i]
				if k.Lister, err = listerOf(pkg.Types, k); err != nil {
					errs.add(k.pos, k.Name, "", "-listers: %s. To leave the type out: -exclude %s.%s", err, a.Path, k.Name)
				}
			}
		}
	}
	return errs.err()
}

// genDir returns the directory that lister-gen and informer-gen use for a package: the last two elements of its path.
func genDir(importPath string) string {
	parts := strings.Split(strings.ToLower(importPath), "/")
	return path.Join(parts[max(len(parts)-2, 0):]...)
}

// listerOf returns the lister of a kind in a package of lister-gen.
func listerOf(pkg *types.Package, k *kind) (*clientLister, error) {
	own := map[string]bool{"List": true, "Get": !k.Namespaced, k.Plural: k.Namespaced}
	lister, added, err := listerInterface(pkg, k, k.Name+"Lister", own)
	if err != nil {
		return nil, err
	}
	if k.Namespaced {
		name := k.Name + "NamespaceLister"
		_, more, err := listerInterface(pkg, k, name, map[string]bool{"List": true, "Get": true})
		if err != nil {
			return nil, err
		}
		if len(more) > 0 {
			return nil, fmt.Errorf("%s.%s has a method %s, which codegen cannot write", pkg.Path(), name, more[0].Name())
		}
	}
	for _, m := range added {
		method, ok := addedMethod(m)
		if !ok {
			return nil, fmt.Errorf("%s.%s has a method %s, which codegen cannot write: it does not take one object with a "+
				"namespace and return a value and an error", pkg.Path(), k.Name+"Lister", m.Name())
		}
		lister.Added = append(lister.Added, method)
	}
	return lister, nil
}

// listerInterface returns a lister, and the methods of one of its interfaces beside those of lister-gen.
func listerInterface(pkg *types.Package, k *kind, name string, own map[string]bool) (*clientLister, []*types.Func, error) {
	obj, _ := pkg.Scope().Lookup(name).(*types.TypeName)
	if obj == nil || !types.IsInterface(obj.Type()) {
		return nil, nil, fmt.Errorf("%s has no interface %s", pkg.Path(), name)
	}
	var added []*types.Func
	found := map[string]bool{}
	for m := range obj.Type().Underlying().(*types.Interface).Methods() {
		if found[m.Name()] = true; !own[m.Name()] {
			added = append(added, m)
		}
		if want := "[]*" + types.TypeString(k.object, nil); m.Name() == "List" {
			if results := m.Signature().Results(); results.Len() != 2 || types.TypeString(results.At(0).Type(), nil) != want {
				return nil, nil, fmt.Errorf("%s.%s does not list %s", pkg.Path(), name, want)
			}
		}
	}
	for _, method := range slices.Sorted(maps.Keys(own)) {
		if own[method] && !found[method] {
			return nil, nil, fmt.Errorf("%s.%s has no method %s", pkg.Path(), name, method)
		}
	}
	return &clientLister{Path: pkg.Path()}, added, nil
}

// addedMethod returns m, if it takes an object with a namespace, and returns a value and an error.
func addedMethod(m *types.Func) (method listerMethod, ok bool) {
	params, results := m.Signature().Params(), m.Signature().Results()
	if params.Len() != 1 || results.Len() != 2 || m.Signature().Variadic() || results.At(1).Type().String() != "error" {
		return method, false
	}
	param := params.At(0).Type()
	get := types.NewMethodSet(param).Lookup(nil, "GetNamespace")
	return listerMethod{m.Name(), typeText(param), typeText(results.At(0).Type())}, get != nil
}

// listers returns the file with listers that implement interfaces of lister-gen, for the kinds of a.
func (p *printer) listers(a *api) (map[string][]byte, error) {
	f := &fileData{api: a, Kinds: a.Kinds, imports: map[string]string{},
		named: map[string]string{a.Kinds[0].Lister.Path: "listers"},
		local: []string{"of", "obj", "ret", "namespace", "listers"}}
	text, err := p.render(f, f, clientListersText)
	return map[string][]byte{path.Join(a.Dir, "listers.go"): text}, err
}
