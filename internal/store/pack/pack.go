// Package pack compresses many small values that resemble each other, such as the objects of one collection.
//
// It uses S2 with a dictionary of values that were packed before. The dictionary follows the values: see [Packer].
package pack

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

const (
	// maxValue is the length of the longest value that is compressed: no longer object is decoded. A packed value begins
	// with its length, for which Unpack allocates memory. If memory is damaged, that length could be 4 GiB.
	maxValue      = 32 << 20
	maxDictionary = s2.MaxDictSize
	// A dictionary costs memory: its bytes and a table of 32 KiB. So it has at most one byte for 16 bytes that were
	// packed, and there is none before firstTrial bytes. A new one is tried after firstTrial bytes, then each time that
	// the number of bytes has doubled, and at last every maxTrial bytes.
	bytesPerDictionary = 16
	firstTrial         = 256 << 10
	maxTrial           = 64 << 20
	// samples are kept for the next dictionary, and probes to compare it with the present one. Both are a random choice of
	// the last window values.
	samples   = 64
	probes    = 16
	window    = 1 << 14
	maxSample = 8 << 10 // of a longer value, the beginning is kept
	// A new dictionary is used only if it makes the probes smaller by one part in enough.
	enough = 25
)

// Packer compresses values. The zero value is ready for use. All methods are safe for concurrent use.
//
// It builds a dictionary from a random choice of the values, compares it with the present one on others, and replaces
// that if the new one is better. Only the goroutine that packs the value at which the comparison is due takes that
// time. Values that were packed before keep their dictionary.
type Packer struct {
	current atomic.Pointer[Dictionary]
	values  atomic.Uint64
	bytes   atomic.Uint64
	trial   atomic.Uint64 // the number of bytes after which the next dictionary is tried; 0 means firstTrial

	mu     sync.Mutex // protects the fields below
	sample [samples][]byte
	probe  [probes][]byte
}

// Dictionary is the dictionary of packed values. It never changes, and is safe for concurrent use. Nil means that a
// value is not compressed.
type Dictionary struct {
	dict *s2.Dict // nil for the first one: S2 without a dictionary
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 1 << 20

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

// Learn makes a dictionary of values, as if they were a random choice of many that were packed. p must not have packed
// any. It is for estimates.
func (p *Packer) Learn(values [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const every = (samples + probes) / probes // a probe
	for i, raw := range values {
		slot := &p.sample[(i-i/every)%samples]
		if i%every == every-1 {
			slot = &p.probe[i/every%probes]
		}
		*slot = append((*slot)[:0], raw[:min(len(raw), maxSample)]...)
	}
	p.tryLocked(maxDictionary)
}

// Pack returns head, followed by raw in packed form, and the dictionary that [Dictionary.Unpack] needs. It does not
// compress a value that is longer than 32 MiB, or if that saves less than an eighth.
func (p *Packer) Pack(head string, raw []byte) (string, *Dictionary) {
	p.observe(raw)
	return p.Repack(head, raw)
}

// Outdated reports whether Repack would use another dictionary than d.
func (p *Packer) Outdated(d *Dictionary) bool { return d != p.dictionary() }

// Repack is Pack for a value that was packed before: the dictionary does not follow it.
func (p *Packer) Repack(head string, raw []byte) (string, *Dictionary) {
	if len(raw) > maxValue {
		return head + string(raw), nil
	}
	d := p.dictionary()
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	need := len(head) + s2.MaxEncodedLen(len(raw))
	if cap(*buf) < need {
		*buf = make([]byte, need)
	}
	b := (*buf)[:need]
	n := copy(b, head)
	packed := d.encode(b[n:], raw)
	if len(packed) > len(raw)-len(raw)/8 {
		return head + string(raw), nil
	}
	return string(b[:n+len(packed)]), d
}

// dictionary returns the present dictionary.
func (p *Packer) dictionary() *Dictionary {
	if d := p.current.Load(); d != nil {
		return d
	}
	return &first
}

var first Dictionary

func (d *Dictionary) encode(dst, raw []byte) []byte {
	if d.dict == nil {
		return s2.Encode(dst, raw)
	}
	return d.dict.Encode(dst, raw)
}

// Unpack returns the value in packed. It may use the memory of buf[:cap(buf)].
func (d *Dictionary) Unpack(buf []byte, packed string) ([]byte, error) {
	if d == nil {
		return append(buf[:0], packed...), nil
	}
	src := buffers.Get().(*[]byte)
	defer putBuffer(src)
	*src = append((*src)[:0], packed...)
	var raw []byte
	n, err := s2.DecodedLen(*src)
	switch {
	case err != nil:
	case n > maxValue:
		err = s2.ErrTooLarge
	case d.dict == nil:
		raw, err = s2.Decode(buf[:cap(buf)], *src)
	default:
		raw, err = d.dict.Decode(buf[:cap(buf)], *src)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %d bytes: %w", len(packed), err)
	}
	return raw, nil
}

// observe may keep raw as a sample, and tries a new dictionary if that is due.
func (p *Packer) observe(raw []byte) {
	n := min(p.values.Add(1), window)
	total := p.bytes.Add(uint64(len(raw)))
	if i := rand.Uint64N(n); n <= samples+probes || i < samples+probes {
		p.mu.Lock()
		if n <= samples+probes {
			i = n - 1
		}
		slot := &p.sample[i%samples]
		if i >= samples {
			slot = &p.probe[i-samples]
		}
		*slot = append((*slot)[:0], raw[:min(len(raw), maxSample)]...)
		p.mu.Unlock()
	}
	due := p.trial.Load()
	if total >= max(due, firstTrial) && p.trial.CompareAndSwap(due, total+min(total, maxTrial)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tryLocked(min(maxDictionary, int(total/bytesPerDictionary)))
	}
}

// tryLocked builds a dictionary of at most size bytes from the samples, and uses it if it is better than the present
// one.
func (p *Packer) tryLocked(size int) {
	text := make([]byte, 0, size)
	for _, i := range rand.Perm(samples) {
		sample := p.sample[i]
		text = append(text, sample[:min(len(sample), size-len(text))]...)
	}
	dict := s2.MakeDict(text, nil)
	if dict == nil { // too few bytes
		return
	}
	next, now := &Dictionary{dict}, p.dictionary()
	before, after := 0, 0
	buf := make([]byte, s2.MaxEncodedLen(maxSample))
	for _, raw := range p.probe {
		before += len(now.encode(buf, raw))
		after += len(next.encode(buf, raw))
	}
	if after < before-before/enough {
		p.current.Store(next)
	}
}

// Packers has a [Packer] for each kind of values, for users that share dictionaries. The zero value is ready for use.
// It is safe for concurrent use.
type Packers struct {
	mu      sync.Mutex // protects the field below
	packers map[string]*Packer
}

// Of returns the Packer of a kind of values.
func (ps *Packers) Of(kind string) *Packer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	known := ps.packers[kind]
	if known == nil {
		known = &Packer{}
		if ps.packers == nil {
			ps.packers = map[string]*Packer{}
		}
		ps.packers[kind] = known
	}
	return known
}
