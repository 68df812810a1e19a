package fleet

import (
	"math/bits"
	"math/rand/v2"
)

// rng is the fleet's only source of randomness: a PCG, whose sequence the Go project has promised to keep, with
// integer-only arithmetic on top. This package uses no floating point: on some processors, compilers may fuse a
// multiplication and an addition, and the same seed would then give another fleet.
type rng struct{ pcg rand.PCG }

// domain separates the sequences of things with the same number.
type domain uint64

const (
	domainFleet domain = iota + 1
	domainWorkload
	domainOwner
	domainPod
	domainInitial
	domainContainer
	domainImage
	domainChanges
	domainCluster
)

// newRNG returns the sequence for number id of a domain. It costs a few nanoseconds, so values can be drawn again
// instead of being stored.
func newRNG(seed uint64, d domain, id uint64) rng {
	var r rng
	r.pcg.Seed(mix(seed+uint64(d)), mix(id))
	return r
}

// mix is the finalizer of splitmix64, so that neighbouring seeds and numbers do not give neighbouring sequences.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (r *rng) uint64() uint64 { return r.pcg.Uint64() }

// n returns a number in [0, n).
func (r *rng) n(n int) int {
	hi, _ := bits.Mul64(r.pcg.Uint64(), uint64(n))
	return int(hi)
}

// between returns a number in [lo, hi].
func (r *rng) between(lo, hi int) int { return lo + r.n(hi-lo+1) }

// chance returns true in percent of 100 cases.
func (r *rng) chance(percent int) bool { return r.n(100) < percent }

// pick returns one of choices, all equally likely.
func pick[T any](r *rng, choices []T) T { return choices[r.n(len(choices))] }

// weighted returns i with probability weights[i] divided by their sum.
func (r *rng) weighted(weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	left := r.n(sum)
	for i, w := range weights {
		if left < w {
			return i
		}
		left -= w
	}
	panic("unreachable")
}

const hexDigits = "0123456789abcdef"

// hex returns n hexadecimal digits.
func (r *rng) hex(n int) string {
	b := make([]byte, n)
	var x uint64
	for i := range b {
		if i%16 == 0 {
			x = r.uint64()
		}
		b[i] = hexDigits[x&15]
		x >>= 4
	}
	return string(b)
}

// uuid returns a random (version 4) UUID, like the API server's for metadata.uid.
func (r *rng) uuid() string {
	b := []byte(r.hex(32))
	b[12] = '4'
	b[16] = "89ab"[b[16]&3]
	out := make([]byte, 0, 36)
	out = append(out, b[:8]...)
	for _, group := range [...][]byte{b[8:12], b[12:16], b[16:20], b[20:]} {
		out = append(append(out, '-'), group...)
	}
	return string(out)
}

// nameDigits are the characters of generated names: no vowels, and no digits that look like one
// (k8s.io/apimachinery/pkg/util/rand). They are in ASCII order, so that greater numbers give greater names.
const nameDigits = "2456789bcdfghjklmnpqrstvwxz"

// suffixes is the number of different generated suffixes of five characters: 27^5.
const suffixes = 14_348_907

// suffix returns the suffix number x in [0, suffixes). Suffixes sort like their numbers.
func suffix(x uint32) string {
	var b [5]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = nameDigits[x%uint32(len(nameDigits))]
		x /= uint32(len(nameDigits))
	}
	return string(b[:])
}

// hash returns n characters like those of a pod-template-hash.
func (r *rng) hash(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = nameDigits[r.n(len(nameDigits))]
	}
	return string(b)
}
