package shardset

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const middle = math.MaxUint64 / 2

var (
	lower = Shard{Ranges: []Range{{First: 0, Last: middle}}}
	upper = Shard{Ranges: []Range{{First: middle + 1, Last: math.MaxUint64}}}
	most  = Shard{Ranges: []Range{{First: math.MaxUint64 / 4, Last: middle}, {First: middle + 1, Last: math.MaxUint64}}}
)

// A parsed selector is the shard that it was made from, and the texts of errors are those of kube-apiserver.
// Guarantees: S1
func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		selector string
		want     Shard
		err      string
	}{
		"lower": {selector: lower.String(), want: lower},
		"upper": {selector: upper.String(), want: upper},
		"most":  {selector: most.String(), want: most},
		"namespace, double quotes, spaces, parentheses": {
			selector: "\t(shardRange ( object . metadata.namespace,\"0x0000000000000001\" , '0x0000000000000002'))\n||(shardRange(object.metadata.namespace,'0x00000000000000ff','0xffffffffffffffff') ) ",
			want:     Shard{Field: ByNamespace, Ranges: []Range{{First: 1, Last: 1}, {First: 0xff, Last: math.MaxUint64 - 1}}},
		},
		"empty":            {selector: " ", err: "empty shard selector is not allowed; omit the parameter for unfiltered lists"},
		"two fields":       {selector: lower.String() + " || " + strings.ReplaceAll(lower.String(), "uid", "namespace"), err: `all shard ranges must use the same field, got "object.metadata.uid" and "object.metadata.namespace"`},
		"other function":   {selector: "range(object.metadata.uid)", err: `unsupported function "range"; only shardRange() and || are allowed`},
		"other field":      {selector: strings.ReplaceAll(lower.String(), "uid", "name"), err: `unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace`},
		"no field":         {selector: strings.ReplaceAll(lower.String(), "object.metadata.uid", "'a'"), err: "shardRange() first argument: expected field path (e.g. object.metadata.uid), got a string"},
		"no arguments":     {selector: "shardRange()", err: "shardRange() requires exactly 3 arguments, got 0"},
		"four arguments":   {selector: "shardRange(a, b, c, 'd')", err: "shardRange() requires exactly 3 arguments, got 4"},
		"no string":        {selector: "shardRange(object.metadata.uid, a, 'd')", err: "hexStart must be a string literal (e.g. '0xff'), got a field path"},
		"no prefix":        {selector: "shardRange(object.metadata.uid, '00', '0xff')", err: `hexStart must have '0x' prefix, got "00"`},
		"nothing":          {selector: "shardRange(object.metadata.uid, '0x', '0xff')", err: `hexStart: hex value is required after '0x'`},
		"short":            {selector: "shardRange(object.metadata.uid, '0x0000000000000000', '0xff')", err: `hexEnd must be a 0x-prefixed 16-digit hex value, got "0xff" (did you mean "0x00000000000000ff"?)`},
		"long":             {selector: "shardRange(object.metadata.uid, '0x000000000000000000', '0xff')", err: `hexStart: hex value too long (18 chars, max 17): "000000000000000000"`},
		"17 digits":        {selector: "shardRange(object.metadata.uid, '0x00000000000000000', '0xff')", err: `hexStart: 17-digit hex value must be '0x10000000000000000' (2^64), got "0x00000000000000000"`},
		"upper case":       {selector: "shardRange(object.metadata.uid, '0x00000000000000FF', '0xff')", err: `hexStart: invalid hex character "F" in "0x00000000000000FF"`},
		"no hash":          {selector: "shardRange(object.metadata.uid, '0x0000000000000001', '0x0000000000000001')", err: "shard range start 0x0000000000000001 must be less than end 0x0000000000000001"},
		"begins at 2^64":   {selector: "shardRange(object.metadata.uid, '0x10000000000000000', '0x10000000000000000')", err: "shard range start 0x10000000000000000 must be less than end 0x10000000000000000"},
		"half an or":       {selector: lower.String() + " ||", err: "CEL parse error: Syntax error: found the end, expected shardRange"},
		"an and":           {selector: lower.String() + " && " + upper.String(), err: `CEL parse error: Syntax error: found "&", expected ||`},
		"no comma":         {selector: "shardRange(a 'b')", err: `CEL parse error: Syntax error: found "b", expected ,`},
		"open string":      {selector: "shardRange(a, 'b)", err: `CEL parse error: Syntax error: found "'", expected a field or a string`},
		"open parentheses": {selector: "(" + lower.String(), err: "CEL parse error: Syntax error: found the end, expected )"},
		"deep":             {selector: strings.Repeat("(", 1000), err: "CEL parse error: too many parentheses"},
		"a number":         {selector: "7", err: `CEL parse error: Syntax error: found "7", expected shardRange`},
		"a name":           {selector: "shardRange", err: "CEL parse error: Syntax error: found the end, expected ("},
	} {
		got, err := Parse(c.selector)
		if err != nil && err.Error() != c.err || err == nil && c.err != "" || !got.Equal(c.want) {
			t.Errorf("%s: %v, %v, want %v, %s", name, got, err, c.want, c.err)
		}
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		s := Shard{Field: Field(random.IntN(2))}
		for range 1 + random.IntN(5) {
			first := random.Uint64()
			s.Ranges = append(s.Ranges, Range{First: first, Last: first + random.Uint64N(math.MaxUint64-first)})
		}
		if got, err := Parse(s.String()); err != nil || !got.Equal(s) {
			t.Fatalf("seed %d: %v, %v, want %v", seed, got, err, s)
		}
	}
}

// The selector of a parsed shard is the same shard again, and a parsed shard has at least one hash.
func FuzzParse(f *testing.F) {
	for _, s := range []Shard{lower, upper, most, {Field: ByNamespace, Ranges: lower.Ranges}} {
		f.Add(s.String())
		f.Add("(" + s.String() + ")")
		f.Add(strings.ReplaceAll(s.String(), "'", "\""))
	}
	f.Add("shardRange(a, 'b)")
	f.Add("((((")
	f.Fuzz(func(t *testing.T, selector string) {
		s, err := Parse(selector)
		if err != nil {
			return
		}
		if len(s.Ranges) == 0 || slices.ContainsFunc(s.Ranges, func(r Range) bool { return r.First > r.Last }) {
			t.Fatalf("%q: %+v", selector, s)
		}
		again, err := Parse(s.String())
		if err != nil || !again.Equal(s) {
			t.Fatalf("%q: %v, then %v, %v", selector, s, again, err)
		}
	})
}
