package set

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

type config = Config[string, *corev1.Pod]

// A member that is added while the set runs starts. One that is removed gives its deletions, or nothing, and leaves no
// watch, no goroutine and no log line. One that is added again at once follows the one before.
// Guarantees: N1
func TestMembersComeAndGoWhileTheSetRuns(t *testing.T) {
	onStage(t, config{}, []string{"a", "b"}, func(s *stage) {
		s.create("a", "x", "v=1")
		s.create("b", "y", "v=1")
		rec := &recorder{}
		s.set.Subscribe(rec, SubscriptionConfig{})
		s.add("a")
		s.run()
		rec.of("a").Want(s.T, "add ns/x 1 initial=true")
		goroutines := s.goroutines()
		for _, how := range []Removal{Deliver, Silent} {
			s.add("b")
			rec.of("b").Want(s.T, "add ns/y 1 initial=true")
			s.wantMembers("a", "b")
			if !s.set.Remove("b", how) || s.set.Remove("b", how) {
				s.Error("Remove must return true once")
			}
			s.wantMembers("a")
			s.wantWatchers("b", 0)
			if how == Deliver {
				rec.of("b").Want(s.T, "delete ns/y 1 final=false")
			} else {
				rec.forget("b").Want(s.T)
			}
			if _, err := s.set.Store("b"); !errors.Is(err, ErrNotMember) || !strings.Contains(err.Error(), "b") {
				s.Errorf("Store of a member that was removed: %v", err)
			}
		}
		if n := s.goroutines(); n != goroutines {
			s.Errorf("%d goroutines before, %d after", goroutines, n)
		}
		if lines := s.log.Take(); len(lines) > 0 {
			s.Errorf("log: %s", lines)
		}

		release := rec.hold()
		s.create("a", "z", "v=1")
		synctest.Wait() // its call is under way
		s.set.Remove("a", Deliver)
		s.add("a")
		s.wantMembers("a")
		if state := s.set.Status()[0].State; state != status.MemberWaiting {
			s.Errorf("while the member before has a call under way, the next one is %v", state)
		}
		release()
		rec.of("a").Want(s.T, "add ns/z 1 initial=false", "delete ns/x 1 final=false", "delete ns/z 1 final=false",
			"add ns/x 1 initial=true", "add ns/z 1 initial=true")
	})
}

// What a handler has not received when its member is removed in silence, it never receives.
// Guarantees: N1
func TestSilentRemovalBeginsNoCall(t *testing.T) {
	onStage(t, config{}, []string{"a"}, func(s *stage) {
		s.create("a", "x", "v=1")
		s.create("a", "y", "v=1")
		rec := &recorder{}
		release := rec.hold()
		s.set.Subscribe(rec, SubscriptionConfig{})
		s.add("a")
		s.run()
		synctest.Wait() // a call is under way
		s.set.Remove("a", Silent)
		release()
		rec.of("a").Want(s.T, "add ns/x 1 initial=true")
		s.wantWatchers("a", 0)
	})
}

// With one start at a time, a member that hangs delays others by seconds, one that is forbidden or absent by nothing.
// WaitSynced and Status name them, and the log has a line for the one that hangs, for hours.
// Guarantees: N2, N4
func TestHungMemberDelaysNoOther(t *testing.T) {
	onStage(t, config{Starts: 1}, []string{"absent", "fine", "forbidden", "hung"}, func(s *stage) {
		s.create("fine", "x", "v=1")
		s.hang("hung")
		s.servers["forbidden"].server.Inject(informertest.Fault{Error: world.Forbidden})
		s.servers["absent"].pods.Unregister()
		s.add("hung", "forbidden", "absent", "fine")
		s.run()
		begun := time.Now()
		s.must(s.set.WaitSynced(s.Context(), "fine"))
		if took := time.Since(begun); took < startPatience || took > 2*startPatience {
			s.Errorf("the others were delayed by %v", took)
		}
		time.Sleep(time.Hour)
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		err := s.set.WaitSynced(ctx)
		var unsynced *NotSyncedError
		if !errors.As(err, &unsynced) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, informer.ErrAbsent) {
			s.Fatalf("WaitSynced: %v", err)
		}
		var names []string
		for _, m := range unsynced.Members {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, []string{"absent", "forbidden", "hung"}) || unsynced.All != 4 {
			s.Errorf("WaitSynced: %v", err)
		}
		for _, m := range s.set.Status() {
			if synced := m.Name == "fine"; synced != (m.State == status.MemberSynced) || !synced && m.State != status.MemberUnsynced {
				s.Errorf("%s is %v", m.Name, m.State)
			}
		}
		if lines := s.log.Take(); len(lines) != 1 || !strings.Contains(lines[0], "hung") {
			s.Errorf("log: %q", lines)
		}
	})
}

