// Package errtext bounds the texts of errors: a server can send one of any length.
package errtext

import (
	"fmt"
	"strings"
)

// Max is the largest number of bytes of the text of an error in a status.
const Max = 1 << 10

// Short returns err, or an error with the beginning of its text if that is longer than Max. It wraps err.
func Short(err error) error {
	text := fmt.Sprint(err) // unlike Error, it survives a nil receiver
	if len(text) <= Max {
		return err
	}
	const end = " ..."
	return &cutError{strings.ToValidUTF8(text[:Max-len(end)], "") + end, err}
}

// cutError is an error whose text is too long for a status.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }

func (e *cutError) Unwrap() error { return e.err }
