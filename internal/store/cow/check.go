package cow

import (
	"errors"
	"fmt"
)

// Check returns an error that names a broken invariant of the tree, or nil. It visits every item.
func (t Tree[K, D]) Check() error {
	if t.root == nil {
		return nil
	}
	if _, err := t.root.check(); err != nil {
		return err
	}
	var before *Item[K, D]
	var err error
	t.All(func(items []Item[K, D]) bool {
		for i := range items {
			it := &items[i]
			if before != nil && t.Compare(before, it) >= 0 {
				err = fmt.Errorf("item %v of %s comes before %v of %s", before.Key, before.Record, it.Key, it.Record)
				return false
			}
			before = it
		}
		return true
	})
	return err
}

// check returns the depth of n's subtree, or an error that names a broken invariant.
func (n *node[K, D]) check() (depth int, err error) {
	count := len(n.items)
	switch {
	case len(n.items) > maxNode || len(n.kids) > maxNode || len(n.kids) != len(n.seps)+len(n.firsts):
		return 0, fmt.Errorf("node has %d items, %d kids and %d separators", len(n.items), len(n.kids),
			len(n.seps)+len(n.firsts))
	case len(n.items) == 0 && len(n.kids) == 0:
		return 0, errors.New("empty node")
	case len(n.items) > 0 && n.kids != nil:
		return 0, fmt.Errorf("node has both %d items and kids", len(n.items))
	}
	for i, kid := range n.kids {
		d, err := kid.check()
		switch {
		case err != nil:
			return 0, err
		case i > 0 && d != depth:
			return 0, fmt.Errorf("leaves at depths %d and %d", depth, d)
		case !n.separates(i):
			return 0, fmt.Errorf("separator %d differs from the first item of its kid, %s", i, kid.first().Record)
		case kid.gen > n.gen:
			return 0, fmt.Errorf("node of generation %d has a kid of generation %d", n.gen, kid.gen)
		}
		count, depth = count+kid.count, d
	}
	if count != n.count {
		return 0, fmt.Errorf("node counts %d items but has %d", n.count, count)
	}
	return depth + 1, nil
}

// separates reports whether n has noted the first item below kid k.
func (n *node[K, D]) separates(k int) bool {
	first := n.kids[k].first()
	if n.firsts != nil {
		return n.firsts[k].same(first)
	}
	return n.seps[k] == separator[D]{first.Hash, first.Record}
}

// same reports whether it is other. A key that does not equal itself, such as NaN, is not compared.
func (it Item[K, D]) same(other Item[K, D]) bool {
	return it.Hash == other.Hash && it.Slot == other.Slot && it.Record == other.Record &&
		(it.Key == other.Key || it.Key != it.Key)
}

// Check returns an error if a node is newer than its parent, and otherwise nil. A write could change such a node in
// place although an earlier version shares its parent. Check visits every node.
func (a *Array[T]) Check() error {
	for i, sh := range a.root {
		if sh.gen > a.gen {
			return fmt.Errorf("shelf %d has generation %d, the array has %d", i, sh.gen, a.gen)
		}
		for j, vol := range sh.volumes {
			if vol == nil {
				continue
			}
			if vol.gen > sh.gen {
				return fmt.Errorf("volume %d of shelf %d has generation %d, the shelf has %d", j, i, vol.gen, sh.gen)
			}
			if err := vol.check(); err != nil {
				return fmt.Errorf("volume %d of shelf %d: %w", j, i, err)
			}
		}
	}
	return nil
}

func (v *volume[T]) check() error {
	for i, chap := range v.chapters {
		if chap == nil {
			continue
		}
		if chap.gen > v.gen {
			return fmt.Errorf("chapter %d has generation %d, the volume has %d", i, chap.gen, v.gen)
		}
		for j, pg := range chap.pages {
			if pg != nil && pg.gen > chap.gen {
				return fmt.Errorf("page %d of chapter %d has generation %d, the chapter has %d", j, i, pg.gen, chap.gen)
			}
		}
	}
	return nil
}
