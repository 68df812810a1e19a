package shape

import (
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// place is a file of the root package, or a room.
var place = regexp.MustCompile(`\b(internal/[a-z]+(?:/[a-z]+)*|[a-z]+\.go)\b`)

// walks returns the section of doc.go on the source, and the steps of each walk in it: files and rooms. The first walk is
// that of an event.
func walks(t *testing.T) (section string, walks [][]string) {
	text, err := os.ReadFile(filepath.Join(root, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ = strings.Cut(string(text), "// # Reading the source\n")
	section, _, _ = strings.Cut(section, "package informer\n")
	inside := false
	for line := range strings.Lines(section) {
		step, ok := strings.CutPrefix(line, "//\t")
		if ok && !inside {
			walks = append(walks, nil)
		}
		if inside = ok; ok && !strings.HasPrefix(step, " ") {
			last := &walks[len(walks)-1]
			*last = append(*last, place.FindString(step))
		}
	}
	return section, walks
}

// calls says which functions a place calls, and which interfaces and methods it declares. It has the root package only;
// a room is said to call each room that it imports.
type calls struct {
	t          *testing.T
	calls      map[string]map[string]bool
	interfaces map[string][][]string // by place: the names of the methods of each interface
	methods    map[string][][]string // by place: the names of the methods of each type
}

// callsOf asks the type checker.
func callsOf(t *testing.T) calls {
	fset, pkg, info := typeCheck(t)
	c := calls{t: t, calls: map[string]map[string]bool{}, interfaces: map[string][][]string{}, methods: map[string][][]string{}}
	placeOf := func(p *types.Package, pos token.Pos) string {
		if p == pkg {
			return base(fset, pos)
		}
		return strings.TrimPrefix(p.Path(), module+"/")
	}
	for ident, object := range info.Uses {
		if f, ok := object.(*types.Func); ok && f.Pkg() != nil {
			from := base(fset, ident.Pos())
			if c.calls[from] == nil {
				c.calls[from] = map[string]bool{}
			}
			c.calls[from][placeOf(f.Pkg(), f.Origin().Pos())] = true
		}
	}
	for _, p := range append(pkg.Imports(), pkg) {
		if p != pkg && !strings.HasPrefix(p.Path(), module+"/internal/") {
			continue
		}
		for _, name := range p.Scope().Names() {
			object, ok := p.Scope().Lookup(name).(*types.TypeName)
			if !ok {
				continue
			}
			place := placeOf(p, object.Pos())
			if i, ok := object.Type().Underlying().(*types.Interface); ok {
				var names []string
				for m := range i.Methods() {
					names = append(names, m.Name())
				}
				if len(names) > 0 {
					c.interfaces[place] = append(c.interfaces[place], names)
				}
			} else if named, ok := types.Unalias(object.Type()).(*types.Named); ok {
				var names []string
				for m := range named.Methods() {
					names = append(names, m.Name())
				}
				c.methods[place] = append(c.methods[place], names)
			}
		}
	}
	return c
}

// from reports whether place a calls b.
func (c calls) from(a, b string) bool {
	room, isRoom := strings.CutPrefix(a, "internal/")
	return c.calls[a][b] || isRoom && slices.Contains(importsOf(c.t, filepath.Join(root, "internal", room)), module+"/"+b)
}

// through reports whether a type of place b has the methods of an interface of place a, which then calls them.
func (c calls) through(a, b string) bool {
	return slices.ContainsFunc(c.interfaces[a], func(names []string) bool {
		return slices.ContainsFunc(c.methods[b], func(methods []string) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(methods, name) })
		})
	})
}

// The section of doc.go on the source names files and rooms that exist. Each step of a walk is called by the step before,
// takes something from it, or is called by an earlier step after that one has returned.
func TestReadingTheSource(t *testing.T) {
	section, walks := walks(t)
	for _, name := range place.FindAllString(section, -1) {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("doc.go names %s: %v", name, err)
		}
	}
	c := callsOf(t)
	for _, steps := range walks {
		var stack []string
		for i, step := range steps {
			takes := i > 0 && c.from(step, steps[i-1])
			for !takes && len(stack) > 0 && !c.from(stack[len(stack)-1], step) && !c.through(stack[len(stack)-1], step) {
				stack = stack[:len(stack)-1]
			}
			if i > 0 && len(stack) == 0 {
				t.Errorf("%s follows %s, but no step before calls it, and it does not call %[2]s", step, steps[i-1])
			}
			stack = append(stack, step)
		}
	}
	if len(walks) != 5 {
		t.Fatalf("doc.go has %d walks", len(walks))
	}
}
