package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/typedinformer/informer"
)

func setOf(slots int, members ...int) slotSet {
	s := make(slotSet, slots)
	for _, slot := range members {
		s[slot] = true
	}
	return s
}

func TestSlotsAsText(t *testing.T) {
	for _, c := range []struct {
		set  slotSet
		text string
	}{
		{setOf(8), ""},
		{setOf(8, 0), "0"},
		{setOf(8, 0, 1, 2, 5, 7), "0-2,5,7"},
		{setOf(8, 0, 1, 2, 3, 4, 5, 6, 7), "0-7"},
		{setOf(1, 0), "0"},
	} {
		if got := c.set.String(); got != c.text {
			t.Errorf("%v is %q, want %q", c.set, got, c.text)
		}
		if got, err := parseSlots(c.text, len(c.set)); err != nil || !slices.Equal(got, c.set) {
			t.Errorf("%q is %v, %v; want %v", c.text, got, err, c.set)
		}
	}
	for _, text := range []string{"8", "-1", "a", "1,1", "2,1", "3-2", "1-8", ",", "1,", "0-", "-", "99999999999999999999", "0-3,2"} {
		if got, err := parseSlots(text, 8); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func FuzzParseSlots(f *testing.F) {
	for _, text := range []string{"", "0", "0-2,5,7", "0-255", "1,1", "a", "0-99999999999999999999", "255-"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSlots(text, 256)
		if err != nil {
			return
		}
		if again, err := parseSlots(s.String(), 256); err != nil || !slices.Equal(again, s) {
			t.Errorf("%q is %v, and %q is %v, %v", text, s, s, again, err)
		}
	})
}

// The shard of a set of slots has exactly the hashes of its slots, or of more slots if it would have too many ranges.
func TestShardOfSlots(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, slots := range []int{1, 2, 16, 256, 4096} {
		for round := range 50 {
			set := make(slotSet, slots)
			for i := range set {
				set[i] = random.IntN(50) < round
			}
			shard := set.shard(informer.ShardByUID)
			if len(shard.Ranges) > maxRanges {
				t.Fatalf("%d slots: %d ranges", slots, len(shard.Ranges))
			}
			exact := len(slices.Collect(set.runs())) <= maxRanges
			for range 500 {
				h := random.Uint64()
				has := slices.ContainsFunc(shard.Ranges, func(r informer.HashRange) bool { return r.First <= h && h <= r.Last })
				if want := set[slotOf(h, slots)]; has != want && (exact || want) {
					t.Fatalf("%d slots: hash %#x is in the shard: %v, want %v", slots, h, has, want)
				}
			}
		}
	}
	for _, h := range []uint64{0, 1<<60 - 1, 1 << 60, math.MaxUint64} {
		if got, want := slotOf(h, 16), int(h>>60); got != want {
			t.Errorf("the slot of %#x is %d, want %d", h, got, want)
		}
	}
	if got := setOf(16).shard(informer.ShardByUID); !slices.Equal(got.Ranges, []informer.HashRange{{}}) {
		t.Errorf("the shard without slots is %v: empty ranges mean all objects", got.Ranges)
	}
}

// A replica that joins takes its slots from the others, and no slot moves between those; one that leaves gives them its own. The bound of
// slots for a replica moves some more.
func TestPlanMovesFewSlots(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 10, 30, 100} {
		slots := 1024
		var replicas []string
		for i := range n + 1 {
			replicas = append(replicas, fmt.Sprint("replica-", i))
		}
		before, after := plan(replicas[:n], slots), plan(replicas, slots)
		moved, between := 0, 0
		load := make([]int, n+1)
		for slot := range slots {
			load[after[slot]]++
			if before[slot] != after[slot] {
				moved++
				if after[slot] != n {
					between++
				}
			}
		}
		share := float64(slots) / float64(n+1)
		if float64(moved) > 1.6*share || float64(moved) < share*0.6 {
			t.Errorf("with %d replicas and one more, %d slots move, want about %.0f", n, moved, share)
		}
		if n <= 5 && between > slots/50 {
			t.Errorf("with %d replicas and one more, %d slots move between the others", n, between)
		}
		if most := slices.Max(load); float64(most) > math.Ceil(1.1*share) {
			t.Errorf("of %d replicas, one has %d slots, want at most a tenth more than %.0f", n+1, most, share)
		}
	}
}

func TestPlanDoesNotDependOnTheOrder(t *testing.T) {
	a := []string{"x", "y", "z"}
	b := []string{"z", "x", "y"}
	for slot, i := range plan(a, 256) {
		if j := plan(b, 256)[slot]; a[i] != b[j] {
			t.Fatalf("slot %d belongs to %s or %s", slot, a[i], b[j])
		}
	}
	if owners := plan(nil, 4); !slices.Equal(owners, []int{-1, -1, -1, -1}) {
		t.Errorf("without replicas, the owners are %v", owners)
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = strings.Repeat("r", i+1)
	}
	if owners := plan(many, 16); slices.Contains(owners, -1) {
		t.Errorf("with more replicas than slots, the owners are %v", owners)
	}
}
