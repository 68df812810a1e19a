package object

import (
	"fmt"
	"testing"
)

type text string

func (t *text) String() string { return string(*t) }

// Pointers and interfaces compare as with ==. An interface that holds a nil pointer is not nil.
func TestComparesAsTheOperatorDoes(t *testing.T) {
	a, b := new(text), new(text)
	for _, c := range []struct {
		name      string
		got, want bool
	}{
		{"nil pointer", IsNil[*text](nil), true},
		{"pointer", IsNil(a), false},
		{"nil interface", IsNil[fmt.Stringer](nil), true},
		{"interface with a nil pointer", IsNil[fmt.Stringer]((*text)(nil)), false},
		{"the same pointer", Same(a, a), true},
		{"pointers to equal values", Same(a, b), false},
		{"nil pointers", Same[*text](nil, nil), true},
		{"pointer and nil", Same(a, nil), false},
		{"the same pointer in interfaces", Same[fmt.Stringer](a, a), true},
		{"interfaces", Same[fmt.Stringer](a, b), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t, want %t", c.name, c.got, c.want)
		}
	}
}
