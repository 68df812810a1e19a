package shard

import (
	"slices"
	"time"
)

// phase is the state of one slot in a replica.
//
//	absent -- desired, and held --> claimed -- no other Lease claims it --> gaining -- keys added --> owned
//	  ^                                |                                                                |
//	  +------- no longer desired ------+                                                                |
//	  +-------- calls returned -------- releasing <-------- another replica should have it, and claims it
//
// A lost lease leads from every phase to absent, when all calls have returned. The Lease claims the slot in all phases
// except absent.
type phase uint8

const (
	absent    phase = iota
	claimed         // the Lease claims the slot, or soon does
	gaining         // no other replica has it. The controllers add its keys
	owned           // the controllers reconcile its keys
	releasing       // no call of Reconcile begins. Those under way have not returned
)

// claims is the machine of the slots of one replica: the phase of each of them, and so what its Lease claims.
//
// Its invariant is that at most one replica of the group has a slot in the phases gaining to releasing. A replica
// enters gaining only after it has seen its own Lease with the claim, at a resource version at which no other Lease
// claims the slot. Of two replicas that claim a slot, the one that wrote its claim later sees the claim of the other.
// So at most one of them enters gaining, and the other waits until that claim is gone. A claim ends in two ways. Either
// the replica itself writes its Lease without the claim, after all calls of Reconcile have returned. Or another replica
// deletes the Lease, if it has not changed for LeaseDuration. By then the replica has lost the lease by its own clocks,
// and its calls have returned or its process has ended.
//
// claims starts nothing and waits for nothing. Its methods change the phases, and the session does what follows from
// that. The lock of the session protects it.
type claims struct {
	desired    slotSet // the slots that the replica should have, by the last look at the Leases; nil before the first
	phases     []phase
	since      []uint64          // for each slot that is claimed, the first generation that claims it
	releases   map[int]time.Time // for each slot in the phase releasing, when that began
	stuck      time.Time         // when a call in such a slot got stuck; zero if none is
	generation uint64            // counts the changes of what the Lease says
}

func newClaims(slots int) claims {
	return claims{phases: make([]phase, slots), since: make([]uint64, slots), releases: map[int]time.Time{}}
}

// moves are the slots that change their phases in one step.
type moves struct {
	gaining   []int // their keys must be added now
	releasing []int // their calls must return now
	written   bool  // the Lease must be written, because it claims other slots
}

// advance changes the phases after a look at the Leases. g has the Lease of this replica. held are the slots whose
// objects the informers hold.
func (c *claims) advance(g *group, desired, held slotSet) (m moves) {
	c.desired = desired
	own := &g.members[g.own]
	// each gain visits all objects, so slots that become free during one gain are gained together in the next
	busy := c.count(gaining) > 0
	for slot, p := range c.phases {
		switch {
		case p == absent && desired[slot] && held[slot]:
			c.phases[slot], c.since[slot], m.written = claimed, c.generation+1, true // the next generation claims it
		case p == claimed && !desired[slot]:
			c.phases[slot], m.written = absent, true
		case p == claimed && !busy && own.generation >= c.since[slot] && own.claimed(slot) && g.free(slot):
			c.phases[slot] = gaining
			m.gaining = append(m.gaining, slot)
		case p == owned && g.heir(slot):
			c.phases[slot], c.releases[slot] = releasing, time.Now()
			m.releasing = append(m.releasing, slot)
		}
	}
	if m.written {
		c.generation++
	}
	return m
}

// gained records that all keys of slots that were gaining have been added.
func (c *claims) gained(slots []int) {
	for _, slot := range slots {
		c.phases[slot] = owned
	}
}

// released records that all calls in a slot have returned, and gives up the claim. It returns false if the slot is not
// being released.
func (c *claims) released(slot int) bool {
	if c.phases[slot] != releasing {
		return false
	}
	c.phases[slot] = absent
	delete(c.releases, slot)
	c.generation++
	return true
}

// clear gives up all claims at once. All calls have returned.
func (c *claims) clear() {
	clear(c.phases)
	clear(c.releases)
	c.stuck = time.Time{}
	c.generation++
}

// set returns the slots that the Lease claims.
func (c *claims) set() slotSet {
	set := make(slotSet, len(c.phases))
	for slot, p := range c.phases {
		set[slot] = p != absent
	}
	return set
}

// count returns the number of slots in a phase.
func (c *claims) count(p phase) (n int) {
	for _, q := range c.phases {
		if q == p {
			n++
		}
	}
	return n
}

// none reports whether the Lease claims no slot.
func (c *claims) none() bool {
	return !slices.ContainsFunc(c.phases, func(p phase) bool { return p != absent })
}

// settled reports whether no slot is moving: the replica owns what it should have, and nothing else.
func (c *claims) settled() bool {
	for slot, p := range c.phases {
		if !(p == absent && !c.desired[slot] || p == owned && c.desired[slot]) {
			return false
		}
	}
	return true
}
