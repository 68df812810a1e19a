package selections

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/typedinformer/informer/internal/object"
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

// What a new part has before it has reached the others waits for that. If it is deleted meanwhile, nothing is left of
// it.
// Guarantees: U8
func TestObjectThatANewPartLosesLeavesNothing(t *testing.T) {
	u, parts, content := newUnion("a", newObject("c"), gone("c"), write{obj: &thing{name: "y", uid: "v", labels: "a"}})
	parts[0].steps(u, content, 3)
	c := &part{server: parts[0].server, letter: "c", have: map[string]*thing{}, bad: map[string]string{}}
	if reached := u.Add(c, ""); reached != "3" {
		t.Errorf("the others have reached %q", reached)
	}
	c.list(u, content, 1, false)
	for range 2 {
		c.step(u, content)
		if got := c.claim(u); len(content.have) != 1 || got != "" && got != strconv.Itoa(c.reached) {
			t.Errorf("claims %s, has %v", got, content.have)
		}
	}
	checkEmpty(t, u)
}

// A part that inherits what keeps another part from a claim does not claim more than it has reached.
// Guarantees: U6
func TestHeirClaimsNoMoreThanItHas(t *testing.T) {
	u, parts, content := newUnion("ab", newObject("a"), write{obj: &thing{name: "y", uid: "v", labels: "b"}}, gone("a"))
	for _, p := range parts {
		p.list(u, content, 1, false)
	}
	parts[0].step(u, content)
	parts[0].step(u, content) // the object stays, since the other part does not know, so this one claims 2
	u.Remove(parts[0], nil, content)
	if got := parts[1].claim(u); got != "1" {
		t.Errorf("claims %s", got)
	}
	parts[1].steps(u, content, 2)
	if got := parts[1].claim(u); content.have["x"] != nil || got != "3" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	checkEmpty(t, u)
}

// A part lists a restored server, and has another shard since. What it does not have any more left it before the
// restore, at a version that the restored server may never reach.
// Guarantees: U7
func TestUnwantedObjectFromBeforeARestore(t *testing.T) {
	u, parts, content := newUnion("ab")
	x := &thing{name: "x", uid: "u", version: 90}
	for _, p := range parts {
		p.replace(u, content, map[string]*thing{"x": x}, 95, false)
	}
	p := parts[0]
	p.have, p.reached = map[string]*thing{}, 50
	unwanted := Change[*thing]{Key: object.KeyOf(x), Old: x, Last: x, Unwanted: true}
	u.Update(p, Step[*thing]{From: "95", Listed: true, WentBack: true, Relisted: true,
		Changes: slices.Values([]Change[*thing]{unwanted})}, content)
	now := &thing{name: "x", uid: "u", version: 40}
	parts[1].replace(u, content, map[string]*thing{"x": now}, 50, true)
	if content.have["x"] != now {
		t.Errorf("has %v", content.have)
	}
	checkEmpty(t, u)
}

// changeShard makes p have those objects, at the version that it has, since its shard has become narrower or wider.
func (p *part) changeShard(u *Union[*thing], c *content, have map[string]*thing, wider bool) {
	before := p.have
	p.have = have
	var changes []Change[*thing]
	for name, old := range before {
		if have[name] == nil {
			changes = append(changes, Change[*thing]{Key: object.KeyOf(old), Old: old, Last: old, Unwanted: true})
		}
	}
	for name, obj := range have {
		if before[name] == nil {
			changes = append(changes, Change[*thing]{Key: object.KeyOf(obj), New: obj})
		}
	}
	u.Update(p, Step[*thing]{From: p.Version(), Widened: wider, Changes: slices.Values(changes)}, c)
}

// An object that left with a shard is back at once with another shard, although one part has listed meanwhile and
// another one lags.
// Guarantees: U7
func TestObjectIsBackWithItsShard(t *testing.T) {
	u, parts, content := newUnion("ab", newObject("a"), write{obj: &thing{name: "y", uid: "v", labels: "a"}},
		write{obj: &thing{name: "z", uid: "w", labels: "b"}}, write{obj: &thing{name: "z", uid: "w", labels: "b"}})
	for _, p := range parts {
		p.list(u, content, 1, false)
	}
	parts[1].list(u, content, 4, false)
	x := parts[0].have["x"]
	parts[0].changeShard(u, content, map[string]*thing{}, false)
	if content.have["x"] != nil {
		t.Errorf("has %v", content.have)
	}
	parts[0].changeShard(u, content, map[string]*thing{"x": x}, true)
	if content.have["x"] != x {
		t.Errorf("has %v", content.have)
	}
	parts[0].steps(u, content, 3)
	checkEmpty(t, u)
}

