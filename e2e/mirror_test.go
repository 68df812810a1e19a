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

// mirror is a handler that rebuilds the world from what it is told alone, and finds fault with it: with what breaks the
// chain of a key, goes back, or comes twice.
type mirror[T informer.Object] struct {
	busy func() // called with each event, if not nil

	mu      sync.Mutex // protects the fields below
	world   map[informer.Key]T
	latest  map[informer.Key]uint64 // the version that was given last, be it a deletion's
	faults  []string
	events  map[informer.EventType]int
	noted   map[mark]int // while not nil
	waiting []goal
}

// mark is how a change is known wherever it is told: a version by its number, a deletion by what is deleted.
type mark struct {
	version uint64    // 0 for a deletion
	deleted types.UID // "" for a version
}

// goal is a version that is waited for.
type goal struct {
	key     informer.Key
	version uint64
	there   chan struct{}
}

func newMirror[T informer.Object]() *mirror[T] {
	return &mirror[T]{world: map[informer.Key]T{}, latest: map[informer.Key]uint64{}, events: map[informer.EventType]int{}}
}

// versionOf returns an object's resource version as a number, 0 for one that is none.
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
		m.fault("%s was added at %s and is there at %s", informer.KeyOf(obj), obj.GetResourceVersion(), old.GetResourceVersion())
	}
	m.set(obj)
}

func (m *mirror[T]) OnUpdate(old, new T) {
	m.begin(informer.Updated)
	defer m.mu.Unlock()
	have, there := m.world[informer.KeyOf(new)]
	switch {
	case !there:
		m.fault("%s was updated from %s and is not there", informer.KeyOf(new), old.GetResourceVersion())
	case have != old: // that very object
		m.fault("%s was updated from %s and is there at %s", informer.KeyOf(new), old.GetResourceVersion(), have.GetResourceVersion())
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
		m.fault("%s was deleted at %s and is not there", key, last.GetResourceVersion())
	case have.GetUID() != last.GetUID() || final && versionOf(last) <= versionOf(have) || !final && have != last:
		m.fault("%s was deleted at %s, final=%v, and is there at %s", key, last.GetResourceVersion(), final, have.GetResourceVersion())
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

// set notes obj, which is newer than whatever was told of its key before.
func (m *mirror[T]) set(obj T) {
	key, version := informer.KeyOf(obj), versionOf(obj)
	if before := m.latest[key]; version <= before {
		m.fault("%s was given at %d after %d", key, version, before)
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

// wait returns what is closed when the handler has been told of key at that version or a newer one.
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

// reached closes the goals that are met by key at version, and returns the others.
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

// rebuilt returns a copy of m that has room for no more than it holds: maps do not shrink.
func rebuilt[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	maps.Copy(c, m)
	return c
}

// tape is a sink, where nothing is folded: each change comes, once and in order, but for those whose place a list takes.
// It is told of what was written, and keeps what it was not yet told by both sides.
type tape[T informer.Object] struct {
	ours map[string]bool // the namespaces whose writes it is told of

	mu       sync.Mutex // protects the fields below
	at       uint64
	held     map[types.UID]bool
	came     map[mark]bool   // and was not yet acknowledged to the writer
	expected map[mark]commit // and has not come
	spans    [][2]uint64     // what lists took the place of: everything after the first, up to the second
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
	if again := d.Type == informer.Replaced || d.Type == informer.Bookmarked; version < t.at || version == t.at && !again {
		t.fault("%s at %d came after %d", d.Type, version, t.at)
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
	t.at = version
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
		t.fault("%s at %s came twice", informer.KeyOf(obj), obj.GetResourceVersion())
	default:
		t.came[what] = true
	}
}

func (t *tape[T]) replaced(items []T, version uint64) {
	clear(t.held)
	for _, obj := range items {
		t.held[obj.GetUID()] = true
	}
	t.spans = append(t.spans, [2]uint64{t.at, version})
	for what, c := range t.expected {
		if t.covered(c) {
			delete(t.expected, what)
		}
	}
}

// covered says whether a list has told of c rather than an event.
func (t *tape[T]) covered(c commit) bool {
	if c.version == 0 { // its version is not known, only that of the state before
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

// expect tells of a write that was acknowledged.
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

// wait is as that of mirror.
func (t *tape[T]) wait(key informer.Key, version uint64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := goal{key, version, make(chan struct{})}
	if t.at >= version {
		close(g.there)
	} else {
		t.waiting = append(t.waiting, g)
	}
	return g.there
}

// check returns what was wrong, and what is missing. Only after a wait for the last write.
func (t *tape[T]) check() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.expected {
		t.fault("never came: %+v", c)
	}
	for what := range t.came {
		t.fault("came, and nobody has written it, or came before: %+v", what)
	}
	if len(t.expected) > 0 {
		t.fault("%d writes never came", len(t.expected))
	}
	return t.faults
}

func (t *tape[T]) shrink() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held, t.came, t.expected = rebuilt(t.held), rebuilt(t.came), rebuilt(t.expected)
}