// Few members are in their first list at once, whatever their number.
// Guarantees: N4
func TestStartsAreBounded(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	onStage(t, config{Starts: 2}, names, func(s *stage) {
		for _, name := range names {
			s.servers[name].server.Inject(informertest.Fault{Delay: 2 * time.Second})
		}
		s.add(names...)
		s.run()
		for synced := 0; synced < len(names); {
			synctest.Wait()
			starting, waits := 0, false
			for _, m := range s.set.Status() {
				switch m.State {
				case status.MemberStarting:
					starting++
				case status.MemberWaiting:
					waits = true
				}
			}
			if starting > 2 || waits && starting < 2 {
				s.Fatalf("%d members start at once, others wait: %v", starting, waits)
			}
			time.Sleep(500 * time.Millisecond)
			synced = 0
			for _, m := range s.set.Status() {
				if m.State == status.MemberSynced {
					synced++
				}
			}
		}
	})
}

// An idle member has the goroutines of its informer, which calls of Run and a watch need, and no other. Nor do
// handlers. Guarantees: N4
func TestIdleMemberHasOnlyItsInformersGoroutines(t *testing.T) {
	onStage(t, config{}, []string{"a", "b", "c"}, func(s *stage) {
		s.set.Subscribe(&recorder{}, SubscriptionConfig{})
		s.run()
		before := s.goroutines()
		s.add("a", "b", "c")
		s.must(s.set.WaitSynced(s.Context()))
		time.Sleep(time.Minute)
		if added := s.goroutines() - before; added != 3*2 {
			s.Errorf("three idle members have %d goroutines", added)
		}
	})
}

// A member that is held stays until the last release, which ends it if nothing wants it.
// Guarantees: N3
func TestLastReleaseEndsAMemberThatNothingWants(t *testing.T) {
	onStage(t, config{}, []string{"a", "b"}, func(s *stage) {
		s.create("a", "x", "v=1")
		rec := &recorder{}
		s.set.Subscribe(rec, SubscriptionConfig{})
		s.run()
		hold := func() func() {
			i, release, err := s.set.Hold("a", s.informer("a"))
			s.must(err)
			s.must(i.WaitSynced(s.Context()))
			return release
		}
		first, second := hold(), hold()
		rec.of("a").Want(s.T, "add ns/x 1 initial=true")
		s.want(Silent, "b") // it never wanted a
		first()
		first()
		s.wantMembers("a", "b")
		second()
		s.wantMembers("b")
		rec.of("a").Want(s.T, "delete ns/x 1 final=false")

		s.want(Silent, "a", "b")
		third := hold()
		third()
		s.wantMembers("b", "a")
		third = hold()
		rec.of("a").Want(s.T, "add ns/x 1 initial=true")
		s.want(Silent)
		s.wantMembers("a")
		s.must(s.set.Add("a", nil)) // somebody holds it
		third()
		s.wantMembers("a")
		if !s.set.Remove("a", Silent) {
			s.Error("Remove: false")
		}
		s.wantMembers()
		rec.of("a").Want(s.T)
		s.wantWatchers("a", 0)
		s.wantWatchers("b", 0)
	})
}

// An informer with a wrong configuration is an error of its member, which keeps its place.
// Guarantees: N2
func TestMemberThatEndsByItselfKeepsItsPlace(t *testing.T) {
	onStage(t, config{}, []string{"a", "b"}, func(s *stage) {
		wrong := func() *informer.Informer[*corev1.Pod] {
			return informer.New(s.servers["a"].client, informer.Resource{GroupVersionResource: world.PodGVR, LabelSelector: "a=("},
				world.Quiet[*corev1.Pod]())
		}
		s.must(s.set.Add("a", wrong))
		s.add("b")
		s.run()
		s.must(s.set.WaitSynced(s.Context(), "b"))
		err := s.set.WaitSynced(s.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "1 of 2 members are not synced: a: ") || !strings.Contains(err.Error(), "LabelSelector") {
			s.Errorf("WaitSynced: %v", err)
		}
		time.Sleep(time.Hour)
		s.want(Deliver, "a", "b")
		s.wantMembers("a", "b")
		if m := s.set.Status()[0]; m.State != status.MemberEnded || m.Err == nil || !m.Wanted {
			s.Errorf("status: %+v", m)
		}
		if lines := s.log.Take(); len(lines) != 1 || !strings.Contains(lines[0], "member=a") {
			s.Errorf("log: %q", lines)
		}
		s.set.Remove("a", Deliver)
		s.add("a")
		s.must(s.set.WaitSynced(s.Context()))
	})
}

