package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plurals are the exceptions to pluralOf, by kind.
type plurals map[string]string

// parsePlurals adds the exceptions of -plural-exceptions, in the form of client-gen, lister-gen and informer-gen:
// "Endpoints:Endpoints,Datum:Data".
func (p plurals) parse(text string) error {
	for _, part := range strings.Split(text, ",") {
		kind, plural, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok || kind == "" || plural == "" || strings.Contains(plural, ":") {
			return fmt.Errorf("%q: want Kind:Plural, several separated by commas", part)
		}
		p[kind] = upperFirst(plural)
	}
	return nil
}

// of returns the plural of a kind, as client-gen and its siblings form it.
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

func upperFirst(s string) string {
	if s == "" {
		return ""
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// lowerFirst makes an exported name unexported: "NodeName" becomes "nodeName", "IP" "ip", and "IPAddress" "ipAddress".
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
