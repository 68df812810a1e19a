package rollout

import (
	"testing"

	"github.com/typedinformer/informer/internal/run"
)

// part counts its changes, and has the latest value.
type part struct {
	value   string
	changes uint64
}

func (p *part) want(v string) uint64 {
	p.value = v
	p.changes++
	return p.changes
}

func newRollout(names ...string) (*Rollout[string], map[string]*part) {
	r, parts := New("", func(a, b string) bool { return a == b }), map[string]*part{}
	for _, name := range names {
		parts[name] = &part{}
		r.Add(name, parts[name].want)
	}
	return r, parts
}

// A value has arrived when every part has noted its change, or a later one.
func TestValueArrivesWhenEveryPartHasIt(t *testing.T) {
	r, parts := newRollout("a", "b")
	if ok, _ := r.Arrived(); !ok {
		t.Error("the first value has not arrived")
	}
	r.Want("x")
	r.Want("y")
	if parts["a"].value != "y" || parts["b"].value != "y" || r.Latest() != "y" {
		t.Errorf("%+v, %q", parts, r.Latest())
	}
	r.Note("a", 2)
	if ok, _ := r.Arrived(); ok {
		t.Error("arrived without part b")
	}
	r.Note("b", 1)
	if ok, _ := r.Arrived(); ok {
		t.Error("arrived with an earlier change")
	}
	_, changed := r.Arrived()
	r.Note("b", 2)
	if ok, _ := r.Arrived(); !ok || !run.IsClosed(changed) {
		t.Error("did not arrive")
	}
}

// Parts begin once each, with or without a change. A note of a change begins none.
func TestPartsBegin(t *testing.T) {
	r, _ := newRollout("a", "b")
	r.Note("b", 7)
	for i, step := range []struct {
		name string
		all  bool
	}{{"a", false}, {"a", false}, {"b", true}, {"b", false}} {
		if before := run.IsClosed(r.Begun()); before != (i > 2) {
			t.Errorf("before step %d: begun %v", i, before)
		}
		if all := r.Begin(step.name); all != step.all || !r.Began(step.name) || r.Began("b") != (i > 1) {
			t.Errorf("step %d: %v", i, all)
		}
	}
}

// An equal value under way is not asked for again. One that has arrived is.
func TestEqualValueUnderWayIsShared(t *testing.T) {
	r, parts := newRollout("a")
	r.Want("x")
	r.Want("x")
	if parts["a"].changes != 1 {
		t.Errorf("%d changes", parts["a"].changes)
	}
	r.Note("a", 1)
	r.Want("x")
	if parts["a"].changes != 2 {
		t.Errorf("%d changes after the arrival", parts["a"].changes)
	}
}

// A note of an earlier change takes nothing back, and wakes nobody.
func TestEarlierNoteIsIgnored(t *testing.T) {
	r, _ := newRollout("a")
	r.Note("a", 3)
	_, changed := r.Arrived()
	r.Note("a", 2)
	if r.Has("a") != 3 || run.IsClosed(changed) {
		t.Errorf("has %d", r.Has("a"))
	}
}
