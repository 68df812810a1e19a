package shape

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/typedinformer/informer"

// wings are the folders in internal, each with the other wings that its packages import. All may import ground, and the
// values in status.
var wings = map[string][]string{
	"informer":    {"source", "store", "deliver"},
	"source":      nil,
	"store":       {"source"},
	"deliver":     nil,
	"queue":       nil,
	"typedclient": {"source", "queue"},
	"lease":       nil,
	"group":       nil,
	"condition":   nil,
	"ondemand":    nil,
	"set":         {"queue"},
	"tools":       nil,
}

// above are the wings whose packages are above the root, and import it: engines of other packages.
var above = []string{"set"}

// ground are the folders in internal whose packages import only each other.
var ground = []string{"object", "shardset", "run", "histogram", "errtext", "heapsize", "memlimit", "notfound"}

// packagesIn returns the directories of the packages in a folder of the repository, by their paths below base.
func packagesIn(t *testing.T, folder, base string) map[string]string {
	dirs := map[string]string{}
	if err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir() && len(parse(t, token.NewFileSet(), path)) > 0:
			name, err := filepath.Rel(filepath.Join(root, base), path)
			dirs[filepath.ToSlash(name)] = path
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return dirs
}

// roomsIn returns the directories of the packages in internal, by their paths in it.
func roomsIn(t *testing.T) map[string]string { return packagesIn(t, "internal", "internal") }

// importsOf returns the paths that the files of the package in dir import, without tests.
func importsOf(t *testing.T, dir string) (paths []string) {
	for _, file := range parse(t, token.NewFileSet(), dir) {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
	}
	return paths
}

// A package in internal imports those of its own wing, of the wings that its entry has, and of ground. It imports no
// package above but status, unless it helps for tests or is above the root. Only internal/source/decode imports unsafe.
func TestArrowsBetweenWings(t *testing.T) {
	used := map[string]map[string]bool{}
	for room, dir := range roomsIn(t) {
		wing, _, _ := strings.Cut(room, "/")
		arrows, isWing := wings[wing]
		if used[wing] == nil {
			used[wing] = map[string]bool{}
		}
		isAbove := slices.Contains(above, wing)
		if !isWing && !isAbove && wing != "test" && !slices.Contains(ground, wing) {
			t.Errorf("internal/%s is in no wing: add it to one, to ground or to above", room)
		}
		for _, path := range importsOf(t, dir) {
			if path == "unsafe" && room != "source/decode" {
				t.Errorf("internal/%s imports unsafe, which only internal/source/decode may", room)
			}
			below, inside := strings.CutPrefix(path, module+"/internal/")
			if path != module && !strings.HasPrefix(path, module+"/") || path == module+"/status" || wing == "test" ||
				isAbove && path == module {
				continue
			}
			other, _, _ := strings.Cut(below, "/")
			used[wing][other] = true
			if !inside || other != wing && !slices.Contains(arrows, other) && !slices.Contains(ground, other) {
				t.Errorf("internal/%s imports %s, to which wing %s has no arrow", room, path, wing)
			}
		}
	}
	for wing, arrows := range wings {
		if used[wing] == nil {
			t.Errorf("there is no internal/%s: remove it from wings", wing)
		}
		for _, other := range arrows {
			if !used[wing][other] {
				t.Errorf("wing %s no longer imports %s: remove that from its entry in wings", wing, other)
			}
		}
	}
}

// The values in status are below everything else: their package imports no other one of the library.
func TestStatusIsBelowAll(t *testing.T) {
	for _, path := range importsOf(t, filepath.Join(root, "status")) {
		if strings.HasPrefix(path, module) {
			t.Errorf("status imports %s", path)
		}
	}
}

const (
	maxFileLines    = 500
	maxFuncLines    = 60
	maxTestLines    = 650
	maxRootTests    = 35
	maxStructFields = 20
	maxLine         = 120 // characters; a tab counts as one
)

// bounded are the packages outside of internal whose sizes have limits, with those below them.
var bounded = []string{"status", "shard", "leader", "manager", "health", "readthrough", "reconcile", "review", "debugpage", "informertest", "kinds", "fleet",
	"watchcache", "codegen", "crcache", "clientgo", "informerprom", "informerotel"}

