package cow

import "slices"

// For pointers, a node has 136 bytes. A write copies one node on each of four levels, and the root slice, which has 8
// bytes for each 65,536 slots. With larger nodes, reads would follow fewer pointers and writes would copy more.
const (
	levelBits = 4
	levelSize = 1 << levelBits
	levelMask = levelSize - 1
)

// Array is a persistent array: a radix tree of fixed depth from slots to values. It behaves like a slice that is cloned
// before each write, but a write copies only four small nodes and the root. In exchange, a read follows four more
// pointers than with a slice.
//
// The zero value is an empty array. Copying an Array keeps its version; see the package documentation for generations
// and concurrency.
type Array[T any] struct {
	gen  uint64 // the generation that may write to root
	root []*shelf[T]
}

type shelf[T any] struct {
	gen     uint64
	volumes [levelSize]*volume[T]
}

type volume[T any] struct {
	gen      uint64
	chapters [levelSize]*chapter[T]
}

type chapter[T any] struct {
	gen   uint64
	pages [levelSize]*page[T]
}

type page[T any] struct {
	gen    uint64
	values [levelSize]T
}

// Get returns the value at slot. It panics or returns the zero T if slot was never set; [Array.Find] is for such slots.
func (a *Array[T]) Get(slot uint32) T { return a.page(slot).values[slot&levelMask] }

// Find returns the value at slot, or the zero T if slot was never set.
func (a *Array[T]) Find(slot uint32) (value T) {
	i := slot >> (4 * levelBits)
	if int(i) >= len(a.root) {
		return value
	}
	if vol := a.root[i].volumes[slot>>(3*levelBits)&levelMask]; vol != nil {
		if chap := vol.chapters[slot>>(2*levelBits)&levelMask]; chap != nil {
			if pg := chap.pages[slot>>levelBits&levelMask]; pg != nil {
				value = pg.values[slot&levelMask]
			}
		}
	}
	return value
}

// Set sets the value at slot. The array grows one slot at a time: slot must be at most one above the highest slot that
// was set before.
func (a *Array[T]) Set(gen uint64, slot uint32, value T) {
	if a.gen != gen {
		a.gen, a.root = gen, slices.Clone(a.root)
	}
	index := int(slot >> (4 * levelBits))
	if index == len(a.root) {
		a.root = append(a.root, &shelf[T]{gen: gen})
	}
	sh := a.root[index]
	if sh.gen != gen {
		own := *sh
		own.gen = gen
		sh = &own
		a.root[index] = sh
	}
	vol := sh.volumes[slot>>(3*levelBits)&levelMask]
	if vol == nil || vol.gen != gen {
		var own volume[T]
		if vol != nil {
			own = *vol
		}
		own.gen = gen
		vol = &own
		sh.volumes[slot>>(3*levelBits)&levelMask] = vol
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
	pg.values[slot&levelMask] = value
}

// page returns the page of slot.
func (a *Array[T]) page(slot uint32) *page[T] {
	vol := a.root[slot>>(4*levelBits)].volumes[slot>>(3*levelBits)&levelMask]
	return vol.chapters[slot>>(2*levelBits)&levelMask].pages[slot>>levelBits&levelMask]
}

// ArrayReader reads values of one version of an [Array]. It remembers the last page, so it is faster than [Array.Get]
// if consecutive reads are mostly of nearby slots. It must not be used concurrently, nor after a write to that version.
// Create one with [Array.Reader].
type ArrayReader[T any] struct {
	array  *Array[T]
	page   *page[T]
	number uint32 // 1 + the number of page; 0 if page is nil
}

// Reader returns an [ArrayReader] of a.
func (a *Array[T]) Reader() ArrayReader[T] { return ArrayReader[T]{array: a} }

// Get returns the value at slot. It panics or returns the zero T if slot was never set.
func (r *ArrayReader[T]) Get(slot uint32) T {
	if number := slot>>levelBits + 1; number != r.number {
		r.page, r.number = r.array.page(slot), number
	}
	return r.page.values[slot&levelMask]
}
