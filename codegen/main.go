// Command codegen writes informers, listers and typed indexes for the types of Kubernetes API packages, or of CRDs.
//
//	//go:generate go run github.com/typedinformer/informer/codegen ./...
//	//go:generate go run github.com/typedinformer/informer/codegen -crd crd.yaml
//
// It finds types by their markers for client-gen or controller-gen. For CRDs, it declares the types. With -fields, it
// declares types with just some fields. With -factory, it writes shared informers that replace those of informer-gen.
// README.md leads from a type to a running lister, and describes the migration from lister-gen and informer-gen.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	switch err := run(os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "codegen: %s\n", strings.ReplaceAll(err.Error(), "\n", "\ncodegen: "))
		os.Exit(1)
	}
}

const usage = `codegen writes informers, listers and typed indexes for the types of Kubernetes API packages, or of CRDs.

	codegen [flags] packages
	codegen [flags] -crd file.yaml...

Packages are named as for go build: ./api/..., example.com/api/v1. Packages without markers are ignored. For each other
package, codegen writes a package with the last two elements of its path into the output directory. For CRDs, it writes
one for each version of each group, such as shop/v1 for shop.example.com/v1. Groups that would share a directory get
directories with their full names, but a directory that exists keeps its name; -group-dir names others.

With -factory, it writes the packages that informer-gen writes below externalversions, with the same names.

`

// options are the parsed flags.
type options struct {
	dir        string
	outputDir  string
	headerFile string
	plurals    plurals
	exclude    map[string]bool
	groupDirs  groupDirs
	compat     bool
	deepCopy   bool
	apply      bool
	factory    factoryFlags
	check      bool
	patterns   []string
	crds       []string
	cluster    clusterFlags
	fields     fieldFlags
	indexes    []*indexFlag
	notes      []string // about types that are left out, filled in by load
	copied     []string // the packages that an earlier run with -deepcopy may have written to, filled in by load
}

// indexFlag is a parsed -index flag.
type indexFlag struct {
	kind, name, path string
	used             bool
	failed           errorList // for kinds without the field
}

func parseIndexFlag(text string) (*indexFlag, error) {
	kind, rest, _ := strings.Cut(text, ":")
	name, path, _ := strings.Cut(rest, "=")
	if kind == "" || path == "" || !token.IsIdentifier(upperFirst(name)) {
		return nil, fmt.Errorf("%q: want Kind:Name=path", text)
	}
	return &indexFlag{kind: kind, name: strings.TrimPrefix(upperFirst(name), "By"), path: path}, nil
}

