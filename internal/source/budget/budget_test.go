package budget

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer/internal/memlimit"
	"github.com/typedinformer/informer/status"
)

const kb, mb = 1000, 1000 * 1000

// process is a process that uses 100 MB. Its limit is 500 MB.
type process struct {
	*testing.T
	budget *Budget
	log    strings.Builder
	limit  memlimit.Limit
	used   int64
}

func newProcess(t *testing.T) *process {
	p := &process{T: t, budget: New(), limit: memlimit.Limit{Bytes: 500 * mb, Source: "the cgroup"}, used: 100 * mb}
	p.budget.Limit = func() memlimit.Limit { return p.limit }
	p.budget.Used = func() int64 { return p.used }
	return p
}

// load is the first list of objects whose sizes are known.
type load struct {
	*List
	p        *process
	sizes    Sizes
	received int64
	measured int // calls
}

func (p *process) begin(a *Account, name string, sizes Sizes) *load {
	leftOut := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	l := &load{p: p, sizes: sizes, received: 5}
	l.List = a.List(name, slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{ReplaceAttr: leftOut})))
	l.Begin(true, l.received)
	return l
}

// read reads n objects of a kilobyte each, after which remain objects remain; negative if the server does not say it.
func (l *load) read(n int, remain int64) error {
	for range n {
		l.List.Read()
		l.received += kb
	}
	l.p.used += int64(n) * int64(l.sizes.Own)
	if remain >= 0 {
		l.Remain(&remain)
	}
	return l.Check(l.now().Objects, l.received, func() Sizes { l.measured++; return l.sizes })
}

func (l *load) now() status.List { return l.Status(l.received) }

func (l *load) end(done bool) { l.End(l.received, done) }

// warnings checks the lines of the log since the last call.
func (p *process) warnings(want ...string) {
	p.Helper()
	if got := strings.TrimSpace(p.log.String()); got != strings.Join(want, "\n") {
		p.Errorf("the log has\n%s\nand not\n%s", got, strings.Join(want, "\n"))
	}
	p.log.Reset()
}

var podSizes = Sizes{Own: 8 * kb, Shared: 6 * kb, Compact: 1 * kb, Metadata: 900}

// A list that will take more memory than the process has is reported once, with what would take less. After the list,
// the forecast is gone.
//
// Guarantees: O7
func TestWarningBeforeTheProcessIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t)
		l := p.begin(p.budget.Account(0), "pods", podSizes)
		for n := range 3 {
			if err := l.read(500, int64(87_500-500*n)); err != nil {
				t.Fatal(err)
			}
		}
		const text = "%s of 88,000 objects, %s of memory; the whole collection will take about 704 MB, and the process about " +
			"804 MB of a limit of 500 MB (the cgroup); LayoutShared would take 528 MB, LayoutCompact 88 MB, metadata only 79 MB"
		p.warnings(fmt.Sprintf(`level=WARN msg="the first lists may take more memory than the process has" progress="`+text+`" lists=1`,
			"500", "4.0 MB"))
		if got, want := l.now().String(), fmt.Sprintf(text, "1,500", "12 MB"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if s := l.now(); s.Bytes != 1500*kb || s.Began.IsZero() || !s.Ended.IsZero() || !s.Forecast.Exceeded {
			t.Errorf("%+v", s.Forecast)
		}
		if l.measured != 2 {
			t.Errorf("objects were measured %d times, and not when there were 500 and 1,000", l.measured)
		}
		l.end(true)
		if s := l.now(); s.Forecast != (status.Forecast{}) || s.Total != 1500 || s.Ended.IsZero() || s.String() != "1,500 of 1,500 objects, 1.5 MB received" {
			t.Errorf("after the list: %s, %+v", s, s)
		}
		p.warnings()
	})
}

