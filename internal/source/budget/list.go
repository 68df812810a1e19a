package budget

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/typedinformer/informer/status"
)

// ErrMaxMemory indicates that the first lists of an informer would take more memory than it may hold.
var ErrMaxMemory = errors.New("the collection takes more memory than Config.MaxMemory")

// Sizes are the mean sizes of objects, in bytes with what a store needs for each: as they are held, and in other ways.
// Zero means not known.
type Sizes struct{ Own, Shared, Compact, Metadata float64 }

// List is the progress of the lists of one reflector, one after the other. Its first list takes part in the account:
// that which fills an empty store.
//
// One goroutine at a time calls the methods, except Status and Claim.
type List struct {
	account *Account
	name    string // of the collection
	log     *slog.Logger
	objects atomic.Int64
	total   atomic.Int64 // zero if unknown

	due int // the number of objects at which they are measured again

	// The fields below are protected by account.budget.mu.
	began, ended time.Time
	from, bytes  int64   // bytes that the source had received when the list began, and those of the list so far
	first        bool    // the list under way fills an empty store
	asked        bool    // Unknown has returned true for this list
	now          figures // as of the last Check
	forecast     status.Forecast
}

// List returns the list of a reflector of the collection with that name.
func (a *Account) List(name string, log *slog.Logger) *List {
	return &List{account: a, name: name, log: log}
}

// Begin begins a list. first says that it fills an empty store. received is the number of bytes that the source has
// received so far.
func (l *List) Begin(first bool, received int64) {
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	l.objects.Store(0)
	l.total.Store(0)
	l.began, l.ended = time.Now(), time.Time{}
	l.from, l.bytes, l.first = received, 0, first
	l.due, l.asked, l.forecast = 0, false, status.Forecast{}
	if first {
		l.leaveLocked()
		l.account.lists = append(l.account.lists, l)
		l.now, b.loads[l] = figures{}, struct{}{}
	}
}

// Read counts one object. It reports whether to call Check: seldom, but soon if objects are large.
func (l *List) Read() (check bool) {
	n := l.objects.Add(1)
	return n%often == 0 || n&(n-1) == 0
}

// often is the number of objects after which the memory is checked again.
const often = 512

// Reset forgets the objects so far: the list begins again.
func (l *List) Reset() {
	l.objects.Store(0)
	l.total.Store(0)
}

// Loaded records that the store has n objects of a saved state instead of a list.
func (l *List) Loaded(n int) { l.objects.Store(int64(n)) }

// mostObjects is the largest number of objects that is taken from a server. etcd cannot hold that many.
const mostObjects = 1 << 40

// Remain notes how many objects remain. Nil means that the server does not say it; Claim may have done so.
func (l *List) Remain(n *int64) {
	switch {
	case n != nil && *n >= 0 && *n <= mostObjects:
		l.total.Store(l.objects.Load() + *n)
	case l.total.Load() < l.objects.Load():
		l.total.Store(0)
	}
}

// Unknown reports whether a limit is near and the server has not said how many objects there are. It does so once for
// each list.
func (l *List) Unknown() bool {
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	unknown := l.first && !l.asked && l.forecast.Loaded > 0 && l.total.Load() == 0
	l.asked = l.asked || unknown
	return unknown
}

// Claim notes that the server has n objects. Any goroutine may call it.
func (l *List) Claim(n int64) {
	if n > l.objects.Load() && n <= mostObjects {
		l.total.CompareAndSwap(0, n)
	}
}

// Check compares the memory with the limits, and logs a warning if the process will not have enough. kept is the number
// of objects so far that the store gets, and received that of bytes that the source has received. Check calls measure
// only if a limit is near. It returns an ErrMaxMemory if the list must end.
func (l *List) Check(kept int, received int64, measure func() Sizes) error {
	if kept == 0 || !l.near(kept, received) {
		return nil
	}
	var sizes Sizes // zero for the last ones
	if kept >= l.due {
		sizes, l.due = measure(), 2*kept
	}
	warning, lists, err := l.compare(sizes)
	if warning != "" {
		l.log.Warn("the first lists may take more memory than the process has", "progress", warning, "lists", lists)
	}
	return err
}