func parseOptions(args []string, out io.Writer) (o options, err error) {
	o.plurals, o.exclude, o.fields = plurals{"Endpoints": "Endpoints"}, map[string]bool{}, fieldFlags{}
	o.groupDirs = groupDirs{}
	flags := flag.NewFlagSet("codegen", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints errors
	flags.StringVar(&o.dir, "C", ".", "`directory` to change to first; all other names are relative to it")
	flags.StringVar(&o.outputDir, "output-dir", "informers", "`directory` to write to")
	flags.Func("group-dir", "`group=directory` below the output directory for the packages of a group; can be repeated",
		o.groupDirs.parse)
	flags.StringVar(&o.headerFile, "go-header-file", "",
		"`file` with a comment for the top of each file; YEAR in it becomes the year of the file's first generation")
	flags.Func("plural-exceptions", "plurals that do not follow the usual rules, as `Kind:Plural,…`", o.plurals.parse)
	flags.Func("exclude", "types to leave out, as `import/path.Kind,…`", func(text string) error {
		for _, name := range strings.Split(text, ",") {
			o.exclude[strings.TrimSpace(name)] = true
		}
		return nil
	})
	flags.Func("crd", "`file`, folder, or pattern of files with CustomResourceDefinitions, whose Go types are declared too; can be repeated, or followed by more files", func(text string) error {
		o.crds = append(o.crds, text)
		return nil
	})
	flags.Func("from-cluster", "CRDs of a cluster, by the `names` of CRDs or groups, separated by commas; can be repeated", o.cluster.parse)
	flags.StringVar(&o.cluster.kubeconfig, "kubeconfig", "", "`file` with the access for -from-cluster; default: as kubectl")
	flags.StringVar(&o.cluster.context, "context", "", "`name` of a context of the kubeconfig; default: its current one")
	flags.Func("fields", "declare types with just the fields `[Kind:]path,…`, for every kind or for that one; can be repeated", o.fields.parse)
	flags.Func("index", "`Kind:Name=path`: give the kind's lister a method ByName, like +informer:index; can be repeated",
		func(text string) error {
			flag, err := parseIndexFlag(text)
			o.indexes = append(o.indexes, flag)
			return err
		})
	flags.BoolVar(&o.compat, "compat", false, "write listers with the interfaces of client-go's lister-gen")
	flags.BoolVar(&o.deepCopy, "deepcopy", false,
		"also write deep copies of the types, into their packages: "+copiesFile)
	flags.BoolVar(&o.apply, "apply", false, "also write apply configurations, for server-side apply, below "+applyDir)
	flags.StringVar(&o.factory.clientset, "factory", "",
		"instead, write shared informers with the names of informer-gen, for the clientset of client-gen with this `import path`")
	flags.StringVar(&o.factory.listers, "listers", "",
		"the `import path` above the listers of lister-gen. For -factory, the default is listers beside its clientset. "+
			"With -compat, write only listers, which implement the interfaces there")
	flags.BoolVar(&o.check, "check", false, "write nothing; fail if a file is out of date, missing, or no longer generated")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w (-h explains the flags)", err)
	}
	for _, arg := range flags.Args() {
		if strings.HasPrefix(arg, "-") {
			return o, fmt.Errorf("%s follows a package or file: flags come first", arg)
		}
		if len(o.crds) > 0 && slices.Contains(definitionExts, path.Ext(arg)) {
			o.crds = append(o.crds, arg) // the shell has expanded a pattern
		} else {
			o.patterns = append(o.patterns, arg)
		}
	}
	if len(o.patterns)+len(o.crds)+len(o.cluster.names) == 0 {
		return o, errors.New("name packages, like ./..., or CRDs, by -crd file.yaml (-h explains more)")
	}
	if o.deepCopy && (len(o.crds)+len(o.cluster.names) > 0 || len(o.fields) > 0 || o.factory.clientset != "") {
		return o, errors.New("-deepcopy copies the types of Go packages, so it excludes -crd and -fields, which always write deep copies, and -factory")
	}
	if o.apply && (len(o.fields) > 0 || o.factory.clientset != "") {
		return o, errors.New("-apply takes types with all of their fields, so it excludes -fields and -factory")
	}
	if err := o.cluster.complete(); err != nil {
		return o, err
	}
	return o, o.factory.complete(&o)
}

// run is the program. It writes help to out, and notes to log.
func run(args []string, out, log io.Writer) error {
	o, err := parseOptions(args, out)
	if err != nil {
		return err
	}
	if err := os.Chdir(o.dir); err != nil {
		return err
	}
	files, err := o.generate()
	for _, note := range o.notes {
		fmt.Fprintf(log, "codegen: %s\n", note)
	}
	if err != nil {
		return err
	}
	dir := outputDir(o.outputDir)
	copies, err := o.copies()
	if err != nil {
		return err
	}
	if o.check {
		return dir.check(files, copies...)
	}
	removed, err := dir.write(files, copies...)
	for _, name := range removed {
		fmt.Fprintf(log, "codegen: removed %s, which an earlier run wrote\n", name)
	}
	return err
}

