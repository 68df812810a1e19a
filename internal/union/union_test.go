package union

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/testkit"
)

// thing is an object that matches the parts whose letters are in labels.
type thing struct {
	name, uid, labels string
	version           int
}

func (t *thing) GetNamespace() string       { return "" }
func (t *thing) GetName() string            { return t.name }
func (t *thing) GetUID() types.UID          { return types.UID(t.uid) }
func (t *thing) GetResourceVersion() string { return strconv.Itoa(t.version) }
func (t *thing) String() string             { return fmt.Sprintf("%s@%d", t.uid, t.version) }

// write is a write to the server: obj is the state after it, or the last one if gone.
type write struct {
	obj  *thing
	gone bool
}

// server has writes; the version of each is its index plus one.
type server struct{ writes []write }

// at returns the objects after the first n writes that match a letter.
func (s *server) at(n int, letter string) map[string]*thing {
	have := map[string]*thing{}
	for _, w := range s.writes[:n] {
		if delete(have, w.obj.name); !w.gone && strings.Contains(w.obj.labels, letter) {
			have[w.obj.name] = w.obj
		}
	}
	return have
}

// part is a part that follows the server.
type part struct {
	server  *server
	letter  string
	reached int
	have    map[string]*thing
	refused bool
}

func (p *part) Get(key Key) (*thing, bool) { t, ok := p.have[key.Name]; return t, ok }
func (p *part) Covers(string) bool         { return !p.refused }
func (p *part) Knows(v string) bool        { return p.reached >= version(v) }

func version(text string) int {
	v, _ := strconv.Atoi(text)
	return v
}

// step takes in the next write.
func (p *part) step(u *Union[*thing], c *content) {
	w := p.server.writes[p.reached]
	p.reached++
	old := p.have[w.obj.name]
	switch {
	case !w.gone && strings.Contains(w.obj.labels, p.letter):
		p.have[w.obj.name] = w.obj
		u.Entered(old, w.obj, c)
	case old != nil:
		delete(p.have, w.obj.name)
		u.Left(Key{Name: w.obj.name}, strconv.Itoa(p.reached), w.obj, true, false, c)
	}
	u.Advanced(p, c)
}

// content is the content of a union, and what happened to it.
type content struct {
	have   map[string]*thing
	events []string
}

func (c *content) Get(key Key) (*thing, bool) { t, ok := c.have[key.Name]; return t, ok }

func (c *content) Put(t *thing) {
	if c.have[t.name] != t {
		c.have[t.name] = t
		c.events = append(c.events, fmt.Sprint("+", t))
	}
}

func (c *content) Remove(key Key, last *thing, final bool) {
	if c.have[key.Name] != nil {
		delete(c.have, key.Name)
		c.events = append(c.events, fmt.Sprint("-", last))
	}
}

// newUnion returns a union with one part for each letter.
func newUnion(letters string, writes ...write) (*Union[*thing], []*part, *content) {
	s := &server{writes}
	for i := range s.writes {
		s.writes[i].obj.version = i + 1
	}
	u := New[*thing]()
	var parts []*part
	for _, letter := range letters {
		p := &part{server: s, letter: string(letter), have: map[string]*thing{}}
		u.Add(p)
		parts = append(parts, p)
	}
	return u, parts, &content{have: map[string]*thing{}}
}

func object(labels string) write { return write{obj: &thing{name: "x", uid: "u", labels: labels}} }
func gone(labels string) write   { return write{&thing{name: "x", uid: "u", labels: labels}, true} }

