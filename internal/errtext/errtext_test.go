package errtext

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A long text is cut between two characters, what the error wraps can still be asked for, and an error without a text
// does no harm.
// Guarantees: O5
func TestTextsAreBounded(t *testing.T) {
	cause := errors.New("cause")
	if err := Short(cause); err != cause {
		t.Errorf("%v instead of a short error itself", err)
	}
	for extra := range 3 {
		err := Short(fmt.Errorf("%s%s: %w", strings.Repeat("x", extra), strings.Repeat("ü", 1<<20), cause))
		text := err.Error()
		if len(text) > Max || len(text) < Max-10 || !strings.HasSuffix(text, "ü ...") || !errors.Is(err, cause) {
			t.Errorf("%d bytes, which end in %q", len(text), text[len(text)-10:])
		}
	}
	if err := Short((*cutError)(nil)); err == nil {
		t.Error("no error")
	}
}
