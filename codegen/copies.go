package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// copiedType is a type for which deep copies are written, for the template.
type copiedType struct {
	Name               string
	Into, Copy, Object bool   // the methods to write
	Body               string // of DeepCopyInto
}

// copies returns the types among decls that need deep copies.
func copies(decls []*decl) (list []copiedType) {
	for _, d := range decls {
		if len(d.Values) == 0 {
			list = append(list, copiedType{Name: d.Name(), Into: true, Copy: true, Object: d.Object, Body: d.DeepCopy()})
		}
	}
	return list
}

// copiesFile is the file with the deep copies of a Go package. It is beside the types, because methods must be.
const copiesFile = "deepcopy_generated.go"

// copiedPackage are the types of a Go package for which deep copies are written.
type copiedPackage struct {
	dir   string // of the package
	name  string
	types []copiedType // sorted by name
}

// copySource finds the types of a package that need deep copies.
type copySource struct {
	*apiPackage
	marks map[string]markers         // of the types
	have  map[string]map[string]bool // methods in other files, by type
	seen  map[*types.TypeName]bool   // types that reach has visited
	will  map[*types.TypeName]bool   // types that get a DeepCopyInto
}

// deepCopies finds the objects of a package, and the structs of the package in them. Types with a DeepCopyInto in
// another file keep it.
func (p *apiPackage) deepCopies(marks map[string]markers, kinds []kind) *copiedPackage {
	if p.Module == nil || !p.Module.Main {
		other := "the standard library"
		if p.Module != nil {
			other = p.Module.Path
		}
		p.errs = append(p.errs, fmt.Sprintf("-deepcopy: %s belongs to another module, %s. Deep copies are methods, so "+
			"they can only be written to packages of your own module", p.PkgPath, other))
		return nil
	}
	s := &copySource{apiPackage: p, marks: marks, have: p.methods(), seen: map[*types.TypeName]bool{},
		will: map[*types.TypeName]bool{}}
	objects := s.objects(kinds)
	for name := range marks {
		if objects[name] || s.marked(name, "true") {
			s.reach(p.typeNamed(name))
		}
	}
	result := &copiedPackage{dir: filepath.Dir(p.Fset.Position(p.Syntax[0].Package).Filename), name: p.Name}
	for _, obj := range slices.SortedFunc(maps.Keys(s.will), func(a, b *types.TypeName) int { return cmp.Compare(a.Name(), b.Name()) }) {
		have := s.have[obj.Name()]
		c := copiedType{Name: obj.Name(), Into: !have["DeepCopyInto"], Copy: !have["DeepCopy"],
			Object: objects[obj.Name()] && !have["DeepCopyObject"]}
		if c.Into {
			c.Body = s.body(obj)
		}
		if c.Into || c.Copy || c.Object {
			result.types = append(result.types, c)
		}
	}
	return result
}

// objects returns the types that are API objects: kinds and their lists, and types with the markers of objects.
func (s *copySource) objects(kinds []kind) map[string]bool {
	found := map[string]bool{}
	for _, k := range kinds {
		found[k.Name] = true
		if isList(s.Types.Scope().Lookup(k.Name + "List")) {
			found[k.Name+"List"] = true
		}
	}
	for name, ms := range s.marks {
		root, _ := ms.get("kubebuilder:object:root")
		interfaces, _ := ms.get("k8s:deepcopy-gen:interfaces")
		if root.value == "true" || strings.Contains(interfaces.value, runtimePath+".Object") {
			found[name] = true
		}
	}
	maps.DeleteFunc(found, func(name string, _ bool) bool { return s.marked(name, "false") })
	return found
}

// marked reports whether a marker of deepcopy-gen or of controller-gen requests deep copies of a type, or excludes it.
func (s *copySource) marked(name, value string) bool {
	deepCopy, _ := s.marks[name].get("k8s:deepcopy-gen")
	generate, _ := s.marks[name].get("kubebuilder:object:generate")
	return deepCopy.value == value || generate.value == value
}

// typeNamed returns a type of the package.
func (p *apiPackage) typeNamed(name string) types.Type {
	if obj := p.Types.Scope().Lookup(name); obj != nil {
		return obj.Type()
	}
	return types.Typ[types.Invalid]
}

