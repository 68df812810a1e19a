package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

//go:embed apply.tmpl
var applyText string

// The packages with client-go's apply configurations are below configsPath.
const (
	configsPath     = "k8s.io/client-go/applyconfigurations"
	metaConfigsPath = configsPath + "/meta/v1"
	configSuffix    = "ApplyConfiguration"
)

// applyType is an apply configuration: a struct with the fields of another, all of them optional.
type applyType struct {
	Name   string       // of the constructor: "WidgetSpec"
	Of     goType       // the type that it configures
	Object *kind        // nil for a part of an object
	Client string       // the type of a client, for an object
	Meta   []applyField // of the metadata, if it has some
	Fields []applyField
}

// Config returns the name of the type.
func (a *applyType) Config() string { return a.Name + configSuffix }

// applyField is a field of an apply configuration.
type applyField struct {
	Name, JSON string
	Type       goType // of the field
	Param      goType // of its With function
	How        howSet
}

// howSet says how a With function sets its field.
type howSet int

const (
	byPointer howSet = iota // the field is a pointer to the parameter
	asItIs                  // the field is the parameter
	appended                // the parameters are appended
	derefed                 // the parameters are pointers to elements
	copied                  // the parameter is a map with more entries
)

// The templates call these methods.
func (f applyField) ByPointer() bool { return f.How == byPointer }
func (f applyField) AsItIs() bool    { return f.How == asItIs }
func (f applyField) Appended() bool  { return f.How == appended }
func (f applyField) Derefed() bool   { return f.How == derefed }
func (f applyField) Copied() bool    { return f.How == copied }

// applySource makes the apply configurations of an api.
type applySource struct {
	importPath string // the import path of the types
	own        func(*types.Package) bool
	made       map[*types.TypeName]*applyType
	list       []*applyType
	external   clientConfigs
	errs       errorList
}

// applyTypes returns the apply configurations of a's objects and of the structs in them. importPath is that of
// the types.
func applyTypes(a *api, importPath string, external clientConfigs) ([]*applyType, error) {
	s := &applySource{importPath: importPath, made: map[*types.TypeName]*applyType{}, external: external}
	s.own = func(pkg *types.Package) bool { return pkg == generated || pkg.Path() == importPath }
	if err := external.load(metaConfigsPath).err; err != nil {
		return nil, needLibrary(fmt.Errorf("-apply: %w", err))
	}
	meta, err := external.find(metaConfigsPath, "ObjectMeta")
	if meta == nil {
		return nil, cmp.Or(err, fmt.Errorf("-apply: %s has no ObjectMeta%s", metaConfigsPath, configSuffix))
	}
	for i := range a.Kinds {
		k := &a.Kinds[i]
		if t := s.configOf(k.object); t == "" {
			s.errs.add(k.pos, k.Name, "-apply", "the type is not a struct that JSON encodes field by field")
		} else if named, ok := types.Unalias(k.object).(*types.Named); ok {
			s.made[named.Obj()].Object = k
		}
	}
	names := newNamer()
	for _, t := range s.list {
		names.take(t.Name)
		names.take(t.Config())
	}
	for _, t := range s.list {
		if t.Object != nil || t.Meta != nil {
			t.Meta = s.metadata(meta, t.Fields)
		}
		if t.Object != nil { // the constructor sets them
			t.Fields, t.Client = without(t.Fields, "kind", "apiVersion"), names.unique(t.Name+"Client")
		}
	}
	return s.list, s.errs.err()
}

// without returns the fields but those with these names in JSON.
func without(fields []applyField, names ...string) (rest []applyField) {
	for _, f := range fields {
		if !slices.Contains(names, f.JSON) {
			rest = append(rest, f)
		}
	}
	return rest
}

// configOf returns the apply configuration of a type, or "" if the type is not a struct, has no fields, or is encoded
// by a method.
func (s *applySource) configOf(t types.Type) goType {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || !isStruct(t) || named.TypeArgs() != nil || hasMethod(t, "MarshalJSON") || len(jsonFields(t)) == 0 {
		return ""
	}
	obj := named.Obj()
	if made := s.made[obj]; made != nil {
		return goType(made.Config())
	}
	if in := configsOf(obj.Pkg().Path()); in != "" && !s.own(obj.Pkg()) {
		switch found, err := s.external.find(in, obj.Name()); {
		case err != nil:
			s.errs = add(s.errs, fmt.Sprintf("-apply: %s", err))
			return ""
		case found != nil:
			return qualify(in, obj.Name()+configSuffix)
		}
	}
	made := &applyType{Name: obj.Name(), Of: s.text(t)}
	if !s.own(obj.Pkg()) {
		made.Name = upperFirst(importName(obj.Pkg().Path())) + obj.Name()
	}
	s.made[obj], s.list = made, append(s.list, made)
	taken := newNamer()
	for _, f := range jsonFields(t) {
		if f.name == "metadata" && types.TypeString(f.Type(), nil) == metav1Path+".ObjectMeta" {
			made.Meta = []applyField{} // filled in later
			continue
		}
		field := applyField{Name: taken.unique(f.Name()), JSON: f.name}
		field.Type, field.Param, field.How = s.field(f.Type())
		if hidden := unexported(f.Type()); hidden != "" {
			s.errs = append(s.errs, fmt.Sprintf("-apply: %s.%s: the type %s is not exported", typeName(t), f.Name(), hidden))
		}
		made.Fields = append(made.Fields, field)
	}
	return goType(made.Config())
}

