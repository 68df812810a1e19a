package durable

import (
	"iter"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
)

// plan is what a save writes: a copy of a part of a book.
type plan[T object.Object] struct {
	codec   *codec[T]
	base    bool
	keys    []kept[T]
	ahead   []entry[T]
	noted   map[id]struct{} // the objects of ahead
	changed map[object.Key]struct{}
	highest string
	initial bool
}

// kept is what the handler has of a key.
type kept[T object.Object] struct {
	key  object.Key
	have entry[T]
	ok   bool // false if it is deleted
}

// plan begins a save of all keys or of the changed ones. From now on, no addition begins that the save does not note.
func (b *book[T]) plan(base bool) *plan[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &plan[T]{codec: b.codec, base: base, noted: map[id]struct{}{}, highest: b.highest, initial: b.initial}
	b.unsaved = false
	if base {
		p.keys = make([]kept[T], 0, len(b.has))
		for key, have := range b.has {
			p.keys = append(p.keys, kept[T]{key, have, true})
		}
		p.changed, b.changed = b.changed, map[object.Key]struct{}{}
	} else {
		for key := range b.changed {
			have, ok := b.has[key]
			p.keys = append(p.keys, kept[T]{key, have, ok})
		}
	}
	for _, owed := range b.owed {
		for _, e := range owed {
			p.note(e)
		}
	}
	if !object.IsNil(b.underWay) {
		b.noteAheadLocked(p, b.underWay)
	}
	for _, obj := range b.waiting {
		b.noteAheadLocked(p, obj)
	}
	for i := range b.noted {
		if _, ok := p.noted[i]; !ok {
			delete(b.noted, i)
		}
	}
	return p
}

// noteAheadLocked notes obj in p, unless the handler has it.
func (b *book[T]) noteAheadLocked(p *plan[T], obj T) {
	if have, ok := b.has[object.KeyOf(obj)]; !ok || have.obj.GetUID() != obj.GetUID() {
		p.note(entry[T]{obj: obj})
	}
}

// note notes an addition.
func (p *plan[T]) note(e entry[T]) {
	i := idOf(e.obj)
	if _, ok := p.noted[i]; !ok {
		p.noted[i] = struct{}{}
		p.ahead = append(p.ahead, e)
		if version := e.obj.GetResourceVersion(); object.Older(p.highest, version) {
			p.highest = version // the next process must not compare with a store that is older
		}
	}
}

// saved ends a save.
func (b *book[T]) saved(p *plan[T], err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.unsaved = true
		for key := range p.changed {
			b.changed[key] = struct{}{}
		}
		return
	}
	b.noted = p.noted
	if b.waits {
		b.waits = !b.isNotedLocked(b.underWay)
	}
	if b.unsaved || b.waits {
		run.Signal(b.wake)
	}
	b.saves.Send()
}

// wants reports whether there is something to save, and whether an addition waits for that.
func (b *book[T]) wants() (unsaved, waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unsaved || b.waits, b.waits
}

// synced notes that the handler has all objects of the first start.
func (b *book[T]) synced() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.initial {
		b.initial, b.unsaved = false, true
	}
}

// quiet notes that no call of the handler is under way any more, and none follows. An addition that the storage has
// noted and that the handler has not received must leave the storage: the object may have been deleted meanwhile.
func (b *book[T]) quiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.underWay, b.waits, b.waiting = *new(T), false, nil
	for i := range b.noted {
		if !b.mayHaveLocked(i) {
			b.unsaved = true
			return
		}
	}
}

// records yields the records of a save.
func (p *plan[T]) records() iter.Seq[snapshotfile.Record] {
	return func(yield func(snapshotfile.Record) bool) {
		for i := range p.keys {
			k := &p.keys[i]
			if !k.ok {
				if !yield(p.codec.gone(k.key)) {
					return
				}
			} else if !yield(p.codec.encode(k.have)) {
				return
			}
		}
		for _, e := range p.ahead {
			r := p.codec.encode(e)
			r.Format |= recordAhead
			if !yield(r) {
				return
			}
		}
	}
}
