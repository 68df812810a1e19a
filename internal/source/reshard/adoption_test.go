package reshard

import (
	"context"
	"errors"
	"testing"

	"github.com/typedinformer/informer/internal/shardset"
)

// shardOf returns the shard that has one hash for each of some letters.
func shardOf(letters string) (s shardset.Shard) {
	for _, letter := range letters {
		s.Ranges = append(s.Ranges, shardset.Range{First: uint64(letter), Last: uint64(letter)})
	}
	return s
}

// letters returns the letters whose hashes are in s.
func letters(s shardset.Shard) (all string) {
	for letter := 'a'; letter <= 'z'; letter++ {
		if s.HasHash(uint64(letter)) {
			all += string(letter)
		}
	}
	return all
}

func newAdoption(first string) *Adoption { return NewAdoption(shardOf(first)) }

// A change interrupts the work, and the next work is for what the result lacks, compared with the last shard that it had.
func TestAdoptionOfAChange(t *testing.T) {
	a := newAdoption("ab")
	work, _, changed := a.Take(t.Context())
	if changed || a.HasPart() {
		t.Error("a new adoption has a change")
	}
	if n := a.Want(shardOf("bc")); n != 1 {
		t.Errorf("the first change has number %d", n)
	}
	if why := context.Cause(work); why != ErrChanged {
		t.Errorf("a change ended the work with %v", why)
	}
	if letters(a.Target) != "ab" {
		t.Errorf("the target is %q before Take", letters(a.Target))
	}
	if _, _, changed := a.Take(t.Context()); !changed || letters(a.Target) != "bc" || a.Change != 1 {
		t.Errorf("Take: %v, %q, %d", changed, letters(a.Target), a.Change)
	}
	if ok, lacks := a.RestSuffices(); !ok || !lacks {
		t.Errorf("RestSuffices: %v, %v", ok, lacks)
	}
	a.Want(shardOf("abc")) // before the result has bc
	a.Take(t.Context())
	if rest, ok := a.Rest(); letters(rest) != "c" || !ok {
		t.Errorf("the rest is %q, %v: the result still has ab", letters(rest), ok)
	}
	a.Settle()
	if ok, _ := a.RestSuffices(); ok || a.HasPart() {
		t.Error("a settled adoption has a rest")
	}
}

// A shard that has less asks for no work, one that has nothing in common for all of it.
func TestAdoptionWithoutARest(t *testing.T) {
	a := newAdoption("ab")
	a.Want(shardOf("a"))
	a.Take(t.Context())
	if ok, lacks := a.RestSuffices(); !ok || lacks {
		t.Errorf("a smaller shard: %v, %v", ok, lacks)
	}
	if rest, ok := a.Rest(); ok {
		t.Errorf("a smaller shard lacks %q", letters(rest))
	}
	a.Settle()
	a.Want(shardOf("c"))
	a.Take(t.Context())
	if ok, _ := a.RestSuffices(); ok {
		t.Error("the rest of a disjoint shard suffices")
	}
}

// The same shard again asks for all of the work again, unless the result has only a part of it.
func TestAdoptionOfTheSameValue(t *testing.T) {
	a := newAdoption("ab")
	a.Want(shardOf("ab"))
	if _, _, changed := a.Take(t.Context()); !changed {
		t.Error("the same shard again is no change")
	}
	if ok, _ := a.RestSuffices(); ok {
		t.Error("nothing is done for the same shard again")
	}
	a.Settle()
	a.Want(shardOf("abc"))
	a.Take(t.Context())
	a.Want(shardOf("abc"))
	a.Take(t.Context())
	if rest, _ := a.Rest(); letters(rest) != "c" {
		t.Errorf("the rest is %q", letters(rest))
	}
	if ok, _ := a.RestSuffices(); !ok {
		t.Error("the rest does not suffice for the same shard again")
	}
}

// End ends the work with its cause, and changes nothing.
func TestAdoptionEnds(t *testing.T) {
	a, why := newAdoption("ab"), errors.New("the reason")
	a.End(why) // without work
	work, end, _ := a.Take(t.Context())
	a.End(why)
	if got := context.Cause(work); got != why {
		t.Errorf("the work ended with %v", got)
	}
	end(nil)
	if _, _, changed := a.Take(t.Context()); changed {
		t.Error("End counts as a change")
	}
}