// field returns how a value of type t is configured.
func (s *applySource) field(t types.Type) (field, param goType, how howSet) {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if config := s.configOf(t); config != "" {
		return "*" + config, "*" + config, asItIs
	}
	if hasMethod(t, "MarshalJSON") {
		return "*" + s.text(t), s.text(t), byPointer
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		elem := u.Elem()
		if pointer, ok := elem.Underlying().(*types.Pointer); ok {
			elem = pointer.Elem()
		}
		if config := s.configOf(elem); config != "" {
			return "[]" + config, "*" + config, derefed
		}
		return s.text(t), s.text(u.Elem()), appended
	case *types.Map:
		if config := s.configOf(u.Elem()); config != "" {
			text := "map[" + s.text(u.Key()) + "]" + config
			return text, text, copied
		}
		return s.text(t), s.text(t), copied
	case *types.Interface:
		return s.text(t), s.text(t), asItIs
	}
	return "*" + s.text(t), s.text(t), byPointer
}

// metadata returns the fields of client-go's configuration of metadata. It leaves out fields whose names the object uses
// for fields of its own.
func (s *applySource) metadata(meta types.Type, fields []applyField) (list []applyField) {
	taken := newNamer()
	for _, f := range fields {
		taken.take(f.Name)
	}
	for f := range meta.Underlying().(*types.Struct).Fields() {
		if !taken.take(f.Name()) {
			continue
		}
		field := applyField{Name: f.Name(), Type: s.text(f.Type()), Param: s.text(f.Type()), How: asItIs}
		switch u := f.Type().Underlying().(type) {
		case *types.Pointer:
			field.Param, field.How = s.text(u.Elem()), byPointer
		case *types.Map:
			field.How = copied
		case *types.Slice:
			if field.Param, field.How = s.text(u.Elem()), appended; strings.HasSuffix(string(field.Param), configSuffix) {
				field.Param, field.How = "*"+field.Param, derefed
			}
		}
		list = append(list, field)
	}
	return list
}

// text returns t as written in the package of the apply configurations.
func (s *applySource) text(t types.Type) goType {
	return goType(types.TypeString(t, func(pkg *types.Package) string {
		if pkg == generated {
			return "«" + s.importPath + "»"
		}
		return "«" + pkg.Path() + "»"
	}))
}

// importName returns the name with which a package is imported, such as corev1.
func importName(importPath string) string {
	base := path.Base(importPath)
	if versionLike.MatchString(base) {
		return identifier(path.Base(path.Dir(importPath)) + base)
	}
	return identifier(base)
}

// configsOf returns the package with client-go's apply configurations of the types of a package, or "".
func configsOf(importPath string) string {
	if importPath == metav1Path {
		return metaConfigsPath
	}
	if below, ok := strings.CutPrefix(importPath, "k8s.io/api/"); ok {
		return configsPath + "/" + below
	}
	return ""
}

// clientConfigs are the packages with client-go's apply configurations, by import path. They are loaded from the module
// that codegen runs in, when they are needed.
type clientConfigs map[string]clientConfig

// clientConfig is a package with apply configurations, or the error of loading it.
type clientConfig struct {
	pkg    *types.Package
	absent bool // client-go has no such package
	err    error
}

// load returns a package.
func (c clientConfigs) load(importPath string) clientConfig {
	if _, ok := c[importPath]; !ok {
		c[importPath] = loadConfig(importPath)
	}
	return c[importPath]
}

func loadConfig(importPath string) (c clientConfig) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports |
		packages.NeedTypes | packages.NeedExportFile}, importPath)
	if err != nil {
		return clientConfig{err: err}
	}
	for _, pkg := range pkgs {
		c.pkg, c.err = pkg.Types, loadError(pkg)
		// A folder of vendored packages lacks those that nothing imports yet, so a missing one proves nothing.
		c.absent = c.err != nil && len(pkg.GoFiles) == 0 && !strings.Contains(c.err.Error(), "-mod=vendor")
	}
	return c
}

// find returns the apply configuration of a type, or nil.
func (c clientConfigs) find(importPath, name string) (types.Type, error) {
	config := c.load(importPath)
	switch {
	case config.absent:
		return nil, nil
	case config.err != nil:
		return nil, config.err
	}
	if obj, ok := config.pkg.Scope().Lookup(name + configSuffix).(*types.TypeName); ok && token.IsExported(name) {
		return obj.Type(), nil
	}
	return nil, nil
}

// setter is a With function, for the template.
type setter struct {
	applyField
	Config, On string // its receiver, and the variable with the field
}

func newSetter(typ *applyType, f applyField, on string) setter { return setter{f, typ.Config(), on} }

// applyData is the data of the template.
type applyData struct {
	*fileData
	Configs []*applyType
}

// applyDir is the folder below the output directory with the apply configurations, as in client-go.
const applyDir = "applyconfiguration"

// apply returns the file with the apply configurations of a, and its name.
func (p *printer) apply(a *api, to outputDir, external clientConfigs) (name string, text []byte, err error) {
	importPath := a.Path
	if len(a.Decls) > 0 {
		root, err := to.importPath()
		if err != nil {
			return "", nil, err
		}
		importPath = path.Join(root, a.Dir)
	}
	configs, err := applyTypes(a, importPath, external)
	if err != nil {
		return "", nil, err
	}
	f := &fileData{api: a, Kinds: a.Kinds, imports: map[string]string{},
		named: map[string]string{metaConfigsPath: "metav1ac"}, local: []string{"b", "c", "values", "entries", "ctx", "name", "namespace", "subresource"}}
	text, err = p.render(f, &applyData{f, configs}, applyText)
	return path.Join(applyDir, a.Dir, "applyconfiguration.go"), text, err
}
