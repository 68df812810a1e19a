package controller

import (
	linked "container/list"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/errtext"
	"github.com/typedinformer/informer/status"
)

// Failures knows which keys fail. It has an entry for each of them, as the queue and its limiter have. The zero value
// is ready to use. All methods are safe for concurrent use, but calls of Note for one key must not be concurrent.
type Failures[K comparable] struct {
	mu      sync.Mutex            // protects the fields below
	entries map[K]*linked.Element // of order
	// of *failing[K]: each key whose latest call failed, the one that has failed for longest first
	order       linked.List
	lastSuccess time.Time
	lastError   error // nil before the first failure
	lastTime    time.Time
	lastKey     K
}

type failing[K comparable] struct {
	key   K
	since time.Time
	count int
}

// Note records the result of a call for key that has ended now.
func (f *Failures[K]) Note(key K, err error, now time.Time) {
	if err != nil {
		err = errtext.Short(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.lastSuccess = now
		f.removeLocked(key)
		return
	}
	f.lastError, f.lastTime, f.lastKey = err, now, key
	if e := f.entries[key]; e != nil {
		e.Value.(*failing[K]).count++
		return
	}
	if f.entries == nil {
		f.entries = map[K]*linked.Element{}
	}
	f.entries[key] = f.order.PushBack(&failing[K]{key, now, 1})
}

// Drop forgets the keys for which match returns true: another replica reconciles them from now on.
func (f *Failures[K]) Drop(match func(key K) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.entries {
		if match(key) {
			f.removeLocked(key)
		}
	}
}

func (f *Failures[K]) removeLocked(key K) {
	if e := f.entries[key]; e != nil {
		f.order.Remove(e)
		delete(f.entries, key)
	}
	if len(f.entries) == 0 {
		f.entries = nil // a map does not shrink
	}
}

// maxFailingKeys is the number of keys in a status.
const maxFailingKeys = 10

// AddTo sets the fields of s, which are zero, that are about failures and the last success.
func (f *Failures[K]) AddTo(s *status.Controller) {
	f.mu.Lock()
	keys := make([]failing[K], 0, min(len(f.entries), maxFailingKeys))
	for e := f.order.Front(); e != nil && len(keys) < maxFailingKeys; e = e.Next() {
		keys = append(keys, *e.Value.(*failing[K]))
	}
	s.Failing, s.LastSuccess = len(f.entries), f.lastSuccess
	s.LastError, s.LastErrorTime = f.lastError, f.lastTime
	last := f.lastKey
	f.mu.Unlock()
	if s.LastError != nil { // a key may have a String method, so no lock is held
		s.LastErrorKey = KeyText(last)
	}
	for _, k := range keys {
		s.FailingKeys = append(s.FailingKeys, status.FailingKey{Key: KeyText(k.key), Since: k.since, Failures: k.count})
	}
}

// KeyText returns key as text, for a status.
func KeyText(key any) string {
	const longest = 512 // bytes; a namespace and a name have 317 at most
	text := fmt.Sprint(key)
	if len(text) > longest {
		text = strings.Clone(text[:longest])
	}
	return strings.ToValidUTF8(text, "")
}
