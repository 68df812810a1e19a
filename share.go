package informer

import "hash/maphash"

// interner makes equal strings one string: most strings of a collection repeat, like the names of images, nodes and
// ports. It remembers a limited number of them, and keeps what repeats rather than what is new.
type interner struct {
	seed maphash.Seed
	sets [][2]string // by hash; in each the one that was asked for again comes first
	new  int         // strings that were new since the last growth
}

const (
	minInterned = 1 << 6
	maxInterned = 1 << 12
	// maxInternedString is the length of the longest string that is remembered.
	maxInternedString = 256
)

func newInterner() *interner {
	return &interner{seed: maphash.MakeSeed(), sets: make([][2]string, minInterned)}
}

// get returns text as a string.
func (n *interner) get(text []byte) string {
	if len(text) == 0 || len(text) > maxInternedString {
		return string(text)
	}
	set := &n.sets[maphash.Bytes(n.seed, text)&uint64(len(n.sets)-1)]
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
				to := &n.sets[maphash.String(n.seed, s)&uint64(len(n.sets)-1)]
				to[0], to[1] = s, to[0]
			}
		}
	}
}
