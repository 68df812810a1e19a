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

// rooms are the packages under internal, each with the others of them that its files import, without tests.
var rooms = map[string][]string{
	// engines
	"store/arrival":    {"object"},
	"informer/audit":   {"object", "run", "shardset", "store/table", "store/undecoded"},
	"typedclient":      {"source/decode", "object", "run", "source/transport", "queue/ownwrites"},
	"deliver":          {"histogram", "object", "run"},
	"informer/edits":   {"deliver", "object", "store/table"},
	"source/fetch":     {"source/decode", "source/discovery", "object", "run", "source/transport"},
	"source/intake":    {"source/decode", "source/fetch", "heapsize", "object", "run", "shardset"},
	"queue/queue":      {"histogram", "run"},
	"group":            nil,
	"ondemand":         {"heapsize", "notfound", "object", "run"},
	"store/compact":    {"source/decode", "heapsize", "object", "store/pack"},
	"deliver/fifo":     {"run"},
	"source/reflector": {"source/decode", "source/fetch", "source/intake", "object", "source/reshard", "run", "source/warmstart", "shardset"},
	"source/warmstart": {"source/decode", "notfound", "object", "run", "source/snapshotfile", "source/transport"},
	"store/table":      {"store/cow", "object"},
	"store/undecoded":  {"store/cow", "errtext", "object"},
	"queue/controller": {"errtext", "histogram"},
	// ground
	"condition":           nil,
	"store/cow":           nil,
	"source/decode":       {"source/decode/proto"},
	"source/decode/proto": nil,
	"source/discovery":    nil,
	"errtext":             nil,
	"source/gzipstream":   nil,
	"heapsize":            nil,
	"histogram":           nil,
	"lease":               {"notfound", "object"},
	"notfound":            nil,
	"object":              nil,
	"store/pack":          nil,
	"source/reshard":      {"shardset"},
	"run":                 nil,
	"shardset":            nil,
	"source/snapshotfile": nil,
	"informer/sources":    {"object"},
	"source/transport":    {"source/decode", "errtext", "source/gzipstream", "histogram"},
	"informer/union":      {"object", "run"},
	"queue/ownwrites":     {"object"},
	// help for tests, benchmarks and tools
	"test/canned":      {"source/decode", "test/fleet"},
	"test/fleet":       nil,
	"test/leak":        nil,
	"test/queues":      nil,
	"tools/release":    nil,
	"test/spoil":       {"object"},
	"test/testkit":     {"object"},
	"test/world":       {"object", "test/testkit"},
	"tools/affected":   nil,
	"tools/guarantees": nil,
}

// above are the packages above the rooms that help for tests imports all the same.
var above = map[string][]string{"test/queues": {""}, "test/world": {"", "informertest", "watchcache"}}

// roomsIn returns the directories of the packages under internal, by the names in rooms.
func roomsIn(t *testing.T) map[string]string {
	dirs, top := map[string]string{}, filepath.Join(root, "internal")
	if err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir() && len(parse(t, token.NewFileSet(), path)) > 0:
			name, err := filepath.Rel(top, path)
			dirs[filepath.ToSlash(name)] = path
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return dirs
}

// A room imports the rooms that its entry has, and no package above the rooms. Only internal/source/decode imports unsafe.
func TestRoomsImportRoomsBelow(t *testing.T) {
	dirs := roomsIn(t)
	for room, dir := range dirs {
		below, listed := rooms[room]
		if !listed {
			t.Errorf("internal/%s is missing in rooms: add it with the rooms that it imports", room)
		}
		used := map[string]bool{}
		for name, file := range parse(t, token.NewFileSet(), dir) {
			for _, spec := range file.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if path == "unsafe" && room != "source/decode" {
					t.Errorf("internal/%s/%s imports unsafe, which only internal/source/decode may", room, name)
				}
				if path != module && !strings.HasPrefix(path, module+"/") {
					continue
				}
				if slices.Contains(above[room], strings.TrimPrefix(strings.TrimPrefix(path, module), "/")) {
					continue
				}
				other, inside := strings.CutPrefix(path, module+"/internal/")
				if used[other] = true; !inside || !slices.Contains(below, other) {
					t.Errorf("internal/%s/%s imports %s, which is not below it", room, name, path)
				}
			}
		}
		for _, other := range below {
			if !used[other] {
				t.Errorf("room %s no longer imports %s: remove that from its entry in rooms", room, other)
			}
		}
	}
	for room := range rooms {
		if dirs[room] == "" {
			t.Errorf("there is no internal/%s: remove it from rooms", room)
		}
	}
}

const (
	maxFileLines    = 500
	maxTestLines    = 650
	maxRootFiles    = 40
	maxRootLines    = 6800
	maxRootTests    = 35
	maxStructFields = 20
	maxLine         = 120 // characters; a tab counts as one
)

// tooLarge are the files and structs that were larger than the limits when these were set, with their sizes then. They may
// only shrink: delete an entry when it is within the limit.
var tooLarge = map[string]int{}

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

// Files, structs and lines of the root package, of shard and leader, and of the rooms are small, and so are tests.
func TestSizes(t *testing.T) {
	dirs := roomsIn(t)
	dirs["root"], dirs["shard"], dirs["leader"] = root, filepath.Join(root, "shard"), filepath.Join(root, "leader")
	seen := map[string]bool{}
	check := func(what string, size, most int) {
		if owed, ok := tooLarge[what]; ok {
			seen[what] = true
			if size <= most {
				t.Errorf("%s: %d, which is within the limit of %d: remove it from tooLarge", what, size, most)
			}
			most = max(most, owed)
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
	fset, lines := token.NewFileSet(), 0
	of := parse(t, fset, root)
	for _, file := range of {
		lines += fset.File(file.Pos()).LineCount()
	}
	check("files of root", len(of), maxRootFiles)
	check("lines of root", lines, maxRootLines)
	for room, dir := range dirs {
		fset := token.NewFileSet()
		for name, file := range parse(t, fset, dir) {
			check("lines of "+room+"/"+name, fset.File(file.Pos()).LineCount(), maxFileLines)
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if s, ok := spec.Type.(*ast.StructType); ok {
						check("fields of "+room+"."+spec.Name.Name, s.Fields.NumFields(), maxStructFields)
					}
				}
				return true
			})
			source, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			number := 0
			for line := range strings.Lines(string(source)) {
				number++
				line = strings.TrimSuffix(line, "\n")
				if strings.HasPrefix(line, "//\t") { // a line of code in a comment cannot be folded everywhere
					continue
				}
				if n := utf8.RuneCountInString(text.ReplaceAllString(line, "")); n > maxLine {
					t.Errorf("%s/%s:%d has %d characters without its text, more than %d", room, name, number, n, maxLine)
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(tooLarge)) {
		if !seen[what] {
			t.Errorf("there are no %s: remove them from tooLarge", what)
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
