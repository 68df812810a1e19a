package selections

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// In whichever order the parts learn of writes, an object that some part should have never leaves, no deleted object
// returns, and no part claims what the content does not show. In the end, the union has the objects that the parts
// should have, also after refusals, restores of the server, and versions that cannot be decoded.
// Guarantees: U6, U7, U8, U9
func TestUnionModel(t *testing.T) {
	for seed := range int64(testkit.Rounds(600, 6000)) {
		m := model{T: t, seed: seed, random: rand.New(rand.NewSource(seed)), uids: map[string]int{},
			restores: seed%3 == 0, refuses: seed%2 == 0, lists: seed%5 < 3, fails: seed%7 < 3}
		m.u, m.parts, m.c = newUnion("abc")
		m.s = m.parts[0].server
		m.refused = map[*part]bool{}
		m.run()
		if t.Failed() {
			return
		}
	}
}

// model is a union and what its parts should have.
type model struct {
	*testing.T
	seed              int64
	random            *rand.Rand
	u                 *Union[*thing]
	parts             []*part
	c                 *content
	s                 *server
	uids              map[string]int
	refused           map[*part]bool
	restores, refuses bool
	lists             bool // all parts begin with a list
	fails             bool // some versions cannot be decoded
	restored          bool
	missed            bool // by a part that was refused
}

// write makes the server write.
func (m *model) write() {
	name := string(rune('u' + m.random.Intn(4)))
	now := m.s.at(len(m.s.writes), "")[name]
	obj := &thing{name: name, version: len(m.s.writes) + 1}
	for _, letter := range "abc" {
		if m.random.Intn(3) == 0 {
			obj.labels += string(letter)
		}
	}
	if obj.labels != "" && m.fails && m.random.Intn(3) == 0 {
		obj.labels += "!"
	}
	w := write{obj: obj, gone: now != nil && m.random.Intn(3) == 0}
	if now == nil {
		m.uids[name]++
	}
	obj.uid = name + strconv.Itoa(m.uids[name])
	m.s.writes = append(m.s.writes, w)
}

// learn makes p take in a change, if there is one.
func (m *model) learn(p *part) {
	n := len(m.s.writes) - p.reached
	switch {
	case n < 0: // the server was restored
		p.list(m.u, m.c, len(m.s.writes), true)
	case n == 0 || m.refused[p]:
	case m.random.Intn(8) == 0 || p.reached == 0 && m.lists:
		p.list(m.u, m.c, len(m.s.writes)-m.random.Intn(n), false)
	default:
		p.steps(m.u, m.c, 1+m.random.Intn(n))
	}
	m.relist()
	m.check()
}

// relist makes those list again that follow a server that was restored.
func (m *model) relist() {
	for behind := m.behind(); len(behind) > 0; behind = m.behind() {
		p := behind[m.random.Intn(len(behind))]
		if m.refused[p] {
			return
		}
		p.list(m.u, m.c, len(m.s.writes), true)
	}
}

// behind returns the parts that have to list again.
func (m *model) behind() (behind []*part) {
	for _, p := range m.parts {
		if m.u.IsBehind(p) {
			behind = append(behind, p)
		}
	}
	return behind
}

// refuse makes the server refuse a part, or not any more.
func (m *model) refuse() {
	p := m.parts[m.random.Intn(3)]
	if m.missed = true; m.refused[p] {
		delete(m.refused, p)
	} else {
		m.refused[p] = true
		m.u.Refuse(p, m.c)
	}
}

// restore restores the server to an earlier state.
func (m *model) restore() {
	m.restored = true
	m.s.writes = slices.Clone(m.s.writes[:m.random.Intn(len(m.s.writes)+1)])
	for name := range m.uids {
		m.uids[name] += 100 // the names of later objects
	}
	for _, p := range m.parts { // what is not ahead of the server may have another past
		if p.reached > len(m.s.writes) && !m.refused[p] {
			m.learn(p)
			return
		}
	}
}