// methods returns the methods of each type, except for those that an earlier run wrote to copiesFile.
func (p *apiPackage) methods() map[string]map[string]bool {
	found := map[string]map[string]bool{}
	for _, file := range p.Syntax {
		if name := p.Fset.Position(file.Package).Filename; filepath.Base(name) == copiesFile {
			if text, err := os.ReadFile(name); err == nil && isGenerated(text) {
				continue
			}
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || len(fn.Recv.List) == 0 {
				continue
			}
			receiver := fn.Recv.List[0].Type
			if star, ok := receiver.(*ast.StarExpr); ok {
				receiver = star.X
			}
			if name, ok := receiver.(*ast.Ident); ok {
				if found[name.Name] == nil {
					found[name.Name] = map[string]bool{}
				}
				found[name.Name][fn.Name.Name] = true
			}
		}
	}
	return found
}

// reach adds the structs of the package that t consists of.
func (s *copySource) reach(t types.Type) {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		obj := t.Obj()
		if obj.Pkg() != s.Types || s.seen[obj] || t.TypeParams() != nil {
			return
		}
		s.seen[obj] = true
		if isStruct(t) && !s.marked(obj.Name(), "false") {
			s.will[obj] = true
		}
		if !s.have[obj.Name()]["DeepCopyInto"] {
			s.reach(t.Underlying())
		}
	case *types.Pointer:
		s.reach(t.Elem())
	case *types.Slice:
		s.reach(t.Elem())
	case *types.Array:
		s.reach(t.Elem())
	case *types.Map:
		s.reach(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			s.reach(f.Type())
		}
	}
}

// body returns the statements of a type's DeepCopyInto.
func (s *copySource) body(obj *types.TypeName) string {
	c := &copier{
		pkg: s.Types,
		has: func(t types.Type) bool {
			named, ok := types.Unalias(t).(*types.Named)
			return ok && (s.will[named.Obj()] || s.have[named.Obj().Name()]["DeepCopyInto"] && named.Obj().Pkg() == s.Types ||
				named.Obj().Pkg() != s.Types && hasOwnMethod(named, "DeepCopyInto"))
		},
		fail: func(field, why string) {
			s.errs.add(s.Fset.Position(obj.Pos()), obj.Name(), "-deepcopy", "%s %s: write DeepCopyInto by hand, or leave the "+
				"type out by +kubebuilder:object:generate=false", field, why)
		},
	}
	return strings.ReplaceAll(c.fields(obj.Type().Underlying().(*types.Struct)), "«"+s.PkgPath+"».", "")
}

// copier writes statements that copy deeply.
type copier struct {
	pkg    *types.Package          // that the statements are in
	has    func(t types.Type) bool // whether a struct has a DeepCopyInto
	fail   func(field, why string) // for a value that cannot be copied; nil if it may stay shared
	field  string                  // of the struct, whose value is being copied
	failed string                  // the last field for which fail was called
	within []types.Type            // the named types around the value
}

// fields returns statements that turn *out from a shallow copy of *in into a deep copy.
func (c *copier) fields(u *types.Struct) string {
	var text strings.Builder
	for f := range u.Fields() {
		if c.field = f.Name(); c.field != "_" {
			text.WriteString(c.value("in."+f.Name(), "out."+f.Name(), f.Type(), 0))
		}
	}
	return text.String()
}

// shared reports a value that statements cannot copy, once for each field.
func (c *copier) shared(in, why string, args ...any) string {
	if c.fail == nil || c.failed == c.field {
		return ""
	}
	c.failed = c.field
	what, ok := strings.CutPrefix(in, "in.")
	if !ok { // a name in the statements, or a dereferenced field
		what = "a part of " + c.field
	}
	c.fail(what, fmt.Sprintf(why, args...))
	return ""
}

