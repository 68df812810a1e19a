package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// goSource finds apis in Go packages, by the markers on their types.
type goSource struct {
	plurals plurals
	exclude map[string]bool            // "import/path.Kind"
	copies  bool                       // find the types that get deep copies
	client  bool                       // find the types of client-gen and its like, which know only their own markers
	listers bool                       // find the types of lister-gen: it wants list, but not watch
	dirs    []string                   // of the packages that may have deep copies: those of the main module
	notes   []string                   // about types that are left out, for the user
	defined map[string]map[string]bool // the kinds that have CRDs, by directory of the module; see definedIn
}

// load returns an api for each package with marked types.
func (s *goSource) load(patterns []string) ([]*api, error) {
	paths, err := s.marked(patterns)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedExportFile | packages.NeedModule,
	}, paths...)
	if err != nil {
		return nil, err
	}
	var apis []*api
	var errs []error
	for _, pkg := range pkgs {
		wrong := problemsOf(pkg)
		if len(wrong.syntax) > 0 { // they may hide types
			errs = append(errs, errorList(wrong.syntax).err())
			continue
		}
		a, err := s.api(pkg)
		if err != nil {
			// Code that does not compile may use types that are yet to be generated. Its errors matter only if they
			// cause this one.
			errs = append(errs, err, wrong.err())
			continue
		}
		if len(a.Kinds) > 0 {
			apis = append(apis, a)
		}
	}
	slices.SortFunc(apis, func(a, b *api) int { return cmp.Compare(a.From, b.From) })
	return apis, errors.Join(errs...)
}

var hasMarkers = regexp.MustCompile(`(?m)^\s*(//|\*)?\s*\+(genclient|kubebuilder:(object:root|resource)|informer:)`)

// marked returns the packages of patterns with relevant markers. The others need not compile: they may import packages
// that are yet to be generated.
func (s *goSource) marked(patterns []string) ([]string, error) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedModule}, patterns...)
	if err != nil {
		return nil, err
	}
	var paths []string
	var errs []error
	for _, pkg := range pkgs {
		if len(pkg.GoFiles) == 0 {
			errs = append(errs, problemsOf(pkg).err())
		} else if pkg.Module != nil && pkg.Module.Main {
			s.dirs = append(s.dirs, filepath.Dir(pkg.GoFiles[0]))
		}
		for _, file := range pkg.GoFiles {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if hasMarkers.Match(text) && !isGenerated(text) {
				paths = append(paths, pkg.PkgPath)
				break
			}
		}
	}
	return paths, errors.Join(errs...)
}

// apiPackage is a package with API types, while it is read.
type apiPackage struct {
	*packages.Package
	source *goSource
	errs   errorList
	fields map[token.Pos]*ast.Field // of all structs, by the position of a name
	roots  map[string]bool          // the types with +kubebuilder:object:root=true
}

func (s *goSource) api(pkg *packages.Package) (*api, error) {
	p := &apiPackage{Package: pkg, source: s, fields: map[token.Pos]*ast.Field{}, roots: map[string]bool{}}
	if pkg.Types == nil {
		return nil, fmt.Errorf("%s: the package has no types", pkg.PkgPath)
	}
	a := &api{From: pkg.PkgPath, Path: pkg.PkgPath, Dir: path.Base(pkg.PkgPath)}
	for _, file := range pkg.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok {
				for _, name := range field.Names {
					p.fields[name.Pos()] = field
				}
			}
			return true
		})
	}
	marks := map[string]markers{}
	for _, file := range pkg.Syntax {
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				spec := spec.(*ast.TypeSpec)
				from, doc := gen.Pos(), gen.Doc
				if gen.Lparen.IsValid() {
					from, doc = spec.Pos(), spec.Doc
				}
				ms := parseMarkers(pkg.Fset, above(pkg.Fset, file, from, doc), doc)
				marks[spec.Name.Name] = ms
				if k, ok := p.kind(spec, ms); ok {
					a.Kinds = append(a.Kinds, k)
				}
			}
		}
	}
	p.leaveOut(a, p.outside)
	if len(a.Kinds) == 0 && len(p.errs) == 0 {
		return a, nil
	}
	p.groupVersion(a)
	if a.Version == internalVersion {
		return &api{}, nil
	}
	p.leaveOut(a, p.undefined(a.Group))
	if s.copies {
		a.Copied = p.deepCopies(marks, a.Kinds)
	}
	a.sort()
	if err := a.check(); err != nil {
		p.errs = append(p.errs, strings.Split(err.Error(), "\n")...)
	}
	return a, p.errs.err()
}

// internalVersion is the version of types that only an API server uses, for conversions. Its name in Go is
// runtime.APIVersionInternal.
const internalVersion = "__internal"

