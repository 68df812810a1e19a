// Package budget warns before the first lists of a client take more memory than the process may use, and ends one that
// takes more than an informer may hold.
//
//	Budget, of a client -- Account, of an informer -- List, of a reflector
package budget

import (
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/memlimit"
)

const (
	// The warning comes when the process will use more than warnAt/warnOf of its limit. Objects are measured from half of
	// that on.
	warnAt, warnOf = 4, 5
	// Lists that will take less than a part in leastPart of the limit are not the reason if the process is near it.
	leastPart = 20
	// limitFor is how long a limit counts that was read: the one of a cgroup can change.
	limitFor = time.Minute
	// expansion is how many bytes of memory a received byte takes at most, until objects have been measured.
	expansion = 4
	// unencoded is the memory of an object that was not received in bytes, until objects have been measured.
	unencoded = 4 << 10
)

// Budget is the memory of the process, as far as the first lists of a client know it. It is safe for concurrent use.
type Budget struct {
	// Limit and Used are those of the process. Tests replace them before the first list.
	Limit func() memlimit.Limit
	Used  func() int64

	mu     sync.Mutex // protects the fields below, and those of accounts and lists that say so
	loads  map[*List]struct{}
	limit  memlimit.Limit
	read   time.Time // when limit was read; zero for never
	warned bool      // a warning was logged since loads was empty
}

// New returns the budget of a client.
func New() *Budget {
	return &Budget{Limit: memlimit.Current, Used: memlimit.Used, loads: map[*List]struct{}{}}
}

// Account returns an account of an informer whose objects may take so many bytes. Zero means no limit. A nil Budget has
// none.
func (b *Budget) Account(most int64) *Account {
	if b == nil {
		return nil
	}
	return &Account{budget: b, most: most}
}

// Account has the first lists of one informer.
type Account struct {
	budget *Budget
	most   int64   // bytes that the objects may take; zero for no limit
	lists  []*List // those that have begun, and have not failed; protected by budget.mu
}

// figures are the objects of a list, as of its last Check.
type figures struct {
	seen, kept int   // objects, and those of them that the store gets
	total      int64 // objects with those that remain; zero if unknown
	bytes      int64 // received
	measured   Sizes // zero if they were not
}

// memory returns the memory that the objects will take, and that of those that have arrived. perByte is the memory of a
// received byte if objects were not measured.
func (f *figures) memory(perByte float64) (whole, loaded float64) {
	switch loaded = float64(f.bytes) * perByte; {
	case f.measured.Own > 0:
		loaded = float64(f.kept) * f.measured.Own
	case f.bytes == 0:
		loaded = float64(f.kept) * unencoded
	}
	if f.total > int64(f.seen) && f.seen > 0 {
		return loaded / float64(f.seen) * float64(f.total), loaded
	}
	return loaded, loaded
}

// limitLocked returns the limit of the process.
func (b *Budget) limitLocked() memlimit.Limit {
	if b.read.IsZero() || time.Since(b.read) > limitFor {
		b.limit, b.read = b.Limit(), time.Now()
	}
	return b.limit
}

// loadingLocked returns the memory that the objects of all lists under way will take, and how much of it they do not
// take yet. Lists whose objects were not measured count only if guesses is true.
func (b *Budget) loadingLocked(guesses bool) (whole, missing float64) {
	for l := range b.loads {
		if f := &l.now; guesses || f.measured.Own > 0 {
			w, loaded := f.memory(expansion)
			whole += w
			missing += w - loaded
		}
	}
	return whole, missing
}

// largestLocked reports whether no other list of the account that is under way will take more memory than l. The
// largest one ends, and not what fits without it.
func (a *Account) largestLocked(l *List) bool {
	own, _ := l.now.memory(expansion)
	for _, other := range a.lists {
		if whole, _ := other.now.memory(expansion); other.first && whole > own {
			return false
		}
	}
	return true
}

// wholeLocked returns the memory that the objects of the account will take. perByte is the memory of a received byte of
// a list whose objects were not measured.
func (a *Account) wholeLocked(perByte float64) (whole float64) {
	for _, l := range a.lists {
		w, _ := l.now.memory(perByte)
		whole += w
	}
	return whole
}