// tooLarge are the files and structs that were larger than the limits when these were set, with their sizes then. They may
// only shrink: delete an entry when it is within the limit.
var tooLarge = map[string]int{
	"fields of debugpage.Watch":                                    27,
	"fields of debugpage.Queue":                                    21,
	"fields of informertest.Fault":                                 21,
	"lines of func clientgo/factory.fill":                          61,
	"lines of func codegen.parseOptions":                           74,
	"lines of func codegen.crdSource.load":                         71,
	"lines of func codegen.apiPackage.kind":                        104,
	"lines of func informertest.collection.serveApply":             74,
	"lines of func informertest/cluster.validateService":           62,
	"lines of func informertest.collection.create":                 64,
	"lines of func informertest.collection.modified":               72,
	"lines of func internal/shardset.parser.shardRange":            62,
	"lines of func internal/source/decode.newStructFields":         77,
	"lines of func internal/source/decode.protobufFrames.next":     64,
	"lines of func internal/source/decode.decodeAny":               79,
	"lines of func internal/source/decode.jsonList.member":         70,
	"lines of func internal/source/decode.protobufList.field":      87,
	"lines of func internal/source/decode.jsonKindOf":              63,
	"lines of func internal/source/decode.protobufDecoder.message": 111,
	"lines of func internal/source/transport.Client.exchange":      68,
}

// text is a string literal, which may make its line longer.
var text = regexp.MustCompile("\"([^\"\\\\]|\\\\.)*\"|`[^`]*`")

// testsOf returns the number of lines of each test of the root module, by path.
func testsOf(t *testing.T) map[string]int {
	tests := map[string]int{}
	module := os.DirFS(root)
	if err := fs.WalkDir(module, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := fs.Stat(module, path+"/go.mod")
			if other := path != "." && err == nil; other || d.Name() == "testdata" || path != "." && strings.HasPrefix(path, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, "_test.go") {
			source, err := fs.ReadFile(module, path)
			tests[path] = strings.Count(string(source), "\n")
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return tests
}

// sized returns the directories of the packages whose sizes have limits, by path.
func sized(t *testing.T) map[string]string {
	dirs := map[string]string{"root": root}
	for _, folder := range append([]string{"internal"}, bounded...) {
		maps.Copy(dirs, packagesIn(t, folder, ""))
	}
	return dirs
}

// Files, functions, structs and lines of all packages are small, and so are tests. Generated files may be of any size.
func TestSizes(t *testing.T) {
	seen := map[string]bool{}
	check := func(what string, size, most int) {
		if owed, ok := tooLarge[what]; ok && size > most {
			seen[what] = true
			most = owed
		}
		if size > most {
			t.Errorf("%s: %d, more than %d", what, size, most)
		}
	}
	ofRoot := 0
	for path, lines := range testsOf(t) {
		check("lines of "+path, lines, maxTestLines)
		if !strings.Contains(path, "/") {
			ofRoot++
		}
	}
	check("test files of root", ofRoot, maxRootTests)
	for room, dir := range sized(t) {
		fset := token.NewFileSet()
		for name, file := range parse(t, fset, dir) {
			source, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if generated.Match(source) {
				continue
			}
			check("lines of "+room+"/"+name, fset.File(file.Pos()).LineCount(), maxFileLines)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					if s, ok := n.Type.(*ast.StructType); ok {
						check("fields of "+room+"."+n.Name.Name, s.Fields.NumFields(), maxStructFields)
					}
				case *ast.FuncDecl:
					lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
					if !strings.HasPrefix(room, "internal/test/") { // some functions there only list data
						check("lines of func "+room+"."+nameOf(n), lines, maxFuncLines)
					}
				}
				return true
			})
			if room == "root" || strings.HasPrefix(room, "internal/") || room == "status" || room == "shard" || room == "leader" {
				checkLines(t, room+"/"+name, string(source))
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(tooLarge)) {
		if !seen[what] {
			t.Errorf("no %s are over the limit: remove them from tooLarge", what)
		}
	}
}

func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiver(d) + "." + d.Name.Name
}

// generated matches the first lines of a file that nobody writes.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func checkLines(t *testing.T, name, source string) {
	number := 0
	for line := range strings.Lines(source) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "//\t") { // a line of code in a comment cannot be folded everywhere
			continue
		}
		if n := utf8.RuneCountInString(text.ReplaceAllString(line, "")); n > maxLine {
			t.Errorf("%s:%d has %d characters without its text, more than %d", name, number, n, maxLine)
		}
	}
}

// No constraint of objects embeds comparable: Go would compile the code for each type of objects. See internal/object.
func TestConstraintsHaveMethodsAlone(t *testing.T) {
	dirs := roomsIn(t)
	dirs["root"], dirs["watchcache"] = root, filepath.Join(root, "watchcache")
	for _, dir := range dirs {
		for name, file := range parse(t, token.NewFileSet(), dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				if i, ok := n.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						if embedded, ok := m.Type.(*ast.Ident); ok && embedded.Name == "comparable" {
							t.Errorf("%s: an interface embeds comparable", filepath.Join(dir, name))
						}
					}
				}
				return true
			})
		}
	}
}
