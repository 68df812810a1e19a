package selections

import (
	"slices"

	"github.com/typedinformer/informer/internal/object"
)

// leave says that an object has left a part.
type leave[T object.Object] struct {
	key     object.Key
	latest  stamp // the latest of all leaves of this object
	left    stamp // of the newest state that has left
	last    T
	final   bool
	awaits  *state[T] // a part that does not know of it; nil for none
	kept    *state[T] // a part with a version that cannot be decoded: the content keeps a good one
	asked   bool      // Questions has returned it
	removed bool      // from the content, although some part does not know of it
	over    bool
}

// wait is a leave that waits until a part knows it.
type wait[T object.Object] struct {
	*leave[T]
	stamp stamp // of the leave, when the wait began
}

// hold keeps a part from claiming a later version than from, since the content does not show what the part knows.
type hold[T object.Object] struct {
	*leave[T]
	from    string
	blocked bool // the leave keeps an object of the part out of the content
}

func (h hold[T]) ended() bool { return h.over || (h.removed || h.kept != nil) && !h.blocked }

// end drops l.
func (u *Union[T]) end(l *leave[T]) {
	l.over = true
	delete(u.leaves, l.key)
}

// remove removes the object of l from the content.
func (u *Union[T]) remove(l *leave[T], content Content[T]) {
	if !l.removed {
		l.removed = true
		have, ok := content.Get(l.key)
		older := ok && object.Older(l.last.GetResourceVersion(), have.GetResourceVersion())
		content.Remove(l.key, l.last, l.final && !older)
	}
}

// completed makes c, a Lost change of s, that of what the content has. It returns false if that has not left. If the
// content has nothing, a part that lags may still have an older version, which does not enter.
func (u *Union[T]) completed(c *Change[T], s *state[T], content Content[T]) bool {
	if has(s.Part, c.Key) { // since then
		return false
	}
	have, ok := content.Get(c.Key)
	if ok {
		c.Old, c.Last = have, have
		return c.At == "" || !object.Older(c.At, have.GetResourceVersion())
	}
	u.now.left = u.leftAt(s, *c)
	l, moment := u.leaves[c.Key], u.unseen(c.Key, u.now.left)
	if l == nil {
		l = &leave[T]{key: c.Key, latest: moment, removed: true}
		u.leaves[c.Key] = l
	}
	if !moment.before(l.latest) {
		l.latest, l.awaits, l.asked = moment, nil, false
		u.settle(l, content)
	}
	return false
}

// reshaped looks again at what s keeps in the content, since s may have another shard.
func (u *Union[T]) reshaped(s *state[T], content Content[T]) {
	for _, l := range u.leaves {
		if l.kept == s {
			u.settle(l, content)
		}
	}
}

// decoded ends that s keeps an object in the content, if it has a good version now.
func (u *Union[T]) decoded(s *state[T], key object.Key, content Content[T]) {
	if l := u.leaves[key]; l != nil && l.kept == s {
		u.settle(l, content)
	}
}

// owned reports whether the object of l may still be in a part. What a refused part had before the leave does not
// count.
func (u *Union[T]) owned(l *leave[T]) bool {
	return slices.ContainsFunc(u.parts, func(s *state[T]) bool {
		_, has := u.get(s, l.key)
		return has && (!s.refused || u.knows(s, l.latest))
	})
}

// settle ends l if a part that knows of it has the object, or if each part knows. If each part knows that is not
// refused, it removes the object, unless a part has a version that cannot be decoded. Otherwise, l waits for a part
// that does not know.
func (u *Union[T]) settle(l *leave[T], content Content[T]) {
	var lags, refused, keeps *state[T]
	have, shown := content.Get(l.key)
	for _, s := range u.parts {
		if !s.covers(l.key.Namespace) {
			continue
		}
		_, has := u.get(s, l.key)
		switch knows := u.knows(s, l.latest); {
		case knows && shown && s.Undecodable(have):
			keeps = s // what it has may be older than the content
		case knows && has:
			u.end(l)
			u.refresh(l.key, content)
			return
		case knows:
		case !s.refused:
			if lags == nil || s == l.awaits {
				lags = s
			}
		case has:
			refused = s
		}
	}
	l.kept = nil
	switch {
	case lags != nil && lags == l.awaits:
	case lags != nil:
		u.wait(l, lags)
	case keeps != nil:
		l.awaits, l.kept, l.final = nil, keeps, false // the server has sent no later state
	default:
		u.remove(l, content)
		u.pass(l, refused)
	}
}

// pass ends l without the parts that are refused. If one of these has the object, l stays for it, and keeps what that
// part has out of the content.
func (u *Union[T]) pass(l *leave[T], refused *state[T]) {
	for _, s := range u.parts {
		if s.refused && s.covers(l.key.Namespace) && s.floor.before(l.latest) {
			s.floor = l.latest
		}
	}
	if l.awaits = refused; refused == nil { // otherwise, serve makes l wait
		u.end(l)
	}
}

// manyEnded is the number of waits or holds at which those that are over are dropped, before there are more.
const manyEnded = 64

