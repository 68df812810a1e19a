package main

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// fieldFlags are the paths of -fields, by kind; those under "" are for all kinds.
type fieldFlags map[string][]string

var kindPrefix = regexp.MustCompile(`^([A-Z]\w*):`)

func (f fieldFlags) parse(text string) error {
	kind := ""
	if m := kindPrefix.FindStringSubmatch(text); m != nil {
		kind, text = m[1], text[len(m[0]):]
	}
	for _, path := range splitArgs(text) {
		if path = strings.Trim(path, "{}"); strings.Trim(path, ".") == "" {
			return fmt.Errorf("%q: want paths like spec.nodeName, several separated by commas", text)
		}
		f[kind] = append(f[kind], strings.TrimPrefix(path, "."))
	}
	return nil
}

// of returns the paths for a kind.
func (f fieldFlags) of(kind string) []string { return slices.Concat(f[""], f[kind]) }

// alwaysKept are the fields that an informer.Object needs.
var alwaysKept = []string{"metadata.namespace", "metadata.name", "metadata.uid", "metadata.resourceVersion"}

// slim replaces the types of a's kinds by types with just the fields in flags. It removes kinds that flags do not name.
func (a *api) slim(flags fieldFlags) error {
	a.Kinds = slices.DeleteFunc(a.Kinds, func(k kind) bool { return len(flags.of(k.Name)) == 0 })
	errs := errorList{}
	var whole []types.Type // kept unchanged
	for i := range a.Kinds {
		k := a.Kinds[i]
		s := &slimmer{names: newNamer()}
		if err := s.kind(&k, flags.of(k.Name)); err != nil {
			errs.add(k.pos, k.Name, "-fields", "%s", err)
		}
		whole = append(whole, s.whole...)
	}
	if len(errs) > 0 {
		return errs.err()
	}
	kept := reachable(a.Decls, whole...)
	names := newNamer(a.declaredNames()...)
	for _, d := range kept {
		names.take(d.Name())
	}
	for _, k := range a.Kinds {
		for _, name := range append(k.declaredNames(), k.Name) {
			names.take(name)
		}
	}
	a.Decls, a.Complete = nil, false
	for i := range a.Kinds {
		k := &a.Kinds[i]
		s := &slimmer{names: names}
		if err := s.kind(k, flags.of(k.Name)); err != nil {
			return err // cannot happen: it has worked above
		}
		a.Decls = append(a.Decls, s.decls...)
		var indexes []index // key functions take the full object, and paths may need a removed field
		for _, x := range k.Indexes {
			if x.Fn == "" && x.resolve(k.object) == nil {
				indexes = append(indexes, x)
			}
		}
		k.Indexes = indexes
	}
	a.Decls = append(a.Decls, kept...)
	return nil
}

// fieldTree is a set of paths.
type fieldTree struct {
	whole bool // with everything below
	below map[string]*fieldTree
}

func (f *fieldTree) add(segments []string) {
	switch {
	case len(segments) == 0:
		f.whole = true
	case segments[0] == "[*]": // implied
		f.add(segments[1:])
	default:
		if f.below == nil {
			f.below = map[string]*fieldTree{}
		}
		if f.below[segments[0]] == nil {
			f.below[segments[0]] = &fieldTree{}
		}
		f.below[segments[0]].add(segments[1:])
	}
}

// slimmer declares the types for one kind.
type slimmer struct {
	names *namer
	decls []*decl
	whole []types.Type // types that are kept unchanged
}

// kind replaces k's type by one with just the fields at paths.
func (s *slimmer) kind(k *kind, paths []string) error {
	tree := &fieldTree{}
	for _, path := range slices.Concat(alwaysKept, paths) {
		tree.add(splitPath(path))
	}
	metadata := tree.below["metadata"]
	if metadata.whole { // an embedded ObjectMeta would promote its methods to the object
		*metadata = fieldTree{}
		field, _ := findField(k.object, "metadata")
		if field == nil {
			return fmt.Errorf("it has no field metadata")
		}
		for _, f := range jsonFields(field.Type()) {
			metadata.add([]string{f.name})
		}
	}
	slices.Sort(paths)
	from := strings.NewReplacer("«", "", "»", "").Replace(string(typeText(k.object)))
	doc := fmt.Sprintf("%s has just these fields of a %s: %s.", k.Name, from, strings.Join(slices.Compact(paths), ", "))
	named := newNamed(k.Name, nil)
	d := &decl{Type: named, Doc: doc, Labeled: metadata.below["labels"] != nil}
	s.decls = append(s.decls, d)
	u, err := s.structure(k.object, tree, k.Name, "")
	if err != nil {
		return err
	}
	named.SetUnderlying(u)
	for i := range u.NumFields() {
		if f := u.Field(i); f.Embedded() && strings.HasPrefix(u.Tag(i), `json:"metadata`) {
			d.Meta = f.Name()
		}
	}
	if isMessage(k.object) {
		readsProtobuf(s.decls)
	}
	k.object, k.Type, k.List, k.Labeled = named, goType(k.Name), "", d.Labeled
	return nil
}

