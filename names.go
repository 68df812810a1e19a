package informer

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// names finds the slots of objects by their names, without the walk down a tree that waits for memory at each step. All
// snapshots of a store share it, and it may be ahead of them or behind: what it says is only where to look, and what it does
// not know may be there all the same.
//
// Only the writer of the store calls put, drop and build.
type names struct {
	seed    maphash.Seed
	buckets atomic.Pointer[[]nameBucket] // a power of two
	used    int                          // entries, of the writer
}

// nameBucket has 1 + the slots of names whose hashes lead to it, each with 8 more bits of the hash above; 0 is none. It is a
// cache line.
type nameBucket [16]atomic.Uint32

const (
	nameSlotBits = 24 // objects in higher slots are found by the tree
	nameSlotMask = 1<<nameSlotBits - 1
)

func newNames() *names { return &names{seed: maphash.MakeSeed()} }

func (n *names) hash(key Key) uint64 {
	return maphash.String(n.seed, key.Name) ^ bits.RotateLeft64(maphash.String(n.seed, key.Namespace), 1)
}

// bucket returns where a name with that hash is, if it is known, nil before there is any.
func (n *names) bucket(hash uint64) *nameBucket {
	buckets := n.buckets.Load()
	if buckets == nil {
		return nil
	}
	return &(*buckets)[hash&uint64(len(*buckets)-1)]
}

// slot returns the slot of the name with that hash, if entry i may be of it.
func (b *nameBucket) slot(i int, hash uint64) (uint32, bool) {
	entry := b[i].Load()
	return entry&nameSlotMask - 1, entry != 0 && entry>>nameSlotBits == uint32(hash>>(64-(32-nameSlotBits)))
}

func (b *nameBucket) put(hash uint64, slot uint32) {
	if slot >= nameSlotMask {
		return
	}
	for i := range b {
		if b[i].Load() == 0 {
			b[i].Store(uint32(hash>>(64-(32-nameSlotBits)))<<nameSlotBits | (slot + 1))
			return
		}
	}
}

// put notes a new name. It returns false when there are too many names by now: then build has to be called.
func (n *names) put(hash uint64, slot uint32) bool {
	b := n.bucket(hash)
	if b == nil || n.used >= len(*n.buckets.Load())*len(b)*7/8 {
		return false
	}
	n.used++
	b.put(hash, slot)
	return true
}

func (n *names) drop(hash uint64, slot uint32) {
	b := n.bucket(hash)
	if b == nil {
		return
	}
	n.used--
	for i := range b {
		if known, ok := b.slot(i, hash); ok && known == slot {
			b[i].Store(0)
		}
	}
}

// build notes all names, which each yields: so many, and room for some more.
func (n *names) build(count int, each func(note func(hash uint64, slot uint32))) {
	size := 1
	for size*len(nameBucket{})*7/8 <= count {
		size *= 2
	}
	buckets := make([]nameBucket, size)
	n.used = count
	each(func(hash uint64, slot uint32) { buckets[hash&uint64(size-1)].put(hash, slot) })
	n.buckets.Store(&buckets)
}