// Without a total, the forecast has only what has arrived, and says so.
//
// Guarantees: O6
func TestStreamWithoutATotal(t *testing.T) {
	p := newProcess(t)
	l := p.begin(p.budget.Account(0), "pods", podSizes)
	for range 38 {
		if err := l.read(1000, -1); err != nil {
			t.Fatal(err)
		}
		if f := l.now().Forecast; f.Whole != 0 || f.Exceeded != (p.used > 400*mb) {
			t.Fatalf("%d MB are used: %+v", p.used/mb, f)
		}
	}
	p.warnings(`level=WARN msg="the first lists may take more memory than the process has" progress="38,000 objects so far, ` +
		`304 MB of memory; how many remain is not known; the process will use at least 404 MB of a limit of 500 MB (the cgroup); ` +
		`LayoutShared would take 228 MB, LayoutCompact 38 MB, metadata only 34 MB" lists=1`)
	if s := l.now(); s.Total != 0 {
		t.Errorf("%+v", s)
	}
}

// Near a limit, the server is asked once for a total that is not known.
func TestTotalIsAskedForOnce(t *testing.T) {
	p := newProcess(t)
	l := p.begin(p.budget.Account(0), "pods", podSizes)
	if _ = l.read(1000, -1); l.Unknown() {
		t.Error("it is asked far from the limit")
	}
	if _ = l.read(20_000, -1); !l.Unknown() || l.Unknown() {
		t.Error("it is not asked once")
	}
	for _, n := range []int64{math.MinInt64, 20_000, math.MaxInt64} {
		if l.Claim(n); l.now().Total != 0 {
			t.Errorf("%d objects are claimed: total %d", n, l.now().Total)
		}
	}
	l.Claim(88_000)
	l.Claim(99_000)
	if _ = l.read(1, -1); l.now().Total != 88_000 || l.now().Forecast.Whole != 704*mb {
		t.Errorf("%s", l.now())
	}
	if l.Begin(true, 0); l.now().Total != 0 || l.Unknown() {
		t.Errorf("the next list: %s", l.now())
	}
}

// Several lists of a client together fill the process: one line is enough. After the last one, the next is reported again.
func TestListsOfAClientAreReportedOnce(t *testing.T) {
	p := newProcess(t)
	first := func() (all []*load) {
		for n := range 3 {
			l := p.begin(p.budget.Account(0), fmt.Sprint("list ", n), podSizes)
			_ = l.read(100, 18_650)
			if all = append(all, l); l.now().Forecast.Exceeded != (n == 2) {
				t.Errorf("with %d lists: %+v", n+1, l.now().Forecast)
			}
		}
		return all
	}
	for range 2 {
		p.used = 100 * mb
		all := first()
		for _, l := range all {
			_ = l.read(10, 18_640)
			if !l.now().Forecast.Exceeded {
				t.Errorf("%+v", l.now().Forecast)
			}
		}
		if got := strings.Count(p.log.String(), "\n"); got != 1 || !strings.Contains(p.log.String(), "lists=3") {
			t.Errorf("%d lines: %s", got, p.log.String())
		}
		p.log.Reset()
		for _, l := range all {
			l.end(true)
		}
	}
}

// A list that is far from the limit measures nothing and has no forecast, nor does a small one in a full process, nor
// one that is not the first.
func TestListsFarFromTheLimit(t *testing.T) {
	p := newProcess(t)
	quiet := func(l *load, remain int64) {
		t.Helper()
		if err := l.read(1000, remain); err != nil || l.measured > 0 || l.now().Forecast != (status.Forecast{}) {
			t.Errorf("%v, measured %d times, %+v", err, l.measured, l.now())
		}
		l.end(true)
	}
	quiet(p.begin(p.budget.Account(0), "few", podSizes), 5000)
	p.used = 499 * mb
	quiet(p.begin(p.budget.Account(0), "small", podSizes), 1000)
	l := p.begin(p.budget.Account(1), "again", podSizes)
	l.Begin(false, 0)
	quiet(l, 1_000_000)
	p.limit = memlimit.Limit{}
	p.budget.read = time.Time{}
	quiet(p.begin(p.budget.Account(0), "unlimited", podSizes), 1_000_000)
	p.warnings()
}

