package fetch

import (
	"errors"
	"math/big"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// leastLag and leastTries are how long, and how often, a server may answer that it has not reached a resource version
	// before the reflector looks at its progress.
	leastLag   = 30 * time.Second
	leastTries = 3
	// maxLag is how soon the server has to reach the version at its present rate. Otherwise the reflector lists.
	maxLag = 5 * time.Minute
)

// lag describes a server that has not reached the resource version of a watch. In the zero value, the server has.
type lag struct {
	since time.Time // of the answer with which the measurement began
	tries int       // answers since then, with that one
	gap   gap       // of that answer
}

// gap is how many resource versions the server lacks; negative if unknown.
type gap float64

// next returns the lag after the answer err to a watch at a resource version. It reports whether the reflector has to
// list: in half a minute, the server has not come close enough to the version.
func (l lag) next(err error, version string, now time.Time) (_ lag, list bool) {
	behind := gapOf(err, version)
	if l.tries++; l.tries == 1 {
		return lag{now, 1, behind}, false
	}
	took := now.Sub(l.since)
	if l.tries < leastTries || took < leastLag {
		return l, false
	}
	closed := l.gap - behind
	if behind < 0 || closed <= 0 || float64(behind)*took.Seconds() > float64(closed)*maxLag.Seconds() {
		return lag{}, true
	}
	return lag{now, 1, behind}, false // measure again
}

// gapOf returns the gap that err, a "too large resource version", tells.
func gapOf(err error, version string) gap {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return -1
	}
	_, current, _ := strings.Cut(status.Status().Message, "current: ") // the Status has no field for it
	have, ok := number(current)
	want, isNumber := number(version)
	if !ok || !isNumber {
		return -1
	}
	behind, _ := new(big.Float).SetInt(want.Sub(want, have)).Float64()
	return gap(max(behind, 0))
}

// number returns the decimal number that text is.
func number(text string) (*big.Int, bool) {
	const longest = 40 // versions of etcd have up to 19 digits
	if len(text) > longest || strings.ContainsFunc(text, func(c rune) bool { return c < '0' || c > '9' }) {
		return nil, false
	}
	return new(big.Int).SetString(text, 10)
}
