package deliver

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

// thing is an object with a version. Things of one name and another id are different objects.
type thing struct {
	name        string
	id, version int
}

func (t *thing) GetNamespace() string { return "" }

func (t *thing) GetName() string { return t.name }

func (t *thing) GetUID() types.UID { return types.UID(strconv.Itoa(t.id)) }

func (t *thing) GetResourceVersion() string { return strconv.Itoa(t.version) }

// world is a store of things, by name. Only one goroutine writes to it.
type world struct {
	mu     sync.Mutex
	things map[string]*thing
}

// view is a copy of the world.
type view []*thing

func (v view) Len() int { return len(v) }

func (v view) All() iter.Seq[*thing] { return slices.Values(v) }

func (v view) From(key object.Key) iter.Seq[*thing] {
	return func(yield func(*thing) bool) {
		for _, t := range v {
			if t.name >= key.Name && !yield(t) {
				return
			}
		}
	}
}

func (w *world) view() View[*thing] {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := view(slices.Collect(maps.Values(w.things)))
	slices.SortFunc(v, func(a, b *thing) int { return strings.Compare(a.name, b.name) })
	return v
}

// set stores t under its name, or removes the thing of that name if t has no version. It returns the change.
func (w *world) set(t *thing) Change[*thing] {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.things == nil {
		w.things = map[string]*thing{}
	}
	old := w.things[t.name]
	c := Change[*thing]{Key: object.KeyOf(t), Old: old}
	if t.version == 0 {
		delete(w.things, t.name)
		c.Deleted, c.Last = true, old
		return c
	}
	w.things[t.name], c.New = t, t
	c.Added = old == nil || old.id != t.id
	if old != nil && c.Added {
		c.Deleted, c.Last = true, old
	}
	return c
}

// random changes a thing of some names at random.
func (w *world) random(r *rand.Rand, names, version int) Change[*thing] {
	name := fmt.Sprint(r.IntN(names))
	old := w.things[name]
	switch {
	case old == nil:
		return w.set(&thing{name, version, version})
	case r.IntN(4) == 0:
		return w.set(&thing{name: name})
	case r.IntN(8) == 0:
		return w.set(&thing{name, version, version})
	}
	return w.set(&thing{name, old.id, version})
}

// follower applies changes as a handler would. It checks that each starts from the result of the one before.
type follower struct {
	*testing.T
	mu    sync.Mutex // a timer can start the goroutine of the next call
	has   map[string]*thing
	calls []string
}

func follow(t *testing.T) *follower { return &follower{T: t, has: map[string]*thing{}} }

func (f *follower) OnAdd(t *thing, initial bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has[t.name] != nil {
		f.Errorf("%v was added, but is there: %v", t, f.has[t.name])
	}
	f.has[t.name] = t
	f.calls = append(f.calls, fmt.Sprintf("add %s@%d initial=%t", t.name, t.version, initial))
}

func (f *follower) OnUpdate(old, t *thing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has[t.name] != old || old.id != t.id {
		f.Errorf("update from %v to %v, but had %v", old, t, f.has[t.name])
	}
	f.has[t.name] = t
	f.calls = append(f.calls, fmt.Sprintf("update %s@%d->@%d", t.name, old.version, t.version))
}

func (f *follower) OnDelete(last *thing, final bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has[last.name] == nil {
		f.Errorf("%v was deleted, but is not there", last)
	}
	delete(f.has, last.name)
	f.calls = append(f.calls, fmt.Sprintf("delete %s@%d final=%t", last.name, last.version, final))
}

// newHub returns a hub of w.
func newHub(t *testing.T, w *world) *Hub[*thing] {
	h := NewHub[*thing]()
	h.Resource = "things"
	h.View = w.view
	h.Unsynced = func(cause error) error { return fmt.Errorf("not synced: %w", cause) }
	h.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	return h
}

// apply applies the change that set makes of t.
func (w *world) apply(t *testing.T, h *Hub[*thing], things ...*thing) {
	t.Helper()
	if _, err := h.Apply(func() (changes []Change[*thing], err error) {
		for _, next := range things {
			changes = append(changes, w.set(next))
		}
		return changes, nil
	}, false); err != nil {
		t.Error(err)
	}
}

// byHand makes a test deliver the backlog of l, instead of a goroutine.
func byHand(l *Listener[*thing]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = true
}
