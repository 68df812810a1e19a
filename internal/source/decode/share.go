package decode

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"reflect"
	"unsafe"
	"weak"
)

// interner stores equal strings once. Most strings of a collection repeat, like the names of images, nodes and ports.
// It remembers a limited number of strings, and prefers those that repeat to new ones.
type interner struct {
	sets [][2]string // by hash; in each set, the string that repeated comes first
	new  int         // new strings since the last growth
}

const (
	minInterned = 1 << 6
	maxInterned = 1 << 12
	// maxInternedString is the maximum length of a string that is remembered.
	maxInternedString = 256
)

func newInterner() *interner {
	return &interner{sets: make([][2]string, minInterned)}
}

// get returns text as a string.
func (n *interner) get(text []byte) string {
	if len(text) == 0 || len(text) > maxInternedString {
		return string(text)
	}
	set := &n.sets[hashOf(text)&uint64(len(n.sets)-1)]
	if set[0] == string(text) {
		return set[0]
	}
	if set[1] == string(text) {
		set[0], set[1] = set[1], set[0]
		return set[0]
	}
	s := string(text)
	set[1] = s
	if n.new++; n.new > 4*len(n.sets) && len(n.sets) < maxInterned {
		n.grow()
	}
	return s
}

// grow makes the table four times as large.
func (n *interner) grow() {
	old := n.sets
	n.sets, n.new = make([][2]string, 4*len(old)), 0
	for _, set := range old {
		for _, s := range []string{set[1], set[0]} {
			if s != "" {
				to := &n.sets[hashOf([]byte(s))&uint64(len(n.sets)-1)]
				to[0], to[1] = s, to[0]
			}
		}
	}
}

// hashOf is fast rather than good: it looks only at the ends of text. Strings in the same set evict each other, nothing
// worse.
func hashOf(text []byte) uint64 {
	const odd = 0x9e3779b97f4a7c15
	var a, b uint64
	switch n := len(text); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(text)), uint64(binary.LittleEndian.Uint32(text[n-4:]))
	default:
		a, b = uint64(text[0]), uint64(text[n/2])<<8|uint64(text[n-1])
	}
	high, low := bits.Mul64(a^uint64(len(text))*odd, b^odd)
	return high ^ low
}

// sharer lets pointers, slices and maps that were decoded from the same bytes share one value. It remembers a limited
// number of values. The garbage collector may free it between two objects, so it keeps nothing alive for long.
type sharer struct {
	parts      *Parts // of several decoders, which remember for longer; nil for none
	generation uint64 // of parts
	format     Format // of the encoded values: the same bytes mean something else in another one
	seed       maphash.Seed
	sets       [1 << 11]sharedSet
}

// sharedSet has the values of one hash. The one that was found comes first. A new value replaces the second one, so
// values that never repeat replace only each other. After patience new values the first one makes room: two values that
// all objects have, and that by chance have one set, would otherwise replace each other for ever.
type sharedSet struct {
	values [2]sharedValue
	since  int // new values since the first one was found
}

const patience = 8

// sharedValue is a decoded pointer, map or slice.
type sharedValue struct {
	typ   reflect.Type
	raw   string // the encoded value
	cost  int    // what it took of the budget
	value words
}

// maxShared is the maximum length of an encoded value that is remembered.
const maxShared = 4 << 10

// weakSharer is a sharer that the garbage collector may free. The zero value is ready for use.
type weakSharer struct {
	weak.Pointer[sharer]
	format Format
}

// get returns the sharer. parts is the same in each call.
func (w *weakSharer) get(parts *Parts) *sharer {
	s := w.Value()
	if s == nil || parts != nil && s.generation != parts.generation.Load() {
		s = &sharer{seed: maphash.MakeSeed(), parts: parts, format: w.format}
		if parts != nil {
			s.generation = parts.generation.Load()
		}
		w.Pointer = weak.Make(s)
	}
	return s
}

func (s *sharer) set(raw []byte) *sharedSet {
	return &s.sets[maphash.Bytes(s.seed, raw)&uint64(len(s.sets)-1)]
}

// partID returns the ID of a part that is encoded in the format of s.
func (s *sharer) partID(raw []byte) partID {
	id := partIDOf(raw)
	id.high ^= uint64(s.format)
	return id
}

// wants reports whether to look for a value that was decoded from raw, in a field with these hits. A nil s wants none.
func (s *sharer) wants(h *hits, raw []byte) bool {
	return s != nil && (h.worth() || s.parts != nil && h.samples(raw))
}

// find sets the t at p to the value that was decoded from raw, and returns what that takes of the budget. It returns
// false if none is remembered.
func (s *sharer) find(raw []byte, t reflect.Type, p unsafe.Pointer) (cost int, ok bool) {
	set := s.set(raw)
	for i := range set.values {
		known := &set.values[i]
		if known.typ != t || known.raw != string(raw) {
			continue
		}
		if t.Kind() == reflect.Slice {
			*(*words)(p) = known.value
		} else {
			*(*unsafe.Pointer)(p) = known.value.data
		}
		cost = known.cost
		if i == 1 {
			set.values[0], set.values[1] = set.values[1], set.values[0]
		}
		set.since = 0
		return cost, true
	}
	if s.parts == nil {
		return 0, false
	}
	value, cost, ok := s.parts.find(s.partID(raw), t)
	if !ok {
		return 0, false
	}
	if t.Kind() == reflect.Slice {
		*(*words)(p) = value
	} else {
		*(*unsafe.Pointer)(p) = value.data
	}
	s.remember(raw, t, value, budget(cost))
	return cost, true
}

// put remembers the t at p, which was decoded from raw and took cost of the budget.
func (s *sharer) put(raw []byte, t reflect.Type, p unsafe.Pointer, cost budget) {
	value := words{data: *(*unsafe.Pointer)(p)}
	if t.Kind() == reflect.Slice {
		value = *(*words)(p)
	}
	s.remember(raw, t, value, cost)
	if s.parts != nil {
		s.parts.put(s.generation, s.partID(raw), t, value, cost)
	}
}

// remember remembers a value until the next garbage collection.
func (s *sharer) remember(raw []byte, t reflect.Type, value words, cost budget) {
	if len(raw) > maxShared {
		return
	}
	set := s.set(raw)
	if set.since++; set.values[0].typ == nil || set.since > patience {
		set.values[0], set.since = set.values[1], 0
	}
	set.values[1] = sharedValue{typ: t, raw: string(raw), cost: int(cost), value: value}
}

// hits counts for one field of a type how often a value to share was found.
type hits struct{ turns, tries, hits uint8 }

// worth reports whether to look for a value to share: always if at least one try in four is a hit, otherwise every 32nd
// time.
func (h *hits) worth() bool {
	h.turns++
	return 4*int(h.hits) >= int(h.tries) || h.turns%32 == 0
}

func (h *hits) note(hit bool) {
	if h.tries == 64 {
		h.tries, h.hits = h.tries/2, h.hits/2
	}
	h.tries++
	if hit {
		h.hits++
	}
}
