package deliver

import (
	"time"

	"github.com/typedinformer/informer/internal/histogram"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/status"
)

// calls measures the calls of a handler.
type calls struct {
	underWay bool
	awaits   bool          // the call under way waits for the keeper
	changed  time.Duration // when the change of the present call happened
	began    time.Duration // when the present call began, later by the time that it has waited for the keeper
	since    time.Duration // when the wait for the keeper began
	took     *durations    // nil before the first call
}

// durations are those of the calls of a handler.
type durations struct {
	delays status.Durations // from the change to its call
	times  status.Durations // how long calls took
}

// begin notes a call. If it may wait for a keeper, its delay is not known before its end.
func (c *calls) begin(now, changed time.Duration, mayWait bool) {
	if c.took == nil {
		c.took = &durations{}
	}
	c.underWay, c.began, c.changed = true, now, changed
	if !mayWait {
		histogram.Add(&c.took.delays, now-changed)
	}
}

// await begins a wait for the keeper, and resume ends it.
func (c *calls) await(now time.Duration) { c.awaits, c.since = true, now }

func (c *calls) resume(now time.Duration) {
	c.awaits, c.began = false, c.began+now-c.since
}

// busy returns how long the call under way has taken, without its wait for the keeper.
func (c *calls) busy(now time.Duration) time.Duration {
	switch {
	case !c.underWay:
		return 0
	case c.awaits:
		now = c.since
	}
	return now - c.began
}

func (c *calls) end(now time.Duration, mayHaveWaited bool) {
	if !c.underWay {
		return
	}
	c.underWay = false
	histogram.Add(&c.took.times, now-c.began)
	if mayHaveWaited {
		histogram.Add(&c.took.delays, c.began-c.changed)
	}
}

// run delivers until the backlog is empty.
func (l *Listener[T]) run() {
	h := l.hub.Load()
	defer h.delivering.Done()
	var p pending[T]
	returned := false
	defer func() {
		if !returned { // the handler called runtime.Goexit, as t.FailNow does
			h.Report(l.config.Name, errExited)
			h.end(l, errExited)
			p = pending[T]{}
			l.next(&p)
		}
	}()
	for l.next(&p) {
		l.deliver(&p)
	}
	returned = true
}

// next replaces *p, whose delivery has ended, with the next entry to deliver. It returns false if there is none.
func (l *Listener[T]) next(p *pending[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.epoch)
	l.calls.end(now, l.keeping != nil)
	if p.initial {
		l.backlog.initial--
	}
	for l.rounds.underWay && l.backlog.empty() && l.ended == nil {
		l.mu.Unlock()
		l.continueResync()
		l.mu.Lock()
	}
	more := l.backlog.take(p)
	l.checkSyncedLocked()
	if !more {
		if l.waits.idle != nil {
			close(l.waits.idle)
			l.waits.idle = nil
		}
		l.running = l.wake != nil
		if l.ended != nil && !l.running {
			l.releaseLocked()
		}
		return false
	}
	if l.waits.room != nil && !l.backlog.full() {
		close(l.waits.room)
		l.waits.room = nil
	}
	l.calls.begin(now, p.arrival, l.keeping != nil)
	return true
}

// deliver calls the handler at most twice. The listener may end before either call.
func (l *Listener[T]) deliver(p *pending[T]) {
	if l.filter.passes != nil {
		l.deliverFiltered(p)
		return
	}
	if p.Deleted && l.Open() {
		l.handler.OnDelete(p.Last, p.Final)
	}
	switch {
	case object.IsNil(p.New) || !l.Open():
	case p.Added:
		l.handler.OnAdd(p.New, p.initial)
	case p.initial && p.Deleted && object.Same(p.Old, p.New): // the keeper has found another object, and no change
	default:
		l.update(p.Old, p.New)
	}
}

// deliverFiltered is deliver with a filter. It compares with the objects in given, since the result of a filter can
// change.
func (l *Listener[T]) deliverFiltered(p *pending[T]) {
	old, has := l.filter.given[p.Key]
	if has && p.Deleted && l.Open() {
		if object.IsNil(p.New) || old.GetUID() != p.New.GetUID() || old.GetUID() == p.Last.GetUID() {
			delete(l.filter.given, p.Key)
			has = false
		} // otherwise, a keeper has found that the handler has both
		l.handler.OnDelete(p.Last, p.Final)
	}
	if object.IsNil(p.New) || !l.Open() {
		return
	}
	passes := l.filter.passes(p.New)
	switch {
	case !l.Open():
	case passes && has && p.initial && object.Same(old, p.New): // the keeper has found no change
	case passes && has:
		l.filter.given[p.Key] = p.New
		l.update(old, p.New)
	case passes:
		l.filter.given[p.Key] = p.New
		l.handler.OnAdd(p.New, p.initial)
	case has:
		delete(l.filter.given, p.Key)
		l.handler.OnDelete(old, false)
	}
}

func (l *Listener[T]) update(old, new T) {
	if l.config.NewOnly {
		var none T
		old = none
	}
	l.handler.OnUpdate(old, new)
}
