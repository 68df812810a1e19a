package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

const changelogName = "CHANGELOG.md"

var unreleased = regexp.MustCompile(`(?m)^## Unreleased\n`)

// releaseChangelog returns the changelog with the changes under "Unreleased" under the version instead. It fails if there
// are none.
func releaseChangelog(old []byte, v version, day time.Time) ([]byte, error) {
	match := unreleased.FindIndex(old)
	if match == nil {
		return nil, errors.New(`no line is "## Unreleased"`)
	}
	if strings.Contains(string(old), "\n## "+v.String()+" ") {
		return nil, fmt.Errorf("%s has a section already", v)
	}
	rest := old[match[1]:]
	changes := rest
	if next := bytes.Index(rest, []byte("\n## ")); next >= 0 {
		changes = rest[:next]
	}
	if !bytes.Contains(changes, []byte("\n- ")) {
		return nil, errors.New(`there is no entry under "## Unreleased": say what users get from this release`)
	}
	title := fmt.Sprintf("## Unreleased\n\n## %s - %s\n", v, day.Format(time.DateOnly))
	return bytes.Join([][]byte{old[:match[0]], []byte(title), rest}, nil), nil
}
