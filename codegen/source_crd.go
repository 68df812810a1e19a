package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// crdSource finds apis in manifests of custom resource definitions, and declares their Go types.
type crdSource struct {
	plurals plurals
	exclude map[string]bool // "widgets.shop.example.com"
	cluster clusterFlags    // where to read more of them
}

// definition is the relevant part of a CustomResourceDefinition of apiextensions.k8s.io/v1. It is a separate type, so
// that users of the library do not need k8s.io/apiextensions-apiserver in go.mod.
type definition struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind     string `json:"kind"`
			ListKind string `json:"listKind"`
			Plural   string `json:"plural"`
		} `json:"names"`
		Versions []definedVersion `json:"versions"`
	} `json:"spec"`
	pos token.Position
}

type definedVersion struct {
	Name               string `json:"name"`
	Served             bool   `json:"served"`
	Storage            bool   `json:"storage"`
	Deprecated         bool   `json:"deprecated"`
	DeprecationWarning string `json:"deprecationWarning"`
	Schema             struct {
		OpenAPIV3Schema *schema `json:"openAPIV3Schema"`
	} `json:"schema"`
}

// definedKind is one version of a definition.
type definedKind struct {
	*definition
	version *definedVersion
}

// errorf returns an error with the position of d.
func (d *definition) errorf(format string, args ...any) error {
	text := position(d.pos) + ": "
	if d.Metadata.Name != "" {
		text += d.Metadata.Name + ": "
	}
	return errors.New(text + fmt.Sprintf(format, args...))
}

var (
	groupName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	versionName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
)

// check returns an error for a definition that an API server would reject, as far as it matters here.
func (d *definition) check() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, d.errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if !groupName.MatchString(d.Spec.Group) {
		bad("spec.group", "%q is not a valid group name", d.Spec.Group)
	}
	if d.Spec.Scope != "Namespaced" && d.Spec.Scope != "Cluster" {
		bad("spec.scope", "%q is neither Namespaced nor Cluster", d.Spec.Scope)
	}
	if !isExportedName(d.Spec.Names.Kind) {
		bad("spec.names.kind", "%q is not an exported Go name", d.Spec.Names.Kind)
	}
	if list := d.Spec.Names.ListKind; list != "" && !isExportedName(list) {
		bad("spec.names.listKind", "%q is not an exported Go name", list)
	}
	if !isResourceName(d.Spec.Names.Plural) {
		bad("spec.names.plural", "%q is not a valid resource name", d.Spec.Names.Plural)
	}
	if len(d.Spec.Versions) == 0 {
		bad("spec.versions", "the definition has no versions")
	}
	for i, v := range d.Spec.Versions {
		field := fmt.Sprintf("spec.versions[%d]", i)
		if !versionName.MatchString(v.Name) {
			bad(field+".name", "%q is not a valid version name", v.Name)
		}
		if v.Served && v.Schema.OpenAPIV3Schema == nil {
			bad(field+".schema.openAPIV3Schema", "the schema is missing")
		}
	}
	return errors.Join(errs...)
}

