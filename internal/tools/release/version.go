package main

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// version is a version of a release or, with a candidate, of what may become one.
type version struct {
	major, minor, patch int
	candidate           int // the 1 of v0.2.0-rc.1; math.MaxInt for the release itself
}

var versionText = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-rc\.(0|[1-9]\d*))?$`)

// parseVersion reads a version such as v0.2.0 or v0.2.0-rc.1.
func parseVersion(text string) (v version, err error) {
	parts := versionText.FindStringSubmatch(text)
	if parts == nil {
		return version{}, fmt.Errorf("%q is not a version such as v0.2.0 or v0.2.0-rc.1", text)
	}
	v.candidate = math.MaxInt
	for i, number := range []*int{&v.major, &v.minor, &v.patch, &v.candidate} {
		if parts[i+1] == "" {
			continue
		}
		if *number, err = strconv.Atoi(parts[i+1]); err != nil {
			return version{}, fmt.Errorf("version %q: %w", text, err)
		}
	}
	if v.major > 1 {
		return version{}, fmt.Errorf("%s: from v2 on, the path of a module ends in its major version: https://go.dev/ref/mod#major-version-suffixes", text)
	}
	return v, nil
}

func (v version) String() string {
	text := fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch)
	if v.candidate != math.MaxInt {
		text += fmt.Sprintf("-rc.%d", v.candidate)
	}
	return text
}

// compare returns -1, 0 or 1 if v is older than other, equal or newer.
func (v version) compare(other version) int {
	return cmp.Or(cmp.Compare(v.major, other.major), cmp.Compare(v.minor, other.minor),
		cmp.Compare(v.patch, other.patch), cmp.Compare(v.candidate, other.candidate))
}