// The lists of one informer together may take Config.MaxMemory, also after some of them have ended. The lists of others
// do not count, nor does one that has failed or was removed.
func TestMaxMemoryIsForAllListsOfAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t)
		p.limit = memlimit.Limit{}
		other := p.begin(p.budget.Account(1<<40), "others", podSizes)
		_ = other.read(1000, 1_000_000)
		a := p.budget.Account(20 * mb)
		small := p.begin(a, "small", podSizes) // never measured by itself: it is far from the limit
		if err := small.read(100, 0); err != nil || small.measured > 0 {
			t.Fatal(err, small.measured)
		}
		small.end(true)
		ended := p.begin(a, "ended", podSizes)
		if err := ended.read(1000, 200); err != nil {
			t.Fatal(err)
		}
		ended.end(true)
		last := p.begin(a, "last", podSizes)
		err := last.read(600, 700)
		const want = "the collection takes more memory than Config.MaxMemory: last: 600 of 1,300 objects, 4.8 MB of memory; " +
			"the whole collection will take about 10 MB; the informer will hold at least 21 MB, and Config.MaxMemory is 20 MB; " +
			"LayoutShared would take 7.8 MB, LayoutCompact 1.3 MB, metadata only 1.2 MB; select less, hold it in another way, or raise the limit"
		if !errors.Is(err, ErrMaxMemory) || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
		little := p.begin(a, "little", podSizes) // it fits without the larger one
		if err := little.read(100, 0); err != nil {
			t.Error(err)
		}
		little.end(false)
		last.end(false)
		last.Begin(true, last.received)
		ended.Close()
		if err := last.read(600, 700); err != nil {
			t.Errorf("without the other list: %v", err)
		}
	})
}

// A server may claim any number of remaining objects.
func TestRemainingObjectsOfAnyServer(t *testing.T) {
	for _, n := range []int64{math.MinInt64, -1, 0, 1, mostObjects, mostObjects + 1, math.MaxInt64} {
		p := newProcess(t)
		l := p.begin(p.budget.Account(1<<50), "pods", podSizes)
		for range 10 {
			l.List.Read()
		}
		l.Remain(&n)
		_ = l.Check(10, 1<<20, func() Sizes { return podSizes })
		want := int64(10) + n
		if n < 0 || n > mostObjects {
			want = 0
		}
		if f := l.now(); int64(f.Total) != want || f.Forecast.Whole < 0 || f.Forecast.Process < 0 {
			t.Errorf("%d remain: %+v", n, f)
		}
	}
	p := newProcess(t)
	l := p.begin(p.budget.Account(0), "pods", podSizes)
	_ = l.read(10, 5)
	if l.Remain(nil); l.now().Total != 15 {
		t.Error("the total is forgotten")
	}
	_ = l.read(10, -1)
	if l.Remain(nil); l.now().Total != 0 {
		t.Error("there are more objects than the total")
	}
	_ = l.read(10, 5)
	if l.Reset(); l.now().Total != 0 || l.now().Objects != 0 {
		t.Errorf("after Reset: %s", l.now())
	}
}

// The limit of a cgroup can change. It is read again after a minute, and not for each list.
func TestLimitIsReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, reads := newProcess(t), 0
		p.budget.Limit = func() memlimit.Limit { reads++; return p.limit }
		for minute := range 3 {
			for range 10 {
				l := p.begin(p.budget.Account(0), "pods", podSizes)
				_ = l.read(10, 0)
				l.end(true)
			}
			if reads != minute+1 {
				t.Errorf("%d reads in minute %d", reads, minute)
			}
			time.Sleep(limitFor + 1)
		}
	})
}

// A logger may ask for the status.
func TestLoggerMayAskForTheStatus(t *testing.T) {
	p := newProcess(t)
	l := &load{p: p, sizes: podSizes}
	l.List = p.budget.Account(0).List("pods", slog.New(slog.NewTextHandler(asking{l}, nil)))
	l.Begin(true, 0)
	if _ = l.read(10, 1_000_000); !l.now().Forecast.Exceeded {
		t.Error("nothing was logged")
	}
}

type asking struct{ *load }

func (a asking) Write(b []byte) (int, error) { a.now(); return len(b), nil }

// Objects are checked seldom, but soon if they are large.
func TestChecksAreSeldom(t *testing.T) {
	l := New().Account(0).List("pods", nil)
	var checked []int
	for n := range 2 * often {
		if l.Read() {
			checked = append(checked, n+1)
		}
	}
	if got := fmt.Sprint(checked); got != "[1 2 4 8 16 32 64 128 256 512 1024]" {
		t.Error(got)
	}
}