// Wrong calls are errors that name the member, before, while and after the set runs.
// Guarantees: N2
func TestWrongCalls(t *testing.T) {
	onStage(t, config{Name: func(id string) string { return "cluster " + id }}, []string{"a", "b", "c"}, func(s *stage) {
		s.add("a")
		wants := func(what string, err, target error, text string) {
			s.Helper()
			if err == nil || target != nil && !errors.Is(err, target) || !strings.Contains(err.Error(), text) {
				s.Errorf("%s: %v", what, err)
			}
		}
		wants("Add twice", s.set.Add("a", s.informer("a")), ErrPresent, "cluster a")
		none := func() *informer.Informer[*corev1.Pod] { return nil }
		wants("Add of nothing", s.set.Add("b", none), nil, "cluster b")
		wants("Add without a function", s.set.Add("b", nil), nil, "cluster b")
		_, _, err := s.set.Hold("b", none)
		wants("Hold of nothing", err, nil, "cluster b")
		past, cancel := context.WithCancel(s.Context())
		cancel()
		wants("WaitSynced before Run", s.set.WaitSynced(past), informer.ErrNotStarted, "cluster a")
		wants("WaitSynced of another", s.set.WaitSynced(past, "z"), ErrNotMember, "cluster z")
		s.add("b")
		s.set.Remove("b", Deliver) // before Run
		if s.set.Remove("z", Deliver) {
			s.Error("Remove of another: true")
		}
		s.run()
		synctest.Wait()
		wants("second Run", s.set.Run(s.Context()), informer.ErrRunning, "")
		hung := s.hang("b")
		s.add("b")
		waits := make(chan error, 2)
		go func() { waits <- s.set.WaitSynced(s.Context()) }()
		go func() { waits <- s.set.WaitSynced(s.Context(), "b") }()
		synctest.Wait()
		s.set.Remove("b", Deliver)
		var got []error
		for range 2 {
			if err := <-waits; err != nil {
				got = append(got, err)
			}
		}
		if len(got) != 1 {
			s.Errorf("waits for a member that was removed: %v", got)
		}
		wants("WaitSynced of the removed member", errors.Join(got...), ErrNotMember, "cluster b")
		hung()
		_, release, err := s.set.Hold("c", s.informer("c"))
		s.must(err)
		s.stop()
		release()
		wants("Add after the end", s.set.Add("b", s.informer("b")), informer.ErrStopped, "cluster b")
		s.want(Deliver, "a", "b")
		s.wantMembers("cluster a")
		if _, err := s.set.Store("a"); err != nil {
			s.Errorf("Store after the end: %v", err)
		}
	})
}

// Members that never started end with the set, so that nobody waits for them.
// Guarantees: N1
func TestEndOfTheSetEndsMembersThatWait(t *testing.T) {
	onStage(t, config{Starts: 1}, []string{"a", "b"}, func(s *stage) {
		s.hang("a")
		s.add("a", "b")
		s.run()
		synctest.Wait()
		sub := s.set.Subscribe(&recorder{}, SubscriptionConfig{})
		s.stop()
		if err := s.set.WaitSynced(s.Context()); !errors.Is(err, informer.ErrStopped) {
			s.Errorf("WaitSynced: %v", err)
		}
		if err := sub.WaitSynced(s.Context()); !errors.Is(err, informer.ErrStopped) || !errors.Is(sub.Err(), informer.ErrStopped) {
			s.Errorf("WaitSynced of a subscription: %v; Err: %v", err, sub.Err())
		}
		for _, m := range s.set.Status() {
			if m.State != status.MemberEnded {
				s.Errorf("%s is %v", m.Name, m.State)
			}
		}
	})
}

// foreign is a context of another implementation: those that derive from it end a moment later.
type foreign struct{ context.Context }

func (f foreign) Value(any) any { return nil }

// The end of the set is no removal: stores stay readable, and no handler receives a deletion.
// Guarantees: N1
func TestEndOfTheSetKeepsTheStores(t *testing.T) {
	for range 50 {
		onStage(t, config{}, []string{"a"}, func(s *stage) {
			s.create("a", "x", "v=1")
			rec := &recorder{}
			s.set.Subscribe(rec, SubscriptionConfig{})
			s.add("a")
			ctx, cancel := context.WithCancel(s.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.set.Run(foreign{ctx}) }()
			rec.of("a").Want(s.T, "add ns/x 1 initial=true")
			cancel()
			<-ended
			rec.of("a").Want(s.T)
			if store, err := s.set.Store("a"); err != nil || store.Len() != 1 {
				s.Errorf("the store has lost its objects: %v", err)
			}
		})
	}
}
