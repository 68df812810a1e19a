// Package selections computes the union of overlapping collections: the objects that at least one of them has.
//
// Each part of the union reports its own changes in order, but one part may lag behind another. If one write moves an
// object between two parts, it may leave the first before it enters the second. So an object that no part has stays
// until every part that could have it knows the write that removed it.
//
// A server that was restored from a backup begins a new epoch: its resource versions say nothing about those before. A
// part is in the epoch of the server that it has listed last: it knows everything of earlier ones, and its states are
// newer than all of theirs.
package selections

import (
	"cmp"
	"iter"
	"slices"

	"github.com/typedinformer/informer/internal/object"
)

// Part is one of the collections. A type of Part must be comparable.
type Part[T object.Object] interface {
	// Get returns the object with that key that the part has now.
	Get(key object.Key) (T, bool)
	// Undecodable reports whether the part should have a version of obj that cannot be decoded.
	Undecodable(obj T) bool
	// All yields the objects that the part has now.
	All() iter.Seq[T]
	// Version returns the resource version up to which the part has every change. It is [Unlisted] before the first list.
	// Empty means that the part has everything, because the server does not serve the resource, or sends no versions.
	Version() string
	// Frozen returns a copy of the part that never changes, whatever its version.
	Frozen() Part[T]
}

// Unlisted is the version of a part before its first list. The part may have any objects.
const Unlisted = "0"

// Content is the content of the union. Only methods of a Union call its methods.
type Content[T object.Object] interface {
	Get(key object.Key) (T, bool)
	Put(obj T)
	// Remove removes an object. last is its last state, and final reports whether the server sent that.
	Remove(key object.Key, last T, final bool)
}

// Union is a union of parts. It is not safe for concurrent use: a part changes only together with the call that reports
// the change. [New] returns one.
//
// Invariant: without a leave, the content has the newest state of an object that any part has. With one, it has the
// newest of these and of those that left, until the leave removes it. Then no older state enters the content.
//
//	no leave  -- Left: a part may not know of it ------------> leave
//	leave     -- the last part knows, or Lacked -------------> removed
//	leave     -- a part that knows has the object -----------> no leave
//	leave     -- the last part knows, but cannot decode it --> leave, kept until that part can, or lacks the object
//	removed   -- every part knows, or a newer state enters --> no leave
type Union[T object.Object] struct {
	parts  []*state[T]
	epoch  int // the latest of all parts
	leaves map[object.Key]*leave[T]
	now    present[T] // the change that Update reports
}

// stamp is a point in the history of the server.
type stamp struct {
	epoch   int
	version string // the resource version
}

// before reports whether s precedes other. It returns false if versions cannot be compared.
func (s stamp) before(other stamp) bool {
	if s.epoch != other.epoch {
		return s.epoch < other.epoch
	}
	return object.Older(s.version, other.version)
}

// state is the state of a part.
type state[T object.Object] struct {
	Part[T]
	namespace string    // of the objects that the part can have; empty for all
	epoch     int       // of the server that the part follows
	refused   bool      // nothing waits for the part
	floor     stamp     // some leave up to then did not wait for the part: what enters before may be out of date
	waits     []wait[T] // the lowest stamp first; some are over
	holds     []hold[T] // the lowest version first; some are over
	gap       gap       // since the last list
}

// covers reports whether the part can have objects of a namespace.
func (s *state[T]) covers(namespace string) bool {
	return s.namespace == "" || s.namespace == namespace
}

// overlaps reports whether the part and another one can have objects of the same namespace.
func (s *state[T]) overlaps(other *state[T]) bool {
	return other.namespace == "" || s.covers(other.namespace)
}

// gap is what a part has not seen, because it has listed. An object that moved to a part that lags is in neither.
type gap struct {
	open  bool
	from  string // the version of the part before the list; empty if it had none, or another shard
	until stamp  // the list
}

// present is a state of an object in a part, which may have a later one already. A nil object is not there. The part
// knows what it knew before the step, and the change itself.
type present[T object.Object] struct {
	part *state[T]
	from string // the version of the part before the step; empty if the step has changed its epoch
	was  int    // the epoch of the part before the step
	key  object.Key
	obj  T
	left stamp // of an object that has left
}

