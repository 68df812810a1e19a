package table

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/typedinformer/informer/internal/object"
)

// Bounds of a span stay within it: those outside change nothing, and those that cross leave no entry.
//
// Guarantees: I1, I3
func TestBoundsStayWithinTheirSpan(t *testing.T) {
	o, x := ordered(cmp.Compare[string])
	for i := range 6 {
		o.put(&thing{name: "x", namespace: fmt.Sprint(i), tags: []string{fmt.Sprint(i)}})
	}
	all := x.Span(&o.published)
	middle := all.From(1).To(5)
	for name, c := range map[string]struct {
		got  Span[*thing, string]
		want string
	}{
		"from before":            {middle.From(0), "1234"},
		"from below zero":        {middle.From(-7), "1234"},
		"from inside":            {middle.From(3), "34"},
		"from the end":           {middle.From(5), ""},
		"from behind":            {middle.From(6), ""},
		"to behind":              {middle.To(6), "1234"},
		"to far behind":          {middle.To(70), "1234"},
		"to inside":              {middle.To(3), "12"},
		"to the beginning":       {middle.To(1), ""},
		"to before":              {middle.To(0), ""},
		"crossing":               {middle.From(4).To(2), ""},
		"crossing, then to more": {middle.From(4).To(2).To(5), ""},
		"crossing the other way": {middle.To(2).From(4), ""},
		"skip none":              {middle.Skip(0, false), "1234"},
		"skip two":               {middle.Skip(2, false), "34"},
		"skip the last two":      {middle.Skip(2, true), "12"},
		"skip all":               {middle.Skip(4, false), ""},
		"skip more":              {middle.Skip(9, false), ""},
		"skip more at the end":   {middle.Skip(9, true), ""},
		"skip less than none":    {middle.Skip(-1, false), "1234"},
		"the same at the end":    {middle.Skip(-1, true), "1234"},
		"below, beyond the span": {middle.To(middle.Below("9")), "1234"},
		"up to, beyond the span": {middle.From(middle.UpTo("0")), "1234"},
	} {
		var got, backward string
		c.got.Walk(false, func(key string, _ *thing) bool { got += key; return true })
		c.got.Walk(true, func(key string, _ *thing) bool { backward = key + backward; return true })
		keys := ""
		c.got.Keys(false, func(key string, n int) bool { keys += key; return n == 1 })
		if got != c.want || backward != c.want || keys != c.want || c.got.Len() != len(c.want) {
			t.Errorf("%s: %q, backward %q, keys %q, length %d, want %q", name, got, backward, keys, c.got.Len(), c.want)
		}
	}
}

// The keys of an object that has gone are not kept in memory, whether it was updated, removed or never published.
//
// Guarantees: I5
func TestOrderedIndexKeepsNoKeyOfAnEdit(t *testing.T) {
	o, x := ordered(cmp.Compare[string])
	o.put(&thing{name: "a", tags: []string{"x", "y", "z"}})
	o.put(&thing{name: "a", version: 1, tags: []string{"y"}})
	o.remove(object.Key{Name: "a"})
	tree := x.treeIn(&o.published)
	for _, key := range tree.buf[:cap(tree.buf)] {
		if key != "" {
			t.Errorf("the scratch memory has %q", key)
		}
	}
	for slot, keys := range *tree.filed {
		if len(keys) > 0 {
			t.Errorf("slot %d has %q", slot, keys)
		}
	}
}

// A key that the comparison does not tell from the one before takes its place, also if an object has many keys.
//
// Guarantees: I2
func TestEqualKeysOfManyAreTheLatest(t *testing.T) {
	o, x := ordered(func(a, b string) int { return cmp.Compare(a[:4], b[:4]) })
	for version := range 3 {
		it := &thing{name: "a", version: version}
		for n := range 2 * fewKeys {
			it.tags = append(it.tags, fmt.Sprintf("%04d@%d", n, version))
		}
		o.put(it)
		n := 0
		x.Span(&o.published).Walk(false, func(key string, _ *thing) bool {
			if want := fmt.Sprintf("%04d@%d", n, version); key != want {
				t.Errorf("entry %d of version %d is %s, want %s", n, version, key, want)
			}
			n++
			return n%(2*fewKeys) != 0
		})
		if n != 2*fewKeys {
			t.Errorf("%d entries of version %d", n, version)
		}
		o.check(t)
	}
}

// Keys yields each key once with all its entries, in both directions and in part of a span.
//
// Guarantees: I2
func TestKeysCountAllEntriesOfAKey(t *testing.T) {
	o, x := ordered(cmp.Compare[string])
	for i, tag := range []string{"a", "b", "b", "b", "c", "c"} {
		o.put(&thing{name: fmt.Sprint(i), tags: []string{tag}})
	}
	all := x.Span(&o.published)
	for _, c := range []struct {
		span Span[*thing, string]
		last bool
		want string
	}{
		{all, false, "a1 b3 c2 "}, {all, true, "c2 b3 a1 "},
		{all.From(2).To(5), false, "b2 c1 "}, {all.From(2).To(5), true, "c1 b2 "},
	} {
		got := ""
		c.span.Keys(c.last, func(key string, n int) bool { got += fmt.Sprint(key, n, " "); return true })
		if got != c.want {
			t.Errorf("last=%t: %q, want %q", c.last, got, c.want)
		}
	}
}

// An index never reads the entries of another one that has its place in another table.
//
// Guarantees: I1
func TestOrderedIndexDoesNotReadAnother(t *testing.T) {
	o, _ := ordered(cmp.Compare[string])
	o.put(&thing{name: "a", tags: []string{"t"}}, &thing{name: "b", tags: []string{"s"}})
	names := NewOrdered(func(t *thing) []string { return []string{t.name} }, cmp.Compare[string])
	other := newOwner()
	other.edit(func(e *Edit[*thing]) {
		addIndex(e, tagsOf)
		e.AddIndex(names)
	})
	if got := fmt.Sprint(read(names.Span(&o.published), false)); got != "[a=/a@0 b=/b@0]" {
		t.Errorf("got %s", got)
	}
}
