package object

import "testing"

func TestVersionsAreNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b           string
		older, reached bool // a before b, a at or after b
	}{
		{"9", "10", true, false}, {"10", "9", false, true}, {"9", "9", false, true},
		{"", "9", true, false}, {"0", "9", true, false}, {"9", "", false, false}, {"", "", false, false}, {"0", "", false, false},
		{"x", "9", false, false}, {"9", "x", false, false},
	} {
		if older, reached := Older(c.a, c.b), Reached(c.a, c.b); older != c.older || reached != c.reached {
			t.Errorf("%q and %q: older %v, reached %v", c.a, c.b, older, reached)
		}
	}
}
