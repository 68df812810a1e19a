// Package sources tracks the sources of a store, and the resource version up to which each has reported its changes.
package sources

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/typedinformer/informer/internal/object"
)

// Source is the source of one namespace, or of all if Namespace is empty.
type Source[D comparable] struct {
	Namespace string
	Part      string // the name of a part of the namespace; empty for all of it
	// Version is the resource version up to which the source has reported every change. Empty means unknown.
	Version string
	Data    D // further data of the store
}

// Sources are the sources of a store, sorted by namespace and part. It never changes: Set, Advance and Without return
// another one. Nil has none.
type Sources[D comparable] []Source[D]

// Of returns the source of namespace that has no part. It returns false if there is none.
func (s Sources[D]) Of(namespace string) (src Source[D], ok bool) {
	if i, found := s.search(namespace, ""); found {
		return s[i], true
	}
	return src, false
}

// Version returns the lowest resource version of the sources that have objects of namespace, or "" if one of them is
// unknown or there is none.
func (s Sources[D]) Version(namespace string) string {
	return s.lowest(func(other string) bool { return other == namespace || other == "" })
}

// Lowest returns the lowest resource version of the sources, or "" if one of them is unknown or there is none.
func (s Sources[D]) Lowest() string { return s.lowest(func(string) bool { return true }) }

// Highest returns the highest resource version of the sources, or "" if none is known.
func (s Sources[D]) Highest() (highest string) {
	for i := range s {
		if object.Older(highest, s[i].Version) {
			highest = s[i].Version
		}
	}
	return highest
}

func (s Sources[D]) lowest(counts func(namespace string) bool) (lowest string) {
	found := false
	for i := range s {
		if src := &s[i]; counts(src.Namespace) && (!found || object.Older(src.Version, lowest)) {
			lowest, found = src.Version, true
		}
	}
	return lowest
}

// Set returns the sources with src in place of the one of its namespace and part. The version may go back, since a
// server that was restored from a backup has older versions.
func (s Sources[D]) Set(src Source[D]) Sources[D] {
	i, found := s.search(src.Namespace, src.Part)
	next := slices.Clone(s)
	if found {
		next[i] = src
		return next
	}
	return slices.Insert(next, i, src)
}

// Advance returns the sources after the source of namespace has reached version, with data. It ignores an empty version
// and one that precedes the current one.
func (s Sources[D]) Advance(namespace, version string, data D) Sources[D] {
	have, _ := s.Of(namespace)
	if version == "" || object.Older(version, have.Version) {
		version = have.Version
	}
	if version == have.Version && data == have.Data {
		return s
	}
	return s.Set(Source[D]{Namespace: namespace, Version: version, Data: data})
}

// At returns the sources with the source of that namespace and part, if there is one, at version.
func (s Sources[D]) At(namespace, part, version string) Sources[D] {
	i, found := s.search(namespace, part)
	if !found || s[i].Version == version {
		return s
	}
	next := slices.Clone(s)
	next[i].Version = version
	return next
}

// Without returns the sources without the one of that namespace and part.
func (s Sources[D]) Without(namespace, part string) Sources[D] {
	if i, found := s.search(namespace, part); found {
		return slices.Delete(slices.Clone(s), i, i+1)
	}
	return s
}

// search returns the index of a source, or where to insert it.
func (s Sources[D]) search(namespace, part string) (int, bool) {
	return slices.BinarySearchFunc(s, Source[D]{Namespace: namespace, Part: part}, compare)
}

func compare[D comparable](a, b Source[D]) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Part, b.Part))
}

// Check returns an error if s is not sorted or has a source twice.
func (s Sources[D]) Check() error {
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) >= 0 {
			return fmt.Errorf("sources %v are not sorted or not distinct", s)
		}
	}
	return nil
}
