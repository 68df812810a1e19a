package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// newAdoption returns the adoption of sets of letters. The rest of disjoint sets is not usable.
func newAdoption(first string) *Adoption[string] {
	return NewAdoption(first, func(a, b string) bool { return a == b }, func(v, has string) (rest string, lacks, usable bool) {
		for _, letter := range v {
			if strings.ContainsRune(has, letter) {
				usable = true
			} else {
				rest += string(letter)
			}
		}
		return rest, rest != "", usable
	})
}

// A change interrupts the work, and the next work is for what the result lacks, compared with the last value that it had.
func TestAdoptionOfAChange(t *testing.T) {
	a := newAdoption("ab")
	work, _, changed := a.Take(t.Context())
	if changed || a.HasPart() {
		t.Error("a new adoption has a change")
	}
	if n := a.Want("bc"); n != 1 {
		t.Errorf("the first change has number %d", n)
	}
	if why := context.Cause(work); why != ErrChanged {
		t.Errorf("a change ended the work with %v", why)
	}
	if a.Value != "ab" {
		t.Errorf("the value is %q before Take", a.Value)
	}
	if _, _, changed := a.Take(t.Context()); !changed || a.Value != "bc" || a.Change != 1 {
		t.Errorf("Take: %v, %q, %d", changed, a.Value, a.Change)
	}
	if ok, lacks := a.RestSuffices(); !ok || !lacks {
		t.Errorf("RestSuffices: %v, %v", ok, lacks)
	}
	a.Want("cab") // before the result has bc
	a.Take(t.Context())
	if rest, ok := a.Rest(); rest != "c" || !ok {
		t.Errorf("the rest is %q, %v: the result still has ab", rest, ok)
	}
	a.Settle()
	if ok, _ := a.RestSuffices(); ok || a.HasPart() {
		t.Error("a settled adoption has a rest")
	}
}

// A value that has less asks for no work, one that has nothing in common for all of it.
func TestAdoptionWithoutARest(t *testing.T) {
	a := newAdoption("ab")
	a.Want("a")
	a.Take(t.Context())
	if ok, lacks := a.RestSuffices(); !ok || lacks {
		t.Errorf("a smaller value: %v, %v", ok, lacks)
	}
	if rest, ok := a.Rest(); ok {
		t.Errorf("a smaller value lacks %q", rest)
	}
	a.Settle()
	a.Want("c")
	a.Take(t.Context())
	if ok, _ := a.RestSuffices(); ok {
		t.Error("the rest of a disjoint value suffices")
	}
}

// The same value again asks for all of the work again, unless the result has only a part of it.
func TestAdoptionOfTheSameValue(t *testing.T) {
	a := newAdoption("ab")
	a.Want("ab")
	if _, _, changed := a.Take(t.Context()); !changed {
		t.Error("the same value again is no change")
	}
	if ok, _ := a.RestSuffices(); ok {
		t.Error("nothing is done for the same value again")
	}
	a.Settle()
	a.Want("abc")
	a.Take(t.Context())
	a.Want("abc")
	a.Take(t.Context())
	if rest, _ := a.Rest(); rest != "c" {
		t.Errorf("the rest is %q", rest)
	}
	if ok, _ := a.RestSuffices(); !ok {
		t.Error("the rest does not suffice for the same value again")
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
