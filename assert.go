package informer

import "fmt"

// assertedAtOnce is up to how many objects a store is checked at each publication. One of n times as many is checked at
// each nth, so that a write costs about the same.
const assertedAtOnce = 4096

// assertLocked panics if next, which is about to be published, is not what it should be. It runs in builds with the tag
// assert, which are for tests: it looks at every object.
func (s *Store[T]) assertLocked(next *Snapshot[T]) {
	if s.gen%uint64(next.Len()/assertedAtOnce+1) != 0 {
		return
	}
	if err := s.checkLocked(next); err != nil {
		panic(fmt.Sprintf("informer: store of %d %T at generation %d: %v", next.Len(), *new(T), s.gen, err))
	}
}

// checkLocked returns what is wrong with next, the state that the writer's fields belong to, or nil. It calls no index
// function: those ran when the objects came.
func (s *Store[T]) checkLocked(next *Snapshot[T]) error {
	if err := checkTree(byName, next.records); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	var none T
	used := make([]bool, s.next)
	hashes := make(map[*record][]uint32, next.Len())
	err := eachItem(next.records, func(it *item[struct{}]) error {
		r := it.record
		switch {
		case it.slot != r.slot:
			return fmt.Errorf("record %s of slot %d is filed with slot %d", r.key(), r.slot, it.slot)
		case it.hash != next.place(r.key()).hash:
			return fmt.Errorf("record %s is filed with another hash", r.key())
		case r.slot >= s.next:
			return fmt.Errorf("record %s has slot %d, which was never given out", r.key(), r.slot)
		case used[r.slot]:
			return fmt.Errorf("record %s has slot %d, and so has another", r.key(), r.slot)
		}
		if obj := next.versions.get(r.slot); obj == none || KeyOf(obj) != r.key() {
			return fmt.Errorf("record %s has slot %d, which holds another object, or none", r.key(), r.slot)
		}
		used[r.slot] = true
		hashes[r] = r.hashes
		return nil
	})
	if err != nil {
		return err
	}
	for _, slot := range s.free {
		switch {
		case slot >= s.next:
			return fmt.Errorf("free slot %d was never given out", slot)
		case used[slot]:
			return fmt.Errorf("free slot %d is in use, or free twice", slot)
		case next.versions.get(slot) != none:
			return fmt.Errorf("free slot %d holds an object", slot)
		}
		used[slot] = true
	}
	if n := next.Len() + len(s.free); n != int(s.next) {
		return fmt.Errorf("%d slots were given out, %d are in use or free", s.next, n)
	}
	for i := 1; i < len(next.sources); i++ {
		if next.sources[i-1].namespace >= next.sources[i].namespace {
			return fmt.Errorf("sources %v are not sorted, or not distinct", next.sources)
		}
	}
	for i, x := range next.indexes {
		if err := x.check(hashes); err != nil {
			return fmt.Errorf("index %d: %w", i, err)
		}
	}
	for r, rest := range hashes {
		if len(rest) > 0 {
			return fmt.Errorf("record %s has hashes of more than %d indexes", r.key(), len(next.indexes))
		}
	}
	return nil
}

func (t *keyTree[T, K]) check(hashes map[*record][]uint32) error {
	if err := checkTree(byHash, t.tree); err != nil {
		return err
	}
	items := 0
	for r, have := range hashes {
		if len(have) == 0 || len(have) <= int(have[0]) {
			return fmt.Errorf("record %s has no hashes of this index", r.key())
		}
		mine := have[1 : 1+have[0]]
		hashes[r] = have[1+have[0]:]
		items += len(mine)
		keys := make(map[K]bool, len(mine))
		for _, hash := range mine {
			it := t.tree.get(byHash, &place{hash, r.namespace, r.name})
			switch {
			case it == nil:
				return fmt.Errorf("record %s is not filed under one of its keys", r.key())
			case it.record != r || it.slot != r.slot:
				return fmt.Errorf("key %v of %s leads to a record of the past", it.key, r.key())
			case it.key == it.key && t.index.hash(it.key)>>ordinalBits != hash>>ordinalBits: // NaN has another hash each time
				return fmt.Errorf("key %v of %s is filed with another hash", it.key, r.key())
			case keys[it.key]:
				return fmt.Errorf("record %s is filed under key %v twice", r.key(), it.key)
			}
			keys[it.key] = true
		}
	}
	if n := t.tree.len(); n != items {
		return fmt.Errorf("%d items, but the records have %d keys", n, items)
	}
	return nil
}

// checkTree returns which of its rules a tree breaks, or nil.
func checkTree[K comparable](o order, t tree[K]) error {
	if t.root == nil {
		return nil
	}
	if _, err := t.root.check(); err != nil {
		return err
	}
	var before *item[K]
	return eachItem(t, func(it *item[K]) error {
		if p := it.place(); before != nil && o.compare(before.hash, before.record, &p) >= 0 {
			return fmt.Errorf("item %v of %s stands before %v of %s", before.key, before.record.key(), it.key, it.record.key())
		}
		before = it
		return nil
	})
}

// check returns the depth of n, and which of its rules it breaks.
func (n *node[K]) check() (depth int, err error) {
	count := len(n.items)
	switch {
	case len(n.items) > maxNode || len(n.kids) > maxNode || len(n.kids) != len(n.seps):
		return 0, fmt.Errorf("node of %d items, %d kids, %d separators", len(n.items), len(n.kids), len(n.seps))
	case (n.kids == nil) != (len(n.items) > 0) || n.kids != nil && len(n.kids) == 0:
		return 0, fmt.Errorf("neither leaf nor inner node: %d items, %d kids", len(n.items), len(n.kids))
	}
	for i, kid := range n.kids {
		d, err := kid.check()
		switch {
		case err != nil:
			return 0, err
		case i > 0 && d != depth:
			return 0, fmt.Errorf("leaves at depths %d and %d", depth, d)
		case n.seps[i] != kid.first():
			return 0, fmt.Errorf("separator %s is not its kid's first item, %s", n.seps[i].record.key(), kid.first().record.key())
		case kid.gen > n.gen:
			return 0, fmt.Errorf("node of generation %d below one of %d", kid.gen, n.gen)
		}
		count, depth = count+kid.count, d
	}
	if count != n.count {
		return 0, fmt.Errorf("node counts %d items, has %d", n.count, count)
	}
	return depth + 1, nil
}

// eachItem calls do with the items of a tree in order until it returns an error.
func eachItem[K comparable](t tree[K], do func(*item[K]) error) (err error) {
	t.all(func(items []item[K]) bool {
		for i := range items {
			if err = do(&items[i]); err != nil {
				return false
			}
		}
		return true
	})
	return err
}