// above returns the comment above a declaration and its doc comment, separated by one empty line. Markers are usually
// there.
func above(fset *token.FileSet, file *ast.File, from token.Pos, doc *ast.CommentGroup) *ast.CommentGroup {
	if doc != nil {
		from = doc.Pos()
	}
	for _, group := range file.Comments {
		if fset.Position(group.End()).Line == fset.Position(from).Line-2 {
			return group
		}
	}
	return nil
}

// kind returns the kind of a type, and whether its markers request generation.
func (p *apiPackage) kind(spec *ast.TypeSpec, ms markers) (k kind, ok bool) {
	name := spec.Name.Name
	fail := func(err error) (kind, bool) {
		p.errs.addMarker(name, err)
		return kind{}, false
	}
	resource, err := ms.kubebuilderArgs("resource")
	if err != nil {
		return fail(err)
	}
	root, _ := ms.get("kubebuilder:object:root")
	if root.value == "true" {
		p.roots[name] = true
	}
	why, genclient := ms.get("genclient")
	hasVerb, err := ms.verbs(p.source.listers)
	if err != nil {
		return fail(err)
	}
	indexes, err := ms.indexes()
	if err != nil {
		return fail(err)
	}
	if p.source.client && !genclient {
		return kind{}, false // it has no client and no lister
	}
	asked := genclient
	if m, ok := ms.resourceMarker(); ok && !genclient {
		asked, why = true, m
	}
	switch {
	case !asked && root.value != "true":
		if len(indexes) > 0 {
			return fail(indexes[0].mark.errorf("the type has none of the markers +genclient, +kubebuilder:object:root=true and +kubebuilder:resource"))
		}
		return kind{}, false
	case !hasVerb("list") || !hasVerb("watch") && !p.source.listers, ms.has("kubebuilder:skipversion"), ms.has("kubebuilder:unservedversion"),
		p.source.exclude[p.PkgPath+"."+name]:
		return kind{}, false
	}

	k = kind{
		Name:       name,
		Type:       qualify(p.PkgPath, name),
		Plural:     p.source.plurals.of(name),
		Namespaced: !ms.has("genclient:nonNamespaced"),
		Stored:     ms.has("kubebuilder:storageversion"),
		RootOnly:   !asked && !ms.ofResource() && len(indexes) == 0,
		CanGet:     hasVerb("get"),
		pos:        p.Fset.Position(spec.Name.Pos()),
	}
	obj, _ := p.Types.Scope().Lookup(name).(*types.TypeName)
	if obj == nil {
		return fail(why.errorf("the type is not declared in the package"))
	}
	methods := types.NewMethodSet(types.NewPointer(obj.Type()))
	for _, method := range []string{"GetNamespace", "GetName", "GetUID", "GetResourceVersion"} {
		if methods.Lookup(nil, method) == nil {
			switch {
			case !asked && embedsUnknown(obj.Type()):
				return fail(root.errorf("the type of an embedded field is not known"))
			case !asked: // a list of objects, or a configuration file
				return kind{}, false
			}
			return fail(why.errorf("the type has no method %s: it does not embed metav1.ObjectMeta", method))
		}
	}
	k.Labeled = methods.Lookup(nil, "GetLabels") != nil
	if !spec.Name.IsExported() {
		return fail(why.errorf("the type is not exported"))
	}

	k.Resource, k.object = strings.ToLower(k.Plural), obj.Type()
	if m, ok := ms.get("resourceName"); ok {
		if !isResourceName(m.value) {
			return fail(m.errorf("%q is not a valid resource name", m.value))
		}
		if other := resource["path"]; other != "" && other != m.value {
			return fail(m.errorf("+kubebuilder:resource says path=%s", other))
		}
		k.Resource = m.value
	}
	marker, _ := ms.resourceMarker()
	if name := resource["path"]; name != "" {
		if !isResourceName(name) {
			return fail(marker.errorf("%q is not a valid resource name", name))
		}
		k.Resource = name
	}
	switch scope := resource["scope"]; {
	case scope == "Cluster":
		k.Namespaced = k.Namespaced && p.source.client // the client and the lister have the scope of +genclient
	case scope == "Namespaced" && !k.Namespaced:
		return fail(marker.errorf("+genclient:nonNamespaced says that the scope is Cluster"))
	case scope != "" && scope != "Namespaced":
		return fail(marker.errorf("the scope %q is neither Namespaced nor Cluster", scope))
	}

	for _, x := range indexes {
		p.addIndex(&k, obj, x)
	}
	p.fieldIndexes(&k, obj)
	return k, true
}

// embedsUnknown reports whether t is a struct with an embedded field whose type could not be loaded.
func embedsUnknown(t types.Type) bool {
	u, ok := t.Underlying().(*types.Struct)
	return ok && slices.ContainsFunc(slices.Collect(u.Fields()), func(f *types.Var) bool {
		return f.Embedded() && types.Unalias(f.Type()) == types.Typ[types.Invalid]
	})
}