// prune returns t with just the fields in tree.
func (s *slimmer) prune(t types.Type, tree *fieldTree, name, path string) (types.Type, error) {
	if tree.whole {
		if hidden := unexported(t); hidden != "" {
			return nil, fmt.Errorf("%s: the type %s is not exported", path, hidden)
		}
		s.whole = append(s.whole, t)
		return t, nil
	}
	if isEndless(t) {
		return nil, fmt.Errorf("%s: a %s has no fields, only values of its own type: choose all of it", path, typeName(t))
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		elem, err := s.prune(u.Elem(), tree, name, path)
		if err != nil {
			return nil, err
		}
		return types.NewPointer(elem), nil
	case *types.Slice:
		elem, err := s.prune(u.Elem(), tree, name, path)
		if err != nil {
			return nil, err
		}
		return types.NewSlice(elem), nil
	case *types.Map:
		if slices.ContainsFunc(slices.Collect(maps.Keys(tree.below)),
			func(segment string) bool { return segment[0] == '[' }) {
			return s.entries(u, tree, name, path)
		}
		elem, err := s.prune(u.Elem(), tree, name, path)
		if err != nil {
			return nil, err
		}
		return types.NewMap(u.Key(), elem), nil
	case *types.Struct:
		if named, ok := types.Unalias(t).(*types.Named); ok && hasMethod(named, "UnmarshalJSON") {
			return nil, fmt.Errorf("%s: a %s is always decoded as a whole: choose all of it", path, typeName(t))
		}
		name = s.names.unique(name)
		d := &decl{Type: newNamed(name, nil), Doc: fmt.Sprintf("%s has some fields of %s.", name, path)}
		s.decls = append(s.decls, d)
		pruned, err := s.structure(t, tree, name, path)
		if err != nil {
			return nil, err
		}
		d.Type.SetUnderlying(pruned)
		return d.Type, nil
	}
	return nil, fmt.Errorf("%s is a %s, which has no %q", path, typeName(t), anyKey(tree.below))
}

// structure returns the struct t with just the fields in tree.
func (s *slimmer) structure(t types.Type, tree *fieldTree, name, path string) (*types.Struct, error) {
	var fields []*types.Var
	var tags []string
	found := map[string]bool{}
	for _, f := range jsonFields(t) {
		below := tree.below[f.name]
		if below == nil {
			continue
		}
		found[f.name] = true
		place := strings.TrimPrefix(path+"."+f.name, ".")
		pruned, err := s.prune(f.Type(), below, name+f.Name(), place)
		if err != nil {
			return nil, err
		}
		field := f.Name()
		embedded := f.Embedded() || path == "" && f.name == "metadata"
		if named, ok := pruned.(*types.Named); ok && embedded {
			field = named.Obj().Name()
		} else {
			embedded = false
		}
		fields = append(fields, types.NewField(token.NoPos, generated, field, pruned, embedded))
		tag := fmt.Sprintf(`json:"%s,omitempty"`, f.name)
		if f.protobuf != "" {
			tag += fmt.Sprintf(` protobuf:"%s"`, f.protobuf)
		}
		tags = append(tags, tag)
	}
	for _, segment := range slices.Sorted(maps.Keys(tree.below)) {
		if !found[segment] {
			return nil, fmt.Errorf("%s: %s has no %q; it has %s", strings.TrimPrefix(path+"."+segment, "."), typeName(t),
				segment, fieldsOf(t, segment))
		}
	}
	return types.NewStruct(fields, tags), nil
}

// entries returns a struct with some entries of a map.
func (s *slimmer) entries(m *types.Map, tree *fieldTree, name, path string) (types.Type, error) {
	name = s.names.unique(name)
	named := newNamed(name, nil)
	s.decls = append(s.decls, &decl{Type: named, Doc: fmt.Sprintf("%s has some entries of %s.", name, path), Entries: m})
	byKey := map[string]*fieldTree{}
	for segment, below := range tree.below {
		key := unquote(strings.TrimSuffix(strings.TrimPrefix(segment, "["), "]"))
		if segment[0] != '[' || !isTagName(key) {
			return nil, fmt.Errorf("%s: %s is not an entry of a map: want entries like ['key'], or all of it", path, segment)
		}
		byKey[key] = below
	}
	if basic, ok := m.Key().Underlying().(*types.Basic); !ok || basic.Info()&types.IsString == 0 {
		return nil, fmt.Errorf("%s: the keys of the map are not strings", path)
	}
	keys := slices.Sorted(maps.Keys(byKey))
	goNames := fieldNames(keys, newNamer("DeepCopy", "DeepCopyInto"))
	var fields []*types.Var
	var tags []string
	for _, key := range keys {
		elem, err := s.prune(m.Elem(), byKey[key], name+goNames[key], fmt.Sprintf("%s['%s']", path, key))
		if err != nil {
			return nil, err
		}
		if _, isPointer := elem.Underlying().(*types.Pointer); !isPointer {
			elem = types.NewPointer(elem) // nil means that the map has no such entry
		}
		fields = append(fields, types.NewField(token.NoPos, generated, goNames[key], elem, false))
		tags = append(tags, fmt.Sprintf(`json:"%s,omitempty"`, key))
	}
	named.SetUnderlying(types.NewStruct(fields, tags))
	return named, nil
}