// value returns statements that turn out, a shallow copy of in, into a deep copy. Both are addressable.
func (c *copier) value(in, out string, t types.Type, depth int) string {
	if isPlain(t) {
		return ""
	}
	if _, ok := types.Unalias(t).(*types.Named); ok {
		if isWithin(t, c.within) {
			return c.shared(in, "is of a recursive type")
		}
		c.within = append(c.within, t)
		defer func() { c.within = c.within[:len(c.within)-1] }()
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		return c.structure(in, out, t, u, depth)
	case *types.Pointer:
		if isStruct(u.Elem()) && !isPlain(u.Elem()) && c.has(u.Elem()) {
			return fmt.Sprintf("if %s != nil {\n%s = new(%s)\n%s.DeepCopyInto(%s)\n}\n", in, out, typeText(u.Elem()), in, out)
		}
		return fmt.Sprintf("if %s != nil {\n%s = new(*%s)\n%s}\n", in, out, in, c.value("(*"+in+")", "(*"+out+")", u.Elem(), depth))
	case *types.Slice:
		text := fmt.Sprintf("%s = «slices».Clone(%s)\n", out, in)
		i := fmt.Sprint("i", depth)
		if element := c.value(in+"["+i+"]", out+"["+i+"]", u.Elem(), depth+1); element != "" {
			text += fmt.Sprintf("for %s := range %s {\n%s}\n", i, in, element)
		}
		return text
	case *types.Array:
		i := fmt.Sprint("i", depth)
		element := c.value(in+"["+i+"]", out+"["+i+"]", u.Elem(), depth+1)
		return fmt.Sprintf("for %s := range %s {\n%s}\n", i, in, element)
	case *types.Map:
		return c.entries(in, out, u, depth)
	case *types.Interface:
		return c.dynamic(in, out, t, u)
	}
	return c.shared(in, "is of type %s, which cannot be copied", typeName(t))
}

func (c *copier) structure(in, out string, t types.Type, u *types.Struct, depth int) (text string) {
	if c.has(t) {
		return fmt.Sprintf("%s.DeepCopyInto(&%s)\n", in, out)
	}
	for f := range u.Fields() {
		switch {
		case token.IsExported(f.Name()) || f.Pkg() == c.pkg:
			text += c.value(in+"."+f.Name(), out+"."+f.Name(), f.Type(), depth)
		case !isPlain(f.Type()):
			c.shared(in, "is of type %s, which has the unexported field %s and no DeepCopyInto", typeName(t), f.Name())
		}
	}
	return text
}

func (c *copier) entries(in, out string, u *types.Map, depth int) string {
	text := fmt.Sprintf("%s = «maps».Clone(%s)\n", out, in)
	k, v := fmt.Sprint("k", depth), fmt.Sprint("v", depth)
	element := c.value(v, out+"["+k+"]", u.Elem(), depth+1)
	switch u.Elem().Underlying().(type) {
	case *types.Struct, *types.Array: // they are not addressable in a map
		local := fmt.Sprint("c", depth)
		if element = c.value(v, local, u.Elem(), depth+1); element != "" {
			element = fmt.Sprintf("%s := %s\n%s%s[%s] = %[1]s\n", local, v, element, out, k)
		}
	}
	if element != "" {
		text += fmt.Sprintf("for %s, %s := range %s {\n%s}\n", k, v, in, element)
	}
	return text
}

// dynamic copies the value of an interface: any, which contains JSON, or one with a method such as DeepCopyObject.
func (c *copier) dynamic(in, out string, t types.Type, u *types.Interface) string {
	if u.Empty() { // decoded values are JSON
		return fmt.Sprintf("%s = «%s».DeepCopyJSONValue(%s)\n", out, runtimePath, in)
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		method := "DeepCopy" + named.Obj().Name() // as in deepcopy-gen
		for m := range u.Methods() {
			if m.Name() == method && m.Signature().Results().Len() == 1 && types.Identical(m.Signature().Results().At(0).Type(), t) {
				return fmt.Sprintf("if %s != nil {\n%s = %[1]s.%[3]s()\n}\n", in, out, method)
			}
		}
	}
	return c.shared(in, "is of type %s, an interface without a method that copies it", typeName(t))
}

// isWithin reports whether t is one of the types around it: a recursive type.
func isWithin(t types.Type, around []types.Type) bool {
	return slices.ContainsFunc(around, func(other types.Type) bool { return types.Identical(t, other) })
}

// isPlain reports whether copies of a t share no mutable memory.
func isPlain(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return true
	case *types.Array:
		return isPlain(u.Elem())
	case *types.Struct:
		for i := range u.NumFields() {
			if !isPlain(u.Field(i).Type()) {
				return slices.Contains([]string{"time.Time", metav1Path + ".Time"}, types.TypeString(t, nil))
			}
		}
		return true
	}
	return false
}

// hasOwnMethod reports whether a type declares a method itself, and does not get it from an embedded type.
func hasOwnMethod(t types.Type, name string) bool {
	method := types.NewMethodSet(types.NewPointer(t)).Lookup(nil, name)
	return method != nil && len(method.Index()) == 1
}