// copies returns the names of the files, below the output directory, that an earlier run with -deepcopy may have
// written.
func (o *options) copies() (names []string, err error) {
	for _, dir := range o.copied {
		name, err := outputDir(o.outputDir).relative(filepath.Join(dir, copiesFile))
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// findCopies returns an error if an earlier run wrote deep copies, which this one would leave as they are.
func (o *options) findCopies(dirs []string) error {
	if len(o.fields) > 0 || o.factory.clientset != "" || o.factory.listers != "" {
		return nil // another run writes them
	}
	for _, dir := range dirs {
		file := filepath.Join(dir, copiesFile)
		if text, err := os.ReadFile(file); err == nil && isGenerated(text) {
			return fmt.Errorf("%s: a run with -deepcopy wrote this file: add -deepcopy to keep it up to date, or delete the file", file)
		}
	}
	return nil
}

// generate returns all files, by their names below the output directory.
func (o *options) generate() (map[string][]byte, error) {
	apis, err := o.load()
	if err != nil {
		return nil, err
	}
	p := &printer{compat: o.compat, expanded: outputDir(o.outputDir).has}
	if o.headerFile != "" {
		text, err := os.ReadFile(o.headerFile)
		if err != nil {
			return nil, err
		}
		p.header = string(text)
	}
	if o.factory.clientset != "" {
		return p.factory(o.factory, outputDir(o.outputDir), apis)
	}
	if o.factory.listers != "" {
		if err := findListers(o.factory.listers, apis); err != nil {
			return nil, err
		}
		apis = slices.DeleteFunc(apis, func(a *api) bool { return len(a.Kinds) == 0 })
	}
	if err := o.groupDirs.place(apis, outputDir(o.outputDir)); err != nil {
		return nil, err
	}
	all, external := map[string][]byte{}, clientConfigs{}
	for _, a := range apis {
		files, err := p.files(a)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, files)
		if o.apply {
			name, text, err := p.apply(a, outputDir(o.outputDir), external)
			if err != nil {
				return nil, err
			}
			all[name] = text
		}
		if a.Copied == nil || len(a.Copied.types) == 0 {
			continue
		}
		name, err := outputDir(o.outputDir).relative(filepath.Join(a.Copied.dir, copiesFile))
		if err != nil {
			return nil, err
		}
		if all[name], err = p.deepCopies(a); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// load returns the apis of all sources, with -fields and -index applied.
func (o *options) load() (apis []*api, err error) {
	if len(o.patterns) > 0 {
		source := &goSource{plurals: o.plurals, exclude: o.exclude, copies: o.deepCopy, client: o.factory.listers != "",
			listers: o.factory.listers != "" && o.factory.clientset == ""}
		apis, err = source.load(o.patterns)
		if o.notes = source.notes; err != nil {
			return nil, err
		}
		if o.deepCopy {
			o.copied = source.dirs
		} else if err := o.findCopies(source.dirs); err != nil {
			return nil, err
		}
		switch {
		case len(apis) == 0 && len(o.notes) > 0:
			return nil, fmt.Errorf("every type in %s is left out", strings.Join(o.patterns, " "))
		case len(apis) == 0 && source.client:
			return nil, fmt.Errorf("no type in %s has the marker +genclient, a client and a lister", strings.Join(o.patterns, " "))
		case len(apis) == 0:
			return nil, fmt.Errorf("no type in %s has one of the markers +genclient, +kubebuilder:object:root=true and +kubebuilder:resource", strings.Join(o.patterns, " "))
		}
	}
	if len(o.crds)+len(o.cluster.names) > 0 {
		source := &crdSource{plurals: o.plurals, exclude: o.exclude, cluster: o.cluster}
		defined, err := source.load(o.crds)
		if err != nil {
			return nil, err
		}
		apis = append(apis, defined...)
	}
	for name := range o.fields {
		if name != "" && !slices.ContainsFunc(apis, func(a *api) bool { return a.has(name) }) {
			return nil, fmt.Errorf("-fields %s: no kind has this name; the kinds are %s", name, kindNames(apis))
		}
	}
	var errs []error
	for _, a := range apis {
		if len(o.fields) > 0 {
			if err := a.slim(o.fields); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		a.addIndexes(o.indexes)
		errs = append(errs, a.check())
	}
	for _, flag := range o.indexes {
		switch {
		case flag.used:
		case len(flag.failed) > 0:
			errs = append(errs, flag.failed.err())
		case !slices.ContainsFunc(apis, func(a *api) bool { return a.has(flag.kind) }):
			errs = append(errs, fmt.Errorf("-index %s:%s=%s: no kind has this name; the kinds are %s",
				flag.kind, flag.name, flag.path, kindNames(apis)))
		}
	}
	return slices.DeleteFunc(apis, func(a *api) bool { return len(a.Kinds) == 0 }), errors.Join(errs...)
}
