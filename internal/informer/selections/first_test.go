package selections

import (
	"strings"
	"testing"
)

// A part claims no more than one that was removed, while the content has what left that one.
// Guarantees: U6
func TestRemovedPartLeavesItsClaim(t *testing.T) {
	u, parts, content := newUnion("abc", newObject("a"), gone("a"), write{obj: &thing{name: "y", uid: "v"}})
	for _, p := range parts {
		p.list(u, content, 1, false)
	}
	parts[0].step(u, content)
	parts[2].list(u, content, 3, false) // the object may have been in it
	parts[1].step(u, content)
	for _, p := range []*part{parts[0], parts[2]} {
		u.Remove(p, nil, content)
		if got := parts[1].claim(u); content.have["x"] == nil || got != "1" {
			t.Errorf("claims %s, although the content has the deleted object", got)
		}
	}
	parts[1].step(u, content)
	if got := parts[1].claim(u); content.have["x"] != nil || got != "3" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	checkEmpty(t, u)
}

// The first lists of two parts have different versions, and between these, an object has moved from the part that
// listed later to the other. Until that part has reached the other list, the union claims nothing.
// Guarantees: U6
func TestFirstListsClaimNothingUntilTheyAgree(t *testing.T) {
	u, parts, content := newUnion("ab", newObject("a"), newObject("b"), write{obj: &thing{name: "y", uid: "v"}})
	parts[1].list(u, content, 1, false)
	parts[0].list(u, content, 3, false)
	if got := parts[0].claim(u); len(content.have) != 0 || got != "" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	parts[1].step(u, content)
	if got := parts[0].claim(u); content.have["x"] == nil || got != "" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	parts[1].step(u, content)
	if got := parts[0].claim(u) + parts[1].claim(u); got != "33" {
		t.Errorf("claims %s", got)
	}
	checkEmpty(t, u)
}

// An object moves to a part that has not listed, or that lists first an older state of it. It does not leave, and is
// not back after its deletion.
// Guarantees: U7, U8
func TestLeaveWaitsForAFirstList(t *testing.T) {
	for want, last := range map[string]write{"+u@1 +u@2": newObject("b"), "+u@1 -u@2": gone("ab")} {
		u, parts, content := newUnion("ab", newObject("ab"), last)
		parts[0].list(u, content, 1, false)
		parts[0].step(u, content)
		if content.have["x"] == nil || parts[1].claim(u) != "" {
			t.Errorf("has %v, claims %q", content.have, parts[1].claim(u))
		}
		if last.gone {
			u.Lacked(u.Questions(1)[0], "2", content)
			parts[1].list(u, content, 1, false)
			parts[1].step(u, content)
		} else {
			parts[1].list(u, content, 2, false)
		}
		if got := strings.Join(content.events, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		checkEmpty(t, u)
	}
}
