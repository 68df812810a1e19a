package main

import (
	"fmt"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// addIndex adds the index of a marker on the type.
func (p *apiPackage) addIndex(k *kind, obj *types.TypeName, m indexMarker) {
	x := index{Name: strings.TrimPrefix(upperFirst(m.name), "By"), pos: m.mark.pos, mark: m.mark}
	var err error
	switch {
	case x.Name == "":
		err = fmt.Errorf("the index has no name")
	case m.path == "" && m.fn == "":
		err = fmt.Errorf("path= or func= is missing; only a marker on a field needs neither")
	case m.fn != "":
		x.What = m.fn
		var key types.Type
		if key, err = p.function(&x, obj, m.fn); err == nil {
			x.Key, err = keyType(key)
		}
	default:
		x.What = cleanPath(m.path)
		err = x.resolve(obj.Type())
	}
	if err != nil {
		p.errs.addMarker(k.Name, m.mark.errorf("%s", err))
		return
	}
	k.Indexes = append(k.Indexes, x)
}

// resolve makes x an index of objects of type t by its path.
func (x *index) resolve(t types.Type) error {
	key, steps, err := resolvePath(t, x.What)
	if err != nil {
		return err
	}
	x.Steps = steps
	x.Key, err = keyType(key)
	return err
}

// cleanPath returns a path in the form of messages. It accepts kubectl's syntax.
func cleanPath(path string) string { return strings.TrimPrefix(strings.Trim(path, "{}"), ".") }

// fieldIndexes adds the indexes of markers on fields: of the object's own type, and of the structs of this package in
// it.
func (p *apiPackage) fieldIndexes(k *kind, obj *types.TypeName) {
	var walk func(t types.Type, steps []pathStep, what string, within []types.Type)
	walk = func(t types.Type, steps []pathStep, what string, within []types.Type) {
		if isWithin(t, within) {
			return
		}
		within = append(slices.Clip(within), t)
		switch u := t.Underlying().(type) {
		case *types.Pointer:
			walk(u.Elem(), with(steps, pathStep{kind: derefStep}), what, within)
		case *types.Slice:
			walk(u.Elem(), with(steps, pathStep{kind: eachStep}), what+"[*]", within)
		case *types.Array:
			walk(u.Elem(), with(steps, pathStep{kind: eachStep}), what+"[*]", within)
		case *types.Map:
			walk(u.Elem(), with(steps, pathStep{kind: eachStep}), what+"[*]", within)
		case *types.Struct:
			for i := range u.NumFields() {
				field := u.Field(i)
				if field.Pkg() != obj.Pkg() {
					continue
				}
				steps, what := with(steps, pathStep{fieldStep, field.Name()}), what
				if name, inline := jsonName(field, u.Tag(i)); !inline {
					what = strings.TrimPrefix(what+"."+name, ".")
				}
				p.fieldIndex(k, field, steps, what)
				walk(field.Type(), steps, what, within)
			}
		}
	}
	walk(obj.Type(), nil, "", nil)
}

// fieldIndex adds the indexes of the markers on one field.
func (p *apiPackage) fieldIndex(k *kind, field *types.Var, steps []pathStep, what string) {
	node := p.fields[field.Pos()]
	if node == nil {
		return
	}
	list, err := parseMarkers(p.Fset, node.Doc, node.Comment).indexes()
	if err != nil {
		p.errs.addMarker(k.Name, err)
		return
	}
	for _, m := range list {
		x := index{Name: strings.TrimPrefix(upperFirst(m.name), "By"), pos: m.mark.pos, mark: m.mark}
		if m.path != "" || m.fn != "" {
			p.errs.addMarker(k.Name, m.mark.errorf("path= and func= belong on the type: here the field %s is the path",
				field.Name()))
			continue
		}
		if x.Name == "" {
			x.Name = upperFirst(field.Name())
		}
		key, steps, what := elements(field.Type(), steps, what)
		x.Steps, x.What = steps, what
		if x.Key, err = keyType(key); err != nil {
			p.errs.addMarker(k.Name, m.mark.errorf("%s", err))
			continue
		}
		k.Indexes = append(k.Indexes, x)
	}
}

// elements extends the steps of a marked field to its elements. It stops at a type whose elements are of the same type.
func elements(t types.Type, steps []pathStep, what string) (types.Type, []pathStep, string) {
	for within := []types.Type{}; !isWithin(t, within); {
		within = append(within, t)
		switch u := t.Underlying().(type) {
		case *types.Pointer:
			t, steps = u.Elem(), with(steps, pathStep{kind: derefStep})
		case *types.Slice:
			t, steps, what = u.Elem(), with(steps, pathStep{kind: eachStep}), what+"[*]"
		}
	}
	return t, steps, what
}

// resolvePath returns the type and the steps of a path of JSON names: "spec.nodeName", "spec.volumes[*].claim",
// "metadata.labels['app']".
func resolvePath(t types.Type, text string) (types.Type, []pathStep, error) {
	var steps []pathStep
	deref := func() {
		for within := []types.Type{}; !isWithin(t, within); {
			within = append(within, t)
			if pointer, ok := t.Underlying().(*types.Pointer); ok {
				t, steps = pointer.Elem(), append(steps, pathStep{kind: derefStep})
			}
		}
	}
	for _, segment := range splitPath(text) {
		deref()
		if inner, ok := strings.CutPrefix(segment, "["); ok {
			inner = strings.TrimSuffix(inner, "]")
			switch u := t.Underlying().(type) {
			case *types.Slice:
				t = u.Elem()
			case *types.Array:
				t = u.Elem()
			case *types.Map:
				t = u.Elem()
				if key := unquote(inner); inner != "*" {
					if basic, ok := u.Key().Underlying().(*types.Basic); !ok || basic.Info()&types.IsString == 0 {
						return nil, nil, fmt.Errorf("%s: the keys of the map are not strings", text)
					}
					steps = append(steps, pathStep{entryStep, key})
					continue
				}
			default:
				return nil, nil, fmt.Errorf("%s: [%s] applies only to a list or a map", text, inner)
			}
			if inner != "*" {
				return nil, nil, fmt.Errorf("%s: [%s] on a list: only [*] is supported", text, inner)
			}
			steps = append(steps, pathStep{kind: eachStep})
			continue
		}
		field, way := findField(t, segment)
		if field == nil {
			return nil, nil, fmt.Errorf("%s: %s has no %q; it has %s", text, typeName(t), segment, fieldsOf(t, segment))
		}
		t, steps = field.Type(), append(steps, way...)
	}
	deref()
	switch t.Underlying().(type) {
	case *types.Slice, *types.Map:
		return nil, nil, fmt.Errorf("%s is a list or a map: write %[1]s[*] to find an object by each of its elements", text)
	}
	return t, steps, nil
}

// splitPath splits "a.b[*].c['x.y']" into a, b, [*], c, ['x.y'].
func splitPath(text string) []string {
	var parts []string
	for text = strings.TrimPrefix(text, "."); text != ""; {
		end := strings.IndexAny(text[1:], ".[") + 1
		if text[0] == '[' {
			end = strings.IndexByte(text, ']') + 1
			if q := text[min(1, len(text)-1)]; q == '\'' || q == '"' {
				if closing := strings.IndexByte(text[2:], q); closing >= 0 {
					end = closing + 4
				}
			}
		}
		if end <= 0 || end > len(text) {
			end = len(text)
		}
		parts = append(parts, text[:end])
		text = strings.TrimPrefix(text[end:], ".")
	}
	return parts
}

// findField finds a field by its JSON name, or else by its Go name, and returns the way to it. It also searches inlined
// structs.
func findField(t types.Type, name string) (*types.Var, []pathStep) {
	fields := jsonFields(t)
	for _, named := range []func(jsonField) bool{
		func(f jsonField) bool { return f.name == name },
		func(f jsonField) bool { return f.Name() == name },
	} {
		if i := slices.IndexFunc(fields, named); i >= 0 {
			return fields[i].Var, fields[i].way
		}
	}
	if u := structOf(t); u != nil { // a field that JSON does not have, but a Transform may set
		for i := range u.NumFields() {
			field := u.Field(i)
			if json, _ := jsonName(field, u.Tag(i)); json == "-" && field.Exported() && field.Name() == name {
				return field, []pathStep{{fieldStep, name}}
			}
		}
	}
	return nil, nil
}

// fieldsOf returns the JSON names of the fields of t, for messages. If wanted differs from one only in its capitals,
// fieldsOf explains that name.
func fieldsOf(t types.Type, wanted string) string {
	var names []string
	for _, f := range jsonFields(t) {
		if f.name == f.Name() && strings.EqualFold(f.name, wanted) {
			return f.name + ", which is its name in JSON, too, because the field has no json tag"
		}
		names = append(names, f.name)
	}
	if len(names) == 0 {
		return "no fields"
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// jsonName returns the JSON name of a field, and whether JSON inlines its fields. Like encoding/json, it ignores a name
// with characters that a name cannot have, and the option inline: it inlines embedded structs only.
func jsonName(field *types.Var, tag string) (name string, inline bool) {
	name, _, _ = strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "-" || isTagName(name) {
		return name, false
	}
	return field.Name(), field.Embedded() && (structOf(field.Type()) != nil || types.Unalias(field.Type()) == types.Typ[types.Invalid])
}

// function finds the method or function of func=, and returns the type of its keys.
func (p *apiPackage) function(x *index, obj *types.TypeName, name string) (types.Type, error) {
	pointer := types.NewPointer(obj.Type())
	if !token.IsExported(name) {
		return nil, fmt.Errorf("%q is not an exported function or method of package %s", name, p.PkgPath)
	}
	var signature *types.Signature
	params := 0
	if method := types.NewMethodSet(pointer).Lookup(nil, name); method != nil {
		signature, x.IsMethod, x.Fn = method.Type().(*types.Signature), true, goType(name)
	} else if fn, ok := p.Types.Scope().Lookup(name).(*types.Func); ok {
		signature, x.Fn, params = fn.Signature(), qualify(p.PkgPath, name), 1
	} else {
		return nil, fmt.Errorf("%s is neither a method of the type nor a function of package %s", name, p.PkgPath)
	}
	results := signature.Results()
	wrong := fmt.Errorf("%s is %s: want func(%s*%s) K, (K, bool) or []K", name,
		types.TypeString(signature, types.RelativeTo(p.Types)), map[bool]string{true: "receiver "}[x.IsMethod], obj.Name())
	if signature.TypeParams() != nil || signature.Variadic() || signature.Params().Len() != params ||
		params == 1 && !types.Identical(signature.Params().At(0).Type(), pointer) {
		return nil, wrong
	}
	switch {
	case results.Len() == 1:
		if slice, ok := results.At(0).Type().(*types.Slice); ok {
			x.Gives = manyKeys
			return slice.Elem(), nil
		}
		x.Gives = oneKey
		return results.At(0).Type(), nil
	case results.Len() == 2 && types.Identical(results.At(1).Type(), types.Typ[types.Bool]):
		x.Gives = maybeKey
		return results.At(0).Type(), nil
	}
	return nil, wrong
}

// keyType returns t as the key type of an index.
func keyType(t types.Type) (goType, error) {
	var hidden error
	for _, part := range typeParts(t) {
		if name := part.Obj(); !name.Exported() && name.Pkg() != nil {
			hidden = fmt.Errorf("the key type %s is not exported", name.Name())
		}
	}
	switch _, isInterface := t.Underlying().(*types.Interface); {
	case hidden != nil:
		return "", hidden
	case t == types.Typ[types.Invalid]:
		return "", fmt.Errorf("the key type is unknown, because the package does not compile")
	case isInterface || !types.Comparable(t):
		return "", fmt.Errorf("keys of type %s are not comparable",
			types.TypeString(t, func(pkg *types.Package) string { return pkg.Name() }))
	}
	if _, ok := t.(*types.Struct); ok {
		return "", fmt.Errorf("keys have an unnamed struct type")
	}
	return typeText(t), nil
}

// typeParts returns the named types in the name of t.
func typeParts(t types.Type) (parts []interface{ Obj() *types.TypeName }) {
	switch t := t.(type) {
	case *types.Named:
		parts = append(parts, t)
	case *types.Alias:
		parts = append(parts, t)
	case *types.Array:
		return typeParts(t.Elem())
	}
	return parts
}

// with returns a copy of steps with one more step.
func with(steps []pathStep, step pathStep) []pathStep { return append(slices.Clip(steps), step) }
