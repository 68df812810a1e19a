// Command codegen writes informers, listers and typed indexes for the types of Kubernetes API packages.
//
//	//go:generate go run github.com/typedinformer/informer/codegen ./...
//
// It finds types by the markers that they have for client-gen or controller-gen. README.md tells how to go from a type
// to a running lister, and how to come from lister-gen and informer-gen.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
)

func main() {
	switch err := run(os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "codegen: %s\n", strings.ReplaceAll(err.Error(), "\n", "\ncodegen: "))
		os.Exit(1)
	}
}

const usage = `codegen writes informers, listers and typed indexes for the types of Kubernetes API packages.

	codegen [flags] packages

Packages are named as for go build: ./api/..., example.com/api/v1. Those without markers are left out. For each of the
others, the output directory gets a package with the same last two elements of the path.

`

// options are what the flags say.
type options struct {
	outputDir  string
	headerFile string
	plurals    plurals
	exclude    map[string]bool
	compat     bool
	check      bool
	patterns   []string
}

func parseOptions(args []string, out io.Writer) (o options, err error) {
	o.plurals, o.exclude = plurals{"Endpoints": "Endpoints"}, map[string]bool{}
	flags := flag.NewFlagSet("codegen", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are main's to print
	flags.StringVar(&o.outputDir, "output-dir", "informers", "`directory` to write to")
	flags.StringVar(&o.headerFile, "go-header-file", "", "`file` with a comment to begin each file with; YEAR in it becomes the year of the file's first generation")
	flags.Func("plural-exceptions", "`Kind:Plural,…` where the plural is not formed by the usual rules", o.plurals.parse)
	flags.Func("exclude", "`import/path.Kind,…` to leave out", func(text string) error {
		for _, name := range strings.Split(text, ",") {
			o.exclude[strings.TrimSpace(name)] = true
		}
		return nil
	})
	flags.BoolVar(&o.compat, "compat", false, "write listers with the interfaces of client-go's lister-gen")
	flags.BoolVar(&o.check, "check", false, "write nothing, and fail if there is something to write")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w (-h explains the flags)", err)
	}
	if o.patterns = flags.Args(); len(o.patterns) == 0 {
		return o, errors.New("name the packages to generate from, like ./... (-h explains more)")
	}
	return o, nil
}

// run is the program.
func run(args []string, out io.Writer) error {
	o, err := parseOptions(args, out)
	if err != nil {
		return err
	}
	files, err := o.generate()
	if err != nil {
		return err
	}
	dir := outputDir(o.outputDir)
	if o.check {
		return dir.check(files)
	}
	return dir.write(files)
}

// generate returns all files, by their names below the output directory.
func (o *options) generate() (map[string][]byte, error) {
	source := &goSource{plurals: o.plurals, exclude: o.exclude}
	apis, err := source.load(o.patterns)
	switch {
	case err != nil:
		return nil, err
	case len(apis) == 0:
		return nil, fmt.Errorf("no type in %s has one of the markers +genclient, +kubebuilder:object:root=true and +kubebuilder:resource", strings.Join(o.patterns, " "))
	}
	if err := checkDirs(apis); err != nil {
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
	all := map[string][]byte{}
	for _, a := range apis {
		files, err := p.files(a)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, files)
	}
	return all, nil
}
