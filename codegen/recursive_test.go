package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recursive are types that contain themselves, as the type of a field. want is the end of the error of -deepcopy.
var recursive = map[string]struct{ field, types, parts, want string }{
	"a map of itself":     {"Args", "type Args map[string]Args", "", "a part of F is of a recursive type"},
	"a list of itself":    {"*List", "type List []List", "", "a part of F is of a recursive type"},
	"a pointer to itself": {"[]Ring", "type Ring *Ring", "", "a part of F is of a recursive type"},
	"each of the other": {"Odd", "type (\n\tOdd []Even\n\tEven map[string]Odd\n)", "",
		"a part of F is of a recursive type"},
	"a struct that is left out": {"Node",
		"// +kubebuilder:object:generate=false\ntype Node struct {\n\tNext *Node\n\tMore []Node\n}", "",
		"a part of F is of a recursive type"},
	"a map of another package":  {"parts.Args", "", "type Args map[string]Args", "a part of F is of a recursive type"},
	"a list of another package": {"parts.List", "", "type List []List", "F[i0] is of a recursive type"},
	"a tree of another package": {"parts.Tree", "", "type Tree struct{ Left, Right *Tree }",
		"a part of F is of a recursive type"},
	"a struct with a DeepCopyInto": {"*Node", "type Node struct {\n\tNext *Node\n\tMore map[string][]Node\n}", "", ""},
}

// recursiveModule is a module with an object that has a field of a recursive type.
func recursiveModule(field, decls, parts string) map[string]string {
	source := strings.Replace(objects("+genclient", "Widget"), "Widget struct{ Meta }",
		"Widget struct {\n\tMeta\n\tSpec Spec `json:\"spec\"`\n}", 1)
	source = strings.Replace(source, "package v1\n", "package v1\n\nimport \"example.com/shop/parts\"\n", 1)
	return map[string]string{
		"v1/types.go": source + "\n// Spec has the field.\ntype Spec struct {\n\tF " + field +
			" `json:\"f\"`\n\tUsed parts.Used `json:\"used\"`\n}\n\n" + decls + "\n",
		"parts/parts.go": "package parts\n\ntype Used struct{}\n\n" + parts + "\n",
	}
}

// A type that contains itself ends in a copy or in an error of -deepcopy. Without the flag, it is a type like any
// other.
func TestRecursiveTypes(t *testing.T) {
	for name, test := range recursive {
		t.Run(name, func(t *testing.T) {
			inModule(t, recursiveModule(test.field, test.types, test.parts))
			if err := run([]string{"./v1"}, io.Discard, io.Discard); err != nil {
				t.Errorf("without -deepcopy: %v", err)
			}
			err := run([]string{"-deepcopy", "./v1"}, io.Discard, io.Discard)
			switch text := errorText(err); {
			case test.want == "":
				if err != nil {
					t.Error(err)
				}
			case strings.Count(text, "recursive") != 1 ||
				!strings.Contains(text, ": type Spec: -deepcopy: "+test.want+": write DeepCopyInto by hand"):
				t.Errorf("error %q, want %q", text, test.want)
			}
		})
	}
}

