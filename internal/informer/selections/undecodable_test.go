package selections

import (
	"fmt"
	"testing"
)

// An object that moves to a part which cannot decode it stays in its last good version. No part waits for it. It leaves
// when that part lacks it, unless it has moved on to a part that lags.
// Guarantees: R17, U6
func TestUndecodableObjectStays(t *testing.T) {
	for name, test := range map[string]struct {
		writes []write
		order  string // of the steps of the parts
		want   string // the events
		claim  string // of a after them
	}{
		"the other part first":    {[]write{newObject("a"), newObject("b!")}, "aabb", "[+u@1]", "2"},
		"the other part last":     {[]write{newObject("a"), newObject("b!")}, "abba", "[+u@1]", "2"},
		"then it can be decoded":  {[]write{newObject("a"), newObject("b!"), newObject("b")}, "aabbab", "[+u@1 +u@3]", "3"},
		"then it is deleted":      {[]write{newObject("a"), newObject("b!"), gone("b")}, "aabbab", "[+u@1 -u@1]", "3"},
		"another one of its name": {[]write{newObject("a"), gone("a"), {obj: &thing{name: "x", uid: "w", labels: "b!"}}}, "aaabbb", "[+u@1 -u@2]", "3"},
		"then it moves back":      {[]write{newObject("a"), newObject("b!"), newObject("a")}, "aabbab", "[+u@1 +u@3]", "3"},
		"it was never elsewhere":  {[]write{newObject("b!"), gone("b")}, "aabb", "[]", "2"},
		"it is gone at the other": {[]write{newObject("a"), newObject("b!"), newObject("a")}, "abbbaa", "[+u@1 +u@3]", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			u, parts, c := newUnion("ab", test.writes...)
			for _, letter := range test.order {
				parts[letter-'a'].step(u, c)
			}
			if got, claim := fmt.Sprint(c.events), parts[0].claim(u); got != test.want || claim != test.claim {
				t.Errorf("%s, a claims %s; want %s, %s", got, claim, test.want, test.claim)
			}
		})
	}
}
