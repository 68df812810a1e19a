package shard

import (
	"testing"
	"time"

	"github.com/typedinformer/informer/informertest"
)

// lists returns how often the informer of a listed.
func (a *actor) lists() (n int) {
	for _, r := range a.pods.Status().Reflectors {
		n += r.Traffic.Lists
	}
	return n
}

// Slots that move away and come back within keepPeriod cost no list. Those that stay away are dropped after it.
func TestObjectsAreKeptForAWhile(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 100)
		// The session asks for the first shard before the informer runs, and waits for it afterwards. If the list were complete by then, the
		// informer would list again.
		s.server.Inject(informertest.Fault{Delay: time.Second, Match: func(r informertest.Request) bool { return r.Resource == podsResource }})
		keep := func(a *actor, _ *Config) { a.keeps = keepPeriod }
		a := s.join("a", keep)
		<-time.After(settle)
		for _, name := range []string{"b", "c"} {
			b := s.join(name, keep)
			<-time.After(settle)
			if st := a.Status(); st.Owned != st.Planned || st.Held != 16 || b.Status().Owned != 16-st.Owned {
				t.Errorf("the status is %+v", st)
			}
			b.leave()
			<-time.After(settle)
			s.wantSettled(a)
		}
		if n := a.lists(); n != 1 {
			t.Errorf("a listed %d times", n)
		}
		b := s.join("d", keep)
		<-time.After(keepPeriod + settle)
		s.wantSettled(a, b)
		if n := a.lists(); n != 1 {
			t.Errorf("a listed %d times to drop objects", n)
		}
	})
}

// A replica with slow lists still gains slots while the group keeps changing.
func TestListsEndWhileTheGroupChanges(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 100)
		many := func(_ *actor, c *Config) { c.Slots = 256 }
		slow := s.join("slow", many)
		others := []*actor{s.join("a", many), s.join("b", many), s.join("c", many), s.join("d", many), s.join("e", many)}
		<-time.After(2 * settle)
		s.server.Inject(informertest.Fault{Delay: 7 * time.Second, Match: func(r informertest.Request) bool {
			return r.Header.Get("User-Agent") == "slow" && r.Resource == podsResource
		}})
		before := slow.Status()
		for _, a := range others[:4] { // the list for the slots of the first ends before the last leaves
			a.cancel()
			<-time.After(3 * time.Second)
		}
		if st := slow.Status(); st.Gained == before.Gained {
			t.Errorf("the status is %+v, and was %+v", st, before)
		}
		<-time.After(3 * settle)
		for _, a := range []*actor{slow, others[4]} {
			if st := a.Status(); st.Owned != st.Planned {
				t.Errorf("the status is %+v", st)
			}
		}
	})
}
