package cow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// After the same writes, an array equals a slice. So does each earlier version, and writes that the writer abandons change
// none of them.
func TestArrayAndItsVersionsEqualASlice(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var array Array[int]
			var model []int
			type version struct {
				array Array[int]
				model []int
			}
			var kept []version
			for gen := range uint64(50) {
				gen = 2*gen + 1
				abandoned := array
				for range random.IntN(100) {
					abandoned.Set(gen, uint32(random.IntN(len(model)+1)), -1)
				}
				gen++
				for range random.IntN(300) {
					value := random.Int()
					slot := len(model)
					if random.IntN(3) > 0 && slot > 0 {
						slot = random.IntN(slot)
						model[slot] = value
					} else {
						model = append(model, value)
					}
					array.Set(gen, uint32(slot), value)
				}
				if err := array.Check(); err != nil {
					t.Fatal(err)
				}
				kept = append(kept, version{array, slices.Clone(model)})
			}
			for i, v := range kept {
				reader := v.array.Reader()
				for slot, want := range v.model {
					slot := uint32(slot)
					if got := []int{v.array.Get(slot), v.array.Find(slot), reader.Get(slot)}; !slices.Equal(got, []int{want, want, want}) {
						t.Fatalf("version %d: slot %d: Get, Find and the reader return %v, want %d", i+1, slot, got, want)
					}
				}
				for range 100 { // on distant pages
					slot := uint32(random.IntN(len(v.model) + 1))
					if int(slot) < len(v.model) && reader.Get(slot) != v.model[slot] {
						t.Fatalf("version %d: slot %d is %d, want %d", i+1, slot, reader.Get(slot), v.model[slot])
					}
				}
				for _, slot := range []uint32{uint32(len(v.model)) + 5000, uint32(len(v.model)) + 100_000, 1 << 31} {
					if got := v.array.Find(slot); got != 0 {
						t.Fatalf("version %d: Find(%d) = %d", i+1, slot, got)
					}
				}
			}
		})
	}
}

// A write copies the shelf, the volume, the chapter and the page of a slot, and shares all others. A second write of a
// generation copies nothing.
func TestWriteToAnArrayCopiesOneNodePerLevel(t *testing.T) {
	var array Array[*int]
	const n = 3 << (4 * levelBits)
	for slot := range uint32(n) {
		array.Set(1, slot, new(int))
	}
	next := array
	next.Set(2, n/2, nil)
	// nodes returns the node of slot on each level.
	nodes := func(a *Array[*int], slot uint32) [4]any {
		sh := a.root[slot>>(4*levelBits)]
		vol := sh.volumes[slot>>(3*levelBits)&levelMask]
		chap := vol.chapters[slot>>(2*levelBits)&levelMask]
		return [4]any{sh, vol, chap, chap.pages[slot>>levelBits&levelMask]}
	}
	for slot := uint32(0); slot < n; slot += levelSize {
		before, after := nodes(&array, slot), nodes(&next, slot)
		for level, shift := range []int{4 * levelBits, 3 * levelBits, 2 * levelBits, levelBits} {
			if written := slot>>shift == n/2>>shift; written == (before[level] == after[level]) {
				t.Fatalf("slot %d, level %d: written to: %t, shared: %t", slot, level, written, !written)
			}
		}
	}
	if array.Get(n/2) == nil || next.Get(n/2) != nil {
		t.Error("the write changed the earlier version")
	}
	gen := uint64(2)
	if allocs := testing.AllocsPerRun(100, func() {
		own := array
		gen++
		own.Set(gen, n/2, nil)
	}); allocs > 5 { // root, shelf, volume, chapter and page
		t.Errorf("a write makes %v allocations", allocs)
	}
	if allocs := testing.AllocsPerRun(100, func() { next.Set(2, n/2+1, nil) }); allocs != 0 {
		t.Errorf("a second write of a generation makes %v allocations", allocs)
	}
}

// Check reports a node that is newer than its parent, on each level.
func TestArrayCheckReportsEachBrokenInvariant(t *testing.T) {
	for want, spoil := range map[string]func(a *Array[int]){
		"":        func(*Array[int]) {},
		"shelf 0": func(a *Array[int]) { a.root[0].gen++ },
		"volume 1 of shelf 0 has generation 2, the shelf has 1": func(a *Array[int]) { a.root[0].volumes[1].gen++ },
		"volume 0 of shelf 0: chapter 1 has generation 2, the volume has 1": func(a *Array[int]) {
			a.root[0].volumes[0].chapters[1].gen++
		},
		"volume 0 of shelf 0: page 2 of chapter 0 has generation 2, the chapter has 1": func(a *Array[int]) {
			a.root[0].volumes[0].chapters[0].pages[2].gen++
		},
	} {
		var array Array[int]
		for slot := range uint32(5000) {
			array.Set(1, slot, 1)
		}
		spoil(&array)
		switch err := array.Check(); {
		case err == nil && want != "":
			t.Errorf("%s: Check returned nil", want)
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
