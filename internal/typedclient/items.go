package typedclient

import (
	"fmt"
	"strings"
)

// Items collects the objects that [Client.List] yields. The zero value has none.
type Items[T any] struct {
	Objects []T
	failed  undecoded
}

// Add adds an object, or the error of one that could not be decoded.
func (i *Items[T]) Add(obj any, err error) {
	if err != nil {
		i.failed = append(i.failed, err)
		return
	}
	i.Objects = append(i.Objects, obj.(T))
}

// Err returns an error that wraps those of all objects that could not be decoded, or nil if there are none.
func (i *Items[T]) Err() error {
	if len(i.failed) == 0 {
		return nil
	}
	return i.failed
}

// undecoded are the errors of objects that could not be decoded.
type undecoded []error

// named is the number of errors in the text of undecoded.
const named = 10

// Error returns the texts of the first errors, and the number of the others.
func (u undecoded) Error() string {
	var texts []string
	for _, err := range u[:min(len(u), named)] {
		texts = append(texts, err.Error())
	}
	if more := len(u) - named; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

func (u undecoded) Unwrap() []error { return u }