// load returns an api for each version of each group in the files. patterns are names of files or folders, or patterns
// of [filepath.Glob].
func (s *crdSource) load(patterns []string) ([]*api, error) {
	var definitions []*definition
	var errs []error
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", pattern, err))
		} else if len(files) == 0 && strings.ContainsAny(pattern, "*?[") {
			errs = append(errs, fmt.Errorf("-crd %s: no file matches", pattern))
		} else if len(files) == 0 {
			files = []string{pattern} // reading it reports the error
		}
		if files, err = unfolded(files); err != nil {
			errs = append(errs, err)
		}
		for _, file := range files {
			found, err := readDefinitions(file)
			if err != nil {
				errs = append(errs, err)
			}
			definitions = append(definitions, found...)
		}
	}
	live, err := s.cluster.definitions()
	if err != nil {
		errs = append(errs, err)
	}
	definitions = append(definitions, live...)
	if len(definitions)+len(errs) == 0 {
		return nil, fmt.Errorf("no CustomResourceDefinition in %s", strings.Join(patterns, " "))
	}
	if len(definitions) == 0 {
		return nil, errors.Join(errs...)
	}
	known, err := loadKnownTypes()
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	slices.SortStableFunc(definitions, func(a,
		b *definition) int {
		return cmp.Compare(a.Spec.Names.Kind, b.Spec.Names.Kind)
	})
	versions := map[string][]definedKind{} // by group and version
	for _, d := range definitions {
		if s.exclude[d.Metadata.Name] {
			continue
		}
		if err := d.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range d.Spec.Versions {
			if v := &d.Spec.Versions[i]; v.Served {
				gv := path.Join(d.Spec.Group, v.Name)
				versions[gv] = append(versions[gv], definedKind{d, v})
			}
		}
	}
	var apis []*api
	for _, kinds := range versions {
		a, err := s.api(known, kinds)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		apis = append(apis, a)
	}
	slices.SortFunc(apis, func(a, b *api) int { return cmp.Compare(a.GroupVersion(), b.GroupVersion()) })
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return apis, errors.Join(errs...)
}

// api declares the types of kinds, which belong to one version of one group.
func (s *crdSource) api(known *knownTypes, kinds []definedKind) (*api, error) {
	group, version := kinds[0].Spec.Group, kinds[0].version.Name
	a := &api{
		Group:    group,
		Version:  version,
		Dir:      path.Join(strings.Split(group, ".")[0], version), // as in lister-gen
		From:     "the CRDs of " + group,
		Complete: true,
	}
	names := newNamer(a.declaredNames()...)
	errs := errorList{}
	for i, d := range kinds {
		if i > 0 && kinds[i-1].Spec.Names.Kind == d.Spec.Names.Kind {
			errs = append(errs, d.errorf("%s is also defined at %s", d.Spec.Names.Kind, position(kinds[i-1].pos)).Error())
			continue
		}
		k := kind{
			Name:       d.Spec.Names.Kind,
			Type:       goType(d.Spec.Names.Kind),
			Plural:     s.plurals.of(d.Spec.Names.Kind),
			Resource:   d.Spec.Names.Plural,
			Namespaced: d.Spec.Scope == "Namespaced",
			Stored:     d.version.Storage,
			List:       cmp.Or(d.Spec.Names.ListKind, d.Spec.Names.Kind+"List"),
			CanGet:     true,
			Labeled:    true,
			pos:        d.pos,
		}
		a.Kinds = append(a.Kinds, k)
		for _, name := range append(k.declaredNames(), k.Name, k.List) {
			if !names.take(name) {
				errs.add(d.pos, k.Name, "", "the name %s is already taken in the package", name)
			}
		}
	}
	if len(errs) > 0 {
		return nil, errs.err()
	}
	for i := range a.Kinds {
		b := &schemaTypes{knownTypes: known, names: names, kind: a.Kinds[i].Name}
		b.declareKind(&a.Kinds[i], kinds[i])
		a.Decls = append(a.Decls, b.decls...)
		for _, text := range b.errs {
			errs = append(errs, kinds[i].errorf("version %s: %s", version, text).Error())
		}
	}
	a.sort()
	if err := a.check(); err != nil {
		errs = append(errs, strings.Split(err.Error(), "\n")...)
	}
	return a, errs.err()
}

// unfolded returns files with the files of YAML and JSON in each folder of them in place of the folder.
func unfolded(files []string) (all []string, err error) {
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || !info.IsDir() {
			all = append(all, file) // reading it reports the error
			continue
		}
		entries, err := os.ReadDir(file)
		if err != nil {
			return nil, err
		}
		found := false
		for _, entry := range entries {
			if ext := filepath.Ext(entry.Name()); !entry.IsDir() && slices.Contains(definitionExts, ext) {
				all, found = append(all, filepath.Join(file, entry.Name())), true
			}
		}
		if !found {
			return nil, fmt.Errorf("-crd %s: the folder has no file that ends in %s", file, strings.Join(definitionExts, ", "))
		}
	}
	return all, nil
}