// answer asks and answers a question.
func (m *model) answer() {
	q := m.u.Questions(9)
	if len(q) == 0 || version(q[0].Version) > len(m.s.writes) {
		return
	}
	written := len(m.s.writes) - m.random.Intn(len(m.s.writes)-version(q[0].Version)+1)
	if now := m.s.at(written, "")[q[0].Key.Name]; now == nil || now.labels == "" {
		m.u.Lacked(q[0], strconv.Itoa(written), m.c)
	}
}

// check checks the claims of the parts, and the invariant.
func (m *model) check() {
	copied, ok := m.u.Copy()
	if ok {
		copied.Compare(m.c, func(key object.Key, have, want *thing) {
			m.Fatalf("seed %d: %s is %v, want %v, after %v", m.seed, key.Name, have, want, m.c.events)
		})
	}
	if m.restored || m.missed {
		return
	}
	claim := len(m.s.writes)
	for _, p := range m.parts {
		claim = min(claim, version(p.claim(m.u)))
	}
	for name := range m.uids {
		shown := false
		for written := claim; written <= len(m.s.writes) && !shown; written++ {
			now := m.s.at(written, "")[name]
			if now != nil && now.labels == "" {
				now = nil
			}
			have := m.c.have[name]
			shown = have == now || now != nil && now.isBad() && (have == nil || have.version < now.version)
		}
		if !shown {
			m.Fatalf("seed %d: version %d is claimed, but %s is %v", m.seed, claim, name, m.c.have[name])
		}
	}
}

func (m *model) run() {
	for range 3 + m.random.Intn(30) {
		m.write()
		for range m.random.Intn(3) {
			m.learn(m.parts[m.random.Intn(3)])
		}
		switch n := m.random.Intn(8); {
		case n < 2:
			m.answer()
		case n == 2 && m.refuses:
			m.refuse()
		case n == 3 && m.restores && m.random.Intn(3) == 0:
			m.restore()
		}
		m.check()
	}
	clear(m.refused)
	for range 3 { // a part that follows a restored server makes others list again
		for _, p := range m.parts {
			if m.restored { // an audit
				p.list(m.u, m.c, len(m.s.writes), true)
			}
			for p.reached != len(m.s.writes) {
				m.learn(p)
			}
		}
		for range 4 {
			m.write()
		}
	}
	for _, now := range m.s.at(len(m.s.writes), "") {
		if now.isBad() {
			good := &thing{name: now.name, uid: now.uid, labels: strings.TrimSuffix(now.labels, "!"), version: len(m.s.writes) + 1}
			m.s.writes = append(m.s.writes, write{obj: good})
		}
	}
	for _, p := range m.parts {
		p.steps(m.u, m.c, len(m.s.writes)-p.reached)
	}
	want := map[string]*thing{}
	for _, p := range m.parts {
		maps.Copy(want, m.s.at(len(m.s.writes), p.letter))
	}
	if !maps.Equal(m.c.have, want) || len(m.u.leaves) != 0 {
		m.Fatalf("seed %d: has %v, want %v; %d leaves", m.seed, m.c.have, want, len(m.u.leaves))
	}
	if !m.restored {
		m.checkEvents()
	}
}

// checkEvents fails if the versions of an object go back, or if it leaves although it has been in some part ever since.
func (m *model) checkEvents() {
	highest := map[string]int{}
	for _, e := range m.c.events {
		uid, text, _ := strings.Cut(e[1:], "@")
		v, name := version(text), uid[:1]
		if v < highest[name] || e[0] == '+' && v == highest[name] && !m.missed {
			m.Fatalf("seed %d: %s after %d: %v", m.seed, e, highest[name], m.c.events)
		}
		for e[0] == '-' && !m.missed { // until no part has it
			if now := m.s.at(v, "")[name]; now == nil || now.uid != uid || now.labels == "" {
				break
			}
			if v++; v > len(m.s.writes) {
				m.Fatalf("seed %d: %s, but a part has it ever since: %v", m.seed, e, fmt.Sprint(m.c.events))
			}
		}
		if highest[name] = v; e[0] == '-' && m.missed && m.fails {
			highest[name] = 0 // the last good version comes again when the part is no longer refused
		}
	}
}
