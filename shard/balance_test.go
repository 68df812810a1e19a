package shard

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/typedinformer/informer"
)

// With at least eight slots for each replica, the largest shard is at most a quarter above the mean, both by slots and
// by objects hashed by UID. Objects hashed by namespace are not balanced: the first bits of an FNV-1a hash hardly
// depend on the last three characters, so namespaces whose names differ only in those share a few slots. With -v, the
// test prints the tables of docs/scale.md.
func TestBalance(t *testing.T) {
	const objects = 1_000_000
	random := rand.New(rand.NewPCG(1, 4))
	uids := map[int][]int{256: make([]int, 256), 1024: make([]int, 1024), 4096: make([]int, 4096)} // of each slot, by the number of slots
	for range objects {
		hash := informer.HashOf(uidOf(random.Uint64(), random.Uint64()))
		for slots, counts := range uids {
			counts[slotOf(hash, slots)]++
		}
	}
	named := []struct {
		what  string
		names []string
	}{
		{"team-1 … team-99", numbered("team-%d", 1, 99)},
		{"team-001 … team-999", numbered("team-%03d", 1, 999)},
		{"tenant-000001 … tenant-010000", numbered("tenant-%06d", 1, 10_000)},
		{"words, such as payments-eu-prod", words(random, 1000)},
		{"10,000 random ids, such as p-x7k2m", ids(random, 10_000)},
	}
	var b strings.Builder
	b.WriteString("\n| replicas | slots | slots of the largest shard, of the mean | objects by UID | hashes that its informers hold | slots that move when a replica joins, of the ideal |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, n := range []int{3, 10, 30, 100, 300} {
		for _, slots := range []int{256, 1024, 4096} {
			owners := plan(numbered("group-%016x", 1, n), slots)
			bySlot, byUID := imbalance(owners, n, nil), imbalance(owners, n, uids[slots])
			fmt.Fprintf(&b, "| %d | %d | %.2f | %.2f | %.2f | %.2f |\n", n, slots, bySlot, byUID, heldBy(owners, n), movedBy(owners, n))
			if slots >= 8*n && (bySlot > 1.25 || byUID > 1.25) {
				t.Errorf("%d replicas, %d slots: the largest shard has %.2f of the mean of the slots, and %.2f of the objects", n, slots, bySlot, byUID)
			}
		}
	}
	b.WriteString("\n| namespaces, all of the same size | number | different slots of 256 | of 4,096 | 3 replicas: largest shard, of the mean | 10 | 30 | 100 |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range named {
		hashes := make([]uint64, len(c.names))
		for i, name := range c.names {
			hashes[i] = informer.HashOf(name)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d |", c.what, len(c.names), different(hashes, 256), different(hashes, 4096))
		counts := make([]int, 1024)
		for _, hash := range hashes {
			counts[slotOf(hash, len(counts))]++
		}
		for _, n := range []int{3, 10, 30, 100} {
			fmt.Fprintf(&b, " %.1f |", imbalance(plan(numbered("group-%016x", 1, n), len(counts)), n, counts))
		}
		b.WriteByte('\n')
	}
	t.Log(b.String())
}

// imbalance returns the load of the largest shard, divided by the mean. counts is the load of each slot; it is one if counts
// is nil.
func imbalance(owners []int, replicas int, counts []int) float64 {
	load, total := make([]int, replicas), 0
	for slot, owner := range owners {
		n := 1
		if counts != nil {
			n = counts[slot]
		}
		load[owner] += n
		total += n
	}
	return float64(slices.Max(load)) * float64(replicas) / float64(total)
}

// heldBy returns the largest part of all hashes that is in the shard of a replica, divided by the mean. A shard has at most [maxRanges]
// ranges, and then includes hashes of others.
func heldBy(owners []int, replicas int) float64 {
	most := 0.0
	for i := range replicas {
		set := make(slotSet, len(owners))
		for slot, owner := range owners {
			set[slot] = owner == i
		}
		held := 0.0
		for _, r := range set.shard(informer.ShardByUID).Ranges {
			held += float64(r.Last-r.First) / (1 << 64)
		}
		most = max(most, held)
	}
	return most * float64(replicas)
}

// movedBy returns how many slots move when a replica joins, divided by the mean number of slots of a replica. It
// averages ten joins.
func movedBy(owners []int, replicas int) float64 {
	const rounds = 10
	moved := 0
	for i := range rounds {
		names := append(numbered("group-%016x", 1, replicas), fmt.Sprintf("group-joined-%d", i))
		for slot, owner := range plan(names, len(owners)) {
			if owner != owners[slot] {
				moved++
			}
		}
	}
	return float64(moved) / rounds / float64(len(owners)) * float64(replicas+1)
}

// different returns the number of slots in which there is a hash.
func different(hashes []uint64, slots int) int {
	set := make(slotSet, slots)
	for _, h := range hashes {
		set[slotOf(h, slots)] = true
	}
	return set.count()
}

// uidOf returns the UID, a UUID of version 4, with these random bits.
func uidOf(a, b uint64) string {
	raw := binary.BigEndian.AppendUint64(nil, a&^0xf000|0x4000)
	text := hex.EncodeToString(binary.BigEndian.AppendUint64(raw, b&^(3<<62)|1<<63))
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

func numbered(format string, first, last int) (names []string) {
	for i := first; i <= last; i++ {
		names = append(names, fmt.Sprintf(format, i))
	}
	return names
}

// words returns names of a team, a place and a stage.
func words(random *rand.Rand, n int) (names []string) {
	parts := [][]string{
		strings.Fields("payments billing search checkout catalog identity ledger shipping pricing fraud media mail reports audit orders stock loyalty partner mobile web data ml infra edge gateway"),
		strings.Fields("api core batch worker jobs ui sync import export store"),
		strings.Fields("eu us ap eu-west us-east"),
		strings.Fields("prod staging dev test"),
	}
	seen := map[string]bool{}
	for len(names) < n {
		var name []string
		for _, p := range parts {
			name = append(name, p[random.IntN(len(p))])
		}
		if joined := strings.Join(name, "-"); !seen[joined] {
			seen[joined] = true
			names = append(names, joined)
		}
	}
	return names
}

// ids returns names with five random characters, such as those of generateName.
func ids(random *rand.Rand, n int) (names []string) {
	const characters = "bcdfghjklmnpqrstvwxz2456789"
	for range n {
		id := []byte("p-")
		for range 5 {
			id = append(id, characters[random.IntN(len(characters))])
		}
		names = append(names, string(id))
	}
	return names
}
