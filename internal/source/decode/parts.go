package decode

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// Parts lets the pools that are made with it share equal parts of objects, and their idle decoders. So informers of
// several clusters that run the same programs hold one copy of what is equal. The zero value is ready for use. It is
// safe for concurrent use.
//
// A part that a decoder has made is remembered by a weak pointer: it is freed when no object has it. The pointers take
// up to 17 MB. Beyond that, new parts replace old ones, which are then no longer shared with new objects.
type Parts struct {
	shards [partShards]partShard
	// generation is the number of times that somebody turned out to have written to a part. A decoder that is of an older
	// generation forgets all it has remembered, and does not pass on what it decodes until then.
	generation atomic.Uint64

	mu   sync.Mutex // protects the field below
	idle map[idleKey]*idle
}

// idleKey identifies decoders that can take the place of each other.
type idleKey struct {
	typ               reflect.Type
	keepManagedFields bool
}

// idle has the idle decoders of one pool, or of all pools with equal keys of one Parts.
type idle struct {
	doubt doubt
	first atomic.Pointer[Decoder] // one that the garbage collector does not free
	more  sync.Pool               // other ones, of type *Decoder
}

// idleOf returns the idle decoders of the pools with that key. A nil p returns new ones.
func (p *Parts) idleOf(key idleKey) *idle {
	if p == nil {
		return &idle{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.idle[key]
	if known == nil {
		known = &idle{}
		if p.idle == nil {
			p.idle = map[idleKey]*idle{}
		}
		p.idle[key] = known
	}
	return known
}

// distrust forgets all parts, because somebody has written to one of them. All decoders verify each object for a while.
func (p *Parts) distrust() {
	p.generation.Add(1)
	for i := range p.shards {
		p.shards[i].clear()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.idle {
		known.doubt.objects.Store(verifyAfter)
	}
}

const (
	partShards = 1 << 6 // a power of two
	minSets    = 1 << 2 // of a shard
	maxSets    = 1 << 10
	// setParts is the number of parts in a set.
	setParts = 4
	// tried is how many parts of a field are looked up before one judges whether that is worth it. Small collections are
	// then shared, too.
	tried = 32
	// One part in sampled is looked up although it seems not worth it.
	sampled = 8
)

// partShard has the parts whose hashes have the same lowest bits.
type partShard struct {
	mu      sync.Mutex // protects the fields below
	sets    [][setParts]remembered
	evicted int      // parts that objects have, since the last growth
	_       [24]byte // keeps another shard out of the cache line
}

// remembered is a part of an object.
type remembered struct {
	typ      reflect.Type
	id       partID
	len, cap uint32 // of a slice
	cost     uint32 // what the part took of the budget
	value    weak.Pointer[byte]
}

// partID identifies the encoded bytes of a part. Two different parts have the same one by chance once in 2^128: the
// seeds are random, so nobody can search for such parts.
type partID struct{ high, low uint64 }

var partSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func partIDOf(raw []byte) partID {
	return partID{maphash.Bytes(partSeeds[0], raw), maphash.Bytes(partSeeds[1], raw)}
}

// samples reports whether to look up a part although its field seems not worth it. The content decides and not chance:
// the same parts are samples in each cluster, so the first cluster remembers what the second one looks up.
func (h *hits) samples(raw []byte) bool {
	return h.tries < tried || maphash.Bytes(partSeeds[0], raw)%sampled == 0
}

func (p *Parts) shard(id partID) *partShard { return &p.shards[id.low%partShards] }

// find returns the part of type t with that id, and what it takes of the budget.
func (p *Parts) find(id partID, t reflect.Type) (value words, cost int, ok bool) {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		return words{}, 0, false
	}
	set := s.set(id)
	for i := range set {
		known := &set[i]
		if known.id != id || known.typ != t {
			continue
		}
		data := known.value.Value()
		if data == nil {
			return words{}, 0, false
		}
		value, cost = words{unsafe.Pointer(data), int(known.len), int(known.cap)}, int(known.cost)
		if i > 0 { // those that are found stay for longest
			set[i-1], set[i] = set[i], set[i-1]
		}
		return value, cost, true
	}
	return words{}, 0, false
}

// put remembers a part, unless somebody turned out to have written to parts since the given generation.
func (p *Parts) put(generation uint64, id partID, t reflect.Type, value words, cost budget) {
	if value.data == nil || t.Kind() == reflect.Slice && value.len == 0 || uint64(value.cap) >= 1<<32 ||
		uint64(cost) >= 1<<32 {
		return
	}
	part := remembered{typ: t, id: id, len: uint32(value.len), cap: uint32(value.cap), cost: uint32(cost),
		value: weak.Make((*byte)(value.data))}
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.generation.Load() != generation { // clear takes the lock after the generation has changed
		return
	}
	s.putLocked(part)
}

func (s *partShard) set(id partID) *[setParts]remembered {
	return &s.sets[id.high%uint64(len(s.sets))]
}

// putLocked adds a part to its set. It takes the place of the same part, of one that is freed, or of the last one.
func (s *partShard) putLocked(part remembered) {
	if s.sets == nil {
		s.sets = make([][setParts]remembered, minSets)
	}
	if s.evicted > len(s.sets) && len(s.sets) < maxSets {
		s.growLocked()
	}
	set := s.set(part.id)
	free := slices.IndexFunc(set[:], func(r remembered) bool { return r.id == part.id && r.typ == part.typ })
	if free < 0 {
		free = slices.IndexFunc(set[:], func(r remembered) bool { return r.typ == nil || r.value.Value() == nil })
	}
	if free < 0 {
		s.evicted++
		free = setParts - 1
	}
	set[free] = part
}

// growLocked makes room for twice as many parts.
func (s *partShard) growLocked() {
	old := s.sets
	s.sets, s.evicted = make([][setParts]remembered, 2*len(old)), 0
	for i := range old {
		for _, part := range old[i] {
			if part.typ != nil && part.value.Value() != nil {
				s.putLocked(part)
			}
		}
	}
	s.evicted = 0
}

func (s *partShard) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets, s.evicted = nil, 0
}
