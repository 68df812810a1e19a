package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/typedinformer/informer/status"
)

// nothing is an error that panics if it is nil.
type nothing struct{ text string }

func (n *nothing) Error() string { return n.text }

// The text of the last error is bounded. What the error wraps can still be asked for, and an error without a text does no harm.
// Guarantees: O5
func TestTextOfTheLastErrorIsBounded(t *testing.T) {
	cause := errors.New("cause")
	var f Failures[string]
	for _, c := range []struct {
		err  error
		text string // empty: the beginning
	}{
		{cause, "cause"},
		{fmt.Errorf("%s: %w", strings.Repeat("ü", 1<<20), cause), ""},
		{(*nothing)(nil), "<nil>"},
	} {
		f.Note("a", c.err, time.Now())
		var s status.Controller
		f.AddTo(&s)
		text := fmt.Sprint(s.LastError)
		if c.text != "" && text != c.text || len(text) > 1<<10 || c.text == "" && (!strings.HasPrefix(text, "üü") || !strings.HasSuffix(text, "ü ...")) {
			t.Errorf("%d bytes: %.20s", len(text), text)
		}
		if c.text != "<nil>" && !errors.Is(s.LastError, cause) {
			t.Errorf("%.20s does not wrap its cause", text)
		}
	}
}