// wait makes l wait for s.
func (u *Union[T]) wait(l *leave[T], s *state[T]) {
	if n := len(s.waits); n == cap(s.waits) && n >= manyEnded {
		s.waits = slices.DeleteFunc(s.waits, func(w wait[T]) bool { return !w.isFor(s) })
	}
	l.awaits = s
	i, _ := slices.BinarySearchFunc(s.waits, l.latest, func(w wait[T], latest stamp) int {
		if latest.before(w.stamp) {
			return 1
		}
		return -1 // before l, if they are equal
	})
	s.waits = slices.Insert(s.waits, i, wait[T]{l, l.latest})
}

// isFor reports whether the leave still waits for s, and has not changed.
func (w wait[T]) isFor(s *state[T]) bool {
	return !w.over && w.awaits == s && w.leave.latest == w.stamp
}

// hold keeps s from claiming what it knows since the present step, because of l. If an object is kept out of the
// content that s would have had before, with the shard that it has now, s claims nothing.
func (u *Union[T]) hold(s *state[T], l *leave[T], blocked bool) {
	if n := len(s.holds); n == cap(s.holds) && n >= manyEnded {
		s.holds = slices.DeleteFunc(s.holds, hold[T].ended)
	}
	from := u.now.from
	if blocked && from != "" && !object.Older(from, u.now.obj.GetResourceVersion()) {
		from = ""
	}
	place := len(s.holds)
	if from == "" {
		place = 0
	}
	s.holds = slices.Insert(s.holds, place, hold[T]{l, from, blocked})
}

// passHolds passes the holds of s, which is no longer a part, to the parts for which their leaves wait. The content
// still has what left s.
func (u *Union[T]) passHolds(s *state[T]) {
	for _, h := range s.holds {
		if heir := h.awaits; heir != nil && !h.blocked && !h.ended() {
			if heir.epoch != s.epoch {
				h.from = ""
			}
			heir.holds = append(heir.holds, h)
		}
	}
	for _, heir := range u.parts {
		slices.SortStableFunc(heir.holds, func(a, b hold[T]) int {
			switch {
			case object.Older(a.from, b.from):
				return -1
			case object.Older(b.from, a.from):
				return 1
			}
			return 0
		})
	}
}

// skipped reports that s has listed, and has had every change up to from before. Between that and its list, an object
// that left another part may have entered and left s. So leaves that s did not know wait for all parts until they know
// what they had at the list.
func (u *Union[T]) skipped(s *state[T], from stamp, content Content[T]) {
	listed := stamp{s.epoch, s.Version()}
	for _, l := range u.leaves {
		if s.covers(l.key.Namespace) && from.before(l.latest) && l.latest.before(listed) && !l.removed {
			l.latest, l.awaits, l.asked = listed, nil, false
			u.settle(l, content)
		}
	}
}

// advance ends the waits of s that are no longer needed, and lets what s has into the content.
func (u *Union[T]) advance(s *state[T], content Content[T]) {
	var taken []*leave[T]
	for _, h := range s.holds {
		if h.blocked && !h.over && u.knows(s, h.latest) {
			taken = append(taken, h.leave)
		}
	}
	n := 0
	for _, w := range s.waits {
		if w.isFor(s) && !s.refused && s.covers(w.key.Namespace) && !u.knows(s, w.stamp) {
			break
		}
		n++
	}
	for _, w := range s.waits[:n] {
		if w.isFor(s) {
			w.awaits = nil
			taken = append(taken, w.leave)
		}
	}
	if s.waits = slices.Delete(s.waits, 0, n); len(s.waits) == 0 {
		s.waits = nil
	}
	for _, l := range taken {
		if !l.over {
			u.settle(l, content)
		}
	}
}

// Question asks whether any part has an object at Version or later, for Lacked.
type Question struct {
	Key     object.Key
	Version string
}

// Questions returns up to limit questions, about waiting objects that no part has. It returns each question once; see
// Unanswered.
func (u *Union[T]) Questions(limit int) (questions []Question) {
	for _, l := range u.leaves {
		if len(questions) == limit {
			break
		}
		if !l.asked && !l.removed && l.kept == nil && !u.owned(l) {
			l.asked = true
			questions = append(questions, Question{l.key, l.latest.version})
		}
	}
	return questions
}

// Open reports whether q still needs an answer.
func (u *Union[T]) Open(q Question) bool {
	l := u.leaves[q.Key]
	return l != nil && l.latest.version == q.Version && !l.removed
}

// Unanswered makes Questions return q again.
func (u *Union[T]) Unanswered(q Question) {
	if u.Open(q) {
		u.leaves[q.Key].asked = false
	}
}

// Lacked answers q: no part had the object at the server's version, which does not precede that of q.
func (u *Union[T]) Lacked(q Question, version string, content Content[T]) {
	if !u.Open(q) {
		return
	}
	l := u.leaves[q.Key]
	l.latest.version, l.awaits = version, nil
	u.remove(l, content)
	u.settle(l, content)
}
