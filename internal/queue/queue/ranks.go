package queue

// Levels is the number of priorities. Level 0 is handed out first.
const Levels = 3

// starveAfter is the number of keys that may be handed out before the oldest one. With 15, low priorities get 6 % of
// the workers under load, so their backlog still shrinks.
const starveAfter = 15

// ranks has the ready keys that are not in work, by priority and by age.
type ranks[K comparable] struct {
	levels [Levels]chain[K]
	age    chain[K] // all of them, the oldest first; by is byAge
	passed int      // the consecutive keys that were handed out before the oldest
}

func (r *ranks[K]) push(e *entry[K]) {
	r.levels[e.level].push(e)
	r.age.push(e)
}

func (r *ranks[K]) remove(e *entry[K]) {
	r.levels[e.level].remove(e)
	r.age.remove(e)
}

// rank moves e to another level, behind all entries there. Its age stays.
func (r *ranks[K]) rank(e *entry[K], level uint8) {
	r.levels[e.level].remove(e)
	r.levels[level].push(e)
}

// next returns the entry to hand out, or nil. Each call counts for starveAfter.
func (r *ranks[K]) next() *entry[K] {
	for level := range r.levels {
		e := r.levels[level].first
		if e == nil {
			continue
		}
		if e == r.age.first {
			r.passed = 0
		} else if r.passed++; r.passed > starveAfter {
			r.passed = 0
			return r.age.first
		}
		return e
	}
	return nil
}