// resourceMarker returns the first marker +kubebuilder:resource.
func (ms markers) resourceMarker() (marker, bool) {
	for _, m := range ms {
		if m.name == "kubebuilder:resource" || strings.HasPrefix(m.name, "kubebuilder:resource:") {
			return m, true
		}
	}
	return marker{}, false
}

// groupVersion sets the group, version and directory of a.
func (p *apiPackage) groupVersion(a *api) {
	var ms markers
	for _, file := range p.Syntax {
		end := file.FileEnd
		for _, decl := range file.Decls {
			if gen, ok := decl.(*ast.GenDecl); !ok || gen.Tok != token.IMPORT {
				end = decl.Pos()
				break
			}
		}
		for _, group := range file.Comments {
			if group.End() < end {
				ms = append(ms, parseMarkers(p.Fset, group)...)
			}
		}
	}
	variable, hasVariable := p.groupVersionVariable()
	group, hasGroup := ms.get("groupName")
	version, hasVersion := ms.get("versionName")
	a.Group, a.Version = unquote(group.value), unquote(version.value)
	if hasVariable {
		if hasGroup && a.Group != variable.group {
			p.errs.addMarker("", group.errorf("%s at %s says %q", variable.name, position(variable.pos), variable.group))
		}
		if hasVersion && a.Version != variable.version {
			p.errs.addMarker("", version.errorf("%s at %s says %q", variable.name, position(variable.pos), variable.version))
		}
		a.Group, a.Version = variable.group, variable.version
	}
	if a.Group != "" && !groupName.MatchString(a.Group) {
		p.errs.add(cmp.Or(variable.pos, group.pos), "", "", "%q is not a valid group name", a.Group)
	}
	if a.Version != "" && a.Version != internalVersion && !versionName.MatchString(a.Version) {
		p.errs.add(cmp.Or(variable.pos, version.pos), "", "", "%q is not a valid version name", a.Version)
	}
	if !hasGroup && !hasVariable {
		p.errs.add(p.Fset.Position(p.Syntax[0].Package), "", "",
			"package %s has no API group: write // +groupName=example.com in doc.go, or declare SchemeGroupVersion or GroupVersion with constants", p.PkgPath)
	}
	if a.Version == "" {
		a.Version = p.Name // as in controller-gen
	}
	parts := strings.Split(strings.ToLower(p.PkgPath), "/")
	a.Dir = path.Join(parts[max(len(parts)-2, 0):]...) // as in lister-gen
	first, _, _ := strings.Cut(cmp.Or(a.Group, "core"), ".")
	a.GroupGo = upperFirst(first) // as in client-gen
	if m, ok := ms.get("groupGoName"); ok {
		name := unquote(m.value)
		a.GroupGo = upperFirst(name)
		if !token.IsIdentifier(name) {
			p.errs.addMarker("", m.errorf("%q is not a Go identifier", name))
		}
		a.Dir, a.DirGiven = path.Join(strings.ToLower(name), path.Base(a.Dir)), true
	}
}

// groupVersionVariable is a package's variable of type schema.GroupVersion.
type groupVersionVariable struct {
	name, group, version string
	pos                  token.Position
}

// groupVersionVariable finds SchemeGroupVersion or GroupVersion, as in register.go and groupversion_info.go, or else
// any other variable of that type. Its fields must be constants.
func (p *apiPackage) groupVersionVariable() (found groupVersionVariable, ok bool) {
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			gen, isGen := decl.(*ast.GenDecl)
			if !isGen || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, value := range spec.Values {
					v, isGV := p.groupVersionLiteral(value)
					if !isGV || len(spec.Names) <= i {
						continue
					}
					v.name, v.pos = spec.Names[i].Name, p.Fset.Position(spec.Names[i].Pos())
					if !ok || v.name == "SchemeGroupVersion" || v.name == "GroupVersion" && found.name != "SchemeGroupVersion" {
						found, ok = v, true
					}
				}
			}
		}
	}
	return found, ok
}

func (p *apiPackage) groupVersionLiteral(value ast.Expr) (v groupVersionVariable, ok bool) {
	literal, isLiteral := value.(*ast.CompositeLit)
	if !isLiteral {
		return v, false
	}
	named, isNamed := p.TypesInfo.TypeOf(literal).(*types.Named)
	if !isNamed || named.Obj().Name() != "GroupVersion" || named.Obj().Pkg() == nil ||
		named.Obj().Pkg().Path() != "k8s.io/apimachinery/pkg/runtime/schema" {
		return v, false
	}
	for _, element := range literal.Elts {
		pair, isPair := element.(*ast.KeyValueExpr)
		if !isPair {
			return v, false
		}
		known := p.TypesInfo.Types[pair.Value].Value
		if known == nil || known.Kind() != constant.String {
			return v, false
		}
		switch text := constant.StringVal(known); pair.Key.(*ast.Ident).Name {
		case "Group":
			v.group = text
		case "Version":
			v.version = text
		}
	}
	return v, v.version != ""
}
