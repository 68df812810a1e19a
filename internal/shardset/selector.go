package shardset

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// path returns the field in a selector.
func (f Field) path() string {
	if f == ByNamespace {
		return "object.metadata.namespace"
	}
	return "object.metadata.uid"
}

// String returns the shard selector of a request, such as
//
//	shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')
//
// with "||" between several. The end is exclusive. It is empty for the whole collection.
func (s Shard) String() string {
	var parts []string
	for _, r := range s.Ranges {
		end := "0x10000000000000000"
		if r.Last < 1<<64-1 {
			end = fmt.Sprintf("0x%016x", r.Last+1)
		}
		parts = append(parts, fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", s.Field.path(), r.First, end))
	}
	return strings.Join(parts, " || ")
}

// Parse parses a shard selector as kube-apiserver 1.36 does. The field must be the same in all parts, and no range is
// empty. The error texts are those of kube-apiserver, except for what is not an expression at all. It does not support
// escapes in strings, nor comments.
func Parse(selector string) (s Shard, err error) {
	p := parser{rest: selector}
	if p.next(); p.kind == tokenEnd {
		return Shard{}, errors.New("empty shard selector is not allowed; omit the parameter for unfiltered lists")
	}
	var fields []Field
	err = p.alternatives(0, func(f Field, r Range) { fields, s.Ranges = append(fields, f), append(s.Ranges, r) })
	if err == nil && p.kind != tokenEnd {
		err = p.unexpected("||")
	}
	if err != nil {
		return Shard{}, err
	}
	for _, f := range fields {
		if f != fields[0] {
			return Shard{}, fmt.Errorf("all shard ranges must use the same field, got %q and %q", fields[0].path(), f.path())
		}
	}
	s.Field = fields[0]
	return s, nil
}

// parser reads a shard selector, which is an expression of CEL, token by token.
type parser struct {
	rest  string // after the token
	kind  tokenKind
	token string // the content of a string, otherwise the text
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenString
	tokenSymbol
	tokenInvalid
)

// maxDepth bounds parentheses, so that a request cannot exhaust the stack.
const maxDepth = 100

// next reads the next token.
func (p *parser) next() {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n\f")
	size := 1
	switch {
	case p.rest == "":
		p.kind, p.token = tokenEnd, ""
		return
	case nameLength(p.rest) > 0:
		p.kind, size = tokenName, nameLength(p.rest)
	case strings.HasPrefix(p.rest, "||"):
		p.kind, size = tokenSymbol, 2
	case strings.ContainsRune("(),.", rune(p.rest[0])):
		p.kind = tokenSymbol
	case p.rest[0] == '\'' || p.rest[0] == '"':
		end := strings.IndexByte(p.rest[1:], p.rest[0])
		if end < 0 || strings.ContainsAny(p.rest[1:1+end], "\\\r\n") {
			p.kind = tokenInvalid
			break
		}
		p.kind, p.token, p.rest = tokenString, p.rest[1:1+end], p.rest[end+2:]
		return
	default:
		p.kind = tokenInvalid
	}
	p.token, p.rest = p.rest[:size], p.rest[size:]
}

// nameLength returns the length of the identifier at the beginning of s.
func nameLength(s string) int {
	return len(s) - len(strings.TrimLeftFunc(s, func(c rune) bool {
		return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' && s[0] > '9'
	}))
}

func (p *parser) symbol(s string) bool { return p.kind == tokenSymbol && p.token == s }

func (p *parser) expect(s string) error {
	if !p.symbol(s) {
		return p.unexpected(s)
	}
	p.next()
	return nil
}

func (p *parser) unexpected(want string) error {
	got := "the end"
	if p.kind != tokenEnd {
		got = strconv.Quote(p.token)
	}
	return fmt.Errorf("CEL parse error: Syntax error: found %s, expected %s", got, want)
}

// alternatives reads ranges with "||" between them, and gives them to add.
func (p *parser) alternatives(depth int, add func(Field, Range)) error {
	for {
		if p.symbol("(") {
			if depth == maxDepth {
				return errors.New("CEL parse error: too many parentheses")
			}
			p.next()
			if err := p.alternatives(depth+1, add); err != nil {
				return err
			}
			if err := p.expect(")"); err != nil {
				return err
			}
		} else {
			field, r, err := p.shardRange()
			if err != nil {
				return err
			}
			add(field, r)
		}
		if !p.symbol("||") {
			return nil
		}
		p.next()
	}
}

// shardRange reads one call of shardRange.
func (p *parser) shardRange() (field Field, r Range, err error) {
	function := p.token
	if p.kind != tokenName {
		return 0, r, p.unexpected("shardRange")
	}
	if p.next(); !p.symbol("(") {
		return 0, r, p.unexpected("(")
	}
	if function != "shardRange" {
		return 0, r, fmt.Errorf("unsupported function %q; only shardRange() and || are allowed", function)
	}
	type argument struct {
		kind tokenKind
		text string
	}
	var args []argument
	for p.next(); !p.symbol(")"); {
		if len(args) > 0 {
			if err := p.expect(","); err != nil {
				return 0, r, err
			}
		}
		kind, text := p.kind, p.token
		if kind != tokenName && kind != tokenString {
			return 0, r, p.unexpected("a field or a string")
		}
		for p.next(); kind == tokenName && p.symbol("."); p.next() {
			if p.next(); p.kind != tokenName {
				return 0, r, p.unexpected("a field")
			}
			text += "." + p.token
		}
		args = append(args, argument{kind, text})
	}
	p.next()
	if len(args) != 3 {
		return 0, r, fmt.Errorf("shardRange() requires exactly 3 arguments, got %d", len(args))
	}
	switch {
	case args[0].kind != tokenName:
		return 0, r, errors.New("shardRange() first argument: expected field path (e.g. object.metadata.uid), got a string")
	case args[0].text == ByNamespace.path():
		field = ByNamespace
	case args[0].text != ByUID.path():
		return 0, r, fmt.Errorf("unsupported field path %q; supported: object.metadata.uid, object.metadata.namespace",
			args[0].text)
	}
	var bounds [2]bound
	for i, name := range []string{"hexStart", "hexEnd"} {
		arg := args[i+1]
		if arg.kind != tokenString {
			return 0, r, fmt.Errorf("%s must be a string literal (e.g. '0xff'), got a field path", name)
		}
		if bounds[i], err = parseBound(name, arg.text); err != nil {
			return 0, r, err
		}
	}
	if start, end := bounds[0], bounds[1]; start.last || !end.last && start.hash >= end.hash {
		return 0, r, fmt.Errorf("shard range start %s must be less than end %s", args[1].text, args[2].text)
	}
	return field, Range{First: bounds[0].hash, Last: bounds[1].hash - 1}, nil // 2^64 - 1 if the end is 2^64
}

// bound is a bound of a range. If last is set, it is 2^64, and hash is 0.
type bound struct {
	hash uint64
	last bool
}

func parseBound(name, s string) (bound, error) {
	hex, ok := strings.CutPrefix(s, "0x")
	switch {
	case !ok:
		return bound{}, fmt.Errorf("%s must have '0x' prefix, got %q", name, s)
	case hex == "":
		return bound{}, fmt.Errorf("%s: hex value is required after '0x'", name)
	case len(hex) > 17:
		return bound{}, fmt.Errorf("%s: hex value too long (%d chars, max 17): %q", name, len(hex), hex)
	}
	for _, c := range hex {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return bound{}, fmt.Errorf("%s: invalid hex character %q in %q", name, string(c), s)
		}
	}
	switch {
	case hex == "10000000000000000":
		return bound{last: true}, nil
	case len(hex) == 17:
		return bound{}, fmt.Errorf("%s: 17-digit hex value must be '0x10000000000000000' (2^64), got %q", name, s)
	case len(hex) < 16:
		padded := "0x" + strings.Repeat("0", 16-len(hex)) + hex
		return bound{}, fmt.Errorf("%s must be a 0x-prefixed 16-digit hex value, got %q (did you mean %q?)", name, s,
			padded)
	}
	hash, err := strconv.ParseUint(hex, 16, 64)
	return bound{hash: hash}, err
}
