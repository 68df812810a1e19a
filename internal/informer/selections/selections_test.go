package selections

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// An object that moves from one part to another never leaves, whichever part knows first. An object that leaves all
// parts leaves the union when every part knows, with its latest state.
func TestMoves(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []write
		steps  string // the letters of the parts that take in their next write
		want   string
	}{
		{"the first part knows first", []write{newObject("a"), newObject("b")}, "aabb", "+u@1 +u@2"},
		{"the second part knows first", []write{newObject("a"), newObject("b")}, "abba", "+u@1 +u@2"},
		{"a part is behind by two moves", []write{newObject("a"), newObject("b"), newObject("a")}, "aaabbb", "+u@1 +u@3"},
		{"in both, then in one", []write{newObject("ab"), newObject("a")}, "abab", "+u@1 +u@2"},
		{"a part that is behind shows no older state", []write{newObject("a"), newObject("ab"), newObject("a")}, "aaabbb", "+u@1 +u@2 +u@3"},
		{"deleted, and the other part does not know", []write{newObject("a"), gone("a")}, "aa", "+u@1"},
		{"deleted, and the other part knows", []write{newObject("a"), gone("a")}, "aabb", "+u@1 -u@2"},
		{"deleted from both", []write{newObject("ab"), gone("ab")}, "abab", "+u@1 -u@2"},
		{"deleted, and the other part still has it", []write{newObject("ab"), gone("ab")}, "aab", "+u@1"},
		{"deleted and created again", []write{newObject("a"), gone("a"), newObject("b")}, "aaabbb", "+u@1 -u@2 +u@3"},
		{"a part that is behind revives nothing", []write{newObject("a"), newObject("ab"), gone("ab")}, "aaabb", "+u@1 +u@2"},
		{"a part that is behind revives nothing, and ends it", []write{newObject("a"), newObject("ab"), gone("ab")}, "aaabbb", "+u@1 +u@2 -u@3"},
	} {
		u, parts, content := newUnion("ab", c.writes...)
		for _, letter := range c.steps {
			parts[letter-'a'].step(u, content)
		}
		if got := strings.Join(content.events, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A leave does not wait for a part that is refused or removed, or that is known to lack the object.
func TestPartsThatAreNotWaitedFor(t *testing.T) {
	for name, end := range map[string]func(u *Union[*thing], b *part, c *content){
		"refused": func(u *Union[*thing], b *part, c *content) { u.Refuse(b, c) },
		"removed": func(u *Union[*thing], b *part, c *content) { u.Remove(b, nil, c) },
		"asked": func(u *Union[*thing], b *part, c *content) {
			u.Lacked(Question{object.Key{Name: "x"}, "1"}, "2", c) // an older question
			q := u.Questions(9)
			if len(q) != 1 || q[0] != (Question{object.Key{Name: "x"}, "2"}) || len(u.Questions(9)) != 0 {
				t.Errorf("questions %v, then %v", q, u.Questions(9))
			}
			u.Unanswered(q[0])
			if again := u.Questions(9); len(again) != 1 {
				t.Errorf("questions %v", again)
			}
			u.Lacked(q[0], "2", c)
			if c.have["x"] != nil {
				t.Error("not removed before the part knows")
			}
			b.step(u, c)
			b.step(u, c)
		},
	} {
		u, parts, content := newUnion("ab", newObject("a"), gone("a"))
		parts[0].step(u, content)
		parts[0].step(u, content)
		if got := strings.Join(content.events, " "); got != "+u@1" {
			t.Errorf("%s: before, %s", name, got)
		}
		end(u, parts[1], content)
		if got := strings.Join(content.events, " "); got != "+u@1 -u@2" {
			t.Errorf("%s: %s", name, got)
		}
		checkEmpty(t, u)
	}
}

// checkEmpty checks that u waits for nothing.
func checkEmpty(t *testing.T, u *Union[*thing]) {
	t.Helper()
	if len(u.leaves) > 0 {
		t.Errorf("%d leaves stay", len(u.leaves))
	}
	for _, s := range u.parts {
		if u.claim(s); len(s.waits)+len(s.holds) > 0 {
			t.Errorf("%d waits and %d holds stay", len(s.waits), len(s.holds))
		}
	}
}

// An object that a removed part had stays if another part has it.
func TestRemovedPart(t *testing.T) {
	u, parts, content := newUnion("ab", newObject("ab"), write{obj: &thing{name: "y", uid: "v", labels: "a"}})
	for _, p := range []int{0, 0, 1, 1} {
		parts[p].step(u, content)
	}
	u.Remove(parts[0], slices.Collect(maps.Values(parts[0].have)), content)
	if got := strings.Join(content.events, " "); got != "+u@1 +v@2 -v@2" || u.Contains(parts[0]) {
		t.Error(got)
	}
	checkEmpty(t, u)
}

// The newest state of several parts wins, whichever comes last.
func TestNewestStateWins(t *testing.T) {
	u, parts, content := newUnion("abc", newObject("abc"), newObject("abc"), newObject("abc"))
	parts[1].steps(u, content, 2)
	parts[0].steps(u, content, 3)
	parts[2].steps(u, content, 1)
	parts[1].step(u, content)
	if got := strings.Join(content.events, " "); got != "+u@1 +u@2 +u@3" {
		t.Error(got)
	}
	// The object leaves the first part. Of the others, the second has the newest state.
	u, parts, content = newUnion("abc", newObject("abc"), newObject("ab"), newObject("b"))
	parts[2].step(u, content)
	for range 3 {
		parts[1].step(u, content)
		parts[0].step(u, content)
	}
	parts[2].steps(u, content, 2)
	if got := strings.Join(content.events, " "); got != "+u@1 +u@2 +u@3" {
		t.Error(got)
	}
	checkEmpty(t, u)
}

// A leave ends as soon as its part knows its version, and not with a later one. It ends at once if a part that knows of
// it has the object.
func TestLeaveEndsAtItsVersion(t *testing.T) {
	u, parts, content := newUnion("abc", newObject("a"), gone("a"), write{obj: &thing{name: "y", uid: "v"}})
	parts[0].steps(u, content, 3)
	parts[1].steps(u, content, 2)
	parts[2].steps(u, content, 1)
	if content.have["x"] == nil {
		t.Error("removed before each part knows")
	}
	parts[2].step(u, content)
	if got := strings.Join(content.events, " "); got != "+u@1 -u@2" {
		t.Error(got)
	}
	checkEmpty(t, u)

	u, parts, content = newUnion("abc", newObject("a"), newObject("b"), write{obj: &thing{name: "y", uid: "v"}})
	parts[0].step(u, content)
	parts[0].list(u, content, 3, false)
	parts[1].steps(u, content, 3)
	if got := strings.Join(content.events, " "); got != "+u@1 +u@2" {
		t.Error(got)
	}
	checkEmpty(t, u)
}

// A part claims a version only when the content shows what the part knows.
// Guarantees: U6
func TestPartClaimsWhatTheContentShows(t *testing.T) {
	u, parts, content := newUnion("ab", newObject("a"), gone("a"), write{obj: &thing{name: "y", uid: "v"}})
	parts[0].step(u, content)
	parts[0].list(u, content, 3, false) // the object left at some version up to 3
	parts[1].steps(u, content, 2)
	if got := parts[0].claim(u); content.have["x"] == nil || got != "1" {
		t.Errorf("claims %s, although the content has the deleted object", got)
	}
	parts[1].step(u, content)
	if got := parts[0].claim(u) + parts[1].claim(u); content.have["x"] != nil || got != "33" {
		t.Errorf("claims %s", got)
	}

	// A part whose object an answer of the server keeps out claims nothing that the content lacks.
	u, parts, content = newUnion("ab", newObject("a"), newObject("b"), gone("b"))
	parts[0].steps(u, content, 2)
	u.Lacked(u.Questions(1)[0], "3", content)
	parts[1].steps(u, content, 2)
	if got := parts[1].claim(u); content.have["x"] != nil || got != "" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	parts[1].step(u, content)
	if got := parts[1].claim(u); got != "3" {
		t.Errorf("claims %s", got)
	}
}

// A restored server counts from a lower version. What it has is newer than what the one before had, for each part as
// soon as it lists. Until then, the part claims nothing.
// Guarantees: U7
func TestRestoredServer(t *testing.T) {
	u, parts, content := newUnion("ab")
	have := &thing{name: "x", uid: "u", version: 100}
	y := &thing{name: "y", uid: "v", version: 90}
	for _, p := range parts {
		p.replace(u, content, map[string]*thing{"x": have, "y": y}, 110, false)
	}
	parts[0].replace(u, content, map[string]*thing{"x": have}, 120, false)
	if content.have["y"] == nil {
		t.Error("left before the other part knows")
	}
	restored := &thing{name: "x", uid: "u", version: 50}
	if !parts[0].replace(u, content, map[string]*thing{"x": restored}, 60, true) {
		t.Error("the other part need not list again")
	}
	if u.IsBehind(parts[0]) || !u.IsBehind(parts[1]) || parts[0].claim(u)+parts[1].claim(u) != "" {
		t.Errorf("behind %t, %t; claims %q and %q", u.IsBehind(parts[0]), u.IsBehind(parts[1]), parts[0].claim(u), parts[1].claim(u))
	}
	if content.have["x"] != restored {
		t.Errorf("has %v", content.have)
	}
	// The other part may already count from lower versions. It never reaches those before.
	if parts[1].replace(u, content, map[string]*thing{"x": {name: "x", uid: "u", version: 50}}, 61, true) {
		t.Error("the first part has to list twice")
	}
	parts[0].replace(u, content, map[string]*thing{"x": restored}, 61, false)
	if content.have["x"] != restored || content.have["y"] != nil || parts[1].claim(u) != "61" {
		t.Errorf("has %v, claims %s", content.have, parts[1].claim(u))
	}
	checkEmpty(t, u)
}

// A leave that was recorded before a restore waits for no part that has gone back already.
// Guarantees: U7
func TestLeaveWaitsForNoPartThatWentBack(t *testing.T) {
	u, parts, content := newUnion("abc")
	x := map[string]*thing{"x": {name: "x", uid: "u", version: 90}}
	for _, p := range parts {
		p.replace(u, content, map[string]*thing{}, 95, false)
	}
	parts[0].replace(u, content, x, 99, false)
	parts[0].replace(u, content, map[string]*thing{}, 100, false)
	parts[2].replace(u, content, map[string]*thing{}, 50, true)
	u.Remove(parts[1], nil, content)
	parts[0].replace(u, content, map[string]*thing{}, 50, true)
	if len(content.have) > 0 {
		t.Errorf("has %v", content.have)
	}
	checkEmpty(t, u)
}

// A state that a restored server has not changed replaces a later one of the server before.
// Guarantees: U7
func TestUnchangedStateOfARestoredServer(t *testing.T) {
	u, parts, content := newUnion("ab")
	old := &thing{name: "x", uid: "u", version: 40}
	parts[0].replace(u, content, map[string]*thing{"x": old}, 80, false)
	parts[1].replace(u, content, map[string]*thing{"x": {name: "x", uid: "u", version: 90}}, 100, false)
	parts[0].replace(u, content, map[string]*thing{"x": old}, 60, true)
	if content.have["x"] != old {
		t.Errorf("has %v", content.have)
	}
}

// A refused part sends no object back, neither when another part loses it nor when the part is served again.
// Guarantees: U8
func TestRefusedPartSendsNothingBack(t *testing.T) {
	for name, again := range map[string]func(p *part, u *Union[*thing], c *content){
		"by a watch": func(p *part, u *Union[*thing], c *content) {
			for p.reached < len(p.server.writes) {
				p.step(u, c)
			}
		},
		"by a list": func(p *part, u *Union[*thing], c *content) { p.list(u, c, len(p.server.writes), false) },
	} {
		u, parts, content := newUnion("ab", newObject("ab"), newObject("ab"), newObject("ab"), gone("ab"))
		parts[0].step(u, content)
		parts[1].step(u, content)
		u.Refuse(parts[1], content)
		parts[0].steps(u, content, 3)
		if got := strings.Join(content.events, " "); got != "+u@1 +u@2 +u@3 -u@4" {
			t.Errorf("%s: while refused, %s", name, got)
		}
		again(parts[1], u, content)
		if got := strings.Join(content.events, " "); got != "+u@1 +u@2 +u@3 -u@4" {
			t.Errorf("%s: %s", name, got)
		}
		checkEmpty(t, u)
	}
}

// An object that a refused part did not have when it left the others enters when the part knows of that.
// Guarantees: U8
func TestRefusedPartLearnsWhatItMissed(t *testing.T) {
	u, parts, content := newUnion("abc", newObject("a"), newObject("ab"), gone("ab"), write{obj: &thing{name: "x", uid: "w", labels: "b"}})
	parts[0].step(u, content)
	parts[2].step(u, content)
	parts[1].step(u, content)
	u.Refuse(parts[1], content)
	parts[0].steps(u, content, 2)
	parts[2].steps(u, content, 2)
	if got := strings.Join(content.events, " "); got != "+u@1 +u@2 -u@3" {
		t.Error(got)
	}
	parts[1].step(u, content)
	parts[1].step(u, content)
	if got := strings.Join(content.events, " "); got != "+u@1 +u@2 -u@3" {
		t.Error(got)
	}
	parts[1].step(u, content)
	if got := strings.Join(content.events, " "); got != "+u@1 +u@2 -u@3 +w@4" {
		t.Error(got)
	}
	checkEmpty(t, u)
}

// While a part is refused, an object that left another is asked for, although the refused part has an old state of it.
// Guarantees: U7
func TestQuestionsIgnoreRefusedParts(t *testing.T) {
	u, parts, content := newUnion("abc", newObject("ab"), gone("ab"))
	parts[1].step(u, content)
	parts[0].step(u, content)
	u.Refuse(parts[1], content)
	parts[0].step(u, content)
	q := u.Questions(9)
	if len(q) != 1 {
		t.Fatalf("questions %v", q)
	}
	u.Lacked(q[0], "2", content)
	if len(content.have) > 0 {
		t.Errorf("has %v", content.have)
	}
}

// An object that left the other parts stays if a new part has it.
func TestPartThatComesHasWhatOthersLack(t *testing.T) {
	u, parts, content := newUnion("ab", newObject("a"), newObject("c"))
	parts[0].step(u, content)
	parts[0].step(u, content)
	u.Lacked(u.Questions(9)[0], "12", content)
	if len(content.have) != 0 {
		t.Errorf("has %v", content.have)
	}
	c := &part{server: parts[0].server, letter: "c"}
	u.Add(c, "")
	c.replace(u, content, map[string]*thing{"x": parts[0].server.writes[1].obj}, 13, false)
	for _, p := range parts {
		p.replace(u, content, nil, 13, false)
	}
	if content.have["x"] != c.have["x"] {
		t.Errorf("has %v", content.have)
	}
	checkEmpty(t, u)
}

// What a new part has before it has reached the others does not enter the content, for example from a saved state.
// Guarantees: U8
func TestNewPartRevivesNothing(t *testing.T) {
	u, parts, content := newUnion("ab", newObject("ac"), gone("ac"), write{obj: &thing{name: "y", uid: "v", labels: "c"}})
	parts[1].steps(u, content, 2)
	parts[0].steps(u, content, 2)
	c := &part{server: parts[0].server, letter: "c", have: map[string]*thing{}, bad: map[string]string{}}
	u.Add(c, "")
	c.list(u, content, 1, false)
	if len(content.have) > 0 || c.claim(u) != "" {
		t.Errorf("has %v, claims %s", content.have, c.claim(u))
	}
	c.steps(u, content, 2)
	if got := strings.Join(content.events, " "); got != "+u@1 -u@2 +v@3" || c.claim(u) != "3" {
		t.Error(got)
	}
	checkEmpty(t, u)
}

// A list that is older than the content has no lasting effect.
func TestOlderList(t *testing.T) {
	u, parts, content := newUnion("ab", newObject("ab"), newObject("b"))
	newer := parts[0].server.writes[1].obj
	parts[1].steps(u, content, 2)
	parts[0].list(u, content, 1, false)
	if content.have["x"] != newer {
		t.Errorf("has %v", content.have)
	}
	parts[0].step(u, content)
	if content.have["x"] != newer {
		t.Errorf("has %v", content.have)
	}
	checkEmpty(t, u)
}

// A comparison finds what the content has otherwise than the parts. Rebuild repairs it.
// Guarantees: U9
func TestCompareAndRebuild(t *testing.T) {
	u, parts, c := newUnion("ab", newObject("ab"), write{obj: &thing{name: "y", uid: "v", labels: "a"}},
		write{obj: &thing{name: "z", uid: "w", labels: "ab"}}, write{obj: &thing{name: "z", uid: "w", labels: "ab"}})
	for _, p := range parts {
		p.steps(u, c, 4)
	}
	compare := func() (texts []string) {
		copied, _ := u.Copy()
		objects, _ := copied.Compare(c, func(key object.Key, have, want *thing) {
			texts = append(texts, fmt.Sprint(key.Name, have != nil, want != nil))
		})
		if slices.Sort(texts); objects != 3 {
			t.Errorf("%d objects", objects)
		}
		return texts
	}
	if got := compare(); len(got) > 0 {
		t.Error(got)
	}
	delete(c.have, "x")
	c.have["z"] = parts[0].server.writes[2].obj
	c.have["z"] = &thing{name: "z", uid: "w", version: 3}
	c.have["ghost"] = &thing{name: "ghost", uid: "g", version: 1}
	if got := fmt.Sprint(compare()); got != "[ghosttrue false xfalse true ztrue true]" {
		t.Error(got)
	}
	u.Rebuild(slices.Collect(c.All()), c)
	if got := compare(); len(got) > 0 || len(c.have) != 3 {
		t.Error(got)
	}
}

// An object that has left a part is not compared, but the union is settled only when it is gone.
// Guarantees: U9
func TestCompareWaitsForLeaves(t *testing.T) {
	u, parts, c := newUnion("ab", newObject("a"), gone("a"))
	parts[0].steps(u, c, 2)
	copied, ok := u.Copy()
	copied.Compare(c, func(key object.Key, _, _ *thing) { t.Errorf("%s differs", key) })
	if !ok || u.Concluded(copied) {
		t.Error("settled, although the content has a deleted object")
	}
	parts[1].steps(u, c, 2)
	if !u.Concluded(copied) {
		t.Error("not settled")
	}
	parts[1].replace(u, c, nil, 1, true)
	if _, ok := u.Copy(); ok {
		t.Error("copied while a part has to list again")
	}
	u.Refuse(parts[0], c)
	if _, ok := u.Copy(); !ok {
		t.Error("waits for a refused part")
	}
}

// Leaves take linear time, however many there are at once.
func TestManyLeaves(t *testing.T) {
	for _, end := range []func(u *Union[*thing], p *part, c *content){
		func(u *Union[*thing], p *part, c *content) {
			p.replace(u, c, nil, 1000, false)
			u.parts[0].Part.(*part).replace(u, c, nil, 1000, false) // may have had what p had before its list
		},
		func(u *Union[*thing], p *part, c *content) {
			p.replace(u, c, nil, 4, false)
			p.replace(u, c, nil, 5, false)
		},
		func(u *Union[*thing], p *part, c *content) { u.Remove(p, nil, c) },
		func(u *Union[*thing], p *part, c *content) { u.Refuse(p, c) },
	} {
		u, parts, content := newUnion("ab")
		many := testkit.Rounds(20_000, 200_000)
		have := map[string]*thing{}
		for i := range many {
			have[strconv.Itoa(i)] = &thing{name: strconv.Itoa(i), uid: "u", version: 1}
		}
		parts[0].replace(u, content, have, 2, false)
		parts[0].replace(u, content, map[string]*thing{}, 5, false)
		if n := len(u.Questions(20)); n != 20 || len(content.have) != many {
			t.Errorf("%d questions, %d objects", n, len(content.have))
		}
		end(u, parts[1], content)
		if len(content.have) != 0 {
			t.Errorf("%d objects", len(content.have))
		}
		checkEmpty(t, u)
	}
}

// An object that moves to and fro while a part lags takes no more memory each time.
func TestMovesWhileAPartLags(t *testing.T) {
	u, parts, content := newUnion("ab")
	for i := range 5000 {
		parts[0].replace(u, content, map[string]*thing{"x": {name: "x", uid: "u", version: 2 * i}}, 2*i, false)
		parts[0].replace(u, content, map[string]*thing{}, 2*i+1, false)
	}
	if n := len(u.parts[1].waits) + len(u.parts[0].holds); n > 4*manyEnded {
		t.Errorf("%d waits and holds", n)
	}
}
