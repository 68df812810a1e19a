package main

import (
	doc "go/doc/comment"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"unicode"
)

// decl is a type that a generated package declares: the type of a CRD, or a type with some fields of another.
type decl struct {
	Type      *types.Named // a struct or, with Values, a string or an integer
	Doc       string
	FieldDocs []string // one per field, or none
	Values    []enumValue
	Object    bool // the type is a runtime.Object
	// For types with just some fields.
	Meta     string     // the field with the metadata
	Labeled  bool       // the type has labels
	Entries  *types.Map // the map whose entries are the fields of the type; nil if there is none
	Protobuf bool       // the type can be decoded from protobuf
}

// enumValue is a constant. Value is a literal.
type enumValue struct{ Name, Value string }

// generated represents the generated package.
var generated = types.NewPackage("", "generated")

func newNamed(name string, underlying types.Type) *types.Named {
	return types.NewNamed(types.NewTypeName(token.NoPos, generated, name, nil), underlying, nil)
}

// isLocal reports whether the generated package declares t.
func isLocal(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Pkg() == generated
}

// typeText returns t as written in the generated package.
func typeText(t types.Type) goType {
	return goType(types.TypeString(t, func(pkg *types.Package) string {
		if pkg == generated {
			return ""
		}
		return "«" + pkg.Path() + "»"
	}))
}

// Name returns the name of the type.
func (d *decl) Name() string { return d.Type.Obj().Name() }

// Underlying returns the underlying type of a type with Values.
func (d *decl) Underlying() string { return d.Type.Underlying().String() }

// declField is a field, for the template.
type declField struct {
	Name, Tag, Doc string
	Type           goType
	Embedded       bool
}

// Fields returns the fields of a struct.
func (d *decl) Fields() (fields []declField) {
	u, ok := d.Type.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	for i := range u.NumFields() {
		tag, _, _ := strings.Cut(u.Tag(i), " protobuf:") // only the Unmarshal method needs that
		f := declField{Name: u.Field(i).Name(), Tag: tag, Type: typeText(u.Field(i).Type()), Embedded: u.Field(i).Embedded()}
		if i < len(d.FieldDocs) {
			f.Doc = d.FieldDocs[i]
		}
		fields = append(fields, f)
	}
	return fields
}

// DeepCopy returns statements that turn *out from a shallow copy of *in into a deep copy.
func (d *decl) DeepCopy() string {
	c := &copier{pkg: generated, has: func(t types.Type) bool { return isLocal(t) || hasOwnMethod(t, "DeepCopyInto") }}
	return c.fields(d.Type.Underlying().(*types.Struct))
}

func hasMethod(t types.Type, name string) bool {
	return types.NewMethodSet(types.NewPointer(t)).Lookup(nil, name) != nil
}

// lineWidth is the width of wrapped comments, without indentation.
const lineWidth = 110

// comment returns text as comment lines. It keeps line breaks, wraps long lines with their indentation, and formats the
// whole as gofmt formats the comment of a function: that of Go 1.27 leaves comments of fields as they are, and the one before
// does not.
func comment(text string) string {
	text = wrap(printable(strings.ReplaceAll(text, "\t", "    ")))
	var parser doc.Parser
	var b strings.Builder
	for line := range strings.Lines(string((&doc.Printer{}).Comment(parser.Parse(text)))) {
		b.WriteString("//")
		if line != "\n" && !strings.HasPrefix(line, "\t") { // code
			b.WriteString(" ")
		}
		b.WriteString(line)
	}
	return escape(b.String())
}

// wrap breaks long lines, and repeats their indentation.
func wrap(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.Trim(text, "\n "), "\n") {
		words := strings.Fields(line)
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		width := 0
		for i, word := range words {
			switch {
			case i == 0:
				b.WriteString(indent)
			case width+1+len(word) > lineWidth:
				b.WriteString("\n" + indent)
				width = 0
			default:
				b.WriteString(" ")
				width++
			}
			b.WriteString(word)
			width += len(word)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// phrase returns text as a part of a line of a comment.
func phrase(text string) string { return escape(strings.Join(strings.Fields(printable(text)), " ")) }

// printable removes the unprintable characters of text except line breaks, and makes spaces of other white space.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, text)
}

// Descriptions may contain guillemets, which mark import paths until they are resolved.
var (
	escaper   = strings.NewReplacer("«", "\ue0ab", "»", "\ue0bb")
	unescaper = strings.NewReplacer("\ue0ab", "«", "\ue0bb", "»")
)

func escape(text string) string { return escaper.Replace(text) }

// reachable returns the decls that the types in first refer to, directly or indirectly.
func reachable(decls []*decl, first ...types.Type) []*decl {
	used := map[types.Type]bool{}
	var visit func(t types.Type)
	visit = func(t types.Type) {
		switch t := t.(type) {
		case *types.Named:
			if isLocal(t) && !used[t] {
				used[t] = true
				visit(t.Underlying())
			}
		case *types.Pointer:
			visit(t.Elem())
		case *types.Slice:
			visit(t.Elem())
		case *types.Array:
			visit(t.Elem())
		case *types.Map:
			visit(t.Elem())
		case *types.Struct:
			for i := range t.NumFields() {
				visit(t.Field(i).Type())
			}
		}
	}
	for _, t := range first {
		visit(t)
	}
	return slices.DeleteFunc(slices.Clone(decls), func(d *decl) bool { return !used[d.Type] })
}
