package main

import (
	_ "embed"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// Packages that a generated factory imports.
const (
	cachePath   = "k8s.io/client-go/tools/cache"
	factoryPath = "github.com/typedinformer/informer/clientgo/factory"
	storagePath = "github.com/typedinformer/informer/clientgo/cache"
)

//go:embed factory.tmpl
var factoryText string

//go:embed internalinterfaces.tmpl
var internalInterfacesText string

//go:embed group.tmpl
var groupText string

//go:embed version.tmpl
var versionText string

// factoryFlags are the parsed flags of a factory in the form of informer-gen.
type factoryFlags struct {
	clientset string // the import path of client-gen's package versioned; empty means no factory
	listers   string // the import path above lister-gen's packages
}

// complete returns an error for flags that do not go together, and fills in the listers.
func (f *factoryFlags) complete(o *options) error {
	for _, importPath := range []string{f.clientset, f.listers} {
		if importPath != "" {
			if err := module.CheckImportPath(importPath); err != nil {
				return fmt.Errorf("-factory and -listers: %w", err)
			}
		}
	}
	switch {
	case f.listers != "" && o.compat && f.clientset == "" && (len(o.crds)+len(o.cluster.names) > 0 || len(o.fields) > 0):
		return errors.New("-listers takes the types of Go packages, so it excludes -crd and -fields, which declare others")
	case f.listers != "" && o.compat && f.clientset == "":
		return nil
	case f.clientset == "" && f.listers != "":
		return errors.New("-listers needs -factory, for a factory, or -compat, for listers of " +
			"this library with the interfaces of lister-gen")
	case f.clientset == "":
		return nil
	case len(o.crds)+len(o.cluster.names) > 0 || len(o.fields) > 0:
		return errors.New("-factory takes the types of a clientset, so it excludes -crd and -fields, which declare others")
	case len(o.groupDirs) > 0:
		return errors.New("-factory writes to the directories of informer-gen, so it excludes -group-dir")
	case o.compat || len(o.indexes) > 0:
		return errors.New("-factory uses the listers of lister-gen, so it excludes -compat and -index, which write others")
	}
	if f.listers == "" {
		above, ok := strings.CutSuffix(f.clientset, "/clientset/versioned")
		if !ok {
			return fmt.Errorf("-factory %s does not end in /clientset/versioned: name the listers by -listers", f.clientset)
		}
		f.listers = above + "/listers"
	}
	return nil
}

// factoryData is the data of the templates of a factory.
type factoryData struct {
	*fileData
	Clientset string          // import path
	Internal  string          // import path of the package internalinterfaces
	Storage   string          // import path of the options of storage
	Groups    []*factoryGroup // sorted by name
	Group     *factoryGroup   // of the file, if it has one
	Version   *factoryVersion // of the file, if it has one
}

// factoryGroup is an API group of a factory.
type factoryGroup struct {
	Name     string // the method of the factory: "Shop"
	Group    string // "shop.example.com"
	Path     string // import path
	Versions []*factoryVersion
}

// factoryVersion is a version of a group, with the kinds that have a lister.
type factoryVersion struct {
	*api
	GoVersion string // "V1"
	dir       string // of the package, below the output directory, as in informer-gen and lister-gen: "shop/v1"
	Path      string // import path
	Listers   string // import path of its listers
}

// Described returns the groups, for comments.
func (d *factoryData) Described() string {
	var names []string
	for _, g := range d.Groups {
		names = append(names, g.Group)
	}
	return strings.Join(names, ", ")
}

// factory returns the files of a factory of all apis, by their names below the output directory.
func (p *printer) factory(flags factoryFlags, to outputDir, apis []*api) (map[string][]byte, error) {
	root, err := to.importPath()
	if err != nil {
		return nil, err
	}
	groups, err := factoryGroups(flags, root, apis)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	add := func(name, text, from string, group *factoryGroup, version *factoryVersion) error {
		dir := path.Dir(name)
		f := &fileData{
			api:     &api{Dir: path.Base(path.Join(root, dir)), From: from},
			imports: map[string]string{},
			named:   map[string]string{storagePath: "storage"},
			local:   factoryLocal,
		}
		if version != nil {
			f.named[version.Listers] = "listers"
		}
		d := &factoryData{
			fileData:  f,
			Clientset: flags.clientset,
			Internal:  path.Join(root, "internalinterfaces"),
			Storage:   storagePath,
			Groups:    groups,
			Group:     group,
			Version:   version,
		}
		var err error
		files[name], err = p.render(f, d, text)
		return err
	}
	everything := strings.Join(sources(apis), ", ")
	if err := add("factory.go", factoryText, everything, nil, nil); err != nil {
		return nil, err
	}
	if err := add("internalinterfaces/factory_interfaces.go", internalInterfacesText, everything, nil, nil); err != nil {
		return nil, err
	}
	for _, g := range groups {
		var members []*api
		for _, v := range g.Versions {
			members = append(members, v.api)
			if err := add(path.Join(v.dir, "interface.go"), versionText, v.From, g, v); err != nil {
				return nil, err
			}
		}
		name := path.Join(path.Dir(g.Versions[0].dir), "interface.go")
		if err := add(name, groupText, strings.Join(sources(members), ", "), g, nil); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// factoryLocal are names of the templates that no other import may have.
var factoryLocal = []string{"f", "g", "own", "of", "options", "option", "namespace", "resource", "shared", "indexers",
	"version", "transform", "period", "storage", "listers"}

// gvr returns the resource of a kind, as an expression.
func gvr(v *factoryVersion, k kind) string {
	return fmt.Sprintf("«%s».GroupVersionResource{Group: %q, Version: %q, Resource: %q}", schemaPath, v.api.Group,
		v.api.Version, k.Resource)
}

// sources returns the sources of apis.
func sources(apis []*api) (all []string) {
	for _, a := range apis {
		all = append(all, a.From)
	}
	return all
}

// factoryGroups returns the groups of apis, whose packages are below the import path root.
func factoryGroups(flags factoryFlags, root string, apis []*api) ([]*factoryGroup, error) {
	byName, byDir := map[string]*factoryGroup{}, map[string]*api{}
	var groups []*factoryGroup
	for _, a := range apis {
		kinds := slices.DeleteFunc(slices.Clone(a.Kinds), func(k kind) bool { return !k.CanGet || !k.Labeled })
		if len(kinds) == 0 {
			continue
		}
		dir := genDir(a.From)
		switch other := byDir[dir]; {
		case path.Dir(dir) == "." || path.Dir(dir) == "internalinterfaces":
			return nil, fmt.Errorf("%s: the path of a package must end in a group and a version, such as shop/v1", a.From)
		case other != nil:
			return nil, fmt.Errorf("%s and %s would both be written to %s: generate them in separate runs, each with its "+
				"own -output-dir", other.From, a.From, dir)
		case !token.IsIdentifier(a.GroupGo) || !token.IsExported(a.GroupGo):
			return nil, fmt.Errorf("%s: the group %q is not a Go identifier: add +groupGoName, as for client-gen", a.From,
				a.Group)
		}
		byDir[dir] = a
		in, g := path.Join(root, path.Dir(dir)), byName[a.GroupGo]
		switch {
		case g == nil:
			if i := slices.IndexFunc(groups, func(g *factoryGroup) bool { return g.Path == in }); i >= 0 {
				return nil, fmt.Errorf("%s and %s are of different groups, and would both be written to %s: generate them in "+
					"separate runs, each with its own -output-dir", groups[i].Versions[0].From, a.From, path.Dir(dir))
			}
			g = &factoryGroup{Name: a.GroupGo, Group: a.Group, Path: in}
			byName[a.GroupGo], groups = g, append(groups, g)
		case g.Group != a.Group || g.Path != in:
			return nil, fmt.Errorf("%s and %s would both be %s(): add +groupGoName to one of them, as for client-gen",
				g.Versions[0].From, a.From, a.GroupGo)
		}
		own := *a
		own.Kinds = kinds
		g.Versions = append(g.Versions, &factoryVersion{
			api:       &own,
			GoVersion: upperFirst(path.Base(dir)),
			dir:       dir,
			Path:      path.Join(root, dir),
			Listers:   path.Join(flags.listers, dir),
		})
	}
	if len(groups) == 0 {
		return nil, errors.New("-factory: no type has list, watch and get")
	}
	slices.SortFunc(groups, func(x, y *factoryGroup) int { return strings.Compare(x.Name, y.Name) })
	return groups, nil
}

// importPath returns the import path of the package in a directory, which need not exist.
func (d outputDir) importPath() (string, error) {
	dir, err := filepath.Abs(string(d))
	if err != nil {
		return "", err
	}
	for above := dir; ; above = filepath.Dir(above) {
		text, err := os.ReadFile(filepath.Join(above, "go.mod"))
		if errors.Is(err, fs.ErrNotExist) && above != filepath.Dir(above) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("import path of %s: no go.mod in it or above: %w", d, err)
		}
		below, err := filepath.Rel(above, dir)
		if module := modfile.ModulePath(text); err == nil && module != "" {
			return path.Join(module, filepath.ToSlash(below)), nil
		}
		return "", fmt.Errorf("import path of %s: %s has no module path", d, filepath.Join(above, "go.mod"))
	}
}