// near reports whether a limit is near: half of what is allowed.
func (l *List) near(kept int, received int64) bool {
	a, b := l.account, l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if !l.first {
		return false
	}
	l.bytes = received - l.from
	l.now = figures{int(l.objects.Load()), kept, l.total.Load(), l.bytes, l.now.measured}
	if a.most > 0 && a.wholeLocked(expansion) > float64(a.most)/2 {
		return true
	}
	limit := float64(b.limitLocked().Bytes)
	whole, missing := b.loadingLocked(true)
	return limit > 0 && whole > limit/leastPart && float64(b.Used())+missing > limit*warnAt/warnOf/2
}

// compare compares the memory with the limits. It returns the text of a warning and the number of lists under way if
// the warning is due, and an ErrMaxMemory if the list must end.
func (l *List) compare(sizes Sizes) (warning string, lists int, err error) {
	a, b := l.account, l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if sizes.Own > 0 {
		l.now.measured = sizes
	}
	now := l.now
	limit := b.limitLocked()
	all, missing := b.loadingLocked(false)
	whole, loaded := now.memory(expansion)
	f := status.Forecast{
		Loaded:    int64(loaded),
		Process:   b.Used() + int64(missing),
		Limit:     limit.Bytes,
		LimitedBy: limit.Source,
		Max:       a.most,
	}
	if now.total > 0 {
		f.Whole = int64(whole)
	}
	if a.most > 0 {
		f.Informer = int64(a.wholeLocked(loaded / float64(max(now.bytes, 1))))
	}
	other := func(size float64) int64 {
		if size >= now.measured.Own {
			return 0
		}
		return int64(whole / now.measured.Own * size)
	}
	f.Shared, f.Compact, f.Metadata = other(now.measured.Shared), other(now.measured.Compact), other(now.measured.Metadata)
	f.Exceeded = limit.Bytes > 0 && f.Process > limit.Bytes/warnOf*warnAt && all > float64(limit.Bytes)/leastPart
	l.forecast = f
	if f.Exceeded && !b.warned {
		b.warned = true
		warning, lists = l.statusLocked().String(), len(b.loads)
	}
	if f.Informer > a.most && a.largestLocked(l) {
		err = fmt.Errorf("%w: %s: %s; select less, hold it in another way, or raise the limit", ErrMaxMemory, l.name,
			l.statusLocked())
	}
	return warning, lists, err
}

// End ends the list. done says that the store has it. Of a list that failed, it has nothing.
func (l *List) End(received int64, done bool) {
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	l.ended, l.bytes = time.Now(), received-l.from
	if done {
		l.total.Store(l.objects.Load())
	} else {
		l.leaveLocked()
	}
	l.forecast, l.first = status.Forecast{}, false
	if delete(b.loads, l); len(b.loads) == 0 {
		b.warned = false
	}
}

// Close ends the part of the list in its account: the store does not get its objects any more.
func (l *List) Close() {
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	l.leaveLocked()
}

// leaveLocked removes the list from its account.
func (l *List) leaveLocked() {
	a := l.account
	a.lists = slices.DeleteFunc(a.lists, func(other *List) bool { return other == l })
}

// Status returns the present status. received is the number of bytes that the source has received so far.
func (l *List) Status(received int64) status.List {
	b := l.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s := l.statusLocked()
	if s.Ended.IsZero() && !s.Began.IsZero() {
		s.Bytes = received - l.from
	}
	return s
}

func (l *List) statusLocked() status.List {
	s := status.List{
		Began:    l.began,
		Ended:    l.ended,
		Objects:  int(l.objects.Load()),
		Bytes:    l.bytes,
		Total:    int(l.total.Load()),
		Forecast: l.forecast,
	}
	if took := time.Since(l.began); s.Ended.IsZero() && !s.Began.IsZero() && took > 0 {
		s.Rate = float64(s.Objects) / took.Seconds()
		if s.Total > s.Objects && s.Objects > 0 {
			s.Left = time.Duration(float64(took) / float64(s.Objects) * float64(s.Total-s.Objects))
		}
	}
	return s
}
