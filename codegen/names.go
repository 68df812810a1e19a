package main

import (
	"fmt"
	"go/token"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plurals are the exceptions to the usual plurals, by kind.
type plurals map[string]string

// parse adds the exceptions of -plural-exceptions, in the form of client-gen, lister-gen and informer-gen:
// "Endpoints:Endpoints,Datum:Data".
func (p plurals) parse(text string) error {
	for _, part := range strings.Split(text, ",") {
		kind, plural, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok || kind == "" || !isExportedName(upperFirst(plural)) {
			return fmt.Errorf("%q: want Kind:Plural, several separated by commas", part)
		}
		p[kind] = upperFirst(plural)
	}
	return nil
}

// of returns the plural of a kind, by the rules of client-gen, lister-gen and informer-gen.
func (p plurals) of(kind string) string {
	if plural, ok := p[kind]; ok {
		return plural
	}
	if len(kind) < 2 {
		return kind
	}
	stem, before, last := kind[:len(kind)-1], kind[len(kind)-2], kind[len(kind)-1]
	switch {
	case strings.IndexByte("sxz", last) >= 0, last == 'h' && (before == 'c' || before == 's'):
		return kind + "es"
	case last == 'y' && strings.IndexByte("bcdfghjklmnpqrstvwxyz", before) >= 0:
		return stem + "ies"
	case last == 'f':
		return stem + "ves"
	case last == 'e' && before == 'f':
		return stem[:len(stem)-1] + "ves"
	}
	return kind + "s"
}

// isExportedName reports whether a package can export a declaration of that name.
func isExportedName(name string) bool { return token.IsExported(name) && token.IsIdentifier(name) }

func upperFirst(s string) string {
	if s == "" {
		return ""
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// lowerFirst returns the unexported form of an exported name: "nodeName" for "NodeName", "ip" for "IP", and "ipAddress"
// for "IPAddress".
func lowerFirst(s string) string {
	upper := 0
	for upper < len(s) && s[upper] >= 'A' && s[upper] <= 'Z' {
		upper++
	}
	if upper > 1 && upper < len(s) && s[upper] >= 'a' && s[upper] <= 'z' {
		upper-- // the last one begins the next word
	}
	return strings.ToLower(s[:upper]) + s[upper:]
}

// namer assigns names, each once.
type namer struct{ taken map[string]bool }

func newNamer(taken ...string) *namer {
	n := &namer{map[string]bool{}}
	for _, name := range taken {
		n.taken[name] = true
	}
	return n
}

// take takes a name, if it is free.
func (n *namer) take(name string) bool {
	if n.taken[name] {
		return false
	}
	n.taken[name] = true
	return true
}

// unique takes name or, if it is taken, the first free one of name2, name3 and so on.
func (n *namer) unique(name string) string {
	free := name
	for i := 2; !n.take(free); i++ {
		free = fmt.Sprint(name, i)
	}
	return free
}

// fieldNames returns the Go names of fields with these sorted JSON names. A field whose name is unique gets it first,
// so that clashes of other fields do not change it. Of the properties type and Type, type gets the name Type, so that a
// property with an unusual name does not change the name of another.
func fieldNames(jsonNames []string, taken *namer) map[string]string {
	count := map[string]int{}
	for _, json := range jsonNames {
		count[goName(json)]++
	}
	names := map[string]string{}
	for _, json := range jsonNames {
		if name := goName(json); count[name] == 1 && taken.take(name) {
			names[json] = name
		}
	}
	for _, usual := range []bool{true, false} {
		for _, json := range jsonNames {
			if names[json] == "" && usual == (json == lowerFirst(json)) {
				names[json] = taken.unique(goName(json))
			}
		}
	}
	return names
}

// goName returns the exported Go name for a JSON name: "PodIP" for "podIP", "BaseURLs" for "base-urls", "Ref" for
// "$ref", and "X3scale" for "3scale".
func goName(json string) string {
	var name strings.Builder
	for _, word := range words(json) {
		lower := strings.ToLower(word)
		stem, plural := strings.CutSuffix(lower, "s")
		switch {
		case word != lower && word != upperFirst(lower): // keep "IPs"
			name.WriteString(upperFirst(word))
		case initialisms[lower]:
			name.WriteString(strings.ToUpper(word))
		case plural && initialisms[stem]:
			name.WriteString(strings.ToUpper(stem) + "s")
		default:
			name.WriteString(upperFirst(word))
		}
	}
	if r, _ := utf8.DecodeRuneInString(name.String()); !unicode.IsUpper(r) {
		return "X" + name.String() // a digit, or a letter without case, cannot begin an exported name
	}
	return name.String()
}

// words splits a name at characters that identifiers cannot have, and before capitals that begin words.
func words(name string) (words []string) {
	for _, part := range strings.FieldsFunc(name,
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		runes := []rune(part)
		isLower := func(i int) bool { return i < len(runes) && !unicode.IsUpper(runes[i]) }
		from := 0
		for i := 1; i < len(runes); i++ {
			if !unicode.IsUpper(runes[i]) {
				continue
			}
			plural := i+1 < len(runes) && runes[i+1] == 's' && !isLower(i+2) // as in externalIPs
			if isLower(i-1) || isLower(i+1) && !plural {
				words, from = append(words, string(runes[from:i])), i
			}
		}
		words = append(words, string(runes[from:]))
	}
	return words
}

// initialisms are words that Go names write in capitals: those of the Go code review comments, and some of Kubernetes.
var initialisms = map[string]bool{
	"acl": true, "api": true, "ascii": true, "ca": true, "cidr": true, "cpu": true, "css": true, "dns": true, "eof": true,
	"grpc": true, "guid": true, "html": true, "http": true, "https": true, "id": true, "ip": true, "json": true, "jwt": true,
	"oidc": true, "os": true, "qps": true, "ram": true, "rpc": true, "sla": true, "smtp": true, "sql": true, "ssh": true,
	"tcp": true, "tls": true, "ttl": true, "udp": true, "ui": true, "uid": true, "uri": true, "url": true, "utf8": true,
	"uuid": true, "vm": true, "xml": true, "yaml": true,
}

// enumName returns the end of a constant's name.
func enumName(value string) string {
	if value == "" {
		return "Empty"
	}
	if parts := words(value); len(parts) > 0 {
		if r, _ := utf8.DecodeRuneInString(parts[0]); !unicode.IsUpper(unicode.ToUpper(r)) {
			return strings.TrimPrefix(goName(value), "X") // goName has added it
		}
		return goName(value)
	}
	var name strings.Builder // such as "!=" or "*"
	for _, r := range value {
		fmt.Fprintf(&name, "U%04X", r)
	}
	return name.String()
}

// numberName returns the end of the name of an integer's constant: "3", or "Minus3".
func numberName(value int64) string {
	if digits, negative := strings.CutPrefix(strconv.FormatInt(value, 10), "-"); negative {
		return "Minus" + digits
	}
	return strconv.FormatInt(value, 10)
}
