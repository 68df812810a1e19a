package pack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// value is a packed value.
type value struct {
	raw    []byte
	packed string
	dict   *Dictionary
}

func (p *Packer) value(raw []byte) value {
	packed, dict := p.Pack("head", raw)
	return value{raw, packed, dict}
}

func (v value) check(t *testing.T) {
	t.Helper()
	if v.packed[:4] != "head" {
		t.Fatalf("the head is %q", v.packed[:4])
	}
	got, err := v.dict.Unpack(nil, v.packed[4:])
	if err != nil || !bytes.Equal(got, v.raw) {
		t.Fatalf("%d bytes unpack to %d: %v", len(v.raw), len(got), err)
	}
}

func pods(t testing.TB, n int) (raws [][]byte) {
	for pod := range fleet.New(fleet.Config{Pods: n}).All() {
		pod.ManagedFields = nil
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		raws = append(raws, raw)
	}
	return raws
}

// Pods get a dictionary, and take a third of their size with it. Values that were packed before keep theirs.
func TestDictionaryFollowsTheValues(t *testing.T) {
	var p Packer
	var values []value
	dictionaries := map[*Dictionary]bool{}
	raw, packed := 0, 0
	all := pods(t, 4000)
	for i, pod := range all {
		v := p.value(pod)
		values = append(values, v)
		dictionaries[v.dict] = true
		if i > len(all)/2 {
			raw, packed = raw+len(pod), packed+len(v.packed)
		}
	}
	if ratio := float64(packed) / float64(raw); ratio > 0.4 {
		t.Errorf("pods take %.2f of their size", ratio)
	}
	before := p.current.Load()
	random := rand.New(rand.NewPCG(1, 1))
	other := make([]byte, 3000) // every value of another kind has the same random bytes
	for i := range other {
		other[i] = byte(random.Uint32())
	}
	for i := range 30000 {
		v := p.value(fmt.Appendf(bytes.Clone(other), "%d", i))
		if i%100 == 0 {
			values = append(values, v)
		}
	}
	after := p.current.Load()
	if v := p.value(other); after == before || len(v.packed) > 200 {
		t.Errorf("the dictionary did not change: a value of the new kind takes %d bytes", len(v.packed))
	}
	if len(dictionaries) < 2 || len(dictionaries) > 12 {
		t.Errorf("%d dictionaries for %d pods", len(dictionaries), len(all))
	}
	for _, v := range values {
		v.check(t)
	}
}

// A Packer does not compress a value if that saves less than an eighth.
func TestIncompressibleValue(t *testing.T) {
	var p Packer
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 7, 100, 10000} {
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		v := p.value(raw)
		if v.dict != nil || len(v.packed) != len("head")+n {
			t.Errorf("%d random bytes take %d", n, len(v.packed))
		}
		v.check(t)
	}
}

// A small collection gets no dictionary, which would take more memory than it saves.
func TestSmallCollectionHasNoDictionary(t *testing.T) {
	var p Packer
	for _, raw := range pods(t, 50) {
		p.value(raw).check(t)
	}
	if p.current.Load() != nil {
		t.Error("50 pods have a dictionary")
	}
}

// Values can be packed and unpacked by several goroutines while the dictionary changes.
func TestConcurrentUse(t *testing.T) {
	var p Packer
	all := pods(t, 1000)
	var running sync.WaitGroup
	for g := range 4 {
		running.Go(func() {
			for i := g; i < len(all); i += 2 {
				p.value(all[i]).check(t)
			}
		})
	}
	running.Wait()
}

// A damaged value is an error.
func TestDamagedValue(t *testing.T) {
	var p Packer
	var v value
	for _, raw := range pods(t, 300) {
		v = p.value(raw)
	}
	if got, err := v.dict.Unpack(nil, v.packed[4:len(v.packed)/2]); err == nil {
		t.Errorf("half a value unpacks to %d bytes", len(got))
	}
}

// Unpack allocates little for a value whose length is damaged.
func TestDamagedLength(t *testing.T) {
	var p Packer
	for _, raw := range pods(t, 300) {
		p.value(raw)
	}
	damaged := string(binary.AppendUvarint(nil, 1<<32-1)) + strings.Repeat("x", 100)
	for name, dict := range map[string]*Dictionary{"without a dictionary": &first, "with a dictionary": p.current.Load()} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := dict.Unpack(nil, damaged)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 2*maxValue {
			t.Errorf("%s, Unpack returns %d bytes, %v, and allocates %d", name, len(got), err, n)
		}
	}
}

// A Packer compresses the longest values that a server sends, but no longer ones.
func TestLongValue(t *testing.T) {
	var p Packer
	for n, compressed := range map[int]bool{maxValue: true, maxValue + 1: false} {
		v := p.value(bytes.Repeat([]byte("a"), n))
		if got := v.dict != nil; got != compressed {
			t.Errorf("a value of %d bytes takes %d, compressed=%v", n, len(v.packed), got)
		}
		v.check(t)
	}
}

// FuzzPack packs a value with and without a dictionary, and unpacks any bytes.
func FuzzPack(f *testing.F) {
	var p Packer
	for i, raw := range pods(f, 1000) {
		p.value(raw)
		if i%100 == 0 {
			f.Add(raw)
		}
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte("ab"), 40000))
	learned := p.current.Load()
	f.Fuzz(func(t *testing.T, raw []byte) {
		var fresh Packer
		fresh.value(raw).check(t)
		p.value(raw).check(t)
		_, _ = learned.Unpack(nil, string(raw)) // an error, or any bytes
	})
}

// A value may be written to as soon as it is packed: neither what Pack returns nor the samples for the next dictionary refer to it.
func TestPackKeepsNoMemoryOfTheCaller(t *testing.T) {
	var p Packer
	random := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 500)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	var values []value
	for i := range samples + probes {
		raw := bytes.Repeat([]byte("value"), 100)
		if i%2 == 0 { // it is not compressed
			raw = bytes.Clone(noise)
		}
		head := []byte("head")
		packed, dict := p.Pack(string(head), raw)
		values = append(values, value{bytes.Clone(raw), packed, dict})
		clear(raw)
	}
	for _, v := range values {
		v.check(t)
	}
	for i, kept := range slices.Concat(p.sample[:], p.probe[:]) {
		if !bytes.Equal(kept, values[i].raw) {
			t.Fatalf("sample %d is %q", i, kept)
		}
	}
}
