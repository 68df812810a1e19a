package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reshard"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/status"
)

// collection is the collection of the tests.
type collection struct{}

func (collection) DecodeError(key object.Key, why error) error {
	return fmt.Errorf("decode %s: %w", key, why)
}

// recorded is what goroutines have added.
type recorded[E any] struct {
	mu  sync.Mutex // protects the field below
	all []E
}

func (r *recorded[E]) add(e E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

func (r *recorded[E]) get() []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// server answers each request with the next of its answers, and records the requests. Without an answer left, it keeps
// the request waiting.
type server struct {
	answers  []answer
	requests recorded[string]
	limits   recorded[string] // the page sizes of the requests
}

// answer is the body of a response, which stays open if it is a watch's, or breaks after a time, and its code, where zero
// means 200.
type answer struct {
	code   int
	body   string
	open   bool
	breaks time.Duration
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	verb := "list"
	if q.Has("watch") {
		verb = "watch"
	}
	if q.Has("sendInitialEvents") {
		verb = "stream"
	}
	s.requests.add(strings.TrimSpace(verb + " " + q.Get("resourceVersion")))
	s.limits.add(q.Get("limit"))
	a := answer{open: true}
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	if a.code == 0 {
		a.code = http.StatusOK
	}
	body := io.Reader(strings.NewReader(a.body))
	switch {
	case a.open:
		body = io.MultiReader(body, untilDone{r.Context()})
	case a.breaks > 0:
		body = io.MultiReader(body, breaking{a.breaks})
	}
	return &http.Response{StatusCode: a.code, Header: http.Header{"Content-Type": {decode.MediaJSON}},
		Body: io.NopCloser(body), Request: r}, nil
}

// untilDone is a body that ends with its request.
type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// breaking is a body that breaks off after a time.
type breaking struct{ after time.Duration }

func (b breaking) Read([]byte) (int, error) {
	<-time.After(b.after)
	return 0, io.ErrUnexpectedEOF
}

func pod(version, name string) string {
	const text = `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"ns","name":%q,"uid":%q,"resourceVersion":%q}}`
	return fmt.Sprintf(text, name, name, version)
}

func podList(version string, pods ...string) answer {
	const text = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`
	return answer{body: fmt.Sprintf(text, version, strings.Join(pods, ","))}
}

func event(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) + "\n"
}

func bookmark(version string, more string) string {
	const text = `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":%q%s}}`
	return event("BOOKMARK", fmt.Sprintf(text, version, more))
}

// watched is the answer to a watch that stays open.
func watched(events ...string) answer { return answer{body: strings.Join(events, ""), open: true} }

const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`

// records is a sink that records what it gets: deltas, and a point for each flush after one.
type records struct {
	lines recorded[string]
	err   error             // the outcome of each Put
	held  map[string]string // the versions of the objects, by name; nil if the sink does not know them
}

func (r *records) Put(_ context.Context, d Delta[*corev1.Pod]) error {
	var names []string
	for _, p := range d.Items {
		names = append(names, p.Name)
	}
	for _, u := range d.Undecoded {
		names = append(names, u.Key.Name+"!")
	}
	name := d.Key.Name
	if d.Object != nil {
		name = d.Object.Name
	}
	switch {
	case r.held == nil:
	case d.Type == Upserted:
		r.held[name] = d.Object.ResourceVersion
	case d.Type == Removed:
		delete(r.held, name)
	case d.Type == Replaced:
		clear(r.held)
		for _, p := range d.Items {
			r.held[p.Name] = p.ResourceVersion
		}
	}
	line := map[DeltaType]string{Upserted: "+", Removed: "-", Replaced: "=", Bookmarked: "@"}[d.Type]
	r.lines.add(line + d.Version + " " + name + strings.Join(names, ","))
	return r.err
}

func (r *records) Flush() error {
	if lines := r.lines.get(); len(lines) > 0 && lines[len(lines)-1] != "." {
		r.lines.add(".")
	}
	return nil
}

func (r *records) Held(_ context.Context, key object.Key) (version string, ok bool, err error) {
	return r.held[key.Name], r.held != nil, nil
}

func (r *records) Stale() int { return 0 }

// reading is a loop that runs in a bubble.
type reading struct {
	*testing.T
	loop   *Loop[*corev1.Pod]
	server *server
	sink   records
	failed recorded[error]
	asleep atomic.Int64 // how long the system was suspended
	ends   error        // the error of Run
}

// read runs f with a loop that reads answers, after nothing happens any more.
func read(t *testing.T, configure func(*Config[*corev1.Pod]), f func(r *reading), answers ...answer) {
	synctest.Test(t, func(t *testing.T) {
		r := &reading{T: t, server: &server{answers: answers}, ends: context.Canceled}
		client, err := transport.New(&rest.Config{Host: "http://test", Transport: r.server, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		client.Suspension.Wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(r.asleep.Load())) }
		pool, err := decode.NewPool(reflect.TypeFor[*corev1.Pod](), "", false, nil)
		if err != nil {
			t.Fatal(err)
		}
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		source := fetch.NewSource(fetch.Config{Client: client, Path: "/api/v1/pods", Resource: pods,
			Check: pool.Check})
		config := Config[*corev1.Pod]{
			Sink:    &r.sink,
			Source:  source,
			Absence: fetch.NewAbsence(source, false),
			Decoder: &intake.Decoder[*corev1.Pod]{Pool: pool, Packing: intake.Unpacked[*corev1.Pod]{Decoded: pool.Type()},
				Collection: collection{}, Calling: run.NewLimit(1)},
			Progress: &intake.Progress[*corev1.Pod]{
				List: budget.New().Account(0).List("pods", slog.New(slog.DiscardHandler)),
			},
			Shard:     reshard.NewAdoption(shardset.Shard{}),
			PagedList: true,
			OnFailure: func(err error) { r.failed.add(err) },
			Log:       slog.New(slog.DiscardHandler),
		}
		if configure != nil {
			configure(&config)
		}
		r.loop = New(config)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.loop.Run(ctx) }()
		synctest.Wait()
		f(r)
		cancel()
		if err := <-ended; err != r.ends {
			t.Errorf("Run: %v, want %v", err, r.ends)
		}
		if s := r.loop.Status(); s.State != status.ReflectorIdle || s.WatchOpen {
			t.Errorf("after Run: %s, watch open %t", s.State, s.WatchOpen)
		}
	})
}

func (r *reading) want(requests, lines []string) {
	r.Helper()
	if got := r.server.requests.get(); !slices.Equal(got, requests) {
		r.Errorf("requests %q, want %q", got, requests)
	}
	if got := r.sink.lines.get(); !slices.Equal(got, lines) {
		r.Errorf("the sink got %q, want %q", got, lines)
	}
}

// The sink gets the list, then each change. The watch begins at the version of the list.
// Guarantees: R1, R3, R15
func TestListThenWatch(t *testing.T) {
	list := podList("7", pod("3", "a"), pod("5", "b"))
	watch := watched(event("ADDED", pod("8", "c")), event("DELETED", pod("9", "a")), bookmark("10", ""))
	for name, c := range map[string]struct {
		answers  []answer
		stream   bool
		requests []string
	}{
		"paged": {[]answer{list, watch}, false, []string{"list 0", "watch 7"}},
		"streaming": {[]answer{watched(event("ADDED", pod("3", "a")), event("ADDED", pod("5", "b")),
			bookmark("7", `,"annotations":{"k8s.io/initial-events-end":"true"}`), watch.body)}, true, []string{"stream"}},
	} {
		t.Run(name, func(t *testing.T) {
			read(t, func(config *Config[*corev1.Pod]) { config.PagedList = !c.stream }, func(r *reading) {
				r.want(c.requests, []string{"=7 a,b", ".", "+8 c", "-9 a", ".", "@10 ", "."})
				s := r.loop.Status()
				if s.State != status.ReflectorWatching || s.ResourceVersion != "10" || !s.WatchOpen || s.List.Objects != 2 || s.List.Total != 2 || s.LastError != nil {
					r.Errorf("status %+v", s)
				}
				if lists := s.Traffic.ListsBy; !maps.Equal(lists, map[status.Reason]int{status.ReasonFirst: 1}) {
					r.Errorf("lists %v", lists)
				}
			}, c.answers...)
		})
	}
}

// An expired watch makes the loop list again after a wait, at the version of the sink or later.
// Guarantees: R9
func TestExpiredWatchListsAgain(t *testing.T) {
	read(t, nil, func(r *reading) {
		if s := r.loop.Status(); s.State != status.ReflectorBackoff || s.RetryAt.IsZero() || s.Failures != 1 || s.ResourceVersion != "8" {
			r.Errorf("status %+v", s)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		r.want([]string{"list 0", "watch 7", "list 8", "watch 20"}, []string{"=7 a", ".", "+8 b", ".", "=20 b", "."})
		s := r.loop.Status()
		want := map[status.Reason]int{status.ReasonFirst: 1, status.ReasonExpired: 1}
		if s.State != status.ReflectorWatching || !maps.Equal(s.Traffic.ListsBy, want) {
			r.Errorf("status %+v", s)
		}
		var states []status.ReflectorState
		for _, t := range s.Transitions {
			states = append(states, t.State)
		}
		if want := []status.ReflectorState{status.ReflectorListing, status.ReflectorWatching, status.ReflectorBackoff, status.ReflectorListing, status.ReflectorWatching}; !slices.Equal(states, want) {
			r.Errorf("states %v, want %v", states, want)
		}
	}, podList("7", pod("3", "a")), watched(event("ADDED", pod("8", "b")), event("ERROR", expired)),
		podList("20", pod("8", "b")))
}

// A change that is older than the sink does not reach it.
// Guarantees: R6
func TestOlderChangeDoesNotReachTheSink(t *testing.T) {
	read(t, nil, func(r *reading) {
		if failed := r.failed.get(); len(failed) != 1 || !errors.Is(failed[0], fetch.ErrWentBack) {
			r.Errorf("failures %v", failed)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if got, want := r.sink.lines.get(), []string{"=7 a", ".", "=6 a", "."}; !slices.Equal(got, want) {
			r.Errorf("the sink got %q, want %q", got, want)
		}
		if s := r.loop.Status(); s.Restored != 1 {
			r.Errorf("status %+v", s)
		}
	}, podList("7", pod("3", "a")), watched(event("MODIFIED", pod("5", "a"))), podList("6", pod("5", "a")))
}

// The loop reports the key of an undecodable object to the sink, and goes on.
// Guarantees: R17
func TestUndecodableObjectStopsNothing(t *testing.T) {
	broken := strings.Replace(pod("8", "x"), `"metadata"`, `"spec":[],"metadata"`, 1)
	read(t, nil, func(r *reading) {
		r.want([]string{"list 0", "watch 7"}, []string{"=7 a,x!", ".", "@8 x!", "+9 b", "."})
		if s, failed := r.loop.Status(), r.failed.get(); s.State != status.ReflectorWatching || len(failed) != 0 {
			r.Errorf("status %+v, failures %v", s, failed)
		}
	}, podList("7", pod("3", "a"), broken), watched(event("MODIFIED", broken), event("ADDED", pod("9", "b"))))
}

// The loop reports each failure, waits, and tries again until a list succeeds.
// Guarantees: R8, R12
func TestFailuresWait(t *testing.T) {
	down := answer{code: http.StatusInternalServerError, body: "down"}
	read(t, nil, func(r *reading) {
		began := time.Now()
		for r.loop.Status().State != status.ReflectorWatching {
			s, failed := r.loop.Status(), r.failed.get()
			if s.State != status.ReflectorBackoff || s.Failures != len(failed) || s.LastError == nil || s.RetryAt.Before(time.Now()) {
				r.Fatalf("status %+v after %d failures", s, len(failed))
			}
			<-time.After(time.Until(s.RetryAt) + 1)
			synctest.Wait()
		}
		if failed, took := r.failed.get(), time.Since(began); len(failed) != 3 || took <= 0 || took > 3*time.Minute {
			r.Errorf("%d failures, %s", len(failed), took)
		}
		r.want([]string{"list 0", "list 0", "list 0", "list 0", "watch 7"}, []string{"=7 a", "."})
	}, down, down, down, podList("7", pod("3", "a")))
}

// Resumed is called when a watch resumes after a failure, with the time without a watch. A watch that the server ends is
// no failure.
// Guarantees: R7, R23
func TestResumedOnlyAfterAFailure(t *testing.T) {
	var resumed []time.Duration
	ended := func(events string) answer { return answer{body: events} }
	read(t, func(c *Config[*corev1.Pod]) {
		c.Resumed = func(away time.Duration, _ bool) { resumed = append(resumed, away) }
	}, func(r *reading) {
		<-time.After(time.Minute)
		synctest.Wait()
		r.want([]string{"list 0", "watch 7", "watch 8", "watch 9", "watch 9"},
			[]string{"=7 a", ".", "+8 b", ".", "+9 c", "."})
		if len(resumed) != 1 || resumed[0] < 100*time.Millisecond || resumed[0] > time.Second {
			r.Errorf("resumed after %v, want once", resumed)
		}
	}, podList("7", pod("3", "a")), ended(event("ADDED", pod("8", "b"))), ended(event("ADDED", pod("9", "c"))),
		answer{code: http.StatusServiceUnavailable, body: "down"}, watched())
}

// While the server is away, the time of the resource version stands still, so that readers see how old the store is.
// Guarantees: R13
func TestResourceVersionTimeStandsStillDuringAnOutage(t *testing.T) {
	down := answer{code: http.StatusServiceUnavailable, body: "down"}
	answers := []answer{podList("7", pod("3", "a")), {body: event("ADDED", pod("8", "b"))}}
	for range 100 {
		answers = append(answers, down)
	}
	read(t, nil, func(r *reading) {
		began := r.loop.Status().ResourceVersionTime
		if began.IsZero() {
			r.Error("no time")
		}
		for range 10 {
			<-time.After(time.Minute)
			synctest.Wait()
			if s := r.loop.Status(); s.State != status.ReflectorBackoff || !s.ResourceVersionTime.Equal(began) {
				r.Errorf("status %+v, want version 8 since %v", s, began)
			}
		}
	}, answers...)
}

// Relist lists everything again, also while a watch is open.
// Guarantees: R23
func TestRelist(t *testing.T) {
	why := errors.New("why")
	read(t, nil, func(r *reading) {
		r.loop.Relist(why)
		synctest.Wait()
		if failed := r.failed.get(); len(failed) != 1 || !errors.Is(failed[0], fetch.ErrDiverged) || !errors.Is(failed[0], why) {
			r.Errorf("failures %v", failed)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := r.loop.Status().Traffic.ListsBy[status.ReasonAudit]; n != 1 {
			r.Errorf("%d lists after an audit; requests %q", n, r.server.requests.get())
		}
	}, podList("7", pod("3", "a")), watched(), podList("9", pod("3", "a")))
}

// After a suspension of the system, a watch resumes at once. A wall clock that is set back is no suspension.
// Guarantees: R18
func TestWatchResumesAfterASuspension(t *testing.T) {
	read(t, nil, func(r *reading) {
		<-time.After(time.Minute)
		for _, c := range []struct {
			jump    time.Duration
			watches int
		}{{-time.Hour, 1}, {time.Second, 1}, {time.Hour, 2}, {0, 2}, {time.Hour, 3}} {
			r.asleep.Add(int64(c.jump))
			<-time.After(6 * time.Second)
			synctest.Wait()
			if s := r.loop.Status(); s.Traffic.Watches != c.watches || !s.WatchOpen || s.Failures > 1 {
				r.Errorf("after a jump of %v: %d watches, status %+v", c.jump, s.Traffic.Watches, s)
			}
		}
		r.want([]string{"list 0", "watch 7", "watch 7", "watch 7"}, []string{"=7 a", "."})
		for _, err := range r.failed.get() {
			if !errors.Is(err, transport.ErrSuspended) {
				r.Error(err)
			}
		}
	}, podList("7", pod("3", "a")))
}

// A watch that worked resets the backoff: the failure that ends it is the first, however many there were before. Others
// back off.
// Guarantees: R12
func TestWatchThatWorkedResetsTheBackoff(t *testing.T) {
	for name, c := range map[string]struct {
		watch  answer
		worked bool
	}{
		"stood for a while": {answer{breaks: 10 * time.Second}, true},
		"an event":          {answer{body: event("ADDED", pod("8", "b")), breaks: time.Second}, true},
		"a bookmark":        {answer{body: bookmark("8", ""), breaks: time.Second}, true},
		"nothing":           {answer{breaks: 9 * time.Second}, false},
		"an error event":    {answer{body: event("ERROR", `{"kind":"Status","status":"Failure","code":500}`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			answers := []answer{podList("7", pod("3", "a"))}
			for range 10 {
				answers = append(answers, c.watch)
			}
			read(t, nil, func(r *reading) {
				for r.loop.Status().Traffic.Watches <= 10 {
					<-time.After(time.Second)
					synctest.Wait()
				}
				want := 10
				if c.worked {
					want = 1
				}
				if s := r.loop.Status(); s.Failures != want || len(r.failed.get()) != 10 {
					r.Errorf("%d failures in a row, want %d; status %+v", s.Failures, want, s)
				}
			}, answers...)
		})
	}
}

// Watches that work, and then need the next list, do not reset the backoff: the server would have to list without end.
// Guarantees: R9, R12
func TestListsBackOffAlthoughWatchesWork(t *testing.T) {
	var answers []answer
	for i := range 1000 {
		answers = append(answers, podList(fmt.Sprint(10*i+7), pod("3", "a")),
			watched(event("ADDED", pod(fmt.Sprint(10*i+8), "b")), event("ERROR", expired)))
	}
	read(t, nil, func(r *reading) {
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if s := r.loop.Status(); s.Traffic.Lists < 20 || s.Traffic.Lists > 90 || s.Failures < 20 {
			r.Errorf("%d lists, %d failures", s.Traffic.Lists, s.Failures)
		}
	}, answers...)
}

// Even a watch that has just been opened, after failures, resumes at once after a suspension.
// Guarantees: R12, R18
func TestSuspensionIsNoFailureOfTheServer(t *testing.T) {
	down := answer{code: http.StatusServiceUnavailable, body: "down"}
	read(t, nil, func(r *reading) {
		for !r.loop.Status().WatchOpen {
			<-time.After(time.Second)
		}
		r.asleep.Store(int64(time.Hour))
		<-time.After(7 * time.Second)
		synctest.Wait()
		if s := r.loop.Status(); !errors.Is(s.LastError, transport.ErrSuspended) || s.Failures != 1 || !s.WatchOpen {
			r.Errorf("status %+v", s)
		}
	}, podList("7", pod("3", "a")), down, down, down, down, down, down)
}

// An error of the sink ends Run, which returns that error.
func TestErrorOfTheSinkEndsRun(t *testing.T) {
	full := errors.New("full")
	read(t, func(c *Config[*corev1.Pod]) { c.Sink.(*records).err = full }, func(r *reading) {
		r.ends = full
		r.want([]string{"list 0"}, []string{"=7 a", "."})
		if failed := r.failed.get(); len(failed) != 0 {
			r.Errorf("failures %v", failed)
		}
	}, podList("7", pod("3", "a")))
}

// Text names the state and the failure, and a loop that has ended.
// Guarantees: R13
func TestText(t *testing.T) {
	for _, c := range []struct {
		status status.Reflector
		want   string
	}{
		{status.Reflector{State: status.ReflectorListing}, "Listing"},
		{status.Reflector{State: status.ReflectorBackoff, LastError: errors.New("down")}, "Backoff after: down"},
		{status.Reflector{}, "Idle"},
		{status.Reflector{NoWatchSince: time.Now()}, "Run has ended"},
		{status.Reflector{State: status.ReflectorState(9)}, "ReflectorState(9)"},
	} {
		if got := Text(&c.status); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// exits is a sink whose Flush ends its goroutine.
type exits struct{ Sink[*corev1.Pod] }

func (exits) Flush() error { runtime.Goexit(); return nil }

// A step whose goroutine ends fails, and the loop goes on. A goroutine that ends between steps, where a retry would not
// wait, ends the loop.
func TestGoroutineThatEndsBetweenSteps(t *testing.T) {
	sink := func(c *Config[*corev1.Pod]) { c.Sink = exits{c.Sink} }
	read(t, sink, func(r *reading) {
		r.ends = run.ErrGoroutineEnded
		r.want([]string{"list 0"}, []string{"=7 a"})
	}, podList("7", pod("3", "a")))
	exited := false
	transform := func(c *Config[*corev1.Pod]) {
		c.Decoder.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
			if !exited {
				exited = true
				runtime.Goexit()
			}
			return pod, nil
		}
	}
	read(t, transform, func(r *reading) {
		time.Sleep(time.Minute)
		if got := r.failed.get(); len(got) != 1 || !errors.Is(got[0], run.ErrGoroutineEnded) {
			r.Errorf("failures %v", got)
		}
		r.want([]string{"list 0", "list 0", "watch 7"}, []string{"=7 a", "."})
	}, podList("7", pod("3", "a")), podList("7", pod("3", "a")))
}