// An object that moves from one part to another never leaves, whichever part knows first. An object that leaves all
// parts leaves the union when every part knows, with its latest state.
func TestMoves(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []write
		steps  string // the letters of the parts that take in their next write
		want   string
	}{
		{"the first part knows first", []write{object("a"), object("b")}, "aabb", "+u@1 +u@2"},
		{"the second part knows first", []write{object("a"), object("b")}, "abba", "+u@1 +u@2"},
		{"a part is behind by two moves", []write{object("a"), object("b"), object("a")}, "aaabbb", "+u@1 +u@3"},
		{"in both, then in one", []write{object("ab"), object("a")}, "abab", "+u@1 +u@2"},
		{"a part that is behind shows no older state", []write{object("a"), object("ab"), object("a")}, "aaabbb", "+u@1 +u@2 +u@3"},
		{"deleted, and the other part does not know", []write{object("a"), gone("a")}, "aa", "+u@1"},
		{"deleted, and the other part knows", []write{object("a"), gone("a")}, "aabb", "+u@1 -u@2"},
		{"deleted from both", []write{object("ab"), gone("ab")}, "abab", "+u@1 -u@2"},
		{"deleted, and the other part still has it", []write{object("ab"), gone("ab")}, "aab", "+u@1"},
		{"deleted and created again", []write{object("a"), gone("a"), object("b")}, "aaabbb", "+u@1 -u@2 +u@3"},
		{"a part that is behind revives nothing", []write{object("a"), object("ab"), gone("ab")}, "aaabb", "+u@1 +u@2"},
		{"a part that is behind revives nothing, and ends it", []write{object("a"), object("ab"), gone("ab")}, "aaabbb", "+u@1 +u@2 -u@3"},
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

// A leave does not wait for a part that cannot have the object, or that is known to lack it.
func TestPartsThatAreNotWaitedFor(t *testing.T) {
	for name, end := range map[string]func(u *Union[*thing], b *part, c *content){
		"refused":  func(u *Union[*thing], b *part, c *content) { b.refused = true; u.Advanced(b, c) },
		"restored": func(u *Union[*thing], b *part, c *content) { u.WentBack(b, c) },
		"removed":  func(u *Union[*thing], b *part, c *content) { u.Remove(b, "0", nil, c) },
		"asked": func(u *Union[*thing], b *part, c *content) {
			u.Lacked(Question{Key{Name: "x"}, "1"}, "2", c) // an older question
			q := u.Questions(9)
			if len(q) != 1 || q[0] != (Question{Key{Name: "x"}, "2"}) || len(u.Questions(9)) != 0 {
				t.Errorf("questions %v, then %v", q, u.Questions(9))
			}
			u.Lacked(q[0], "2", c)
			if c.have["x"] != nil {
				t.Error("not removed before the part knows")
			}
			b.step(u, c)
			b.step(u, c)
		},
	} {
		u, parts, content := newUnion("ab", object("a"), gone("a"))
		parts[0].step(u, content)
		parts[0].step(u, content)
		if got := strings.Join(content.events, " "); got != "+u@1" {
			t.Errorf("%s: before, %s", name, got)
		}
		end(u, parts[1], content)
		if got := strings.Join(content.events, " "); got != "+u@1 -u@2" {
			t.Errorf("%s: %s", name, got)
		}
		if len(u.leaves) != 0 || len(u.waits) != 0 {
			t.Errorf("%s: %d leaves and %d waits stay", name, len(u.leaves), len(u.waits))
		}
	}
}

// An object that a removed part had stays if another part has it.
func TestRemovedPart(t *testing.T) {
	u, parts, content := newUnion("ab", object("ab"), write{obj: &thing{name: "y", uid: "v", labels: "a"}})
	for _, p := range []int{0, 0, 1, 1} {
		parts[p].step(u, content)
	}
	u.Remove(parts[0], "2", slices.Collect(maps.Values(parts[0].have)), content)
	if got := strings.Join(content.events, " "); got != "+u@1 +v@2 -v@2" || u.Contains(parts[0]) {
		t.Error(got)
	}
}

// A restored server counts from a lower version.
func TestRestoredServer(t *testing.T) {
	u, parts, content := newUnion("ab")
	have := &thing{name: "x", uid: "u", version: 100}
	for _, p := range parts {
		p.have["x"] = have
		u.Entered(nil, have, content)
	}
	restored := &thing{name: "x", uid: "u", version: 50}
	u.Entered(have, restored, content)
	u.Entered(have, &thing{name: "x", uid: "u", version: 50}, content) // the other part
	if got := strings.Join(content.events, " "); got != "+u@100 +u@50" {
		t.Error(got)
	}
	// y had left at a version that the restored server has not reached.
	u.Left(Key{Name: "y"}, "120", &thing{name: "y", uid: "v", version: 120}, true, false, content)
	y := &thing{name: "y", uid: "v", version: 60}
	parts[1].have["y"] = y
	u.Entered(nil, y, content)
	for _, p := range parts {
		u.WentBack(p, content)
	}
	if got := content.have["y"]; got != y || len(u.leaves) != 0 || len(u.waits) != 0 {
		t.Error(content.events, u.leaves)
	}
}

// An object that left the other parts stays if a new part has it.
func TestPartThatComesHasWhatOthersLack(t *testing.T) {
	u, parts, content := newUnion("ab", object("a"), object("c"))
	parts[0].step(u, content)
	parts[0].step(u, content)
	u.Lacked(u.Questions(9)[0], "12", content)
	if len(content.have) != 0 {
		t.Errorf("has %v", content.have)
	}
	c := &part{server: parts[0].server, letter: "c", reached: 13, have: map[string]*thing{"x": parts[0].server.writes[1].obj}}
	u.Add(c)
	u.Entered(nil, c.have["x"], content)
	for _, p := range parts {
		p.reached = 13
		u.Advanced(p, content)
	}
	if content.have["x"] != c.have["x"] || len(u.leaves) != 0 {
		t.Errorf("has %v, %d leaves", content.have, len(u.leaves))
	}
}

// A list that is older than the content has no lasting effect.
func TestOlderList(t *testing.T) {
	u, parts, content := newUnion("ab", object("ab"), object("b"))
	older, newer := parts[0].server.writes[0].obj, parts[0].server.writes[1].obj
	for _, p := range parts {
		p.step(u, content)
	}
	parts[1].step(u, content)
	u.Entered(nil, older, content) // a list of the first part
	if content.have["x"] != newer {
		t.Errorf("has %v", content.have)
	}
	parts[0].step(u, content)
	if content.have["x"] != newer || len(u.leaves) != 0 {
		t.Errorf("has %v, %d leaves", content.have, len(u.leaves))
	}
}

// Leaves take linear time, however many there are at once.
func TestManyLeaves(t *testing.T) {
	for _, end := range []func(u *Union[*thing], p *part, c *content){
		func(u *Union[*thing], p *part, c *content) { p.reached = 1000; u.Advanced(p, c) },
		func(u *Union[*thing], p *part, c *content) { u.WentBack(p, c) },
		func(u *Union[*thing], p *part, c *content) { u.Remove(p, "0", nil, c) },
	} {
		u, parts, content := newUnion("ab")
		parts[0].reached = 1000
		many := testkit.Rounds(20_000, 200_000)
		for i := range many {
			obj := &thing{name: strconv.Itoa(i), uid: "u", version: 1}
			u.Entered(nil, obj, content)
			u.Left(keyOf(obj), "5", obj, true, false, content)
		}
		if n := len(u.Questions(20)); n != 20 || len(content.have) != many {
			t.Errorf("%d questions, %d objects", n, len(content.have))
		}
		end(u, parts[1], content)
		if len(content.have) != 0 || len(u.leaves) != 0 || len(u.waits) != 0 {
			t.Errorf("%d objects, %d leaves, %d waits", len(content.have), len(u.leaves), len(u.waits))
		}
	}
}

// In whichever order the parts learn of writes, an object that some part should have never leaves, and no deleted
// object returns. In the end, the union has the objects that the parts should have.
func TestUnionModel(t *testing.T) {
	for seed := range int64(testkit.Rounds(200, 2000)) {
		random := rand.New(rand.NewSource(seed))
		u, parts, content := newUnion("abc")
		s := parts[0].server
		uids := map[string]int{}
		for range 3 + random.Intn(30) {
			name := string(rune('u' + random.Intn(4)))
			now := s.at(len(s.writes), "")[name]
			obj := &thing{name: name, version: len(s.writes) + 1}
			for _, letter := range "abc" {
				if random.Intn(3) == 0 {
					obj.labels += string(letter)
				}
			}
			w := write{obj: obj, gone: now != nil && random.Intn(3) == 0}
			if now == nil {
				uids[name]++
			}
			obj.uid = name + strconv.Itoa(uids[name])
			s.writes = append(s.writes, w)
			for range random.Intn(3) {
				if p := parts[random.Intn(3)]; p.reached < len(s.writes) {
					p.step(u, content)
				}
			}
			if q := u.Questions(9); len(q) > 0 && random.Intn(2) == 0 {
				at := len(s.writes) - random.Intn(len(s.writes)-version(q[0].Version)+1)
				if now := s.at(at, "")[q[0].Key.Name]; now == nil || now.labels == "" {
					u.Lacked(q[0], strconv.Itoa(at), content)
				}
			}
		}
		for _, p := range parts {
			for p.reached < len(s.writes) {
				p.step(u, content)
			}
		}
		want := map[string]*thing{}
		for _, p := range parts {
			maps.Copy(want, s.at(len(s.writes), p.letter))
		}
		if !maps.Equal(content.have, want) || len(u.leaves) != 0 {
			t.Fatalf("seed %d: has %v, want %v; %d leaves", seed, content.have, want, len(u.leaves))
		}
		checkEvents(t, seed, s, content.events)
	}
}

// checkEvents fails if the versions of an object go back, or if it leaves although it has been in some part ever since.
func checkEvents(t *testing.T, seed int64, s *server, events []string) {
	t.Helper()
	highest := map[string]int{}
	for _, e := range events {
		uid, at, _ := strings.Cut(e[1:], "@")
		v, name := version(at), uid[:1]
		if v < highest[name] {
			t.Fatalf("seed %d: %s after %d: %v", seed, e, highest[name], events)
		}
		for e[0] == '-' { // until no part has it
			if now := s.at(v, "")[name]; now == nil || now.uid != uid || now.labels == "" {
				break
			}
			if v++; v > len(s.writes) {
				t.Fatalf("seed %d: %s, but a part has it ever since: %v", seed, e, events)
			}
		}
		highest[name] = v
	}
}
