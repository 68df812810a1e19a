package informer

import "slices"

// Of each level, what a write copies is 136 bytes, and of the root 8 for each 4,096 objects. Larger ones make reads follow
// fewer pointers, and writes copy more.
const (
	levelBits = 4
	levelSize = 1 << levelBits
	levelMask = levelSize - 1
)

// versions is a persistent array of the objects of a snapshot, by slot: a published one never changes. It is what makes
// an update cheap: the trees, which are by name and by index keys, stay as they are. A write copies the page that an object
// is in and what leads there, each at most once a generation, and leaves all others shared.
//
// Only the writer calls set, with a generation that nothing published has.
type versions[T Object] struct {
	gen  uint64 // the generation that may write to root
	root []*volume[T]
}

type volume[T Object] struct {
	gen      uint64
	chapters [levelSize]*chapter[T]
}

type chapter[T Object] struct {
	gen   uint64
	pages [levelSize]*page[T]
}

type page[T Object] struct {
	gen     uint64
	objects [levelSize]T
}

// page returns the page that slot is in.
func (v *versions[T]) page(slot uint32) *page[T] {
	return v.root[slot>>(3*levelBits)].chapters[slot>>(2*levelBits)&levelMask].pages[slot>>levelBits&levelMask]
}

func (v *versions[T]) get(slot uint32) T { return v.page(slot).objects[slot&levelMask] }

// at returns the object at slot, the zero T when there is no such slot.
func (v *versions[T]) at(slot uint32) (obj T) {
	if i := slot >> (3 * levelBits); int(i) < len(v.root) {
		if chapter := v.root[i].chapters[slot>>(2*levelBits)&levelMask]; chapter != nil {
			if page := chapter.pages[slot>>levelBits&levelMask]; page != nil {
				obj = page.objects[slot&levelMask]
			}
		}
	}
	return obj
}

// set puts obj at slot, which may be one behind the last.
func (v *versions[T]) set(gen uint64, slot uint32, obj T) {
	if v.gen != gen {
		v.gen, v.root = gen, slices.Clone(v.root)
	}
	at := int(slot >> (3 * levelBits))
	if at == len(v.root) {
		v.root = append(v.root, &volume[T]{gen: gen})
	}
	vol := v.root[at]
	if vol.gen != gen {
		own := *vol
		own.gen = gen
		vol = &own
		v.root[at] = vol
	}
	chap := vol.chapters[slot>>(2*levelBits)&levelMask]
	if chap == nil || chap.gen != gen {
		var own chapter[T]
		if chap != nil {
			own = *chap
		}
		own.gen = gen
		chap = &own
		vol.chapters[slot>>(2*levelBits)&levelMask] = chap
	}
	pg := chap.pages[slot>>levelBits&levelMask]
	if pg == nil || pg.gen != gen {
		var own page[T]
		if pg != nil {
			own = *pg
		}
		own.gen = gen
		pg = &own
		chap.pages[slot>>levelBits&levelMask] = pg
	}
	pg.objects[slot&levelMask] = obj
}

// pageReader reads one object after the other, mostly from the same page.
type pageReader[T Object] struct {
	versions *versions[T]
	page     *page[T]
	number   uint32 // of page, counted from 1; 0 for none
}

func (r *pageReader[T]) get(slot uint32) T {
	if number := slot>>levelBits + 1; number != r.number {
		r.page, r.number = r.versions.page(slot), number
	}
	return r.page.objects[slot&levelMask]
}
