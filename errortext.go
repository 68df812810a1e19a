package informer

import (
	"fmt"
	"strings"
)

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
