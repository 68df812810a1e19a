package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/typedinformer/informer/internal/lease"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// The members and the slots of a claimsModel.
const (
	modelMembers = 3
	modelSlots   = 3
)

// claimsModel is a group whose replicas have only their claims. Its server is a list of the states that the Leases have
// had: each replica sees one of them, and never an earlier one later. A write may land long after it was sent.
type claimsModel struct {
	*testing.T
	random   *rand.Rand
	states   []leases // of the server, the last one at the end
	replicas [modelMembers]modelReplica
	gains    int
	steps    []string
}

// leases are the Leases of all replicas. Those without claims do not exist.
type leases [modelMembers]member

type modelReplica struct {
	claims
	terms   int         // that have ended
	state   lease.State // of the term
	sees    int         // the index of the state that it sees
	created int         // counts its Leases
	sent    *modelWrite // the write under way; nil for none
}

type modelWrite struct {
	member
	terms, created int
}

func (m *claimsModel) step(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

// some returns a copy of set in which about one slot in n is changed.
func (m *claimsModel) some(set slotSet, n int) slotSet {
	changed := make(slotSet, modelSlots)
	for slot := range changed {
		changed[slot] = set[slot] != (m.random.IntN(n) == 0)
	}
	return changed
}

// change adds a state of the server.
func (m *claimsModel) change(i int, to member) {
	next := m.states[len(m.states)-1]
	next[i] = to
	m.states = append(m.states, next)
}

// send composes the Lease of a replica, unless a write is under way or its calls have not returned.
func (m *claimsModel) send(i int) {
	r := &m.replicas[i]
	if r.sent != nil || r.state == lease.Draining {
		return
	}
	r.sent = &modelWrite{member{claims: r.set(), generation: r.generation}, r.terms, r.created}
	m.step("%d sends generation %d with %v", i, r.generation, r.sent.claims)
}

// land executes a write, unless the Lease was deleted since it was sent. Its replica then creates another.
func (m *claimsModel) land(i int) {
	r := &m.replicas[i]
	if r.sent == nil {
		return
	}
	sent := r.sent
	r.sent = nil
	if sent.created != r.created {
		return
	}
	m.step("the write of %d lands", i)
	m.change(i, sent.member)
	if r.state != lease.Draining && sent.terms == r.terms {
		r.state = lease.Held
	}
}

// look lets a replica see a newer state of the server and advance. Plans of the replicas need not agree.
func (m *claimsModel) look(i int) {
	r := &m.replicas[i]
	r.sees += m.random.IntN(len(m.states) - r.sees)
	seen := m.states[r.sees]
	g := group{own: -1, planned: make([]int, modelSlots)}
	for j, other := range seen {
		if other.claims == nil {
			continue
		}
		if j == i {
			g.own = len(g.members)
		}
		g.members = append(g.members, other)
	}
	if g.own < 0 || r.state != lease.Held {
		return
	}
	for slot := range g.planned {
		g.planned[slot] = m.random.IntN(len(g.members))
	}
	moves := r.advance(&g, m.some(r.desired, 12), m.some(setOf(modelSlots, 0, 1, 2), 4))
	m.gains += len(moves.gaining)
	m.step("%d sees state %d and has %v", i, r.sees, r.phases)
}

// settle completes gains and releases of a replica, or some of them.
func (m *claimsModel) settle(i int) {
	r := &m.replicas[i]
	if r.state != lease.Held {
		return
	}
	var gained []int
	for slot, p := range r.phases {
		if p == gaining {
			gained = append(gained, slot)
		} else if p == releasing && m.random.IntN(2) == 0 {
			r.released(slot)
		}
	}
	r.gained(gained)
	m.step("%d has %v", i, r.phases)
}

// lose takes the lease from a replica: its calls end later.
func (m *claimsModel) lose(i int) {
	if r := &m.replicas[i]; r.state == lease.Held {
		r.state = lease.Draining
		m.step("%d loses its lease", i)
	}
}

// drain ends the calls of a replica that has lost its lease.
func (m *claimsModel) drain(i int) {
	if r := &m.replicas[i]; r.state == lease.Draining {
		r.clear()
		r.state, r.terms = lease.Vacant, r.terms+1
		m.step("the calls of %d have returned", i)
	}
}

// reap deletes the Lease of a replica that reconciles nothing.
func (m *claimsModel) reap(i int) {
	if r := &m.replicas[i]; r.state == lease.Vacant && m.states[len(m.states)-1][i].claims != nil {
		r.created++
		m.change(i, member{})
		m.step("the Lease of %d is deleted", i)
	}
}

// check fails the test if two replicas may reconcile keys of the same slot.
func (m *claimsModel) check() {
	for slot := range modelSlots {
		var has []int
		for i, r := range m.replicas {
			if p := r.phases[slot]; p == gaining || p == owned || p == releasing {
				has = append(has, i)
			}
		}
		if len(has) > 1 {
			m.Fatalf("slot %d belongs to %d:\n%s", slot, has, m.steps[max(0, len(m.steps)-40):])
		}
	}
}

// Whatever the plans say, however late writes land and Leases are seen, and whenever leases are lost: at most one
// replica has a slot in the phases gaining to releasing.
//
// Guarantees: S3
func TestClaimsExcludeEachOther(t *testing.T) {
	gains := 0
	for seed := range uint64(testkit.Rounds(60, 600)) {
		m := &claimsModel{T: t, random: rand.New(rand.NewPCG(seed, 1)), states: make([]leases, 1)}
		for i := range m.replicas {
			m.replicas[i].claims = newClaims(modelSlots)
			m.replicas[i].desired = setOf(modelSlots)
		}
		for range 1000 {
			i := m.random.IntN(modelMembers)
			switch m.random.IntN(32) {
			case 0:
				m.lose(i)
			case 1, 2:
				m.drain(i)
			case 3:
				m.reap(i)
			case 4, 5, 6, 7:
				m.settle(i)
			case 8, 9, 10, 11, 12:
				m.send(i)
			case 13, 14, 15, 16, 17:
				m.land(i)
			default:
				m.look(i)
			}
			if m.check(); m.Failed() {
				return
			}
		}
		gains += m.gains
	}
	if gains < 100 {
		t.Errorf("only %d slots were gained", gains)
	}
	t.Logf("%d slots were gained", gains)
}

// A replica that gains slots gains no others meanwhile, and a slot is claimed only if it is desired and held.
func TestClaimsAdvance(t *testing.T) {
	c := newClaims(4)
	g := &group{members: []member{{claims: setOf(4)}}, planned: make([]int, 4)}
	advance := func(desired, held string, want ...phase) {
		t.Helper()
		m := c.advance(g, must(parseSlots(desired, 4)), must(parseSlots(held, 4)))
		if !slices.Equal(c.phases, want) {
			t.Fatalf("the phases are %v, want %v", c.phases, want)
		}
		if m.written {
			g.members[0].claims, g.members[0].generation = c.set(), c.generation
		}
	}
	advance("0-2", "0,3", claimed, absent, absent, absent)
	advance("0-2", "0-1", gaining, claimed, absent, absent)
	advance("0-2", "0-2", gaining, claimed, claimed, absent) // one gain at a time
	c.gained([]int{0})
	advance("0,2", "0-2", owned, absent, gaining, absent) // 1 is no longer desired
	if c.settled() || c.none() || c.released(0) || c.count(owned) != 1 {
		t.Errorf("the claims are %+v", c)
	}
	c.gained([]int{2})
	if !c.settled() {
		t.Errorf("the claims are %+v", c)
	}
}