// definitionExts are how the names of files with definitions end.
var definitionExts = []string{".yaml", ".yml", ".json"}

var documentEnd = regexp.MustCompile(`(?m)^---([ \t].*)?\r?$`)

// readDefinitions returns the definitions in a file of YAML, with any number of documents, or JSON. It ignores
// everything else.
func readDefinitions(file string) ([]*definition, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var found []*definition
	from := 0
	for _, end := range append(documentEnd.FindAllIndex(text, -1), []int{len(text), len(text)}) {
		document := text[from:end[0]]
		pos := token.Position{Filename: file, Line: 1 + bytes.Count(text[:from], []byte("\n"))}
		from = end[1]
		raw, err := yaml.YAMLToJSON(document)
		if err != nil {
			text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
			if m := yamlLine.FindStringSubmatch(text); m != nil {
				n, _ := strconv.Atoi(m[1])
				pos.Line += n - 1
				text = text[len(m[0]):]
			}
			return nil, fmt.Errorf("%s: %s", position(pos), text)
		}
		content := len(document) - len(bytes.TrimLeft(document, "\r\n"))
		pos.Line += bytes.Count(document[:content], []byte("\n"))
		list, err := definitionsIn(raw, pos)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// definitionsIn returns the definitions in a document, which may be a list.
func definitionsIn(raw []byte, pos token.Position) ([]*definition, error) {
	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return nil, nil // not an API object
	}
	group, version, _ := strings.Cut(head.APIVersion, "/")
	switch {
	case strings.HasSuffix(head.Kind, "List"):
		var found []*definition
		for _, item := range head.Items {
			list, err := definitionsIn(item, pos)
			if err != nil {
				return nil, err
			}
			found = append(found, list...)
		}
		return found, nil
	case head.Kind != "CustomResourceDefinition" || group != "apiextensions.k8s.io":
		return nil, nil
	}
	d, err := decodeDefinition(raw, pos)
	switch {
	case version != "v1":
		return nil, d.errorf("the apiVersion is %s; API servers accept apiextensions.k8s.io/v1", head.APIVersion)
	case err != nil:
		return nil, err
	}
	return []*definition{d}, nil
}

// decodeDefinition decodes a definition. Its error names the definition as far as it could be decoded.
func decodeDefinition(raw []byte, pos token.Position) (*definition, error) {
	d := &definition{pos: pos}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, d); err != nil {
		return d, d.errorf("%s", err)
	}
	return d, nil
}

// declareKind declares the type of a kind, its list type, and the types that they consist of.
func (b *schemaTypes) declareKind(k *kind, d definedKind) {
	root := *d.version.Schema.OpenAPIV3Schema
	doc := cmp.Or(root.Description, fmt.Sprintf("%s is one of the %s.", k.Name, k.Resource))
	if d.version.Deprecated {
		doc += "\n\nDeprecated: " + cmp.Or(d.version.DeprecationWarning, "version "+d.version.Name+" is deprecated.")
	}
	root.Embedded, root.Description = true, doc
	named := b.object(&root, k.Name, "")
	b.decls[0].Object = true
	k.object = named

	fields := []*types.Var{
		types.NewField(token.NoPos, generated, "TypeMeta", b.typeMeta, true),
		types.NewField(token.NoPos, generated, "ListMeta", b.listMeta, true),
		types.NewField(token.NoPos, generated, "Items", types.NewSlice(named), false),
	}
	tags := []string{`json:",inline"`, `json:"metadata,omitempty"`, `json:"items"`}
	listed := newNamed(k.List, types.NewStruct(fields, tags))
	b.decls = slices.Insert(b.decls, 1, &decl{Type: listed, Doc: k.List + " is a list of the " + k.Resource + ".",
		Object: true})
}
