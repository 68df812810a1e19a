package queue

// idleEntries is the number of entries that a pool keeps of keys that are done. Adding such a key again takes half the
// time in the map. A full pool of idle entries reuses the oldest one for another key. They take up to 1 MB.
const idleEntries = 4096

// pool has the entries by key. An entry that is nowhere and not in work is idle.
type pool[K comparable] struct {
	entries map[K]*entry[K]
	most    int      // the largest length of entries since the map was created
	idle    chain[K] // at most idleEntries, the oldest first: many keys are added again
}

// find returns the entry of key, or nil.
func (p *pool[K]) find(key K) *entry[K] { return p.entries[key] }

// take returns the entry of key. If it is idle, missing, or reused, the caller must find it a place.
func (p *pool[K]) take(key K) *entry[K] {
	e := p.entries[key]
	if e != nil {
		if e.place == nowhere && e.works == nil {
			p.idle.remove(e)
		}
		return e
	}
	if p.idle.n == idleEntries {
		e = p.idle.first
		p.idle.remove(e)
		delete(p.entries, e.key)
	} else {
		e = &entry[K]{}
	}
	e.key = key
	p.entries[key] = e
	p.most = max(p.most, len(p.entries))
	return e
}

// release makes e idle or removes it, if its key neither waits nor is in work.
func (p *pool[K]) release(e *entry[K]) {
	if e.place != nowhere || e.works != nil {
		return
	}
	if p.idle.n == idleEntries {
		delete(p.entries, e.key)
	} else {
		p.idle.push(e)
	}
	if p.idle.n == len(p.entries) && p.most > 4*idleEntries { // a map does not shrink
		p.entries, p.most = map[K]*entry[K]{}, 0
		p.idle = chain[K]{}
	}
}
