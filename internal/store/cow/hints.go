package cow

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// Hints is a hash table from names to slots. A lookup usually costs one cache line, where a [Tree] costs several
// accesses to memory, one after the other.
//
// Hints has no versions. All versions of a collection share one Hints, which can be ahead of each of them or behind.
// Its answers are hints: verify hits; on a miss, search the tree.
//
//	if b := h.Bucket(hash); b != nil {
//		for i := range b {
//			if slot, ok := b.Slot(i, hash); ok && matches(array.Find(slot)) {
//				return slot
//			}
//		}
//	}
//
// Any number of goroutines may call Hash, Bucket and Slot while one goroutine calls the other methods. Create one with
// [NewHints]; the zero value is not usable.
type Hints struct {
	seed    maphash.Seed
	buckets atomic.Pointer[[]Bucket] // a power of two of them; nil before the first Build
	used    int                      // names, with those that have no entry; only the writer accesses it
}

// Bucket has the entries of all names whose hashes select it. It is one cache line. The zero value is an empty bucket.
//
// An entry is 1 + a slot in the low slotBits, and the high bits of the hash above them. 0 means no entry. The low bits
// of the hash select the bucket: 21 of them at most, as each bucket has several of the slots.
type Bucket [16]atomic.Uint32

const (
	slotBits = 24 // names in higher slots have no entries
	slotMask = 1<<slotBits - 1
)

// NewHints returns an empty Hints.
func NewHints() *Hints { return &Hints{seed: maphash.MakeSeed()} }

// Hash returns the hash of a name in a space. It differs between two Hints.
func (h *Hints) Hash(space, name string) uint32 {
	return uint32(maphash.String(h.seed, name) ^ bits.RotateLeft64(maphash.String(h.seed, space), 1))
}

// Bucket returns the bucket of a hash, or nil before the first [Hints.Build].
func (h *Hints) Bucket(hash uint32) *Bucket {
	buckets := h.buckets.Load()
	if buckets == nil {
		return nil
	}
	return &(*buckets)[hash&uint32(len(*buckets)-1)]
}

// Slot returns the slot of entry i, and whether it can be the slot of a name with that hash.
func (b *Bucket) Slot(i int, hash uint32) (uint32, bool) {
	entry := b[i].Load()
	return entry&slotMask - 1, entry != 0 && entry>>slotBits == hash>>slotBits
}

// Put adds the slot of a name that has none. Put returns false, and does nothing, if the table is too small; the caller
// then calls [Hints.Build]. A name gets no entry if its bucket is full or if slot is 1<<24 - 1 or higher.
func (h *Hints) Put(hash, slot uint32) bool {
	b := h.Bucket(hash)
	if b == nil || h.used >= len(*h.buckets.Load())*len(b)*7/8 {
		return false
	}
	h.used++
	b.put(hash, slot)
	return true
}

// put adds an entry, if the bucket has room.
func (b *Bucket) put(hash, slot uint32) {
	if slot >= slotMask {
		return
	}
	for i := range b {
		if b[i].Load() == 0 {
			b[i].Store(hash&^slotMask | (slot + 1))
			return
		}
	}
}

// Drop removes the slot of a name, which Put or Build added.
func (h *Hints) Drop(hash, slot uint32) {
	b := h.Bucket(hash)
	if b == nil {
		return
	}
	h.used--
	for i := range b {
		if known, ok := b.Slot(i, hash); ok && known == slot {
			b[i].Store(0)
		}
	}
}

// Build replaces the contents of the table. names calls put for each of the count new names. Build makes the table
// large enough for some more.
func (h *Hints) Build(count int, names func(put func(hash, slot uint32))) {
	size := 1
	for size*len(Bucket{})*7/8 <= count {
		size *= 2
	}
	buckets := make([]Bucket, size)
	h.used = count
	names(func(hash, slot uint32) { buckets[hash&uint32(size-1)].put(hash, slot) })
	h.buckets.Store(&buckets)
}

// Len returns the number of names, including names that have no entry. Only the writer may call it.
func (h *Hints) Len() int { return h.used }

// Check returns an error that names a broken invariant, or nil. hashOf returns the hash of the name that has slot.
// Check visits every entry. Only the writer may call it.
func (h *Hints) Check(hashOf func(slot uint32) (hash uint32, ok bool)) error {
	buckets := h.buckets.Load()
	if buckets == nil {
		if h.used != 0 {
			return fmt.Errorf("%d names but no bucket", h.used)
		}
		return nil
	}
	entries := 0
	var seen []bool // by slot
	for number := range *buckets {
		b := &(*buckets)[number]
		for i := range b {
			entry := b[i].Load()
			if entry == 0 {
				continue
			}
			slot := entry&slotMask - 1
			hash, ok := hashOf(slot)
			switch {
			case !ok:
				return fmt.Errorf("an entry has slot %d, which has no name", slot)
			case int(slot) < len(seen) && seen[slot]:
				return fmt.Errorf("two entries have slot %d", slot)
			case h.Bucket(hash) != b:
				return fmt.Errorf("the entry of slot %d is in bucket %d, but its name selects another", slot, number)
			}
			if _, ok := b.Slot(i, hash); !ok {
				return fmt.Errorf("the entry of slot %d has bits of another hash", slot)
			}
			if more := int(slot) + 1 - len(seen); more > 0 {
				seen = append(seen, make([]bool, more)...)
			}
			seen[slot] = true
			entries++
		}
	}
	if entries > h.used {
		return fmt.Errorf("%d entries but %d names", entries, h.used)
	}
	return nil
}
