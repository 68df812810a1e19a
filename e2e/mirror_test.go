package e2e

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
)

// compared is the type of objects that a test compares with ==.
type compared interface {
	comparable
	informer.Object
}

// mirror is a handler that rebuilds the world from its events only. It records a fault when an event breaks the chain of a
// key, goes back, or repeats.
type mirror[T compared] struct {
	busy func() // called with each event, if not nil

	mu      sync.Mutex // protects the fields below
	world   map[informer.Key]T
	latest  map[informer.Key]uint64 // the last version, including a deletion's
	faults  []string
	events  map[informer.EventType]int
	noted   map[mark]int // recorded if not nil
	waiting []goal
}

// mark identifies a change for all followers: a version by its number, a deletion by the deleted object.
type mark struct {
	version uint64    // 0 for a deletion
	deleted types.UID // "" for a version
}

// goal is a version that a test waits for.
type goal struct {
	key     informer.Key
	version uint64
	there   chan struct{}
}

func newMirror[T compared]() *mirror[T] {
	return &mirror[T]{world: map[informer.Key]T{}, latest: map[informer.Key]uint64{}, events: map[informer.EventType]int{}}
}

// versionOf returns an object's resource version as a number, or 0 if it is not one.
func versionOf(obj interface{ GetResourceVersion() string }) uint64 {
	return parseVersion(obj.GetResourceVersion())
}

func parseVersion(resourceVersion string) uint64 {
	n, _ := strconv.ParseUint(resourceVersion, 10, 64)
	return n
}

func (m *mirror[T]) fault(format string, args ...any) {
	if len(m.faults) < 20 {
		m.faults = append(m.faults, fmt.Sprintf(format, args...))
	}
}

func (m *mirror[T]) OnAdd(obj T, initial bool) {
	m.begin(informer.Added)
	defer m.mu.Unlock()
	if old, there := m.world[informer.KeyOf(obj)]; there {
		m.fault("%s was added at %s, but exists at %s", informer.KeyOf(obj), obj.GetResourceVersion(), old.GetResourceVersion())
	}
	m.set(obj)
}

func (m *mirror[T]) OnUpdate(old, new T) {
	m.begin(informer.Updated)
	defer m.mu.Unlock()
	have, there := m.world[informer.KeyOf(new)]
	switch {
	case !there:
		m.fault("%s was updated from %s, but does not exist", informer.KeyOf(new), old.GetResourceVersion())
	case have != old: // the same pointer
		m.fault("%s was updated from %s, but exists at %s", informer.KeyOf(new), old.GetResourceVersion(), have.GetResourceVersion())
	case new.GetUID() != old.GetUID():
		m.fault("%s was updated from %s to %s, another object", informer.KeyOf(new), old.GetUID(), new.GetUID())
	}
	m.set(new)
}

func (m *mirror[T]) OnDelete(last T, final bool) {
	m.begin(informer.Deleted)
	defer m.mu.Unlock()
	key := informer.KeyOf(last)
	have, there := m.world[key]
	switch {
	case !there:
		m.fault("%s was deleted at %s, but does not exist", key, last.GetResourceVersion())
	case have.GetUID() != last.GetUID() || final && versionOf(last) <= versionOf(have) || !final && have != last:
		m.fault("%s was deleted at %s, final=%v, but exists at %s", key, last.GetResourceVersion(), final, have.GetResourceVersion())
	}
	delete(m.world, key)
	m.latest[key] = versionOf(last)
	m.note(mark{deleted: last.GetUID()})
}

func (m *mirror[T]) begin(e informer.EventType) {
	if m.busy != nil {
		m.busy()
	}
	m.mu.Lock()
	m.events[e]++
}

// set records obj, which must be newer than all earlier versions of its key.
func (m *mirror[T]) set(obj T) {
	key, version := informer.KeyOf(obj), versionOf(obj)
	if before := m.latest[key]; version <= before {
		m.fault("%s arrived at %d after %d", key, version, before)
	}
	m.world[key], m.latest[key] = obj, version
	m.note(mark{version: version})
	m.waiting = reached(m.waiting, key, version)
}

func (m *mirror[T]) note(what mark) {
	if m.noted != nil {
		m.noted[what]++
	}
}

// wait returns a channel that is closed when the handler has received key at that version or a newer one.
func (m *mirror[T]) wait(key informer.Key, version uint64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := goal{key, version, make(chan struct{})}
	m.waiting = append(m.waiting, g)
	if obj, there := m.world[key]; there {
		m.waiting = reached(m.waiting, key, versionOf(obj))
	}
	return g.there
}

// reached closes the goals that key meets at version, and returns the others.
func reached(goals []goal, key informer.Key, version uint64) []goal {
	var left []goal
	for _, g := range goals {
		if g.key == key && g.version <= version {
			close(g.there)
		} else {
			left = append(left, g)
		}
	}
	return left
}

