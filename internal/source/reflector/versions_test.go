package reflector

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/status"
)

// knowing makes the sink know the versions of its objects.
func knowing(c *Config[*corev1.Pod]) { c.Sink.(*records).held = map[string]string{} }

// later waits until the longest backoffs have ended.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// An event that is older than the last resource version, but not older than the object in the sink, comes late: the sink
// gets it, and its version stays. From then on, each resumed watch is unsure.
// Guarantees: R6, R15, C7
func TestLateEventIsApplied(t *testing.T) {
	var resumed []bool
	configure := func(c *Config[*corev1.Pod]) {
		knowing(c)
		c.Resumed = func(_ time.Duration, unsure bool) { resumed = append(resumed, unsure) }
	}
	closed := watched(bookmark("8", ""))
	closed.open = false
	read(t, configure, func(r *reading) {
		later(time.Minute)
		r.want([]string{"list 0", "watch 7", "watch 8", "watch 11", "watch 12"},
			[]string{"=7 a,b", ".", "@8 ", ".", "@10 ", ".", "+10 a", "-10 b", "+10 c", ".", "@11 ", ".", "@12 ", "."})
		s := r.loop.Status()
		if s.Traffic.Late != 3 || s.Restored != 0 || s.ResourceVersion != "12" || len(r.failed.get()) != 0 || !slices.Equal(resumed, []bool{true, true}) {
			r.Errorf("status %+v, failures %v, resumed %v", s, r.failed.get(), resumed)
		}
	},
		podList("7", pod("3", "a"), pod("6", "b")), closed,
		answer{body: bookmark("10", "") + event("MODIFIED", pod("9", "a")) + event("DELETED", pod("6", "b")) + event("ADDED", pod("5", "c")) +
			bookmark("11", "")},
		answer{body: bookmark("12", "")})
}

// A list repairs what a late event may mean: the watch after it is not unsure.
// Guarantees: R6, R23
func TestListAfterALateEventIsSure(t *testing.T) {
	resumed := 0
	configure := func(c *Config[*corev1.Pod]) {
		knowing(c)
		c.Resumed = func(time.Duration, bool) { resumed++ }
	}
	read(t, configure, func(r *reading) {
		later(time.Minute)
		r.want([]string{"list 0", "watch 7", "list 10", "watch 20"}, []string{"=7 a", ".", "@10 ", ".", "+10 a", ".", "=20 a", "."})
		if s := r.loop.Status(); s.Traffic.Late != 1 || !s.WatchOpen || resumed != 0 {
			r.Errorf("resumed %d times, status %+v", resumed, s)
		}
	}, podList("7", pod("3", "a")), watched(bookmark("10", ""), event("MODIFIED", pod("9", "a")), event("ERROR", expired)), podList("20", pod("9", "a")))
}

// The server went back in time if an event is older than the object in the sink, or a bookmark older than the sink. A
// sink that does not know its objects cannot tell an event that comes late.
// Guarantees: R6
func TestOlderThanTheObjectIsARestoredServer(t *testing.T) {
	for name, c := range map[string]struct {
		knows bool
		sent  string
	}{
		"event":                  {true, event("MODIFIED", pod("5", "a"))},
		"deletion":               {true, event("DELETED", pod("5", "a"))},
		"bookmark":               {true, bookmark("6", "")},
		"sink without knowledge": {false, event("MODIFIED", pod("6", "b"))},
	} {
		t.Run(name, func(t *testing.T) {
			configure := func(cfg *Config[*corev1.Pod]) {
				if c.knows {
					knowing(cfg)
				}
			}
			read(t, configure, func(r *reading) {
				later(time.Minute)
				r.want([]string{"list 0", "watch 7", "list", "watch 6"}, []string{"=7 a,b", ".", "=6 a", "."})
				if s := r.loop.Status(); s.Restored != 1 || s.Traffic.Late != 0 || !errors.Is(s.LastError, fetch.ErrWentBack) {
					r.Errorf("status %+v", s)
				}
			}, podList("7", pod("6", "a"), pod("5", "b")), watched(c.sent), podList("6", pod("5", "a")))
		})
	}
}

