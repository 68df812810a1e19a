package selections

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

// thing is an object that matches the parts whose letters are in labels. With a "!" there, it cannot be decoded.
type thing struct {
	name, uid, labels string
	version           int
}

func (t *thing) GetNamespace() string       { return "" }
func (t *thing) GetName() string            { return t.name }
func (t *thing) GetUID() types.UID          { return types.UID(t.uid) }
func (t *thing) GetResourceVersion() string { return strconv.Itoa(t.version) }
func (t *thing) String() string             { return fmt.Sprintf("%s@%d", t.uid, t.version) }
func (t *thing) isBad() bool                { return strings.Contains(t.labels, "!") }

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
	bad     map[string]string // the UIDs of versions that cannot be decoded, by name
}

func (p *part) Undecodable(t *thing) bool {
	return p.bad[t.name] == t.uid || p.bad[t.name] != "" && p.have[t.name] != nil
}
func (p *part) Get(key object.Key) (*thing, bool) { t, ok := p.have[key.Name]; return t, ok }
func (p *part) All() iter.Seq[*thing]             { return maps.Values(maps.Clone(p.have)) }
func (p *part) Version() string                   { return strconv.Itoa(p.reached) } // 0 is Unlisted
func (p *part) Frozen() Part[*thing]              { return p }

func version(text string) int {
	v, _ := strconv.Atoi(text)
	return v
}

// step takes in the next write.
func (p *part) step(u *Union[*thing], c *content) { p.steps(u, c, 1) }

// steps takes in the next n writes at once.
func (p *part) steps(u *Union[*thing], c *content, n int) {
	from, changes := p.reached, []Change[*thing](nil)
	for _, w := range p.server.writes[from : from+n] {
		p.reached++
		old := p.have[w.obj.name]
		change := Change[*thing]{Key: object.KeyOf(w.obj), Old: old, Last: w.obj, Final: true}
		has, lost := !w.gone && strings.Contains(w.obj.labels, p.letter), p.bad[w.obj.name] != ""
		if delete(p.bad, w.obj.name); has && w.obj.isBad() {
			p.bad[w.obj.name] = w.obj.uid
			continue // it keeps the good version that it has
		}
		switch {
		case has:
			change.New = w.obj
			p.have[w.obj.name] = w.obj
		case old != nil:
			delete(p.have, w.obj.name)
		case lost:
			change = Change[*thing]{Key: change.Key, Lost: true, At: w.obj.GetResourceVersion()}
		default:
			continue
		}
		changes = append(changes, change)
	}
	u.Update(p, Step[*thing]{From: strconv.Itoa(from), Changes: slices.Values(changes)}, c)
}

// list makes p have what the server has at a version, by a list. It returns whether other parts must list again.
func (p *part) list(u *Union[*thing], c *content, reached int, relisted bool) (restored bool) {
	return p.replace(u, c, p.server.at(reached, p.letter), reached, relisted)
}

// replace makes p have those objects.
func (p *part) replace(u *Union[*thing], c *content, have map[string]*thing, reached int, relisted bool) (restored bool) {
	from, before := p.reached, p.have
	p.have, p.reached = have, reached
	lost := maps.Clone(p.bad)
	clear(p.bad)
	for name, obj := range have {
		if !obj.isBad() {
			continue
		}
		p.bad[name] = obj.uid
		if delete(have, name); before[name] != nil {
			have[name] = before[name]
		}
	}
	var changes []Change[*thing]
	for name, old := range before {
		if have[name] == nil {
			changes = append(changes, Change[*thing]{Key: object.KeyOf(old), Old: old, Last: old})
		}
	}
	for name := range lost {
		if p.bad[name] == "" && have[name] == nil && before[name] == nil {
			changes = append(changes, Change[*thing]{Key: object.Key{Name: name}, Lost: true})
		}
	}
	for name, obj := range have {
		if old := before[name]; old != obj {
			changes = append(changes, Change[*thing]{Key: object.KeyOf(obj), Old: old, New: obj})
		}
	}
	return u.Update(p, Step[*thing]{From: strings.TrimPrefix(strconv.Itoa(from), Unlisted), WentBack: relisted && reached < from, Listed: true, Relisted: relisted,
		Changes: slices.Values(changes)}, c)
}

// claim returns what the union claims of p.
func (p *part) claim(u *Union[*thing]) (claim string) {
	for other, version := range u.Claims {
		if other == p {
			claim = version
		}
	}
	return claim
}

// content is the content of a union, and what happened to it.
type content struct {
	have   map[string]*thing
	events []string
}

func (c *content) Get(key object.Key) (*thing, bool) { t, ok := c.have[key.Name]; return t, ok }
func (c *content) All() iter.Seq[*thing]             { return maps.Values(c.have) }

func (c *content) Put(t *thing) {
	if c.have[t.name] != t {
		c.have[t.name] = t
		c.events = append(c.events, fmt.Sprint("+", t))
	}
}

func (c *content) Remove(key object.Key, last *thing, final bool) {
	if have := c.have[key.Name]; have != nil {
		if !final {
			last = have
		}
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
		p := &part{server: s, letter: string(letter), have: map[string]*thing{}, bad: map[string]string{}}
		u.Add(p, "")
		parts = append(parts, p)
	}
	return u, parts, &content{have: map[string]*thing{}}
}

func newObject(labels string) write { return write{obj: &thing{name: "x", uid: "u", labels: labels}} }
func gone(labels string) write      { return write{&thing{name: "x", uid: "u", labels: labels}, true} }
