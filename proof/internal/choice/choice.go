// Package choice chooses things by the names that a command line has.
package choice

import (
	"fmt"
	"slices"
	"strings"
)

// Names returns the names of all.
func Names[T fmt.Stringer](all []T) (names []string) {
	for _, x := range all {
		names = append(names, x.String())
	}
	return names
}

// Of returns those of all that have the names, in their order. The error names one that none of them has.
func Of[T fmt.Stringer](all []T, names []string) (chosen []T, err error) {
	for _, name := range names {
		i := slices.IndexFunc(all, func(x T) bool { return x.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("%q is none of %s", name, strings.Join(Names(all), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
