package informer

import (
	"fmt"
	"strings"
)

// TerminalError wraps an error of Reconcile that a retry will not fix. The controller logs and counts the error, resets
// the failure count, and does not reconcile the key until the next event. TerminalError(nil) is such an error too, and
// not nil, as in controller-runtime: return nil for success.
func TerminalError(err error) error { return &terminalError{err} }

type terminalError struct{ err error } // err may be nil

func (e *terminalError) Error() string {
	if e.err == nil {
		return "terminal: TerminalError(nil)"
	}
	return "terminal: " + e.err.Error()
}

func (e *terminalError) Unwrap() error { return e.err }

// maxErrorText is the largest number of bytes of the text of an error in a status.
const maxErrorText = 1 << 10

// shortError returns err, or an error with the beginning of its text if that is longer than maxErrorText. It wraps err.
func shortError(err error) error {
	text := fmt.Sprint(err) // unlike Error, it survives a nil receiver
	if len(text) <= maxErrorText {
		return err
	}
	const end = " ..."
	return &cutError{strings.ToValidUTF8(text[:maxErrorText-len(end)], "") + end, err}
}

// cutError is an error whose text is too long for a status.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }

func (e *cutError) Unwrap() error { return e.err }