func (m *mirror[T]) shrink() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.world, m.latest = rebuilt(m.world), rebuilt(m.latest)
}

// rebuilt returns a copy of m without spare room, since maps do not shrink.
func rebuilt[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	maps.Copy(c, m)
	return c
}

// tape is a sink, so no changes fold: each arrives once and in order, except for those that a list covers. The writer also
// reports its writes, and tape keeps changes until both sides have reported them.
type tape[T informer.Object] struct {
	ours map[string]bool // the namespaces whose writes are reported

	mu       sync.Mutex // protects the fields below
	version  uint64
	held     map[types.UID]bool
	came     map[mark]bool   // arrived, but not yet reported by the writer
	expected map[mark]commit // reported, but not yet arrived
	spans    [][2]uint64     // versions that lists cover: after the first, up to the second
	deltas   map[informer.DeltaType]int
	faults   []string
	waiting  []goal
}

func newTape[T informer.Object](namespaces []string) *tape[T] {
	t := &tape[T]{
		ours: map[string]bool{}, held: map[types.UID]bool{}, came: map[mark]bool{},
		expected: map[mark]commit{}, deltas: map[informer.DeltaType]int{},
	}
	for _, namespace := range namespaces {
		t.ours[namespace] = true
	}
	return t
}

func (t *tape[T]) fault(format string, args ...any) {
	if len(t.faults) < 20 {
		t.faults = append(t.faults, fmt.Sprintf(format, args...))
	}
}

// Put implements informer.Sink.
func (t *tape[T]) Put(_ context.Context, d informer.Delta[T]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deltas[d.Type]++
	version := parseVersion(d.ResourceVersion)
	if again := d.Type == informer.Replaced || d.Type == informer.Bookmarked; version < t.version || version == t.version && !again {
		t.fault("%s at %d came after %d", d.Type, version, t.version)
	}
	switch d.Type {
	case informer.Replaced:
		t.replaced(d.Items, version)
	case informer.Upserted:
		t.held[d.Object.GetUID()] = true
		t.come(d.Object, mark{version: version})
	case informer.Removed:
		delete(t.held, d.Object.GetUID())
		t.come(d.Object, mark{deleted: d.Object.GetUID()})
	}
	t.version = version
	if d.Type == informer.Upserted {
		t.waiting = reached(t.waiting, informer.KeyOf(d.Object), version)
	}
	for _, obj := range d.Items {
		if len(t.waiting) > 0 {
			t.waiting = reached(t.waiting, informer.KeyOf(obj), versionOf(obj))
		}
	}
	return nil
}

func (t *tape[T]) come(obj T, what mark) {
	switch _, expected := t.expected[what]; {
	case !t.ours[obj.GetNamespace()]:
	case expected:
		delete(t.expected, what)
	case t.came[what]:
		t.fault("%s at %s arrived twice", informer.KeyOf(obj), obj.GetResourceVersion())
	default:
		t.came[what] = true
	}
}

func (t *tape[T]) replaced(items []T, version uint64) {
	clear(t.held)
	for _, obj := range items {
		t.held[obj.GetUID()] = true
	}
	t.spans = append(t.spans, [2]uint64{t.version, version})
	for what, c := range t.expected {
		if t.covered(c) {
			delete(t.expected, what)
		}
	}
}

// covered reports whether a list covers c, so that no event is needed.
func (t *tape[T]) covered(c commit) bool {
	if c.version == 0 { // its version is unknown, only the one before
		last := t.spans[len(t.spans)-1]
		return c.before <= last[1] && !t.held[c.uid]
	}
	for _, span := range t.spans {
		if span[0] < c.version && c.version <= span[1] {
			return true
		}
	}
	return false
}

// expect reports an acknowledged write.
func (t *tape[T]) expect(c commit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := c.mark()
	switch {
	case t.came[what]:
		delete(t.came, what)
	case len(t.spans) > 0 && t.covered(c):
	default:
		t.expected[what] = c
	}
}

// wait is like that of mirror.
func (t *tape[T]) wait(key informer.Key, version uint64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := goal{key, version, make(chan struct{})}
	if t.version >= version {
		close(g.there)
	} else {
		t.waiting = append(t.waiting, g)
	}
	return g.there
}

// check returns the faults and the missing writes. It must follow a wait for the last write.
func (t *tape[T]) check() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.expected {
		t.fault("never arrived: %+v", c)
	}
	for what := range t.came {
		t.fault("arrived without a write, or repeatedly: %+v", what)
	}
	if len(t.expected) > 0 {
		t.fault("%d writes never arrived", len(t.expected))
	}
	return t.faults
}

func (t *tape[T]) shrink() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held, t.came, t.expected = rebuilt(t.held), rebuilt(t.came), rebuilt(t.expected)
}