// A part that gets an object by a change of its shard, after the object has left another part at a later version,
// claims nothing until it has reached that.
// Guarantees: U6
func TestObjectOfAWiderShardIsClaimedLater(t *testing.T) {
	u, parts, content := newUnion("abc", newObject("ab"), write{obj: &thing{name: "y", uid: "v", labels: "b"}}, gone("ab"))
	for _, p := range parts {
		p.list(u, content, 1, false)
	}
	parts[1].step(u, content)
	x := parts[1].have["x"]
	parts[1].changeShard(u, content, map[string]*thing{"y": parts[1].have["y"]}, false)
	parts[0].steps(u, content, 2)
	u.Lacked(u.Questions(1)[0], "3", content)
	parts[1].changeShard(u, content, map[string]*thing{"x": x, "y": parts[1].have["y"]}, false)
	if got := parts[1].claim(u); content.have["x"] != nil || got != "" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	for _, p := range parts[1:] {
		p.steps(u, content, 3-p.reached)
	}
	if got := parts[1].claim(u); content.have["x"] != nil || got != "3" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	checkEmpty(t, u)
}

// With a wider shard, parts claim nothing until they have reached the same version: an object of it can have moved to
// one that lags.
// Guarantees: U6
func TestWiderShardsClaimNothingUntilTheyAgree(t *testing.T) {
	u, parts, content := newUnion("ab", write{obj: &thing{name: "y", uid: "v", labels: "ab"}}, newObject("b"), newObject("a"))
	for _, p := range parts {
		p.list(u, content, 1, false)
	}
	parts[1].reached = 3 // nothing of its shard has changed
	u.Update(parts[1], Step[*thing]{From: "1", Changes: func(func(Change[*thing]) bool) {}}, content)
	for _, p := range parts {
		p.changeShard(u, content, p.server.at(p.reached, p.letter), true)
	}
	if got := parts[1].claim(u); got != "" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	parts[0].steps(u, content, 2)
	if got := parts[0].claim(u) + parts[1].claim(u); content.have["x"] == nil || got != "33" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	checkEmpty(t, u)
}

// An object moves from one part to another, which lags. If a third part is removed that has it, too, it stays.
// Guarantees: U6
func TestRemovedPartEndsNoMove(t *testing.T) {
	u, parts, content := newUnion("abd", newObject("bd"), newObject("ad"))
	for _, p := range parts {
		p.list(u, content, 1, false)
	}
	parts[1].step(u, content)
	had := slices.Collect(parts[2].All())
	u.Remove(parts[2], had, content)
	if got := parts[0].claim(u) + parts[1].claim(u); content.have["x"] == nil || got != "11" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	parts[0].step(u, content)
	if got := strings.Join(content.events, " "); got != "+u@1 +u@2" {
		t.Error(got)
	}
	checkEmpty(t, u)
}

// An object moves from one part to another, which lags. If a third part is removed that has it where it is now, it
// leaves, and no version is claimed until the part has reached that.
// Guarantees: U6
func TestPartsClaimNothingAfterARemovalUntilTheyAgree(t *testing.T) {
	u, parts, content := newUnion("abd", newObject("bd"), newObject("ad"))
	for _, p := range parts {
		p.list(u, content, 1, false)
	}
	parts[2].step(u, content)
	parts[1].step(u, content)
	had := slices.Collect(parts[2].All())
	u.Remove(parts[2], had, content)
	if got := parts[0].claim(u) + parts[1].claim(u); content.have["x"] != nil || got != "" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	parts[0].step(u, content)
	if got := parts[0].claim(u) + parts[1].claim(u); content.have["x"] == nil || got != "22" {
		t.Errorf("claims %s, has %v", got, content.have)
	}
	checkEmpty(t, u)
}