// A resource version that is no number never becomes that of the sink, nor the beginning of a watch: the loop lists
// again after a wait, and recovers when the server sends numbers.
// Guarantees: R25
func TestVersionThatIsNoNumber(t *testing.T) {
	const lists, watches = "list 7", "watch 7"
	for name, c := range map[string]struct {
		sent     answer
		requests []string
		lines    []string
	}{
		"bookmark":          {watched(bookmark("abc", "")), []string{watches, lists}, nil},
		"negative bookmark": {watched(bookmark("-5", "")), []string{watches, lists}, nil},
		"zero":              {watched(bookmark("0", "")), []string{watches, lists}, nil},
		"event":             {watched(event("MODIFIED", pod("abc", "a"))), []string{watches, lists}, nil},
		"negative event":    {watched(event("DELETED", pod("-5", "a"))), []string{watches, lists}, nil},
		"event without one": {watched(event("MODIFIED", pod("", "a")), event("ERROR", expired)), []string{watches, lists}, []string{"+ a", "."}},
	} {
		t.Run(name, func(t *testing.T) {
			read(t, knowing, func(r *reading) {
				if s := r.loop.Status(); s.State != status.ReflectorBackoff || s.ResourceVersion != "7" {
					r.Errorf("status %+v", s)
				}
				later(time.Minute)
				r.want(slices.Concat([]string{"list 0"}, c.requests, []string{"watch 9"}),
					slices.Concat([]string{"=7 a", "."}, c.lines, []string{"=9 a", "."}))
			}, podList("7", pod("3", "a")), c.sent, podList("9", pod("8", "a")))
		})
	}
	for _, version := range []string{"", "abc", "-5", "0"} {
		t.Run("list "+version, func(t *testing.T) {
			read(t, knowing, func(r *reading) {
				later(time.Minute)
				r.want([]string{"list 0", "watch 7", "list 7", "list 7", "list 7", "watch 9"}, []string{"=7 a", ".", "=9 a", "."})
				if s := r.loop.Status(); !errors.Is(s.LastError, fetch.ErrNoNumber) || s.Restored != 0 {
					r.Errorf("status %+v", s)
				}
			}, podList("7", pod("3", "a")), answer{code: http.StatusGone, body: expired}, podList(version), podList(version), podList("9", pod("8", "a")))
		})
	}
}

// The versions of some servers have no order. The loop takes them as they are.
// Guarantees: R25
func TestVersionsWithoutOrder(t *testing.T) {
	read(t, knowing, func(r *reading) {
		r.want([]string{"list 0", "watch x"}, []string{"=x a", ".", "+y a", ".", "@z ", "."})
	}, podList("x", pod("u", "a")), watched(event("MODIFIED", pod("y", "a")), bookmark("z", "")))
}

// A collection whose list has no resource version, or whose watch is refused or answered with a list, is listed from time
// to time. An hour later the loop tries to watch again.
// Guarantees: R24
func TestCollectionThatCannotBeWatchedIsPolled(t *testing.T) {
	refused := answer{code: http.StatusMethodNotAllowed, body: `{"kind":"Status","status":"Failure","code":405}`}
	for name, c := range map[string]struct {
		version string
		watch   []answer
	}{
		"405":        {"7", []answer{refused}},
		"501":        {"7", []answer{{code: http.StatusNotImplemented, body: `{"kind":"Status","status":"Failure","code":501}`}}},
		"a list":     {"7", []answer{podList("7", pod("3", "a"))}},
		"no version": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			answers := append([]answer{podList(c.version, pod("3", "a"))}, c.watch...)
			for range 200 {
				answers = append(answers, podList(c.version, pod("3", "a")))
			}
			read(t, func(c *Config[*corev1.Pod]) { c.PollEvery = time.Minute }, func(r *reading) {
				before := len(c.watch) + 1
				for n := range 3 {
					s := r.loop.Status()
					if s.State != status.ReflectorPolled || !s.RetryAt.Equal(time.Now().Add(time.Minute)) || s.Awaits != status.AwaitingRetry || s.ResourceVersion != c.version ||
						len(r.server.requests.get()) != before+n {
						r.Fatalf("status %+v, requests %q", s, r.server.requests.get())
					}
					later(time.Minute)
				}
				s := r.loop.Status()
				if down := time.Since(s.NoWatchSince); down > time.Second || s.Traffic.ListsBy[status.ReasonPolled] != 3 || s.Failures != 0 {
					r.Errorf("status %+v", s)
				}
				if n := len(s.Transitions); n != 2+len(c.watch) {
					r.Errorf("transitions %+v", s.Transitions)
				}
				later(57*time.Minute - 1)
				if n := len(r.server.requests.get()); n != before+59 {
					r.Errorf("%d requests in an hour", n)
				}
				later(1)
				requests := r.server.requests.get()[before+59:]
				if want := []string{"list 7", "watch 7"}[:1+len(c.watch)]; c.version != "" && !slices.Equal(requests, want) {
					r.Errorf("requests after an hour: %q", requests)
				}
			}, answers...)
		})
	}
}

// While a list is under way in state Polled, no next try is planned.
// Guarantees: R24
func TestPolledListUnderWay(t *testing.T) {
	read(t, func(c *Config[*corev1.Pod]) { c.PollEvery = time.Minute }, func(r *reading) {
		later(time.Minute)
		r.want([]string{"list 0", "list"}, []string{"= a", "."})
		if s := r.loop.Status(); s.State != status.ReflectorPolled || !s.RetryAt.IsZero() || s.Awaits != status.AwaitingData {
			r.Errorf("status %+v", s)
		}
	}, podList("", pod("3", "a")))
}

