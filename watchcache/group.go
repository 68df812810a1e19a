package watchcache

import (
	"sync/atomic"

	"github.com/typedinformer/informer"
)

// groupKey names the events that a group of watchers waits for: those of one object, of one value of a field, of one
// namespace or, for the zero value, all events. It is as narrow as the watchers' selectors allow. A watcher still has
// to match each event with its own selector.
type groupKey struct {
	namespace string // empty for a field other than metadata.name
	field     string // empty for a whole namespace, and for all
	value     string
}

// namedField is the field of a groupKey for one object.
const namedField = "metadata.name"

// group is the set of watchers with one groupKey. An event wakes only the groups that it concerns, so a watcher of one
// node costs nothing while the pods of other nodes change.
type group struct {
	key      groupKey
	watchers int                   // protected by Cache.mu
	alarm    atomic.Pointer[alarm] // of the watchers that have seen all events; nil if nobody waits
}

// alarm wakes the watchers of a group.
type alarm struct {
	ringing chan struct{} // closed by the next event that concerns the group
	rung    bool          // protected by Cache.mu, as is seq
	seq     uint64        // the sequence number of that event
}

// wait returns the alarm of the group's next event. The caller must hold Cache.mu, for reading at least.
func (g *group) wait() *alarm {
	for {
		if a := g.alarm.Load(); a != nil {
			return a
		}
		g.alarm.CompareAndSwap(nil, &alarm{ringing: make(chan struct{})})
	}
}

// ringLocked wakes the watchers that wait. The next event that concerns them has sequence number seq.
func (g *group) ringLocked(seq uint64) {
	if a := g.alarm.Swap(nil); a != nil {
		a.rung, a.seq = true, seq
		close(a.ringing)
	}
}

// concerns reports whether a watcher of the group may have to see the event.
func (k groupKey) concerns(key informer.Key, values []fieldChange) bool {
	switch k.field {
	case "":
		return k.namespace == "" || k.namespace == key.Namespace
	case namedField:
		return k.namespace == key.Namespace && k.value == key.Name
	}
	for i := range values {
		if v := &values[i]; v.field == k.field {
			return v.before == k.value || v.after == k.value
		}
	}
	return true // nobody selected by this field at the time of the event
}

// fieldChange has the values of a field before and after an event. For an added object, both are the new one.
type fieldChange struct{ field, before, after string }

// groups are the groups of the open watches.
type groups struct {
	byKey  map[groupKey]*group
	fields map[string]int // the number of groups of each field but namedField
}

func newGroups() groups { return groups{byKey: map[groupKey]*group{}, fields: map[string]int{}} }

// joinLocked adds a watcher to a group.
func (gs *groups) joinLocked(key groupKey) *group {
	g, ok := gs.byKey[key]
	if !ok {
		g = &group{key: key}
		gs.byKey[key] = g
		if key.field != "" && key.field != namedField {
			gs.fields[key.field]++
		}
	}
	g.watchers++
	return g
}

// leaveLocked removes a watcher from its group.
func (gs *groups) leaveLocked(g *group) {
	if g.watchers--; g.watchers > 0 {
		return
	}
	delete(gs.byKey, g.key)
	if _, ok := gs.fields[g.key.field]; ok {
		if gs.fields[g.key.field]--; gs.fields[g.key.field] == 0 {
			delete(gs.fields, g.key.field)
		}
	}
}

// ringLocked wakes the groups that an event with this sequence number concerns.
func (gs *groups) ringLocked(seq uint64, key informer.Key, values []fieldChange) {
	ring := func(k groupKey) {
		if g, ok := gs.byKey[k]; ok {
			g.ringLocked(seq)
		}
	}
	ring(groupKey{})
	if key.Namespace != "" {
		ring(groupKey{namespace: key.Namespace})
	}
	ring(groupKey{namespace: key.Namespace, field: namedField, value: key.Name})
	for _, v := range values {
		ring(groupKey{field: v.field, value: v.before})
		ring(groupKey{field: v.field, value: v.after})
	}
}

// ringAllLocked wakes all watchers. The next event has sequence number seq.
func (gs *groups) ringAllLocked(seq uint64) {
	for _, g := range gs.byKey {
		g.ringLocked(seq)
	}
}
