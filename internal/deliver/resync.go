package deliver

import (
	"math/rand/v2"
	"time"

	"github.com/typedinformer/informer/internal/object"
)

// rounds are the resyncs of a listener.
type rounds struct {
	timer    *time.Timer // begins a round; nil without Config.Resync and before the listener is loaded
	underWay bool
	from     object.Key // where the round continues
}

func (r *rounds) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// untilResync returns how long to wait before a round. It spreads the rounds of many handlers.
func (l *Listener[T]) untilResync() time.Duration {
	return l.config.Resync + rand.N(l.config.Resync/10+1)
}

func (l *Listener[T]) beginResync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.rounds.underWay, l.rounds.from = true, object.Key{}
		l.kickLocked()
	}
}

// continueResync adds the next object of the round to the backlog if that is empty.
func (l *Listener[T]) continueResync() {
	h := l.hub.Load()
	h.enter() // under this lock, every change in the store has been added to the backlog
	defer h.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.backlog.empty() || l.ended != nil {
		return
	}
	for obj := range h.View().From(l.rounds.from) {
		key := object.KeyOf(obj)
		l.rounds.from = object.Key{Namespace: key.Namespace, Name: key.Name + "\x00"}
		l.backlog.add(&Change[T]{Key: key, Old: obj, New: obj}, false, h.now(), 0)
		return
	}
	l.rounds.underWay = false
	l.rounds.timer.Reset(l.untilResync())
}