// New returns a union without parts.
func New[T object.Object]() *Union[T] { return &Union[T]{leaves: map[object.Key]*leave[T]{}} }

// Add adds a part that has no objects yet, and can have those of a namespace, or of all if that is empty. Objects that
// enter it before it has reached the others enter the content only then: they may be out of date. Add returns the
// version that the others have reached, if it is that of the server that is followed last.
func (u *Union[T]) Add(p Part[T], namespace string) (reached string) {
	floor := stamp{epoch: u.epoch}
	for _, s := range u.parts {
		if reached := (stamp{s.epoch, s.Version()}); floor.before(reached) {
			floor = reached
		}
	}
	u.parts = append(u.parts, &state[T]{Part: p, namespace: namespace, epoch: u.epoch, floor: floor})
	return floor.version
}

// Contains reports whether p is a part.
func (u *Union[T]) Contains(p Part[T]) bool { return u.of(p) != nil }

func (u *Union[T]) of(p Part[T]) *state[T] {
	for _, s := range u.parts {
		if s.Part == p {
			return s
		}
	}
	return nil
}

// Step is a step of a part.
type Step[T object.Object] struct {
	// From is the version of the part before the step. Empty means that this is its first list.
	From string
	// Listed means that the part has listed: what it had between From and the list is unknown. If this is its first list,
	// that is what it had ever.
	Listed bool
	// Widened means that the part has listed the objects of a wider shard, as of its version: what those were before is
	// unknown.
	Widened bool
	// WentBack means that the server was restored from a backup, Relisted that the list depends on nothing before it.
	WentBack, Relisted bool
	// Replaced means that the part has listed, or has another shard.
	Replaced bool
	// Changes yields the changes, in order.
	Changes iter.Seq[Change[T]]
}

// Change is a change of one object in a part.
type Change[T object.Object] struct {
	Key      object.Key
	Old, New T // nil if the part did not have the object, or does not have it any more
	// Last is the last state of an object that has left, and Final reports whether the server sent that.
	Last  T
	Final bool
	// Lost means that a version has left at At that could not be decoded, of an object that the part does not have. An
	// empty At means by the end of the step. No other field but Key is set.
	Lost bool
	At   string
	// Unwanted means that an object has left although it has not changed: the part has another shard. It leaves the
	// content at once unless another part has it.
	Unwanted bool
}

// Update reports a step of p. It returns whether other parts must list again, since the server was restored; see
// IsBehind.
func (u *Union[T]) Update(p Part[T], step Step[T], content Content[T]) (restored bool) {
	s := u.of(p)
	u.serve(s)
	before := stamp{s.epoch, step.From}
	joins := (step.WentBack || step.Relisted) && s.epoch < u.epoch
	if step.WentBack && !joins {
		u.epoch++
		restored, joins = true, true
	}
	if joins {
		s.epoch, step.From = u.epoch, ""
		for i := range s.holds {
			s.holds[i].from = ""
		}
		s.gap = gap{}
	}
	for c := range step.Changes {
		u.now = present[T]{part: s, from: step.From, was: before.epoch, key: c.Key, obj: c.New}
		if c.Lost && !u.completed(&c, s, content) {
			continue
		}
		if object.IsNil(c.New) {
			u.now.left = u.leftAt(s, c)
			moment := u.now.left
			if !c.Unwanted { // an unwanted object has not moved to another part
				moment = u.unseen(c.Key, moment)
			}
			u.left(s, c, moment, content)
		} else {
			u.entered(s, c.New, content)
			u.decoded(s, c.Key, content)
		}
	}
	u.now = present[T]{}
	if step.Replaced {
		u.reshaped(s, content)
	}
	if joins { // states that the list has left unchanged are newer now
		for obj := range s.All() {
			u.refresh(object.KeyOf(obj), content)
		}
	}
	if step.Listed {
		u.skipped(s, before, content)
	}
	if listed := (stamp{s.epoch, s.Version()}); (step.Listed || step.Widened) && !joins {
		if !s.gap.open {
			s.gap = gap{open: true, from: step.From}
		}
		if s.gap.until = listed; step.Widened {
			s.gap.from = ""
		}
	}
	u.advance(s, content)
	return restored
}

