package reshard

import (
	"testing"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
)

// part counts its changes, and has the latest shard.
type part struct {
	shard   shardset.Shard
	changes uint64
}

func (p *part) want(shard shardset.Shard) uint64 {
	p.shard = shard
	p.changes++
	return p.changes
}

func newProgress(names ...string) (*Progress, map[string]*part) {
	r, parts := New(shardset.Shard{}), map[string]*part{}
	for _, name := range names {
		parts[name] = &part{}
		r.Add(name, parts[name].want)
	}
	return r, parts
}

// A shard has arrived when every part has noted its change, or a later one.
func TestShardArrivesWhenEveryPartHasIt(t *testing.T) {
	r, parts := newProgress("a", "b")
	if ok, _ := r.Arrived(); !ok {
		t.Error("the first shard has not arrived")
	}
	r.Want(shardOf("x"))
	r.Want(shardOf("y"))
	if y := shardOf("y"); !parts["a"].shard.Equal(y) || !parts["b"].shard.Equal(y) || !r.Latest().Equal(y) {
		t.Errorf("%+v, %v", parts, r.Latest())
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
	r, _ := newProgress("a", "b")
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

// An equal shard under way is not asked for again. One that has arrived is.
func TestEqualShardUnderWayIsShared(t *testing.T) {
	r, parts := newProgress("a")
	r.Want(shardOf("x"))
	r.Want(shardOf("x"))
	if parts["a"].changes != 1 {
		t.Errorf("%d changes", parts["a"].changes)
	}
	r.Note("a", 1)
	r.Want(shardOf("x"))
	if parts["a"].changes != 2 {
		t.Errorf("%d changes after the arrival", parts["a"].changes)
	}
}

// A note of an earlier change takes nothing back, and wakes nobody.
func TestEarlierNoteIsIgnored(t *testing.T) {
	r, _ := newProgress("a")
	r.Note("a", 3)
	_, changed := r.Arrived()
	r.Note("a", 2)
	if r.Has("a") != 3 || run.IsClosed(changed) {
		t.Errorf("has %d", r.Has("a"))
	}
}