// Paths of indexes and of -fields end at a type that contains itself.
func TestPathsIntoRecursiveTypes(t *testing.T) {
	files := recursiveModule("Fields", "type List []List\n\ntype Ring *Ring\n\ntype Same struct{ *Same }\n\n"+
		"type Fields struct {\n\tList List `json:\"list\"`\n\tRing Ring `json:\"ring\"`\n\tSame Same `json:\"same\"`\n}", "")
	marked := recursiveModule("Fields", "type List []List\n\ntype Fields struct {\n\t// +informer:index\n\tList List\n}", "")
	for _, test := range []struct {
		files      map[string]string
		args, want string
	}{
		{files, "-index Widget:X=spec.f.list ./v1", "spec.f.list is a list or a map"},
		{files, "-index Widget:X=spec.f.list[*] ./v1", "spec.f.list[*] is a list or a map"},
		{files, "-index Widget:X=spec.f.ring ./v1", "indexes are methods of the lister"},
		{files, "-index Widget:X=spec.f.ring.x ./v1", `has no "x"`},
		{files, "-index Widget:X=spec.f.same.x ./v1", `v1.Same has no "x"; it has no fields`},
		{files, "-fields spec.f.list.x ./v1", "spec.f.list: a v1.List has no fields, only values of its own type: choose all of it"},
		{marked, "./v1", "keys of type v1.List are not comparable"},
	} {
		t.Run(test.args, func(t *testing.T) {
			inModule(t, test.files)
			err := run(strings.Fields(test.args), io.Discard, io.Discard)
			if err == nil || !strings.Contains(errorText(err), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// The fields of a struct are those of encoding/json: a field hides those of its name that are inlined.
func TestInlinedFields(t *testing.T) {
	for source, want := range map[string]string{
		"struct { Type string `json:\"type\"`; In }; type In struct { Type int `json:\"type\"`; More int }":          "type string, More int",
		"struct { In; Type string `json:\"type\"` }; type In struct { Kind int `json:\"type\"` }":                    "type string",
		"struct { *In }; type In struct { Deep; A int }; type Deep struct { A string; B string }":                    "A int, B string",
		"struct { A; B }; type A struct { X int }; type B struct { X string; Y int }":                                "Y int",
		"struct { A; B }; type A struct { X int }; type B struct { Y string `json:\"X\"` }":                          "X string",
		"struct { A; B }; type A struct { Y int `json:\"X\"` }; type B struct { Z string `json:\"X\"` }":             "",
		"struct { A; B }; type A struct { X int }; type B struct { C; Y int }; type C struct { Y, X string; Z int }": "X int, Y int, Z int",
		"struct { A; B }; type A struct { C }; type B struct { C }; type C struct { X int }":                         "",
		"struct { *T; X int }": "X int",
		"struct { A }; type A struct { *B; X int }; type B struct { *A; Y int }": "X int, Y int",
		"struct { S; X int }; type S string":                                     "S p.S, X int",
		"struct { X int `json:\"a,omitempty\"`; Y int `json:\"-\"`; z int }":     "a int",
		"struct { X int `json:\"a\\\"b\"`; Y int `json:\"a;b\"` }":               "X int, a;b int",
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", "package p\n\ntype T "+source+"\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		pkg, err := (&types.Config{Importer: importer.Default()}).Check("p", fset, []*ast.File{file}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		object := pkg.Scope().Lookup("T").Type()
		for _, f := range jsonFields(object) {
			got = append(got, f.name+" "+typeName(f.Type()))
			if field, _ := findField(object, f.name); field != f.Var {
				t.Errorf("%s: an index of %s takes the field %v", source, f.name, field)
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
}

// The way to an inlined field has each struct on it, and dereferences pointers. A Go name counts if no field has it in
// JSON. The option inline does nothing, as in encoding/json.
func TestWayToAField(t *testing.T) {
	object := types.NewNamed(types.NewTypeName(token.NoPos, nil, "T", nil), nil, nil)
	field := func(name string, typ types.Type, embedded bool) *types.Var {
		return types.NewField(token.NoPos, nil, name, typ, embedded)
	}
	text := types.Typ[types.String]
	deep := types.NewStruct([]*types.Var{field("Name", text, false)}, []string{`json:"name"`})
	in := types.NewStruct([]*types.Var{field("Deep", types.NewPointer(deep), true)}, []string{`json:",inline"`})
	named := types.NewStruct([]*types.Var{field("Within", text, false)}, []string{`json:"within"`})
	fields := []*types.Var{field("In", in, true), field("Kind", text, false), field("Other", text, false),
		field("Extra", text, false), field("Named", named, false)}
	object.SetUnderlying(types.NewStruct(fields, []string{`json:",inline"`, `json:"Name"`, `json:"other"`, `json:"-"`, `json:",inline"`}))
	for name, want := range map[string][]pathStep{
		"name":   {{fieldStep, "In"}, {fieldStep, "Deep"}, {kind: derefStep}, {fieldStep, "Name"}},
		"Name":   {{fieldStep, "Kind"}},
		"Kind":   {{fieldStep, "Kind"}},
		"Other":  {{fieldStep, "Other"}},
		"Extra":  {{fieldStep, "Extra"}},
		"extra":  nil,
		"In":     nil,
		"Named":  {{fieldStep, "Named"}},
		"within": nil,
	} {
		if _, way := findField(object, name); !slices.Equal(way, want) {
			t.Errorf("the way to %s is %v, want %v", name, way, want)
		}
	}
}