// jsonField is a field of a struct, or of a struct inlined in it.
type jsonField struct {
	*types.Var
	name     string     // in JSON
	tagged   bool       // the name is from the tag
	way      []pathStep // to the field, from the struct
	protobuf string     // its protobuf tag, if it is a field of the message itself
}

// jsonFields returns the JSON fields of a struct, or of the struct that a pointer points to. As in encoding/json, a
// field hides those of its name that are inlined more deeply. Of several at one depth, JSON contains the one whose tag
// has the name, and none if no tag or several tags do.
func jsonFields(t types.Type) (fields []jsonField) {
	level, seen, hidden := []inlined{{Struct: structOf(t)}}, map[*types.Struct]bool{nil: true}, map[string]bool{}
	for len(level) > 0 {
		var found []jsonField
		var deeper []inlined
		for _, s := range level {
			if !seen[s.Struct] {
				own, below := s.fields()
				found, deeper = append(found, own...), append(deeper, below...)
			}
		}
		for _, s := range level {
			seen[s.Struct] = true // a struct that is inlined twice at one depth hides itself, and a recursive one ends
		}
		fields = append(fields, slices.DeleteFunc(dominant(found), func(f jsonField) bool { return hidden[f.name] })...)
		for _, f := range found {
			hidden[f.name] = true
		}
		level = deeper
	}
	return fields
}

// inlined is a struct that JSON inlines, and the way to it. A struct without a way is inlined in nothing.
type inlined struct {
	*types.Struct
	way []pathStep
}

// fields returns the fields of a struct, and the structs inlined in it.
func (s inlined) fields() (own []jsonField, below []inlined) {
	for i := range s.NumFields() {
		field, tag := s.Field(i), reflect.StructTag(s.Tag(i))
		name, inline := jsonName(field, s.Tag(i))
		way := append(slices.Clone(s.way), pathStep{fieldStep, field.Name()})
		switch {
		case inline:
			if _, ok := field.Type().Underlying().(*types.Pointer); ok {
				way = append(way, pathStep{kind: derefStep})
			}
			below = append(below, inlined{structOf(field.Type()), way})
		case field.Exported() && name != "-":
			f := jsonField{Var: field, name: name, way: way, tagged: strings.HasPrefix(tag.Get("json"), name)}
			if len(s.way) == 0 { // protobuf inlines nothing
				f.protobuf = tag.Get("protobuf")
			}
			own = append(own, f)
		}
	}
	return own, below
}

// dominant returns the fields of one depth that count.
func dominant(all []jsonField) (fields []jsonField) {
	for i, f := range all {
		hides := func(other jsonField) bool { return other.name == f.name && (other.tagged || !f.tagged) }
		if !slices.ContainsFunc(slices.Delete(slices.Clone(all), i, i+1), hides) {
			fields = append(fields, f)
		}
	}
	return fields
}

// structOf returns the struct that t is or points to, or nil.
func structOf(t types.Type) *types.Struct {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	u, _ := t.Underlying().(*types.Struct)
	return u
}

// isEndless reports whether t is a list, a map or a pointer of nothing but itself, such as type L []L.
func isEndless(t types.Type) bool {
	for within := []types.Type{}; !isWithin(t, within); {
		within = append(within, t)
		switch u := t.Underlying().(type) {
		case *types.Pointer:
			t = u.Elem()
		case *types.Slice:
			t = u.Elem()
		case *types.Map:
			t = u.Elem()
		default:
			return false
		}
	}
	return true
}

// unexported returns the name of an unexported type in t, if any.
func unexported(t types.Type) string {
	switch t := t.(type) {
	case *types.Named:
		if !t.Obj().Exported() && t.Obj().Pkg() != nil {
			return t.Obj().Name()
		}
	case *types.Pointer:
		return unexported(t.Elem())
	case *types.Slice:
		return unexported(t.Elem())
	case *types.Array:
		return unexported(t.Elem())
	case *types.Map:
		return unexported(t.Key()) + unexported(t.Elem())
	}
	return ""
}

// typeName returns the name of a type, for messages.
func typeName(t types.Type) string {
	return types.TypeString(t, func(pkg *types.Package) string {
		if pkg == generated {
			return ""
		}
		return pkg.Name()
	})
}

func anyKey(m map[string]*fieldTree) string { return slices.Sorted(maps.Keys(m))[0] }
