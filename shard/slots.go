package shard

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/typedinformer/informer"
)

// slotSet is a set of slots. All sets of a group have the same length.
type slotSet []bool

// slotOf returns the slot of a hash: the slots divide the hashes into ranges of equal length, in order.
func slotOf(hash uint64, slots int) int {
	if slots == 1 {
		return 0
	}
	return int(hash >> (64 - bits.TrailingZeros(uint(slots))))
}

func (s slotSet) count() int {
	n := 0
	for _, has := range s {
		if has {
			n++
		}
	}
	return n
}

// common returns the number of slots in both sets.
func (s slotSet) common(other slotSet) int { return s.and(other).count() }

// and returns the slots in both sets.
func (s slotSet) and(other slotSet) slotSet {
	both := make(slotSet, len(s))
	for slot, has := range s {
		both[slot] = has && other[slot]
	}
	return both
}

// within reports whether other has all slots of s.
func (s slotSet) within(other slotSet) bool {
	for slot, has := range s {
		if has && !other[slot] {
			return false
		}
	}
	return true
}

// slotRun is a range of slots, first and last included.
type slotRun struct{ first, last int }

// runs returns the slots as ranges, in order.
func (s slotSet) runs() iter.Seq[slotRun] {
	return func(yield func(slotRun) bool) {
		for i := 0; i < len(s); i++ {
			if !s[i] {
				continue
			}
			first := i
			for i+1 < len(s) && s[i+1] {
				i++
			}
			if !yield(slotRun{first, i}) {
				return
			}
		}
	}
}

// String returns the slots in order, like "0-3,17,40-44".
func (s slotSet) String() string {
	var b strings.Builder
	for r := range s.runs() {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(r.first))
		if r.last > r.first {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(r.last))
		}
	}
	return b.String()
}

// parseSlots parses the result of String.
func parseSlots(text string, slots int) (slotSet, error) {
	s := make(slotSet, slots)
	if text == "" {
		return s, nil
	}
	next := 0
	for part := range strings.SplitSeq(text, ",") {
		a, b, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(a)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(b)
		}
		if err != nil || first < next || last < first || last >= slots {
			return nil, fmt.Errorf("%.20q must be a range of the %d slots that follows the previous range", part, slots)
		}
		for i := first; i <= last; i++ {
			s[i] = true
		}
		next = last + 1
	}
	return s, nil
}

// maxRanges is the largest number of ranges that [informer.Shard] accepts.
const maxRanges = 64

// shard returns the shard with these slots. If a request cannot name that many ranges, the shard also includes the
// slots of the smallest gaps. Without slots, the shard has a single hash, since an empty shard means all objects.
func (s slotSet) shard(field informer.ShardField) informer.Shard {
	all := slices.Collect(s.runs())
	for len(all) > maxRanges {
		least := 1
		for i := 2; i < len(all); i++ {
			if all[i].first-all[i-1].last < all[least].first-all[least-1].last {
				least = i
			}
		}
		all[least-1].last = all[least].last
		all = slices.Delete(all, least, least+1)
	}
	shard := informer.Shard{Field: field, Ranges: []informer.HashRange{{}}}
	if len(all) > 0 {
		shard.Ranges = shard.Ranges[:0]
	}
	width := bits.TrailingZeros(uint(len(s)))
	for _, r := range all {
		first, last := uint64(0), ^uint64(0)
		if width > 0 {
			first, last = uint64(r.first)<<(64-width), uint64(r.last+1)<<(64-width)-1
		}
		shard.Ranges = append(shard.Ranges, informer.HashRange{First: first, Last: last})
	}
	return shard
}
