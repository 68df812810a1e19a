// Command measure prints the sizes of the library, one column for each checkout:
//
//	go run ./internal/tools/shape/measure             # of this one
//	go run ./internal/tools/shape/measure /tmp/old .  # of two
//
// It only reads sources, so it measures old versions too. Rooms are the packages in internal without those for tests
// and tools.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// helpers matches the folders in internal that are for tests and tools, of old versions too.
var helpers = regexp.MustCompile(`^internal/(test|tools|suite|testkit|world|fleet|canned|leak|spoil|queues|shape|readme|guarantees|release|lint)(/|$)`)

// rows are what is measured, in the order of the output.
var rows = []string{
	"lines of root and rooms, without tests",
	"lines of the root, without tests",
	"files of the root, without tests",
	"names that the root exports",
	"rooms",
	"fields of rooms that are functions",
	"interfaces that rooms declare",
	"structs of rooms with the fields of a public one",
	"bytes of GUARANTEES.md",
	"bytes of BENCHMARKS.md",
	"test binaries of the root module",
}

func main() {
	roots := os.Args[1:]
	if len(roots) == 0 {
		roots = []string{"."}
	}
	var columns []map[string]int
	for _, root := range roots {
		c, err := measure(root)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		columns = append(columns, c)
	}
	fmt.Printf("| |%s\n|---|%s\n", heads(roots), strings.Repeat("---:|", len(roots)))
	for _, row := range rows {
		fmt.Printf("| %s |", row)
		for _, c := range columns {
			fmt.Printf(" %d |", c[row])
		}
		fmt.Println()
	}
}

func heads(roots []string) (text string) {
	for _, root := range roots {
		text += " " + filepath.Base(root) + " |"
	}
	return text
}

// shape is what measure has counted.
type shape struct {
	counts         map[string]int
	tested         map[string]bool              // by folder
	inside, public map[string][]map[string]bool // the fields of structs, by folder
}

// measure counts the checkout at root.
func measure(root string) (map[string]int, error) {
	s := shape{counts: map[string]int{}, tested: map[string]bool{},
		inside: map[string][]map[string]bool{}, public: map[string][]map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if name = filepath.ToSlash(name); d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if name != "." && (err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		return s.file(path, name)
	})
	s.counts["test binaries of the root module"] = len(s.tested)
	s.counts["rooms"] = len(s.inside)
	s.counts["structs of rooms with the fields of a public one"] = s.twins()
	return s.counts, err
}

// file counts one file, whose name is relative to the root.
func (s *shape) file(path, name string) error {
	folder := filepath.ToSlash(filepath.Dir(name))
	switch {
	case name == "GUARANTEES.md" || name == "BENCHMARKS.md":
		info, err := os.Stat(path)
		if err == nil {
			s.counts["bytes of "+name] = int(info.Size())
		}
		return err
	case strings.HasSuffix(name, "_test.go"):
		s.tested[folder] = true
		return nil
	case !strings.HasSuffix(name, ".go") || helpers.MatchString(folder):
		return nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	isRoom := strings.HasPrefix(folder, "internal/")
	if lines := strings.Count(string(source), "\n"); isRoom || folder == "." {
		s.counts["lines of root and rooms, without tests"] += lines
		if folder == "." {
			s.counts["lines of the root, without tests"] += lines
			s.counts["files of the root, without tests"]++
			s.counts["names that the root exports"] += exported(f)
		}
	}
	if isRoom {
		s.inside[folder] = append(s.inside[folder], s.structs(f, true)...)
	} else if !strings.Contains(folder, "internal") {
		s.public[folder] = append(s.public[folder], s.structs(f, false)...)
	}
	return nil
}

// exported returns the number of exported types, functions, constants and variables of a file.
func exported(f *ast.File) (n int) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				n++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						n++
					}
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						if name.IsExported() {
							n++
						}
					}
				}
			}
		}
	}
	return n
}

// structs returns the exported fields of each exported struct of a file. If count is true, it counts the fields of all
// structs that are functions, and the interfaces.
func (s *shape) structs(f *ast.File, count bool) (all []map[string]bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		switch t := spec.Type.(type) {
		case *ast.InterfaceType:
			if count {
				s.counts["interfaces that rooms declare"]++
			}
		case *ast.StructType:
			fields := map[string]bool{}
			for _, field := range t.Fields.List {
				if _, ok := field.Type.(*ast.FuncType); ok && count {
					s.counts["fields of rooms that are functions"] += len(field.Names)
				}
				for _, name := range field.Names {
					if name.IsExported() {
						fields[name.Name] = true
					}
				}
			}
			if spec.Name.IsExported() {
				all = append(all, fields)
			}
		}
		return true
	})
	return all
}

// twins returns the number of structs of rooms with three exported fields or more that are all fields of a public one.
func (s *shape) twins() (n int) {
	for _, structs := range s.inside {
		for _, fields := range structs {
			if len(fields) >= 3 && s.isRepeated(fields) {
				n++
			}
		}
	}
	return n
}

func (s *shape) isRepeated(fields map[string]bool) bool {
	for _, structs := range s.public {
		for _, others := range structs {
			missing := false
			for name := range fields {
				missing = missing || !others[name]
			}
			if !missing {
				return true
			}
		}
	}
	return false
}
