package shape

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// methodsOfObject are the methods of object.Object.
var methodsOfObject = []string{"GetName", "GetNamespace", "GetResourceVersion", "GetUID"}

// repeated returns what n repeats of package object, or "".
func repeated(n ast.Node) string {
	switch n := n.(type) {
	case *ast.TypeSpec:
		if alias := n.Assign.IsValid(); n.Name.Name == "Key" && !(alias && isName(n.Type, "object", "Key")) {
			return "the type Key"
		}
	case *ast.SelectorExpr:
		if isName(n, "types", "NamespacedName") {
			return "types.NamespacedName"
		}
	case *ast.InterfaceType:
		if names := methodNames(n); slices.Equal(names, methodsOfObject) {
			return "the methods of Object"
		} else if slices.Equal(names, methodsOfObject[:2]) {
			return "the methods of Named"
		}
	case *ast.CompositeLit:
		got := map[string]bool{}
		for _, elt := range n.Elts {
			if kv, ok := elt.(*ast.KeyValueExpr); ok {
				elt = kv.Value
			}
			if call, ok := elt.(*ast.CallExpr); ok {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok {
					got[method.Sel.Name] = true
				}
			}
		}
		if len(n.Elts) == 2 && got["GetNamespace"] && got["GetName"] {
			return "KeyOf"
		}
	}
	return ""
}

// isName reports whether e is pkg.name.
func isName(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// methodNames returns the names of the methods that i lists, sorted.
func methodNames(i *ast.InterfaceType) (names []string) {
	for _, m := range i.Methods.List {
		for _, name := range m.Names {
			names = append(names, name.Name)
		}
	}
	slices.Sort(names)
	return names
}

// A key and an object are declared once, in internal/object. The root has their public names.
func TestVocabularyIsDeclaredOnce(t *testing.T) {
	dirs := roomsIn(t)
	dirs["root"] = root
	for room, dir := range dirs {
		fset := token.NewFileSet()
		for name, file := range parse(t, fset, dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				what := repeated(n)
				if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == "Key" && room != "root" {
					what = "the type Key"
				}
				if what != "" && room != "object" {
					t.Errorf("%s:%d declares %s again: use internal/object", filepath.Join(room, name),
						fset.Position(n.Pos()).Line, what)
				}
				return true
			})
		}
	}
}

// Each spelling of the vocabulary is found.
func TestVocabularyThatIsRepeatedIsFound(t *testing.T) {
	for source, want := range map[string]string{
		"type Key = types.NamespacedName": "the type Key,types.NamespacedName",
		"type Key struct{}":               "the type Key",
		"type Key = object.Key":           "",
		"type Object interface { GetName() string; GetNamespace() string; GetUID() U; GetResourceVersion() string }": "the methods of Object",
		"func f(obj interface { GetName() string; GetNamespace() string }) {}":                                       "the methods of Named",
		"type Object interface { object.Object; GetLabels() map[string]string }":                                     "",
		"var k = object.Key{Namespace: a.GetNamespace(), Name: a.GetName()}":                                         "KeyOf",
		"var k = object.Key{a.GetNamespace(), a.GetName()}":                                                          "KeyOf",
		"var k = object.Key{Namespace: a.GetNamespace()}":                                                            "",
	} {
		var found []string
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if what := repeated(n); what != "" {
				found = append(found, what)
			}
			return true
		})
		if got := strings.Join(found, ","); got != want {
			t.Errorf("%s: found %q, want %q", source, got, want)
		}
	}
}

// twins are the structs that are declared both in internal and in a package for users. They are still to be merged: delete
// an entry once one of both is gone.
var twins = map[string]string{
	"internal/lease.Timing":           "leader.Config",
	"internal/ondemand.Cost":          "readthrough.Cost",
	"internal/source/transport.Trace": "root.RequestTrace",
}

// exportedFields returns the names of the exported fields of each struct of the package in dir.
func exportedFields(t *testing.T, dir string) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, file := range parse(t, token.NewFileSet(), dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				names := map[string]bool{}
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						names[name.Name] = name.IsExported()
					}
				}
				maps.DeleteFunc(names, func(_ string, exported bool) bool { return !exported })
				all[spec.Name.Name] = names
			}
			return true
		})
	}
	return all
}

// repeats reports whether each field of inside is a field of outside, too. Structs of fewer than three fields may be
// equal by chance.
func repeats(inside, outside map[string]bool) bool {
	for name := range inside {
		if !outside[name] {
			return false
		}
	}
	return len(inside) >= 3
}

// A fact is declared once: no struct of a room has only fields that a struct for users has. A value that a room makes and a
// user reads is in package status. A room above the root may extend what the root has, such as a handler by another
// argument: users have it through a package of their own.
func TestFactsAreDeclaredOnce(t *testing.T) {
	public := map[string]map[string]map[string]bool{}
	for dir, path := range sized(t) {
		if !strings.HasPrefix(dir, "internal/") && !strings.Contains(dir, "/internal") {
			public[dir] = exportedFields(t, path)
		}
	}
	found := map[string]bool{}
	for room, dir := range roomsIn(t) {
		if strings.HasPrefix(room, "test/") || strings.HasPrefix(room, "tools/") {
			continue
		}
		for inside, fields := range exportedFields(t, dir) {
			inside = "internal/" + room + "." + inside
			for path, structs := range public {
				for outside, others := range structs {
					outside = path + "." + outside
					switch {
					case !repeats(fields, others) || path == "root" && slices.Contains(above, room):
					case twins[inside] != "":
						found[inside] = true
					default:
						t.Errorf("%s has the fields of %s", inside, outside)
					}
				}
			}
		}
	}
	for inside, outside := range twins {
		if !found[inside] {
			t.Errorf("%s and %s are no twins any more: remove them from twins", inside, outside)
		}
	}
}
