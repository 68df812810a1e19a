package cow

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// candidates returns the slots that h suggests for a name.
func candidates(h *Hints, space, name string) (slots []uint32) {
	hash := h.Hash(space, name)
	if b := h.Bucket(hash); b != nil {
		for i := range b {
			if slot, ok := b.Slot(i, hash); ok {
				slots = append(slots, slot)
			}
		}
	}
	return slots
}

// check calls h.Check for the names of model, all in space "s".
func check(h *Hints, model map[string]uint32) error {
	names := map[uint32]string{}
	for name, slot := range model {
		names[slot] = name
	}
	if h.Len() != len(model) {
		return fmt.Errorf("Len = %d, want %d", h.Len(), len(model))
	}
	return h.Check(func(slot uint32) (uint32, bool) {
		name, ok := names[slot]
		return h.Hash("s", name), ok
	})
}

// After the same writes, Hints suggests the slot of nearly every name in a map, and no slot that was dropped.
func TestHintsEqualAMapButForFullBuckets(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		h, model := NewHints(), map[string]uint32{}
		if got := candidates(h, "s", "n"); got != nil {
			t.Fatalf("seed %d: without names: %v", seed, got)
		}
		if err := check(h, model); err != nil {
			t.Fatalf("seed %d: without names: %v", seed, err)
		}
		next := uint32(0)
		for step := range 5000 {
			if step%500 == 0 {
				if err := check(h, model); err != nil {
					t.Fatalf("seed %d: step %d: %v", seed, step, err)
				}
			}
			name := fmt.Sprint("n", random.IntN(2000))
			hash := h.Hash("s", name)
			if slot, ok := model[name]; ok {
				h.Drop(hash, slot)
				delete(model, name)
				if slices.Contains(candidates(h, "s", name), slot) {
					t.Fatalf("seed %d: slot of %s is suggested after Drop", seed, name)
				}
				continue
			}
			model[name] = next
			if !h.Put(hash, next) {
				h.Build(len(model), func(put func(uint32, uint32)) {
					for name, slot := range model {
						put(h.Hash("s", name), slot)
					}
				})
			}
			next++
		}
		missed := 0
		for name, slot := range model {
			if !slices.Contains(candidates(h, "s", name), slot) {
				missed++
			}
		}
		if missed*20 > len(model) { // a name has no entry if its bucket was full
			t.Errorf("seed %d: %d of %d names have no entry", seed, missed, len(model))
		}
		if err := check(h, model); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// Equal names in different spaces, and a space and a name that are swapped, have different hashes.
func TestHashDistinguishesSpaces(t *testing.T) {
	h := NewHints()
	hashes := map[uint32]bool{}
	for _, name := range [][2]string{{"a", "b"}, {"b", "a"}, {"", "ab"}, {"ab", ""}, {"a", "a"}, {"b", "b"}, {"", ""}} {
		hashes[h.Hash(name[0], name[1])] = true
	}
	if len(hashes) != 7 {
		t.Errorf("7 names have %d hashes", len(hashes))
	}
}

// A slot that does not fit into an entry gets none. It does not become another slot.
func TestHighSlotsHaveNoEntry(t *testing.T) {
	h := NewHints()
	h.Build(10, func(func(uint32, uint32)) {})
	for _, slot := range []uint32{slotMask - 1, slotMask, slotMask + 1, 1 << 30} {
		name := fmt.Sprint("n", slot)
		h.Put(h.Hash("s", name), slot)
		got := candidates(h, "s", name)
		if want := slot < slotMask; slices.Contains(got, slot) != want || !want && len(got) > 0 {
			t.Errorf("slot %d: %v", slot, got)
		}
		h.Drop(h.Hash("s", name), slot)
	}
}

// Readers may read while the writer writes. They find nearly all names that are in the table the whole time.
func TestHintsCanBeReadDuringWrites(t *testing.T) {
	h := NewHints()
	const constant, rounds = 100, 2000
	build := func(more map[string]uint32) {
		h.Build(constant+len(more), func(put func(uint32, uint32)) {
			for i := range uint32(constant) {
				put(h.Hash("s", fmt.Sprint("constant", i)), i)
			}
			for name, slot := range more {
				put(h.Hash("s", name), slot)
			}
		})
	}
	build(nil)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			missed, looked := 0, 0
			for i := uint32(0); ; i = (i + 1) % constant {
				select {
				case <-done:
					if missed*10 > looked {
						t.Errorf("%d of %d lookups failed", missed, looked)
					}
					return
				default:
				}
				looked++
				if !slices.Contains(candidates(h, "s", fmt.Sprint("constant", i)), i) {
					missed++
				}
			}
		})
	}
	more := map[string]uint32{}
	for i := range uint32(rounds) {
		name := fmt.Sprint("n", i)
		more[name] = constant + i
		if !h.Put(h.Hash("s", name), constant+i) {
			build(more)
		}
		if i%3 == 0 {
			for name, slot := range maps.All(more) {
				h.Drop(h.Hash("s", name), slot)
				delete(more, name)
				break
			}
		}
	}
	close(done)
	readers.Wait()
}

// Check reports each kind of broken invariant.
func TestHintsCheckReportsEachBrokenInvariant(t *testing.T) {
	model := map[string]uint32{}
	for i := range uint32(80) {
		model[fmt.Sprint("n", i)] = i
	}
	for want, spoil := range map[string]func(h *Hints, used, free, elsewhere *atomic.Uint32){
		"":                             func(*Hints, *atomic.Uint32, *atomic.Uint32, *atomic.Uint32) {},
		"80 names but no bucket":       func(h *Hints, _, _, _ *atomic.Uint32) { h.buckets.Store(nil) },
		"which has no name":            func(_ *Hints, used, _, _ *atomic.Uint32) { used.Store(1000) },
		"bits of another hash":         func(_ *Hints, used, _, _ *atomic.Uint32) { used.Add(1 << slotBits) },
		"two entries have slot":        func(_ *Hints, used, free, _ *atomic.Uint32) { free.Store(used.Load()) },
		"but its name selects another": func(_ *Hints, used, _, elsewhere *atomic.Uint32) { elsewhere.Store(used.Swap(0)) },
	} {
		h := NewHints()
		h.Build(len(model), func(put func(uint32, uint32)) {
			for name, slot := range model {
				put(h.Hash("s", name), slot)
			}
		})
		// A used and a free entry of one bucket, and a free one of another bucket.
		var used, free, elsewhere *atomic.Uint32
		for number := range *h.buckets.Load() {
			var mine [2]*atomic.Uint32 // free, used
			b := &(*h.buckets.Load())[number]
			for i := range b {
				mine[min(b[i].Load(), 1)] = &b[i]
			}
			switch {
			case mine[0] != nil && mine[1] != nil && used == nil:
				free, used = mine[0], mine[1]
			case mine[0] != nil:
				elsewhere = mine[0]
			}
		}
		spoil(h, used, free, elsewhere)
		switch err := check(h, model); {
		case err == nil && want != "":
			t.Errorf("%s: Check returned nil", want)
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}
	h := NewHints()
	h.Build(0, func(put func(uint32, uint32)) { put(h.Hash("s", "n0"), 0) })
	if err := h.Check(func(uint32) (uint32, bool) { return h.Hash("s", "n0"), true }); err == nil {
		t.Error("Check accepts one entry of no names")
	}
}
