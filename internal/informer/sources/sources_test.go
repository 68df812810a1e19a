package sources

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Advance goes forward only, and Set in both directions. Neither changes the original sources.
// Guarantees: C7
func TestSourcesAdvance(t *testing.T) {
	var s Sources[int]
	for _, c := range []struct {
		namespace, version string
		data               int
		set                bool
		want               string
	}{
		{"b", "", 0, false, "[]"}, // nothing is known
		{"b", "5", 0, false, "[{b  5 0}]"},
		{"a", "7", 0, false, "[{a  7 0} {b  5 0}]"},
		{"c", "", 1, false, "[{a  7 0} {b  5 0} {c   1}]"},
		{"b", "10", 0, false, "[{a  7 0} {b  10 0} {c   1}]"},
		{"b", "9", 0, false, "[{a  7 0} {b  10 0} {c   1}]"},
		{"b", "9", 2, false, "[{a  7 0} {b  10 2} {c   1}]"},
		{"b", "", 3, false, "[{a  7 0} {b  10 3} {c   1}]"},
		{"b", "0", 3, false, "[{a  7 0} {b  10 3} {c   1}]"},
		{"b", "4", 1, true, "[{a  7 0} {b  4 1} {c   1}]"},
		{"b", "", 0, true, "[{a  7 0} {b   0} {c   1}]"},
		{"ab", "1", 0, true, "[{a  7 0} {ab  1 0} {b   0} {c   1}]"},
	} {
		before, text := s, fmt.Sprint(s)
		if c.set {
			s = s.Set(Source[int]{Namespace: c.namespace, Version: c.version, Data: c.data})
		} else {
			s = s.Advance(c.namespace, c.version, c.data)
		}
		if fmt.Sprint(s) != c.want || fmt.Sprint(before) != text {
			t.Fatalf("%s at %q with %d after %s: %v, want %s; the sources before are now %v", c.namespace, c.version, c.data, text, s, c.want, before)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// Nothing is copied if nothing changes.
func TestSourcesThatStayAreNotCopied(t *testing.T) {
	s := Sources[int]{{"a", "", "5", 1}, {"b", "", "5", 1}}
	if n := testing.AllocsPerRun(100, func() { s = s.Advance("b", "4", 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSourceOfANamespace(t *testing.T) {
	s := Sources[int]{{"a", "", "12", 1}, {"b", "", "9", 2}}
	if src, ok := s.Of("b"); !ok || src.Data != 2 {
		t.Errorf("b: %v %v", src, ok)
	}
	if src, ok := s.Of("c"); ok || src != (Source[int]{}) {
		t.Errorf("c: %v", src)
	}
	if a, c := s.Version("a"), s.Version("c"); a != "12" || c != "" {
		t.Errorf("versions %q and %q", a, c)
	}
	whole := Sources[int]{{"", "", "7", 0}}
	if v := whole.Version("a"); v != "7" {
		t.Errorf("the source of all namespaces: %q", v)
	}
	if _, ok := whole.Of("a"); ok {
		t.Error("the source of all namespaces is that of one")
	}
}

func TestLowestVersion(t *testing.T) {
	for _, c := range []struct{ versions, want string }{{"", ""}, {"7", "7"}, {"12 9 10", "9"}, {"12 - 9", ""}, {"x 5", "x"}} {
		var s Sources[int]
		for i, version := range strings.Fields(c.versions) {
			s = s.Set(Source[int]{Namespace: fmt.Sprint(i), Version: strings.Trim(version, "-")})
		}
		if got := s.Lowest(); got != c.want {
			t.Errorf("%s: %q, want %q", c.versions, got, c.want)
		}
	}
}

func TestCheckFindsWrongOrder(t *testing.T) {
	s := Sources[int]{{"a", "", "", 0}, {"b", "", "", 0}}
	slices.Reverse(s)
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "not sorted") {
		t.Error(err)
	}
	s[1] = s[0]
	if s.Check() == nil {
		t.Error("no error for a namespace twice")
	}
}

// The version of a namespace with several parts is that of the slowest part.
func TestPartsOfANamespace(t *testing.T) {
	var s Sources[int]
	for _, src := range []Source[int]{{"a", "x", "12", 1}, {"a", "", "9", 2}, {"", "y", "7", 3}, {"a", "x", "13", 4}} {
		s = s.Set(src)
	}
	if got := fmt.Sprint(s); got != "[{ y 7 3} {a  9 2} {a x 13 4}]" || s.Check() != nil {
		t.Error(got, s.Check())
	}
	if src, ok := s.Of("a"); !ok || src.Data != 2 || s.Version("a") != "7" || s.Version("b") != "7" {
		t.Errorf("%v: %v, versions %q and %q", s, src, s.Version("a"), s.Version("b"))
	}
	if s.Highest() != "13" || (Sources[int]{}).Highest() != "" {
		t.Errorf("%v: highest %s", s, s.Highest())
	}
	if left := s.Without("", "y").Without("none", ""); left.Version("a") != "9" || left.Version("b") != "" || len(s) != 3 {
		t.Errorf("%v after %v", left, s)
	}
}