// IsBehind reports whether p has to list again, since the server that it has listed was restored.
func (u *Union[T]) IsBehind(p Part[T]) bool {
	s := u.of(p)
	return s != nil && s.epoch < u.epoch
}

// entered reports that obj has entered s.
func (u *Union[T]) entered(s *state[T], obj T, content Content[T]) {
	key, moment := object.KeyOf(obj), stamp{s.epoch, obj.GetResourceVersion()}
	have, ok := content.Get(key)
	l := u.leaves[key]
	if l == nil && !ok && moment.before(s.floor) && !u.knows(s, s.floor) {
		l = &leave[T]{key: key, latest: s.floor, last: obj, removed: true}
		u.leaves[key] = l
		u.wait(l, s)
	}
	if l != nil && !moment.before(l.latest) {
		u.end(l)
		l = nil
	}
	switch {
	case l != nil && l.removed: // the part may be behind
		u.hold(s, l, true)
		return
	case l != nil && moment.before(l.left):
		return
	}
	for _, other := range u.parts {
		state, has := u.get(other, key)
		switch {
		case !has, other == s:
		case moment.before(stamp{other.epoch, state.GetResourceVersion()}):
			u.refresh(key, content)
			return
		case other.epoch == s.epoch && ok && object.Same(have, state) && object.SameVersion(have, obj): // another copy
			return
		}
	}
	content.Put(obj)
}

// left reports that an object has left s at a stamp, or before.
func (u *Union[T]) left(s *state[T], c Change[T], moment stamp, content Content[T]) {
	had := stamp{s.epoch, c.Old.GetResourceVersion()}
	if s == u.now.part {
		had.epoch = u.now.was
	}
	l := u.leaves[c.Key]
	if l == nil {
		l = &leave[T]{key: c.Key, latest: moment, left: had}
		u.leaves[c.Key] = l
	}
	if l.left.before(had) {
		l.left = had
	}
	if !moment.before(l.latest) {
		l.latest, l.last, l.final, l.awaits, l.asked = moment, c.Last, c.Final, nil, false
	}
	if c.Unwanted && !u.owned(l) {
		u.remove(l, content)
	}
	if u.settle(l, content); !c.Unwanted && !l.over && !l.removed && l.kept == nil {
		u.hold(s, l, false)
	}
}

// leftAt returns when the object of c left s, or later. An unwanted object left at its own version. If the server sent
// the last state, that has the version of the deletion; but not every server is so exact.
func (u *Union[T]) leftAt(s *state[T], c Change[T]) stamp {
	if c.Lost {
		return stamp{s.epoch, cmp.Or(c.At, s.Version())}
	}
	last, version := c.Last.GetResourceVersion(), s.Version()
	exact := c.Final && object.Older(u.now.from, last) && !object.Older(version, last)
	switch {
	case c.Unwanted:
		return stamp{u.now.was, last}
	case exact:
		version = last
	}
	return stamp{s.epoch, version}
}

// unseen returns when every part is known to lack an object that left at a stamp: that, or the list of a part that has
// not seen what happened then.
func (u *Union[T]) unseen(key object.Key, moment stamp) stamp {
	for _, s := range u.parts {
		if s.gap.open && s.covers(key.Namespace) && s.gap.has(moment) {
			moment = s.gap.until
		}
	}
	return moment
}

// has reports whether the part has not seen what happened at a stamp.
func (g gap) has(moment stamp) bool {
	return stamp{g.until.epoch, g.from}.before(moment) && moment.before(g.until)
}

// get returns the object with that key in s, as of the change under way.
func (u *Union[T]) get(s *state[T], key object.Key) (obj T, ok bool) {
	switch {
	case !s.covers(key.Namespace):
		return obj, false
	case s == u.now.part && key == u.now.key:
		return u.now.obj, !object.IsNil(u.now.obj)
	}
	return s.Get(key)
}

