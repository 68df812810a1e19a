package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// marker is a comment line like "+genclient:onlyVerbs=get,list".
type marker struct {
	name  string // "genclient:onlyVerbs"
	value string // "get,list"
	has   bool   // it has a value, possibly empty
	pos   token.Position
}

func (m marker) String() string {
	if m.name == "" {
		return ""
	}
	if m.has {
		return "+" + m.name + "=" + m.value
	}
	return "+" + m.name
}

// errorf returns an error about m.
func (m marker) errorf(format string, args ...any) error {
	return &markerError{m, fmt.Sprintf(format, args...)}
}

// markerError is an error in a marker.
type markerError struct {
	mark marker
	text string
}

func (e *markerError) Error() string { return e.mark.String() + ": " + e.text }

// markers are the markers of one declaration, in order.
type markers []marker

// get returns the first marker of that name.
func (ms markers) get(name string) (marker, bool) {
	for _, m := range ms {
		if m.name == name {
			return m, true
		}
	}
	return marker{}, false
}

func (ms markers) has(name string) bool {
	_, ok := ms.get(name)
	return ok
}

// parseMarkers returns the markers in groups of comments. The arguments of kubebuilder's markers may follow the name
// after a colon, "+kubebuilder:resource:path=x,scope=Cluster"; see kubebuilderArgs.
func parseMarkers(fset *token.FileSet, groups ...*ast.CommentGroup) markers {
	var ms markers
	for _, group := range groups {
		if group == nil {
			continue
		}
		for _, c := range group.List {
			lines := []string{strings.TrimPrefix(c.Text, "//")}
			if strings.HasPrefix(c.Text, "/*") {
				lines = strings.Split(strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/"), "\n")
			}
			pos := fset.Position(c.Pos())
			for i, line := range lines {
				text, ok := strings.CutPrefix(strings.TrimSpace(line), "+")
				if !ok || text == "" || strings.HasPrefix(text, " ") {
					continue
				}
				m := marker{pos: pos}
				m.pos.Line += i
				m.name, m.value, m.has = strings.Cut(text, "=")
				m.name, m.value = strings.TrimSpace(m.name), strings.TrimSpace(m.value)
				ms = append(ms, m)
			}
		}
	}
	return ms
}

// kubebuilderArgs returns the arguments of every marker "+kubebuilder:…" of that name. They follow the name after a
// colon or an equals sign. Commas outside of quotes and braces separate them.
func (ms markers) kubebuilderArgs(name string) (args map[string]string, err error) {
	args = map[string]string{}
	for _, m := range ms {
		text := m.name
		if m.has {
			text += "=" + m.value
		}
		rest, ok := strings.CutPrefix(text, "kubebuilder:"+name)
		if !ok || rest != "" && rest[0] != ':' && rest[0] != '=' {
			continue
		}
		if rest == "" {
			continue
		}
		for _, arg := range splitArgs(rest[1:]) {
			key, value, ok := strings.Cut(arg, "=")
			if !ok {
				return nil, m.errorf("%q: want name=value", arg)
			}
			key = strings.TrimSuffix(strings.TrimSpace(key), ":") // some write :=
			args[key] = unquote(strings.TrimSuffix(value, ";"))
		}
	}
	return args, nil
}

// splitArgs splits text at commas outside of quotes, braces and brackets.
func splitArgs(text string) []string {
	var parts []string
	depth, quote, from := 0, byte(0), 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '`' || c == '\'':
			quote = c
		case c == '{' || c == '[' || c == '(':
			depth++
		case c == '}' || c == ']' || c == ')':
			depth--
		case c == ',' && depth == 0:
			parts, from = append(parts, strings.TrimSpace(text[from:i])), i+1
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}

func unquote(text string) string {
	text = strings.TrimSpace(text)
	if len(text) >= 2 && (text[0] == '"' || text[0] == '`' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

// verbs returns a function that reports whether the genclient markers include a verb. As for lister-gen, noVerbs
// excludes no verb from listers.
func (ms markers) verbs(listers bool) (has func(string) bool, err error) {
	skipped, only := map[string]bool{}, map[string]bool{}
	limited := false
	for _, m := range ms {
		switch m.name {
		case "genclient":
			if m.has {
				return nil, m.errorf("the marker takes no value: remove the marker to leave the type out")
			}
		case "genclient:noVerbs":
			limited = limited || !listers
		case "genclient:readonly":
			limited = true
			only["get"], only["list"], only["watch"] = true, true, true
		case "genclient:skipVerbs", "genclient:onlyVerbs":
			for _, verb := range strings.Split(m.value, ",") {
				verb = strings.TrimSpace(verb)
				if !knownVerbs[verb] {
					return nil, m.errorf("%q is not a verb", verb)
				}
				if m.name == "genclient:skipVerbs" {
					skipped[verb] = true
				} else {
					only[verb] = true
				}
			}
			limited = limited || m.name == "genclient:onlyVerbs"
		case "genclient:nonNamespaced", "genclient:noStatus", "genclient:method":
		default:
			if strings.HasPrefix(m.name, "genclient") {
				return nil, m.errorf("unknown marker")
			}
		}
	}
	if ms.has("genclient:noVerbs") && !listers {
		only = nil
	}
	return func(verb string) bool { return !skipped[verb] && (!limited || only[verb]) }, nil
}

var knownVerbs = map[string]bool{
	"create": true, "update": true, "updateStatus": true, "delete": true, "deleteCollection": true, "get": true,
	"list": true, "watch": true, "patch": true, "apply": true, "applyStatus": true,
}

// indexMarker is a parsed "+informer:index=Name,path=spec.nodeName". A marker on a field has only a name, or nothing.
type indexMarker struct {
	name, path, fn string
	mark           marker
}

const indexName = "informer:index"

// indexes returns the index markers among ms.
func (ms markers) indexes() ([]indexMarker, error) {
	var list []indexMarker
	for _, m := range ms {
		if !strings.HasPrefix(m.name, "informer") {
			continue
		}
		if m.name != indexName {
			return nil, m.errorf("unknown marker: want +%s=Name,path=spec.field or +%[1]s=Name,func=Function", indexName)
		}
		x := indexMarker{mark: m}
		for i, arg := range splitArgs(m.value) {
			key, value, ok := strings.Cut(arg, "=")
			switch {
			case !ok && i == 0:
				x.name = unquote(arg)
			case ok && key == "name":
				x.name = unquote(value)
			case ok && key == "path":
				x.path = unquote(value)
			case ok && key == "func":
				x.fn = unquote(value)
			default:
				return nil, m.errorf("%q: want a name first, then path= or func=", arg)
			}
		}
		if x.name != "" && !token.IsIdentifier(upperFirst(x.name)) {
			return nil, m.errorf("the name %q is not a Go identifier", x.name)
		}
		if x.path != "" && x.fn != "" {
			return nil, m.errorf("the marker has both path= and func=")
		}
		list = append(list, x)
	}
	return list, nil
}
