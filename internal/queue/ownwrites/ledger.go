package ownwrites

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/object"
)

// Ledger has the writes of a controller, by the keys whose reconciles sent them, so that their events need not
// reconcile these keys. It has a write only if nobody else can have changed the object between the version that the
// reconcile read and the one that it wrote. The zero value has none. All methods are safe for concurrent use.
//
// Invariant: an event is dropped only if writes of the latest call for its key lead from the old version of the object
// to the new one. A later call may have read a store without them, so their events reconcile. An event that waits for
// the answer to a write is dropped or added when the last answer has come, or the call has ended.
type Ledger[K comparable] struct {
	mu      sync.Mutex // protects the fields below
	calls   map[K]*Call[K]
	recent  map[K]*writes // of the latest call
	earlier map[K]*writes // those of recent before the last turn
	turned  time.Time
	dropped uint64
}

// writes are the writes of a call.
type writes struct {
	latest time.Time
	bases  map[version]string // the version of the object before each write
}

// version is what a write made of an object.
type version struct {
	uid types.UID
	to  string
}

const (
	maxAge    = time.Minute // of the latest write of a call
	maxKeys   = 1 << 14     // in each map
	maxWrites = 1 << 10     // of a call
	maxHeld   = 1 << 10     // events that wait in one call
)

// Change is what an event says about the versions of an object. From is empty if the object was added, and equal to To
// in a resync.
type Change struct {
	UID      types.UID
	From, To string
}

// Call is a call of Reconcile that may write. Its context tells the writes to it.
type Call[K comparable] struct {
	ledger  *Ledger[K]
	key     K
	sending int // writes without an answer
	ended   bool
	held    []held
}

// held is an event that arrived during a write.
type held struct {
	change Change
	add    func()
}

// sender is a Call of any key.
type sender interface {
	send(base string) (answered func(obj object.Object))
}

type senderInContext struct{}

// Begin begins a call for key. Its writes are those of the context that Begin returns. There must be no other call for
// key before End.
func (l *Ledger[K]) Begin(ctx context.Context, key K) (context.Context, *Call[K]) {
	call := &Call[K]{ledger: l, key: key}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[K]*Call[K]{}
	}
	l.calls[key] = call
	delete(l.recent, key)
	delete(l.earlier, key)
	return context.WithValue(ctx, senderInContext{}, sender(call)), call
}

// End ends the call. It adds the events that still wait for an answer. A nil Call has no end.
func (c *Call[K]) End() {
	if c == nil {
		return
	}
	l := c.ledger
	l.mu.Lock()
	delete(l.calls, c.key)
	c.ended = true
	add := l.judgeLocked(c)
	l.mu.Unlock()
	callAll(add)
}

// Recorded reports whether ctx has a Call.
func Recorded(ctx context.Context) bool { return ctx.Value(senderInContext{}) != nil }

// Sending says that a write is being sent which the server accepts only at version base of its object. An empty base
// means that the write creates the object. The caller must call answered, with the object of the answer, or nil if
// there is none. Without a Call in ctx, Sending does nothing.
func Sending(ctx context.Context, base string) (answered func(obj object.Object)) {
	call, ok := ctx.Value(senderInContext{}).(sender)
	if !ok {
		return func(object.Object) {}
	}
	return call.send(base)
}

func (c *Call[K]) send(base string) func(obj object.Object) {
	l := c.ledger
	l.mu.Lock()
	c.sending++
	l.mu.Unlock()
	return func(obj object.Object) {
		l.mu.Lock()
		c.sending--
		if obj != nil && !c.ended {
			l.noteLocked(c.key, version{obj.GetUID(), obj.GetResourceVersion()}, base)
		}
		var add []func()
		if c.sending == 0 {
			add = l.judgeLocked(c)
		}
		l.mu.Unlock()
		callAll(add)
	}
}

// noteLocked notes that the call for key wrote v at version base. A write that changed nothing returns the version that
// it was sent for.
func (l *Ledger[K]) noteLocked(key K, v version, base string) {
	if v.uid == "" || v.to == "" || v.to == base {
		return
	}
	now := time.Now()
	if l.recent == nil || len(l.recent) >= maxKeys || now.Sub(l.turned) >= maxAge {
		l.earlier, l.recent, l.turned = l.recent, map[K]*writes{}, now
	}
	w := l.writesLocked(key)
	if w == nil {
		w = &writes{bases: map[version]string{}}
	}
	delete(l.earlier, key)
	l.recent[key] = w
	if w.latest = now; len(w.bases) < maxWrites {
		w.bases[v] = base
	}
}

// writesLocked returns the writes of the latest call for key, or nil.
func (l *Ledger[K]) writesLocked(key K) *writes {
	if w := l.recent[key]; w != nil {
		return w
	}
	return l.earlier[key]
}

// Event calls add, for an event that adds key, unless writes of key explain the event. If a write has no answer yet,
// Event returns, and add is called later if at all.
func (l *Ledger[K]) Event(key K, change Change, add func()) {
	l.mu.Lock()
	drop, wait := l.explainsLocked(key, change), false
	if drop {
		l.dropped++
	} else if l.restoredLocked(change) {
		l.recent, l.earlier = nil, nil
	} else if call := l.calls[key]; call != nil && call.sending > 0 && len(call.held) < maxHeld {
		call.held = append(call.held, held{change, add})
		wait = true
	}
	l.mu.Unlock()
	if !drop && !wait {
		add()
	}
}

// judgeLocked returns what adds the events that have waited in c and that its writes do not explain.
func (l *Ledger[K]) judgeLocked(c *Call[K]) (add []func()) {
	for _, h := range c.held {
		if l.explainsLocked(c.key, h.change) {
			l.dropped++
			continue
		}
		add = append(add, h.add)
	}
	c.held = nil
	return add
}

// explainsLocked reports whether writes of the latest call for key lead from the old version of change to the new one,
// without a gap.
func (l *Ledger[K]) explainsLocked(key K, change Change) bool {
	if change.From == change.To || change.UID == "" {
		return false
	}
	w := l.writesLocked(key)
	if w == nil || time.Since(w.latest) >= maxAge {
		return false
	}
	v := version{change.UID, change.To}
	for range maxWrites {
		base, ok := w.bases[v]
		if !ok || base == change.From {
			return ok
		}
		v.to = base
	}
	return false
}

// restoredLocked reports whether change goes back to an older version. A server that was restored from a backup can
// make the versions of these writes again, with something else in them.
func (l *Ledger[K]) restoredLocked(change Change) bool {
	if len(l.recent)+len(l.earlier) == 0 {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(change.To, change.From)
	return err == nil && c < 0
}

// Dropped returns the number of events that did not reconcile.
func (l *Ledger[K]) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

func callAll(all []func()) {
	for _, f := range all {
		f()
	}
}

// BaseOf returns the resource version that a patch requires of its object, or "" if it requires none. JSON patches have
// other ways to do that, which it does not know.
func BaseOf(pt types.PatchType, patch []byte) string {
	if pt == types.JSONPatchType {
		return ""
	}
	var fields, metadata map[string]json.RawMessage // the names of the fields must be exact, as for the server
	var version string
	if json.Unmarshal(patch, &fields) != nil || json.Unmarshal(fields["metadata"], &metadata) != nil ||
		json.Unmarshal(metadata["resourceVersion"], &version) != nil {
		return ""
	}
	return version
}