// knows reports whether s has every change up to that moment.
func (u *Union[T]) knows(s *state[T], moment stamp) bool {
	version := s.Version()
	if s == u.now.part && moment != u.now.left {
		version = cmp.Or(u.now.from, version)
	}
	return version == "" || !stamp{s.epoch, version}.before(moment)
}

// newest returns the newest state of an object that a part has.
func (u *Union[T]) newest(key object.Key) (newest T, ok bool) {
	var found stamp
	for _, s := range u.parts {
		if obj, has := u.get(s, key); has {
			if had := (stamp{s.epoch, obj.GetResourceVersion()}); !ok || found.before(had) {
				newest, found, ok = obj, had, true
			}
		}
	}
	return newest, ok
}

func has[T object.Object](p Part[T], key object.Key) bool {
	_, ok := p.Get(key)
	return ok
}

// refresh makes the content agree with the parts on an object.
func (u *Union[T]) refresh(key object.Key, content Content[T]) {
	if l := u.leaves[key]; l != nil {
		u.settle(l, content)
		return
	}
	have, ok := content.Get(key)
	newest, has := u.newest(key)
	switch {
	case has && (!ok || !object.SameVersion(have, newest)):
		content.Put(newest)
	case ok && !has:
		content.Remove(key, have, false)
	}
}

// Claims yields each part, and the version up to which the content has every change of the part. It is empty if that is
// unknown.
func (u *Union[T]) Claims(yield func(p Part[T], version string) bool) {
	for _, s := range u.parts {
		if !yield(s.Part, u.claim(s)) {
			return
		}
	}
}

func (u *Union[T]) claim(s *state[T]) (version string) {
	n := 0
	for n < len(s.holds) && (s.holds[n].ended() || s.holds[n].blocked && !has(s.Part, s.holds[n].key)) {
		n++
	}
	version = s.Version()
	s.holds = slices.Delete(s.holds, 0, n)
	if len(s.holds) > 0 && object.Older(s.holds[0].from, version) { // one that was passed on may be later
		version = s.holds[0].from
	}
	s.gap.open = s.gap.open && slices.ContainsFunc(u.parts, func(other *state[T]) bool {
		return !other.refused && other.overlaps(s) && !u.knows(other, s.gap.until)
	})
	if s.gap.open && object.Older(s.gap.from, version) {
		version = s.gap.from
	}
	if s.epoch < u.epoch || version == Unlisted {
		version = ""
	}
	return version
}

// Remove removes a part. had are its objects.
func (u *Union[T]) Remove(p Part[T], had []T, content Content[T]) {
	s := u.of(p)
	u.parts = slices.DeleteFunc(u.parts, func(other *state[T]) bool { return other == s })
	for _, l := range u.leaves {
		if l.awaits == s || l.kept == s {
			l.awaits = nil
			u.settle(l, content)
		}
	}
	u.passHolds(s)
	late := stamp{s.epoch, ""} // the highest version of what the others may get later
	for _, obj := range had {
		c := Change[T]{Key: object.KeyOf(obj), Old: obj, Last: obj, Unwanted: true}
		version := stamp{s.epoch, obj.GetResourceVersion()}
		if l := u.leaves[c.Key]; l == nil || l.removed {
			if u.left(s, c, version, content); late.before(version) && u.leaves[c.Key] != nil {
				late = version
			}
			continue
		} else if l.left.before(version) { // it has left another part later, and may be in one that lags
			l.left = version
		}
		u.settle(u.leaves[c.Key], content)
	}
	u.agreeAt(late, s)
}

// agreeAt makes the parts that overlap a removed one claim nothing until each knows a version, unless that is empty.
func (u *Union[T]) agreeAt(until stamp, removed *state[T]) {
	if until.version == "" {
		return
	}
	for _, s := range u.parts {
		if !s.overlaps(removed) {
			continue
		}
		if !s.gap.open || s.gap.until.before(until) {
			s.gap.until = until
		}
		s.gap.open, s.gap.from = true, ""
	}
}