// PollEvery below zero ends Run with an error if the collection cannot be watched, before the sink gets a list.
// Guarantees: R24
func TestNegativePollEvery(t *testing.T) {
	refused := answer{code: http.StatusMethodNotAllowed, body: `{"kind":"Status","status":"Failure","code":405}`}
	never := func(c *Config[*corev1.Pod]) { c.PollEvery = -1 }
	for name, c := range map[string]struct {
		answers []answer
		lines   []string
	}{
		"405":        {[]answer{podList("7", pod("3", "a")), refused}, nil},
		"no version": {[]answer{podList("", pod("3", "a"))}, nil},
		"a list":     {[]answer{podList("7", pod("3", "a")), podList("7")}, []string{"=7 a", "."}}, // the headers do not show it
	} {
		t.Run(name, func(t *testing.T) {
			read(t, never, func(r *reading) {
				if err := r.loop.Status().LastError; !errors.Is(err, fetch.ErrNoWatch) {
					r.Errorf("%v", err)
				}
				r.ends = r.loop.Status().LastError
				if got := r.sink.lines.get(); !slices.Equal(got, c.lines) {
					r.Errorf("the sink got %q", got)
				}
			}, c.answers...)
		})
	}
	read(t, never, func(r *reading) {
		r.want([]string{"list 0", "watch 7"}, []string{"=7 a", ".", "+8 b", "."})
		if s := r.loop.Status(); s.State != status.ReflectorWatching || !s.WatchOpen || s.Traffic.Watches != 1 {
			r.Errorf("status %+v", s)
		}
	}, podList("7", pod("3", "a")), watched(event("ADDED", pod("8", "b"))))
}

// tornPage is the first page of a list whose second page is at another version.
func tornPage() answer {
	page := podList("7", pod("3", "a"), pod("4", "b"))
	page.body = strings.Replace(page.body, `"resourceVersion":"7"`, `"resourceVersion":"7","continue":"t"`, 1)
	return page
}

// If the watch expires before it reaches the version of the last page, the next list is read at once: the next pages could
// take as long. After that, lists have pages again.
// Guarantees: R4
func TestListAfterATornListThatExpires(t *testing.T) {
	gone := answer{code: http.StatusGone, body: expired}
	for name, c := range map[string]struct {
		last  string // the version that the watch reaches
		limit string // of the next list
	}{
		"before the last page": {"8", ""},
		"at the last page":     {"12", ""}, // later changes of that version may follow
		"behind the last page": {"13", "500"},
	} {
		t.Run(name, func(t *testing.T) {
			read(t, knowing, func(r *reading) {
				later(2 * time.Minute)
				requests, limits := r.server.requests.get(), r.server.limits.get()
				want := []string{"list 0", "list", "watch 7", "list " + c.last, "watch 20", "list 20", "watch 30"}
				if !slices.Equal(requests, want) || !slices.Equal(limits, []string{"500", "500", "", c.limit, "", "500", ""}) {
					r.Errorf("requests %q, limits %q, want limit %q", requests, limits, c.limit)
				}
			}, tornPage(), podList("12", pod("11", "c")), watched(event("MODIFIED", pod(c.last, "a")), event("ERROR", expired)),
				podList("20", pod("14", "a")), gone, podList("30", pod("14", "a")))
		})
	}
}

// If the pages of a list are of different versions, the watch begins at the lowest. What it sends again about a newer
// object of the list does not reach the sink.
// Guarantees: R4
func TestWatchAfterATornList(t *testing.T) {
	events := watched(
		event("MODIFIED", pod("8", "c")), // c was at 11 on the second page
		event("DELETED", pod("9", "a")),
		event("DELETED", pod("10", "c")), // and was made again
		event("ADDED", pod("11", "c")),
		event("MODIFIED", pod("12", "b")),
		event("DELETED", pod("13", "c")))
	read(t, knowing, func(r *reading) {
		got := slices.DeleteFunc(r.sink.lines.get(), func(line string) bool { return line == "." })
		if want := []string{"=7 a,b,c", "@8 ", "-9 a", "@10 ", "+11 c", "+12 b", "-13 c"}; !slices.Equal(got, want) {
			r.Errorf("the sink got %q, want %q", got, want)
		}
		if got, want := r.server.requests.get(), []string{"list 0", "list", "watch 7"}; !slices.Equal(got, want) {
			r.Errorf("requests %q, want %q", got, want)
		}
		if s := r.loop.Status(); s.Restored != 0 || s.Traffic.Late != 0 || len(r.failed.get()) != 0 {
			r.Errorf("status %+v, failures %v", s, r.failed.get())
		}
	}, tornPage(), podList("12", pod("11", "c")), events)
}
