package decode

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// unstructured decodes raw, which is JSON, into u. The parts are the members that can be large, in their order.
func (d *Decoder) unstructured(u *unstructured.Unstructured, raw []byte, before *unstructured.Unstructured,
	reuse reuse) error {
	left := &d.json.left
	*left = d.json.limit
	if content := d.members(raw, before, reuse, left); content != nil {
		u.Object = content
		return nil
	}
	if *left < 0 {
		return errDecodedTooLarge
	}
	reuse.now.clear()
	*left = d.json.limit
	content, err := decodeMap(raw, left) // reports what is wrong with raw
	u.Object = content
	return err
}

// members decodes an object member by member. It returns nil if raw is unusual.
func (d *Decoder) members(raw []byte, before *unstructured.Unstructured, reuse reuse, left *budget) map[string]any {
	content, parts := map[string]any{}, 0
	if !left.take(valueBytes + mapBytes) {
		return nil
	}
	tokens := d.json.tokens
	defer func() { tokens.Reset(noInput{}) }()
	c := cursor{b: raw}
	whole := c.members(func(key []byte, quote int) bool {
		if !plainName(key) {
			return false
		}
		name := string(key)
		if _, twice := content[name]; twice {
			return false
		}
		var was any
		held := false
		if before != nil {
			was, held = before.Object[name]
		}
		part := -1
		if char := c.space(); (char == '{' || char == '[') && name != "metadata" && parts < len(reuse.parts) {
			part = parts
			parts++
			if size, cost, ok := reuse.unchanged(part, raw[quote:]); ok && held {
				c.i = quote + size
				content[name] = was
				return left.take(cost)
			}
		}
		whole := *left
		value := c.value(1)
		if value == nil || !left.take(memberBytes) {
			return false
		}
		v, err := decodeTree(tokens, value, left, true)
		if err != nil {
			return false
		}
		if held {
			v, _ = adoptTree(was, v, true)
		}
		content[name] = v
		if part >= 0 {
			reuse.note(part, raw[quote:c.i], whole-*left)
		}
		return true
	})
	if !whole || c.space() != 0 || c.i != len(raw) {
		return nil
	}
	return content
}

// plainName reports whether the name of a member, without quotes, is what it stands for.
func plainName(key []byte) bool {
	for _, char := range key {
		if char < ' ' || char == '\\' || char >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// checkMembers is members for nobody. It notes in d.found what it finds.
func (d *Decoder) checkMembers(raw []byte) bool {
	left, tokens := &d.json.left, d.json.tokens
	*left = d.json.limit
	left.take(valueBytes + mapBytes)
	defer func() { tokens.Reset(noInput{}) }()
	var memory [8][]byte
	names := memory[:0]
	c := cursor{b: raw}
	whole := c.members(func(key []byte, _ int) bool {
		if !plainName(key) || slices.ContainsFunc(names, func(name []byte) bool { return bytes.Equal(name, key) }) {
			return false
		}
		names = append(names, key)
		value := c.value(1)
		if value == nil || len(names) > maxFields || !left.take(memberBytes) {
			return false
		}
		_, err := decodeTree(tokens, value, left, false)
		return err == nil && (string(key) != "metadata" || d.found.tree(value))
	})
	return whole && c.space() == 0 && c.i == len(raw)
}
